//! A job as plain data. [`Job`] is the small record that rules decide on; [`Spec`] is what its submitter wrote, which
//! no rule looks at. Nothing here does I/O.

mod event;
mod failure;
mod graph;
mod http_status;
mod id;
mod name;
mod needed;
mod parts;
mod priority;
mod rate;
mod retry;
mod spec;
mod state;
#[cfg(test)]
mod tests;
mod timer;
mod trace;
mod transition;
mod version;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use event::{Action, AttemptOutcome, Event};
pub(crate) use failure::Token;
pub use failure::{Category, ErrorCause, ErrorRecord, Failure, Origin};
pub(crate) use failure::{cut, described};
pub use graph::{Need, depth_of, find_cycle};
pub use id::{AttemptId, Fence, JobId, Seq, WorkerId};
pub use name::{JobType, QueueName, ScheduleName, Tenant};
pub use needed::NeededBy;
pub use parts::{
    ChildGroup, ConcurrencyKey, Decided, GroupStrategy, Lane, Lease, Parent, Policy, Progress, RareFields,
    SuspendMode, Suspension, Timeouts, Wait,
};
pub use priority::Priority;
pub use rate::{Bucket, Rate};
pub use retry::{JitterMode, RetryPolicy, Strategy};
pub(crate) use spec::check_text;
pub use spec::{Debounce, Dependency, JobMetadata, NewJob, Payload, PayloadDigest, Spec};
pub use state::JobState;
pub use timer::{acts_at, spared, timer};
pub use trace::{TraceId, Traceparent};
pub(crate) use transition::start;
pub use transition::{Change, LIFECYCLE, Transition, transition};
pub use version::Version;

use crate::clock::Timestamp;

/// The part of a job that changes as it lives; small, so that moving a job costs little.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRecord {
    /// Place in the order of submission.
    pub seq: Seq,
    /// Identity.
    pub id: JobId,
    /// Tenant, queue and type.
    pub lane: Arc<Lane>,
    /// Retry and time limits, fixed at submission.
    pub policy: Arc<Policy>,
    /// Where it is in its life.
    pub state: JobState,
    /// Its own priority.
    pub priority: Priority,
    /// The highest effective priority among the jobs it waits for (M24).
    pub inherited: Priority,
    /// Starts so far (M5).
    pub attempt: u32,
    /// Retryable failures so far (M5).
    pub failures: u32,
    /// Crashes among them (M6).
    pub crashes: u32,
    /// Fences off stale workers (M5).
    pub fence: Fence,
    /// When it was submitted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Not to run before this; the submitter's own wish.
    pub run_at: Timestamp,
    /// End of the current backoff.
    pub retry_at: Option<Timestamp>,
    /// When it first could have been claimed (M21).
    pub eligible_at: Option<Timestamp>,
    /// When it last became claimable.
    pub scheduled_at: Option<Timestamp>,
    /// When its first attempt started.
    pub first_started_at: Option<Timestamp>,
    /// When its latest attempt started.
    pub started_at: Option<Timestamp>,
    /// When it became final.
    pub completed_at: Option<Timestamp>,
    /// End of its lifetime (M33).
    pub expires_at: Timestamp,
    /// Who runs it, while somebody does.
    pub lease: Option<Lease>,
    /// Who completed it; with it, the record of the attempt that did follows from the job itself (M17).
    pub completed_by: Option<WorkerId>,
    /// How many of its `after` jobs are not completed.
    pub after_unmet: u32,
    /// Whether it waits for the first of its `after_any` jobs.
    pub any_unmet: bool,
    /// Jobs on the longest path of dependencies that ends here (M61).
    pub depth: u32,
    /// What it may not run beside.
    pub concurrency: Option<ConcurrencyKey>,
    /// Whether it is set aside until a holder of its concurrency key ends.
    pub is_blocked: bool,
    /// The job that spawned it.
    pub parent: Option<Parent>,
    /// The trace it was submitted in; audit records of its life carry it.
    pub trace: Option<TraceId>,
    /// Costs booked by its workers.
    pub cost_cents: i64,
    /// Which side records exist, so that nothing is looked for in vain.
    pub has: JobFlags,
    /// What few jobs have.
    pub details: Arc<RareFields>,
}

/// Which side records a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own; together they are no state machine"
)]
pub struct JobFlags {
    /// Jobs wait for it.
    pub dependents: bool,
    /// It holds a unique key (M14).
    pub unique_key: bool,
    /// It saved checkpoints.
    pub checkpoints: bool,
    /// It has spawned children.
    pub children: bool,
    /// It has a result.
    pub result: bool,
    /// It has a callback address.
    pub callback: bool,
    /// Its worker holds it for later, and has not started it: no attempt counts yet (M5).
    #[serde(default)]
    pub claim_ahead: bool,
    /// A worker that held it for later was lost. It may have been started unnoticed and have brought the worker down, so it
    /// is not claimed ahead again.
    #[serde(default)]
    pub lost_ahead: bool,
}

impl JobRecord {
    /// Whether a worker may hold it for later: not if it may have brought a worker down. Lost before it was known to have
    /// started, it would not be charged with that (M6).
    pub(crate) fn may_be_claimed_ahead(&self) -> bool {
        self.crashes == 0 && !self.has.lost_ahead
    }

    /// A job that was just made, held by its submitter: the one beginning of every life.
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

    /// The priority it is claimed by: its own or an inherited one, whichever is higher (M24).
    pub fn effective_priority(&self) -> Priority {
        self.priority.max(self.inherited)
    }

    /// Retries granted so far (M5).
    pub fn retry_count(&self) -> u32 {
        self.failures.min(self.policy.retry.max_retries())
    }

    /// When it runs next, as shown to people: the end of its backoff, or its own time.
    pub fn next_run_at(&self) -> Timestamp {
        self.retry_at.unwrap_or(self.run_at)
    }

    /// Whether it is suspended, or will be once its attempt ends.
    pub fn is_suspended_or_asked_to(&self) -> bool {
        self.state == JobState::Suspended || self.details.suspend_requested.is_some()
    }

    /// By when its first attempt must start, while it can be claimed and has a limit for that. A suspension in between
    /// starts the limit again; a pause or a full queue does not stop it.
    pub fn start_by(&self) -> Option<Timestamp> {
        let is_waiting = self.state == JobState::Scheduled && self.first_started_at.is_none();
        let since = self.scheduled_at.filter(|_| is_waiting)?;
        self.policy.timeouts.start.map(|start| since.plus(start))
    }

    /// Whether `fence` is the one the current lease was given with.
    pub fn is_held_with(&self, fence: Fence) -> bool {
        self.state == JobState::Running && self.fence == fence
    }

    /// The identity of its latest attempt.
    pub fn attempt_id(&self) -> AttemptId {
        AttemptId { job: self.id, number: self.attempt }
    }

    /// Whether dependencies are still open.
    pub fn has_unmet_dependencies(&self) -> bool {
        self.after_unmet > 0 || self.any_unmet
    }

    /// The side details, to be changed.
    pub fn details_mut(&mut self) -> &mut RareFields {
        Arc::make_mut(&mut self.details)
    }
}
