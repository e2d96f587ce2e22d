//! The HTTP API: the table of all routes. Handlers are thin: they decode, call the store, and encode.

mod app;
mod aside;
mod dev;
mod mcp;
mod openapi;
mod reference;
mod reply;
pub(crate) mod request;
mod route;
mod routes;
mod schema;

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use tower::ServiceExt;
use windlass::store::caller::Permission;
pub(crate) use windlass_api::time::Span;

pub use self::app::{App, StorePlace};
use self::reply::error::ApiError;
pub(crate) use self::reply::trace::trace_of;
use self::request::access::Access;
pub(crate) use self::request::drain_body::is_slow;
pub(crate) use self::request::json::decode;
use self::request::middleware::stamp;
pub(crate) use self::request::middleware::unreadable;
use self::route::{Route, route};
use crate::dashboard;
use crate::limits::BODY_BYTES_LARGE as LARGE;

const GET: Method = Method::GET;
const PUT: Method = Method::PUT;
const POST: Method = Method::POST;
const PATCH: Method = Method::PATCH;
const DELETE: Method = Method::DELETE;

const OPEN: Access = Access::Open;
const VIEW: Access = Access::View;
const SUBMIT: Access = Access::May(Permission::Submit);
const MANAGE: Access = Access::May(Permission::ManageJob);
const READ_PAYLOAD: Access = Access::May(Permission::ReadPayload);
const WORK: Access = Access::May(Permission::Work);
const PAUSE: Access = Access::May(Permission::Pause);
const CONFIGURE: Access = Access::May(Permission::Configure);
const SCHEDULE: Access = Access::May(Permission::Schedule);
const ADMINISTER: Access = Access::May(Permission::Administer);

/// All routes: method, path, required permission, handler and summary. The handler's signature defines request and
/// response. Routes are below `/api/v1` and `/api`, except those at the root.
fn routes(single: usize) -> Vec<Route> {
    let mut all = job_routes(single);
    all.extend(operation_routes(single));
    all
}

/// Routes for submitters and workers; `single` is the maximum size of a body with one payload.
#[rustfmt::skip]
fn job_routes(single: usize) -> Vec<Route> {
    use routes::jobs::{self, actions, bulk, details, graph, stream};
    use routes::worker_protocol;
    vec![
        route(POST,   "/jobs",                          SUBMIT,       jobs::submit,                         "Submit a job").body_max(single).conflicts(),
        route(GET,    "/jobs",                          VIEW,         jobs::list,                           "List jobs"),
        route(POST,   "/jobs/batch",                    SUBMIT,       jobs::submit_batch,                   "Submit jobs, all or none").body_max(LARGE).conflicts(),
        route(POST,   "/jobs/bulk",                     MANAGE,       bulk::bulk,                           "Act on all jobs that match a filter"),
        route(GET,    "/jobs/{id}",                     VIEW,         jobs::get,                            "Get a job, or wait until it is final").for_tokens(),
        route(PATCH,  "/jobs/{id}",                     MANAGE,       actions::patch,                       "Change a job's tags and other metadata").conflicts(),
        route(DELETE, "/jobs/{id}",                     MANAGE,       jobs::delete,                         "Delete a final job").conflicts(),
        route(POST,   "/jobs/{id}/submit",              MANAGE,       actions::submit,                      "Submit a held job").conflicts(),
        route(POST,   "/jobs/{id}/suspend",             MANAGE,       actions::suspend,                     "Suspend a job").conflicts(),
        route(POST,   "/jobs/{id}/resume",              MANAGE,       actions::resume,                      "Resume a suspended job").conflicts(),
        route(POST,   "/jobs/{id}/cancel",              MANAGE,       actions::cancel,                      "Cancel a job").conflicts(),
        route(POST,   "/jobs/{id}/priority",            MANAGE,       actions::priority,                    "Change a job's priority").conflicts(),
        route(POST,   "/jobs/{id}/redrive",             MANAGE,       actions::redrive,                     "Retry a final job as a new job").body_max(single).conflicts(),
        route(POST,   "/jobs/{id}/signals/{name}",      MANAGE,       actions::signal,                      "Send a signal to a job").body_max(single).conflicts(),
        route(GET,    "/jobs/{id}/attempts",            VIEW,         details::attempts,                    "List a job's attempts"),
        route(GET,    "/jobs/{id}/checkpoints",         READ_PAYLOAD, details::checkpoints,                 "List a job's checkpoints"),
        route(GET,    "/jobs/{id}/events",              VIEW,         details::events,                      "List a job's events"),
        route(GET,    "/jobs/{id}/children",            VIEW,         details::children,                    "List a job's children"),
        route(GET,    "/jobs/{id}/logs",                READ_PAYLOAD, details::logs,                        "Read a job's log"),
        route(GET,    "/jobs/{id}/stream",              READ_PAYLOAD, stream::read,                         "Read a job's partial output, or follow it").for_tokens(),
        route(GET,    "/jobs/{id}/result",              READ_PAYLOAD, details::result,                      "Get a job's result").for_tokens(),
        route(GET,    "/jobs/{id}/graph",               VIEW,         graph::graph,                         "Get the graph of related jobs"),
        route(POST,   "/jobs/{id}/tokens",              VIEW,         details::token,                       "Make a token that reads this job"),
        route(GET,    "/jobs/{id}/explain",             VIEW,         details::explain,                     "List the reasons why a job is not running"),

        route(POST,   "/workers",                       WORK,         worker_protocol::register,            "Register a worker"),
        route(DELETE, "/workers/{id}",                  WORK,         worker_protocol::leave,               "Deregister a worker; its jobs are released"),
        route(POST,   "/claims",                        WORK,         worker_protocol::claim,               "Claim jobs, optionally waiting for some").names().undone_unsent(),
        route(POST,   "/heartbeats",                    WORK,         worker_protocol::heartbeat,           "Send heartbeats").body_max(LARGE).names(),
        route(POST,   "/outcomes",                      WORK,         worker_protocol::outcomes,            "Report the outcomes of attempts").body_max(LARGE).names(),
        route(POST,   "/checkpoints",                   WORK,         worker_protocol::checkpoints_of_jobs, "Save checkpoints, progress and log lines of several jobs").body_max(LARGE).names().conflicts(),
        route(PUT,    "/jobs/{id}/checkpoints/{name}",  WORK,         worker_protocol::checkpoint,          "Save a checkpoint").body_max(single).conflicts(),
        route(POST,   "/jobs/{id}/checkpoints",         WORK,         worker_protocol::checkpoints,         "Save checkpoints, progress and log lines together").body_max(LARGE).conflicts(),
        route(POST,   "/jobs/{id}/stream",              WORK,         worker_protocol::stream,              "Add to the partial output of a running job").body_max(LARGE).conflicts(),
        route(POST,   "/jobs/{id}/children",            WORK,         worker_protocol::children,            "Spawn children, and wait for them or not").body_max(LARGE).conflicts(),
    ]
}

/// Routes for operators and monitoring.
#[rustfmt::skip]
fn operation_routes(single: usize) -> Vec<Route> {
    use routes::{
        alerts, audit, clock, events, gate, health, history, keys, metrics, queues, retention, schedules, stats, tenants, types, workers,
    };
    vec![
        route(GET,    "/queues",                        VIEW,         queues::list,                         "List queues"),
        route(GET,    "/queues/{queue}",                VIEW,         queues::get,                          "Get a queue"),
        route(PUT,    "/queues/{queue}",                CONFIGURE,    queues::put,                          "Change a queue's settings"),
        route(POST,   "/queues/{queue}/pause",          PAUSE,        queues::pause,                        "Pause a queue").conflicts(),
        route(POST,   "/queues/{queue}/resume",         PAUSE,        queues::resume,                       "Resume a queue").conflicts(),
        route(GET,    "/workers",                       VIEW,         workers::workers,                     "List workers"),
        route(POST,   "/workers/{id}/pause",            PAUSE,        workers::pause_worker,                "Pause a worker").conflicts(),
        route(POST,   "/workers/{id}/resume",           PAUSE,        workers::resume_worker,               "Resume a worker").conflicts(),
        route(GET,    "/gate",                          VIEW,         gate::gate,                           "Get whether processing is paused"),
        route(POST,   "/gate/offline",                  PAUSE,        gate::close,                          "Pause processing of all jobs, of a tenant or of a type").conflicts(),
        route(POST,   "/gate/online",                   PAUSE,        gate::open,                           "Resume processing").conflicts(),
        route(GET,    "/clock",                         VIEW,         clock::clock,                         "Compare store time with the wall clock"),
        route(POST,   "/clock/accept",                  ADMINISTER,   clock::accept,                        "Accept a wall clock that jumped"),
        route(GET,    "/retention",                     VIEW,         retention::get,                       "Get how long final jobs are kept"),
        route(PUT,    "/retention",                     ADMINISTER,   retention::put,                       "Change how long final jobs are kept"),
        route(GET,    "/tenants",                       VIEW,         tenants::list,                        "List tenants"),
        route(GET,    "/tenants/{tenant}",              VIEW,         tenants::get,                         "Get a tenant"),
        route(PUT,    "/tenants/{tenant}",              ADMINISTER,   tenants::put,                         "Change a tenant's settings"),
        route(GET,    "/types",                         VIEW,         types::list,                          "List types"),
        route(GET,    "/types/{type}",                  VIEW,         types::get,                           "Get a type"),
        route(PUT,    "/types/{type}",                  ADMINISTER,   types::put,                           "Change a type's settings"),
        route(GET,    "/schedules",                     VIEW,         schedules::list,                      "List schedules"),
        route(GET,    "/schedules/{schedule}",          VIEW,         schedules::get,                       "Get a schedule"),
        route(PUT,    "/schedules/{schedule}",          SCHEDULE,     schedules::put,                       "Create or replace a schedule").body_max(single),
        route(DELETE, "/schedules/{schedule}",          SCHEDULE,     schedules::delete,                    "Delete a schedule"),
        route(POST,   "/schedules/{schedule}/restore",  SCHEDULE,     schedules::restore,                   "Create a deleted schedule again").conflicts(),
        route(POST,   "/schedules/{schedule}/pause",    SCHEDULE,     schedules::pause,                     "Pause a schedule").conflicts(),
        route(POST,   "/schedules/{schedule}/resume",   SCHEDULE,     schedules::resume,                    "Resume a schedule").conflicts(),
        route(POST,   "/schedules/{schedule}/trigger",  SCHEDULE,     schedules::trigger,                   "Submit a schedule's job now").conflicts(),
        route(GET,    "/alerts",                        VIEW,         alerts::list,                         "List alerts"),
        route(GET,    "/alerts/{alert}",                VIEW,         alerts::get,                          "Get an alert"),
        route(PUT,    "/alerts/{alert}",                CONFIGURE,    alerts::put,                          "Create or replace an alert"),
        route(DELETE, "/alerts/{alert}",                CONFIGURE,    alerts::delete,                       "Delete an alert"),
        route(POST,   "/alerts/{alert}/pause",          CONFIGURE,    alerts::pause,                        "Pause an alert").conflicts(),
        route(POST,   "/alerts/{alert}/resume",         CONFIGURE,    alerts::resume,                       "Resume an alert").conflicts(),
        route(POST,   "/alerts/{alert}/test",           CONFIGURE,    alerts::test,                         "Send a sample of an alert's messages").conflicts(),
        route(GET,    "/keys",                          ADMINISTER,   keys::list,                           "List API keys"),
        route(POST,   "/keys",                          ADMINISTER,   keys::create,                         "Create an API key"),
        route(DELETE, "/keys/{id}",                     ADMINISTER,   keys::revoke,                         "Revoke an API key").conflicts(),
        route(GET,    "/stats",                         VIEW,         stats::stats,                         "Get counts, rates and costs"),
        route(GET,    "/stats/history",                 VIEW,         history::history,                     "Get rates, queue depth and latency over time"),
        route(GET,    "/audit",                         VIEW,         audit::records,                       "List audit records"),
        route(GET,    "/audit/head",                    ADMINISTER,   audit::head,                          "Get the newest seal of the audit trail"),
        route(GET,    "/events",                        VIEW,         events::stream,                       "Stream events"),

        route(GET,    "/healthz",                       OPEN,         health::alive,                        "Check that the process is alive").at_root(),
        route(GET,    "/readyz",                        OPEN,         health::ready,                        "Check that the store can be reached").at_root().unready(),
        route(GET,    "/metrics",                       VIEW,         metrics::metrics,                     "Metrics for Prometheus").at_root(),
        route(GET,    "/openapi.json",                  OPEN,         openapi::document,                    "This description").at_root(),
        route(GET,    "/docs/api",                      OPEN,         reference::reference,                 "This description as a web page").at_root(),
    ]
}

/// Routes of a server for development only.
#[rustfmt::skip]
fn dev_routes() -> Vec<Route> {
    vec![
        route(GET,    "/dev/clock",                     VIEW,         dev::clock,                           "Get the time").at_root(),
        route(POST,   "/dev/advance",                   ADMINISTER,   dev::advance,                         "Move the clock forward").at_root(),
        route(POST,   "/dev/crash",                     ADMINISTER,   dev::crash,                           "End the leases of workers").at_root().names(),
        route(POST,   "/dev/reset",                     ADMINISTER,   dev::reset,                           "Delete all jobs, schedules and workers").at_root(),
    ]
}

/// The route of the Model Context Protocol. It is not part of the HTTP API, so `/openapi.json` does not describe it.
#[rustfmt::skip]
fn mcp_routes(single: usize) -> Vec<Route> {
    vec![
        route(POST,   "/mcp",                           VIEW,         mcp::mcp,                             "Tools for agents").at_root().body_max(single),
    ]
}

/// The whole router: the routes above and the dashboard. `is_secure` says that browsers connect over TLS.
pub(crate) fn router(app: App, is_secure: bool) -> Router {
    let single = single_bytes_max(&app);
    let routes = routes(single);
    app.set_counters(routes.iter().map(Route::counter).collect());
    let description = openapi::describe(&routes);
    let reference = reference::Reference::new(&description);
    app.set_documents(description.to_string(), reference);
    // Not in `/openapi.json`: only `windlass dev` serves these routes.
    let dev = if app.dev().is_some() { dev_routes() } else { Vec::new() };
    let mount = |routes: Vec<Route>| {
        let mounted = routes.into_iter().fold(Router::new(), |router, route| route.mount(router, &app));
        mounted.with_state(app.clone())
    };
    let api: Router = mount(routes);
    // Not in the state of the app, which the routes hold: neither would ever be freed.
    let mcp = mount(mcp_routes(single)).layer(Extension(mcp::Api(api.clone())));
    let (pages, no_such_page) = dashboard::routers(app.clone(), is_secure);
    api.merge(mount(dev))
        .merge(mcp)
        .merge(pages)
        .merge(crate::guides::routes::router())
        .fallback(move |request| no_such_path(no_such_page, request))
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn(reply::compress::compress))
        .layer(from_fn_with_state(app.clone(), request::cors::cors))
        .layer(from_fn_with_state((app, is_secure), stamp))
        .layer(from_fn(request::drain_body::discard))
}

/// Maximum size of a request body with one payload: the payload in base64 and the other fields.
fn single_bytes_max(app: &App) -> usize {
    app.store().environment().options.payload_bytes_max * 2 + crate::limits::ENVELOPE_BYTES
}

/// A page for a browser, an error of the API for other clients.
async fn no_such_path(no_such_page: Router, request: Request) -> Response {
    let is_read = [Method::GET, Method::HEAD].contains(request.method());
    let first = request.uri().path().split('/').nth(1).unwrap_or_default();
    if is_read && prefers_pages(request.headers()) && !["api", "assets"].contains(&first) {
        return no_such_page.oneshot(request).await.into_response();
    }
    ApiError::not_found("no such path").into_response()
}

/// Whether a client asks for pages first, as browsers do.
fn prefers_pages(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut kinds = accepted.split([',', ';']);
    kinds.next().is_some_and(|first| first.trim().eq_ignore_ascii_case("text/html"))
        && !accepted.to_ascii_lowercase().contains("application/json")
}

async fn no_such_method() -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "this path does not support this method",
    )
}
