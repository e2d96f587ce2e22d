//! The HTTP contract: every URL on one screen. Handlers are thin: they decode, ask the store, and encode.

mod app;
mod audit;
pub(crate) mod auth;
mod code;
mod describe;
mod events;
mod guard;
mod health;
mod jobs;
mod json;
mod keys;
mod leftover;
mod metrics;
mod openapi;
mod operate;
mod path;
mod problem;
mod prometheus;
mod query;
mod queues;
mod rate;
mod reply;
mod route;
mod schedules;
mod store_metrics;
mod trace;
mod wire;
mod work;

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::middleware::{from_fn, from_fn_with_state};

pub use self::app::App;
use self::guard::stamp;
use self::problem::Problem;
use self::route::{Route, route};
pub(crate) use self::wire::time::{Moment, Span};
use crate::dashboard;
use crate::limits::BODY_BYTES_LARGE as LARGE;

const GET: Method = Method::GET;
const PUT: Method = Method::PUT;
const POST: Method = Method::POST;
const PATCH: Method = Method::PATCH;
const DELETE: Method = Method::DELETE;

/// Every route there is: method, path, handler, and what it is for. What each takes and answers is in its signature. All but
/// those at the root answer below `/api/v1` and `/api`.
fn routes(single: usize) -> Vec<Route> {
    let mut all = job_routes(single);
    all.extend(operation_routes(single));
    all
}

/// What submitters and workers use; `single` is how large a body with one payload may be.
#[rustfmt::skip]
fn job_routes(single: usize) -> Vec<Route> {
    use jobs::{act, bulk, look};
    vec![
        route(POST,   "/jobs",                  jobs::submit,         "Submit a job").takes(single).conflicts(),
        route(GET,    "/jobs",                  jobs::list,           "List jobs"),
        route(POST,   "/jobs/batch",            jobs::submit_batch,   "Submit jobs, all or none").takes(LARGE).conflicts(),
        route(POST,   "/jobs/bulk",             bulk::bulk,           "Act on all jobs that fit"),
        route(GET,    "/jobs/{id}",             jobs::get,            "Look at a job, or wait for its end"),
        route(PATCH,  "/jobs/{id}",             act::patch,           "Change what clients may change").conflicts(),
        route(DELETE, "/jobs/{id}",             jobs::delete,         "Remove a final job").conflicts(),
        route(POST,   "/jobs/{id}/submit",      act::submit,          "Let go of a held job").conflicts(),
        route(POST,   "/jobs/{id}/suspend",     act::suspend,         "Hold a job").conflicts(),
        route(POST,   "/jobs/{id}/resume",      act::resume,          "Let go of a suspended job").conflicts(),
        route(POST,   "/jobs/{id}/cancel",      act::cancel,          "Do not run a job any more").conflicts(),
        route(POST,   "/jobs/{id}/priority",    act::priority,        "Change how urgent a job is").conflicts(),
        route(POST,   "/jobs/{id}/redrive",     act::redrive,         "Submit a final job again").conflicts(),
        route(POST,   "/jobs/{id}/signals/{name}", act::signal,       "Send a signal to a job").takes(single).conflicts(),
        route(GET,    "/jobs/{id}/attempts",    look::attempts,       "Every start of a job"),
        route(GET,    "/jobs/{id}/checkpoints", look::checkpoints,    "What a job saved"),
        route(GET,    "/jobs/{id}/events",      look::events,         "What happened to a job"),
        route(GET,    "/jobs/{id}/children",    look::children,       "What a job spawned"),
        route(GET,    "/jobs/{id}/logs",        look::logs,           "What a job wrote to its log"),
        route(GET,    "/jobs/{id}/result",      look::result,         "What a job came to"),
        route(GET,    "/jobs/{id}/graph",       look::graph,          "Jobs that wait for each other"),
        route(GET,    "/jobs/{id}/explain",     look::explain,        "Every reason why a job does not run"),

        route(POST,   "/workers",               work::register,       "Register a worker"),
        route(DELETE, "/workers/{id}",          work::leave,          "Leave; its jobs go back"),
        route(POST,   "/claims",                work::claim,          "Claim jobs, waiting for some").names(),
        route(POST,   "/heartbeats",            work::heartbeat,      "Show that a worker lives").takes(LARGE).names(),
        route(POST,   "/outcomes",              work::outcomes,       "Report how attempts ended").takes(LARGE).names(),
        route(PUT,    "/jobs/{id}/checkpoints/{name}", work::checkpoint, "Save a step").takes(single).conflicts(),
        route(POST,   "/jobs/{id}/children",    work::children,       "Spawn children and wait for them").takes(LARGE).conflicts(),

    ]
}

/// What operators and watchers use.
#[rustfmt::skip]
fn operation_routes(single: usize) -> Vec<Route> {
    vec![
        route(GET,    "/queues",                queues::list,         "Every queue"),
        route(GET,    "/queues/{queue}",        queues::get,          "All about a queue"),
        route(PUT,    "/queues/{queue}",        queues::put,          "Change a queue's settings"),
        route(POST,   "/queues/{queue}/pause",  queues::pause,        "Start none of a queue's jobs").conflicts(),
        route(POST,   "/queues/{queue}/resume", queues::resume,       "Start a queue's jobs again").conflicts(),
        route(GET,    "/workers",               operate::workers,     "Every worker"),
        route(POST,   "/workers/{id}/pause",    operate::pause_worker, "Give a worker nothing").conflicts(),
        route(POST,   "/workers/{id}/resume",   operate::resume_worker, "Give a worker jobs again").conflicts(),
        route(GET,    "/gate",                  operate::gate,        "Whether anything starts"),
        route(POST,   "/gate/offline",          operate::close,       "Start nothing, of all, a tenant or a type").conflicts(),
        route(POST,   "/gate/online",           operate::open,        "Start jobs again").conflicts(),
        route(PUT,    "/tenants/{tenant}",      operate::put_tenant,  "Change a tenant's settings"),
        route(PUT,    "/types/{type}",          operate::put_type,    "Change a type's settings"),
        route(GET,    "/schedules",             schedules::list,      "Every schedule"),
        route(GET,    "/schedules/{schedule}",  schedules::get,       "All about a schedule"),
        route(PUT,    "/schedules/{schedule}",  schedules::put,       "Put a schedule in place").takes(single),
        route(DELETE, "/schedules/{schedule}",  schedules::delete,    "Remove a schedule"),
        route(POST,   "/schedules/{schedule}/pause",   schedules::pause,   "Leave out its runs").conflicts(),
        route(POST,   "/schedules/{schedule}/resume",  schedules::resume,  "Run it again").conflicts(),
        route(POST,   "/schedules/{schedule}/trigger", schedules::trigger, "Submit its job now").conflicts(),
        route(GET,    "/keys",                  keys::list,           "Every key"),
        route(POST,   "/keys",                  keys::create,         "Make a key"),
        route(DELETE, "/keys/{id}",             keys::revoke,         "Make a key worthless"),
        route(GET,    "/stats",                 operate::stats,       "Counts, rates and costs"),
        route(GET,    "/audit",                 audit::records,       "The audit trail"),
        route(GET,    "/events",                events::stream,       "Events as they happen"),

        route(GET,    "/healthz",               health::alive,        "Whether the process is alive").open(),
        route(GET,    "/readyz",                health::ready,        "Whether the store can be reached").open().unready(),
        route(GET,    "/metrics",               prometheus::metrics,  "Numbers for Prometheus").at_root(),
        route(GET,    "/openapi.json",          openapi::document,    "This description").open(),
        route(GET,    "/docs",                  openapi::reference,   "This description, for people").open(),
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
        .layer(from_fn_with_state(app, stamp))
        .layer(from_fn(leftover::discard))
}

/// How large the body of a request with one payload may be: the payload in base64, and everything around it.
fn single_bytes_max(app: &App) -> usize {
    app.store().environment().options.payload_bytes_max * 2 + crate::limits::ENVELOPE_BYTES
}

async fn no_such_path() -> Problem {
    Problem::not_found("nothing is at this path")
}

async fn no_such_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "this path has no such method")
}
