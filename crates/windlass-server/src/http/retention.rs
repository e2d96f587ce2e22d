//! The retention for jobs whose type and queue have none of their own: one setting per store.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::app::App;
use super::auth::CurrentCaller;
use super::error::ApiError;
use super::json::Body;
use super::response::JsonOk;
use super::wire::retention::{RetentionBody, RetentionView};

/// The store's retention after a change.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedRetention {
    #[serde(flatten)]
    retention: RetentionView,
    /// Whether it changed.
    changed: bool,
}

/// `GET /retention`
pub(crate) async fn get(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
) -> Result<JsonOk<RetentionView>, ApiError> {
    Ok(JsonOk(app.store().retention(&caller).await?.into()))
}

/// `PUT /retention`
pub(crate) async fn put(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Body(body): Body<RetentionBody>,
) -> Result<JsonOk<ChangedRetention>, ApiError> {
    let set = app.store().set_retention(&caller, body.into()).await?;
    Ok(JsonOk(ChangedRetention { retention: set.retention.into(), changed: set.is_changed }))
}
