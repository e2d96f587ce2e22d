//! Time: the only module that reads a clock. All other modules get a [`Timestamp`] as an argument. Time zones are in
//! the `schedule` module.

mod deadline;
mod manual;
mod store_clock;
mod store_time;
#[cfg(test)]
mod tests;

pub use deadline::Deadline;
pub use manual::{JumpClock, ManualClock, ManualClocks};
#[cfg(feature = "sqlite")]
pub(crate) use store_clock::Stamp;
pub use store_clock::{ClockReport, StoreClock};
pub(crate) use windlass_core::clock::{DurationText, whole_millis};
pub use windlass_core::clock::{Grace, Leap, SharedGrace, Timestamp};

use std::future::Future;
use std::time::{Duration, Instant, SystemTime};

use crate::limits;

/// The source of a store's time.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;

    /// A reading of the machine's clocks, from which [`StoreClock`] computes store time. A clock without readings, as
    /// in tests and simulations, is used as store time directly.
    fn reading(&self) -> Option<Reading> {
        None
    }

    /// The database's clock, given its reading: tests replace it.
    fn database(&self, read: Timestamp) -> Timestamp {
        read
    }
}

/// A reading of a machine's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Monotonic time since boot, including time while suspended.
    pub elapsed: Duration,
    /// The wall clock, which may be wrong and may be changed at any time.
    pub wall: Timestamp,
    /// Identifies the boot that `elapsed` counts from; the same in all processes of the machine.
    pub boot: Option<i64>,
}

/// The machine's clock: the wall time at process start, advanced by the monotonic clock.
///
/// Changing the machine's clock while the process runs does not affect it. A store reads both clocks and decides how
/// far to follow the wall clock: see [`StoreClock`].
#[derive(Debug)]
pub struct SystemClock {
    started: Reading,
}

impl SystemClock {
    /// A clock that starts at the machine's wall time.
    pub fn new() -> SystemClock {
        SystemClock { started: Reading { elapsed: since_boot(), wall: wall(), boot: boot() } }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.started.wall.plus(since_boot().saturating_sub(self.started.elapsed))
    }

    fn reading(&self) -> Option<Reading> {
        Some(Reading { elapsed: since_boot(), wall: wall(), boot: self.started.boot })
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
fn wall() -> Timestamp {
    Timestamp::from(SystemTime::now())
}

/// `CLOCK_BOOTTIME`: unlike `CLOCK_MONOTONIC`, it continues while the machine is suspended.
#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let read = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) =
        (u64::try_from(read.tv_sec).unwrap_or(0), u32::try_from(read.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
fn since_boot() -> Duration {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    FIRST.get_or_init(std::time::Instant::now).elapsed()
}

/// An id of the current boot; `None` if the system has none.
fn boot() -> Option<i64> {
    use sha2::{Digest, Sha256};
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digest = Sha256::digest(id.trim());
    digest.first_chunk().map(|bytes| i64::from_be_bytes(*bytes))
}

/// Measures a duration in real time, independent of the store's clock; never used by rules.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(tokio::time::Instant);

impl Stopwatch {
    /// Starts measuring.
    pub fn start() -> Stopwatch {
        Stopwatch(tokio::time::Instant::now())
    }

    /// The time since the start.
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// Measures time like a [`Stopwatch`], and continues while the machine is suspended, as the store's time does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseWatch {
    watch: Stopwatch,
    boot: Duration,
}

impl LeaseWatch {
    /// Starts measuring.
    pub(crate) fn start() -> LeaseWatch {
        LeaseWatch { watch: Stopwatch::start(), boot: since_boot() }
    }

    /// The time since the start.
    pub(crate) fn elapsed(self) -> Duration {
        self.watch.elapsed().max(since_boot().saturating_sub(self.boot))
    }
}

/// Time since some moment in the past that is the same for every process of this machine: benchmarks compare readings of
/// several processes.
#[cfg(feature = "bench")]
pub fn machine_time() -> Duration {
    let read = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) =
        (u64::try_from(read.tv_sec).unwrap_or(0), u32::try_from(read.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}

/// A longest wait in real time, independent of the store's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimit(tokio::time::Instant);

impl WaitLimit {
    /// A wait that ends after `wait`.
    pub(crate) fn for_duration(wait: Duration) -> WaitLimit {
        WaitLimit(tokio::time::Instant::now() + wait.min(limits::DURATION_MAX))
    }

    /// Whether it is over.
    pub(crate) fn is_over(self) -> bool {
        tokio::time::Instant::now() >= self.0
    }

    /// The remaining time.
    #[cfg(feature = "remote")]
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(tokio::time::Instant::now())
    }

    /// Waits for `event`, at most until this limit and at most for `backstop`; true if the event occurred.
    pub(crate) async fn wait_for(self, event: impl Future<Output = ()>, backstop: Duration) -> bool {
        let until = self.0.min(tokio::time::Instant::now() + backstop);
        let has_occurred = tokio::time::timeout_at(until, event).await.is_ok();
        Deadline::restart_request();
        has_occurred
    }
}

/// The machine's monotonic time, used for deadlines.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
fn monotonic_now() -> Instant {
    Instant::now()
}
