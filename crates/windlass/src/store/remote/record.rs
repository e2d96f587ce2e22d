//! Audit records as a server shows them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::Moment;
use crate::audit::{AuditEvent, Record};
use crate::job::{JobId, Tenant};

/// One line of the audit trail, as it is shown.
#[derive(Deserialize)]
pub(super) struct ShownRecord {
    #[serde(default)]
    seq: u64,
    event: String,
    at: Moment,
    actor: Actor,
    tenant: Tenant,
    job: Option<JobId>,
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
        // A name that is not on the list is what its type calls a success (M92).
        let (event, alias) = match shown.event.parse::<AuditEvent>() {
            Ok(event) => (event, None),
            Err(_) => (AuditEvent::Completed, Some(shown.event)),
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
            trace_id: shown.trace_id,
            context: shown.context.map_or_else(|| "{}".to_owned(), |json| json.get().to_owned()),
        }
    }
}
