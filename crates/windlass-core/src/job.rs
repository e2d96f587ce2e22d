//! A job as plain data. [`JobRecord`] is the small record that the rules read; [`Spec`] is the submitted data, which no
//! rule reads. Nothing here does I/O.

mod event;
mod failure;
mod graph;
mod id;
mod name;
mod parts;
mod payload;
mod priority;
mod rate;
mod retry;
mod saved_steps;
mod spec;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod timer;
mod trace;
mod transition;
mod version;
mod worker_version;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use event::{AttemptOutcome, JobAction, JobEvent};
pub use failure::Token;
pub use failure::{Category, ErrorCause, ErrorRecord, Failure, Origin};
pub use failure::{cut, described};
pub use failure::{error_pattern, fingerprint};
pub use graph::NeededBy;
pub use graph::{Need, depth_of, find_cycle};
pub use id::{AttemptId, Fence, JobId, Seq, WorkerId};
pub use name::{AlertName, JobType, QueueName, ScheduleName, Tenant};
pub use parts::{
    ChildGroup, ConcurrencyKey, GroupDecision, GroupStrategy, Lane, Lease, Parent, Policy, Progress,
    SuspendMode, Suspension, Timeouts, Wait,
};
pub use payload::{Payload, PayloadDigest};
pub use priority::Priority;
pub use rate::{Bucket, Rate};
pub use retry::{JitterMode, RetryPolicy, Strategy};
pub use saved_steps::{SavedStep, kept_before, ordered_steps};
pub use spec::check_text;
pub use spec::{Debounce, Dependency, JobMetadata, NewJob, RareFields, Spec};
pub use state::JobState;
pub use stream::{StreamPlace, StreamTotals, check_chunks};
pub use timer::{acts_at, spared, timer};
pub use trace::{TraceHeaders, TraceId, Traceparent};
pub use transition::start;
pub use transition::{Change, LIFECYCLE, Transition, transition};
pub use version::Version;
pub use worker_version::WorkerVersion;

use crate::clock::Timestamp;

/// The part of a job that changes during its life. It is small, so that writing a job is cheap.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRecord {
    /// Sequence number of the submission.
    pub seq: Seq,
    /// The job's id.
    pub id: JobId,
    /// Tenant, queue and type.
    pub lane: Arc<Lane>,
    /// Retry and time limits, fixed at submission.
    pub policy: Arc<Policy>,
    /// Current state.
    pub state: JobState,
    /// The job's own priority.
    pub priority: Priority,
    /// The highest effective priority among the jobs that it waits for.
    pub inherited: Priority,
    /// Number of starts.
    pub attempt: u32,
    /// Number of retryable failures.
    pub failures: u32,
    /// Number of crashes among the failures.
    pub crashes: u32,
    /// Rejects writes of stale workers.
    pub fence: Fence,
    /// Submission time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Earliest start, as set by the submitter.
    pub run_at: Timestamp,
    /// End of the current backoff.
    pub retry_at: Option<Timestamp>,
    /// When it first became ready.
    pub eligible_at: Option<Timestamp>,
    /// When it last became ready.
    pub scheduled_at: Option<Timestamp>,
    /// Start of the first attempt.
    pub first_started_at: Option<Timestamp>,
    /// Start of the latest attempt.
    pub started_at: Option<Timestamp>,
    /// When it became final.
    pub completed_at: Option<Timestamp>,
    /// End of its lifetime.
    pub expires_at: Timestamp,
    /// The current lease, while the job runs.
    pub lease: Option<Lease>,
    /// The worker that completed it; the record of its last attempt is derived from this.
    pub completed_by: Option<WorkerId>,
    /// Number of `after` jobs that have not completed.
    pub after_unmet: u32,
    /// Whether it still waits for one of its `after_any` jobs.
    pub any_unmet: bool,
    /// Number of jobs on the longest dependency path that ends here.
    pub depth: u32,
    /// Its concurrency key.
    pub concurrency: Option<ConcurrencyKey>,
    /// Whether it is blocked until another holder of its concurrency key finishes.
    pub is_blocked: bool,
    /// The job that spawned it.
    pub parent: Option<Parent>,
    /// The trace of its submission; audit records of the job carry it.
    pub trace: Option<TraceId>,
    /// Costs booked by its workers, in cents.
    pub cost_cents: i64,
    /// Flags for optional records, to avoid useless lookups.
    pub has: JobFlags,
    /// Fields that few jobs have.
    pub details: Arc<RareFields>,
}

/// Which optional records a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "the flags are independent; they are not a state machine")]
pub struct JobFlags {
    /// Other jobs depend on it.
    pub dependents: bool,
    /// It holds a unique key.
    pub unique_key: bool,
    /// It has saved checkpoints.
    pub checkpoints: bool,
    /// It has spawned children.
    pub children: bool,
    /// It has a result.
    pub result: bool,
    /// It has a callback URL.
    pub callback: bool,
    /// Its worker has prefetched it but not started it: no attempt counts yet.
    #[serde(default)]
    pub claim_ahead: bool,
    /// A worker that had prefetched it was lost. The job may have started and crashed the worker without the store
    /// knowing, so it is not prefetched again.
    #[serde(default)]
    pub lost_ahead: bool,
}

impl JobRecord {
    /// Whether a worker may prefetch it: not if it may have crashed a worker. If the worker were lost before the start
    /// was recorded, the crash would not be counted.
    pub fn may_be_claimed_ahead(&self) -> bool {
        self.crashes == 0 && !self.has.lost_ahead
    }

    /// A new job in state `created`, the first state of every job.
    pub fn new(seq: Seq, id: JobId, lane: Arc<Lane>, policy: Arc<Policy>, now: Timestamp) -> JobRecord {
        JobRecord {
            seq,
            id,
            lane,
            state: JobState::Created,
            priority: Priority::NORMAL,
            inherited: Priority::BULK,
            attempt: 0,
            failures: 0,
            crashes: 0,
            fence: Fence(0),
            created_at: now,
            updated_at: now,
            run_at: now,
            retry_at: None,
            eligible_at: None,
            scheduled_at: None,
            first_started_at: None,
            started_at: None,
            completed_at: None,
            expires_at: now.plus(policy.timeouts.lifetime),
            policy,
            lease: None,
            completed_by: None,
            after_unmet: 0,
            any_unmet: false,
            depth: 1,
            concurrency: None,
            is_blocked: false,
            parent: None,
            trace: None,
            cost_cents: 0,
            has: JobFlags::default(),
            details: Arc::default(),
        }
    }

    /// The priority used for claims: its own or the inherited one, whichever is higher.
    pub fn effective_priority(&self) -> Priority {
        self.priority.max(self.inherited)
    }

    /// Number of retries granted so far.
    pub fn retry_count(&self) -> u32 {
        self.failures.min(self.policy.retry.max_retries())
    }

    /// Next run: the end of the backoff, or the submitter's own time.
    pub fn next_run_at(&self) -> Timestamp {
        self.retry_at.unwrap_or(self.run_at)
    }

    /// Whether it is suspended, or will be when its attempt ends.
    pub fn is_suspended_or_asked_to(&self) -> bool {
        self.state == JobState::Suspended || self.details.suspend_requested.is_some()
    }

    /// Deadline for its first start, while the job is ready and has such a limit. Resuming from a suspension restarts
    /// the limit; a pause or a full queue does not stop it.
    pub fn start_by(&self) -> Option<Timestamp> {
        let is_waiting = self.state == JobState::Scheduled && self.first_started_at.is_none();
        let since = self.scheduled_at.filter(|_| is_waiting)?;
        self.policy.timeouts.start.map(|start| since.plus(start))
    }

    /// Whether `fence` belongs to the current lease.
    pub fn is_held_with(&self, fence: Fence) -> bool {
        self.state == JobState::Running && self.fence == fence
    }

    /// The id of its latest attempt.
    pub fn attempt_id(&self) -> AttemptId {
        AttemptId { job: self.id, number: self.attempt }
    }

    /// Whether it still waits for dependencies.
    pub fn has_unmet_dependencies(&self) -> bool {
        self.after_unmet > 0 || self.any_unmet
    }

    /// The rare fields, for changes.
    pub fn details_mut(&mut self) -> &mut RareFields {
        Arc::make_mut(&mut self.details)
    }
}
