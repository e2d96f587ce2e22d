//! What every request passes on its way in and out: a request id, checks against pages of other sites, who is asking, and
//! the count of what was answered.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use windlass::clock::Stopwatch;
use windlass::store::caller::Caller;

use super::app::App;
use super::auth::Who;
use super::metrics::RouteCounter;
use super::problem::Problem;
use super::trace::Trace;
use crate::limits;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the guard of one route knows.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) app: App,
    /// Where its requests are counted.
    pub(crate) counter: Arc<RouteCounter>,
    /// Whether it answers without a key.
    pub(crate) is_open: bool,
}

/// Lets a request through, or answers it.
pub(crate) async fn guard(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let watch = Stopwatch::start();
    let response = match admit(&gate, &mut request).await {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    gate.counter.answered(response.status(), watch.elapsed());
    response
}

/// Marks every answer, refusals of strange paths and methods included.
pub(crate) async fn stamp(State(app): State<App>, request: Request, next: Next) -> Response {
    let id = request_id(&app, request.headers());
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID.clone(), id);
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// The id that a proxy gave the request, or a new one.
fn request_id(app: &App, headers: &HeaderMap) -> HeaderValue {
    let is_fit = |value: &&HeaderValue| {
        !value.is_empty()
            && value.len() <= limits::REQUEST_ID_CHARS_MAX
            && value.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    headers.get(&REQUEST_ID).filter(is_fit).cloned().unwrap_or_else(|| {
        let bits = app.store().environment().entropy.bits();
        HeaderValue::from_str(&format!("{bits:032x}")).expect("digits are a header value")
    })
}

async fn admit(gate: &Gate, request: &mut Request) -> Result<(), Problem> {
    refuse_other_sites(request.method(), request.headers())?;
    if gate.is_open {
        return Ok(());
    }
    let trace = Trace::of(request.headers());
    let mut caller = identify(&gate.app, request.headers()).await?;
    caller.trace_id = trace.as_ref().map(|trace| trace.id().to_owned());
    request.extensions_mut().insert(Who(caller));
    if let Some(trace) = trace {
        request.extensions_mut().insert(trace);
    }
    Ok(())
}

/// Who is asking.
async fn identify(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    if super::auth::has_keys(app.store()).await? {
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "a valid key is needed"));
    }
    refuse_foreign_hosts(headers)?;
    Ok(Caller::local())
}

/// A page of another site must not act through its reader's browser (there is no CORS either, so it reads nothing).
fn refuse_other_sites(method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let refused =
        || Problem::new(StatusCode::FORBIDDEN, "cross_site", "pages of other sites may not use this server");
    let is_visit = *method == Method::GET && text("sec-fetch-mode") == Some("navigate");
    match text("sec-fetch-site") {
        Some("same-origin" | "none") => Ok(()),
        // Following a link to a page is fine; it is the page itself that then asks.
        Some(_) if is_visit => Ok(()),
        Some(_) => Err(refused()),
        None => {
            let host = text("host").unwrap_or_default();
            let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from == host);
            if text("origin").is_none_or(is_own) { Ok(()) } else { Err(refused()) }
        }
    }
}

/// Without keys, being on this machine is the only proof there is: a name that an attacker points at it is none.
fn refuse_foreign_hosts(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let host = host.to_str().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_loopback || name.eq_ignore_ascii_case("localhost") {
        return Ok(());
    }
    let message = "without keys this server is for its own machine: ask it as localhost or 127.0.0.1";
    Err(Problem::new(StatusCode::FORBIDDEN, "foreign_host", message))
}
