//! One page of a list while it is being put together, for databases that only narrow the candidates: the filter's own
//! predicate has the last word here, so that no two of them can differ.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::columns::{SET_ASIDE, code};
use crate::clock::Timestamp;
use crate::job::{JobMetadata, JobRecord, JobState, Lane, Payload, Seq, Spec};
use crate::store::documents::counters::Counts;
use crate::store::engine::ClaimOrder;
use crate::store::filter::{Filter, Found, Order, Scan};

/// The best jobs so far, by their place in the order asked for.
pub(crate) struct Page<'s> {
    pub(crate) scan: &'s Scan,
    /// The filter without what only [`Spec`] can answer; SQL has answered that.
    filter: Filter,
    spec: Spec,
    jobs: BTreeMap<(i64, i64, i64), JobRecord>,
    /// The first job that was not looked at although it may belong here, if any was not.
    unseen: Option<ClaimOrder>,
    /// How many jobs belong here or on later pages, if that is known.
    total: Option<u64>,
}

impl Page<'_> {
    /// An empty page.
    pub(crate) fn of(scan: &Scan, total: Option<u64>) -> Page<'_> {
        let filter = Filter { tag: None, correlation_id: None, owner: None, ..scan.filter.clone() };
        let spec = Spec {
            payload: Payload::json(""),
            idempotency_key: None,
            unique_key: None,
            concurrency_key: None,
            labels: JobMetadata::default(),
            owner: String::new(),
            traceparent: None,
            after: Vec::new(),
            after_any: Vec::new(),
        };
        Page { scan, filter, spec, jobs: BTreeMap::new(), unseen: None, total }
    }

    /// Takes a job in if it belongs here; false if it comes after a full page, as then would all that follow it.
    pub(crate) fn offer(&mut self, job: JobRecord) -> bool {
        if !self.scan.is_after(&job) || !self.filter.matches(&job, &self.spec) {
            return true;
        }
        let place = self.key_of(ClaimOrder::of(&job));
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

    /// Whether jobs from this one on, in the order of submission, may belong here; not if all that do are here already.
    #[cfg(feature = "postgres")]
    pub(crate) fn has_room_from(&self, place: ClaimOrder) -> bool {
        let is_whole = self.total == Some(self.jobs.len() as u64);
        let is_full = self.jobs.len() >= self.scan.limit;
        let is_last = self.jobs.last_key_value().is_none_or(|(last, _)| *last < self.key_of(place));
        !(is_whole || (is_full && is_last))
    }

    /// By what a place comes earlier or later in the order asked for.
    fn key_of(&self, place: ClaimOrder) -> (i64, i64, i64) {
        let ClaimOrder { rank, eligible_at, seq: Seq(seq) } = place;
        match self.scan.order {
            Order::Newest => (0, 0, -seq),
            Order::Oldest => (0, 0, seq),
            Order::Claim => (i64::from(rank), eligible_at.as_millis(), seq),
        }
    }

    /// Notes that candidates from this one on were not looked at.
    pub(crate) fn leave_out(&mut self, from: ClaimOrder) {
        if self.unseen.is_none_or(|before| self.key_of(from) < self.key_of(before)) {
            self.unseen = Some(from);
        }
    }

    /// What it holds, in order, as far as nothing before it was left out.
    pub(crate) fn into_found(mut self) -> Found {
        let is_whole = self.total == Some(self.jobs.len() as u64);
        let mut stopped = None;
        if let Some(unseen) = self.unseen.filter(|_| !is_whole) {
            drop(self.jobs.split_off(&self.key_of(unseen)));
            stopped = (self.jobs.len() < self.scan.limit).then(|| self.scan.just_before(unseen));
        }
        Found { jobs: self.jobs.into_values().collect(), stopped }
    }
}

/// A place in the order of submission, in which nothing else counts.
pub(crate) fn submitted(seq: i64) -> ClaimOrder {
    ClaimOrder { rank: 0, eligible_at: Timestamp::from_millis(0), seq: Seq(seq) }
}

/// Whether the lanes and states of a filter are all it asks for, so that every job of a claimable lane fits.
pub(crate) fn is_by_lane(filter: &Filter) -> bool {
    let Filter { tenant, states, job_type, queue, is_blocked, .. } = filter.clone();
    *filter == Filter { tenant, states, job_type, queue, is_blocked, ..Filter::default() }
}

/// The codes of the states asked for; none if any will do.
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

/// How a search goes: how far at first, and how far at most. Most pages are full after a short look, which costs less than
/// finding out where a long one must end.
pub(crate) fn looks(reach: usize) -> Vec<usize> {
    if reach == usize::MAX { vec![reach] } else { vec![reach / SHORT_LOOK, reach] }
}

/// A short look is that much shorter.
const SHORT_LOOK: usize = 100;

/// The lanes of a filter that have claimable jobs.
pub(crate) fn claimable_lanes(filter: &Filter, counts: &Counts) -> Vec<Arc<Lane>> {
    let lanes = counts.lanes.iter();
    let lanes =
        lanes.filter(|(lane, counts)| counts[JobState::Scheduled as usize] > 0 && filter.fits_lane(lane));
    lanes.map(|(lane, _)| lane.clone()).collect()
}

/// The same if a part of all lanes is asked for that has few jobs, although the whole has too many to sort: those of a small
/// queue in a large store are then found lane by lane, and not behind all jobs that were submitted later.
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

/// How many jobs a scan that begins at the first page can find in all, if counters know.
pub(crate) fn total(scan: &Scan, counts: &Counts) -> Option<u64> {
    if scan.after.is_some() { None } else { counts.fitting(&scan.filter) }
}
