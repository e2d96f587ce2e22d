//! Time as data: timestamps, and what timers may not do yet after the store was away. Clocks themselves are read by the
//! `windlass` crate; the rules get a [`Timestamp`] as an argument.

mod grace;
#[cfg(test)]
mod tests;

pub use grace::{Grace, Leap, SharedGrace};

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::FieldProblem;

/// A point in time, in whole milliseconds since 1970-01-01 UTC, between then and the end of the year 9999.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(from = "i64", into = "i64")]
pub struct Timestamp(i64);

// External values are moved into the range, otherwise arithmetic could overflow.
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
    /// The earliest timestamp.
    pub const MIN: Timestamp = Timestamp(0);
    /// The latest timestamp: late on 9999-12-30, the last one that has a date in every time zone.
    pub const MAX: Timestamp = Timestamp(253_402_207_200_000);

    /// The timestamp `millis` after 1970, moved into the range.
    pub fn from_millis(millis: i64) -> Timestamp {
        Timestamp(millis.clamp(Timestamp::MIN.0, Timestamp::MAX.0))
    }

    /// Milliseconds since 1970.
    pub fn as_millis(self) -> i64 {
        self.0
    }

    /// A later timestamp, saturating at [`Timestamp::MAX`].
    #[must_use]
    pub fn plus(self, by: Duration) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_add(whole_millis(by)))
    }

    /// An earlier timestamp, saturating at [`Timestamp::MIN`].
    #[must_use]
    pub fn minus(self, by: Duration) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_sub(whole_millis(by)))
    }

    /// The time since `earlier`; zero if `earlier` is later.
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

/// Parses RFC 3339 with any offset; values outside the range are moved into it.
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
pub fn whole_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
