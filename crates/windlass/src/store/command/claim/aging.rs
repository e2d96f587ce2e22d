//! Aging: in a lane whose jobs age, the first job of any rank may be next, because it has aged most. A claim compares the
//! first jobs of all ranks of all lanes. Where they are is remembered between claims (`heads.rs`), so that it reads only
//! the ranks that it takes jobs from, and those that it does not know yet, up to [`AGING_HEADS_PER_CLAIM`].
//! Beyond that, unknown lanes take turns (`turns.rs`). The first job of a lane is always compared; if its lower ranks
//! are not, they follow it in plain order.
//!
//! [`AGING_HEADS_PER_CLAIM`]: crate::limits::AGING_HEADS_PER_CLAIM

mod heads;
mod turns;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

pub(in crate::store) use self::heads::AgingHeads;
pub(in crate::store) use self::turns::AgingTurns;
use super::candidates::{LaneScan, Search, Source};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobRecord, Lane, Seq};
use crate::store::engine::{ClaimOrder, LaneCursor};
use crate::store::tx::write_tx::WriteTx;

/// Number of ranks: one for each priority.
const RANKS: usize = 101;

/// A lane whose jobs age, with the ranks that this claim has not read yet.
pub(super) struct AgingLane {
    pub(super) lane: Arc<Lane>,
    every: Duration,
    /// The capacity slots it needs.
    pub(super) slots: Vec<usize>,
    /// The fair queue it belongs to.
    pub(super) fair: Option<usize>,
    /// The ranks that are read as scans, one bit each.
    read: u128,
    /// The first possible position in the other ranks: as it has aged, and as it is stored.
    next: Option<(ClaimOrder, ClaimOrder)>,
}

impl AgingLane {
    pub(super) fn new(lane: Arc<Lane>, every: Duration, slots: Vec<usize>, fair: Option<usize>) -> AgingLane {
        AgingLane { lane, every, slots, fair, read: 0, next: None }
    }

    /// Finds the first possible position in the ranks that are not read yet.
    fn advance(&mut self, heads: &AgingHeads, now: Timestamp) {
        let unread = heads.get(&self.lane).unwrap_or_default().iter();
        let unread =
            unread.filter(|head| usize::from(head.rank) < RANKS && self.read & (1 << head.rank) == 0);
        self.next = unread.map(|head| (head.aged(self.every, now), *head)).min();
    }

    /// The first possible position in the ranks that are not read yet, as it has aged.
    pub(super) fn place(&self) -> Option<ClaimOrder> {
        self.next.map(|(aged, _)| aged)
    }

    /// A scan of the jobs of one rank, or of all jobs after a position.
    fn scan(&self, rank: Option<u8>, jobs: Vec<JobRecord>, last: ClaimOrder) -> LaneScan {
        LaneScan {
            lane: self.lane.clone(),
            rank,
            aging: Some(self.every),
            jobs: jobs.into_iter(),
            last: Some(last),
            is_drained: false,
            unread: None,
            slots: self.slots.clone(),
            fair: self.fair,
        }
    }
}

impl Search {
    /// Compares the lanes whose jobs age and reads those that will probably be used.
    pub(super) fn compare_aging(&mut self, tx: &mut WriteTx<'_>, wanted: usize) -> Result<(), StoreError> {
        if self.aging.is_empty() {
            return Ok(());
        }
        // What this commit has changed so far is remembered once it is written.
        tx.flush()?;
        let now = self.now;
        let heads = tx.aging_heads();
        heads.limit();
        let lanes = std::mem::take(&mut self.aging).into_iter();
        let (known, unknown): (Vec<_>, Vec<_>) = lanes.partition(|lane| heads.get(&lane.lane).is_some());
        self.aging = known;
        self.read_heads(tx, unknown)?;
        let heads = tx.aging_heads();
        self.aging.iter_mut().for_each(|lane| lane.advance(heads, now));
        self.read_best(tx, wanted)
    }

    /// Reads the first position of each rank of these lanes, as far as the bound allows.
    fn read_heads(&mut self, tx: &mut WriteTx<'_>, lanes: Vec<AgingLane>) -> Result<(), StoreError> {
        if lanes.is_empty() {
            return Ok(());
        }
        let mut lanes = self.first_jobs(tx, lanes)?;
        let max = tx.env.options.aging_heads_per_claim;
        let is_many = lanes.len() > max / RANKS;
        if is_many {
            let anywhere = tx.env.entropy.next_u64();
            tx.aging_turns().sort(&mut lanes, |(lane, _)| &lane.lane, anywhere);
        }
        // One more than the bound, which shows whether all were found.
        let lower = tx.db()?.heads(&cursors(&lanes), max + 1)?;
        let found: usize = lower.iter().map(Vec::len).sum();
        self.count_reads(found);
        let mut whole = lanes.len();
        if found > max {
            // The last lane may not have been compared completely.
            whole = lower.iter().rposition(|places| !places.is_empty()).unwrap_or(0);
            tx.aging_turns().compared(lanes[..whole.max(1)].iter().map(|(lane, _)| &lane.lane));
        }
        for (at, ((lane, first), lower)) in lanes.into_iter().zip(lower).enumerate() {
            let place = ClaimOrder::new(&first);
            if at < whole {
                let places = std::iter::once(place).chain(lower).collect();
                tx.aging_heads().insert(lane.lane.clone(), places);
                self.aging.push(lane);
            } else {
                self.scans.push(lane.scan(None, vec![first], place));
            }
        }
        Ok(())
    }

    /// Reads the first job of each lane; lanes without jobs are dropped.
    fn first_jobs(
        &mut self,
        tx: &mut WriteTx<'_>,
        lanes: Vec<AgingLane>,
    ) -> Result<Vec<(AgingLane, JobRecord)>, StoreError> {
        let from_the_front = |lane: &AgingLane| LaneCursor { lane: lane.lane.clone(), after: None };
        let heads = tx.db()?.ready(&lanes.iter().map(from_the_front).collect::<Vec<_>>(), 1)?;
        let with_job = |(lane, mut head): (AgingLane, Vec<_>)| Some((lane, head.pop()?));
        let found: Vec<_> = lanes.into_iter().zip(heads).filter_map(with_job).collect();
        self.count_reads(found.len());
        Ok(found)
    }

    /// Reads the jobs of the ranks that will probably be used, in one query: twice as many as are wanted, because others
    /// may have taken the jobs that were remembered.
    fn read_best(&mut self, tx: &mut WriteTx<'_>, wanted: usize) -> Result<(), StoreError> {
        let scans = (0..self.scans.len()).filter_map(|at| Some(Reverse((self.place(at)?, Source::Scan(at)))));
        let lanes = self.aging.iter().enumerate();
        let lanes = lanes.filter_map(|(at, lane)| Some(Reverse((lane.place()?, Source::Lane(at)))));
        let mut best: BinaryHeap<_> = scans.chain(lanes).collect();
        let mut opened = Vec::new();
        for _ in 0..2 * wanted {
            let Some(Reverse((_, source))) = best.pop() else { break };
            let Source::Lane(at) = source else { continue };
            opened.extend(self.open_rank(tx.aging_heads(), at));
            best.extend(self.aging[at].place().map(|place| Reverse((place, source))));
        }
        self.read_ranks(tx, &opened, Search::jobs_per_scan(wanted, opened.len()))
    }

    /// Opens a scan of the rank of a lane that may be next, without reading it.
    fn open_rank(&mut self, heads: &AgingHeads, at: usize) -> Option<usize> {
        let lane = &mut self.aging[at];
        let (_, head) = lane.next?;
        lane.read |= 1 << head.rank;
        lane.advance(heads, self.now);
        self.scans.push(lane.scan(Some(head.rank), Vec::new(), before(head)));
        Some(self.scans.len() - 1)
    }

    /// Reads the jobs of opened ranks, and remembers where they begin.
    fn read_ranks(&mut self, tx: &mut WriteTx<'_>, opened: &[usize], each: usize) -> Result<(), StoreError> {
        self.read_ahead(tx, opened, each)?;
        for scan in opened.iter().map(|at| &self.scans[*at]) {
            let first = scan.jobs.as_slice().first().map(ClaimOrder::new);
            if let Some(rank) = scan.rank {
                tx.aging_heads().found(&scan.lane, rank, first);
            }
        }
        Ok(())
    }

    /// Reads the rank of a lane that may be next, and inserts the heads of both into the order.
    pub(super) fn read_next_rank(
        &mut self,
        tx: &mut WriteTx<'_>,
        at: usize,
        wanted: usize,
    ) -> Result<(), StoreError> {
        if let Some(scan) = self.open_rank(tx.aging_heads(), at) {
            self.read_ranks(tx, &[scan], Search::jobs_per_scan(wanted, 1))?;
            self.push_head(Source::Scan(scan));
        }
        self.push_head(Source::Lane(at));
        Ok(())
    }
}

/// The position after which to read a lane scan that begins with this one.
fn before(place: ClaimOrder) -> ClaimOrder {
    ClaimOrder { seq: Seq(place.seq.0 - 1), ..place }
}

/// Where to continue after the rank of each lane's first job.
fn cursors(lanes: &[(AgingLane, JobRecord)]) -> Vec<LaneCursor> {
    let end =
        |first: ClaimOrder| ClaimOrder { rank: first.rank, eligible_at: Timestamp::MAX, seq: Seq(i64::MAX) };
    let cursor = |(lane, first): &(AgingLane, JobRecord)| LaneCursor {
        lane: lane.lane.clone(),
        after: Some(end(ClaimOrder::new(first))),
    };
    lanes.iter().map(cursor).collect()
}

#[cfg(test)]
mod tests;
