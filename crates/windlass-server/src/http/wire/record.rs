//! Audit records in the API.

use schemars::JsonSchema;
use serde::Serialize;
use windlass::audit::Record;
use windlass::job::{JobId, JobType, QueueName, Tenant};

use super::Json;
use super::text::Text;
use super::time::Moment;

/// An audit record.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Record")]
pub(crate) struct RecordView {
    /// Number of the record; 0 for a live event that is not stored.
    seq: u64,
    event: String,
    /// The standard event, if `event` is a type's custom name for it.
    alias_of: Option<&'static str>,
    at: Moment,
    severity: &'static str,
    actor: Actor,
    tenant: Text<Tenant>,
    job: Option<Text<JobId>>,
    /// The queue of the job, or the queue the record is about.
    queue: Option<Text<QueueName>>,
    /// The type of the job, or the type the record is about.
    r#type: Option<Text<JobType>>,
    trace_id: Option<String>,
    context: Option<Json>,
}

/// Who performed the action.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Actor {
    /// `user`, `worker` or `system`.
    r#type: String,
    id: String,
}

impl From<Record> for RecordView {
    fn from(record: Record) -> RecordView {
        RecordView {
            seq: record.seq,
            event: record.name().to_owned(),
            alias_of: record.alias.is_some().then(|| record.event.as_str()),
            at: record.at.into(),
            severity: record.event.severity().as_str(),
            actor: Actor { r#type: record.actor_type, id: record.actor_id },
            tenant: Text(record.tenant),
            job: record.job.map(Text),
            queue: record.queue.map(Text),
            r#type: record.job_type.map(Text),
            trace_id: record.trace_id,
            context: Json::stored(record.context.as_bytes()),
        }
    }
}

/// A page of audit records, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RecordPage {
    /// The records. A page may have fewer records than requested, or none, without being the last: the number of records
    /// read per page is limited.
    pub(crate) records: Vec<RecordView>,
    /// Cursor of the next page; null on the last page.
    pub(crate) next_cursor: Option<String>,
}

/// Events of one job.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobEvents {
    pub(crate) events: Vec<RecordView>,
    /// Cursor of the next page; null on the last page.
    pub(crate) next_cursor: Option<String>,
}
