//! Calls of the HTTP API within the server, with the credentials of the request that needs them. They pass the same
//! checks as a request from outside.

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, Request, header};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use tower::ServiceExt;
use windlass_api::client::call::encoded;

use super::Session;
use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::schema::{ArgumentSchema, Shape};
use crate::limits::MCP_READ_BYTES_MAX;
use crate::server::Peer;

/// Headers that say who calls and to which trace it belongs.
const PASSED_ON: [HeaderName; 5] = [
    header::AUTHORIZATION,
    header::HOST,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-request-id"),
];

/// What a call takes over from the request.
pub(crate) struct Calls {
    headers: HeaderMap,
    peer: Option<Peer>,
}

impl FromRequestParts<App> for Calls {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Calls, ApiError> {
        Ok(Calls { headers: parts.headers.clone(), peer: parts.extensions.get::<Peer>().cloned() })
    }
}

impl ArgumentSchema for Calls {
    fn describe(_: &mut Shape) {}
}

impl Calls {
    /// The version of the protocol that the client has agreed on.
    pub(super) fn protocol_version(&self) -> Option<&str> {
        self.headers.get("mcp-protocol-version")?.to_str().ok()
    }
}

/// Why a call failed: code and message.
pub(super) struct CallError {
    pub(super) code: String,
    pub(super) message: String,
}

impl CallError {
    pub(super) fn new(code: &str, message: impl Into<String>) -> CallError {
        CallError { code: code.to_owned(), message: message.into() }
    }
}

/// A path with a query; values are encoded.
pub(super) struct Address(String);

impl Address {
    /// The path below `/api/v1`, from segments.
    pub(super) fn new(segments: &[&str]) -> Address {
        let path = segments.iter().map(|segment| encoded(segment)).collect::<Vec<_>>();
        Address(format!("/api/v1/{}", path.join("/")))
    }

    /// With these parameters; one without a value is left out.
    pub(super) fn query<'a>(self, given: impl IntoIterator<Item = (&'a str, Option<String>)>) -> Address {
        let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(given).finish();
        if query.is_empty() { self } else { Address(format!("{}?{query}", self.0)) }
    }
}

impl Session<'_> {
    pub(super) async fn get(&self, address: Address) -> Result<Value, CallError> {
        self.request(Method::GET, address, Body::empty()).await
    }

    pub(super) async fn post(&self, address: Address, body: &Value) -> Result<Value, CallError> {
        self.request(Method::POST, address, Body::from(body.to_string())).await
    }

    async fn request(&self, method: Method, address: Address, body: Body) -> Result<Value, CallError> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = address
            .0
            .parse()
            .map_err(|_| CallError::new("invalid_value", "a name is too long or malformed"))?;
        for name in &PASSED_ON {
            if let Some(value) = self.calls.headers.get(name) {
                request.headers_mut().insert(name.clone(), value.clone());
            }
        }
        if let Some(peer) = &self.calls.peer {
            request.extensions_mut().insert(peer.clone());
        }
        let Ok(response) = self.api.clone().oneshot(request).await;
        let is_success = response.status().is_success();
        let read = Limited::new(response.into_body(), MCP_READ_BYTES_MAX).collect().await;
        let bytes = read
            .map_err(|_| CallError::new("too_large", "the answer is too large: ask for less"))?
            .to_bytes();
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if is_success {
            return Ok(value);
        }
        match (value["error"]["code"].as_str(), value["error"]["message"].as_str()) {
            (Some(code), Some(message)) => Err(CallError::new(code, message)),
            // A name that is one of a route, such as the job `bulk`.
            _ => Err(CallError::new("not_found", "there is nothing of this name")),
        }
    }
}
