//! The contract between the store and a database. An engine locks rows, reads them and writes what commands decide; it
//! contains no rules. Commands are written once, in `command/`, against these traits. `docs/design/engines.md` in the
//! repository is the guide for writing an engine, and the crate `windlass-conformance` is the suite that proves one.
//!
//! # The one requirement
//!
//! **One writer at a time.** Commits of all connections, processes and machines on a store happen one after the other,
//! and each sees everything that was committed before it. Commands rely on it: they read, decide and write without
//! looking again. From it follows the rest:
//!
//! - A commit is atomic and durable: its tasks are answered after all of it is on disk, or none of it is.
//! - Within a commit, reads see the commit's own writes.
//! - Sequence numbers of jobs ascend, and audit records are numbered from 1 without gaps.
//! - A read sees one snapshot: all commits up to some point and nothing of later ones, for as long as it takes.
//! - Time does not go back: an engine asks [`StoreClock::commit`](crate::clock::StoreClock::commit) for the time of a
//!   commit, with the time of the one before.
//!
//! # Chapters
//!
//! What is stored is described in chapters of a few methods: sets go in, sets come out, in an order that each method
//! states. [`Read`] is all chapters for a snapshot, [`Write`] the same with their changes for a commit.
//!
//! | chapter | reading | writing |
//! |---|---|---|
//! | jobs and their specs | [`JobTable`] | [`JobTableMut`] |
//! | claimable jobs, timers, blocked jobs | [`ReadyIndex`] | follows from the jobs |
//! | idempotency and unique keys | [`Keys`] | [`KeysMut`] |
//! | dependencies | [`Graph`] | [`GraphMut`] |
//! | attempts, checkpoints, logs, partial output, results | [`JobDataTable`] | [`JobDataTableMut`] |
//! | settings and other small documents | [`Documents`] | [`DocumentsMut`] |
//! | the audit log | [`AuditLog`] | [`AuditLogMut`] |
//! | counts and numbers | [`Counters`] | [`CountersMut`] |
//!
//! What only some databases can do is an optional capability, reached by a method that returns an `Option`:
//! [`Inbox`], [`Export`] and [`Import`], [`Derived`] and [`DerivedMut`], [`Prefetch`], [`Backup`], [`Appends`].
//!
//! # Caches, and the two numbers that keep them right
//!
//! The store keeps a [`ConnectionCache`] per connection: the parsed configuration, running jobs, the usage of limits,
//! the time of the earliest timer. It trusts that cache exactly as far as two numbers of the engine allow, so they are
//! a protocol for cache coherence:
//!
//! - [`Documents::configuration_version`] is stored with the data and grows with every change of a configuration
//!   document, by any connection. It is read whenever the configuration is needed; a cached configuration of another
//!   version is read again. An engine that forgets to move it serves stale settings forever.
//! - [`Caches::cache_generation`] belongs to the connection. It is read when a commit begins, and everything else in the
//!   cache is discarded if it differs from that of the connection's previous commit. It must change if any other
//!   connection has committed in between; it should not change for the connection's own commits, which the cache has
//!   followed. An engine with one connection returns a constant; an engine that cannot tell returns a new number each
//!   time, and is slow but right. Running jobs are kept if the engine can tell which of them others have changed
//!   ([`Caches::changed_by_others`]), and where lanes begin if it can tell to which of them others have added jobs
//!   ([`Caches::added_by_others`]).
//!
//! After a commit that failed the engine clears the cache ([`group_commit::run`] does it for errors of tasks).

mod appends;
mod audit_log;
mod caches;
mod counters;
mod derived;
mod documents;
mod graph;
mod inbox;
mod job_data;
mod job_table;
mod keys;
mod ready_index;
mod task;
mod transfer;

use std::any::Any;
use std::path::Path;

pub use self::appends::{AppendedJobs, Appends};
pub use self::audit_log::{AuditLog, AuditLogMut, RecordQuery};
pub use self::caches::Caches;
pub use self::counters::{Counters, CountersMut, SequenceNumbers};
pub use self::derived::{Damage, Derived, DerivedData, DerivedMut};
pub use self::documents::{Document, DocumentKind, DocumentRange, Documents, DocumentsMut};
pub use self::graph::{Edge, Graph, GraphMut, Side};
pub use self::inbox::{Inbox, InboxCounts, InboxEntry, InboxMut};
pub use self::job_data::{JobData, JobDataKind, JobDataQuery, JobDataTable, JobDataTableMut, JobDataWrite};
pub(crate) use self::job_table::is_row_damage;
pub use self::job_table::{JobTable, JobTableMut, NewRow};
pub use self::keys::{Key, KeyKind, Keys, KeysMut};
pub use self::ready_index::{LaneCursor, ReadyIndex};
pub use self::task::{ReadTask, WriteTask};
pub use self::transfer::{Export, Import, JobDataPosition, Page};
pub use super::claim_order::{ClaimOrder, rank};
pub use super::documents::counters::{CountChange, Counts, LimitScope, StateCounts};
pub use super::documents::key_counts::KeyChange;
pub use super::documents::key_holder::{KeyHolder, KeyHolderCache};
pub use super::tx::cache::ConnectionCache;
pub use super::tx::group_commit;
pub use super::tx::read_tx::ReadTx;
pub use super::tx::write_tx::WriteTx;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::Seq;

/// The result type of engine methods.
pub type EngineResult<T> = Result<T, StoreError>;

/// Read access to a snapshot: every chapter, and what else can be asked.
pub trait Read:
    JobTable + ReadyIndex + Keys + Graph + JobDataTable + Documents + AuditLog + Counters + Caches
{
    /// Store time of the last commit in this snapshot; the earliest time if there was none.
    fn committed_at(&mut self) -> EngineResult<Timestamp>;
    /// Full integrity check; returns a description of each problem that no other query would reveal. Reads everything.
    fn damage(&mut self) -> EngineResult<Vec<Damage>> {
        Ok(Vec::new())
    }
    /// What is derived from rows and stored beside them, if verification should look at it.
    fn derived(&mut self) -> Option<&mut dyn Derived> {
        None
    }
    /// The inbox, if callers can submit jobs in transactions of their own.
    fn inbox(&mut self) -> Option<&mut dyn Inbox> {
        None
    }
    /// Reading everything, if the store can be moved to another engine.
    fn export(&mut self) -> Option<&mut dyn Export> {
        None
    }
    /// Hints about what is read next, if an engine can use them.
    fn prefetch(&mut self) -> Option<&mut dyn Prefetch> {
        None
    }
}

/// Write access in a commit. Either all its changes are on disk before any caller is notified, or none are.
pub trait Write:
    Read + JobTableMut + KeysMut + GraphMut + JobDataTableMut + DocumentsMut + AuditLogMut + CountersMut
{
    /// The reason why all current leases must be invalidated: the database was, or may have been, restored to an
    /// earlier state. Normally `None`.
    fn why_put_back(&mut self) -> EngineResult<Option<String>> {
        Ok(None)
    }
    /// The inbox, if callers can submit jobs in transactions of their own.
    fn inbox_mut(&mut self) -> Option<&mut dyn InboxMut> {
        None
    }
    /// Jobs that were appended without excluding other writers, if the engine does that.
    fn appends(&mut self) -> Option<&mut dyn Appends> {
        None
    }
    /// Deriving data again, if the engine can.
    fn derived_mut(&mut self) -> Option<&mut dyn DerivedMut> {
        None
    }
    /// Writing rows unchanged, if a store can be moved to this engine.
    fn import(&mut self) -> Option<&mut dyn Import> {
        None
    }
}

/// Hints for an engine that pays a round trip per query, an optional capability.
pub trait Prefetch {
    /// The specs of some of these jobs will be read soon, a few at a time: the small ones may be read now.
    fn expect_specs(&mut self, seqs: &[Seq]) -> EngineResult<()>;
}

/// Copies of the whole store, an optional capability. A database that has its own tools for it leaves it to them.
pub trait Backup {
    /// Copies everything, as of one point in time, to a new file while work continues.
    fn copy_to(&self, to: &Path) -> EngineResult<()>;
}

/// A database. It takes work, runs it in its own time and on its own threads, and answers it.
///
/// For a commit: begin a transaction that excludes other writers, run the tasks with [`group_commit::run`], commit, and
/// answer them with [`group_commit::answer`]; on an error roll back, and [`refuse`](group_commit::refuse) them all. For
/// a read: begin a snapshot, run the task on a [`ReadTx`], and answer it.
pub trait Engine: Any + Send + Sync {
    /// Accepts work for the next commit; refuses it when too much is waiting.
    fn write(&self, task: Box<dyn WriteTask>);
    /// Accepts work for a snapshot.
    fn read(&self, task: Box<dyn ReadTask>);
    /// Accepts short work for a snapshot that must not wait for long reads.
    fn read_urgent(&self, task: Box<dyn ReadTask>) {
        self.read(task);
    }
    /// Copies of the store, if the engine makes them.
    fn backup(&self) -> Option<&dyn Backup> {
        None
    }
    /// Stops the engine after finishing the work it has accepted; what is sent later is refused.
    fn close(&self);
}
