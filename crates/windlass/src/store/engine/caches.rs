//! What the store may still believe between two commits of one connection.

use std::sync::Arc;

use crate::job::{Lane, Seq};
use crate::store::engine::ClaimOrder;

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
    /// The lanes to which other connections have added claimable jobs since this was last asked, each with a position at or
    /// before the first of them; there may be more lanes. `None` if they may have added any.
    fn added_by_others(&mut self) -> Option<Vec<(Arc<Lane>, ClaimOrder)>> {
        None
    }
}
