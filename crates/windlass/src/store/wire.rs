//! Conversions between the store's types and those of the HTTP API, used by the server to encode and by remote stores to
//! decode.

pub mod claim;
pub mod filter;
pub mod job;
pub mod job_details;
pub mod outcome;
pub mod schedule;

use schemars::{Schema, json_schema};
use windlass_api::text::FromText;

use super::caller::Role;
use crate::error::{FieldProblem, Invalid};

impl FromText for Role {
    fn from_text(text: &str) -> Result<Role, String> {
        text.parse().map_err(|problem: FieldProblem| problem.to_string())
    }

    fn schema() -> Schema {
        json_schema!({"type": "string", "enum": ["admin", "operator", "submitter", "worker", "app", "viewer"]})
    }
}

/// A value that is not allowed, in the field with this dotted path.
fn invalid(field: &str, problem: impl Into<String>) -> Invalid {
    Invalid::new(field, FieldProblem::Contradiction(problem.into()))
}
