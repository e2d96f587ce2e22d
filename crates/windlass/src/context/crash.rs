//! Crashes that a test asks for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a worker crashes, for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrashPoint {
    /// Before the handler starts.
    BeforeStart,
    /// Before the step with this name runs.
    BeforeStep(String),
    /// After the step with this name was saved.
    AfterStep(String),
    /// After a checkpoint was saved.
    AfterCheckpoint,
    /// Before children are spawned.
    BeforeSpawn,
    /// After children were spawned, while the job waits for them.
    AfterSpawn,
    /// Before the job parks for a sleep or a signal. The end of the wait is saved only if other work runs
    /// beside it.
    BeforePark,
    /// After the handler has finished, before its outcome is reported.
    BeforeFinish,
}

/// A point at which a worker crashes, from its n-th occurrence on.
#[derive(Clone)]
pub(crate) struct Crash {
    point: CrashPoint,
    nth: usize,
    /// How often the worker has come there.
    seen: Arc<AtomicUsize>,
}

impl Crash {
    pub(crate) fn new(point: CrashPoint, nth: usize) -> Crash {
        Crash { point, nth, seen: Arc::default() }
    }

    /// Whether the worker, which has come to `point`, crashes there.
    pub(super) fn is_at(&self, point: &CrashPoint) -> bool {
        self.point == *point && self.seen.fetch_add(1, Ordering::Relaxed) + 1 >= self.nth
    }
}
