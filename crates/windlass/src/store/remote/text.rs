//! Values that are text in the HTTP API: times and durations.

use std::borrow::Cow;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};

use crate::clock::Timestamp;

/// A time, in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment(pub(super) Timestamp);

/// Parses a time.
fn moment(text: &str) -> Option<Timestamp> {
    let read: jiff::Timestamp = text.parse().ok()?;
    Some(Timestamp::from_millis(read.as_millisecond()))
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Moment, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        moment(&text).map(Moment).ok_or_else(|| de::Error::custom(format!("`{text}` is not a time")))
    }
}

/// A duration in whole milliseconds, such as `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

/// The units, largest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Rounded up: a wait of half a millisecond must not become zero.
        let mut rest = u64::try_from(self.0.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        if rest == 0 {
            return f.write_str("0s");
        }
        for (unit, size) in UNITS {
            if rest >= size {
                write!(f, "{}{unit}", rest / size)?;
                rest %= size;
            }
        }
        Ok(())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let wrong = || format!("`{text}` is not a duration");
        let (mut rest, mut millis) = (text, 0_u64);
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
            let (number, tail) = rest.split_at(digits);
            let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let (_, size) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
            let number: u64 = number.parse().map_err(|_| wrong())?;
            millis = number.checked_mul(*size).and_then(|part| millis.checked_add(part)).ok_or_else(wrong)?;
            rest = tail;
        }
        Ok(Span(Duration::from_millis(millis)))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_they_are_written() {
        for (millis, text) in
            [(0, "0s"), (1, "1ms"), (90_000, "1m30s"), (604_800_000, "7d"), (3_600_250, "1h250ms")]
        {
            let span = Span(Duration::from_millis(millis));
            assert_eq!(span.to_string(), text);
            assert_eq!(text.parse(), Ok(span));
        }
        assert_eq!(Span(Duration::from_micros(1)).to_string(), "1ms");
        for bad in ["1", "x", "1w", "s", "99999999999999999999d"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }
}
