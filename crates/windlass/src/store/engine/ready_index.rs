//! The indexes that claims and timers read. Nothing is written here: all of it follows from the job records, and changes
//! with [`JobTableMut`](super::JobTableMut) in the same commit. Which jobs belong to an index and where they stand in it
//! is decided by pure functions: [`ClaimOrder::new`], [`ClaimOrder::when_due`] and [`acts_at`](crate::job::acts_at).

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::job::{ConcurrencyKey, JobRecord, Lane};
use crate::store::engine::{ClaimOrder, EngineResult};

/// The position in a lane to continue reading from.
#[derive(Debug, Clone)]
pub struct LaneCursor {
    /// The lane to read.
    pub lane: Arc<Lane>,
    /// Continue after this position; from the front if `None`.
    pub after: Option<ClaimOrder>,
}

/// Reading the indexes of jobs. A job is claimable if it is `Scheduled`, and blocked if its record says so.
pub trait ReadyIndex {
    /// Up to `each_max` claimable jobs of each lane that are not blocked, in the order of [`ClaimOrder`].
    fn ready(&mut self, lanes: &[LaneCursor], each_max: usize) -> EngineResult<Vec<Vec<JobRecord>>>;
    /// A position at or before the first such job of each lane; `None` if it has none.
    fn fronts(&mut self, lanes: &[Arc<Lane>]) -> EngineResult<Vec<Option<ClaimOrder>>> {
        let cursor = |lane: &Arc<Lane>| LaneCursor { lane: lane.clone(), after: None };
        let first = self.ready(&lanes.iter().map(cursor).collect::<Vec<_>>(), 1)?;
        Ok(first.iter().map(|jobs| jobs.first().map(ClaimOrder::new)).collect())
    }
    /// The position of the first claimable job of each rank in each lane, lane after lane in the given order, up to
    /// `max` positions in all. Only ranks after the rank of the cursor are returned.
    fn heads(&mut self, lanes: &[LaneCursor], max: usize) -> EngineResult<Vec<Vec<ClaimOrder>>>;
    /// Up to `max` jobs with a timer due by `now`, ordered by [`crate::job::acts_at`], then `seq`. Those that cannot be
    /// read are left out.
    fn due(&mut self, now: Timestamp, max: usize) -> EngineResult<Vec<JobRecord>>;
    /// The positions of up to `each_max` jobs of each lane that are due by `now` (delayed, retrying or parked),
    /// computed by [`ClaimOrder::when_due`] and in its order.
    fn due_in(
        &mut self,
        lanes: &[Arc<Lane>],
        now: Timestamp,
        each_max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>>;
    /// The earliest time at which the timer of any job that can be read is due.
    fn next_due(&mut self) -> EngineResult<Option<Timestamp>>;
    /// The first job of each lane, in the order of [`ClaimOrder`], that is blocked on this key. The order of the lanes
    /// is unspecified.
    fn set_aside(&mut self, key: ConcurrencyKey) -> EngineResult<Vec<JobRecord>>;
}
