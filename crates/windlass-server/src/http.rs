//! The HTTP contract: every URL on one screen. Handlers are thin: they decode, ask the store, and encode.

mod app;
mod audit;
mod auth;
mod events;
mod guard;
mod health;
mod jobs;
mod json;
mod keys;
mod metrics;
mod openapi;
mod operate;
mod path;
mod problem;
mod prometheus;
mod query;
mod queues;
mod rate;
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
use self::wire::{claim, filter, job, numbers, outcome, pause, record, settings, side, submission};
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

        route(GET, "/queues", queues::list, "Every queue").gives::<queues::Queues>(200),
        route(GET, "/queues/{queue}", queues::get, "All about a queue").gives::<queues::QueueView>(200),
        route(PUT, "/queues/{queue}", queues::put, "Change a queue's settings").takes::<settings::QueueBody>().gives::<queues::ActedQueue>(200),
        route(POST, "/queues/{queue}/pause", queues::pause, "Start none of its jobs").query::<Strict>().takes::<pause::PauseBody>().gives::<queues::ActedQueue>(200).refuses(&[409]),
        route(POST, "/queues/{queue}/resume", queues::resume, "Start its jobs again").query::<Strict>().takes::<act::ReasonBody>().gives::<queues::ActedQueue>(200).refuses(&[409]),
        route(GET, "/workers", operate::workers, "Every worker").gives::<operate::Workers>(200),
        route(POST, "/workers/{id}/pause", operate::pause_worker, "Give a worker nothing").query::<Strict>().takes::<pause::PauseBody>().gives::<operate::ActedWorker>(200).refuses(&[409]),
        route(POST, "/workers/{id}/resume", operate::resume_worker, "Give a worker jobs again").query::<Strict>().takes::<act::ReasonBody>().gives::<operate::ActedWorker>(200).refuses(&[409]),
        route(GET, "/gate", operate::gate, "Whether anything starts").gives::<operate::GateView>(200),
        route(POST, "/gate/offline", operate::close, "Start nothing, of all, of a tenant or of a type").query::<Strict>().takes::<operate::OfflineBody>().gives::<operate::ActedGate>(200).refuses(&[409]),
        route(POST, "/gate/online", operate::open, "Start jobs again").query::<Strict>().takes::<operate::OnlineBody>().gives::<operate::ActedGate>(200).refuses(&[409]),
        route(PUT, "/tenants/{tenant}", operate::put_tenant, "Change a tenant's settings").takes::<settings::TenantBody>().gives::<operate::TenantView>(200),
        route(PUT, "/types/{type}", operate::put_type, "Change a type's settings").takes::<settings::TypeBody>().gives::<operate::TypeView>(200),
        route(GET, "/keys", keys::list, "Every key").gives::<keys::Keys>(200),
        route(POST, "/keys", keys::create, "Make a key").takes::<keys::KeyBody>().gives::<keys::CreatedKey>(201),
        route(DELETE, "/keys/{id}", keys::revoke, "Make a key worthless").gives_nothing(204),
        route(GET, "/stats", operate::stats, "Counts, rates and costs").gives::<numbers::StatsView>(200),
        route(GET, "/events", events::stream, "Events as they happen").query::<events::StreamQuery>().gives_text("text/event-stream"),
        route(GET, "/audit", audit::records, "The audit trail").query::<audit::AuditQuery>().gives::<record::RecordPage>(200),

        route(GET, "/healthz", health::alive, "Whether the process is alive").at_root().open().gives_text("text/plain"),
        route(GET, "/readyz", health::ready, "Whether the store can be reached").at_root().open().gives_text("text/plain").refuses(&[503]),
        route(GET, "/metrics", prometheus::metrics, "Numbers for Prometheus").at_root().gives_text("text/plain"),
        route(GET, "/openapi.json", openapi::document, "This description").at_root().open().gives_text("application/json"),
        route(GET, "/docs", openapi::reference, "This description for people").at_root().open().gives_text("text/html"),
    ]
}

/// Everything that answers.
pub(crate) fn router(app: App) -> Router {
    let routes = routes(single_bytes_max(&app));
    app.set_counters(routes.iter().map(Route::counter).collect());
    let document = openapi::describe(&routes);
    let page = openapi::page(&document);
    app.set_documents(document.to_string().into(), page.into());
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
