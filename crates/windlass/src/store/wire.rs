//! Conversions between the store's types and those of the HTTP API, used by the server to encode and by clients of a
//! server to decode.

pub mod alert;
pub mod claim;
pub mod clock;
pub mod filter;
pub mod job;
pub mod job_details;
pub mod key;
pub mod outcome;
pub mod pause;
pub mod queue;
pub mod schedule;
pub mod stats;
pub mod stream;
pub mod worker;

use crate::error::{FieldError, FieldProblem};

/// A value that is not allowed, in the field with this dotted path.
fn invalid(field: &str, problem: impl Into<String>) -> FieldError {
    FieldError::new(field, FieldProblem::Contradiction(problem.into()))
}
