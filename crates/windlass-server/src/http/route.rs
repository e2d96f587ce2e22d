//! A route, as needed by the router and by the OpenAPI document. Both are built from this, so that they cannot differ.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Extension, Router};

use super::app::App;
use super::openapi::query_names;
use super::request::access::Access;
use super::request::json::BytesMax;
use super::request::middleware::{RouteGuard, guard};
use super::routes::metrics::requests::RouteCounter;
use super::schema::{Describe, Shape};
use crate::limits;

/// A route.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Below the prefix; `{id}` is a parameter.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// Its request and response.
    pub(crate) shape: Shape,
    /// Whether it is at the root and not below `/api`.
    pub(crate) is_at_root: bool,
    /// Who may use it.
    pub(crate) access: Access,
    /// Whether its effect is undone if its response is not sent.
    is_undone_unsent: bool,
    /// Whether a token of the job in its path may be used.
    takes_tokens: bool,
    bytes_max: usize,
    handler: MethodRouter<App>,
    counter: Arc<RouteCounter>,
}

/// A route for this method.
pub(crate) fn route<H, M, A>(
    method: Method,
    path: &'static str,
    access: Access,
    handler: H,
    summary: &'static str,
) -> Route
where
    H: Handler<M, App> + Describe<A>,
    M: 'static,
{
    let filter = MethodFilter::try_from(method.clone()).expect("only these methods are used");
    Route {
        counter: Arc::new(RouteCounter::new(method.clone(), path)),
        method,
        path,
        summary,
        shape: H::shape(),
        is_at_root: false,
        access,
        is_undone_unsent: false,
        takes_tokens: false,
        bytes_max: limits::BODY_BYTES_SMALL,
        handler: on(filter, handler),
    }
}

impl Route {
    /// May return a conflict with the current state.
    pub(crate) fn conflicts(mut self) -> Route {
        self.shape.refusals.push(StatusCode::CONFLICT);
        self
    }

    /// May return 404 for objects named in its body.
    pub(crate) fn names(mut self) -> Route {
        self.shape.refusals.push(StatusCode::NOT_FOUND);
        self
    }

    /// May return 503 as its regular response.
    pub(crate) fn unready(mut self) -> Route {
        self.shape.refusals.push(StatusCode::SERVICE_UNAVAILABLE);
        self
    }

    /// Its effect is undone if its response is not sent, so that the response may be replaced by an error.
    pub(crate) fn undone_unsent(self) -> Route {
        Route { is_undone_unsent: true, ..self }
    }

    /// Can be read with a token of the job in its path.
    pub(crate) fn for_tokens(self) -> Route {
        Route { takes_tokens: true, ..self }
    }

    /// Sets the maximum body size.
    pub(crate) fn body_max(self, bytes_max: usize) -> Route {
        Route { bytes_max, ..self }
    }

    /// Is at the root and not below `/api`.
    pub(crate) fn at_root(self) -> Route {
        Route { is_at_root: true, ..self }
    }

    /// Whether its path names a job: the store first checks whether the caller may see the job.
    fn names_job(&self) -> bool {
        self.path.starts_with("/jobs/{id}")
    }

    /// All error statuses it may return, each once.
    pub(crate) fn refusals(&self) -> Vec<StatusCode> {
        let mut all = self.shape.refusals.clone();
        // Every route rejects cross-site requests and unknown parameters.
        all.extend([StatusCode::FORBIDDEN, StatusCode::UNPROCESSABLE_ENTITY]);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Its counter.
    pub(crate) fn counter(&self) -> Arc<RouteCounter> {
        self.counter.clone()
    }

    /// Adds it to a router.
    pub(crate) fn mount(self, router: Router<App>, app: &App) -> Router<App> {
        let names_job = self.names_job();
        let parameters = self.shape.query.map(query_names).unwrap_or_default().into();
        let may_refuse = self.method.is_safe() || self.is_undone_unsent;
        let (app, counter, access) = (app.clone(), self.counter, self.access);
        let takes_tokens = self.takes_tokens;
        let gate = RouteGuard { app, counter, access, names_job, takes_tokens, may_refuse, parameters };
        let handler = self.handler.layer(Extension(BytesMax(self.bytes_max)));
        let handler = handler.layer(from_fn_with_state(gate, guard));
        if self.is_at_root {
            return router.route(self.path, handler);
        }
        let router = router.route(&format!("/api/v1{}", self.path), handler.clone());
        router.route(&format!("/api{}", self.path), handler)
    }
}
