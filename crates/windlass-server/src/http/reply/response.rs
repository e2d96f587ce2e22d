//! Responses by status. The type of a response defines its part of the OpenAPI document.

use std::marker::PhantomData;

use axum::body::Body as HttpBody;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::http::aside::aside;
use crate::http::schema::{Reply, Shape};
use crate::limits;

/// 200 with JSON.
pub(crate) struct JsonOk<T>(pub(crate) T);
/// 201 with JSON.
pub(crate) struct Created<T>(pub(crate) T);
/// 201 with JSON for a new object, 200 for an existing one.
pub(crate) enum CreatedOrExisting<T> {
    Made(T),
    Found(T),
}
/// 202 with JSON.
pub(crate) struct Accepted<T>(pub(crate) T);
/// 204.
pub(crate) struct NoContent;
/// 200 with plain text.
pub(crate) struct Plain(pub(crate) String);
/// 200 with JSON text, shared by all requests.
pub(crate) struct TextResponse(pub(crate) Bytes);

/// 200 with JSON that is encoded on a separate thread if it is large.
pub(crate) struct Large<T>(Bytes, PhantomData<T>);

impl<T: Serialize + Send + 'static> Large<T> {
    /// Encodes a value of about this many bytes.
    pub(crate) async fn encode(value: T, about: usize) -> Large<T> {
        Large(encoded(about, move || value).await, PhantomData)
    }
}

/// Builds and encodes a value, on a separate thread if it has more than [`limits::BODY_BYTES_ASIDE`].
pub(crate) async fn encoded<T: Serialize>(about: usize, make: impl FnOnce() -> T + Send + 'static) -> Bytes {
    let encode = move || serde_json::to_vec(&make()).expect("responses are plain data").into();
    if about <= limits::BODY_BYTES_ASIDE {
        return encode();
    }
    aside(encode).await
}

impl<T> IntoResponse for Large<T> {
    fn into_response(self) -> Response {
        with_type(StatusCode::OK, "application/json", self.0)
    }
}

impl<T: JsonSchema> Reply for Large<T> {
    fn describe(shape: &mut Shape) {
        shape.add_response::<T>(StatusCode::OK);
    }
}

/// A response in JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let bytes = serde_json::to_vec(value).expect("responses are plain data");
    with_type(status, "application/json", bytes)
}

fn with_type(status: StatusCode, content_type: &'static str, body: impl Into<HttpBody>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

macro_rules! json_reply {
    ($name:ident, $status:ident) => {
        impl<T: Serialize> IntoResponse for $name<T> {
            fn into_response(self) -> Response {
                json(StatusCode::$status, &self.0)
            }
        }

        impl<T: JsonSchema> Reply for $name<T> {
            fn describe(shape: &mut Shape) {
                shape.add_response::<T>(StatusCode::$status);
            }
        }
    };
}

json_reply!(JsonOk, OK);
json_reply!(Created, CREATED);
json_reply!(Accepted, ACCEPTED);

impl<T: Serialize> IntoResponse for CreatedOrExisting<T> {
    fn into_response(self) -> Response {
        match self {
            CreatedOrExisting::Made(value) => json(StatusCode::CREATED, &value),
            CreatedOrExisting::Found(value) => json(StatusCode::OK, &value),
        }
    }
}

impl<T: JsonSchema> Reply for CreatedOrExisting<T> {
    fn describe(shape: &mut Shape) {
        shape.add_response::<T>(StatusCode::CREATED);
        shape.add_response::<T>(StatusCode::OK);
    }
}

impl IntoResponse for NoContent {
    fn into_response(self) -> Response {
        StatusCode::NO_CONTENT.into_response()
    }
}

impl Reply for NoContent {
    fn describe(shape: &mut Shape) {
        shape.add_empty_response(StatusCode::NO_CONTENT);
    }
}

macro_rules! text_reply {
    ($name:ident, $content_type:literal) => {
        impl IntoResponse for $name {
            fn into_response(self) -> Response {
                with_type(StatusCode::OK, $content_type, self.0)
            }
        }

        impl Reply for $name {
            fn describe(shape: &mut Shape) {
                shape.add_text_response($content_type);
            }
        }
    };
}

text_reply!(Plain, "text/plain; version=0.0.4; charset=utf-8");
text_reply!(TextResponse, "application/json");
