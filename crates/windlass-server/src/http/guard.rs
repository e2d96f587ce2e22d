//! What every request passes on its way in and out: a request id, checks against pages of other sites, who is asking, and
//! the count of what was answered.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::field::Empty;
use tracing::{Instrument, Span};
use windlass::clock::{Deadline, Stopwatch};
use windlass::job::Traceparent;
use windlass::limits::{KEYS_TRUSTED_FOR, REQUEST_MAX};
use windlass::similar::similar;

use super::access::Access;
use super::app::App;
use super::auth::{Pass, Who};
use super::metrics::RouteCounter;
use super::path::shown;
use super::problem::Problem;
use super::trace::{TRACEPARENT, start_trace, trace_of};
use crate::limits;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The store's time, which rules (M7): a client that counts on it need not trust its own clock.
static STORE_TIME: HeaderName = HeaderName::from_static("windlass-time");

/// No other site may read an answer by embedding it.
static RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// Nothing is fetched by what is not a page, and nobody may put it into a frame.
const NO_FRAMES: &str = "default-src 'none'; frame-ancestors 'none'";

/// What the guard of one route knows.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) app: App,
    /// Where its requests are counted.
    pub(crate) counter: Arc<RouteCounter>,
    /// Who may use it.
    pub(crate) access: Access,
    /// Whether its path names a job.
    pub(crate) names_job: bool,
    /// The parameters behind the question mark that it knows.
    pub(crate) parameters: Arc<[String]>,
}

/// Lets a request through, or answers it.
pub(crate) async fn guard(State(gate): State<Gate>, mut request: Request, next: Next) -> Response {
    let watch = Stopwatch::start();
    // What the body takes is given back when the request is answered.
    let room = gate.app.bodies().room();
    request.extensions_mut().insert(room.clone());
    let answering = async {
        match admit(&gate, &mut request).await {
            Err(problem) => problem.into_response(),
            Ok(pass) => {
                let response = next.run(request).await;
                still_admitted(&gate, pass, watch.elapsed(), response).await
            }
        }
    };
    // Checking the key and the work itself have this long together.
    let response = Deadline::after(REQUEST_MAX).scope(answering).await;
    gate.counter.answered(response.status(), watch.elapsed());
    drop(room);
    response
}

/// The answer to a request that lasted, unless its key was revoked meanwhile: jobs claimed for it then go back.
async fn still_admitted(gate: &Gate, pass: Option<Pass>, took: Duration, response: Response) -> Response {
    match pass {
        // A refusal tells nothing that its caller may not know.
        Some(pass) if took > KEYS_TRUSTED_FOR && response.status().is_success() => {
            match pass.caller(&gate.app).await {
                Ok(_) => response,
                Err(problem) => problem.into_response(),
            }
        }
        Some(_) | None => response,
    }
}

/// Marks every answer, refusals of strange paths and methods included.
pub(crate) async fn stamp(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let id = request_id(&app, request.headers());
    let (method, watch) = (request.method().clone(), Stopwatch::start());
    // The route, not the path: that may hold names which are nobody's business.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let span = span(&app, &method, route, request.headers_mut());
    let trace = start_trace(request.headers_mut(), &app.store().environment().entropy);
    let mut response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    if response.status().is_server_error() {
        span.record("otel.status_code", "error");
    }
    log(&id, &method, route, response.status(), watch.elapsed());
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID.clone(), id);
    headers.insert(TRACEPARENT.clone(), trace);
    let now = app.store().environment().clock.now().to_string();
    headers.insert(STORE_TIME.clone(), HeaderValue::from_str(&now).expect("a time is a header value"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY.clone(), HeaderValue::from_static("same-origin"));
    // A page has a policy of its own, which says so as well.
    if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(NO_FRAMES));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// The whole answer to what could not be read as a request, and was to be refused with this status.
pub(crate) fn unreadable(app: &App, status: u16) -> Vec<u8> {
    let (status, code, message) = match status {
        414 => (StatusCode::URI_TOO_LONG, "address_too_long", "the address is longer than this server reads"),
        431 => {
            let message = "the head of the request is larger than this server reads";
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", message)
        }
        _ => (StatusCode::BAD_REQUEST, "not_http", "what was sent is no request of HTTP/1.1"),
    };
    let body = serde_json::to_string(&Problem::new(status, code, message).body()).expect("it is plain data");
    let (id, now, length) = (request_id(app, &HeaderMap::new()), app.now(), body.len());
    let id = id.to_str().unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-request-id: {id}\r\nwindlass-time: {now}\r\n\
         x-content-type-options: nosniff\r\ncross-origin-resource-policy: same-origin\r\n\
         content-security-policy: {NO_FRAMES}\r\ncache-control: no-store\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n"
    );
    [head, body].concat().into_bytes()
}

/// A request as part of a trace: its client's, or one of its own, to which what it submits belongs then as well.
#[cfg_attr(not(feature = "otel"), allow(unused_variables, reason = "traces are sent by the feature"))]
fn span(app: &App, method: &Method, route: &str, headers: &mut HeaderMap) -> Span {
    #[cfg(feature = "otel")]
    let own = crate::telemetry::adopt(headers, &app.store().environment().entropy);
    #[cfg(not(feature = "otel"))]
    let own: Option<String> = None;
    tracing::debug_span!(
        parent: None,
        "request",
        otel.name = format!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method.as_str(),
        http.route = route,
        http.response.status_code = Empty,
        own,
        traceparent = trace_of(headers).as_ref().map(Traceparent::as_str),
    )
}

/// One line per request; those that failed by the server's fault stand out.
fn log(id: &HeaderValue, method: &Method, route: &str, status: StatusCode, took: Duration) {
    let (id, status) = (id.to_str().unwrap_or_default(), status.as_u16());
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    if status >= 500 {
        tracing::warn!(id, %method, route, status, millis, "request");
    } else {
        tracing::debug!(id, %method, route, status, millis, "request");
    }
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

async fn admit(gate: &Gate, request: &mut Request) -> Result<Option<Pass>, Problem> {
    refuse_other_sites(request.method(), request.headers())?;
    if gate.access == Access::Open {
        refuse_unknown_parameters(gate, request)?;
        return Ok(None);
    }
    let (pass, trace) = (Pass::of(request.headers()), trace_of(request.headers()));
    let mut caller = pass.caller(&gate.app).await?;
    gate.app.rates().take(&caller.id, gate.app.now()).map_err(|retry_after| {
        Problem::too_much("too_many_requests", "this key makes too many requests", retry_after)
    })?;
    // The store decides for every way in; here a route whose handler asked for nothing is refused all the same.
    if let Access::May(permission) = gate.access
        && !gate.names_job
    {
        caller.must(permission)?;
    }
    refuse_unknown_parameters(gate, request)?;
    caller.trace_id = trace.map(|trace| trace.id().to_owned());
    let extensions = request.extensions_mut();
    extensions.insert(Who(caller));
    extensions.insert(pass.clone());
    Ok(Some(pass))
}

/// A parameter that a route does not know would be left out of what it does, and nobody would be told.
fn refuse_unknown_parameters(gate: &Gate, request: &Request) -> Result<(), Problem> {
    let query = request.uri().query().unwrap_or_default();
    for (name, _) in form_urlencoded::parse(query.as_bytes()) {
        if !gate.parameters.iter().any(|known| *known == name) {
            let known = gate.parameters.iter().map(String::as_str);
            let shown = shown(&name);
            let closest = similar(&shown, known).first().map(|closest| (*closest).to_owned());
            let hint = closest.as_ref().map(|closest| format!(": did you mean `{closest}`?"));
            let message = format!("is not a parameter of this route{}", hint.unwrap_or_default());
            let problem = Problem::invalid(shown, message).with("problem", "unknown_parameter");
            return Err(closest
                .into_iter()
                .fold(problem, |problem, closest| problem.with("closest", closest)));
        }
    }
    Ok(())
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
