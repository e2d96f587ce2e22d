//! Store time over HTTP: its difference to the wall clock, and accepting a wall clock that jumped.

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::clock::ClockReport;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::CurrentCaller;
use crate::http::request::json::Body;
use crate::http::wire::time::Moment;

/// Store time and the wall clock, as seen by the responding node.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Clock")]
pub(crate) struct ClockView {
    store_time: Moment,
    /// The database's clock on PostgreSQL, otherwise the machine's.
    wall_clock: Moment,
    /// Milliseconds by which the wall clock is ahead of store time; negative if it is behind.
    difference_ms: i64,
    /// False after the wall clock jumped by more than a minute: store time continues without it until it is accepted.
    believed: bool,
    /// Since when the wall clock is not trusted, in store time.
    not_believed_since: Option<Moment>,
    /// Until when no lifetime expires and nothing is pruned, because store time jumped at startup.
    lifetimes_wait_until: Option<Moment>,
}

impl From<&ClockReport> for ClockView {
    fn from(report: &ClockReport) -> ClockView {
        ClockView {
            store_time: report.now.into(),
            wall_clock: report.wall.into(),
            difference_ms: report.ahead_ms,
            believed: report.is_believed,
            not_believed_since: report.doubted_since.map(Moment),
            lifetimes_wait_until: report.lifetimes_from.map(Moment),
        }
    }
}

/// The clock after it was accepted.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AcceptedClock {
    #[serde(flatten)]
    clock: ClockView,
    /// Whether it was not trusted before.
    changed: bool,
}

/// The request has no fields.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct AcceptBody {}

/// `GET /clock`
pub(crate) async fn clock(
    State(app): State<App>,
    CurrentCaller(_): CurrentCaller,
) -> Result<JsonOk<ClockView>, ApiError> {
    Ok(JsonOk(ClockView::from(&app.store().clock())))
}

/// `POST /clock/accept`
pub(crate) async fn accept(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Body(AcceptBody {}): Body<AcceptBody>,
) -> Result<JsonOk<AcceptedClock>, ApiError> {
    let changed = !app.store().clock().is_believed;
    let report = app.store().accept_clock(&caller).await?;
    Ok(JsonOk(AcceptedClock { clock: ClockView::from(&report), changed }))
}
