//! Time: the only module that reads a clock. Everything else is handed a [`Timestamp`].
//! It knows nothing of time zones; schedules have their own module for that.

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::Problem;

/// A moment, in whole milliseconds since 1970-01-01 UTC, always between then and the last days of the year 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
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
    type Err = Problem;

    fn from_str(text: &str) -> Result<Timestamp, Problem> {
        let parsed: jiff::Timestamp = text.parse().map_err(|_| Problem::Unknown {
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

    /// Goes by another clock from here on, which shows `now`: on many machines the database's clock rules (M7). A clock
    /// that rules by itself, as in tests, does not listen.
    fn follow(&self, _now: Timestamp) {}
}

/// The machine's clock: wall time when the process began, moved on by the monotonic clock.
///
/// Setting the machine's clock while the process runs therefore ends no lease early and holds none for an
/// hour too long; the new wall time counts from the next start.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    /// In milliseconds.
    wall_at_start: AtomicI64,
}

impl SystemClock {
    /// A clock that starts at the machine's wall time.
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the machine's clocks")]
    pub fn new() -> SystemClock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall_at_start = AtomicI64::new(Timestamp::MIN.plus(since_epoch).as_millis());
        SystemClock { started: Instant::now(), wall_at_start }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.wall_at_start.load(Ordering::Relaxed)).plus(self.started.elapsed())
    }

    fn follow(&self, now: Timestamp) {
        let at_start = now.minus(self.started.elapsed());
        self.wall_at_start.store(at_start.as_millis(), Ordering::Relaxed);
    }
}

/// A clock that stands still until it is told to move; for tests and simulations.
#[derive(Debug)]
pub struct ManualClock {
    millis: AtomicI64,
    moving: Mutex<()>,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> ManualClock {
        ManualClock { millis: AtomicI64::new(start.as_millis()), moving: Mutex::new(()) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let _one_at_a_time = self.moving.lock();
        let next = self.now().plus(by);
        self.millis.store(next.as_millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::SeqCst))
    }
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
pub(crate) struct Patience(tokio::time::Instant);

impl Patience {
    /// Patience that ends after `wait`.
    pub(crate) fn lasting(wait: Duration) -> Patience {
        Patience(tokio::time::Instant::now() + wait)
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
    pub(crate) async fn over(self) {
        tokio::time::sleep_until(self.0).await;
    }

    /// Waits for `news`, at most until patience ends, and at most for `backstop`.
    pub(crate) async fn wait_for(self, news: impl Future<Output = ()>, backstop: Duration) {
        let until = self.0.min(tokio::time::Instant::now() + backstop);
        // Either is a reason to look again.
        let _news_or_over = tokio::time::timeout_at(until, news).await;
    }
}
