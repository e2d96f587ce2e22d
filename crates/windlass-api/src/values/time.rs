//! Times and durations as text: RFC 3339 with milliseconds, and `"1h30m"` or a number of seconds.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use windlass_core::clock::{DurationText, Timestamp};
use windlass_core::error::FieldProblem;
use windlass_core::limits;

/// A time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub Timestamp);

impl From<Timestamp> for Moment {
    fn from(timestamp: Timestamp) -> Moment {
        Moment(timestamp)
    }
}

impl std::str::FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Moment, String> {
        text.parse().map(Moment).map_err(|problem: FieldProblem| problem.to_string())
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Moment, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map(Moment).map_err(de::Error::custom)
    }
}

impl JsonSchema for Moment {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "date-time",
            "description": "A time in the format of RFC 3339. Responses are in UTC with milliseconds.",
            "examples": ["2030-01-31T12:00:00.000Z"],
        })
    }
}

/// A duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl From<Duration> for Span {
    fn from(duration: Duration) -> Span {
        Span(duration)
    }
}

impl Span {
    /// Parses `1h30m`: numbers with units, the largest first, each at most once.
    fn parse(text: &str) -> Result<Span, String> {
        let wrong = || {
            let shown: String = text.chars().take(windlass_core::limits::SHOWN_CHARS_MAX).collect();
            format!("`{shown}` is not a duration such as 250ms, 30s, 5m, 1h30m or 7d")
        };
        let (mut rest, mut units, mut millis) = (text, DurationText::units(), 0_u64);
        if rest.is_empty() {
            return Err(wrong());
        }
        while !rest.is_empty() {
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, tail) = rest.split_at(digits);
            let letters = tail.len() - tail.trim_start_matches(|c: char| c.is_ascii_alphabetic()).len();
            let (unit, tail) = tail.split_at(letters);
            let (_, size) = units.find(|(name, _)| *name == unit).ok_or_else(wrong)?;
            if number.is_empty() {
                return Err(wrong());
            }
            // More digits than fit exceed the limit, which is reported below.
            let number: u64 = number.parse().unwrap_or(u64::MAX);
            millis = millis.saturating_add(number.saturating_mul(size));
            rest = tail;
        }
        Span::bounded(Duration::from_millis(millis))
    }

    fn seconds(seconds: f64) -> Result<Span, String> {
        if seconds < 0.0 {
            return Err(format!("is {seconds}, which is negative"));
        }
        Span::bounded(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }

    fn bounded(duration: Duration) -> Result<Span, String> {
        if duration > limits::DURATION_MAX {
            return Err("is longer than 100 years".to_owned());
        }
        Ok(Span(duration))
    }
}

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        Span::parse(text)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&DurationText(self.0), f)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        deserializer.deserialize_any(SpanVisitor)
    }
}

struct SpanVisitor;

impl Visitor<'_> for SpanVisitor {
    type Value = Span;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"30s\", or a number of seconds")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
        Span::parse(text).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Span, E> {
        Span::bounded(Duration::from_secs(seconds)).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Span, E> {
        let seconds =
            u64::try_from(seconds).map_err(|_| E::custom(format!("is {seconds}, which is negative")))?;
        self.visit_u64(seconds)
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Span, E> {
        Span::seconds(seconds).map_err(E::custom)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration: a text such as 250ms, 30s, 5m, 1h30m or 7d, or a number of seconds. Responses use \
                the text.",
            "anyOf": [
                {"type": "string", "pattern": "^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$", "minLength": 2},
                {"type": "number", "minimum": 0},
            ],
            "examples": ["30s"],
        })
    }
}

/// A duration in a query, where a number is text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuerySpan(pub Duration);

impl<'de> Deserialize<'de> for QuerySpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<QuerySpan, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let span = match text.parse::<f64>() {
            Ok(seconds) if text.starts_with(|c: char| c.is_ascii_digit()) => Span::seconds(seconds),
            _ => Span::parse(&text),
        };
        span.map(|span| QuerySpan(span.0)).map_err(de::Error::custom)
    }
}

impl JsonSchema for QuerySpan {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "QueryDuration".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<Span>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Duration, String> {
        serde_json::from_str::<Span>(json).map(|span| span.0).map_err(|error| error.to_string())
    }

    #[test]
    fn durations_are_read_with_units_or_as_seconds() {
        assert_eq!(read(r#""30s""#), Ok(Duration::from_secs(30)));
        assert_eq!(read(r#""1h30m""#), Ok(Duration::from_secs(5400)));
        assert_eq!(read(r#""250ms""#), Ok(Duration::from_millis(250)));
        assert_eq!(read(r#""7d""#), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(read("90"), Ok(Duration::from_secs(90)));
        assert_eq!(read("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(read("0"), Ok(Duration::ZERO));
        assert_eq!(read(r#""36500d""#), Ok(limits::DURATION_MAX));
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for bad in [
            r#""30""#,
            r#""""#,
            r#""s""#,
            r#""-5s""#,
            "-5",
            "-0.5",
            r#""5 s""#,
            r#""5S""#,
            r#""1m1h""#,
            r#""1m1m""#,
            r#""1.5h""#,
            r#""36501d""#,
            "3153600001",
            "1e300",
            r#""99999999999999999999d""#,
            "null",
            "true",
            "[]",
            r#""PT5S""#,
            r#""5w""#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_written_largest_unit_first() {
        for text in ["0s", "250ms", "30s", "5m", "1h30m", "7d", "1d1h1m1s1ms", "36500d"] {
            assert_eq!(Span::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Span(Duration::from_secs(90 * 60)).to_string(), "1h30m");
    }

    #[test]
    fn moments_are_read_with_any_offset_and_written_in_utc() {
        let read = |json: &str| serde_json::from_str::<Moment>(json);
        let written = |json: &str| serde_json::to_string(&read(json).unwrap()).unwrap();
        assert_eq!(written(r#""2030-01-31T12:00:00Z""#), r#""2030-01-31T12:00:00.000Z""#);
        assert_eq!(written(r#""2030-01-31T12:00:00.1239+02:00""#), r#""2030-01-31T10:00:00.123Z""#);
        for bad in
            ["1", r#""tomorrow""#, r#""2030-01-31""#, r#""2030-01-31T12:00:00""#, r#""2030-13-31T12:00:00Z""#]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
