//! The inbox, an optional capability: jobs that callers submitted in transactions of their own, by a statement of the
//! database and not through the store. The store turns them into jobs later.

use crate::job::{JobId, NewJob, Tenant};
use crate::store::engine::EngineResult;

/// A job submitted in the caller's own transaction. The caller already has its id.
#[derive(Debug, Clone)]
pub struct InboxEntry {
    /// The job's id.
    pub id: JobId,
    /// The submitter.
    pub owner: String,
    /// The job to create.
    pub job: NewJob,
}

/// Inbox entries that are not jobs yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InboxCounts {
    /// Entries that wait to be processed.
    pub waiting: u64,
    /// Quarantined entries, of which no job can be made.
    pub set_aside: u64,
}

/// Reading the inbox.
pub trait Inbox {
    /// The tenant of a job whose submission was committed by its caller but that is still in the inbox.
    fn expected(&mut self, id: JobId) -> EngineResult<Option<Tenant>>;
    /// The number of entries.
    fn inbox_counts(&mut self) -> EngineResult<InboxCounts>;
}

/// Emptying the inbox.
pub trait InboxMut: Inbox {
    /// Takes up to `max` entries out, oldest first, fewer if they are large.
    fn take_inbox(&mut self, max: usize) -> EngineResult<Vec<InboxEntry>>;
    /// Quarantines the oldest entry because no job can be made of it.
    fn quarantine_inbox_entry(&mut self, why: &str) -> EngineResult<()>;
    /// Refuses new entries, after waiting for open submissions, or accepts them again.
    fn set_inbox_paused(&mut self, is_paused: bool) -> EngineResult<()>;
}
