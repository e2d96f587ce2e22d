//! What a handler takes and answers, read off its own signature: so the published description says what the code does.

use std::future::Future;

use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::app::App;
use super::reply::error::ApiError;
use super::reply::trace::MaybeTrace;
use super::request::auth::CurrentCaller;
use super::request::json::Body;
use super::request::path::{
    JobPath, KeyPath, NamePath, QueuePath, SchedulePath, TenantPath, TypePath, WorkerPath,
};
use super::request::query::Query;

/// How the schema of a type is made.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// What an answer holds.
#[derive(Clone, Copy)]
pub(crate) enum Content {
    /// JSON of this shape.
    Json(SchemaOf),
    /// Something else.
    Text(&'static str),
    /// Nothing.
    Nothing,
}

/// What a handler takes and answers.
#[derive(Default)]
pub(crate) struct Shape {
    /// Its parameters behind the question mark.
    pub(crate) query: Option<SchemaOf>,
    /// Its body.
    pub(crate) body: Option<SchemaOf>,
    /// What it answers when all is well.
    pub(crate) answers: Vec<(StatusCode, Content)>,
    /// What it may refuse with.
    pub(crate) refusals: Vec<StatusCode>,
    /// The headers it looks at, each with what it does.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// Whether what it answers carries an `ETag`.
    pub(crate) is_tagged: bool,
}

impl Shape {
    /// JSON with this status.
    pub(crate) fn gives<T: JsonSchema>(&mut self, status: StatusCode) {
        self.answers.push((status, Content::Json(schema_of::<T>)));
    }

    /// This status alone.
    pub(crate) fn gives_nothing(&mut self, status: StatusCode) {
        self.answers.push((status, Content::Nothing));
    }

    /// Something that is not JSON of a known shape.
    pub(crate) fn gives_text(&mut self, content_type: &'static str) {
        self.answers.push((StatusCode::OK, Content::Text(content_type)));
    }
}

/// One argument of a handler.
pub(crate) trait Part {
    /// Adds what it means for the route.
    fn describe(shape: &mut Shape);
}

/// What a handler answers.
pub(crate) trait Reply {
    /// Adds what it means for the route.
    fn describe(shape: &mut Shape);
}

macro_rules! parts {
    ($($part:ty => $($refusal:ident),*;)*) => {$(
        impl Part for $part {
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
    JobPath => NOT_FOUND;
    WorkerPath => NOT_FOUND;
    KeyPath => NOT_FOUND;
    NamePath => NOT_FOUND, UNPROCESSABLE_ENTITY;
    QueuePath => NOT_FOUND, UNPROCESSABLE_ENTITY;
    TypePath => NOT_FOUND, UNPROCESSABLE_ENTITY;
    TenantPath => NOT_FOUND, UNPROCESSABLE_ENTITY;
    SchedulePath => NOT_FOUND, UNPROCESSABLE_ENTITY;
}

impl<T> Part for Extension<T> {
    fn describe(_: &mut Shape) {}
}

impl<T: JsonSchema> Part for Query<T> {
    fn describe(shape: &mut Shape) {
        shape.query = Some(schema_of::<T>);
        shape.refusals.push(StatusCode::UNPROCESSABLE_ENTITY);
    }
}

impl<T: JsonSchema> Part for Body<T> {
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

/// A handler whose signature describes it.
pub(crate) trait Described<Arguments> {
    /// What it takes and answers.
    fn shape() -> Shape;
}

macro_rules! described {
    ($($argument:ident),*) => {
        impl<F, Answer, R, $($argument),*> Described<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Answer,
            Answer: Future<Output = Result<R, ApiError>>,
            R: Reply,
            $($argument: Part,)*
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
