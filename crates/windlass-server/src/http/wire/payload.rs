//! Payloads in the API: JSON byte for byte as received, other bytes in base64 with their content type.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use windlass::job::Payload;

use super::Json;
use crate::http::reply::error::ApiError;

/// A payload.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Shown {
    /// The payload, if it is JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Json>,
    /// The payload in base64, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    content_type: String,
}

impl From<&Payload> for Shown {
    fn from(payload: &Payload) -> Shown {
        let is_json = &*payload.content_type == Payload::JSON;
        let json = if is_json { Json::stored(&payload.bytes) } else { None };
        let payload_base64 = json.is_none().then(|| STANDARD.encode(&payload.bytes));
        Shown { payload: json, payload_base64, content_type: payload.content_type.to_string() }
    }
}

/// The payload of a submission.
pub(crate) fn submitted(
    json: Option<Json>,
    base64: Option<String>,
    content_type: Option<String>,
) -> Result<Payload, ApiError> {
    match (json, base64) {
        (Some(_), Some(_)) => {
            Err(ApiError::invalid("payload_base64", "give `payload` or `payload_base64`, not both"))
        }
        (None, Some(text)) => {
            let bytes = STANDARD
                .decode(text.as_bytes())
                .map_err(|error| ApiError::invalid("payload_base64", format!("is not base64: {error}")))?;
            Ok(Payload::bytes(bytes, content_type.as_deref().unwrap_or("application/octet-stream")))
        }
        (json, None) => {
            if content_type.is_some_and(|given| given != Payload::JSON) {
                let message = "requires `payload_base64`; a `payload` is JSON";
                return Err(ApiError::invalid("content_type", message));
            }
            Ok(Payload::json(json.as_ref().map_or(&b"null"[..], Json::bytes)))
        }
    }
}
