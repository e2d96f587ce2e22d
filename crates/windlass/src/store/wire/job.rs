//! Jobs: encoded from snapshots, and decoded into them.

use serde_json::{Map, Value};
use windlass_api::job::{Job, Why};

use crate::store::query::explain::Reason;
use crate::store::query::snapshot::Snapshot;

impl From<Reason> for Why {
    fn from(reason: Reason) -> Why {
        let details = match reason.details {
            Value::Object(details) => details,
            _ => Map::new(),
        };
        Why { code: reason.code.to_owned(), message: reason.message, details }
    }
}

impl From<Why> for Reason {
    fn from(why: Why) -> Reason {
        let code = Reason::CODES.into_iter().find(|code| *code == why.code).unwrap_or("other");
        Reason { code, message: why.message, details: Value::Object(why.details) }
    }
}

impl From<Snapshot> for Job {
    /// The job without its result and payload.
    fn from(snapshot: Snapshot) -> Job {
        let version = snapshot.version();
        let Snapshot { job, spec, why, is_redacted, .. } = snapshot;
        Job { why: why.map(Why::from), redacted: is_redacted, ..Job::from_stored(&job, spec, version) }
    }
}

impl From<Job> for Snapshot {
    fn from(mut shown: Job) -> Snapshot {
        let why = shown.why.take().map(Reason::from);
        let (shown_version, is_redacted) = (Some(shown.version.0), shown.redacted);
        let (job, spec) = shown.into_parts();
        Snapshot { job, spec, why, is_redacted, shown_version }
    }
}
