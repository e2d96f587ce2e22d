//! Middleware of the dashboard: rejects cross-site requests, requires sign-in once there are keys, and sets headers
//! against framing, sniffing, caching and foreign scripts.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::error::StoreError;
use windlass::internal::ReadSource;
use windlass::store::caller::{Caller, Permission, Role};

use crate::dashboard::page::{self, PageError};
use crate::dashboard::pages::sign_in::within;
use crate::dashboard::parts::format::in_zone;
use crate::dashboard::requests::partial;
use crate::dashboard::requests::preferences::Preferences;
use crate::dashboard::{Dashboard, requests::flash, requests::session};
use crate::http::request::auth::names_this_machine;
use crate::http::request::response_budget::held;
use crate::http::trace_of;
use crate::server::Peer;

/// Only our own scripts, styles and frames, none of them inline (RELIABILITY S12).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The visitor of a page.
#[derive(Debug, Clone)]
pub(in crate::dashboard) struct Visitor {
    /// The caller whose permissions apply.
    pub(in crate::dashboard) caller: Caller,
    /// The token that forms must contain.
    pub(in crate::dashboard) form_token: String,
    /// Whether local access is open because there are no keys.
    pub(in crate::dashboard) is_local: bool,
    /// What the visitor chose for its browser.
    pub(in crate::dashboard) preferences: Preferences,
    /// `light`, `dark`, or empty for the system's setting.
    pub(in crate::dashboard) theme: &'static str,
    /// The address at which this browser reaches the server, such as `http://127.0.0.1:7788`.
    pub(in crate::dashboard) origin: String,
    /// The state of the change counter when the page was requested; see
    /// [`Live::seen`](crate::dashboard::requests::refresh::Live::seen).
    pub(in crate::dashboard) seen: u64,
}

impl Visitor {
    /// Whether the role has the permission.
    pub(in crate::dashboard) fn may(&self, permission: Permission) -> bool {
        self.caller.require(permission).is_ok()
    }
}

impl FromRequestParts<Dashboard> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _board: &Dashboard) -> Result<Visitor, PageError> {
        Ok(parts.extensions.get::<Visitor>().cloned().expect("the middleware admits only visitors"))
    }
}

/// Checks a request and runs it.
pub(in crate::dashboard) async fn guard(
    State(board): State<Dashboard>,
    mut request: Request,
    next: Next,
) -> Response {
    let theme = theme(request.headers());
    let back = came_from(&request);
    let mut response = match authenticate(&board, request.method(), request.headers()).await {
        Ok(Some(visitor)) => {
            if let Some(peer) = request.extensions().get::<Peer>() {
                peer.is_known();
            }
            request.extensions_mut().insert(visitor.clone());
            let is_action = *request.method() == Method::POST && !is_open(request.uri().path());
            let (source, is_safe) = (ReadSource::from_caller(&visitor.caller), request.method().is_safe());
            let room = board.0.app.bodies().reserve_for(Some(&source));
            let zone = visitor.preferences.zone.clone();
            let known = partial::PartDigests::from_headers(request.headers()).filter(|_| is_safe);
            let response = in_zone(zone, source.scope(next.run(request))).await;
            let mut response = partial::changed(response, known).await;
            if is_action {
                sign_flash_message(response.headers_mut(), &visitor);
            }
            held(finish(response, &visitor, back.as_deref()), &room, is_safe)
        }
        Ok(None) if is_open(request.uri().path()) => {
            request.extensions_mut().insert(anonymous(theme));
            finish(next.run(request).await, &anonymous(theme), back.as_deref())
        }
        Ok(None) => turn_away(&request),
        Err(error) => page::error_page(&error, &anonymous(theme), back.as_deref()),
    };
    harden(response.headers_mut());
    response
}

/// Signs the flash message in an action's redirect.
fn sign_flash_message(headers: &mut HeaderMap, visitor: &Visitor) {
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    let signed = location.and_then(|location| flash::put(&visitor.form_token, location));
    if let Some(signed) = signed.and_then(|signed| HeaderValue::from_str(&signed).ok()) {
        headers.insert(header::LOCATION, signed);
    }
}

/// Renders errors as a page.
fn finish(mut response: Response, visitor: &Visitor, back: Option<&str>) -> Response {
    if let Some(error) = response.extensions_mut().remove::<PageError>() {
        return page::error_page(&error, visitor, back);
    }
    // Errors of path parsing are plain text.
    let is_plain = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/plain");
    let is_unread = response.status() == StatusCode::BAD_REQUEST
        && response.headers().get(header::CONTENT_TYPE).is_some_and(is_plain);
    if is_unread { page::error_page(&PageError::unreadable(), visitor, back) } else { response }
}

/// The page of this site that sent the request, if it was another one.
fn came_from(request: &Request) -> Option<String> {
    let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let path = text(header::REFERER)?.split_once("://")?.1.strip_prefix(text(header::HOST)?)?;
    let is_here = request.uri().path_and_query().is_some_and(|here| here.as_str() == path);
    Some(within(Some(path))).filter(|_| !is_here && path.starts_with('/'))
}

/// Paths that need no sign-in: the sign-in page and its assets.
fn is_open(path: &str) -> bool {
    path == "/sign-in" || path.starts_with("/assets/")
}

fn anonymous(theme: &'static str) -> Visitor {
    let caller = Caller::new("", Role::Viewer, None);
    let preferences = Preferences::default();
    Visitor {
        caller,
        form_token: String::new(),
        is_local: false,
        preferences,
        theme,
        origin: String::new(),
        seen: 0,
    }
}

/// Redirects a page to sign-in; returns 401 to a script.
fn turn_away(request: &Request) -> Response {
    let is_page = [Method::GET, Method::HEAD].contains(request.method()) && request.uri().path() != "/live";
    let mode = request.headers().get("sec-fetch-mode").and_then(|mode| mode.to_str().ok());
    let is_form = request.method() == Method::POST && mode == Some("navigate");
    if !is_page && !is_form {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    // A form is not sent again: the visitor returns to the page of the form.
    let back = is_form.then(|| came_from(request).unwrap_or_else(|| "/".to_owned()));
    let here = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let asked = back.as_deref().unwrap_or(here);
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", asked).finish();
    let sign_in_url = format!("/sign-in?{query}");
    match site(request.headers()) {
        // Browsers do not send the cookie when another site links here. A redirect from our own page sends it, so that
        // a signed-in visitor gets in at once.
        Some("cross-site" | "same-site") => {
            page::redirect_page(&sign_in_url).unwrap_or_else(|_| Redirect::to(&sign_in_url).into_response())
        }
        Some(_) | None => Redirect::to(&sign_in_url).into_response(),
    }
}

/// The `Sec-Fetch-Site` header.
fn site(headers: &HeaderMap) -> Option<&str> {
    headers.get("sec-fetch-site").and_then(|value| value.to_str().ok())
}

async fn authenticate(
    board: &Dashboard,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Option<Visitor>, PageError> {
    refuse_other_sites(method, headers)?;
    let mut visitor = identify(board, headers).await?;
    if let Some(visitor) = &mut visitor {
        visitor.caller.trace_id = trace_of(headers).map(|trace| trace.id().to_owned());
        if visitor.is_local {
            refuse_foreign_hosts(headers)?;
        }
        let rates = board.0.app.rates();
        rates.take(&visitor.caller.bucket(), board.now()).map_err(|_| PageError::too_many())?;
    }
    Ok(visitor)
}

/// Authenticates a request; None if not signed in.
pub(in crate::dashboard) async fn identify(
    board: &Dashboard,
    headers: &HeaderMap,
) -> Result<Option<Visitor>, StoreError> {
    let theme = theme(headers);
    let preferences = Preferences::from_headers(headers);
    let seen = board.0.live.seen(board.store());
    let origin = origin(board, headers);
    if !board.store().has_keys().await? {
        if !board.0.app.is_loopback() {
            return Ok(None);
        }
        let form_token = board.0.local_token.clone();
        let caller = Caller::local();
        return Ok(Some(Visitor { caller, form_token, is_local: true, preferences, theme, origin, seen }));
    }
    let name = session::cookie_name(board.0.is_secure);
    let token = session::read_cookie(headers, name);
    let Some(session) = token.and_then(|token| board.0.sessions.find(token, board.now())) else {
        return Ok(None);
    };
    let caller = board.store().authenticate(&session.secret).await?;
    let form_token = session.form_token;
    Ok(caller.map(|caller| Visitor { caller, form_token, is_local: false, preferences, theme, origin, seen }))
}

fn origin(board: &Dashboard, headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or("localhost");
    format!("{}://{host}", if board.0.is_secure { "https" } else { "http" })
}

fn theme(headers: &HeaderMap) -> &'static str {
    match session::read_cookie(headers, "windlass-theme") {
        Some("light") => "light",
        Some("dark") => "dark",
        _ => "",
    }
}

/// Rejects requests that a page of another site sends through a browser (RELIABILITY S11). Following a link here is
/// allowed.
fn refuse_other_sites(method: &Method, headers: &HeaderMap) -> Result<(), PageError> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text("host").unwrap_or_default();
    let is_own = |origin: &str| origin.split_once("://").is_some_and(|(_, from)| from == host);
    let is_safe = [Method::GET, Method::HEAD].contains(method);
    let is_visit = is_safe
        && text("sec-fetch-mode") == Some("navigate")
        && text("sec-fetch-dest").is_none_or(|shown| shown == "document");
    let is_fine = match site(headers) {
        Some("same-origin") => true,
        Some("none") => is_safe,
        Some(_) => is_visit,
        None if is_safe => text("origin").is_none_or(is_own),
        None => text("origin").is_some_and(is_own),
    };
    let is_browser = site(headers).is_some() || text("origin").is_some();
    match (is_fine, is_browser) {
        (true, _) => Ok(()),
        (false, true) => Err(PageError::forbidden("this request came from another site")),
        (false, false) => Err(PageError::forbidden("this is a page for browsers; the API is under /api/v1")),
    }
}

/// Without keys, a local connection is the only proof of identity: a foreign host name (DNS rebinding) is rejected.
fn refuse_foreign_hosts(headers: &HeaderMap) -> Result<(), PageError> {
    if names_this_machine(headers) {
        return Ok(());
    }
    Err(PageError::forbidden(
        "without API keys the dashboard accepts requests from its own machine only: \
        open it as localhost",
    ))
}

fn harden(headers: &mut HeaderMap) {
    let fixed: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}
