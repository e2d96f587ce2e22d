//! The worker protocol, for workers in any language: register, claim, heartbeat, report, save checkpoints, spawn children,
//! deregister.

mod claim_response;

use std::time::Duration;

use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::Value;
use windlass::internal::wire::claim::{claim_request, heartbeat_item};
use windlass::internal::wire::job_details::child as encode_child;
use windlass::internal::wire::outcome::attempt_writes;
use windlass::internal::wire::stream::stream_write;
use windlass::job::{Fence, GroupStrategy, JobId, WorkerId};
use windlass::limits;
use windlass::store::caller::Caller;
use windlass::store::{
    AttemptWrite, Finish, JobWrites, JobWritesResult, LeaseRef, NewGroup, Park, Report, SpawnOptions,
};
use windlass_api::claim::{
    AttemptWrites, CheckpointBody, CheckpointsBody, CheckpointsView, ClaimBody, DirectiveView, HeartbeatBody,
    HeartbeatView, JobWritesBody, JobWritesView, PROTOCOL, RegisteredWorker, WorkerBody,
};
use windlass_api::job_details::{Parent, SpawnedChildren};
use windlass_api::json::Json;
use windlass_api::outcome::{ChildrenBody, OutcomeBody, OutcomeView, OutcomesBody, OutcomesView};
use windlass_api::stream::StreamBody;
use windlass_api::text::Text;

use self::claim_response::ClaimResponse;
use crate::http::app::App;
use crate::http::dev::crash_holder;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::{Created, JsonOk, NoContent};
use crate::http::request::auth::Call;
use crate::http::request::json::{Body, decode};
use crate::http::request::path::{JobPath, NamePath, WorkerPath, shown};
use crate::http::routes::jobs::into_jobs;
use crate::http::schema::{Reply, Shape};

/// `POST /workers`
pub(crate) async fn register(
    Call { app, caller }: Call,
    Body(body): Body<WorkerBody>,
) -> Result<Created<RegisteredWorker>, ApiError> {
    let worker = app.store().register(&caller, body.try_into()?).await?;
    let heartbeat_every = limits::HEARTBEAT_EVERY.into();
    Ok(Created(RegisteredWorker { worker_id: Text(worker.id), heartbeat_every, protocol: PROTOCOL }))
}

/// `DELETE /workers/{id}`
pub(crate) async fn leave(
    Call { app, caller }: Call,
    WorkerPath(id): WorkerPath,
) -> Result<Deregistered, ApiError> {
    app.store().deregister(&caller, id).await.map(Deregistered).map_err(ApiError::from)
}

/// 204, with the number of released jobs as a header.
pub(crate) struct Deregistered(usize);

impl IntoResponse for Deregistered {
    fn into_response(self) -> Response {
        let mut response = NoContent.into_response();
        response.headers_mut().insert("windlass-released", HeaderValue::from(self.0));
        response
    }
}

impl Reply for Deregistered {
    fn describe(shape: &mut Shape) {
        NoContent::describe(shape);
    }
}

/// `POST /claims`
pub(crate) async fn claim(
    Call { app, caller }: Call,
    Body(body): Body<ClaimBody>,
) -> Result<ClaimResponse, ApiError> {
    let wait = body.wait.map_or(Duration::ZERO, |span| span.0);
    let worker = worker_id(&body.worker_id)?;
    let request = claim_request(body, worker)?;
    Ok(ClaimResponse::claim(app, caller, request, wait).await?)
}

/// `POST /heartbeats`
pub(crate) async fn heartbeat(
    Call { app, caller }: Call,
    Body(body): Body<HeartbeatBody>,
) -> Result<JsonOk<HeartbeatView>, ApiError> {
    let worker = worker_id(&body.worker_id)?;
    let given: Vec<_> = body.jobs.into_iter().map(heartbeat_item).collect();
    let beats = given.iter().filter_map(|(_, beat)| beat.clone()).collect();
    let wait = body.wait.map_or(Duration::ZERO, |span| span.0);
    if wait > limits::SERVER_WAIT_MAX {
        return Err(ApiError::invalid("wait", "is longer than 20s"));
    }
    // A stopping server does not let requests wait.
    let wait = if app.is_draining() { Duration::ZERO } else { wait };
    let beating = app.store().heartbeat_wait(&caller, worker, beats, wait);
    let reply = tokio::select! {
        reply = beating => reply?,
        () = app.draining(), if !wait.is_zero() => return Err(ApiError::draining()),
    };
    let mut directives = reply.directives.iter();
    let jobs = given.into_iter().map(|(id, beat)| {
        // A malformed id is not a job of this worker.
        let directive =
            beat.and_then(|_| directives.next()).map_or("lost", |(_, directive)| directive.as_str());
        DirectiveView { id, directive: directive.to_owned() }
    });
    Ok(JsonOk(HeartbeatView { jobs: jobs.collect(), worker: (&reply).into() }))
}

/// `POST /outcomes`
pub(crate) async fn outcomes(
    Call { app, caller }: Call,
    Body(body): Body<OutcomesBody>,
) -> Result<JsonOk<OutcomesView>, ApiError> {
    let worker = worker_id(&body.worker_id)?;
    check_count("outcomes", body.outcomes.len())?;
    let read: Vec<_> = body.outcomes.iter().map(|item| (item, decode::<OutcomeBody>(item.bytes()))).collect();
    let read: Vec<_> = read
        .into_iter()
        .map(|(item, outcome)| {
            let report = outcome.and_then(|outcome| Report::try_from(outcome).map_err(ApiError::from));
            report.map_err(|problem| (item, problem))
        })
        .collect();
    let reports: Vec<_> = read.iter().filter_map(|read| read.as_ref().ok().cloned()).collect();
    let mut answers = app.store().finish(&caller, worker, reports).await?.into_iter();
    let outcomes = read.into_iter().map(|read| match read {
        Ok(report) => answer(report.job, answers.next().expect("every report has a result")),
        Err((item, problem)) => rejected(id_of(item), &problem),
    });
    Ok(JsonOk(OutcomesView { outcomes: outcomes.collect() }))
}

/// Checks how many items a request has, before they are read.
fn check_count(field: &str, count: usize) -> Result<(), ApiError> {
    if count > limits::OUTCOMES_PER_CALL_MAX {
        let message = format!("has length {count}, the limit is {}", limits::OUTCOMES_PER_CALL_MAX);
        return Err(ApiError::invalid(field, message));
    }
    Ok(())
}

/// The result of a report on this job.
fn answer(id: JobId, finish: Finish) -> OutcomeView {
    let id = Value::String(id.to_string());
    let view =
        |status: &str, state| OutcomeView { id: id.clone(), status: status.to_owned(), state, error: None };
    match finish {
        Finish::Applied(state) => view("applied", Some(Text(state))),
        Finish::Stale => view("stale", None),
        Finish::Rejected(invalid) => rejected(id, &invalid.into()),
        Finish::Refused(refused) => rejected(id, &ApiError::of_follow_up(*refused)),
    }
}

/// A rejected report.
fn rejected(id: Value, problem: &ApiError) -> OutcomeView {
    OutcomeView { id, status: "rejected".to_owned(), state: None, error: Some(problem.as_item()) }
}

/// Parses the id of a worker; a malformed one is 404.
fn worker_id(text: &str) -> Result<WorkerId, ApiError> {
    text.parse().map_err(|_| ApiError::not_found(format!("no worker {}: register again", shown(text))))
}

/// The id of an item that could not be parsed, if it has one.
fn id_of(item: &Json) -> Value {
    #[derive(Deserialize)]
    struct Id {
        id: Option<String>,
    }
    let found: Option<Id> = serde_json::from_slice(item.bytes()).ok();
    found.and_then(|found| found.id).map_or(Value::Null, Value::String)
}

/// The claim that a write belongs to.
fn lease_ref(job: JobId, fence: u64, worker: Option<&str>) -> Result<LeaseRef, ApiError> {
    Ok(LeaseRef { job, fence: Fence(fence), worker: worker.map(worker_id).transpose()? })
}

/// `PUT /jobs/{id}/checkpoints/{name}`
pub(crate) async fn checkpoint(
    Call { app, caller }: Call,
    JobPath(job): JobPath,
    NamePath(step): NamePath,
    Body(body): Body<CheckpointBody>,
) -> Result<NoContent, ApiError> {
    let lease = lease_ref(job, body.fence, body.worker_id.as_deref())?;
    let write = AttemptWrite::Checkpoint { step, value: body.value.bytes().to_vec() };
    save(&app, &caller, lease, vec![write]).await
}

/// `POST /jobs/{id}/checkpoints`
pub(crate) async fn checkpoints(
    Call { app, caller }: Call,
    JobPath(job): JobPath,
    Body(body): Body<AttemptWrites>,
) -> Result<NoContent, ApiError> {
    let lease = lease_ref(job, body.fence, body.worker_id.as_deref())?;
    let writes = attempt_writes(body.checkpoints, body.progress, body.logs, body.stream);
    save(&app, &caller, lease, writes).await
}

/// `POST /checkpoints`
pub(crate) async fn checkpoints_of_jobs(
    Call { app, caller }: Call,
    Body(body): Body<CheckpointsBody>,
) -> Result<JsonOk<CheckpointsView>, ApiError> {
    let worker = worker_id(&body.worker_id)?;
    check_count("jobs", body.jobs.len())?;
    let read: Vec<_> = body
        .jobs
        .iter()
        .map(|item| match decode::<JobWritesBody>(item.bytes()) {
            Ok(JobWritesBody { id, fence, checkpoints, progress, logs, stream }) => {
                let writes = attempt_writes(checkpoints, progress, logs, stream);
                Ok(JobWrites { job: id.0, fence: Fence(fence), writes })
            }
            Err(problem) => Err((id_of(item), problem)),
        })
        .collect();
    let jobs: Vec<JobWrites> = read.iter().filter_map(|read| read.as_ref().ok().cloned()).collect();
    let mut answers = app.store().record_each(&caller, worker, jobs).await?.into_iter();
    let mut views = Vec::with_capacity(read.len());
    for one in read {
        let (id, status, error) = match one {
            Err((id, problem)) => (id, "rejected", Some(problem.as_item())),
            Ok(JobWrites { job, fence, writes }) => {
                let id = Value::String(job.to_string());
                match answers.next().expect("every job has a result") {
                    JobWritesResult::Saved if app.dev().is_some_and(|dev| dev.crashes_after(&writes)) => {
                        let lease = LeaseRef { job, fence, worker: Some(worker) };
                        return Err(crash_holder(&app, &caller, lease).await?);
                    }
                    JobWritesResult::Saved => (id, "saved", None),
                    JobWritesResult::Stale => (id, "stale", None),
                    JobWritesResult::Rejected(invalid) => {
                        (id, "rejected", Some(ApiError::from(invalid).as_item()))
                    }
                }
            }
        };
        views.push(JobWritesView { id, status: status.to_owned(), error });
    }
    Ok(JsonOk(CheckpointsView { jobs: views }))
}

/// `POST /jobs/{id}/stream`
pub(crate) async fn stream(
    Call { app, caller }: Call,
    JobPath(job): JobPath,
    Body(body): Body<StreamBody>,
) -> Result<NoContent, ApiError> {
    let lease = lease_ref(job, body.fence, body.worker_id.as_deref())?;
    save(&app, &caller, lease, vec![stream_write(body.offset, &body.chunks)]).await
}

async fn save(
    app: &App,
    caller: &Caller,
    lease: LeaseRef,
    writes: Vec<AttemptWrite>,
) -> Result<NoContent, ApiError> {
    let is_crash = app.dev().is_some_and(|dev| dev.crashes_after(&writes));
    app.store().record(caller, lease, writes).await?;
    if is_crash {
        return Err(crash_holder(app, caller, lease).await?);
    }
    Ok(NoContent)
}

/// `POST /jobs/{id}/children`
pub(crate) async fn children(
    Call { app, caller }: Call,
    JobPath(job): JobPath,
    Body(body): Body<ChildrenBody>,
) -> Result<Created<SpawnedChildren>, ApiError> {
    let lease = lease_ref(job, body.fence, body.worker_id.as_deref())?;
    let group = NewGroup {
        name: body.name.unwrap_or_else(|| "children".to_owned()),
        strategy: body.strategy.unwrap_or(GroupStrategy::FailFast),
        jobs: into_jobs(body.jobs, None)?,
    };
    let parks = body.beside.into_iter().map(Park::try_from).collect::<Result<_, _>>()?;
    let writes = attempt_writes(body.checkpoints, None, Vec::new(), body.stream);
    let options = SpawnOptions { keeps_running: body.park == Some(false), parks, writes };
    let spawned = app.store().spawn_with(&caller, lease, group, options).await?;
    Ok(Created(SpawnedChildren {
        group: spawned.group,
        known: spawned.is_known,
        children: spawned.children.iter().map(|child| encode_child(child, None, false, false)).collect(),
        parent: Parent { id: Text(spawned.parent.id), state: Text(spawned.parent.state) },
    }))
}
