//! The parts of a job record: lane, policy, lease, and what only few jobs have. Data only.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ErrorRecord, JobId, JobType, QueueName, RetryPolicy, Seq, Tenant, WorkerId};
use crate::clock::Timestamp;
use crate::error::{FieldProblem, Invalid};
use crate::key::KeyId;
use crate::limits;
use crate::ticket::Ticket;

/// Tenant, queue and type together. Every pause and every fleet-wide limit but the concurrency key is decided by
/// these three, so a claim opens or skips a lane as a whole, however many jobs are in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Lane {
    /// Whose jobs.
    pub tenant: Tenant,
    /// In which queue.
    pub queue: QueueName,
    /// Of which type.
    pub job_type: JobType,
}

impl Lane {
    /// Whether its jobs are the system's own: reports of ends to callback addresses. They count for no limit of their
    /// tenant, and only workers that ask for them by name are given them.
    pub fn is_internal(&self) -> bool {
        self.job_type.as_str() == crate::callback::TYPE
    }
}

/// How long things may take (M30–M34).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Timeouts {
    /// Longest attempt.
    pub execution: Duration,
    /// How long a lease holds without a heartbeat.
    pub lease: Duration,
    /// From submission to a final state.
    pub lifetime: Duration,
    /// From the moment it can be claimed to its first start; no limit if none. A job that is not started in time fails.
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
    pub fn check(&self) -> Result<(), Invalid> {
        let range = |field: &str, value: Duration, min: Duration| {
            if (min..=limits::DURATION_MAX).contains(&value) {
                return Ok(());
            }
            let (value, min) = (format!("{value:?}"), format!("{min:?}"));
            Err(Invalid::new(field, FieldProblem::OutOfRange { value, min, max: "100 years".into() }))
        };
        range("timeouts.execution", self.execution, Duration::from_millis(1))?;
        range("timeouts.lease", self.lease, limits::LEASE_MIN)?;
        range("timeouts.lifetime", self.lifetime, Duration::from_millis(1))?;
        self.start.map_or(Ok(()), |start| range("timeouts.start", start, Duration::from_millis(1)))
    }
}

/// The rules a job lives by, fixed at submission: no process decides them later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// When and how often it is retried.
    pub retry: RetryPolicy,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Crashes after which it is poison (M6).
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

/// A worker's right to run a job, until it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it.
    pub worker: WorkerId,
    /// When it ends unless extended.
    pub expires_at: Timestamp,
    /// When the attempt must be over, however alive the worker is (M30).
    pub deadline_at: Timestamp,
}

impl Lease {
    /// When it ends if nobody is heard of: at its own time, or with the attempt's deadline.
    pub fn ends_at(&self) -> Timestamp {
        self.expires_at.min(self.deadline_at)
    }
}

/// What a job may not run beside: a digest of tenant and the submitter's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConcurrencyKey(pub i64);

/// The job that spawned this one, and in which group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent's place in the order of submission.
    pub seq: Seq,
    /// The parent's id.
    pub id: JobId,
    /// Which of the parent's groups.
    pub group: u64,
    /// Place among the group's children.
    pub index: u32,
}

/// What a parked job waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// A moment (M72).
    Timer {
        /// The moment.
        until: Timestamp,
    },
    /// A signal (M72).
    Signal {
        /// Its name.
        name: String,
        /// The checkpoint its value is saved under.
        step: String,
        /// When to stop waiting.
        until: Option<Timestamp>,
    },
    /// A group of children (M64).
    Children {
        /// Which group.
        group: u64,
    },
    /// The first of several; none of them is itself of this kind.
    Any {
        /// What it waits for.
        of: Vec<Wait>,
    },
}

impl Wait {
    /// When waiting ends by itself.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Wait::Timer { until } => Some(*until),
            Wait::Signal { until, .. } => *until,
            Wait::Children { .. } => None,
            Wait::Any { of } => of.iter().filter_map(Wait::until).min(),
        }
    }

    /// What it waits for, one by one.
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

    /// The names of the signals it waits for.
    pub fn signals(&self) -> impl Iterator<Item = &str> {
        self.each().iter().filter_map(|wait| match wait {
            Wait::Signal { name, .. } => Some(name.as_str()),
            Wait::Timer { .. } | Wait::Children { .. } | Wait::Any { .. } => None,
        })
    }
}

/// How a running job is suspended (M50).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SuspendMode {
    /// A running job is refused.
    #[default]
    IdleOnly,
    /// The running attempt ends by itself.
    Graceful,
    /// The running attempt is cut off now.
    Aggressive,
}

impl SuspendMode {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            SuspendMode::IdleOnly => "idle_only",
            SuspendMode::Graceful => "graceful",
            SuspendMode::Aggressive => "aggressive",
        }
    }
}

/// Who asked for a suspension, when, how, why, and until when it lasts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suspension {
    /// Who asked.
    pub by: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What becomes of a running attempt.
    #[serde(default)]
    pub mode: SuspendMode,
    /// When it was asked for; a graceful suspension comes into force later, when the attempt ends.
    #[serde(default = "first_moment")]
    pub at: Timestamp,
    /// When it lifts itself (M57).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Whether an aggressive pause of its queue suspended it, and not somebody who meant this job (M54).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_pause: bool,
}

/// How far a job is, in its worker's words (M18).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// 0 to 100.
    pub percent: f64,
    /// What it is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// When a group of children is decided (M64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupStrategy {
    /// At the first child that ends badly, or when all completed.
    FailFast,
    /// When all have ended, well or badly.
    CollectAll,
    /// When this many completed, or no longer can.
    Threshold(u32),
}

/// How a group of children was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decided {
    /// As its strategy asks.
    Well,
    /// Otherwise.
    Badly,
}

/// A group of children and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildGroup {
    /// The name the parent gave, so that a replay finds the group again.
    pub name: String,
    /// When it is decided.
    pub strategy: GroupStrategy,
    /// How many children.
    pub total: u32,
    /// How many have not ended.
    pub open: u32,
    /// How many completed.
    pub completed: u32,
    /// Whether and how it was decided.
    pub decided: Option<Decided>,
}

impl ChildGroup {
    /// Counts a child that ended, and says how the group is decided, if it now is and was not before.
    pub fn child_ended(&mut self, is_completed: bool) -> Option<Decided> {
        self.open = self.open.saturating_sub(1);
        self.completed += u32::from(is_completed);
        if self.decided.is_some() {
            return None;
        }
        self.decided = self.verdict();
        self.decided
    }

    fn verdict(&self) -> Option<Decided> {
        let bad = self.total - self.open - self.completed;
        match self.strategy {
            GroupStrategy::FailFast if bad > 0 => Some(Decided::Badly),
            GroupStrategy::Threshold(n) if self.completed >= n => Some(Decided::Well),
            GroupStrategy::Threshold(n) if self.completed + self.open < n => Some(Decided::Badly),
            GroupStrategy::FailFast if self.open == 0 => Some(Decided::Well),
            GroupStrategy::CollectAll if self.open == 0 && bad == 0 => Some(Decided::Well),
            GroupStrategy::CollectAll if self.open == 0 => Some(Decided::Badly),
            GroupStrategy::FailFast | GroupStrategy::CollectAll | GroupStrategy::Threshold(_) => None,
        }
    }
}

/// What only few jobs have; kept out of the hot record.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RareFields {
    /// Held by its submitter: `created` until submitted, also across a suspension.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_held: bool,
    /// What it is parked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// The suspension in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// A graceful suspension that waits for the running attempt to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend_requested: Option<Suspension>,
    /// The latest error; cleared on success (M45).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorRecord>,
    /// Proof that it is the job that was submitted, where that is asked for (M94).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<Box<Ticket>>,
    /// The API key that submitted it; none if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_key: Option<KeyId>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The final job this one repeats (M2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<JobId>,
    /// The latest job that repeats this one (M2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_by: Option<JobId>,
    /// When it was last suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended_at: Option<Timestamp>,
    /// Who suspended it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended_by: Option<String>,
    /// When it was last resumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resumed_at: Option<Timestamp>,
    /// When its priority was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_updated_at: Option<Timestamp>,
    /// Log lines ever written; the last one's number.
    #[serde(skip_serializing_if = "is_zero")]
    pub log_lines: u64,
    /// Signals ever received; the last one's number.
    #[serde(skip_serializing_if = "is_zero")]
    pub signals: u64,
    /// Checkpoints saved.
    #[serde(skip_serializing_if = "is_zero")]
    pub checkpoints: u64,
    /// Bytes of their values.
    #[serde(skip_serializing_if = "is_zero")]
    pub checkpoint_bytes: u64,
    /// Groups of children spawned; the last one's number.
    #[serde(skip_serializing_if = "is_zero")]
    pub groups: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// When a suspension of an older store was asked for: it did not say.
fn first_moment() -> Timestamp {
    Timestamp::MIN
}
