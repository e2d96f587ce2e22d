//! Store time on the settings page: its difference to the wall clock, and a form that accepts a wall clock that jumped.

use std::time::Duration;

use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::ClockReport;

use crate::dashboard::page::PageError;
use crate::dashboard::parts::format::span;
use crate::dashboard::requests::context::FormContext;

/// Store time and the wall clock.
pub(in crate::dashboard) struct ClockView {
    pub(in crate::dashboard) store_time: String,
    pub(in crate::dashboard) wall_clock: String,
    /// Such as `10 m ahead`; None if they are equal.
    pub(in crate::dashboard) difference: Option<String>,
    pub(in crate::dashboard) is_believed: bool,
    /// For how long no lifetime expires and nothing is pruned.
    pub(in crate::dashboard) lifetimes_wait: Option<String>,
}

impl From<ClockReport> for ClockView {
    fn from(report: ClockReport) -> ClockView {
        let by = span(Duration::from_millis(report.ahead_ms.unsigned_abs()));
        let way = if report.ahead_ms > 0 { "ahead" } else { "behind" };
        ClockView {
            store_time: report.now.to_string(),
            wall_clock: report.wall.to_string(),
            difference: (report.ahead_ms.unsigned_abs() >= 1_000).then(|| format!("{by} {way}")),
            is_believed: report.is_believed,
            lifetimes_wait: report.lifetimes_from.map(|until| span(until.since(report.now))),
        }
    }
}

/// `POST /clock`
pub(in crate::dashboard) async fn accept(
    FormContext { board, visitor, .. }: FormContext,
) -> Result<Response, PageError> {
    board.store().accept_clock(&visitor.caller).await?;
    Ok(Redirect::to("/settings?done=clock_accepted").into_response())
}
