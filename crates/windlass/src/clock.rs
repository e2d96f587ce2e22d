//! Time: the only module that reads a clock. Everything else is handed a [`Timestamp`].
//! It knows nothing of time zones; schedules have their own module for that.

mod deadline;
mod manual;
mod store_clock;
mod store_time;
#[cfg(test)]
mod tests;

pub use deadline::Deadline;
pub use manual::{ManualClock, ManualClocks};
#[cfg(feature = "sqlite")]
pub(crate) use store_clock::Stamp;
pub use store_clock::{ClockReport, StoreClock};
pub use store_time::{Grace, Leap, SharedGrace};

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::FieldProblem;
use crate::limits;

/// A moment, in whole milliseconds since 1970-01-01 UTC, always between then and the last days of the year 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(from = "i64", into = "i64")]
pub struct Timestamp(i64);

// What is read from elsewhere is moved into the range like anything else, or arithmetic could overflow.
impl From<i64> for Timestamp {
    fn from(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Timestamp {
        Timestamp::MIN.plus(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl From<Timestamp> for i64 {
    fn from(timestamp: Timestamp) -> i64 {
        timestamp.0
    }
}

impl Timestamp {
    /// The first moment that can be expressed.
    pub const MIN: Timestamp = Timestamp(0);
    /// The last moment that can be expressed: late on 9999-12-30, the last one that has a date in every time zone.
    pub const MAX: Timestamp = Timestamp(253_402_207_200_000);

    /// The moment `millis` after 1970, moved into the range that can be expressed.
    pub fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis.clamp(Timestamp::MIN.0, Timestamp::MAX.0))
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// This moment moved into the future, stopping at [`Timestamp::MAX`]; never overflows.
    #[must_use]
    pub fn plus(self, by: Duration) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_add(whole_millis(by)))
    }

    /// This moment moved into the past, stopping at [`Timestamp::MIN`]; never overflows.
    #[must_use]
    pub fn minus(self, by: Duration) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_sub(whole_millis(by)))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = jiff::Timestamp::from_millisecond(self.0).expect("the range is within jiff's");
        write!(f, "{instant:.3}")
    }
}

/// Reads RFC 3339, with any offset; what is outside the range is moved into it.
impl FromStr for Timestamp {
    type Err = FieldProblem;

    fn from_str(text: &str) -> Result<Timestamp, FieldProblem> {
        let parsed: jiff::Timestamp = text.parse().map_err(|_| FieldProblem::Unknown {
            value: text.chars().take(64).collect(),
            allowed: "the times of RFC 3339, such as 2030-01-31T12:00:00Z",
        })?;
        Ok(Timestamp::from_millis(parsed.as_millisecond()))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Whole milliseconds of a duration, at most `i64::MAX`.
pub(crate) fn whole_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Where a store takes the time from.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// The clocks of the machine, from which [`StoreClock`] makes store time. A clock without them, as in tests and in
    /// simulations, is store time by itself.
    fn reading(&self) -> Option<Reading> {
        None
    }

    /// What the database's clock shows, given what it was read as: tests put another time in its place.
    fn database(&self, read: Timestamp) -> Timestamp {
        read
    }
}

/// One look at the clocks of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Monotonic time since the machine was started, including the time for which it was suspended.
    pub elapsed: Duration,
    /// The wall clock, which may be wrong and may be set at any moment.
    pub wall: Timestamp,
    /// Which start of which machine `elapsed` counts from; the same in all processes there.
    pub boot: Option<i64>,
}

/// The machine's clock: wall time when the process began, moved on by the monotonic clock.
///
/// Setting the machine's clock while the process runs therefore does not move it. A store reads both clocks and decides by
/// itself how far to follow the wall clock: see [`StoreClock`].
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

/// `CLOCK_BOOTTIME`: unlike `CLOCK_MONOTONIC`, it goes on while the machine is suspended.
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

/// A number for this start of this machine; none where the system has no id for it.
fn boot() -> Option<i64> {
    use sha2::{Digest, Sha256};
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let digest = Sha256::digest(id.trim());
    digest.first_chunk().map(|bytes| i64::from_be_bytes(*bytes))
}

/// Measures how long something takes, in real time, whatever the store's clock shows; never for a rule.
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

/// How long somebody is willing to wait, in real time, whatever the store's clock shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitLimit(tokio::time::Instant);

impl WaitLimit {
    /// Patience that ends after `wait`.
    pub(crate) fn for_duration(wait: Duration) -> WaitLimit {
        WaitLimit(tokio::time::Instant::now() + wait.min(limits::DURATION_MAX))
    }

    /// Whether it has ended.
    pub(crate) fn is_over(self) -> bool {
        tokio::time::Instant::now() >= self.0
    }

    /// How long it still lasts.
    #[cfg(feature = "remote")]
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_duration_since(tokio::time::Instant::now())
    }

    /// Returns when it has ended.
    pub(crate) async fn elapsed_wait(self) {
        tokio::time::sleep_until(self.0).await;
    }

    /// Waits for `news`, at most until patience ends, and at most for `backstop`; true if there were news.
    pub(crate) async fn wait_for(self, news: impl Future<Output = ()>, backstop: Duration) -> bool {
        let until = self.0.min(tokio::time::Instant::now() + backstop);
        let has_news = tokio::time::timeout_at(until, news).await.is_ok();
        Deadline::restart_request();
        has_news
    }
}

/// The machine's monotonic time, which a deadline is measured by.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
fn monotonic_now() -> Instant {
    Instant::now()
}
