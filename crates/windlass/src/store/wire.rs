//! Conversions between the store's types and those of the HTTP API, used by the server to encode and by remote stores to
//! decode.

use schemars::{Schema, json_schema};
use windlass_api::text::FromText;

use super::caller::Role;
use crate::error::FieldProblem;

impl FromText for Role {
    fn from_text(text: &str) -> Result<Role, String> {
        text.parse().map_err(|problem: FieldProblem| problem.to_string())
    }

    fn schema() -> Schema {
        json_schema!({"type": "string", "enum": ["admin", "operator", "submitter", "worker", "app", "viewer"]})
    }
}
