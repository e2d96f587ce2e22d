//! What every request to the dashboard passes: no page of another site acts through it, nobody without a key gets in once
//! there are keys, and no answer can be framed, sniffed, cached or made to run a foreign script.

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use windlass::error::StoreError;
use windlass::store::asker::ReadSource;
use windlass::store::caller::{Caller, Permission, Role};

use crate::dashboard::page::{self, PageError};
use crate::dashboard::pages::sign_in::within;
use crate::dashboard::{Dashboard, requests::flash, requests::session};
use crate::http::request::auth::names_this_machine;
use crate::http::request::held::held;
use crate::http::trace_of;
use crate::server::Peer;

/// No script, style or frame but our own, and none of them inline (RELIABILITY S12).
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// Who looks at a page.
#[derive(Debug, Clone)]
pub(in crate::dashboard) struct Visitor {
    /// In whose name the store is asked.
    pub(in crate::dashboard) caller: Caller,
    /// What a form must carry to be believed.
    pub(in crate::dashboard) form_token: String,
    /// Whether anybody on this machine is let in, because there are no keys.
    pub(in crate::dashboard) is_local: bool,
    /// `light`, `dark`, or empty for what the system says.
    pub(in crate::dashboard) theme: &'static str,
    /// Stands for what had happened when the page was asked for; see [`Live::seen`](crate::dashboard::requests::refresh::Live::seen).
    pub(in crate::dashboard) seen: u64,
}

impl Visitor {
    /// Whether the role allows it at all.
    pub(in crate::dashboard) fn may(&self, permission: Permission) -> bool {
        self.caller.require(permission).is_ok()
    }
}

impl FromRequestParts<Dashboard> for Visitor {
    type Rejection = PageError;

    async fn from_request_parts(parts: &mut Parts, _board: &Dashboard) -> Result<Visitor, PageError> {
        Ok(parts.extensions.get::<Visitor>().cloned().expect("the guard lets nobody else through"))
    }
}

/// Lets a request through, or answers it.
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
            let (asker, is_safe) = (ReadSource::of(&visitor.caller), request.method().is_safe());
            let room = board.0.app.bodies().room(Some(&asker));
            let mut response = asker.scope(next.run(request)).await;
            if is_action {
                seal_what_was_done(response.headers_mut(), &visitor);
            }
            held(finish(response, &visitor, back.as_deref()), &room, is_safe)
        }
        Ok(None) if is_open(request.uri().path()) => {
            request.extensions_mut().insert(nobody(theme));
            finish(next.run(request).await, &nobody(theme), back.as_deref())
        }
        Ok(None) => turn_away(&request),
        Err(trouble) => page::trouble(&trouble, &nobody(theme), back.as_deref()),
    };
    harden(response.headers_mut());
    response
}

/// Only where an action leads to is sealed: what it says was done, was.
fn seal_what_was_done(headers: &mut HeaderMap, visitor: &Visitor) {
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    let sealed = location.and_then(|location| flash::put(&visitor.form_token, location));
    if let Some(sealed) = sealed.and_then(|sealed| HeaderValue::from_str(&sealed).ok()) {
        headers.insert(header::LOCATION, sealed);
    }
}

/// Puts a page around what went wrong.
fn finish(mut response: Response, visitor: &Visitor, back: Option<&str>) -> Response {
    if let Some(trouble) = response.extensions_mut().remove::<PageError>() {
        return page::trouble(&trouble, visitor, back);
    }
    // What is refused because its path cannot be read is refused in plain text.
    let is_plain = |kind: &HeaderValue| kind.as_bytes().starts_with(b"text/plain");
    let is_unread = response.status() == StatusCode::BAD_REQUEST
        && response.headers().get(header::CONTENT_TYPE).is_some_and(is_plain);
    if is_unread { page::trouble(&PageError::unreadable(), visitor, back) } else { response }
}

/// The page of ours from which a request came, if it was another.
fn came_from(request: &Request) -> Option<String> {
    let text = |name: HeaderName| request.headers().get(name).and_then(|value| value.to_str().ok());
    let path = text(header::REFERER)?.split_once("://")?.1.strip_prefix(text(header::HOST)?)?;
    let is_here = request.uri().path_and_query().is_some_and(|here| here.as_str() == path);
    Some(within(Some(path))).filter(|_| !is_here && path.starts_with('/'))
}

/// What can be had without being signed in: the way in, and what it looks like.
fn is_open(path: &str) -> bool {
    path == "/sign-in" || path.starts_with("/assets/")
}

fn nobody(theme: &'static str) -> Visitor {
    let caller = Caller::new("", Role::Viewer, None);
    Visitor { caller, form_token: String::new(), is_local: false, theme, seen: 0 }
}

/// A page's reader is sent to sign in; a script is told.
fn turn_away(request: &Request) -> Response {
    let is_page = [Method::GET, Method::HEAD].contains(request.method()) && request.uri().path() != "/live";
    let mode = request.headers().get("sec-fetch-mode").and_then(|mode| mode.to_str().ok());
    let is_form = request.method() == Method::POST && mode == Some("navigate");
    if !is_page && !is_form {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    // A form is not sent again: its reader comes back to the page it was on.
    let back = is_form.then(|| came_from(request).unwrap_or_else(|| "/".to_owned()));
    let here = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let asked = back.as_deref().unwrap_or(here);
    let query = form_urlencoded::Serializer::new(String::new()).append_pair("next", asked).finish();
    let door = format!("/sign-in?{query}");
    match site(request.headers()) {
        // A browser keeps the cookie to itself when a link elsewhere leads here. Asked from a page of ours it shows it, so
        // that whoever is signed in comes through the door at once.
        Some("cross-site" | "same-site") => {
            page::pass_on(&door).unwrap_or_else(|_| Redirect::to(&door).into_response())
        }
        Some(_) | None => Redirect::to(&door).into_response(),
    }
}

/// Which site's page made a browser ask, as it says.
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

/// Who a request comes from; nobody if not signed in.
pub(in crate::dashboard) async fn identify(
    board: &Dashboard,
    headers: &HeaderMap,
) -> Result<Option<Visitor>, StoreError> {
    let theme = theme(headers);
    let seen = board.0.live.seen(board.store());
    if !board.store().has_keys().await? {
        if !board.0.app.is_loopback() {
            return Ok(None);
        }
        let form_token = board.0.local_token.clone();
        return Ok(Some(Visitor { caller: Caller::local(), form_token, is_local: true, theme, seen }));
    }
    let name = session::cookie_name(board.0.is_secure);
    let token = session::read_cookie(headers, name);
    let Some(session) = token.and_then(|token| board.0.sessions.find(token, board.now())) else {
        return Ok(None);
    };
    let caller = board.store().authenticate(&session.secret).await?;
    Ok(caller.map(|caller| Visitor { caller, form_token: session.form_token, is_local: false, theme, seen }))
}

fn theme(headers: &HeaderMap) -> &'static str {
    match session::read_cookie(headers, "windlass-theme") {
        Some("light") => "light",
        Some("dark") => "dark",
        _ => "",
    }
}

/// A page of another site must not act through its reader's browser, nor make this server work (RELIABILITY S11). Following
/// a link here is fine.
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
    if is_fine { Ok(()) } else { Err(PageError::forbidden("this request came from another site")) }
}

/// Without keys, being on this machine is the only proof there is: a name that an attacker points at it is none.
fn refuse_foreign_hosts(headers: &HeaderMap) -> Result<(), PageError> {
    if names_this_machine(headers) {
        return Ok(());
    }
    Err(PageError::forbidden("without keys the dashboard is for its own machine: open it as localhost"))
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
