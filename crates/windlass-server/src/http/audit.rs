//! The audit trail, page by page.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Deserialize;
use windlass::audit::{AuditEvent, Record};
use windlass::job::{JobId, Tenant};
use windlass::limits::PAGE_RECORDS_MAX;
use windlass::store::caller::Caller;
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
    let event = match query.event.as_deref() {
        Some(name) => Some(EventName::read(&app, name).await?),
        None => None,
    };
    let wanted = RecordQuery {
        after: cursor_of(query.cursor.as_deref())?,
        before: None,
        job: query.job.map(|job| job.0),
        event: event.as_ref().map(EventName::kept_as),
        actor: query.actor,
        actor_type: None,
        tenant: query.tenant.map(|tenant| tenant.0),
        since: query.since.map(|moment| moment.0),
        until: query.until.map(|moment| moment.0),
        limit,
    };
    let mut records = app.store().audit(&caller, wanted).await?;
    // Before those of other types are left out: a page may be short, and is not the last one for that.
    let next_cursor = records.last().filter(|_| records.len() == limit).map(|last| last.seq.to_string());
    records.retain(|record| event.as_ref().is_none_or(|event| event.fits(record)));
    Ok(Done(RecordPage { records: records.into_iter().map(RecordView::from).collect(), next_cursor }))
}

/// An event by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventName {
    /// One of the closed list.
    Listed(AuditEvent),
    /// What a type calls its successes (M92).
    Success(String),
}

impl EventName {
    /// The event with this name.
    pub(crate) async fn read(app: &App, name: &str) -> Result<EventName, Problem> {
        let problem = match name.parse() {
            Ok(event) => return Ok(EventName::Listed(event)),
            Err(problem) => Problem::invalid("event", windlass::error::Problem::to_string(&problem)),
        };
        // Only whether the name is used at all is told, to whoever knows it.
        let config = app.store().config(&Caller::system()).await?;
        let is_used = config.types.values().any(|settings| settings.success_event.as_deref() == Some(name));
        if is_used { Ok(EventName::Success(name.to_owned())) } else { Err(problem) }
    }

    /// The event as which it is kept.
    fn kept_as(&self) -> AuditEvent {
        match self {
            EventName::Listed(event) => *event,
            EventName::Success(_) => AuditEvent::Completed,
        }
    }

    /// Whether a record is one of these.
    pub(crate) fn fits(&self, record: &Record) -> bool {
        match self {
            EventName::Listed(event) => record.event == *event,
            EventName::Success(name) => record.name() == name,
        }
    }
}

/// The record that a cursor stands after.
pub(crate) fn cursor_of(cursor: Option<&str>) -> Result<u64, Problem> {
    let refused = |_| Problem::invalid("cursor", "is not a cursor that a page gave out");
    cursor.map_or(Ok(0), |text| text.parse().map_err(refused))
}
