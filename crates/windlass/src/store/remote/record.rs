//! Audit records as sent by a server.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::Moment;
use crate::audit::{AuditEvent, Record};
use crate::job::{JobId, JobType, QueueName, Tenant};

/// One audit record as sent by the server.
#[derive(Deserialize)]
pub(super) struct ShownRecord {
    #[serde(default)]
    seq: u64,
    event: String,
    #[serde(default)]
    alias_of: Option<String>,
    at: Moment,
    actor: Actor,
    tenant: Tenant,
    job: Option<JobId>,
    #[serde(default)]
    queue: Option<QueueName>,
    #[serde(default)]
    r#type: Option<JobType>,
    trace_id: Option<String>,
    context: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Actor {
    r#type: String,
    id: String,
}

impl From<ShownRecord> for Record {
    fn from(shown: ShownRecord) -> Record {
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
            tenant: shown.tenant,
            job: shown.job,
            queue: shown.queue,
            job_type: shown.r#type,
            trace_id: shown.trace_id,
            context: shown.context.map_or_else(|| "{}".to_owned(), |json| json.get().to_owned()),
        }
    }
}
