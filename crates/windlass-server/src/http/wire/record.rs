//! Audit records as they are shown.

use schemars::JsonSchema;
use serde::Serialize;
use windlass::audit::Record;
use windlass::job::{JobId, JobType, QueueName, Tenant};

use super::Json;
use super::text::Text;
use super::time::Moment;

/// One line of the audit trail.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Record")]
pub(crate) struct RecordView {
    /// Place in the trail; 0 for an event that is shown live and not kept.
    seq: u64,
    event: String,
    /// The listed event that `event` is its type's own name for, if it is one.
    alias_of: Option<&'static str>,
    at: Moment,
    severity: &'static str,
    actor: Actor,
    tenant: Text<Tenant>,
    job: Option<Text<JobId>>,
    /// The queue of that job, or the queue it is about.
    queue: Option<Text<QueueName>>,
    /// The type of that job, or the type it is about.
    r#type: Option<Text<JobType>>,
    trace_id: Option<String>,
    context: Option<Json>,
}

/// Who did it.
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

/// A page of the audit trail, oldest first.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RecordPage {
    /// The records; fewer than asked for, or none, also before the last page, where few of many that were looked at fit.
    pub(crate) records: Vec<RecordView>,
    /// Where to go on; null after the last page.
    pub(crate) next_cursor: Option<String>,
}

/// What happened to one job.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobEvents {
    pub(crate) events: Vec<RecordView>,
    /// Where to go on; null after the last page.
    pub(crate) next_cursor: Option<String>,
}
