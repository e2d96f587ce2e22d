//! Audit records in the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::audit::{AuditEvent, Record};
use windlass_core::job::{JobId, JobType, QueueName, Tenant};

use crate::json::Json;
use crate::text::Text;
use crate::time::Moment;

/// An audit record.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditRecord")]
pub struct RecordView {
    /// Number of the record; 0 for a live event that is not stored.
    pub seq: u64,
    /// The event.
    pub event: String,
    /// The standard event, if `event` is a type's custom name for it.
    pub alias_of: Option<String>,
    /// When.
    pub at: Moment,
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// Who caused it.
    pub actor: Actor,
    /// Tenant.
    pub tenant: Text<Tenant>,
    /// The job it is about.
    pub job: Option<Text<JobId>>,
    /// The queue of the job, or the queue the record is about.
    pub queue: Option<Text<QueueName>>,
    /// The type of the job, or the type the record is about.
    pub r#type: Option<Text<JobType>>,
    /// The trace of the request or job.
    pub trace_id: Option<String>,
    /// Further data, by event.
    pub context: Option<Json>,
}

/// Who performed the action.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Actor {
    /// `user`, `worker` or `system`.
    pub r#type: String,
    /// Name of the user, id of the worker, or part of the system.
    pub id: String,
}

impl From<Record> for RecordView {
    fn from(record: Record) -> RecordView {
        RecordView {
            seq: record.seq,
            event: record.name().to_owned(),
            alias_of: record.alias.is_some().then(|| record.event.as_str().to_owned()),
            at: record.at.into(),
            severity: record.event.severity().as_str().to_owned(),
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

impl From<RecordView> for Record {
    fn from(shown: RecordView) -> Record {
        // An unknown name is a type's own name for a known event.
        let (event, alias) = if let Ok(event) = shown.event.parse::<AuditEvent>() {
            (event, None)
        } else {
            let listed = shown.alias_of.and_then(|name| name.parse().ok());
            (listed.unwrap_or(AuditEvent::Completed), Some(shown.event))
        };
        Record {
            seq: shown.seq,
            event,
            alias,
            at: shown.at.0,
            actor_type: shown.actor.r#type,
            actor_id: shown.actor.id,
            tenant: shown.tenant.0,
            job: shown.job.map(|id| id.0),
            queue: shown.queue.map(|name| name.0),
            job_type: shown.r#type.map(|name| name.0),
            trace_id: shown.trace_id,
            context: shown.context.map_or_else(|| "{}".to_owned(), |json| json.0.get().to_owned()),
        }
    }
}

/// A page of audit records, oldest first.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditPage")]
pub struct RecordPage {
    /// The records. A page may have fewer records than requested, or none, without being the last: the number of records
    /// read per page is limited.
    pub records: Vec<RecordView>,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// Events of one job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JobEvents {
    /// The events, oldest first.
    pub events: Vec<RecordView>,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}

/// The newest seal of the audit trail.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AuditHead")]
pub struct HeadView {
    /// The last record that the checkpoint covers; 0 before the first checkpoint.
    pub number: u64,
    /// The SHA-256 of the chain up to that record, in hexadecimal; null before the first seal.
    pub hash: Option<String>,
    /// Both, as `windlass audit verify --expect-head` takes them; null before the first seal.
    pub head: Option<String>,
    /// The public key that signed the seal, if seals are signed.
    pub signed_by: Option<String>,
}
