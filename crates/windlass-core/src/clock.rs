//! Time as data: timestamps, and what timers may not do yet after the store was away. Clocks themselves are read by the
//! `windlass` crate; the rules get a [`Timestamp`] as an argument.

mod duration_text;
mod grace;
#[cfg(test)]
mod tests;

pub use duration_text::DurationText;
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
        rfc3339_millis(text).map(Timestamp::from_millis).ok_or_else(|| FieldProblem::Unknown {
            value: text.chars().take(64).collect(),
            allowed: "the times of RFC 3339, such as 2030-01-31T12:00:00Z",
        })
    }
}

/// Milliseconds since 1970. Jiff reads dates and times, but also other formats, and no moment of the last day of 9999.
fn rfc3339_millis(text: &str) -> Option<i64> {
    const SHAPE: &[u8] = b"0000-00-00T00:00:00";
    let has_shape = |at: &[u8], shape: &[u8]| {
        at.len() == shape.len()
            && at.iter().zip(shape).all(|(byte, shape)| match shape {
                b'0' => byte.is_ascii_digit(),
                b'T' => matches!(byte, b'T' | b't' | b' '),
                shape => byte == shape,
            })
    };
    let (local, rest) = text.split_at_checked(SHAPE.len())?;
    let (fraction, offset) = rest.split_at(rest.find(['Z', 'z', '+', '-'])?);
    let is_fraction = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !has_shape(local.as_bytes(), SHAPE)
        || !(fraction.is_empty() || fraction.strip_prefix('.').is_some_and(is_fraction))
    {
        return None;
    }
    let east = match offset {
        "Z" | "z" => 0,
        offset if has_shape(&offset.as_bytes()[1..], b"00:00") => {
            let (hours, minutes) = (offset[1..3].parse::<i64>().ok()?, offset[4..].parse::<i64>().ok()?);
            let seconds = (hours < 24 && minutes < 60).then_some(hours * 3_600 + minutes * 60)?;
            if offset.starts_with('-') { -seconds } else { seconds }
        }
        _ => return None,
    };
    // Smaller fractions than nanoseconds are left out.
    let local: jiff::civil::DateTime =
        format!("{local}{}", fraction.get(..10).unwrap_or(fraction)).parse().ok()?;
    let since = local.duration_since(jiff::civil::DateTime::constant(1970, 1, 1, 0, 0, 0, 0));
    i64::try_from(since.as_millis()).ok()?.checked_sub(east * 1_000)
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
