//! Which jobs a person asks for: one filter for lists, bulk actions and searches, and its meaning as a predicate. Engines
//! may answer it from their indexes, but never differently.

use crate::clock::Timestamp;
use crate::job::{
    ConcurrencyKey, JobId, JobRecord, JobState, JobType, Lane, QueueName, Seq, Spec, Tenant, WorkerId,
};
use crate::store::engine::ClaimOrder;

/// Which jobs; an empty filter fits all.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filter {
    /// With an id between these two, themselves included.
    pub ids: Option<(JobId, JobId)>,
    /// Of this tenant.
    pub tenant: Option<Tenant>,
    /// In one of these states.
    pub states: Vec<JobState>,
    /// Of this type.
    pub job_type: Option<JobType>,
    /// In this queue.
    pub queue: Option<QueueName>,
    /// With this tag.
    pub tag: Option<(String, String)>,
    /// With this correlation id.
    pub correlation_id: Option<String>,
    /// Submitted by this actor.
    pub owner: Option<String>,
    /// Spawned by this job.
    pub parent: Option<JobId>,
    /// Submitted at or after this.
    pub created_after: Option<Timestamp>,
    /// Submitted before this.
    pub created_before: Option<Timestamp>,
    /// Leased to one of these workers.
    pub workers: Vec<WorkerId>,
    /// With this concurrency key.
    pub concurrency: Option<ConcurrencyKey>,
    /// Whether set aside for its concurrency key.
    pub is_blocked: Option<bool>,
    /// Whether redriven: another job was submitted in its place.
    pub is_redriven: Option<bool>,
    /// Whether suspended by an aggressive pause of its queue.
    pub is_suspended_by_pause: Option<bool>,
}

impl Filter {
    /// Whether a job fits.
    pub fn matches(&self, job: &JobRecord, spec: &Spec) -> bool {
        fn is<T: PartialEq>(wanted: Option<&T>, found: &T) -> bool {
            wanted.is_none_or(|wanted| wanted == found)
        }
        self.ids.is_none_or(|(first, last)| (first..=last).contains(&job.id))
            && is(self.tenant.as_ref(), &job.lane.tenant)
            && (self.states.is_empty() || self.states.contains(&job.state))
            && is(self.job_type.as_ref(), &job.lane.job_type)
            && is(self.queue.as_ref(), &job.lane.queue)
            && self.tag.as_ref().is_none_or(|(name, value)| spec.labels.tags.get(name) == Some(value))
            && self.correlation_id.as_ref().is_none_or(|id| spec.labels.correlation_id.as_ref() == Some(id))
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

/// Whether another job was submitted in a job's place; only final ones are redriven.
pub(crate) fn is_redriven(job: &JobRecord) -> bool {
    job.details.superseded_by.is_some()
}

fn is_suspended_by_pause(job: &JobRecord) -> bool {
    job.details.suspension.as_ref().is_some_and(|suspension| suspension.by_pause)
}

impl Filter {
    /// Whether jobs of a lane can fit.
    pub(crate) fn fits_lane(&self, lane: &Lane) -> bool {
        self.tenant.as_ref().is_none_or(|tenant| *tenant == lane.tenant)
            && self.queue.as_ref().is_none_or(|queue| *queue == lane.queue)
            && self.job_type.as_ref().is_none_or(|job_type| *job_type == lane.job_type)
    }

    /// In which states jobs can fit; none if in any.
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

    /// Whether to look for final jobs that were redriven, for those that were not, or for both.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn redriven_or_not(&self) -> Vec<bool> {
        self.is_redriven.map_or_else(|| vec![false, true], |is_redriven| vec![is_redriven])
    }

    /// Its ids, if they are of jobs submitted within so short a time that finding them by id and sorting them beats walking
    /// over all jobs in order.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn few_ids(&self) -> Option<(JobId, JobId)> {
        // The first six bytes are the millisecond.
        let millis = |id: &JobId| id.as_bytes()[..6].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        self.ids.filter(|(first, last)| millis(last).saturating_sub(millis(first)) <= FEW_IDS_MILLIS)
    }
}

/// Milliseconds whose jobs are sorted rather than walked over: what eight digits of an id leave open.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
const FEW_IDS_MILLIS: u64 = 0xffff;

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Last submitted first.
    #[default]
    Newest,
    /// First submitted first.
    Oldest,
    /// As they would be claimed.
    Claim,
}

/// One page of jobs that fit a filter.
#[derive(Debug, Clone, PartialEq)]
pub struct Scan {
    /// Which jobs.
    pub filter: Filter,
    /// In which order.
    pub order: Order,
    /// After this job: its `seq` counts for newest and oldest, all of it for claim.
    pub after: Option<ClaimOrder>,
    /// At most so many.
    pub limit: usize,
}

impl Scan {
    /// The place after which a scan in this order goes on with the job at `place`.
    pub fn just_before(&self, place: ClaimOrder) -> ClaimOrder {
        let Seq(seq) = place.seq;
        ClaimOrder { seq: Seq(if self.order == Order::Newest { seq + 1 } else { seq - 1 }), ..place }
    }

    /// Whether a job comes after the page before.
    pub fn is_after(&self, job: &JobRecord) -> bool {
        let Some(after) = self.after else { return true };
        match self.order {
            Order::Newest => job.seq < after.seq,
            Order::Oldest => job.seq > after.seq,
            Order::Claim => ClaimOrder::of(job) > after,
        }
    }
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The jobs, in the order asked for.
    pub jobs: Vec<JobRecord>,
    /// After which job to go on, if the search went as far as it may before the page was full.
    pub stopped: Option<ClaimOrder>,
}
