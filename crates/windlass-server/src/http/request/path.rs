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

/// `{id}` of an object; a malformed one is 404.
macro_rules! object_id {
    ($path:ident, $id:ident, $noun:literal) => {
        #[doc = concat!("`{id}` of a ", $noun, ".")]
        pub(crate) struct $path(pub(crate) $id);

        impl FromRequestParts<App> for $path {
            type Rejection = ApiError;

            async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<$path, ApiError> {
                let text = parameter(parts, app, "id").await?;
                let unknown = |_| ApiError::not_found(format!(concat!("no ", $noun, " {}"), shown(&text)));
                $id::from_str(&text).map($path).map_err(unknown)
            }
        }
    };
}

object_id!(JobPath, JobId, "job");
object_id!(WorkerPath, WorkerId, "worker");
object_id!(KeyPath, KeyId, "key");

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
