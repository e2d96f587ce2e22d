//! Request and response of a handler, derived from its signature, so that the OpenAPI document matches the code.

use std::future::Future;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::app::App;
use super::reply::error::ApiError;
use super::reply::trace::MaybeTrace;
use super::request::auth::{Call, CurrentCaller};
use super::request::json::Body;
use super::request::path::{
    AlertPath, JobPath, KeyPath, NamePath, QueuePath, SchedulePath, TenantPath, TypePath, WorkerPath,
};
use super::request::query::Query;

/// Generates the schema of a type.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// The content of a response.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// JSON with this schema.
    Json(SchemaOf),
    /// Another content type.
    Text(&'static str),
    /// Server-sent events, whose data has this schema.
    Events(SchemaOf),
    Nothing,
}

/// Request and response of a handler.
#[derive(Default)]
pub(crate) struct Shape {
    /// Query parameters.
    pub(crate) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    /// Successful responses.
    pub(crate) answers: Vec<(StatusCode, Content)>,
    /// Error statuses.
    pub(crate) refusals: Vec<StatusCode>,
    /// Request headers it uses, with their descriptions.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// Whether the response has an `ETag`.
    pub(crate) is_tagged: bool,
}

impl Shape {
    /// Adds JSON with this status.
    pub(crate) fn add_response<T: JsonSchema>(&mut self, status: StatusCode) {
        self.answers.push((status, Content::Json(schema_of::<T>)));
    }

    /// Adds this status without content.
    pub(crate) fn add_empty_response(&mut self, status: StatusCode) {
        self.answers.push((status, Content::Nothing));
    }

    /// Adds content that is not JSON of a known schema.
    pub(crate) fn add_text_response(&mut self, content_type: &'static str) {
        self.answers.push((StatusCode::OK, Content::Text(content_type)));
    }

    /// Adds server-sent events with this data.
    pub(crate) fn add_event_stream<T: JsonSchema>(&mut self) {
        self.answers.push((StatusCode::OK, Content::Events(schema_of::<T>)));
    }
}

/// One argument of a handler.
pub(crate) trait ArgumentSchema {
    /// Adds its part to the shape.
    fn describe(shape: &mut Shape);
}

/// A response of a handler.
pub(crate) trait Reply {
    /// Adds its part to the shape.
    fn describe(shape: &mut Shape);
}

macro_rules! parts {
    ($($part:ty => $($refusal:ident),*;)*) => {$(
        impl ArgumentSchema for $part {
            fn describe(shape: &mut Shape) {
                shape.refusals.extend::<[StatusCode; _]>([$(StatusCode::$refusal),*]);
            }
        }
    )*};
}

parts! {
    State<App> =>;
    HeaderMap =>;
    MaybeTrace =>;
    CurrentCaller => UNAUTHORIZED, TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE;
    Call => UNAUTHORIZED, TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE;
    JobPath => NOT_FOUND;
    WorkerPath => NOT_FOUND;
    KeyPath => NOT_FOUND;
    NamePath => NOT_FOUND, UNPROCESSABLE_ENTITY;
    QueuePath => NOT_FOUND, UNPROCESSABLE_ENTITY;
    TypePath => NOT_FOUND, UNPROCESSABLE_ENTITY;
    TenantPath => NOT_FOUND, UNPROCESSABLE_ENTITY;
    SchedulePath => NOT_FOUND, UNPROCESSABLE_ENTITY;
    AlertPath => NOT_FOUND, UNPROCESSABLE_ENTITY;
}

impl<T> ArgumentSchema for Extension<T> {
    fn describe(_: &mut Shape) {}
}

impl<T: JsonSchema> ArgumentSchema for Query<T> {
    fn describe(shape: &mut Shape) {
        shape.query = Some(schema_of::<T>);
        shape.refusals.push(StatusCode::UNPROCESSABLE_ENTITY);
    }
}

impl<T: JsonSchema> ArgumentSchema for Body<T> {
    fn describe(shape: &mut Shape) {
        shape.body = Some(schema_of::<T>);
        shape.refusals.extend([
            StatusCode::BAD_REQUEST,
            StatusCode::REQUEST_TIMEOUT,
            StatusCode::PAYLOAD_TOO_LARGE,
            StatusCode::UNPROCESSABLE_ENTITY,
        ]);
    }
}

/// A handler whose signature defines its shape.
pub(crate) trait Describe<Arguments> {
    fn shape() -> Shape;
}

macro_rules! described {
    ($($argument:ident),*) => {
        impl<F, Answer, R, $($argument),*> Describe<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Answer,
            Answer: Future<Output = Result<R, ApiError>>,
            R: Reply,
            $($argument: ArgumentSchema,)*
        {
            fn shape() -> Shape {
                let mut shape = Shape::default();
                $($argument::describe(&mut shape);)*
                R::describe(&mut shape);
                shape
            }
        }
    };
}

described!();
described!(A);
described!(A, B);
described!(A, B, C);
described!(A, B, C, D);
described!(A, B, C, D, E);
described!(A, B, C, D, E, G);
