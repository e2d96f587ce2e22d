//! Statistics over time.

use std::time::Duration;

use windlass::limits::{HISTORY_RANGE_MAX, HISTORY_RANGE_MIN};
use windlass::store::{HistoryRequest, HistorySubject};
use windlass_api::stats::history::{HistoryQuery, StatsHistory};

use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::query::Query;

/// What is shown if no range is given.
const RANGE_DEFAULT: Duration = Duration::from_secs(3600);

/// `GET /stats/history`
pub(crate) async fn history(
    Call { app, caller }: Call,
    Query(query): Query<HistoryQuery>,
) -> Result<JsonOk<StatsHistory>, ApiError> {
    let part = match (query.queue, query.r#type) {
        (None, None) => HistorySubject::All,
        (Some(queue), None) => HistorySubject::Queue(queue.0),
        (None, Some(job_type)) => HistorySubject::Type(job_type.0),
        (Some(_), Some(_)) => return Err(ApiError::invalid("type", "give `queue` or `type`, not both")),
    };
    let range = query.range.map_or(RANGE_DEFAULT, |range| range.0);
    if !(HISTORY_RANGE_MIN..=HISTORY_RANGE_MAX).contains(&range) {
        return Err(ApiError::invalid("range", "must be between 5m and 30d"));
    }
    let wanted = HistoryRequest { part, range, until: query.until.map(|until| until.0) };
    Ok(JsonOk((&app.store().history(&caller, wanted).await?).into()))
}
