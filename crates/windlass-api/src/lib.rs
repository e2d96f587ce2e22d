//! The HTTP API of a Windlass server as types: what requests and responses consist of, written once. The server decodes
//! requests and encodes responses with them, its clients the other way round, and the OpenAPI document is generated
//! from them.
//!
//! Requests are read strictly: an unknown field is an error. Responses are read leniently: a client of this version
//! understands a server of a later one. The conversions to and from the types of the rules are here; those to and from
//! the types of a store are in the crate `windlass`. With the feature `client` there is also a client that sends the
//! calls; it does not know what they contain.

pub mod alert;
pub mod claim;
#[cfg(feature = "client")]
pub mod client;
pub mod clock;
pub mod error;
pub mod error_code;
#[cfg(test)]
mod fuzz;
pub mod job;
pub mod key;
pub mod outcome;
pub mod pause;
pub mod queue;
pub mod record;
pub mod schedule;
pub mod settings;
pub mod stats;
mod values;
pub mod worker;

pub use job::{actions, details as job_details, filter, stream, submission};
pub use settings::{push, retention};
pub use values::{expires, json, known, payload, priority, retry, tags, text, time};

use windlass_core::error::{FieldError, FieldProblem};

/// A value that is not allowed, in the field with this dotted path.
fn invalid(field: impl Into<String>, problem: impl Into<String>) -> FieldError {
    FieldError::new(field, FieldProblem::Contradiction(problem.into()))
}

/// Shortens a text that is repeated in a message.
fn shown(text: &str) -> String {
    text.chars().take(windlass_core::limits::SHOWN_CHARS_MAX).collect()
}
