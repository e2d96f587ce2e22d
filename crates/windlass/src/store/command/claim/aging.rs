//! Aging: in a lane whose jobs age, the first job of any rank may be next, because it has aged most. A claim
//! compares the first jobs of all ranks of all lanes, up to [`limits::AGING_HEADS_PER_CLAIM`]. Beyond that, lanes take
//! turns: those whose lower ranks were compared longest ago come first. The first job of a lane is always compared; if
//! its lower ranks are not, they follow it in plain order.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::candidates::{LaneScan, Search};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{Lane, Seq};
use crate::limits;
use crate::store::engine::{ClaimOrder, LaneCursor};
use crate::store::tx::write_tx::WriteTx;

/// Number of ranks: one for each priority.
const RANKS: usize = 101;

/// When the lower ranks of each lane were last compared, counted in claims that could not compare all of them. Local to
/// each node.
#[derive(Debug, Default)]
pub(in crate::store) struct AgingTurns {
    claims: u64,
    compared: FxHashMap<Arc<Lane>, u64>,
}

impl AgingTurns {
    /// Sorts the lanes compared longest ago first. A new lane is placed behind those already waiting. Lanes that have
    /// waited equally long start at a random offset, so that short-lived processes do not all begin with the same
    /// lanes.
    fn sort<T>(&mut self, lanes: &mut [T], lane: impl Fn(&T) -> &Arc<Lane>, anywhere: u64) {
        if self.compared.len() > limits::AGING_LANES_REMEMBERED {
            self.compared.clear();
        }
        let start = anywhere % (lanes.len() as u64).max(1);
        lanes.rotate_left(usize::try_from(start).unwrap_or(0));
        let claims = self.claims;
        lanes.sort_by_cached_key(|item| *self.compared.entry(lane(item).clone()).or_insert(claims));
    }

    /// Marks the lower ranks of these lanes as compared.
    fn compared<'a>(&mut self, lanes: impl Iterator<Item = &'a Arc<Lane>>) {
        self.claims += 1;
        let claims = self.claims;
        self.compared.extend(lanes.map(|lane| (lane.clone(), claims)));
    }
}

impl Search {
    /// Splits each lane whose jobs age into one lane scan per rank that has jobs, within the bound.
    pub(super) fn split_aging(&mut self, tx: &mut WriteTx<'_>, wanted: usize) -> Result<(), StoreError> {
        let (aging, plain): (Vec<LaneScan>, Vec<LaneScan>) =
            std::mem::take(&mut self.scans).into_iter().partition(|scan| scan.aging.is_some());
        self.scans = plain;
        if aging.is_empty() {
            return Ok(());
        }
        let mut lanes = Self::first_jobs(tx, aging)?;
        let max = tx.env.options.aging_heads_per_claim;
        let is_many = lanes.len() > max / RANKS;
        if is_many {
            let anywhere = tx.env.entropy.next_u64();
            tx.aging_turns().sort(&mut lanes, |scan| &scan.lane, anywhere);
        }
        let lower = tx.db()?.heads(&cursors(&lanes), max)?;
        let found: usize = lower.iter().map(Vec::len).sum();
        if is_many && found >= max {
            // The last lane may not have been compared completely: it comes first next time.
            let last = lower.iter().rposition(|places| !places.is_empty()).unwrap_or(0);
            tx.aging_turns().compared(lanes[..last.max(1)].iter().map(|scan| &scan.lane));
        }
        for (scan, places) in lanes.into_iter().zip(lower) {
            self.split(scan, places);
        }
        self.read_best(tx, wanted)
    }

    /// Reads the first job of each lane; lanes without jobs are dropped.
    fn first_jobs(tx: &mut WriteTx<'_>, lanes: Vec<LaneScan>) -> Result<Vec<LaneScan>, StoreError> {
        let heads = tx.db()?.ready(&cursors(&lanes), 1)?;
        let with_job = |(scan, head): (LaneScan, Vec<_>)| {
            let last = Some(head.first().map(ClaimOrder::of)?);
            Some(LaneScan { jobs: head.into_iter(), last, ..scan })
        };
        Ok(lanes.into_iter().zip(heads).filter_map(with_job).collect())
    }

    /// Adds a lane's scans: each has the jobs of one rank; the last one has all the following jobs as well.
    fn split(&mut self, first: LaneScan, places: Vec<ClaimOrder>) {
        let mut scan = first;
        for place in places {
            let next = LaneScan {
                lane: scan.lane.clone(),
                rank: None,
                aging: scan.aging,
                jobs: Vec::new().into_iter(),
                unread: Some(place),
                last: Some(before(place)),
                is_drained: false,
                slots: scan.slots.clone(),
                fair: scan.fair,
            };
            scan.rank = scan.last.map(|last| last.rank);
            self.scans.push(std::mem::replace(&mut scan, next));
        }
        self.scans.push(scan);
    }

    /// Reads the jobs of the lane scans that will probably be used, in one query.
    fn read_best(&mut self, tx: &mut WriteTx<'_>, wanted: usize) -> Result<(), StoreError> {
        let all = 0..self.scans.len();
        let mut best: Vec<(ClaimOrder, usize)> = all.filter_map(|at| Some((self.place(at)?, at))).collect();
        if wanted < best.len() {
            best.select_nth_unstable(wanted);
            best.truncate(wanted);
        }
        let which: Vec<usize> =
            best.iter().map(|(_, at)| *at).filter(|at| self.scans[*at].aging.is_some()).collect();
        for at in &which {
            // Read it again with the jobs behind it, or each scan would be read separately when its first job is taken.
            let scan = &mut self.scans[*at];
            if let Some(job) = scan.jobs.next() {
                scan.last = Some(before(ClaimOrder::of(&job)));
            }
        }
        self.read_ahead(tx, &which, Search::share(wanted, best.len()))
    }
}

/// The position after which to read a lane scan that begins with this one.
fn before(place: ClaimOrder) -> ClaimOrder {
    ClaimOrder { seq: Seq(place.seq.0 - 1), ..place }
}

/// Where to continue after the rank of each lane scan.
fn cursors(scans: &[LaneScan]) -> Vec<LaneCursor> {
    let end =
        |last: ClaimOrder| ClaimOrder { rank: last.rank, eligible_at: Timestamp::MAX, seq: Seq(i64::MAX) };
    scans.iter().map(|scan| LaneCursor { lane: scan.lane.clone(), after: scan.last.map(end) }).collect()
}

#[cfg(test)]
mod tests;
