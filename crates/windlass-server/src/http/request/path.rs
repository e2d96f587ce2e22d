//! Path parameters: ids and names. A malformed id is 404.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use windlass::job::{AlertName, JobId, JobType, QueueName, ScheduleName, Tenant, WorkerId};
use windlass::key::KeyId;

use crate::http::app::App;
use crate::http::reply::error::ApiError;

/// The text of the parameter with this name.
async fn parameter(parts: &mut Parts, app: &App, name: &str) -> Result<String, ApiError> {
    let nothing = || ApiError::not_found("no such path");
    let parameters = RawPathParams::from_request_parts(parts, app).await.map_err(|_| nothing())?;
    let found = parameters.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| text.to_owned()).ok_or_else(nothing)
}

/// `{id}` of a job.
pub(crate) struct JobPath(pub(crate) JobId);

impl FromRequestParts<App> for JobPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<JobPath, ApiError> {
        let text = parameter(parts, app, "id").await?;
        JobId::from_str(&text)
            .map(JobPath)
            .map_err(|_| ApiError::not_found(format!("no job {}", shown(&text))))
    }
}

/// `{id}` of a worker.
pub(crate) struct WorkerPath(pub(crate) WorkerId);

impl FromRequestParts<App> for WorkerPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<WorkerPath, ApiError> {
        let text = parameter(parts, app, "id").await?;
        let unknown = || ApiError::not_found(format!("no worker {}", shown(&text)));
        WorkerId::from_str(&text).map(WorkerPath).map_err(|_| unknown())
    }
}

/// `{id}` of a key.
pub(crate) struct KeyPath(pub(crate) KeyId);

impl FromRequestParts<App> for KeyPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<KeyPath, ApiError> {
        let text = parameter(parts, app, "id").await?;
        KeyId::from_str(&text)
            .map(KeyPath)
            .map_err(|_| ApiError::not_found(format!("no key {}", shown(&text))))
    }
}

/// `{name}` of any object; the store validates it.
pub(crate) struct NamePath(pub(crate) String);

impl FromRequestParts<App> for NamePath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<NamePath, ApiError> {
        parameter(parts, app, "name").await.map(NamePath)
    }
}

macro_rules! checked_name {
    ($path:ident, $name:ident, $parameter:literal) => {
        #[doc = concat!("`{", $parameter, "}`, checked.")]
        pub(crate) struct $path(pub(crate) $name);

        impl FromRequestParts<App> for $path {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<$path, ApiError> {
                let text = parameter(parts, app, $parameter).await?;
                let refused = |problem: windlass::error::FieldProblem| {
                    ApiError::invalid($parameter, problem.to_string())
                };
                $name::new(&text).map($path).map_err(refused)
            }
        }
    };
}

checked_name!(QueuePath, QueueName, "queue");
checked_name!(TypePath, JobType, "type");
checked_name!(TenantPath, Tenant, "tenant");
checked_name!(AlertPath, AlertName, "alert");
checked_name!(SchedulePath, ScheduleName, "schedule");

/// Shortens a text that is repeated in a message.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(windlass::limits::SHOWN_CHARS_MAX).collect()
}
