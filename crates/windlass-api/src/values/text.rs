//! Names of types, queues and tenants, validated while parsing, so that an error has the field's path.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize, Serializer};
use windlass_core::caller::Role;
use windlass_core::job::{
    AlertName, JobId, JobState, JobType, QueueName, ScheduleName, Tenant, Version, WorkerId, WorkerVersion,
};
use windlass_core::key::KeyId;

/// A value of the library that is text in the API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<T>(pub T);

impl<T: std::fmt::Display> std::fmt::Display for Text<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: std::fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A value that is parsed from text, and its schema.
pub trait FromText: Sized {
    /// The name of its schema, if it is described once and referred to.
    const SCHEMA: Option<&'static str> = None;

    /// Parses the text; the error completes a sentence that begins with the field's name.
    fn from_text(text: &str) -> Result<Self, String>;
    /// The schema of the text.
    fn schema() -> Schema;
}

impl<'de, T: FromText> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<T>, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        T::from_text(&text).map(Text).map_err(de::Error::custom)
    }
}

impl<T: FromText> std::str::FromStr for Text<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<Text<T>, String> {
        T::from_text(text).map(Text)
    }
}

impl<T: FromText> JsonSchema for Text<T> {
    fn inline_schema() -> bool {
        T::SCHEMA.is_none()
    }

    fn schema_name() -> Cow<'static, str> {
        T::SCHEMA.unwrap_or("Text").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        T::schema()
    }
}

macro_rules! name_from_text {
    ($($name:ident),*) => {$(
        impl FromText for $name {
            fn from_text(text: &str) -> Result<$name, String> {
                $name::new(text).map_err(|problem| problem.to_string())
            }

            fn schema() -> Schema {
                json_schema!({"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_.:-]*$", "minLength": 1, "maxLength": 255})
            }
        }
    )*};
}

name_from_text!(AlertName, JobType, QueueName, ScheduleName, Tenant);

impl FromText for WorkerVersion {
    fn from_text(text: &str) -> Result<WorkerVersion, String> {
        WorkerVersion::new(text).map_err(|problem| problem.to_string())
    }

    fn schema() -> Schema {
        json_schema!({"type": "string", "pattern": "^[A-Za-z0-9_.:+/@-]+$", "minLength": 1, "maxLength": 255})
    }
}

macro_rules! id_from_text {
    ($($name:ident),*) => {$(
        impl FromText for $name {
            fn from_text(text: &str) -> Result<$name, String> {
                text.parse().map_err(|_| "is not an id".to_owned())
            }

            fn schema() -> Schema {
                json_schema!({"type": "string", "format": "uuid"})
            }
        }
    )*};
}

id_from_text!(JobId, WorkerId);

impl FromText for KeyId {
    fn from_text(text: &str) -> Result<KeyId, String> {
        text.parse().map_err(|_| "is not a key id".to_owned())
    }

    fn schema() -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9a-f]{16}$"})
    }
}

impl FromText for JobState {
    const SCHEMA: Option<&'static str> = Some("JobState");

    fn from_text(text: &str) -> Result<JobState, String> {
        text.parse().map_err(|problem: windlass_core::error::FieldProblem| problem.to_string())
    }

    fn schema() -> Schema {
        json_schema!({
            "description": "The state of a job.",
            "type": "string",
            "enum": JobState::ALL.map(JobState::as_str),
        })
    }
}

impl FromText for Version {
    fn from_text(text: &str) -> Result<Version, String> {
        text.parse().map_err(|problem: windlass_core::error::FieldProblem| problem.to_string())
    }

    fn schema() -> Schema {
        json_schema!({"type": "string"})
    }
}

impl FromText for Role {
    const SCHEMA: Option<&'static str> = Some("Role");

    fn from_text(text: &str) -> Result<Role, String> {
        text.parse().map_err(|problem: windlass_core::error::FieldProblem| problem.to_string())
    }

    fn schema() -> Schema {
        json_schema!({
            "description": "A role: a set of permissions.",
            "type": "string",
            "enum": Role::ALL.map(Role::as_str),
        })
    }
}
