//! A page of a list under construction, for databases that only narrow the candidates: the filter's own predicate makes
//! the final decision, so that engines cannot differ.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::columns::{SET_ASIDE, code};
use crate::clock::Timestamp;
use crate::job::{JobRecord, JobState, Lane, Seq, Spec};
use crate::store::documents::counters::Counts;
use crate::store::engine::ClaimOrder;
use crate::store::filter::{Filter, Order, Scan, SearchResult};

/// The best jobs so far, in the requested order.
pub(crate) struct Page<'s> {
    pub(crate) scan: &'s Scan,
    /// The filter without the conditions on [`Spec`], which SQL has evaluated.
    filter: Filter,
    spec: Spec,
    jobs: BTreeMap<(i64, i64, i64), JobRecord>,
    /// The first candidate that was not examined although it may belong here, if any.
    unseen: Option<ClaimOrder>,
    /// How many jobs belong here or on later pages, if known.
    total: Option<u64>,
}

impl Page<'_> {
    /// An empty page.
    pub(crate) fn new(scan: &Scan, total: Option<u64>) -> Page<'_> {
        let filter = Filter { tag: None, correlation_id: None, owner: None, ..scan.filter.clone() };
        Page { scan, filter, spec: Spec::unknown(), jobs: BTreeMap::new(), unseen: None, total }
    }

    /// Adds a job if it belongs here; returns false if it comes after a full page, as would all that follow it.
    pub(crate) fn offer(&mut self, job: JobRecord) -> bool {
        if !self.scan.is_after(&job) || !self.filter.matches(&job, &self.spec) {
            return true;
        }
        let place = self.key_of(ClaimOrder::new(&job));
        let is_full = self.jobs.len() >= self.scan.limit;
        if is_full && self.jobs.last_key_value().is_none_or(|(last, _)| *last < place) {
            return false;
        }
        self.jobs.insert(place, job);
        if self.jobs.len() > self.scan.limit {
            self.jobs.pop_last();
        }
        true
    }

    /// Whether jobs from this one on, in order of submission, may belong here; false if the page is already complete.
    #[cfg(feature = "postgres")]
    pub(crate) fn has_room_from(&self, place: ClaimOrder) -> bool {
        let is_whole = self.total == Some(self.jobs.len() as u64);
        let is_full = self.jobs.len() >= self.scan.limit;
        let is_last = self.jobs.last_key_value().is_none_or(|(last, _)| *last < self.key_of(place));
        !(is_whole || (is_full && is_last))
    }

    /// The sort key of a position in the requested order.
    fn key_of(&self, place: ClaimOrder) -> (i64, i64, i64) {
        let ClaimOrder { rank, eligible_at, seq: Seq(seq) } = place;
        match self.scan.order {
            Order::Newest => (0, 0, -seq),
            Order::Oldest => (0, 0, seq),
            Order::Claim => (i64::from(rank), eligible_at.as_millis(), seq),
        }
    }

    /// Records that candidates from this one on were not examined.
    pub(crate) fn leave_out(&mut self, from: ClaimOrder) {
        if self.unseen.is_none_or(|before| self.key_of(from) < self.key_of(before)) {
            self.unseen = Some(from);
        }
    }

    /// The jobs in order, up to the first candidate that was not examined.
    pub(crate) fn into_found(mut self) -> SearchResult {
        let is_whole = self.total == Some(self.jobs.len() as u64);
        let mut stopped = None;
        if let Some(unseen) = self.unseen.filter(|_| !is_whole) {
            drop(self.jobs.split_off(&self.key_of(unseen)));
            stopped = (self.jobs.len() < self.scan.limit).then(|| self.scan.just_before(unseen));
        }
        SearchResult { jobs: self.jobs.into_values().collect(), stopped }
    }
}

/// A position in the order of submission; the other fields do not matter.
pub(crate) fn submitted(seq: i64) -> ClaimOrder {
    ClaimOrder { rank: 0, eligible_at: Timestamp::from_millis(0), seq: Seq(seq) }
}

/// Whether a filter only uses lanes and states, so that every job of a claimable lane matches.
pub(crate) fn is_by_lane(filter: &Filter) -> bool {
    let Filter { tenant, states, job_type, queue, is_blocked, .. } = filter.clone();
    *filter == Filter { tenant, states, job_type, queue, is_blocked, ..Filter::default() }
}

/// The codes of the requested states; empty if any state matches.
pub(crate) fn codes(filter: &Filter) -> Vec<i64> {
    let mut codes = Vec::new();
    for state in &filter.possible_states().unwrap_or_default() {
        if *state != JobState::Scheduled || filter.is_blocked != Some(true) {
            codes.push(code(*state));
        }
        if *state == JobState::Scheduled && filter.is_blocked != Some(false) {
            codes.push(SET_ASIDE);
        }
    }
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// The state with this code.
pub(crate) fn state_of(code: i64) -> JobState {
    usize::try_from(code)
        .ok()
        .and_then(|code| JobState::ALL.get(code))
        .copied()
        .unwrap_or(JobState::Scheduled)
}

/// The scan limits of successive attempts. Most pages are full after a short scan, which is cheaper than determining
/// where a long one must end.
pub(crate) fn scan_limits(reach: usize) -> Vec<usize> {
    if reach == usize::MAX { vec![reach] } else { vec![reach / SHORT_SCAN, reach] }
}

/// The factor by which a short scan is shorter.
const SHORT_SCAN: usize = 100;

/// The lanes of a filter that have claimable jobs.
pub(crate) fn claimable_lanes(filter: &Filter, counts: &Counts) -> Vec<Arc<Lane>> {
    let lanes = counts.lanes.iter();
    let lanes =
        lanes.filter(|(lane, counts)| counts[JobState::Scheduled as usize] > 0 && filter.fits_lane(lane));
    lanes.map(|(lane, _)| lane.clone()).collect()
}

/// The lanes of a filter that have claimable jobs, if these are few although the store has too many to sort: the jobs
/// of a small queue in a large store are then found lane by lane, not behind all jobs that were submitted later.
pub(crate) fn few_lanes(
    filter: &Filter,
    counts: &Counts,
    lanes_max: usize,
    jobs_max: u64,
) -> Option<Vec<Arc<Lane>>> {
    let all = counts.sum(JobState::Scheduled, |_| true);
    let own = counts.sum(JobState::Scheduled, |lane| filter.fits_lane(lane));
    if all <= jobs_max || own > jobs_max {
        return None;
    }
    Some(claimable_lanes(filter, counts)).filter(|lanes| lanes.len() <= lanes_max)
}

/// How many jobs a scan from the first page on can find in all, if counters have the number.
pub(crate) fn total(scan: &Scan, counts: &Counts) -> Option<u64> {
    if scan.after.is_some() { None } else { counts.fitting(&scan.filter) }
}
