//! The events of a job. `transition.rs` decides what they lead to.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Failure, JobState, Need, Suspension, Wait, WorkerId};

/// An event of a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
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
    /// A worker prefetches it, to start it later or release it.
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

/// The name of an event, for errors and documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is named for its event")]
pub enum Action {
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
    Prioritise,
    Patch,
    Signal,
    Delete,
    Redrive,
}

impl Action {
    /// All actions.
    pub const ALL: [Action; 20] = [
        Action::Submit,
        Action::DependencyEnded,
        Action::Due,
        Action::Claim,
        Action::Refuse,
        Action::Succeed,
        Action::Fail,
        Action::LeaseExpired,
        Action::Release,
        Action::Park,
        Action::Wake,
        Action::Suspend,
        Action::Resume,
        Action::Cancel,
        Action::Expire,
        Action::Prioritise,
        Action::Patch,
        Action::Signal,
        Action::Delete,
        Action::Redrive,
    ];

    /// The text form.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Submit => "submit",
            Action::DependencyEnded => "dependency_ended",
            Action::Due => "due",
            Action::Claim => "claim",
            Action::Refuse => "refuse",
            Action::Succeed => "succeed",
            Action::Fail => "fail",
            Action::LeaseExpired => "lease_expired",
            Action::Release => "release",
            Action::Park => "park",
            Action::Wake => "wake",
            Action::Suspend => "suspend",
            Action::Resume => "resume",
            Action::Cancel => "cancel",
            Action::Expire => "expire",
            Action::Prioritise => "prioritise",
            Action::Patch => "patch",
            Action::Signal => "signal",
            Action::Delete => "delete",
            Action::Redrive => "redrive",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Event {
    /// The event's name.
    pub fn action(&self) -> Action {
        match self {
            Event::Submit => Action::Submit,
            Event::DependencyEnded { .. } => Action::DependencyEnded,
            Event::Due => Action::Due,
            Event::Claim { .. } | Event::ClaimAhead { .. } => Action::Claim,
            Event::Refuse { .. } => Action::Refuse,
            Event::Succeed => Action::Succeed,
            Event::Fail { .. } => Action::Fail,
            Event::LeaseExpired { .. } => Action::LeaseExpired,
            Event::Release => Action::Release,
            Event::Park { .. } => Action::Park,
            Event::Wake => Action::Wake,
            Event::Suspend { .. } => Action::Suspend,
            Event::Resume => Action::Resume,
            Event::Cancel { .. } => Action::Cancel,
            Event::Expire => Action::Expire,
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
