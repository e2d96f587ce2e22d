//! Authentication: by API key, or as a local caller while no key exists. The store decides about roles and tenants.

use std::time::Duration;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use windlass::job::JobId;
use windlass::key::JobToken;
use windlass::store::caller::Caller;

use crate::http::app::App;
use crate::http::reply::error::ApiError;

/// The authenticated caller; set by the middleware for every route that needs it.
#[derive(Clone)]
pub(crate) struct CurrentCaller(pub(crate) Caller);

impl FromRequestParts<App> for CurrentCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<CurrentCaller, ApiError> {
        parts.extensions.get::<CurrentCaller>().cloned().ok_or_else(unauthorized)
    }
}

/// A request of a caller, as handlers receive it.
pub(crate) struct Call {
    pub(crate) app: App,
    pub(crate) caller: Caller,
}

impl FromRequestParts<App> for Call {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Call, ApiError> {
        let CurrentCaller(caller) = CurrentCaller::from_request_parts(parts, app).await?;
        Ok(Call { app: app.clone(), caller })
    }
}

/// The credentials of a request. Long requests keep them, because the key may be revoked meanwhile.
#[derive(Clone)]
pub(crate) struct Credentials {
    secret: Option<String>,
    is_local: bool,
    /// The job that the request reads, if a token may be used for it.
    job: Option<JobId>,
}

impl Credentials {
    /// The credentials in a request's headers. `job` is the job that the request reads, if a token may be used for it.
    pub(crate) fn from_headers(headers: &HeaderMap, job: Option<JobId>) -> Credentials {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let secret = bearer.and_then(|text| {
            let (scheme, secret) = text.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| secret.trim().to_owned())
        });
        Credentials { secret, is_local: names_this_machine(headers), job }
    }

    /// Whether there is a key, valid or not.
    pub(crate) fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// Whether there is a token of a job, valid or not.
    pub(crate) fn has_token(&self) -> bool {
        self.secret.as_deref().is_some_and(JobToken::is_meant)
    }

    /// Counts a request of this caller. Pages with a token do not use up what their key may send.
    pub(crate) fn count(&self, app: &App, caller: &Caller) -> Result<(), Duration> {
        match self.job.filter(|_| self.has_token()) {
            Some(job) => app.rates().take_token(job, app.now()),
            None => app.rates().take(&caller.bucket(), app.now()),
        }
    }

    /// Authenticates the caller.
    pub(crate) async fn caller(&self, app: &App) -> Result<Caller, ApiError> {
        if !app.store().has_keys().await? {
            return self.local(app);
        }
        let Some(secret) = &self.secret else { return Err(unauthorized()) };
        if JobToken::is_meant(secret) {
            let Some(job) = self.job else { return Err(unauthorized()) };
            return app.store().authenticate_token(secret, job).await?.ok_or_else(unauthorized);
        }
        app.store().authenticate(secret).await?.ok_or_else(unauthorized)
    }

    /// Without keys, a local connection is the only proof of identity. A foreign host name (DNS rebinding) is rejected, and
    /// a server on a non-loopback address rejects everyone.
    fn local(&self, app: &App) -> Result<Caller, ApiError> {
        if !app.is_loopback() {
            return Err(unauthorized());
        }
        if !self.is_local {
            let message = "without API keys this server accepts requests from its own machine only: use \
                localhost or 127.0.0.1";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "foreign_host", message));
        }
        Ok(Caller::local())
    }
}

/// The same error for every reason, so that it reveals nothing.
fn unauthorized() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "a valid API key is required: Authorization: Bearer wl_…",
    )
}

/// Whether the `Host` header names this machine.
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
