//! Claims that match many lanes. A connection remembers of each lane whose jobs do not age a position at or before its
//! first job, so that a claim compares positions and reads only the lanes that it takes jobs from. As in `aging/heads.rs`,
//! a position that is too early costs one read, never the order. An engine that can read a snapshot before it excludes
//! other writers reads the positions of all lanes there ([`read_ahead`]).

use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::candidates::{Search, Source};
use crate::error::StoreError;
use crate::job::{JobRecord, JobState, Lane};
use crate::store::engine::{ClaimOrder, Counts, EngineResult, Write};
use crate::store::tx::cache::ConnectionCache;
use crate::store::tx::write_tx::WriteTx;

/// Maximum number of lanes whose first position is remembered.
const LANE_HEADS_REMEMBERED: usize = 65_536;

/// The first possible positions of lanes. Exact for the order of claims as long as it is given every job that is stored:
/// what other connections have added is registered, and everything is forgotten if that is not known.
#[derive(Debug, Default)]
pub(in crate::store) struct LaneHeads {
    /// `None` for a lane without claimable jobs.
    lanes: FxHashMap<Arc<Lane>, Option<ClaimOrder>>,
    /// Whether every other lane is without claimable jobs.
    is_complete: bool,
}

impl LaneHeads {
    /// Forgets all lanes.
    pub(in crate::store) fn clear(&mut self) {
        *self = LaneHeads::default();
    }

    /// Whether positions of lanes with these jobs should be read before other writers are excluded.
    #[cfg_attr(
        not(feature = "postgres"),
        allow(dead_code, reason = "only nodes that share a database look ahead")
    )]
    pub(in crate::store) fn lacks_any(&self, counts: Option<&Counts>) -> bool {
        let is_possible = |counts: &Counts| counts.lanes.len() <= LANE_HEADS_REMEMBERED;
        counts.is_none_or(|counts| !self.is_complete && is_possible(counts))
    }

    /// Remembers the first position of a lane, as read.
    fn found(&mut self, lane: &Arc<Lane>, first: Option<ClaimOrder>) {
        match self.lanes.get_mut(lane) {
            Some(known) => *known = first,
            None => drop(self.lanes.insert(lane.clone(), first)),
        }
    }

    /// Registers a job as it was just stored.
    pub(in crate::store) fn stored(&mut self, job: &JobRecord) {
        let is_used = self.is_complete || !self.lanes.is_empty();
        if is_used && job.state == JobState::Scheduled && !job.is_blocked {
            self.added(&job.lane, ClaimOrder::new(job));
        }
    }

    /// Registers the position of a job that was added to a lane.
    pub(in crate::store) fn added(&mut self, lane: &Arc<Lane>, place: ClaimOrder) {
        if let Some(known) = self.lanes.get_mut(lane) {
            *known = Some(known.map_or(place, |first| first.min(place)));
        } else if self.is_complete {
            self.lanes.insert(lane.clone(), Some(place));
            if self.lanes.len() > LANE_HEADS_REMEMBERED {
                self.clear();
            }
        }
    }
}

/// Reads the counts and where all lanes begin, on a snapshot: the claims of the next commit then read no more than what
/// has changed since.
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "only nodes that share a database look ahead")
)]
pub(in crate::store) fn read_ahead(db: &mut dyn Write, cache: &mut ConnectionCache) -> EngineResult<()> {
    cache.refresh_ahead(db);
    let counts = db.counts()?;
    if !cache.lane_heads.lacks_any(Some(counts)) {
        return Ok(());
    }
    let has_jobs = counts.lanes.iter().filter(|(_, counts)| counts[JobState::Scheduled as usize] > 0);
    let lanes: Vec<Arc<Lane>> = has_jobs.map(|(lane, _)| lane.clone()).collect();
    let fronts = db.fronts(&lanes)?;
    let lanes = lanes.into_iter().zip(fronts).collect();
    cache.lane_heads = LaneHeads { lanes, is_complete: true };
    Ok(())
}

impl Search {
    /// Reads the lanes whose jobs do not age: the first `each` jobs of all of them if they are few, else of those that
    /// will probably be used. The others get a lower bound in their place.
    pub(super) fn read_plain(
        &mut self,
        tx: &mut WriteTx<'_>,
        wanted: usize,
        each: usize,
    ) -> Result<(), StoreError> {
        let all: Vec<usize> = (0..self.scans.len()).collect();
        if all.len() <= tx.env.options.lanes_read_at_once.max(2 * wanted) {
            return self.read_ahead(tx, &all, each);
        }
        // What this commit has changed so far is remembered once it is written.
        tx.flush()?;
        let heads = tx.lane_heads();
        if heads.lanes.len() > LANE_HEADS_REMEMBERED {
            heads.clear();
        }
        let (mut unknown, mut known) = (Vec::new(), Vec::new());
        for at in all {
            match heads.lanes.get(&self.scans[at].lane) {
                None => unknown.push(at),
                Some(None) => self.scans[at].is_drained = true,
                Some(Some(place)) => known.push((*place, at)),
            }
        }
        known.extend(self.read_fronts(tx, unknown)?);
        for (place, at) in known {
            self.scans[at].unread = Some(place);
        }
        self.read_most_urgent(tx, 2 * wanted)
    }

    /// Reads where lanes begin that are not known; returns those that have jobs.
    fn read_fronts(
        &mut self,
        tx: &mut WriteTx<'_>,
        unknown: Vec<usize>,
    ) -> Result<Vec<(ClaimOrder, usize)>, StoreError> {
        if unknown.is_empty() {
            return Ok(Vec::new());
        }
        let lanes: Vec<Arc<Lane>> = unknown.iter().map(|at| self.scans[*at].lane.clone()).collect();
        let fronts = tx.db()?.fronts(&lanes)?;
        self.count_reads(lanes.len());
        let mut known = Vec::with_capacity(lanes.len());
        for ((at, lane), first) in unknown.into_iter().zip(&lanes).zip(fronts) {
            tx.lane_heads().found(lane, first);
            match first {
                Some(place) => known.push((place, at)),
                None => self.scans[at].is_drained = true,
            }
        }
        Ok(known)
    }

    /// Reads the lanes that are not read yet and of which jobs will probably be taken.
    fn read_most_urgent(&mut self, tx: &mut WriteTx<'_>, count: usize) -> Result<(), StoreError> {
        let mut best = BinaryHeap::with_capacity(count + 1);
        for (at, scan) in self.scans.iter().enumerate() {
            let Some(place) = scan.unread else { continue };
            best.push((place, at));
            if best.len() > count {
                best.pop();
            }
        }
        let first: Vec<usize> = best.into_iter().map(|(_, at)| at).collect();
        self.read_unread(tx, &first, count)
    }

    /// Reads a lane whose bound is the next position, and others that will probably be needed soon.
    pub(super) fn read_next_lanes(
        &mut self,
        tx: &mut WriteTx<'_>,
        at: usize,
        wanted: usize,
    ) -> Result<(), StoreError> {
        let mut lanes = vec![at];
        if let Some(fair) = self.scans[at].fair {
            for (place, source) in self.fair[fair].upcoming(wanted) {
                if let Source::Scan(at) = source
                    && self.is_bound(source)
                {
                    let tenant = &self.scans[at].lane.tenant;
                    self.fair[fair].remove(tenant, place, source);
                    lanes.push(at);
                }
            }
        } else {
            lanes.extend(self.pop_unread(wanted));
        }
        self.read_unread(tx, &lanes, wanted)?;
        for at in lanes {
            self.push_head(Source::Scan(at));
        }
        Ok(())
    }

    fn read_unread(
        &mut self,
        tx: &mut WriteTx<'_>,
        lanes: &[usize],
        wanted: usize,
    ) -> Result<(), StoreError> {
        for at in lanes {
            self.scans[*at].unread = None;
        }
        self.read_ahead(tx, lanes, Search::jobs_per_scan(wanted, lanes.len()))?;
        self.remember_heads(tx, lanes);
        Ok(())
    }

    /// Remembers where these lanes begin, which were just read from their front.
    fn remember_heads(&self, tx: &mut WriteTx<'_>, lanes: &[usize]) {
        for scan in lanes.iter().map(|at| &self.scans[*at]) {
            let first = scan.jobs.as_slice().first().map(ClaimOrder::new);
            tx.lane_heads().found(&scan.lane, first);
        }
    }
}

#[cfg(test)]
mod tests;
