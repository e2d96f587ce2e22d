//! Work for an engine, as the engine sees it: what to run, whom to tell, and by when.

use tokio_util::sync::CancellationToken;

use crate::clock::Deadline;
use crate::error::StoreError;
use crate::job::JobId;
use crate::store::asker::ReadSource;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::write_tx::WriteTx;

/// Work to be done inside a commit, together with whatever else is waiting.
pub trait WriteTask: Send {
    /// Does the work. May be called again when the whole group has to be repeated.
    fn run(&mut self, tx: &mut WriteTx<'_>);
    /// Tells the caller, after the commit is on disk or has failed.
    fn done(self: Box<Self>, outcome: Result<(), StoreError>);
    /// Whether it adds jobs, and so is refused when the disk is full.
    fn adds_jobs(&self) -> bool;
    /// Whether it goes before others: heartbeats must not wait behind bulk work.
    fn is_urgent(&self) -> bool;
    /// About how many jobs it changes, by which groups are kept small.
    fn weight(&self) -> usize {
        1
    }
    /// How many claimable jobs it looks for, so that an engine can look for them as soon as it begins.
    fn claims(&self) -> usize {
        0
    }
    /// The jobs that it looks up, for the same reason.
    fn names(&self) -> &[JobId] {
        &[]
    }
    /// By when its caller is answered; none if nobody waits for it.
    fn deadline(&self) -> Option<Deadline> {
        None
    }
    /// Whether its caller was told that nothing was done: it must not be run any more.
    fn is_withdrawn(&self) -> bool {
        false
    }
    /// What `run` did was rolled back: until it is run again its caller may be told that nothing was done.
    fn undone(&mut self) {}
}

/// Work to be done on a snapshot.
pub trait ReadTask: Send {
    /// Does the work.
    fn run(&mut self, view: &mut ReadTx<'_>);
    /// Whether it looks at everything, and so may hold its snapshot for long.
    fn is_long(&self) -> bool;
    /// Cancelled once nobody waits for the answer: an engine then ends the statement that it is at.
    fn asker(&self) -> CancellationToken {
        CancellationToken::new()
    }
    /// For whom it is made; those who ask are served in turns.
    fn made_for(&self) -> Option<&ReadSource> {
        None
    }
    /// Tells the caller.
    fn done(self: Box<Self>, outcome: Result<(), StoreError>);
    /// By when its caller is answered; none if it may take as long as it likes.
    fn deadline(&self) -> Option<Deadline> {
        None
    }
    /// Whether its caller has gone, so that nobody needs the answer.
    fn is_withdrawn(&self) -> bool {
        false
    }
}
