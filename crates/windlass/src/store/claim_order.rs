//! The position of a job among the claimable ones.

use std::time::Duration;

use crate::clock::Timestamp;
use crate::job::{JobRecord, JobState, Priority, Seq, acts_at};

/// A job's position among the claimable jobs of its lane: most urgent first, then longest eligible, then first
/// submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimOrder {
    /// 100 − priority, so that smaller is sooner.
    pub rank: u8,
    /// When it became claimable.
    pub eligible_at: Timestamp,
    /// The sequence number.
    pub seq: Seq,
}

impl ClaimOrder {
    /// The position of a claimable job.
    pub fn new(job: &JobRecord) -> ClaimOrder {
        ClaimOrder {
            rank: rank(job.effective_priority()),
            eligible_at: job.eligible_at.unwrap_or(job.created_at),
            seq: job.seq,
        }
    }

    /// The position of a job that waits for a time, based on that time; `None` if it waits for something else.
    pub fn when_due(job: &JobRecord) -> Option<ClaimOrder> {
        let is_timed = matches!(job.state, JobState::Delayed | JobState::Retrying | JobState::Waiting);
        let eligible_at = acts_at(job).filter(|_| is_timed)?;
        Some(ClaimOrder { eligible_at, ..ClaimOrder::new(job) })
    }

    /// The position after waiting until `now`, where each `every` raises a job by one point. The order among jobs
    /// of one rank does not change: the longest waiting job has risen most.
    #[must_use]
    pub fn aged(self, every: Duration, now: Timestamp) -> ClaimOrder {
        // 64 bits hold any difference of two timestamps; a claim compares very many positions.
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let points = millis(now.since(self.eligible_at)) / millis(every).max(1);
        ClaimOrder { rank: self.rank.saturating_sub(u8::try_from(points).unwrap_or(u8::MAX)), ..self }
    }
}

/// 100 − priority.
pub fn rank(priority: Priority) -> u8 {
    100 - priority.value()
}
