//! Appended jobs, an optional capability of engines with other nodes: jobs that depend on nothing stored are stored
//! without excluding other writers, and taken in by the next commit, before anything else in it.

use crate::audit::Record;
use crate::clock::Timestamp;
use crate::store::engine::{EngineResult, NewRow};

/// Jobs that were appended together.
#[derive(Debug, Clone)]
pub struct AppendedJobs {
    /// When they were submitted.
    pub at: Timestamp,
    /// The jobs; their sequence numbers mean nothing yet.
    pub rows: Vec<NewRow>,
    /// Their audit records, and whether each is kept; their numbers mean nothing yet.
    pub records: Vec<(Record, bool)>,
}

/// Taking in appended jobs.
pub trait Appends {
    /// Removes all appended jobs, and returns them in the order in which they were appended, with the time of the last
    /// commit. None of them is later than the time of this transaction.
    fn take_appended(&mut self) -> EngineResult<(Vec<AppendedJobs>, Timestamp)>;
    /// Whether jobs were appended with this nonce, after waiting for appends that are still being stored; `None` if
    /// that cannot be known any more. `since` is the number of a commit before the append.
    fn was_appended(&mut self, number: i64, since: i64) -> EngineResult<Option<bool>>;
}
