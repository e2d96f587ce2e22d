//! What a connection remembers between claims of the lanes whose jobs age: for each priority a position at or before its
//! first job. A job that is added moves the position forward in the order if it comes before it; a job that is taken
//! leaves it where it is, and the next claim that looks there finds out. So a claim reads again only what others took.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::job::{JobRecord, JobState, Lane};
use crate::limits;
use crate::store::engine::ClaimOrder;

/// The first possible positions of lanes, by rank. Exact for the order of claims as long as it is given every job that is
/// stored: it forgets the lanes to which another connection has added jobs, and everything if those are not known or a
/// commit fails.
#[derive(Debug, Default)]
pub(in crate::store) struct AgingHeads {
    lanes: FxHashMap<Arc<Lane>, Vec<ClaimOrder>>,
    /// Lanes and positions.
    size: usize,
}

impl AgingHeads {
    /// Forgets all lanes.
    pub(in crate::store) fn clear(&mut self) {
        *self = AgingHeads::default();
    }

    /// Forgets all lanes if there are more than may be remembered. Called before a claim uses any of them.
    pub(super) fn limit(&mut self) {
        if self.size > limits::AGING_HEADS_REMEMBERED {
            self.clear();
        }
    }

    /// Forgets a lane.
    pub(in crate::store) fn forget(&mut self, lane: &Lane) {
        if let Some(heads) = self.lanes.remove(lane) {
            self.size -= heads.len() + 1;
        }
    }

    /// The first possible position of each rank that has jobs; `None` if the lane is not known.
    pub(super) fn get(&self, lane: &Lane) -> Option<&[ClaimOrder]> {
        self.lanes.get(lane).map(Vec::as_slice)
    }

    /// Remembers the first position of each rank of a lane, as read.
    pub(super) fn insert(&mut self, lane: Arc<Lane>, heads: Vec<ClaimOrder>) {
        self.size += heads.len() + 1;
        if let Some(before) = self.lanes.insert(lane, heads) {
            self.size -= before.len() + 1;
        }
    }

    /// Registers a job as it was just stored.
    pub(in crate::store) fn stored(&mut self, job: &JobRecord) {
        if self.lanes.is_empty() || job.state != JobState::Scheduled || job.is_blocked {
            return;
        }
        let Some(heads) = self.lanes.get_mut(&job.lane) else { return };
        let place = ClaimOrder::new(job);
        match heads.binary_search_by_key(&place.rank, |head| head.rank) {
            Ok(at) => heads[at] = place.min(heads[at]),
            Err(at) => {
                heads.insert(at, place);
                self.size += 1;
            }
        }
    }

    /// Remembers the first position of one rank, as read; `None` if the rank has no job.
    pub(super) fn found(&mut self, lane: &Lane, rank: u8, first: Option<ClaimOrder>) {
        let Some(heads) = self.lanes.get_mut(lane) else { return };
        let Ok(at) = heads.binary_search_by_key(&rank, |head| head.rank) else { return };
        if let Some(first) = first {
            heads[at] = first;
        } else {
            heads.remove(at);
            self.size -= 1;
        }
    }
}
