//! The retention for jobs whose type and queue have none of their own: one setting per store.

use windlass_api::retention::{ChangedRetention, RetentionBody, RetentionView};

use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::json::Body;

/// `GET /retention`
pub(crate) async fn get(Call { app, caller }: Call) -> Result<JsonOk<RetentionView>, ApiError> {
    Ok(JsonOk(app.store().retention(&caller).await?.into()))
}

/// `PUT /retention`
pub(crate) async fn put(
    Call { app, caller }: Call,
    Body(body): Body<RetentionBody>,
) -> Result<JsonOk<ChangedRetention>, ApiError> {
    let set = app.store().set_retention(&caller, body.into()).await?;
    Ok(JsonOk(ChangedRetention { retention: set.retention.into(), changed: set.is_changed }))
}
