//! Store time over HTTP: its difference to the wall clock, and accepting a wall clock that jumped.

use axum::extract::State;
use windlass_api::actions::EmptyBody;
use windlass_api::clock::{AcceptedClock, ClockView};

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::{Call, CurrentCaller};
use crate::http::request::json::Body;

/// `GET /clock`
pub(crate) async fn clock(
    State(app): State<App>,
    CurrentCaller(_): CurrentCaller,
) -> Result<JsonOk<ClockView>, ApiError> {
    Ok(JsonOk(ClockView::from(&app.store().clock())))
}

/// `POST /clock/accept`
pub(crate) async fn accept(
    Call { app, caller }: Call,
    Body(EmptyBody {}): Body<EmptyBody>,
) -> Result<JsonOk<AcceptedClock>, ApiError> {
    let changed = !app.store().clock().is_believed;
    let report = app.store().accept_clock(&caller).await?;
    Ok(JsonOk(AcceptedClock { clock: ClockView::from(&report), changed }))
}
