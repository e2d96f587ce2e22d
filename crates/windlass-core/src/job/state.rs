//! The twelve states of a job, their text form, and which are final. `transition.rs` decides how one follows another.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Words;
use crate::error::FieldProblem;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Words)]
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
    /// The final states.
    pub const FINAL: [JobState; 4] =
        [JobState::Completed, JobState::Failed, JobState::DeadLetter, JobState::Cancelled];

    /// Whether the state is final: the job never changes again.
    pub fn is_final(self) -> bool {
        JobState::FINAL.contains(&self)
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
