//! One page of a list while it is being put together, for databases that only narrow the candidates: the filter's own
//! predicate has the last word here, so that no two of them can differ.

use std::collections::BTreeMap;

use super::columns::{SET_ASIDE, code};
use crate::job::{Job, Labels, Lane, Payload, Spec, State};
use crate::store::engine::Place;
use crate::store::filter::{Filter, Order, Scan};

/// The best jobs so far, by their place in the order asked for.
pub(crate) struct Page<'s> {
    pub(crate) scan: &'s Scan,
    /// The filter without what only [`Spec`] can answer; SQL has answered that.
    filter: Filter,
    spec: Spec,
    jobs: BTreeMap<(i64, i64, i64), Job>,
}

impl Page<'_> {
    /// An empty page.
    pub(crate) fn of(scan: &Scan) -> Page<'_> {
        let filter = Filter { tag: None, correlation_id: None, owner: None, ..scan.filter.clone() };
        let spec = Spec {
            payload: Payload::json(""),
            idempotency_key: None,
            unique_key: None,
            concurrency_key: None,
            labels: Labels::default(),
            owner: String::new(),
            traceparent: None,
            after: Vec::new(),
            after_any: Vec::new(),
        };
        Page { scan, filter, spec, jobs: BTreeMap::new() }
    }

    /// Takes a job in if it belongs here; false if it comes after a full page, as then would all that follow it.
    pub(crate) fn offer(&mut self, job: Job) -> bool {
        if !self.scan.is_after(&job) || !self.filter.fits(&job, &self.spec) {
            return true;
        }
        let place = match self.scan.order {
            Order::Newest => (0, 0, -job.seq.0),
            Order::Oldest => (0, 0, job.seq.0),
            Order::Claim => {
                let Place { rank, eligible_at, seq } = Place::of(&job);
                (i64::from(rank), eligible_at.as_millis(), seq.0)
            }
        };
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

    /// What it holds, in order.
    pub(crate) fn into_jobs(self) -> Vec<Job> {
        self.jobs.into_values().collect()
    }
}

/// The codes of the states asked for; none if any will do.
pub(crate) fn codes(filter: &Filter) -> Vec<i64> {
    let mut codes = Vec::new();
    for state in &filter.states {
        if *state != State::Scheduled || filter.is_blocked != Some(true) {
            codes.push(code(*state));
        }
        if *state == State::Scheduled && filter.is_blocked != Some(false) {
            codes.push(SET_ASIDE);
        }
    }
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// The state with this code.
pub(crate) fn state_of(code: i64) -> State {
    usize::try_from(code).ok().and_then(|code| State::ALL.get(code)).copied().unwrap_or(State::Scheduled)
}

/// Whether jobs of a lane can fit a filter.
pub(crate) fn fits_lane(filter: &Filter, lane: &Lane) -> bool {
    filter.tenant.as_ref().is_none_or(|tenant| *tenant == lane.tenant)
        && filter.queue.as_ref().is_none_or(|queue| *queue == lane.queue)
        && filter.job_type.as_ref().is_none_or(|job_type| *job_type == lane.job_type)
}
