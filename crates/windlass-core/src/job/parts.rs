//! The parts of a job record: lane, policy, lease, suspension, groups. Data only.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{JobId, JobType, QueueName, RetryPolicy, Seq, Tenant, WorkerId, WorkerVersion};
use crate::clock::Timestamp;
use crate::error::{FieldError, FieldProblem};
use crate::limits;
use crate::{Words, skip_none};

/// Tenant, queue and type together, and the version that the jobs require of their worker. Every pause and every global
/// limit except the concurrency key depends on the first three only, and which workers may receive a job on all four, so
/// a claim opens or skips a whole lane, however many jobs are in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lane {
    /// The tenant.
    pub tenant: Tenant,
    /// The queue.
    pub queue: QueueName,
    /// The job type.
    pub job_type: JobType,
    /// The version of the only workers that receive its jobs; any version if `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<WorkerVersion>,
}

impl Lane {
    /// The lane of the jobs that any version of a worker receives.
    pub fn new(tenant: Tenant, queue: QueueName, job_type: JobType) -> Lane {
        Lane { tenant, queue, job_type, version: None }
    }

    /// The lane of the jobs of the same tenant, queue and type that require this version.
    #[must_use]
    pub fn requiring(self, version: Option<WorkerVersion>) -> Lane {
        Lane { version, ..self }
    }

    /// Whether workers of this version may receive its jobs.
    pub fn is_for_version(&self, version: Option<&str>) -> bool {
        self.version.as_ref().is_none_or(|required| version == Some(required.as_str()))
    }

    /// Whether its jobs are internal: deliveries of callbacks and alerts. They do not count towards the limits of their tenant, and
    /// only workers that subscribe to them by name receive them.
    pub fn is_internal(&self) -> bool {
        [crate::callback::TYPE, crate::alert::TYPE].contains(&self.job_type.as_str())
    }
}

/// Time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Timeouts {
    /// Longest duration of one attempt.
    pub execution: Duration,
    /// How long a lease lasts without a heartbeat.
    pub lease: Duration,
    /// Longest time from submission to a final state.
    pub lifetime: Duration,
    /// Longest time from when the job becomes ready to its first start; no limit if `None`. A job that is not started
    /// in time fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Duration>,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            execution: Duration::from_secs(30 * 60),
            lease: Duration::from_secs(5 * 60),
            lifetime: Duration::from_secs(7 * 24 * 3600),
            start: None,
        }
    }
}

impl Timeouts {
    /// Whether every value is within its limits.
    pub fn check(&self) -> Result<(), FieldError> {
        let range = |field: &str, value: Duration, min: Duration| {
            if (min..=limits::DURATION_MAX).contains(&value) {
                return Ok(());
            }
            let (value, min) = (format!("{value:?}"), format!("{min:?}"));
            Err(FieldError::new(field, FieldProblem::OutOfRange { value, min, max: "100 years".into() }))
        };
        range("timeouts.execution", self.execution, Duration::from_millis(1))?;
        range("timeouts.lease", self.lease, limits::LEASE_MIN)?;
        range("timeouts.lifetime", self.lifetime, Duration::from_millis(1))?;
        self.start.map_or(Ok(()), |start| range("timeouts.start", start, Duration::from_millis(1)))
    }
}

/// The job's policies, fixed at submission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// When and how often it is retried.
    pub retry: RetryPolicy,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Number of crashes after which the job is dead-lettered as poison.
    pub crashes_max: u32,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            retry: RetryPolicy::default(),
            timeouts: Timeouts::default(),
            crashes_max: limits::CRASHES_MAX_DEFAULT,
        }
    }
}

/// A worker's right to run a job until the lease expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The worker that holds it.
    pub worker: WorkerId,
    /// When it expires unless renewed.
    pub expires_at: Timestamp,
    /// When the attempt must be over, even if the worker sends heartbeats.
    pub deadline_at: Timestamp,
}

impl Lease {
    /// When it expires without a heartbeat: at `expires_at` or at the deadline, whichever is earlier.
    pub fn ends_at(&self) -> Timestamp {
        self.expires_at.min(self.deadline_at)
    }
}

/// A digest of tenant and concurrency key; jobs with the same value share one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConcurrencyKey(pub i64);

/// The job that spawned this one, and in which group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent's sequence number.
    pub seq: Seq,
    /// The parent's id.
    pub id: JobId,
    /// Number of the parent's group.
    pub group: u64,
    /// Position among the group's children.
    pub index: u32,
}

/// What a parked job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// A point in time.
    Timer {
        /// When it is woken.
        until: Timestamp,
    },
    /// A signal.
    Signal {
        /// The signal's name.
        name: String,
        /// The checkpoint under which its value is saved.
        step: String,
        /// When the wait times out.
        until: Option<Timestamp>,
    },
    /// A group of children.
    Children {
        /// The group's number.
        group: u64,
    },
    /// The first of several; never nested.
    Any {
        /// The alternatives.
        of: Vec<Wait>,
    },
}

impl Wait {
    /// When the wait ends without an event.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Wait::Timer { until } => Some(*until),
            Wait::Signal { until, .. } => *until,
            Wait::Children { .. } => None,
            Wait::Any { of } => of.iter().filter_map(Wait::until).min(),
        }
    }

    /// The alternatives one by one.
    pub fn each(&self) -> &[Wait] {
        match self {
            Wait::Any { of } => of,
            Wait::Timer { .. } | Wait::Signal { .. } | Wait::Children { .. } => std::slice::from_ref(self),
        }
    }

    /// Whether it waits for this group of children.
    pub fn is_for_group(&self, number: u64) -> bool {
        self.each().contains(&Wait::Children { group: number })
    }

    /// The numbers of the groups of children it waits for.
    pub fn groups(&self) -> impl Iterator<Item = u64> {
        self.each().iter().filter_map(|wait| match wait {
            Wait::Children { group } => Some(*group),
            Wait::Timer { .. } | Wait::Signal { .. } | Wait::Any { .. } => None,
        })
    }

    /// The names of the signals it waits for.
    pub fn signals(&self) -> impl Iterator<Item = &str> {
        self.each().iter().filter_map(|wait| match wait {
            Wait::Signal { name, .. } => Some(name.as_str()),
            Wait::Timer { .. } | Wait::Children { .. } | Wait::Any { .. } => None,
        })
    }
}

/// How a running job is suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
pub enum SuspendMode {
    /// Refuses a running job.
    #[default]
    IdleOnly,
    /// Lets the running attempt finish first.
    Graceful,
    /// Stops the running attempt now.
    Aggressive,
}

/// A suspension: who asked for it, when, how, why, and until when.
#[skip_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// Who asked.
    pub by: String,
    /// The reason given.
    pub reason: Option<String>,
    /// What happens to a running attempt.
    #[serde(default)]
    pub mode: SuspendMode,
    /// When it was requested; a graceful suspension takes effect later, when the attempt ends.
    #[serde(default = "first_moment")]
    pub at: Timestamp,
    /// When it ends automatically.
    pub expires_at: Option<Timestamp>,
    /// Whether an aggressive pause of the job's queue caused it, not an action on this job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_pause: bool,
}

impl Suspension {
    /// Whether it has ended, or would end at once.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// A job's progress, as reported by its worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// 0 to 100.
    pub percent: f64,
    /// A message for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// When a group of children is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "GroupStrategy"))]
pub enum GroupStrategy {
    /// At the first child that does not complete, or when all completed.
    FailFast,
    /// When all have finished.
    CollectAll,
    /// When this many completed, or no longer can.
    Threshold(u32),
}

/// How a group of children was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupDecision {
    /// As its strategy requires.
    Well,
    /// Not as its strategy requires.
    Badly,
}

/// A group of children and its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildGroup {
    /// The name that the parent gave it, so that a later attempt finds the group again.
    pub name: String,
    /// When the group is decided.
    pub strategy: GroupStrategy,
    /// Number of children.
    pub total: u32,
    /// Number of children that have not finished.
    pub open: u32,
    /// Number of children that completed.
    pub completed: u32,
    /// The decision, if there is one.
    pub decided: Option<GroupDecision>,
}

impl ChildGroup {
    /// Counts a finished child. Returns the decision if this child decided the group.
    pub fn child_ended(&mut self, is_completed: bool) -> Option<GroupDecision> {
        self.open = self.open.saturating_sub(1);
        self.completed += u32::from(is_completed);
        if self.decided.is_some() {
            return None;
        }
        self.decided = self.decision();
        self.decided
    }

    /// Whether its numbers decide it, and it is not decided.
    pub fn lacks_decision(&self) -> bool {
        self.decided.is_none() && self.decision().is_some()
    }

    /// Takes over the numbers of a recount, and decides the group if they do.
    pub fn recounted(&mut self, open: u32, completed: u32) {
        (self.open, self.completed) = (open, completed);
        if self.decided.is_none() {
            self.decided = self.decision();
        }
    }

    fn decision(&self) -> Option<GroupDecision> {
        let bad = self.total - self.open - self.completed;
        match self.strategy {
            GroupStrategy::FailFast if bad > 0 => Some(GroupDecision::Badly),
            GroupStrategy::Threshold(n) if self.completed >= n => Some(GroupDecision::Well),
            GroupStrategy::Threshold(n) if self.completed + self.open < n => Some(GroupDecision::Badly),
            GroupStrategy::FailFast if self.open == 0 => Some(GroupDecision::Well),
            GroupStrategy::CollectAll if self.open == 0 && bad == 0 => Some(GroupDecision::Well),
            GroupStrategy::CollectAll if self.open == 0 => Some(GroupDecision::Badly),
            GroupStrategy::FailFast | GroupStrategy::CollectAll | GroupStrategy::Threshold(_) => None,
        }
    }
}

/// Default for suspensions stored by older versions, which did not record the time.
fn first_moment() -> Timestamp {
    Timestamp::MIN
}
