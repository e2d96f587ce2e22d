//! Pages of configured sites may read a job with a token of that job (CORS), and nothing else: API keys do not belong in
//! pages.

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::auth::Credentials;
use crate::http::app::App;
use crate::limits;

/// A request that a page of another site may send: its site is configured, and it carries a token.
#[derive(Clone, Copy)]
pub(crate) struct FromAllowedSite;

/// Answers the questions of browsers, and lets pages of configured sites read what a token reads.
pub(crate) async fn cors(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let Some(origin) = allowed_origin(&app, request.headers()).filter(|_| is_readable(request.uri().path()))
    else {
        return next.run(request).await;
    };
    let is_question = *request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if is_question {
        let mut response = StatusCode::NO_CONTENT.into_response();
        allow(response.headers_mut(), origin);
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET"));
        let named = HeaderValue::from_static("authorization, if-none-match, last-event-id");
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, named);
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from(limits::CORS_MAX_AGE_SECS));
        return response;
    }
    if *request.method() != Method::GET || !Credentials::from_headers(request.headers(), None).has_token() {
        return next.run(request).await;
    }
    request.extensions_mut().insert(FromAllowedSite);
    let mut response = next.run(request).await;
    allow(response.headers_mut(), origin);
    let shown = HeaderValue::from_static("etag, retry-after, windlass-time, x-request-id");
    response.headers_mut().insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, shown);
    response
}

fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}

fn allowed_origin(app: &App, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(header::ORIGIN)?;
    let is_allowed = app.browser_origins().iter().any(|allowed| allowed.as_bytes() == origin.as_bytes());
    is_allowed.then(|| origin.clone())
}

/// Whether tokens can read this path: a job, its result or its partial output.
fn is_readable(path: &str) -> bool {
    let below = path.strip_prefix("/api/v1/jobs/").or_else(|| path.strip_prefix("/api/jobs/"));
    below.is_some_and(|rest| match rest.split_once('/') {
        Some((_, part)) => ["result", "stream"].contains(&part),
        None => true,
    })
}
