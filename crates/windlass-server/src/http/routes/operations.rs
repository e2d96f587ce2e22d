//! Operators' routes: workers, the global pause, statistics.

use windlass::Store;
use windlass::error::StoreError;
use windlass::job::{JobState, JobType, Tenant, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::command::pause::{Pause, PauseTarget};
use windlass::store::documents::config::Worker;
use windlass::store::filter::Filter;
use windlass::store::query::known::Named;
use windlass::store::wire::operations::{gate as encode_gate, pause_request, worker as encode_worker};
use windlass_api::actions::ReasonBody;
use windlass_api::known::Known;
use windlass_api::pause::{ActedGate, Gate, OfflineBody, OnlineBody, PauseBody};
use windlass_api::stats::{Stats, Unresolved};
use windlass_api::text::Text;
use windlass_api::worker::{ActedWorker, Workers};

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::page::PageQuery;
use crate::http::request::path::WorkerPath;
use crate::http::request::query::Query;
use crate::http::routes::jobs::StrictQuery;
use crate::http::routes::known::known;
use crate::limits;

/// `GET /stats`
pub(crate) async fn stats(Call { app, caller }: Call) -> Result<JsonOk<Stats>, ApiError> {
    let unresolved = unresolved(app.store(), &caller).await?;
    let stats = Stats::from(&app.store().stats(&caller).await?);
    Ok(JsonOk(Stats { unresolved: Some(unresolved), ..stats }))
}

/// Counts failed jobs and dead letters that were not redriven: no counter knows those, so they are counted up to a limit.
async fn unresolved(store: &Store, caller: &Caller) -> Result<Unresolved, StoreError> {
    let open = async |state| {
        let filter = Filter { states: vec![state], is_redriven: Some(false), ..Filter::default() };
        store.count_up_to(caller, &filter, limits::UNRESOLVED_COUNTED).await
    };
    let (failed, dead) = (open(JobState::Failed).await?, open(JobState::DeadLetter).await?);
    let complete = failed.is_all && dead.is_all;
    Ok(Unresolved { failed: failed.jobs, dead_letter: dead.jobs, complete })
}

/// `GET /workers`
pub(crate) async fn workers(
    Call { app, caller }: Call,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Workers>, ApiError> {
    let (config, now) = (app.store().config(&caller).await?, app.now());
    let id = |worker: &&Worker| worker.id.to_string();
    let names = |worker: &&Worker| {
        let queues = worker.queues.iter().map(|queue| queue.as_str().len());
        queues.chain(worker.types.iter().map(|job_type| job_type.as_str().len())).sum()
    };
    let (workers, next_cursor) =
        query.within(config.workers.values(), id, names, limits::WORKERS_PAGE_BYTES_MAX)?;
    let workers = workers.into_iter().map(|worker| encode_worker(worker, &config, now)).collect();
    Ok(JsonOk(Workers { workers, next_cursor }))
}

async fn acted_worker(
    app: &App,
    caller: &Caller,
    id: WorkerId,
    changed: bool,
) -> Result<ActedWorker, ApiError> {
    let (config, now) = (app.store().config(caller).await?, app.now());
    let worker = config.workers.get(&id).ok_or_else(|| ApiError::not_found(format!("no worker {id}")))?;
    Ok(ActedWorker { worker: encode_worker(worker, &config, now), changed })
}

/// `POST /workers/{id}/pause`
pub(crate) async fn pause_worker(
    Call { app, caller }: Call,
    WorkerPath(id): WorkerPath,
    Query(query): Query<StrictQuery>,
    Body(body): Body<PauseBody>,
) -> Result<JsonOk<ActedWorker>, ApiError> {
    let changed =
        app.store().pause(&caller, PauseTarget::Worker(id), pause_request(body, app.now())?).await?;
    if query.strict && !changed {
        return Err(ApiError::already_paused(format_args!("worker {id}")));
    }
    acted_worker(&app, &caller, id, changed).await.map(JsonOk)
}

/// `POST /workers/{id}/resume`
pub(crate) async fn resume_worker(
    Call { app, caller }: Call,
    WorkerPath(id): WorkerPath,
    Query(query): Query<StrictQuery>,
    Body(body): Body<ReasonBody>,
) -> Result<JsonOk<ActedWorker>, ApiError> {
    let changed = app.store().resume(&caller, PauseTarget::Worker(id), body.reason).await?;
    if query.strict && !changed {
        return Err(ApiError::not_paused(format_args!("worker {id}")));
    }
    acted_worker(&app, &caller, id, changed).await.map(JsonOk)
}

async fn gate_view(app: &App, caller: &Caller) -> Result<Gate, ApiError> {
    Ok(encode_gate(&app.store().config(caller).await?, app.now()))
}

/// `GET /gate`
pub(crate) async fn gate(Call { app, caller }: Call) -> Result<JsonOk<Gate>, ApiError> {
    gate_view(&app, &caller).await.map(JsonOk)
}

async fn known_target(app: &App, caller: &Caller, target: &PauseTarget) -> Result<Option<Known>, ApiError> {
    let named = match target {
        PauseTarget::Tenant(tenant) => Named::Tenant(tenant.clone()),
        PauseTarget::Type(job_type) => Named::Type(job_type.clone()),
        PauseTarget::Queue(queue) => Named::Queue(queue.clone()),
        PauseTarget::Gate | PauseTarget::Worker(_) => return Ok(None),
    };
    known(app, caller, named).await.map(Some)
}

fn target(tenant: Option<Text<Tenant>>, job_type: Option<Text<JobType>>) -> Result<PauseTarget, ApiError> {
    match (tenant, job_type) {
        (None, None) => Ok(PauseTarget::Gate),
        (Some(tenant), None) => Ok(PauseTarget::Tenant(tenant.0)),
        (None, Some(job_type)) => Ok(PauseTarget::Type(job_type.0)),
        (Some(_), Some(_)) => Err(ApiError::invalid("type", "give `tenant` or `type`, not both")),
    }
}

/// `POST /gate/offline`
pub(crate) async fn close(
    Call { app, caller }: Call,
    Query(query): Query<StrictQuery>,
    Body(body): Body<OfflineBody>,
) -> Result<JsonOk<ActedGate>, ApiError> {
    let target = target(body.tenant, body.r#type)?;
    let expires = body.expires.map(|expiry| expiry.counted_from("expires", app.now())).transpose()?;
    let pause = Pause { reason: body.reason, expires, ..Pause::default() };
    let known = known_target(&app, &caller, &target).await?;
    let changed = app.store().pause(&caller, target, pause).await?;
    if query.strict && !changed {
        return Err(ApiError::conflict("already_paused", "processing is already paused")
            .with("state", "offline")
            .with("action", "offline"));
    }
    Ok(JsonOk(ActedGate { gate: gate_view(&app, &caller).await?, changed, known }))
}

/// `POST /gate/online`
pub(crate) async fn open(
    Call { app, caller }: Call,
    Query(query): Query<StrictQuery>,
    Body(body): Body<OnlineBody>,
) -> Result<JsonOk<ActedGate>, ApiError> {
    let target = target(body.tenant, body.r#type)?;
    let known = known_target(&app, &caller, &target).await?;
    let changed = app.store().resume(&caller, target, body.reason).await?;
    if query.strict && !changed {
        return Err(ApiError::conflict("not_paused", "processing is not paused")
            .with("state", "online")
            .with("action", "online"));
    }
    Ok(JsonOk(ActedGate { gate: gate_view(&app, &caller).await?, changed, known }))
}
