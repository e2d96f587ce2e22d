//! Job filters: one filter for lists, bulk actions and searches, defined as a predicate. Engines may evaluate it with
//! indexes, but must return the same jobs.

use crate::clock::Timestamp;
use crate::job::{
    ConcurrencyKey, JobId, JobRecord, JobState, JobType, Lane, QueueName, Seq, Spec, Tenant, WorkerId,
};
use crate::store::engine::ClaimOrder;

/// Selects jobs; an empty filter matches all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// Jobs with an id in this inclusive range.
    pub ids: Option<(JobId, JobId)>,
    /// Jobs of this tenant.
    pub tenant: Option<Tenant>,
    /// Jobs in one of these states.
    pub states: Vec<JobState>,
    /// Jobs of this type.
    pub job_type: Option<JobType>,
    /// Jobs in this queue.
    pub queue: Option<QueueName>,
    /// Jobs with this tag.
    pub tag: Option<(String, String)>,
    /// Jobs with this correlation id.
    pub correlation_id: Option<String>,
    /// Jobs submitted by this actor.
    pub owner: Option<String>,
    /// Jobs spawned by this job.
    pub parent: Option<JobId>,
    /// Jobs submitted at or after this time.
    pub created_after: Option<Timestamp>,
    /// Jobs submitted before this time.
    pub created_before: Option<Timestamp>,
    /// Jobs leased to one of these workers.
    pub workers: Vec<WorkerId>,
    /// Jobs with this concurrency key.
    pub concurrency: Option<ConcurrencyKey>,
    /// Whether the job is blocked on its concurrency key.
    pub is_blocked: Option<bool>,
    /// Whether the job was redriven as a new job.
    pub is_redriven: Option<bool>,
    /// Whether the job was suspended by an aggressive pause of its queue.
    pub is_suspended_by_pause: Option<bool>,
}

impl Filter {
    /// Whether a job matches.
    pub fn matches(&self, job: &JobRecord, spec: &Spec) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        self.ids.is_none_or(|(first, last)| (first..=last).contains(&job.id))
            && is(self.tenant.as_ref(), &job.lane.tenant)
            && (self.states.is_empty() || self.states.contains(&job.state))
            && is(self.job_type.as_ref(), &job.lane.job_type)
            && is(self.queue.as_ref(), &job.lane.queue)
            && self.tag.as_ref().is_none_or(|(name, value)| spec.metadata.tags.get(name) == Some(value))
            && self.correlation_id.as_ref().is_none_or(|id| spec.metadata.correlation_id.as_ref() == Some(id))
            && is(self.owner.as_ref(), &spec.owner)
            && self.parent.is_none_or(|parent| job.parent.is_some_and(|found| found.id == parent))
            && self.created_after.is_none_or(|at| job.created_at >= at)
            && self.created_before.is_none_or(|at| job.created_at < at)
            && (self.workers.is_empty()
                || job.lease.is_some_and(|lease| self.workers.contains(&lease.worker)))
            && self.concurrency.is_none_or(|key| job.concurrency == Some(key))
            && is(self.is_blocked.as_ref(), &job.is_blocked)
            && is(self.is_redriven.as_ref(), &is_redriven(job))
            && is(self.is_suspended_by_pause.as_ref(), &is_suspended_by_pause(job))
    }
}

/// Whether a job was redriven; only final jobs are.
pub(crate) fn is_redriven(job: &JobRecord) -> bool {
    job.details.superseded_by.is_some()
}

fn is_suspended_by_pause(job: &JobRecord) -> bool {
    job.details.suspension.as_ref().is_some_and(|suspension| suspension.by_pause)
}

impl Filter {
    /// Whether jobs of a lane can match.
    pub(crate) fn fits_lane(&self, lane: &Lane) -> bool {
        self.tenant.as_ref().is_none_or(|tenant| *tenant == lane.tenant)
            && self.queue.as_ref().is_none_or(|queue| *queue == lane.queue)
            && self.job_type.as_ref().is_none_or(|job_type| *job_type == lane.job_type)
    }

    /// The states in which jobs can match; `None` if any.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn possible_states(&self) -> Option<Vec<JobState>> {
        let is_asked = |state: &JobState| self.states.is_empty() || self.states.contains(state);
        if self.is_redriven == Some(true) {
            return Some(
                JobState::ALL.into_iter().filter(|state| state.is_final() && is_asked(state)).collect(),
            );
        }
        (!self.states.is_empty()).then(|| self.states.clone())
    }

    /// Whether to select final jobs that were redriven, that were not, or both.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn redriven_or_not(&self) -> Vec<bool> {
        self.is_redriven.map_or_else(|| vec![false, true], |is_redriven| vec![is_redriven])
    }

    /// Its id range, if it covers so short a time that finding jobs by id and sorting them beats scanning all jobs in
    /// order.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn few_ids(&self) -> Option<(JobId, JobId)> {
        // The first six bytes are the millisecond.
        let millis = |id: &JobId| id.as_bytes()[..6].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        self.ids.filter(|(first, last)| millis(last).saturating_sub(millis(first)) <= FEW_IDS_MILLIS)
    }
}

/// Milliseconds whose jobs are sorted rather than scanned: what eight hex digits of an id leave open.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
const FEW_IDS_MILLIS: u64 = 0xffff;

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Last submitted first.
    #[default]
    Newest,
    /// First submitted first.
    Oldest,
    /// In the order of claims.
    Claim,
}

/// One page of jobs that match a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// The jobs to select.
    pub filter: Filter,
    /// The order of the jobs.
    pub order: Order,
    /// Start after this job: only `seq` matters for newest and oldest, the whole position for claim order.
    pub after: Option<ClaimOrder>,
    /// Maximum number of jobs.
    pub limit: usize,
}

impl Scan {
    /// The position after which a scan in this order continues with the job at `place`.
    pub fn just_before(&self, place: ClaimOrder) -> ClaimOrder {
        let Seq(seq) = place.seq;
        ClaimOrder { seq: Seq(if self.order == Order::Newest { seq + 1 } else { seq - 1 }), ..place }
    }

    /// Whether a job comes after the previous page.
    pub fn is_after(&self, job: &JobRecord) -> bool {
        let Some(after) = self.after else { return true };
        match self.order {
            Order::Newest => job.seq < after.seq,
            Order::Oldest => job.seq > after.seq,
            Order::Claim => ClaimOrder::new(job) > after,
        }
    }
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchResult {
    /// The jobs, in the requested order.
    pub jobs: Vec<JobRecord>,
    /// Where to continue, if the search reached its scan limit before the page was full.
    pub stopped: Option<ClaimOrder>,
}
