//! JSON that is kept as text.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// Any JSON value, kept as text.
#[derive(Debug, Clone, serde::Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(pub Box<RawValue>);

impl Json {
    /// Stored JSON; None for other bytes, which an embedding program may have stored.
    pub fn stored(bytes: &[u8]) -> Option<Json> {
        serde_json::from_slice(bytes).ok().map(Json)
    }

    /// The value; its text is then no longer known.
    pub fn value(&self) -> Value {
        serde_json::from_str(self.0.get()).unwrap_or_default()
    }

    /// The text as bytes.
    pub fn bytes(&self) -> &[u8] {
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

/// Reads a value that is present, also null; with `#[serde(default)]` a missing one is `None`.
pub(crate) fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// Reads null as the default, which stands for a field that was left out.
pub(crate) fn null_as_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Reads an object as two types: what is common to several responses, and the fields beside it. A flattened struct could
/// not keep JSON as text.
pub(crate) fn two_parts<'de, D, A, B>(deserializer: D) -> Result<(A, B), D::Error>
where
    D: Deserializer<'de>,
    A: serde::de::DeserializeOwned,
    B: serde::de::DeserializeOwned,
{
    let text = Box::<RawValue>::deserialize(deserializer)?;
    let read =
        serde_json::from_str(text.get()).and_then(|first| Ok((first, serde_json::from_str(text.get())?)));
    read.map_err(serde::de::Error::custom)
}
