//! Why a call failed, and what an error response says.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Map, Value};
use windlass_core::job::JobId;

use crate::error::{ErrorBody, ErrorFields};

/// Why a call failed. The messages do not name the server; the caller knows its address.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection: the server has not received the request.
    #[error("{cause}")]
    NoServer {
        /// The error of the operating system, or of TLS.
        cause: String,
    },
    /// The connection broke before the response was complete; the server may have done its work.
    #[error("{cause}")]
    Lost {
        /// The root cause.
        cause: String,
    },
    /// No response in time; the server may have done its work.
    #[error("no response within {within:?}")]
    Silent {
        /// The time that it had.
        within: Duration,
    },
    /// The response does not have the format that the API defines.
    #[error("cannot parse its response: {problem}")]
    BadResponse {
        /// What is wrong.
        problem: String,
    },
    /// An error response without the API's format, which comes from an intermediary.
    #[error("an intermediary answered {status}")]
    Intermediary {
        /// Its status.
        status: StatusCode,
    },
    /// An event of a stream exceeds the limit.
    #[error("it sent an event that is too long")]
    EventTooLong,
    /// The server responded with an error.
    #[error("{}: {}", .0.code, .0.message)]
    Refused(Box<ErrorResponse>),
    /// The client was closed.
    #[error("the client was closed")]
    Closed,
}

/// An error response of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct ErrorResponse {
    /// The HTTP status.
    pub status: u16,
    /// The stable error code.
    pub code: String,
    /// The message for people.
    pub message: String,
    /// Further data, by name.
    pub details: Map<String, Value>,
    /// When to retry, from `Retry-After`.
    pub retry_after: Option<Duration>,
    /// Whether the request had a key.
    pub had_key: bool,
}

impl ErrorResponse {
    /// Parses the body of an error response; `None` if it does not have the API's format.
    pub fn read(status: u16, body: &[u8], had_key: bool) -> Option<ErrorResponse> {
        let ErrorBody { error } = serde_json::from_slice(body).ok()?;
        Some(ErrorResponse { had_key, ..ErrorResponse::item(error, status) })
    }

    /// The refusal of one item, as if it had been a response with this status.
    pub fn item(fields: ErrorFields, status: u16) -> ErrorResponse {
        let ErrorFields { code, message, details } = fields;
        ErrorResponse { status, code, message, details, retry_after: None, had_key: false }
    }

    /// Whether the object was not found.
    pub fn is_not_found(&self) -> bool {
        self.status == StatusCode::NOT_FOUND.as_u16()
    }

    /// Whether it concerns a job to be submitted.
    pub fn is_about_a_submission(&self) -> bool {
        let is_own = matches!(self.code.as_str(), "payload_too_large" | "payload_differs" | "too_many_jobs");
        is_own || self.code == "unique_key_taken" || self.details.contains_key("index")
    }

    /// A detail that is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.details.get(name)?.as_str()
    }

    /// A detail that is text, or an empty text.
    pub fn text_or_empty(&self, name: &str) -> String {
        self.text(name).unwrap_or_default().to_owned()
    }

    /// A detail that is a number, or zero.
    pub fn number(&self, name: &str) -> u64 {
        self.details.get(name).and_then(Value::as_u64).unwrap_or_default()
    }

    /// A detail that is a size or a position, or zero.
    pub fn size(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    /// The other job that the error is about.
    pub fn job(&self) -> Option<JobId> {
        self.text("job_id")?.parse().ok()
    }

    /// The specific part of the message, without the fixed text of its kind of error.
    pub fn message_between(&self, before: &str, after: &str) -> String {
        let message = self.message.strip_prefix(before).unwrap_or(&self.message);
        message.strip_suffix(after).unwrap_or(message).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_response_is_read_with_its_details() {
        let body = br#"{"error": {"code": "state_conflict", "message": "no", "details": {"state": "running", "limit": 3}}}"#;
        let read = ErrorResponse::read(409, body, true).unwrap();
        assert_eq!((read.status, read.code.as_str(), read.had_key), (409, "state_conflict", true));
        assert_eq!((read.text("state"), read.number("limit"), read.number("state")), (Some("running"), 3, 0));
        let read =
            ErrorResponse::read(404, br#"{"error": {"code": "not_found", "message": "no job"}}"#, false);
        assert!(read.is_some_and(|read| read.is_not_found() && read.details.is_empty()));
    }

    #[test]
    fn what_an_intermediary_sends_is_no_error_response() {
        for body in [&b"<html>"[..], b"{}", b"{\"error\": \"bad gateway\"}", b"{\"error\": {}}", b""] {
            assert_eq!(ErrorResponse::read(502, body, false), None);
        }
    }
}
