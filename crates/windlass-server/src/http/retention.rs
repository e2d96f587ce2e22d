//! For how long jobs are kept where neither their type nor their queue says so: one setting per store.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;

use super::app::App;
use super::auth::Who;
use super::json::Body;
use super::problem::Problem;
use super::reply::Done;
use super::wire::retention::{RetentionBody, RetentionView};

/// The store's retention after a change.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ChangedRetention {
    #[serde(flatten)]
    retention: RetentionView,
    /// Whether it was another one before.
    changed: bool,
}

/// `GET /retention`
pub(crate) async fn get(State(app): State<App>, Who(caller): Who) -> Result<Done<RetentionView>, Problem> {
    Ok(Done(app.store().retention(&caller).await?.into()))
}

/// `PUT /retention`
pub(crate) async fn put(
    State(app): State<App>,
    Who(caller): Who,
    Body(body): Body<RetentionBody>,
) -> Result<Done<ChangedRetention>, Problem> {
    let set = app.store().set_retention(&caller, body.into()).await?;
    Ok(Done(ChangedRetention { retention: set.retention.into(), changed: set.is_changed }))
}
