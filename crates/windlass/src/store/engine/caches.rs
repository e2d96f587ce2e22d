//! What the store may go on believing between two commits of one connection.

use crate::job::Seq;

/// Keeps the caches of a connection right beside others. See [the contract](super#caches-and-the-two-numbers-that-keep-them-right).
pub trait Caches {
    /// A number that changes whenever another connection has committed since this one last did; what was cached before
    /// is then discarded.
    fn cache_generation(&mut self) -> u64;
    /// The jobs that other connections have changed since this was last asked, of those that this one has stored as running;
    /// there may be more. `None` if any may have changed.
    fn changed_by_others(&mut self) -> Option<Vec<Seq>> {
        None
    }
}
