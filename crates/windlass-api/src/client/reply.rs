//! A response of the server that was received as a whole.

use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderMap, RETRY_AFTER};
use serde::de::DeserializeOwned;

use super::error::{ClientError, ErrorResponse};

/// A response of the server.
pub struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Reply {
    /// A header that is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Parses the body as `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.body)
            .map_err(|error| ClientError::BadResponse { problem: error.to_string() })
    }

    /// The response, unless it is an error. `had_key` is whether the request had a key.
    pub(super) fn checked(self, had_key: bool) -> Result<Reply, ClientError> {
        if self.status.is_success() { Ok(self) } else { Err(self.error(had_key)) }
    }

    /// The error that an error response describes.
    pub(super) fn error(&self, had_key: bool) -> ClientError {
        let status = self.status;
        let Some(refusal) = ErrorResponse::read(status.as_u16(), &self.body, had_key) else {
            return ClientError::Intermediary { status };
        };
        let seconds = self.header(RETRY_AFTER.as_str()).and_then(|text| text.parse().ok());
        let retry_after = seconds.map(Duration::from_secs);
        ClientError::Refused(Box::new(ErrorResponse { retry_after, ..refusal }))
    }
}
