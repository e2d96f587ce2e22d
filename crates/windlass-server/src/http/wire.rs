//! The types of the HTTP API, and their conversion to and from the library's types. The library may change; the API must
//! stay compatible.

pub(crate) mod claim;
pub(crate) mod expires;
pub(crate) mod filter;
pub(crate) mod job;
pub(crate) mod job_details;
pub(crate) mod known;
pub(crate) mod outcome;
pub(crate) mod page;
pub(crate) mod pause;
pub(crate) mod payload;
pub(crate) mod priority;
pub(crate) mod push;
pub(crate) mod record;
pub(crate) mod retention;
pub(crate) mod retry;
pub(crate) mod schedule;
pub(crate) mod settings;
pub(crate) mod stats;
pub(crate) mod submission;
pub(crate) mod tags;
pub(crate) mod text;
pub(crate) mod time;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Any JSON value, kept as text.
#[derive(Debug, Clone, serde::Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Json(pub(crate) Box<RawValue>);

impl Json {
    /// Stored JSON; None for other bytes, which an embedding program may have stored.
    pub(crate) fn stored(bytes: &[u8]) -> Option<Json> {
        serde_json::from_slice(bytes).ok().map(Json)
    }

    /// The text as bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.get().as_bytes()
    }
}

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        Schema::default()
    }
}
