//! Payloads in the API: JSON byte for byte as received, other bytes in base64 with their content type.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::error::FieldError;
use windlass_core::job::Payload;

use crate::invalid;
use crate::json::Json;

/// A payload.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct PayloadView {
    /// The payload, if it is JSON.
    #[serde(default, deserialize_with = "crate::json::present", skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The payload in base64, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Its content type.
    pub content_type: String,
}

impl From<&Payload> for PayloadView {
    fn from(payload: &Payload) -> PayloadView {
        let is_json = &*payload.content_type == Payload::JSON;
        let json = if is_json { Json::stored(&payload.bytes) } else { None };
        let payload_base64 = json.is_none().then(|| STANDARD.encode(&payload.bytes));
        PayloadView { payload: json, payload_base64, content_type: payload.content_type.to_string() }
    }
}

/// The payload of a submission.
pub fn submitted(
    json: Option<Json>,
    base64: Option<String>,
    content_type: Option<String>,
) -> Result<Payload, FieldError> {
    match (json, base64) {
        (Some(_), Some(_)) => Err(invalid("payload_base64", "give `payload` or `payload_base64`, not both")),
        (None, Some(text)) => {
            let bytes = STANDARD
                .decode(text.as_bytes())
                .map_err(|error| invalid("payload_base64", format!("is not base64: {error}")))?;
            Ok(Payload::bytes(bytes, content_type.as_deref().unwrap_or("application/octet-stream")))
        }
        (json, None) => {
            if content_type.is_some_and(|given| given != Payload::JSON) {
                let message = "requires `payload_base64`; a `payload` is JSON";
                return Err(invalid("content_type", message));
            }
            Ok(Payload::json(json.as_ref().map_or(&b"null"[..], Json::bytes)))
        }
    }
}

/// The payload as the fields of a submission: JSON as it is; other bytes, and JSON with surrounding blanks that would be
/// lost, in base64.
pub(crate) fn fields(payload: &Payload) -> (Option<Json>, Option<String>, Option<String>) {
    if &*payload.content_type == Payload::JSON
        && let Some(json) = Json::stored(&payload.bytes)
        && json.bytes().len() == payload.bytes.len()
    {
        return (Some(json), None, None);
    }
    (None, Some(STANDARD.encode(&payload.bytes)), Some(payload.content_type.to_string()))
}

impl From<PayloadView> for Payload {
    fn from(shown: PayloadView) -> Payload {
        let bytes = match (shown.payload, shown.payload_base64) {
            (Some(json), _) => json.bytes().into(),
            // A server sends base64; otherwise it was tampered with, and there is no payload.
            (None, Some(text)) => STANDARD.decode(text).unwrap_or_default().into(),
            (None, None) => [].into(),
        };
        Payload { bytes, content_type: shown.content_type.into() }
    }
}
