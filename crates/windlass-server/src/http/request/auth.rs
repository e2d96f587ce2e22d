//! Who is asking: the bearer of a key, or, while no key exists, whoever is on this machine. Roles and tenants are decided by
//! the store.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use windlass::store::caller::Caller;

use crate::http::app::App;
use crate::http::reply::error::ApiError;

/// Who is asking; put there by the guard for every route that needs to know.
#[derive(Clone)]
pub(crate) struct CurrentCaller(pub(crate) Caller);

impl FromRequestParts<App> for CurrentCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<CurrentCaller, ApiError> {
        parts.extensions.get::<CurrentCaller>().cloned().ok_or_else(unauthorized)
    }
}

/// What a request shows to be let in; kept for requests that last, since a key may be revoked meanwhile.
#[derive(Clone)]
pub(crate) struct Credentials {
    secret: Option<String>,
    is_local: bool,
}

impl Credentials {
    /// What the head of a request shows.
    pub(crate) fn of(headers: &HeaderMap) -> Credentials {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let secret = bearer.and_then(|text| {
            let (scheme, secret) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim().to_owned())
        });
        Credentials { secret, is_local: names_this_machine(headers) }
    }

    /// Whether a key was shown, valid or not.
    pub(crate) fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// Whom it makes of its bearer.
    pub(crate) async fn caller(&self, app: &App) -> Result<Caller, ApiError> {
        if !app.store().has_keys().await? {
            return self.local(app);
        }
        let Some(secret) = &self.secret else { return Err(unauthorized()) };
        app.store().authenticate(secret).await?.ok_or_else(unauthorized)
    }

    /// Without keys, being on this machine is the only proof there is: a name that an attacker points at it is none, and
    /// an address that others can reach lets nobody in.
    fn local(&self, app: &App) -> Result<Caller, ApiError> {
        if !app.is_loopback() {
            return Err(unauthorized());
        }
        if !self.is_local {
            let message = "without keys this server is for its own machine: ask it as localhost or 127.0.0.1";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "foreign_host", message));
        }
        Ok(Caller::local())
    }
}

/// The one refusal of whoever is not let in, whatever is wrong.
fn unauthorized() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "a valid key is needed: Authorization: Bearer wl_…",
    )
}

/// Whether the request was made to this machine by its own name.
pub(crate) fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(header::HOST) else { return true };
    let host = host.to_str().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_loopback = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_loopback || name.eq_ignore_ascii_case("localhost")
}
