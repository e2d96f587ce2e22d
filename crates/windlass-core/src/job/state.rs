//! The twelve states of a job, their text form, and which are final. `transition.rs` decides how one follows another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::FieldProblem;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Created but not yet submitted.
    Created,
    /// Waits for other jobs.
    Pending,
    /// Waits for its start time.
    Delayed,
    /// Ready to be claimed.
    Scheduled,
    /// Leased to a worker.
    Running,
    /// Parked on children, a signal or a timer; holds no slot.
    Waiting,
    /// Waits for its backoff after a failure.
    Retrying,
    /// Suspended by an operator.
    Suspended,
    /// Final: succeeded.
    Completed,
    /// Final: failed permanently.
    Failed,
    /// Final: retries or lifetime exhausted.
    DeadLetter,
    /// Final: cancelled.
    Cancelled,
}

impl JobState {
    /// All states, in the order of the model.
    pub const ALL: [JobState; 12] = [
        JobState::Created,
        JobState::Pending,
        JobState::Delayed,
        JobState::Scheduled,
        JobState::Running,
        JobState::Waiting,
        JobState::Retrying,
        JobState::Suspended,
        JobState::Completed,
        JobState::Failed,
        JobState::DeadLetter,
        JobState::Cancelled,
    ];

    /// The final states.
    pub const FINAL: [JobState; 4] =
        [JobState::Completed, JobState::Failed, JobState::DeadLetter, JobState::Cancelled];

    /// Whether the state is final: the job never changes again.
    pub fn is_final(self) -> bool {
        JobState::FINAL.contains(&self)
    }

    /// The text form used everywhere: in Rust, SQL, JSON, the command line and the dashboard.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Created => "created",
            JobState::Pending => "pending",
            JobState::Delayed => "delayed",
            JobState::Scheduled => "scheduled",
            JobState::Running => "running",
            JobState::Waiting => "waiting",
            JobState::Retrying => "retrying",
            JobState::Suspended => "suspended",
            JobState::Completed => "completed",
            JobState::Failed => "failed",
            JobState::DeadLetter => "dead_letter",
            JobState::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for JobState {
    type Err = FieldProblem;

    fn from_str(text: &str) -> Result<JobState, FieldProblem> {
        JobState::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| FieldProblem::Unknown {
            value: text.to_owned(),
            allowed: "created, pending, delayed, scheduled, running, waiting, retrying, suspended, completed, \
                      failed, dead_letter, cancelled",
        })
    }
}
