//! Work for an engine: what to run, whom to notify, and by when.

use tokio_util::sync::CancellationToken;

use crate::clock::Deadline;
use crate::error::StoreError;
use crate::job::JobId;
use crate::store::read_source::ReadSource;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::write_tx::WriteTx;

/// Work to run inside a commit, grouped with other waiting work.
pub trait WriteTask: Send {
    /// Does the work. Called again if the whole group has to be repeated.
    fn run(&mut self, tx: &mut WriteTx<'_>);
    /// Returns the outcome to the caller, after the commit is on disk or has failed.
    fn done(self: Box<Self>, outcome: Result<(), StoreError>);
    /// Whether it adds jobs and is therefore refused when the disk is full.
    fn adds_jobs(&self) -> bool;
    /// Whether it takes precedence: heartbeats must not wait behind bulk work.
    fn is_urgent(&self) -> bool;
    /// Whether it only adds jobs that depend on nothing stored: an engine with several nodes may append them without
    /// excluding other writers. See [`group_commit::append`](super::group_commit::append).
    fn is_independent(&self) -> bool {
        false
    }
    /// Whether it often finds nothing to do: an engine with several nodes may read a snapshot before it excludes other
    /// writers.
    fn is_often_idle(&self) -> bool {
        false
    }
    /// The approximate number of jobs it changes; used to keep groups small.
    fn weight(&self) -> usize {
        1
    }
    /// The number of claimable jobs it needs, so that an engine can prefetch them when the commit begins.
    fn claims(&self) -> usize {
        0
    }
    /// The jobs it looks up, for the same purpose.
    fn names(&self) -> &[JobId] {
        &[]
    }
    /// The time by which the caller must get an answer; `None` if no caller waits.
    fn deadline(&self) -> Option<Deadline> {
        None
    }
    /// Whether the caller was already answered that nothing was done. The task must not run then.
    fn is_withdrawn(&self) -> bool {
        false
    }
    /// The effects of `run` were rolled back. Until the task runs again, its caller may be answered that nothing was
    /// done.
    fn undone(&mut self) {}
}

/// Work to run on a snapshot.
pub trait ReadTask: Send {
    /// Does the work.
    fn run(&mut self, tx: &mut ReadTx<'_>);
    /// Whether it reads everything and may hold its snapshot for long.
    fn is_long(&self) -> bool;
    /// Cancelled once no caller waits for the answer; the engine then cancels the current statement.
    fn cancellation(&self) -> CancellationToken {
        CancellationToken::new()
    }
    /// The source of the read. Sources are served in turns.
    fn made_for(&self) -> Option<&ReadSource> {
        None
    }
    /// Returns the outcome to the caller.
    fn done(self: Box<Self>, outcome: Result<(), StoreError>);
    /// The time by which the caller must get an answer; `None` if there is no limit.
    fn deadline(&self) -> Option<Deadline> {
        None
    }
    /// Whether the caller has stopped waiting, so that the answer is not needed.
    fn is_withdrawn(&self) -> bool {
        false
    }
}
