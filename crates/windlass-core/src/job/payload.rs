//! Payloads: bytes with a content type, and how they are stored within documents.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::check_text;
use crate::error::{FieldError, FieldProblem};
use crate::limits;

/// Bytes with a content type; stored and returned byte for byte, never interpreted.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "StoredPayload", into = "StoredPayload")]
pub struct Payload {
    /// The bytes.
    pub bytes: Arc<[u8]>,
    /// The content type, such as `application/json`.
    pub content_type: Arc<str>,
}

impl Payload {
    /// The content type of JSON.
    pub const JSON: &'static str = "application/json";

    /// Checks the content type against its limits.
    pub fn check(&self) -> Result<(), FieldError> {
        check_text("content_type", Some(&self.content_type), limits::CONTENT_TYPE_CHARS_MAX)?;
        if self.content_type.chars().any(char::is_control) {
            let problem = FieldProblem::Contradiction("contains a control character".into());
            return Err(FieldError::new("content_type", problem));
        }
        Ok(())
    }

    /// JSON text, stored unchanged.
    pub fn json(text: impl AsRef<[u8]>) -> Payload {
        Payload { bytes: Arc::from(text.as_ref()), content_type: Arc::from(Payload::JSON) }
    }

    /// Bytes with a content type.
    pub fn bytes(bytes: impl AsRef<[u8]>, content_type: &str) -> Payload {
        Payload { bytes: Arc::from(bytes.as_ref()), content_type: Arc::from(content_type) }
    }

    /// The SHA-256 of the content type, a zero byte and the bytes. `submit` in SQL computes the same.
    pub fn digest(&self) -> PayloadDigest {
        let mut sha = Sha256::new();
        sha.update(self.content_type.as_bytes());
        sha.update([0]);
        sha.update(&self.bytes);
        PayloadDigest(sha.finalize().into())
    }
}

/// A digest to compare payloads when one of them is no longer stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PayloadDigest(pub [u8; 32]);

/// A payload within a stored document: as text if possible, so that people can read it.
#[derive(Serialize, Deserialize)]
struct StoredPayload {
    content_type: Arc<str>,
    content: StoredBytes,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredBytes {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Payload> for StoredPayload {
    fn from(payload: Payload) -> StoredPayload {
        let content = match std::str::from_utf8(&payload.bytes) {
            Ok(text) => StoredBytes::Text(text.to_owned()),
            Err(_) => StoredBytes::Bytes(payload.bytes.to_vec()),
        };
        StoredPayload { content_type: payload.content_type, content }
    }
}

impl From<StoredPayload> for Payload {
    fn from(stored: StoredPayload) -> Payload {
        let bytes = match stored.content {
            StoredBytes::Text(text) => Arc::from(text.into_bytes()),
            StoredBytes::Bytes(bytes) => Arc::from(bytes),
        };
        Payload { bytes, content_type: stored.content_type }
    }
}

/// Prints the size only: a payload is never logged.
impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes of {})", self.bytes.len(), self.content_type)
    }
}
