//! The audit trail, page by page.

use schemars::JsonSchema;
use serde::Deserialize;
use windlass::audit::{AuditEvent, Record};
use windlass::internal::wire::filter::page_limit;
use windlass::job::{JobId, JobType, QueueName, Tenant};
use windlass::limits::PAGE_RECORDS_MAX;
use windlass::settings::TypeSettings;
use windlass::store::RecordPage as RecordsFound;
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;
use windlass_api::record::{HeadView, RecordPage, RecordView};
use windlass_api::text::Text;
use windlass_api::time::Moment;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::query::Query;

/// Filters for audit records.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct AuditQuery {
    /// Only records about this job.
    pub(crate) job: Option<Text<JobId>>,
    /// Only records with this event name.
    pub(crate) event: Option<String>,
    /// Only records by this actor.
    pub(crate) actor: Option<String>,
    /// Only records of this tenant.
    pub(crate) tenant: Option<Text<Tenant>>,
    /// Only records about this queue or its jobs.
    queue: Option<Text<QueueName>>,
    /// Only records about this type or its jobs.
    r#type: Option<Text<JobType>>,
    /// Only records at or after this time.
    since: Option<Moment>,
    /// Only records before this time.
    until: Option<Moment>,
    /// Maximum number of records, 1 to 1000.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// `next_cursor` of the previous page.
    cursor: Option<String>,
}

/// `GET /audit`
pub(crate) async fn records(
    Call { app, caller }: Call,
    Query(query): Query<AuditQuery>,
) -> Result<JsonOk<RecordPage>, ApiError> {
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
        queue: query.queue.map(|queue| queue.0),
        job_type: query.r#type.map(|job_type| job_type.0),
        since: query.since.map(|moment| moment.0),
        until: query.until.map(|moment| moment.0),
        limit,
        reach: None,
    };
    let RecordsFound { mut records, next, .. } = app.store().audit_page(&caller, wanted).await?;
    let next_cursor = next.map(|next| next.to_string());
    // A page may be short without being the last one.
    records.retain(|record| event.as_ref().is_none_or(|event| event.matches(record)));
    Ok(JsonOk(RecordPage { records: records.into_iter().map(RecordView::from).collect(), next_cursor }))
}

/// `GET /audit/head`
pub(crate) async fn head(Call { app, caller }: Call) -> Result<JsonOk<HeadView>, ApiError> {
    let point = app.store().audit_head(&caller).await?;
    let head = point.as_ref().map(|point| point.seal.to_string());
    let signed_by = point.as_ref().and_then(|point| point.signature.as_ref()).map(|by| by.key.clone());
    let (number, hash) = point.map_or((0, None), |point| (point.seal.through, Some(point.seal.hash)));
    Ok(JsonOk(HeadView { number, hash, head, signed_by }))
}

/// An event by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventName {
    /// One of the standard events.
    Listed(AuditEvent),
    /// A type's custom name for one of them.
    Alias(AuditEvent, String),
}

impl EventName {
    /// The event with this name.
    pub(crate) async fn read(app: &App, name: &str) -> Result<EventName, ApiError> {
        let problem = match name.parse() {
            Ok(event) => return Ok(EventName::Listed(event)),
            Err(problem) => ApiError::invalid("event", windlass::error::FieldProblem::to_string(&problem)),
        };
        // This reveals only whether the name is used at all, to a caller who knows it.
        let config = app.store().config(&Caller::system()).await?;
        let is_used =
            |event: &AuditEvent| config.types.values().any(|settings| settings.alias(*event) == Some(name));
        match TypeSettings::NAMED.into_iter().find(is_used) {
            Some(event) => Ok(EventName::Alias(event, name.to_owned())),
            None => Err(problem),
        }
    }

    /// The event it is stored as.
    fn kept_as(&self) -> AuditEvent {
        match self {
            EventName::Listed(event) | EventName::Alias(event, _) => *event,
        }
    }

    /// Whether a record is one of this event.
    pub(crate) fn matches(&self, record: &Record) -> bool {
        match self {
            EventName::Listed(event) => record.event == *event,
            EventName::Alias(event, name) => record.event == *event && record.name() == name,
        }
    }
}

/// The record number in a cursor.
pub(crate) fn cursor_of(cursor: Option<&str>) -> Result<u64, ApiError> {
    let refused = |_| ApiError::invalid("cursor", "is not a cursor of an earlier page");
    cursor.map_or(Ok(0), |text| text.parse().map_err(refused))
}
