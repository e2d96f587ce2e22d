//! The twelve states of a job, their text form, and which are final. How one follows another is decided in
//! `transition.rs`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Problem;

/// Where a job is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Held by its submitter, not submitted yet.
    Created,
    /// Accepted; waits for other jobs.
    Pending,
    /// Runs at a later time.
    Delayed,
    /// May be claimed now.
    Scheduled,
    /// Leased to a worker.
    Running,
    /// Parked on children, a signal or a timer; holds no slot.
    Waiting,
    /// Failed; waits for its backoff.
    Retrying,
    /// Held by an operator.
    Suspended,
    /// Final: succeeded.
    Completed,
    /// Final: a permanent failure.
    Failed,
    /// Final: retries or lifetime spent.
    DeadLetter,
    /// Final: cancelled.
    Cancelled,
}

impl State {
    /// All states, in the order of the model.
    pub const ALL: [State; 12] = [
        State::Created,
        State::Pending,
        State::Delayed,
        State::Scheduled,
        State::Running,
        State::Waiting,
        State::Retrying,
        State::Suspended,
        State::Completed,
        State::Failed,
        State::DeadLetter,
        State::Cancelled,
    ];

    /// The final states.
    pub const FINAL: [State; 4] = [State::Completed, State::Failed, State::DeadLetter, State::Cancelled];

    /// Whether nothing can change the job any more (M2).
    pub fn is_final(self) -> bool {
        State::FINAL.contains(&self)
    }

    /// The word used everywhere: in Rust, SQL, JSON, on the command line and on pages.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Created => "created",
            State::Pending => "pending",
            State::Delayed => "delayed",
            State::Scheduled => "scheduled",
            State::Running => "running",
            State::Waiting => "waiting",
            State::Retrying => "retrying",
            State::Suspended => "suspended",
            State::Completed => "completed",
            State::Failed => "failed",
            State::DeadLetter => "dead_letter",
            State::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for State {
    type Err = Problem;

    fn from_str(text: &str) -> Result<State, Problem> {
        State::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| Problem::Unknown {
            value: text.to_owned(),
            allowed: "created, pending, delayed, scheduled, running, waiting, retrying, suspended, completed, \
                      failed, dead_letter, cancelled",
        })
    }
}
