//! The parts of the server's responses that the screen shows. Text is escaped while it is read, so that it cannot move the
//! cursor or hide other text.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use windlass::clock::Timestamp;
use windlass::job::JobAction;
use windlass_api::time::{Moment, Span};

use crate::output::escaped;

/// Text from the server in which control characters are escaped.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Plain(String);

impl Plain {
    pub(super) fn new(text: &str) -> Plain {
        Plain(escaped(text))
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Plain, D::Error> {
        String::deserialize(deserializer).map(|text| Plain::new(&text))
    }
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Counts by state.
pub(super) type Counts = BTreeMap<String, u64>;

/// The number of jobs in some states.
pub(super) fn sum(counts: &Counts, states: &[&str]) -> u64 {
    states.iter().filter_map(|state| counts.get(*state)).sum()
}

/// `GET /queues`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Queues {
    pub(super) queues: Vec<Queue>,
}

/// A queue.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Queue {
    pub(super) name: Plain,
    pub(super) depth: Counts,
    pub(super) oldest_age: Option<Span>,
    pub(super) rates: QueueRates,
    pub(super) paused: Option<Pause>,
    /// Settings by their names in the API.
    #[serde(flatten)]
    pub(super) settings: BTreeMap<String, Value>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct QueueRates {
    pub(super) last_minute: Flow,
    pub(super) last_hour: Flow,
}

/// Counts over some time.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Flow {
    pub(super) submitted: u64,
    pub(super) completed: u64,
    pub(super) failed: u64,
    pub(super) retried: u64,
    pub(super) dead_letter: u64,
    pub(super) waited: LatencyHistogram,
    pub(super) ran: LatencyHistogram,
}

impl Flow {
    /// Attempts that failed.
    pub(super) fn errors(&self) -> u64 {
        self.failed + self.dead_letter + self.retried
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct LatencyHistogram {
    pub(super) p50: Option<Span>,
    pub(super) p95: Option<Span>,
}

/// An active pause.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Pause {
    pub(super) by: Plain,
    pub(super) at: Moment,
    pub(super) reason: Option<Plain>,
}

/// `GET /stats`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Stats {
    pub(super) states: Counts,
    pub(super) minutes: Vec<Minute>,
}

/// Counts of one minute; the last minute is not complete.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Minute {
    pub(super) at: Moment,
    #[serde(flatten)]
    pub(super) flow: Flow,
}

/// `GET /gate`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Gate {
    pub(super) online: bool,
    pub(super) reason: Option<Plain>,
    pub(super) by: Option<Plain>,
    pub(super) scopes: Vec<Value>,
}

/// `GET /workers`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Workers {
    pub(super) workers: Vec<Worker>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Worker {
    pub(super) id: Plain,
    pub(super) name: Plain,
    pub(super) alive: bool,
    pub(super) paused: Option<Pause>,
}

/// `GET /jobs`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Jobs {
    pub(super) jobs: Vec<Job>,
}

/// A job.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Job {
    pub(super) id: Plain,
    pub(super) tenant: Plain,
    pub(super) r#type: Plain,
    pub(super) queue: Plain,
    pub(super) state: Plain,
    pub(super) why: Option<Reason>,
    pub(super) priority: u8,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    pub(super) created_at: Moment,
    pub(super) updated_at: Moment,
    pub(super) run_at: Moment,
    pub(super) started_at: Option<Moment>,
    pub(super) completed_at: Option<Moment>,
    pub(super) suspended_at: Option<Moment>,
    pub(super) suspended_by: Option<Plain>,
    pub(super) lease: Option<Lease>,
    pub(super) error: Option<JobError>,
    pub(super) progress: Option<Progress>,
}

impl Job {
    /// When it last failed, or last changed if it never failed.
    pub(super) fn failed_at(&self) -> Timestamp {
        self.error.as_ref().map_or(self.updated_at.0, |error| error.at.0)
    }

    /// Whether its state is final.
    pub(super) fn is_final(&self) -> bool {
        self.allows(JobAction::Redrive)
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.allows(JobAction::Resume)
    }

    /// Whether its state allows the action; false for a state that only a newer server knows.
    pub(super) fn allows(&self, action: JobAction) -> bool {
        self.state.as_str().parse().is_ok_and(|state| action.is_allowed_in(state))
    }
}

/// Why a job is not running.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Reason {
    pub(super) code: Plain,
    pub(super) message: Plain,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Lease {
    pub(super) worker: Plain,
    pub(super) expires_at: Moment,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct JobError {
    pub(super) category: Plain,
    pub(super) code: Option<Plain>,
    pub(super) message: Plain,
    pub(super) at: Moment,
    #[serde(default)]
    pub(super) cause: Vec<Cause>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Cause {
    pub(super) message: Plain,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Progress {
    pub(super) percent: f64,
    pub(super) message: Option<Plain>,
}

/// `GET /jobs/{id}/explain`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Reasons {
    pub(super) reasons: Vec<Reason>,
}

/// `GET /jobs/{id}/attempts`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Attempts {
    pub(super) attempts: Vec<Attempt>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct Attempt {
    pub(super) number: u32,
    pub(super) started_at: Option<Moment>,
    pub(super) ended_at: Option<Moment>,
    pub(super) outcome: Option<Plain>,
    pub(super) error: Option<JobError>,
}

/// `GET /jobs/{id}/logs`
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Logs {
    pub(super) logs: Vec<LogLine>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct LogLine {
    pub(super) at: Moment,
    pub(super) text: Plain,
}
