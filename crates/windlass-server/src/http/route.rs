//! One route: what the router needs to know of it, and what the published description says about it. Both are made from
//! this, so that they cannot differ.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::app::App;
use super::guard::{Gate, guard};
use super::json::BytesMax;
use super::metrics::RouteCounter;
use crate::limits;

/// How the schema of a type is made.
pub(crate) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// One route.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Below the prefix; `{id}` and its like are parameters.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) query: Option<SchemaOf>,
    pub(crate) body: Option<SchemaOf>,
    /// What it answers when all is well: status, and the shape if it has one.
    pub(crate) answers: Vec<(u16, Option<SchemaOf>)>,
    /// Refusals of its own, beside those that any route has.
    pub(crate) refusals: Vec<u16>,
    /// Whether it is at the root and not below `/api`.
    pub(crate) is_at_root: bool,
    /// Whether it answers without a key.
    pub(crate) is_open: bool,
    /// What its answer is, unless it is JSON.
    pub(crate) content_type: &'static str,
    bytes_max: usize,
    handler: MethodRouter<App>,
    counter: Arc<RouteCounter>,
}

/// A route for this method.
pub(crate) fn route<H, T>(method: Method, path: &'static str, handler: H, summary: &'static str) -> Route
where
    H: Handler<T, App>,
    T: 'static,
{
    let filter = MethodFilter::try_from(method.clone()).expect("only plain methods are routed");
    let word = match method {
        Method::GET => "GET",
        Method::PUT => "PUT",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        _ => "DELETE",
    };
    Route {
        method,
        path,
        summary,
        query: None,
        body: None,
        answers: Vec::new(),
        refusals: Vec::new(),
        is_at_root: false,
        is_open: false,
        content_type: "application/json",
        bytes_max: limits::BODY_BYTES_SMALL,
        handler: on(filter, handler),
        counter: Arc::new(RouteCounter::new(word, path)),
    }
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl Route {
    /// Its parameters behind the question mark.
    pub(crate) fn query<T: JsonSchema>(self) -> Route {
        Route { query: Some(schema_of::<T>), ..self }
    }

    /// Its body.
    pub(crate) fn takes<T: JsonSchema>(self) -> Route {
        Route { body: Some(schema_of::<T>), ..self }
    }

    /// What it answers.
    pub(crate) fn gives<T: JsonSchema>(mut self, status: u16) -> Route {
        self.answers.push((status, Some(schema_of::<T>)));
        self
    }

    /// It answers with a status alone.
    pub(crate) fn gives_nothing(mut self, status: u16) -> Route {
        self.answers.push((status, None));
        self
    }

    /// It answers with something that is not JSON.
    pub(crate) fn gives_text(mut self, content_type: &'static str) -> Route {
        self.answers.push((200, None));
        Route { content_type, ..self }
    }

    /// Refusals of its own.
    pub(crate) fn refuses(mut self, statuses: &[u16]) -> Route {
        self.refusals.extend_from_slice(statuses);
        self
    }

    /// Its body carries a payload.
    pub(crate) fn large(self, bytes_max: usize) -> Route {
        Route { bytes_max, ..self }
    }

    /// It is at the root and not below `/api`.
    pub(crate) fn at_root(self) -> Route {
        Route { is_at_root: true, ..self }
    }

    /// It answers without a key.
    pub(crate) fn open(self) -> Route {
        Route { is_open: true, ..self }
    }

    /// Every refusal it may answer with.
    pub(crate) fn all_refusals(&self) -> Vec<u16> {
        let mut all = vec![403];
        if !self.is_open {
            all.extend([401, 429, 503]);
        }
        if self.body.is_some() {
            all.extend([400, 408, 413, 422]);
        }
        if self.query.is_some() || self.path.contains("{queue}") || self.path.contains("{name}") {
            all.push(422);
        }
        if self.path.contains("{id}") || self.path.contains("{name}") {
            all.push(404);
        }
        all.extend(&self.refusals);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// What was counted for it.
    pub(crate) fn counter(&self) -> Arc<RouteCounter> {
        self.counter.clone()
    }

    /// Adds it to a router.
    pub(crate) fn mount(self, router: Router<App>, app: &App) -> Router<App> {
        let gate = Gate { app: app.clone(), counter: self.counter, is_open: self.is_open };
        let handler = self.handler.layer(Extension(BytesMax(self.bytes_max)));
        let handler = handler.layer(from_fn_with_state(gate, guard));
        if self.is_at_root {
            return router.route(self.path, handler);
        }
        let router = router.route(&format!("/api/v1{}", self.path), handler.clone());
        router.route(&format!("/api{}", self.path), handler)
    }
}
