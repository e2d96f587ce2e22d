//! Priority as a number or one of five names.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use windlass_core::job::Priority;

/// A priority, as a number from 0 to 100 or a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PriorityInput(pub Priority);

const NAMES: [&str; 5] = ["critical", "high", "normal", "low", "bulk"];

impl<'de> Deserialize<'de> for PriorityInput {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PriorityInput, D::Error> {
        deserializer.deserialize_any(UrgencyVisitor)
    }
}

struct UrgencyVisitor;

impl Visitor<'_> for UrgencyVisitor {
    type Value = PriorityInput;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0 to 100, or one of {}", NAMES.join(", "))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<PriorityInput, E> {
        Priority::new(value).map(PriorityInput).map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<PriorityInput, E> {
        self.visit_i64(i64::try_from(value).unwrap_or(i64::MAX))
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<PriorityInput, E> {
        if !NAMES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            return Err(E::invalid_value(de::Unexpected::Str(name), &self));
        }
        name.parse().map(PriorityInput).map_err(E::custom)
    }
}

impl std::str::FromStr for PriorityInput {
    type Err = String;

    fn from_str(text: &str) -> Result<PriorityInput, String> {
        let read: Result<PriorityInput, de::value::Error> = match text.parse() {
            Ok(number) => UrgencyVisitor.visit_i64(number),
            Err(_) => UrgencyVisitor.visit_str(text),
        };
        read.map_err(|problem| problem.to_string())
    }
}

impl JsonSchema for PriorityInput {
    fn schema_name() -> Cow<'static, str> {
        "Priority".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let name = generator.subschema_for::<PriorityName>();
        json_schema!({
            "description": "Jobs with a higher priority run first: 0 to 100, or a name. critical is 100, high 80, \
                normal 50, low 10, bulk 0.",
            "anyOf": [{"type": "integer", "minimum": 0, "maximum": 100}, name],
            "examples": [50],
        })
    }
}

/// The names, for the schema.
struct PriorityName;

impl JsonSchema for PriorityName {
    fn schema_name() -> Cow<'static, str> {
        "PriorityName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The name of a priority; upper and lower case are the same.",
            "type": "string",
            "enum": NAMES,
        })
    }
}
