//! The HTTP contract: every URL on one screen. Handlers are thin: they decode, ask the store, and encode.

mod app;
mod audit;
pub(crate) mod auth;
mod guard;
mod health;
mod jobs;
mod json;
mod metrics;
mod path;
mod problem;
mod query;
mod route;
mod trace;
mod wire;
mod work;

use axum::Router;
use axum::http::{Method, StatusCode};
use axum::middleware::from_fn_with_state;

pub use self::app::App;
use self::guard::stamp;
use self::problem::Problem;
use self::route::{Route, route};
use self::wire::{claim, filter, job, outcome, record, side, submission};
use crate::limits::BODY_BYTES_LARGE as LARGE;

const GET: Method = Method::GET;
const PUT: Method = Method::PUT;
const POST: Method = Method::POST;
const PATCH: Method = Method::PATCH;
const DELETE: Method = Method::DELETE;

/// Every route there is. All but those at the root answer below `/api/v1` and `/api`.
#[rustfmt::skip]
fn routes(single: usize) -> Vec<Route> {
    use jobs::{act, bulk, look};
    type Strict = jobs::Strictness;
    vec![
        route(POST, "/jobs", jobs::submit, "Submit a job").large(single).query::<Strict>().takes::<submission::Submission>().gives::<job::SubmittedJob>(201).gives::<job::SubmittedJob>(200).refuses(&[409]),
        route(GET, "/jobs", jobs::list, "List jobs").query::<filter::ListQuery>().gives::<job::JobPage>(200),
        route(POST, "/jobs/batch", jobs::submit_batch, "Submit jobs, all or none").large(LARGE).query::<Strict>().takes::<submission::Batch>().gives::<job::SubmittedJobs>(201).refuses(&[409]),
        route(POST, "/jobs/bulk", bulk::bulk, "Act on all jobs that fit").takes::<bulk::BulkBody>().gives::<bulk::BulkAnswer>(200),
        route(GET, "/jobs/{id}", jobs::get, "Look at a job, or wait for its end").query::<jobs::LookQuery>().gives::<job::JobView>(200),
        route(PATCH, "/jobs/{id}", act::patch, "Change what clients may change").takes::<act::PatchBody>().gives::<job::ActedJob>(200).refuses(&[409]),
        route(DELETE, "/jobs/{id}", jobs::delete, "Remove a final job").gives_nothing(204).refuses(&[409]),
        route(POST, "/jobs/{id}/submit", act::submit, "Let go of a held job").takes::<act::Nothing>().gives::<job::ActedJob>(200).refuses(&[409]),
        route(POST, "/jobs/{id}/suspend", act::suspend, "Hold a job").query::<Strict>().takes::<act::SuspendBody>().gives::<job::ActedJob>(200).refuses(&[409]),
        route(POST, "/jobs/{id}/resume", act::resume, "Let go of a suspended job").query::<Strict>().takes::<act::ReasonBody>().gives::<job::ActedJob>(200).refuses(&[409]),
        route(POST, "/jobs/{id}/cancel", act::cancel, "Do not run a job any more").takes::<act::ReasonBody>().gives::<job::ActedJob>(200).refuses(&[409]),
        route(POST, "/jobs/{id}/priority", act::priority, "Change how urgent a job is").takes::<act::PriorityBody>().gives::<job::ActedJob>(200).refuses(&[409]),
        route(POST, "/jobs/{id}/redrive", act::redrive, "Submit a final job again").takes::<act::RedriveBody>().gives::<job::JobView>(201).refuses(&[409]),
        route(POST, "/jobs/{id}/signals/{name}", act::signal, "Send a signal to a job").large(single).takes::<act::SignalBody>().gives::<act::SignalTaken>(202).refuses(&[409]),
        route(GET, "/jobs/{id}/attempts", look::attempts, "Every start of a job").gives::<side::Attempts>(200),
        route(GET, "/jobs/{id}/checkpoints", look::checkpoints, "What a job saved").gives::<side::Checkpoints>(200),
        route(GET, "/jobs/{id}/events", look::events, "What happened to a job").query::<look::EventsQuery>().gives::<record::JobEvents>(200),
        route(GET, "/jobs/{id}/children", look::children, "What a job spawned").gives::<side::Children>(200),
        route(GET, "/jobs/{id}/logs", look::logs, "What a job wrote to its log").query::<look::LogsQuery>().gives::<side::Logs>(200),
        route(GET, "/jobs/{id}/result", look::result, "What a job came to").gives::<side::ResultView>(200),
        route(GET, "/jobs/{id}/graph", look::graph, "Jobs that wait for each other").gives::<side::Graph>(200),
        route(GET, "/jobs/{id}/explain", look::explain, "Every reason why a job does not run").gives::<side::Reasons>(200),

        route(POST, "/workers", work::register, "Register a worker").takes::<claim::WorkerBody>().gives::<claim::Registered>(201),
        route(DELETE, "/workers/{id}", work::leave, "Leave; its jobs go back").gives_nothing(204),
        route(POST, "/claims", work::claim, "Claim jobs, waiting for some").takes::<claim::ClaimBody>().gives::<claim::ClaimView>(200).refuses(&[404]),
        route(POST, "/heartbeats", work::heartbeat, "Show that a worker lives").large(LARGE).takes::<claim::HeartbeatBody>().gives::<claim::HeartbeatView>(200).refuses(&[404]),
        route(POST, "/outcomes", work::outcomes, "Report how attempts ended").large(LARGE).takes::<outcome::OutcomesBody>().gives::<outcome::OutcomesView>(200).refuses(&[404]),
        route(PUT, "/jobs/{id}/checkpoints/{name}", work::checkpoint, "Save a step").large(single).takes::<work::CheckpointBody>().gives_nothing(204).refuses(&[409]),
        route(POST, "/jobs/{id}/children", work::children, "Spawn children and wait for them").large(LARGE).takes::<outcome::ChildrenBody>().gives::<work::Spawned>(201).refuses(&[409]),

        route(GET, "/audit", audit::records, "The audit trail").query::<audit::AuditQuery>().gives::<record::RecordPage>(200),

        route(GET, "/healthz", health::alive, "Whether the process is alive").at_root().open().gives_text("text/plain"),
        route(GET, "/readyz", health::ready, "Whether the store can be reached").at_root().open().gives_text("text/plain"),
    ]
}

/// Everything that answers.
pub(crate) fn router(app: App) -> Router {
    let routes = routes(single_bytes_max(&app));
    app.set_counters(routes.iter().map(Route::counter).collect());
    let mut router = Router::new();
    for route in routes {
        router = route.mount(router, &app);
    }
    router
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn_with_state(app.clone(), stamp))
        .with_state(app)
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
