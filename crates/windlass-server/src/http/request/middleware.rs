//! Middleware of every request: request id, cross-site checks, authentication, metrics.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tracing::field::Empty;
use tracing::{Instrument, Span};
use windlass::clock::{Deadline, Stopwatch};
use windlass::internal::ReadSource;
use windlass::job::{JobId, Traceparent};
use windlass::limits::{KEY_CACHE_TTL, REQUEST_MAX};
use windlass::similar::similar;
use windlass::store::caller::Caller;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::trace::{TRACEPARENT, start_trace, trace_of};
use crate::http::request::access::Access;
use crate::http::request::auth::{Credentials, CurrentCaller};
use crate::http::request::cors::FromAllowedSite;
use crate::http::request::path::shown;
use crate::http::request::response_budget::held;
use crate::http::request::strict;
use crate::http::routes::metrics::requests::RouteCounter;
use crate::limits;
use crate::server::Peer;

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The store's time, the reference for all deadlines: clients can use it instead of their own clock.
static STORE_TIME: HeaderName = HeaderName::from_static("windlass-time");

/// Other sites may not embed a response.
static RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// Responses that are not pages load nothing and may not be framed.
const NO_FRAMES: &str = "default-src 'none'; frame-ancestors 'none'";

/// What the middleware of one route needs to know.
#[derive(Clone)]
pub(crate) struct RouteGuard {
    pub(crate) app: App,
    /// The counter of its requests.
    pub(crate) counter: Arc<RouteCounter>,
    /// Who may use it.
    pub(crate) access: Access,
    /// Whether its path names a job.
    pub(crate) names_job: bool,
    /// Whether a token of that job may be used.
    pub(crate) takes_tokens: bool,
    /// Whether its finished response may be replaced by an error: it changed nothing, or the change is undone.
    pub(crate) may_refuse: bool,
    /// Its known query parameters.
    pub(crate) parameters: Arc<[String]>,
}

/// Checks a request and runs it.
pub(crate) async fn guard(State(gate): State<RouteGuard>, mut request: Request, next: Next) -> Response {
    let watch = Stopwatch::start();
    let answering = async {
        match authenticate(&gate, &mut request).await {
            Err(problem) => problem.into_response(),
            Ok(pass) => {
                // The body's memory is released when the request is finished, the response's when it is sent.
                let source =
                    request.extensions().get::<CurrentCaller>().map(|who| ReadSource::from_caller(&who.0));
                let room = gate.app.bodies().reserve_for(source.as_ref());
                request.extensions_mut().insert(room.clone());
                let is_safe = request.method().is_safe();
                let running = async {
                    match source {
                        Some(source) => source.scope(next.run(request)).await,
                        None => next.run(request).await,
                    }
                };
                let response = match &pass {
                    Some(pass) if is_safe => while_admitted(&gate, pass, running).await,
                    _ => running.await,
                };
                let response = still_admitted(&gate, pass, watch.elapsed(), response).await;
                held(response, &room, gate.may_refuse)
            }
        }
    };
    let _in_flight = gate.counter.begin();
    // The deadline for authentication and the request itself.
    let response = Deadline::after(REQUEST_MAX).scope(answering).await;
    gate.counter.answered(response.status(), watch.elapsed());
    response
}

/// Runs a read-only request, and stops it as soon as its key is revoked. Writes are not stopped, since they may be
/// committed already; [`still_admitted`] withholds their response.
async fn while_admitted(
    gate: &RouteGuard,
    pass: &Credentials,
    running: impl Future<Output = Response>,
) -> Response {
    let revoked = async {
        loop {
            tokio::time::sleep(KEY_CACHE_TTL).await;
            match pass.caller(&gate.app).await {
                Err(problem) if problem.is_unauthorized() => break problem,
                Ok(_) | Err(_) => {}
            }
        }
    };
    tokio::select! {
        biased;
        response = running => response,
        problem = revoked => problem.into_response(),
    }
}

/// Withholds the response of a long request if its key was revoked meanwhile; jobs claimed for it are released.
async fn still_admitted(
    gate: &RouteGuard,
    pass: Option<Credentials>,
    took: Duration,
    response: Response,
) -> Response {
    match pass {
        // An error response reveals nothing.
        Some(pass) if took > KEY_CACHE_TTL && response.status().is_success() => {
            match pass.caller(&gate.app).await {
                Ok(_) => response,
                Err(problem) => problem.into_response(),
            }
        }
        Some(_) | None => response,
    }
}

/// HSTS for a year.
const HSTS: &str = "max-age=31536000";

/// Adds common headers to every response, including errors for unknown paths and methods. `is_secure` says that browsers
/// connect over TLS.
pub(crate) async fn stamp(
    State((app, is_secure)): State<(App, bool)>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = request_id(&app, request.headers());
    let (method, watch) = (request.method().clone(), Stopwatch::start());
    // The route pattern and not the path, which may contain private names.
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let span = span(&app, &method, route, request.headers_mut());
    let trace = start_trace(request.headers_mut(), &app.store().environment().entropy);
    let mut response = match strict::check(&request) {
        Ok(()) => next.run(request).instrument(span.clone()).await,
        Err(problem) => problem.into_response(),
    };
    span.record("http.response.status_code", response.status().as_u16());
    if response.status().is_server_error() {
        span.record("otel.status_code", "error");
    }
    span.in_scope(|| log(&id, &method, route, response.status(), watch.elapsed()));
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID.clone(), id);
    headers.insert(TRACEPARENT.clone(), trace);
    let now = app.store().environment().clock.now().to_string();
    headers.insert(STORE_TIME.clone(), HeaderValue::from_str(&now).expect("a time is a header value"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(RESOURCE_POLICY.clone(), HeaderValue::from_static("same-origin"));
    if is_secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(HSTS));
    }
    // Pages have their own policy.
    if !headers.contains_key(header::CONTENT_SECURITY_POLICY) {
        headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(NO_FRAMES));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// The whole response to bytes that could not be parsed as a request.
pub(crate) fn unreadable(app: &App, status: u16) -> Vec<u8> {
    let (status, code, message) = match status {
        414 => (StatusCode::URI_TOO_LONG, "address_too_long", "the request's address is too long"),
        431 => {
            let message = "the request's headers are too large";
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head_too_large", message)
        }
        _ => (StatusCode::BAD_REQUEST, "not_http", "not a valid HTTP/1.1 request"),
    };
    let body = serde_json::to_string(&ApiError::new(status, code, message).body()).expect("it is plain data");
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

/// Puts a request in a trace: the client's, or a new one. Jobs it submits belong to the same trace.
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

/// Logs one line per request; server errors have a higher level.
fn log(id: &HeaderValue, method: &Method, route: &str, status: StatusCode, took: Duration) {
    let (id, status) = (id.to_str().unwrap_or_default(), status.as_u16());
    let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    if status >= 500 {
        tracing::warn!(id, %method, route, status, millis, "request");
    } else {
        tracing::debug!(id, %method, route, status, millis, "request");
    }
}

/// The request id from a proxy, or a new one.
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

async fn authenticate(gate: &RouteGuard, request: &mut Request) -> Result<Option<Credentials>, ApiError> {
    if request.extensions().get::<FromAllowedSite>().is_none() {
        refuse_other_sites(request.method(), request.headers())?;
    }
    if gate.access == Access::Open {
        refuse_unknown_parameters(gate, request)?;
        return Ok(None);
    }
    let job = if gate.takes_tokens { job_of(request.uri().path()) } else { None };
    let (pass, trace) = (Credentials::from_headers(request.headers(), job), trace_of(request.headers()));
    let peer = request.extensions().get::<Peer>().cloned();
    if pass.has_secret() {
        gate.app.check_guesses(peer.as_ref()).map_err(|retry_after| {
            ApiError::too_much("too_many_guesses", "too many invalid API keys", retry_after)
        })?;
    }
    let identified = pass.caller(&gate.app).await;
    if pass.has_secret() && identified.as_ref().is_err_and(ApiError::is_unauthorized) {
        gate.app.guessed(peer.as_ref()).await;
    }
    let mut caller = identified?;
    if let Some(peer) = &peer {
        peer.is_known();
    }
    pass.count(&gate.app, &caller).map_err(|retry_after| {
        ApiError::too_much("too_many_requests", "this key sends too many requests", retry_after)
    })?;
    // The store checks permissions for all callers. This additional check covers routes whose handlers do not call the
    // store, and rejects requests before their body is read.
    if let Access::May(permission) = gate.access
        && let Err(denied) = caller.require(permission)
    {
        if gate.names_job {
            must_exist(gate, job_of(request.uri().path()), &caller).await?;
        }
        return Err(denied.into());
    }
    refuse_unknown_parameters(gate, request)?;
    caller.trace_id = trace.map(|trace| trace.id().to_owned());
    let extensions = request.extensions_mut();
    extensions.insert(CurrentCaller(caller));
    extensions.insert(pass.clone());
    Ok(Some(pass))
}

/// Returns 403 only for jobs that the caller may see, otherwise 404.
async fn must_exist(gate: &RouteGuard, id: Option<JobId>, caller: &Caller) -> Result<(), ApiError> {
    let id = id.ok_or_else(|| ApiError::not_found("no such job"))?;
    let found = gate.app.store().job(caller, id).await?;
    found.map(drop).ok_or_else(|| ApiError::not_found(format!("no job {id}")))
}

/// The job in a path.
fn job_of(path: &str) -> Option<JobId> {
    path.split('/').skip_while(|part| *part != "jobs").nth(1)?.parse().ok()
}

/// Rejects unknown query parameters, which would otherwise be ignored silently.
fn refuse_unknown_parameters(gate: &RouteGuard, request: &Request) -> Result<(), ApiError> {
    let query = request.uri().query().unwrap_or_default();
    for (name, _) in form_urlencoded::parse(query.as_bytes()) {
        if !gate.parameters.iter().any(|known| *known == name) {
            let known = gate.parameters.iter().map(String::as_str);
            let shown = shown(&name);
            let closest = similar(&shown, known).first().map(|closest| (*closest).to_owned());
            let hint = closest.as_ref().map(|closest| format!(": did you mean `{closest}`?"));
            let message = format!("is not a parameter of this route{}", hint.unwrap_or_default());
            let problem = ApiError::invalid(shown, message).with("problem", "unknown_parameter");
            return Err(closest
                .into_iter()
                .fold(problem, |problem, closest| problem.with("closest", closest)));
        }
    }
    Ok(())
}

/// Rejects requests that a page of another site sends through a browser. Such a page cannot read anything either, except
/// with a token from a configured site.
fn refuse_other_sites(method: &Method, headers: &HeaderMap) -> Result<(), ApiError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let refused =
        || ApiError::new(StatusCode::FORBIDDEN, "cross_site", "pages of other sites may not use this server");
    let is_visit = *method == Method::GET
        && text("sec-fetch-mode") == Some("navigate")
        && text("sec-fetch-dest").is_none_or(|shown| shown == "document");
    match text("sec-fetch-site") {
        Some("same-origin" | "none") => Ok(()),
        // Following a link is allowed, in a window but not in a frame.
        Some(_) if is_visit => Ok(()),
        Some(_) => Err(refused()),
        None => {
            let host = text("host").unwrap_or_default();
            let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from == host);
            if text("origin").is_none_or(is_own) { Ok(()) } else { Err(refused()) }
        }
    }
}
