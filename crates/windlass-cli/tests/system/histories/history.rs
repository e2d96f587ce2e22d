//! What clients did and were answered, with times: the only thing that the checker sees besides the final state.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Microseconds since the history began, by one monotonic clock.
pub(super) type Micros = u64;

/// A lease as a claim's answer describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) job: String,
    pub(super) fence: u64,
    pub(super) attempt: u64,
    pub(super) queue: String,
}

/// What a client asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Call {
    Submit { key: String, queue: String },
    Claim { queue: String },
    Finish { job: String, fence: u64, is_completed: bool },
    Spawn { job: String, fence: u64 },
}

/// What it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Submitted {
        job: String,
    },
    Claimed(Vec<Lease>),
    Applied,
    Stale,
    Spawned {
        children: Vec<String>,
    },
    /// The server said no; nothing happened.
    Refused(String),
    /// No answer: it may have happened, or may still happen.
    Unknown,
}

/// One call with its answer.
#[derive(Debug, Clone)]
pub(super) struct Op {
    pub(super) call: Call,
    pub(super) invoked: Micros,
    pub(super) ended: Micros,
    pub(super) answer: Answer,
}

/// A job at the end, when all faults are over.
#[derive(Debug, Clone)]
pub(super) struct FinalJob {
    pub(super) id: String,
    pub(super) key: Option<String>,
    pub(super) state: String,
    pub(super) is_tick: bool,
    /// In milliseconds.
    pub(super) run_at: i64,
}

/// An audit record, in their order.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) event: String,
    pub(super) job: Option<String>,
}

/// Everything that the checker decides on.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub(super) ops: Vec<Op>,
    pub(super) jobs: Vec<FinalJob>,
    pub(super) records: Vec<Record>,
    /// How long a lease lasts, at least.
    pub(super) lease: Micros,
    /// How many jobs of [`super::LIMITED`] may run at a time.
    pub(super) limit: usize,
    /// Milliseconds between two ticks of the schedule.
    pub(super) tick_every: i64,
}

/// A history that many clients write.
pub(super) struct History {
    began: Instant,
    ops: Mutex<Vec<Op>>,
    answered: AtomicUsize,
    grown: Notify,
}

impl History {
    pub(super) fn new() -> History {
        History {
            began: Instant::now(),
            ops: Mutex::default(),
            answered: AtomicUsize::new(0),
            grown: Notify::new(),
        }
    }

    pub(super) fn now(&self) -> Micros {
        u64::try_from(self.began.elapsed().as_micros()).unwrap()
    }

    pub(super) fn add(&self, call: Call, invoked: Micros, answer: Answer) {
        let is_answered = answer != Answer::Unknown;
        let op = Op { call, invoked, ended: self.now(), answer };
        self.ops.lock().unwrap().push(op);
        self.answered.fetch_add(usize::from(is_answered), Ordering::SeqCst);
        self.grown.notify_waiters();
    }

    /// Waits until so many more calls were answered, or no longer than `limit`.
    pub(super) async fn grows(&self, by: usize, limit: Duration) {
        let wanted = self.answered.load(Ordering::SeqCst) + by;
        let reached = async {
            loop {
                let grown = self.grown.notified();
                if self.answered.load(Ordering::SeqCst) >= wanted {
                    return;
                }
                grown.await;
            }
        };
        let _ = tokio::time::timeout(limit, reached).await;
    }

    pub(super) fn ops(&self) -> Vec<Op> {
        self.ops.lock().unwrap().clone()
    }
}
