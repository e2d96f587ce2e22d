//! The events of a job. `transition.rs` decides what they lead to.

mod action;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Failure, JobState, Need, Suspension, Wait, WorkerId};
use crate::Words;
use crate::error::FieldProblem;

/// An event of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum JobEvent {
    /// Its creator submits it.
    Submit,
    /// A job it depends on became final.
    DependencyEnded {
        /// The kind of dependency.
        need: Need,
        /// The final state of the other job.
        state: JobState,
    },
    /// Its delay or backoff is over.
    Due,
    /// A worker claims it.
    Claim {
        /// The worker.
        worker: WorkerId,
        /// The store's generation, which becomes part of the fence.
        generation: u64,
        /// Random bits for the fence.
        random: u64,
    },
    /// A worker claims it ahead, to start it later or release it.
    ClaimAhead {
        /// The worker.
        worker: WorkerId,
        /// As for a claim.
        generation: u64,
        /// As for a claim.
        random: u64,
    },
    /// It must not run: its ticket is invalid or a resource limit was reached.
    Refuse {
        /// The reason.
        failure: Failure,
    },
    /// Its attempt succeeded.
    Succeed,
    /// Its attempt failed.
    Fail {
        /// The failure.
        failure: Failure,
        /// From 0 up to 1; moves the backoff within its jitter.
        random: f64,
    },
    /// Its worker stopped sending heartbeats.
    LeaseExpired {
        /// From 0 up to 1; moves the backoff within its jitter.
        random: f64,
        /// Whether it counts as a crash; false if the store was unavailable, so that the worker could not report.
        is_crash: bool,
    },
    /// Its worker releases it unfinished; not a failure.
    Release,
    /// Its attempt parks: it waits without holding a slot.
    Park {
        /// What it waits for.
        wait: Wait,
    },
    /// The event that it was parked on has occurred.
    Wake,
    /// An operator suspends it.
    Suspend {
        /// The details of the suspension.
        suspension: Suspension,
    },
    /// An operator resumes it.
    Resume,
    /// It is cancelled.
    Cancel {
        /// Who cancelled it, and why.
        message: String,
    },
    /// Its lifetime is over.
    Expire,
}

/// What happens to a job: actions of people and programs, and events of the lifecycle. The same word on every surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Words)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is named for its event")]
pub enum JobAction {
    Submit,
    DependencyEnded,
    Due,
    Claim,
    Refuse,
    Succeed,
    Fail,
    LeaseExpired,
    Release,
    Park,
    Wake,
    Suspend,
    Resume,
    Cancel,
    Expire,
    Priority,
    Patch,
    Signal,
    Delete,
    Redrive,
}

impl JobAction {
    /// Actions on all jobs that match a filter.
    pub const BULK: [JobAction; 6] = [
        JobAction::Suspend,
        JobAction::Resume,
        JobAction::Cancel,
        JobAction::Priority,
        JobAction::Redrive,
        JobAction::Delete,
    ];

    /// The verb in a sentence whose object is a job: `cannot … a job`.
    pub fn verb(self) -> &'static str {
        match self {
            JobAction::Priority => "change the priority of",
            JobAction::Patch => "change",
            other => other.as_str(),
        }
    }
}

impl FromStr for JobAction {
    type Err = FieldProblem;

    fn from_str(text: &str) -> Result<JobAction, FieldProblem> {
        JobAction::ALL.into_iter().find(|action| action.as_str() == text).ok_or_else(|| {
            FieldProblem::Unknown {
                value: text.to_owned(),
                allowed: "submit, suspend, resume, cancel, priority, signal, redrive, delete",
            }
        })
    }
}

impl JobEvent {
    /// The event's name.
    pub fn action(&self) -> JobAction {
        match self {
            JobEvent::Submit => JobAction::Submit,
            JobEvent::DependencyEnded { .. } => JobAction::DependencyEnded,
            JobEvent::Due => JobAction::Due,
            JobEvent::Claim { .. } | JobEvent::ClaimAhead { .. } => JobAction::Claim,
            JobEvent::Refuse { .. } => JobAction::Refuse,
            JobEvent::Succeed => JobAction::Succeed,
            JobEvent::Fail { .. } => JobAction::Fail,
            JobEvent::LeaseExpired { .. } => JobAction::LeaseExpired,
            JobEvent::Release => JobAction::Release,
            JobEvent::Park { .. } => JobAction::Park,
            JobEvent::Wake => JobAction::Wake,
            JobEvent::Suspend { .. } => JobAction::Suspend,
            JobEvent::Resume => JobAction::Resume,
            JobEvent::Cancel { .. } => JobAction::Cancel,
            JobEvent::Expire => JobAction::Expire,
        }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is named for what happened")]
pub enum AttemptOutcome {
    Completed,
    Failed,
    TimedOut,
    Lost,
    Released,
    Parked,
    Suspended,
    Cancelled,
    Expired,
}
