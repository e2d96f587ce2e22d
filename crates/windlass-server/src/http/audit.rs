//! The audit trail, page by page.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use windlass::audit::AuditEvent;
use windlass::job::{JobId, Tenant};
use windlass::limits::PAGE_RECORDS_MAX;
use windlass::store::engine::RecordQuery;

use super::app::App;
use super::auth::Who;
use super::problem::Problem;
use super::query::Query;
use super::reply::Done;
use super::wire::filter::page_limit;
use super::wire::name::Text;
use super::wire::record::{RecordPage, RecordView};
use super::wire::time::Moment;

/// Which records.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct AuditQuery {
    /// About this job.
    pub(crate) job: Option<Text<JobId>>,
    /// Of this event.
    pub(crate) event: Option<String>,
    /// By this actor.
    pub(crate) actor: Option<String>,
    /// Of this tenant.
    pub(crate) tenant: Option<Text<Tenant>>,
    /// Not before this.
    since: Option<Moment>,
    /// Before this.
    until: Option<Moment>,
    /// How many at most, 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// Where to go on, as given by the page before.
    cursor: Option<String>,
}

/// `GET /audit`
pub(crate) async fn records(
    State(app): State<App>,
    Who(caller): Who,
    Query(query): Query<AuditQuery>,
) -> Result<Done<RecordPage>, Problem> {
    let limit = page_limit(query.limit, PAGE_RECORDS_MAX)?;
    let wanted = RecordQuery {
        after: cursor_of(query.cursor.as_deref())?,
        job: query.job.map(|job| job.0),
        event: query.event.as_deref().map(event_of).transpose()?,
        actor: query.actor,
        tenant: query.tenant.map(|tenant| tenant.0),
        since: query.since.map(|moment| moment.0),
        until: query.until.map(|moment| moment.0),
        limit,
    };
    let records = app.store().audit(&caller, wanted).await?;
    let next_cursor = records.last().filter(|_| records.len() == limit).map(|last| last.seq.to_string());
    Ok(Done(RecordPage { records: records.into_iter().map(RecordView::from).collect(), next_cursor }))
}

/// The event with this name.
pub(crate) fn event_of(name: &str) -> Result<AuditEvent, Problem> {
    name.parse().map_err(|problem: windlass::error::Problem| Problem::invalid("event", problem.to_string()))
}

/// The record that a cursor stands after.
pub(crate) fn cursor_of(cursor: Option<&str>) -> Result<u64, Problem> {
    let refused = |_| Problem::invalid("cursor", "is not a cursor that a page gave out");
    cursor.map_or(Ok(0), |text| text.parse().map_err(refused))
}
