//! An expiry: a duration from now, or a time.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use windlass_core::clock::Timestamp;
use windlass_core::error::FieldError;

use crate::invalid;
use crate::time::{Moment, Span};

/// A duration from now, or a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Expiry {
    /// Duration from now.
    After(Span),
    /// Time.
    At(Moment),
}

impl Expiry {
    /// The duration until then; fails for the past, naming this field.
    pub fn counted_from(self, field: &str, now: Timestamp) -> Result<Duration, FieldError> {
        match self {
            Expiry::After(span) => Ok(span.0),
            Expiry::At(moment) if moment.0 > now => Ok(moment.0.since(now)),
            Expiry::At(moment) => Err(invalid(field, format!("is {}, which is in the past", moment.0))),
        }
    }
}

impl<'de> Deserialize<'de> for Expiry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Expiry, D::Error> {
        deserializer.deserialize_any(ExpiryVisitor)
    }
}

struct ExpiryVisitor;

impl Visitor<'_> for ExpiryVisitor {
    type Value = Expiry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"30s\", a number of seconds, or an RFC 3339 time")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Expiry, E> {
        match text.parse::<Timestamp>() {
            Ok(moment) => Ok(Expiry::At(Moment(moment))),
            // A text that is neither gets the message for durations.
            Err(_) => text.parse().map(Expiry::After).map_err(E::custom),
        }
    }

    fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Expiry, E> {
        Span::deserialize(de::value::U64Deserializer::new(seconds)).map(Expiry::After)
    }

    fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Expiry, E> {
        Span::deserialize(de::value::I64Deserializer::new(seconds)).map(Expiry::After)
    }

    fn visit_f64<E: de::Error>(self, seconds: f64) -> Result<Expiry, E> {
        Span::deserialize(de::value::F64Deserializer::new(seconds)).map(Expiry::After)
    }
}

impl JsonSchema for Expiry {
    fn schema_name() -> Cow<'static, str> {
        "Expiry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (span, moment) = (generator.subschema_for::<Span>(), generator.subschema_for::<Moment>());
        json_schema!({"description": "A duration from now, or a time.", "anyOf": [span, moment], "examples": ["1h"]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Duration, String> {
        let expiry = serde_json::from_str::<Expiry>(json).map_err(|error| error.to_string())?;
        let now = "2030-01-31T12:00:00Z".parse().expect("a time");
        expiry.counted_from("expires", now).map_err(|problem| problem.to_string())
    }

    #[test]
    fn an_end_is_some_time_from_now_or_a_moment_to_come() {
        assert_eq!(read(r#""1h30m""#), Ok(Duration::from_secs(5400)));
        assert_eq!(read("90"), Ok(Duration::from_secs(90)));
        assert_eq!(read("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(read(r#""2030-01-31T12:00:30.500Z""#), Ok(Duration::from_millis(30_500)));
        assert_eq!(read(r#""2030-01-31T15:00:00+02:00""#), Ok(Duration::from_secs(3600)));
        for bad in [r#""30""#, r#""-5s""#, "-5", "-0.5", r#""tomorrow""#, r#""2030-01-31T12:00:00Z""#, "true"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
