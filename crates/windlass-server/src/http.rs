//! The HTTP contract: every URL on one screen. Handlers are thin: they decode, ask the store, and encode.

mod app;
mod openapi;
mod reply;
pub(crate) mod request;
mod route;
mod routes;
mod schema;
mod wire;

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::middleware::{from_fn, from_fn_with_state};
use windlass::store::caller::Permission;

pub use self::app::{App, StorePlace};
use self::reply::error::ApiError;
pub(crate) use self::reply::trace::trace_of;
use self::request::access::Access;
pub(crate) use self::request::drain_body::is_slow;
use self::request::middleware::stamp;
pub(crate) use self::request::middleware::unreadable;
use self::route::{Route, route};
pub(crate) use self::wire::time::{Moment, Span};
use crate::dashboard;
use crate::limits::BODY_BYTES_LARGE as LARGE;

const GET: Method = Method::GET;
const PUT: Method = Method::PUT;
const POST: Method = Method::POST;
const PATCH: Method = Method::PATCH;
const DELETE: Method = Method::DELETE;

const OPEN: Access = Access::Open;
const LOOK: Access = Access::Look;
const SUBMIT: Access = Access::May(Permission::Submit);
const MANAGE: Access = Access::May(Permission::ManageJob);
const READ_PAYLOAD: Access = Access::May(Permission::ReadPayload);
const WORK: Access = Access::May(Permission::Work);
const PAUSE: Access = Access::May(Permission::Pause);
const CONFIGURE: Access = Access::May(Permission::Configure);
const SCHEDULE: Access = Access::May(Permission::Schedule);
const ADMINISTER: Access = Access::May(Permission::Administer);

/// Every route there is: method, path, who may use it, handler, and what it is for. What each takes and answers is in its
/// signature. All but those at the root answer below `/api/v1` and `/api`.
fn routes(single: usize) -> Vec<Route> {
    let mut all = job_routes(single);
    all.extend(operation_routes(single));
    all
}

/// What submitters and workers use; `single` is how large a body with one payload may be.
#[rustfmt::skip]
fn job_routes(single: usize) -> Vec<Route> {
    use routes::jobs::{actions, bulk, details, graph};
    vec![
        route(POST,   "/jobs",                        SUBMIT,     routes::jobs::submit,         "Submit a job").body_max(single).conflicts(),
        route(GET,    "/jobs",                        LOOK,       routes::jobs::list,           "List jobs"),
        route(POST,   "/jobs/batch",                  SUBMIT,     routes::jobs::submit_batch,   "Submit jobs, all or none").body_max(LARGE).conflicts(),
        route(POST,   "/jobs/bulk",                   MANAGE,     bulk::bulk,           "JobAction on all jobs that fit"),
        route(GET,    "/jobs/{id}",                   LOOK,       routes::jobs::get,            "Look at a job, or wait for its end"),
        route(PATCH,  "/jobs/{id}",                   MANAGE,     actions::patch,           "Change what clients may change").conflicts(),
        route(DELETE, "/jobs/{id}",                   MANAGE,     routes::jobs::delete,         "Remove a final job").conflicts(),
        route(POST,   "/jobs/{id}/submit",            MANAGE,     actions::submit,          "Let go of a held job").conflicts(),
        route(POST,   "/jobs/{id}/suspend",           MANAGE,     actions::suspend,         "Hold a job").conflicts(),
        route(POST,   "/jobs/{id}/resume",            MANAGE,     actions::resume,          "Let go of a suspended job").conflicts(),
        route(POST,   "/jobs/{id}/cancel",            MANAGE,     actions::cancel,          "Do not run a job any more").conflicts(),
        route(POST,   "/jobs/{id}/priority",          MANAGE,     actions::priority,        "Change how urgent a job is").conflicts(),
        route(POST,   "/jobs/{id}/redrive",           MANAGE,     actions::redrive,         "Submit a final job again").conflicts(),
        route(POST,   "/jobs/{id}/signals/{name}",    MANAGE,     actions::signal,       "Send a signal to a job").body_max(single).conflicts(),
        route(GET,    "/jobs/{id}/attempts",          LOOK,       details::attempts,       "Every start of a job"),
        route(GET,    "/jobs/{id}/checkpoints",       READ_PAYLOAD, details::checkpoints,    "What a job saved"),
        route(GET,    "/jobs/{id}/events",            LOOK,       details::events,         "What happened to a job"),
        route(GET,    "/jobs/{id}/children",          LOOK,       details::children,       "What a job spawned"),
        route(GET,    "/jobs/{id}/logs",              READ_PAYLOAD, details::logs,           "What a job wrote to its log"),
        route(GET,    "/jobs/{id}/result",            READ_PAYLOAD, details::result,         "What a job came to"),
        route(GET,    "/jobs/{id}/graph",             LOOK,       graph::graph,         "Jobs that wait for each other"),
        route(GET,    "/jobs/{id}/explain",           LOOK,       details::explain,        "Every reason why a job does not run"),

        route(POST,   "/workers",                     WORK,       routes::work::register,       "Register a worker"),
        route(DELETE, "/workers/{id}",                WORK,       routes::work::leave,          "Leave; its jobs go back"),
        route(POST,   "/claims",                      WORK,       routes::work::claim,          "Claim jobs, waiting for some").names().undone_unsent(),
        route(POST,   "/heartbeats",                  WORK,       routes::work::heartbeat,      "Show that a worker lives").body_max(LARGE).names(),
        route(POST,   "/outcomes",                    WORK,       routes::work::outcomes,       "Report how attempts ended").body_max(LARGE).names(),
        route(PUT,    "/jobs/{id}/checkpoints/{name}", WORK,       routes::work::checkpoint, "Save a step").body_max(single).conflicts(),
        route(POST,   "/jobs/{id}/children",          WORK,       routes::work::children,       "Spawn children and wait for them").body_max(LARGE).conflicts(),
    ]
}

/// What operators and watchers use.
#[rustfmt::skip]
fn operation_routes(single: usize) -> Vec<Route> {
    vec![
        route(GET,    "/queues",                      LOOK,       routes::queues::list,         "Every queue"),
        route(GET,    "/queues/{queue}",              LOOK,       routes::queues::get,          "All about a queue"),
        route(PUT,    "/queues/{queue}",              CONFIGURE,  routes::queues::put,          "Change a queue's settings"),
        route(POST,   "/queues/{queue}/pause",        PAUSE,      routes::queues::pause,        "Start none of a queue's jobs").conflicts(),
        route(POST,   "/queues/{queue}/resume",       PAUSE,      routes::queues::resume,       "Start a queue's jobs again").conflicts(),
        route(GET,    "/workers",                     LOOK,       routes::operations::workers,     "Every worker"),
        route(POST,   "/workers/{id}/pause",          PAUSE,      routes::operations::pause_worker, "Give a worker nothing").conflicts(),
        route(POST,   "/workers/{id}/resume",         PAUSE,      routes::operations::resume_worker, "Give a worker jobs again").conflicts(),
        route(GET,    "/gate",                        LOOK,       routes::operations::gate,        "Whether anything starts"),
        route(POST,   "/gate/offline",                PAUSE,      routes::operations::close,       "Start nothing, of all, a tenant or a type").conflicts(),
        route(POST,   "/gate/online",                 PAUSE,      routes::operations::open,        "Start jobs again").conflicts(),
        route(GET,    "/clock",                       LOOK,       routes::clock::clock,         "How store time stands to the wall clock"),
        route(POST,   "/clock/accept",                ADMINISTER, routes::clock::accept,        "Believe the wall clock although it jumped"),
        route(GET,    "/retention",                   LOOK,       routes::retention::get,       "For how long jobs are kept"),
        route(PUT,    "/retention",                   ADMINISTER, routes::retention::put,       "Change for how long jobs are kept"),
        route(GET,    "/tenants",                     LOOK,       routes::tenants::list,        "Every tenant"),
        route(GET,    "/tenants/{tenant}",            LOOK,       routes::tenants::get,         "All about a tenant"),
        route(PUT,    "/tenants/{tenant}",            ADMINISTER, routes::tenants::put,         "Change a tenant's settings"),
        route(GET,    "/types",                       LOOK,       routes::types::list,          "Every type"),
        route(GET,    "/types/{type}",                LOOK,       routes::types::get,           "All about a type"),
        route(PUT,    "/types/{type}",                ADMINISTER, routes::types::put,           "Change a type's settings"),
        route(GET,    "/schedules",                   LOOK,       routes::schedules::list,      "Every schedule"),
        route(GET,    "/schedules/{schedule}",        LOOK,       routes::schedules::get,       "All about a schedule"),
        route(PUT,    "/schedules/{schedule}",        SCHEDULE,   routes::schedules::put,       "Put a schedule in place").body_max(single),
        route(DELETE, "/schedules/{schedule}",        SCHEDULE,   routes::schedules::delete,    "Remove a schedule"),
        route(POST,   "/schedules/{schedule}/pause",  SCHEDULE,   routes::schedules::pause,   "Leave out its runs").conflicts(),
        route(POST,   "/schedules/{schedule}/resume", SCHEDULE,   routes::schedules::resume,  "Run it again").conflicts(),
        route(POST,   "/schedules/{schedule}/trigger", SCHEDULE,   routes::schedules::trigger, "Submit its job now").conflicts(),
        route(GET,    "/keys",                        ADMINISTER, routes::keys::list,           "Every key"),
        route(POST,   "/keys",                        ADMINISTER, routes::keys::create,         "Make a key"),
        route(DELETE, "/keys/{id}",                   ADMINISTER, routes::keys::revoke,         "Make a key worthless").conflicts(),
        route(GET,    "/stats",                       LOOK,       routes::operations::stats,       "Counts, rates and costs"),
        route(GET,    "/audit",                       LOOK,       routes::audit::records,       "The audit trail"),
        route(GET,    "/audit/head",                  ADMINISTER, routes::audit::head,          "The newest seal of the audit trail"),
        route(GET,    "/events",                      LOOK,       routes::events::stream,       "Events as they happen"),

        route(GET,    "/healthz",                     OPEN,       routes::health::alive,        "Whether the process is alive").at_root(),
        route(GET,    "/readyz",                      OPEN,       routes::health::ready,        "Whether the store can be reached").at_root().unready(),
        route(GET,    "/metrics",                     LOOK,       routes::prometheus::metrics,  "Numbers for Prometheus").at_root(),
        route(GET,    "/openapi.json",                OPEN,       openapi::document,    "This description").at_root(),
        route(GET,    "/docs",                        OPEN,       openapi::reference,   "This description, for people").at_root(),
    ]
}

/// Everything that answers: the routes above, and the dashboard beside them. Browsers come over TLS if `is_secure`.
pub(crate) fn router(app: App, is_secure: bool) -> Router {
    let routes = routes(single_bytes_max(&app));
    app.set_counters(routes.iter().map(Route::counter).collect());
    let description = openapi::describe(&routes);
    let page = openapi::page(&description);
    app.set_documents(description.to_string(), page);
    let mounted = routes.into_iter().fold(Router::new(), |router, route| route.mount(router, &app));
    mounted
        .with_state(app.clone())
        .merge(dashboard::router(app.clone(), is_secure))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state((app, is_secure), stamp))
        .layer(from_fn(request::drain_body::discard))
}

/// How large the body of a request with one payload may be: the payload in base64, and everything around it.
fn single_bytes_max(app: &App) -> usize {
    app.store().environment().options.payload_bytes_max * 2 + crate::limits::ENVELOPE_BYTES
}

async fn no_such_path() -> ApiError {
    ApiError::not_found("nothing is at this path")
}

async fn no_such_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path has no such method")
}
