//! Tags in the API. A duplicate name is rejected: programs disagree about which of the two counts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

/// Tags, each name once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Tags(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tags, D::Error> {
        deserializer.deserialize_map(TagsVisitor)
    }
}

struct TagsVisitor;

impl<'de> Visitor<'de> for TagsVisitor {
    type Value = Tags;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of names and texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tags, A::Error> {
        let mut tags = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            let value = map.next_value::<String>()?;
            if tags.insert(name.clone(), value).is_some() {
                let name: String = name.chars().take(windlass_core::limits::SHOWN_CHARS_MAX).collect();
                return Err(A::Error::custom(format!("`{name}` occurs twice")));
            }
        }
        Ok(Tags(tags))
    }
}

impl JsonSchema for Tags {
    fn schema_name() -> Cow<'static, str> {
        BTreeMap::<String, String>::schema_name()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, String>::json_schema(generator)
    }
}
