//! The first page of the documentation, and the guides below `/docs/guides`. They are public text, so no key is needed.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::site;

/// Nothing but the style, and forms to this server.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// How long browsers may keep pages, which change with the binary only.
const CACHE: &str = "public, max-age=300";

/// `GET /docs`, which leads to the guides and the reference, and `GET /docs/guides` with everything below.
pub(crate) fn router() -> Router {
    Router::new()
        .route("/docs", get(entry))
        .route("/docs/", get(entry))
        .route("/docs/guides", get(index))
        .route("/docs/guides/", get(index))
        .route("/docs/guides/{*name}", get(guide))
}

fn answer(status: StatusCode, content_type: &'static str, text: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (header::CACHE_CONTROL, HeaderValue::from_static(CACHE)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    ];
    (status, headers, text).into_response()
}

const HTML: &str = "text/html; charset=utf-8";

/// The first page. A search was one of the reference, which was at this address before.
async fn entry(uri: Uri) -> Response {
    match uri.query() {
        Some(query) if query.starts_with("q=") => Redirect::to(&format!("/docs/api?{query}")).into_response(),
        _ => answer(StatusCode::OK, HTML, site::served_entry()),
    }
}

/// The list of guides, or what a search found.
async fn index(uri: Uri) -> Response {
    let query =
        form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).find(|(name, _)| name == "q");
    let page = match query {
        Some((_, words)) if !words.trim().is_empty() => site::served_search(words.trim()),
        _ => site::served_index(),
    };
    answer(StatusCode::OK, HTML, page)
}

async fn guide(Path(name): Path<String>) -> Response {
    if name == "guide.css" {
        return answer(StatusCode::OK, "text/css; charset=utf-8", site::STYLE.to_owned());
    }
    // As the static site and the repository call it.
    if let Some(bare) = name.strip_suffix(".html").or(name.strip_suffix(".md"))
        && site::served_guide(bare).is_some()
    {
        return Redirect::to(&format!("/docs/guides/{bare}")).into_response();
    }
    match site::served_guide(&name) {
        Some(page) => answer(StatusCode::OK, HTML, page),
        None => answer(StatusCode::NOT_FOUND, HTML, site::served_search(&name)),
    }
}
