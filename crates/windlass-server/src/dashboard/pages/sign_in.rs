//! Sign-in and sign-out: exchanges an API key for a session.

use askama::Template;
use axum::extract::{Extension, State as AxumState};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Redirect, Response};

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::requests::context::FormContext;
use crate::dashboard::requests::form::{OpenForm, Query};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, requests::session};
use crate::server::Peer;

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    layout: Layout,
    next: String,
    is_wrong: bool,
}

/// A path within this site; the overview for anything else.
pub(in crate::dashboard) fn within(next: Option<&str>) -> String {
    let is_ours = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && !path.contains('\\')
            && !path.contains(char::is_control)
    };
    next.filter(is_ours).unwrap_or("/").to_owned()
}

/// `GET /sign-in`
pub(in crate::dashboard) async fn page(visitor: Visitor, Query(query): Query) -> Result<Response, PageError> {
    let next = within(query.get("next"));
    if visitor.is_local || !visitor.form_token.is_empty() {
        return Ok(Redirect::to(&next).into_response());
    }
    show(&SignIn {
        layout: Layout::bare(&visitor, "", "Sign in"),
        next,
        is_wrong: query.get("wrong").is_some(),
    })
}

/// `POST /sign-in`
pub(in crate::dashboard) async fn sign_in(
    AxumState(board): AxumState<Dashboard>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
    OpenForm(form): OpenForm,
) -> Result<Response, PageError> {
    let next = within(form.get("next"));
    let secret = form.get("key").unwrap_or_default();
    board.0.app.check_guesses(Some(&peer)).map_err(|_| PageError::too_many())?;
    if board.store().authenticate(secret).await?.is_none() {
        board.0.app.guessed(Some(&peer)).await;
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("wrong", "1")
            .append_pair("next", &next)
            .finish();
        return Ok(Redirect::to(&format!("/sign-in?{query}")).into_response());
    }
    // The browser forgets the session it had, so it could not be ended.
    if let Some(old) = session::read_cookie(&headers, session::cookie_name(board.0.is_secure)) {
        board.0.sessions.end(old);
    }
    let token = board.0.sessions.begin(secret, &board.store().environment().entropy, board.now());
    let cookie = session::cookie(&token, board.0.is_secure);
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to(&next)).into_response())
}

/// `POST /sign-out`
pub(in crate::dashboard) async fn sign_out(
    headers: HeaderMap,
    FormContext { board, .. }: FormContext,
) -> Response {
    let is_secure = board.0.is_secure;
    if let Some(token) = session::read_cookie(&headers, session::cookie_name(is_secure)) {
        board.0.sessions.end(token);
    }
    ([(header::SET_COOKIE, session::cookie("", is_secure))], Redirect::to("/sign-in")).into_response()
}

#[cfg(test)]
mod tests {
    use super::within;

    #[test]
    fn signing_in_leads_nowhere_else() {
        assert_eq!(within(Some("/jobs?state=failed")), "/jobs?state=failed");
        for outside in
            ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "", "/a\nb"]
        {
            assert_eq!(within(Some(outside)), "/", "{outside}");
        }
    }
}
