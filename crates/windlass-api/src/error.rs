//! The body of an error response: `{"error": {"code", "message", "details"?}}`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error_code::CODES;

/// The body of an error response.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ApiError")]
pub struct ErrorBody {
    /// The error itself.
    pub error: ErrorFields,
}

/// An error, of a whole request or of one item of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ErrorDetails")]
pub struct ErrorFields {
    /// A stable code for programs.
    #[schemars(schema_with = "codes")]
    pub code: String,
    /// A message for people.
    pub message: String,
    /// Further data: the field, the state, the conflicting job.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

fn codes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": CODES.iter().map(|(_, code, _)| *code).collect::<Vec<_>>()})
}
