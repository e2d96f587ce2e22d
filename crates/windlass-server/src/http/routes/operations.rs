//! Operators' routes: workers, the global pause, statistics.

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::clock::Timestamp;
use windlass::job::{JobType, QueueName, Tenant, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::command::pause::{Pause, Target};
use windlass::store::documents::config::{Config, PauseRecord, Scope, Worker};
use windlass::store::query::known::Named;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::CurrentCaller;
use crate::http::request::json::Body;
use crate::http::request::path::WorkerPath;
use crate::http::request::query::Query;
use crate::http::routes::jobs::StrictQuery;
use crate::http::routes::jobs::actions::ReasonBody;
use crate::http::wire::expires::Expiry;
use crate::http::wire::known::KnownView;
use crate::http::wire::page::PageQuery;
use crate::http::wire::pause::{PauseBody, PauseView, already_paused, not_paused};
use crate::http::wire::stats::StatsView;
use crate::http::wire::text::Text;
use crate::http::wire::time::Moment;
use crate::limits;

/// `GET /stats`
pub(crate) async fn stats(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
) -> Result<JsonOk<StatsView>, ApiError> {
    Ok(JsonOk(StatsView::from(&app.store().stats(&caller).await?)))
}

/// A registered worker.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Worker")]
pub(crate) struct WorkerView {
    id: Text<WorkerId>,
    name: String,
    /// The tenant whose jobs it takes; null for all tenants.
    tenant: Option<Text<Tenant>>,
    queues: Vec<Text<QueueName>>,
    types: Vec<Text<JobType>>,
    concurrency: u32,
    version: Option<String>,
    heartbeats: bool,
    registered_at: Moment,
    seen_at: Moment,
    /// Whether its heartbeats arrive.
    alive: bool,
    /// Its pause; null if it is not paused.
    paused: Option<PauseView>,
}

impl WorkerView {
    fn of(worker: &Worker, config: &Config, now: Timestamp) -> WorkerView {
        WorkerView {
            id: Text(worker.id),
            name: worker.name.clone(),
            tenant: worker.tenant.clone().map(Text),
            queues: worker.queues.iter().cloned().map(Text).collect(),
            types: worker.types.iter().cloned().map(Text).collect(),
            concurrency: worker.concurrency,
            version: worker.version.clone(),
            heartbeats: worker.heartbeats,
            registered_at: worker.registered_at.into(),
            seen_at: worker.seen_at.into(),
            alive: !worker.is_lost && !worker.is_silent(now),
            paused: config.hold_on_worker(worker.id, now).map(PauseView::from),
        }
    }
}

/// Registered workers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Workers {
    workers: Vec<WorkerView>,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// A worker after an action.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActedWorker {
    #[serde(flatten)]
    worker: WorkerView,
    /// Whether the action changed anything.
    changed: bool,
}

/// `GET /workers`
pub(crate) async fn workers(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
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
    let workers = workers.into_iter().map(|worker| WorkerView::of(worker, &config, now)).collect();
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
    Ok(ActedWorker { worker: WorkerView::of(worker, &config, now), changed })
}

/// `POST /workers/{id}/pause`
pub(crate) async fn pause_worker(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    WorkerPath(id): WorkerPath,
    Query(query): Query<StrictQuery>,
    Body(body): Body<PauseBody>,
) -> Result<JsonOk<ActedWorker>, ApiError> {
    let changed = app.store().pause(&caller, Target::Worker(id), body.into_pause(app.now())?).await?;
    if query.strict && !changed {
        return Err(already_paused(format_args!("worker {id}")));
    }
    acted_worker(&app, &caller, id, changed).await.map(JsonOk)
}

/// `POST /workers/{id}/resume`
pub(crate) async fn resume_worker(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    WorkerPath(id): WorkerPath,
    Query(query): Query<StrictQuery>,
    Body(body): Body<ReasonBody>,
) -> Result<JsonOk<ActedWorker>, ApiError> {
    let changed = app.store().resume(&caller, Target::Worker(id), body.reason).await?;
    if query.strict && !changed {
        return Err(not_paused(format_args!("worker {id}")));
    }
    acted_worker(&app, &caller, id, changed).await.map(JsonOk)
}

/// Whether jobs are processed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Gate")]
pub(crate) struct GateView {
    online: bool,
    reason: Option<String>,
    by: Option<String>,
    since: Option<Moment>,
    /// When processing resumes automatically.
    expires_at: Option<Moment>,
    /// Tenants and types whose processing is paused.
    scopes: Vec<GateScope>,
}

/// A tenant or type whose processing is paused.
#[derive(Debug, Serialize, JsonSchema)]
struct GateScope {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<Text<Tenant>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<Text<JobType>>,
    reason: Option<String>,
    by: String,
    since: Moment,
    expires_at: Option<Moment>,
}

impl GateScope {
    fn of(hold: &PauseRecord) -> Option<GateScope> {
        let (tenant, job_type) = match &hold.scope {
            Scope::Tenant(tenant) => (Some(tenant.clone()), None),
            Scope::Type { job_type, tenant } => (tenant.clone(), Some(job_type.clone())),
            Scope::Gate | Scope::Queue { .. } | Scope::Worker(_) => return None,
        };
        Some(GateScope {
            tenant: tenant.map(Text),
            r#type: job_type.map(Text),
            reason: hold.reason.clone(),
            by: hold.by.clone(),
            since: hold.since.into(),
            expires_at: hold.expires_at.map(Moment),
        })
    }
}

async fn gate_view(app: &App, caller: &Caller) -> Result<GateView, ApiError> {
    let (config, now) = (app.store().config(caller).await?, app.now());
    let whole = config.holds.get(&Scope::Gate).filter(|hold| hold.is_active(now));
    let active = config.holds.values().filter(|hold| hold.is_active(now));
    Ok(GateView {
        online: whole.is_none(),
        reason: whole.and_then(|hold| hold.reason.clone()),
        by: whole.map(|hold| hold.by.clone()),
        since: whole.map(|hold| hold.since.into()),
        expires_at: whole.and_then(|hold| hold.expires_at).map(Moment),
        scopes: active.filter_map(GateScope::of).collect(),
    })
}

/// `GET /gate`
pub(crate) async fn gate(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
) -> Result<JsonOk<GateView>, ApiError> {
    gate_view(&app, &caller).await.map(JsonOk)
}

/// What to pause.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OfflineBody {
    reason: Option<String>,
    /// Only this tenant.
    tenant: Option<Text<Tenant>>,
    /// Only this type.
    r#type: Option<Text<JobType>>,
    /// When processing resumes automatically: a duration or a time.
    expires: Option<Expiry>,
}

/// What to resume.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OnlineBody {
    reason: Option<String>,
    /// Only this tenant.
    tenant: Option<Text<Tenant>>,
    /// Only this type.
    r#type: Option<Text<JobType>>,
}

/// The processing state after an action.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActedGate {
    #[serde(flatten)]
    gate: GateView,
    /// Whether the action changed anything.
    changed: bool,
    /// For a tenant or type: whether the name is known.
    #[serde(flatten)]
    known: Option<KnownView>,
}

async fn known(app: &App, caller: &Caller, target: &Target) -> Result<Option<KnownView>, ApiError> {
    let named = match target {
        Target::Tenant(tenant) => Named::Tenant(tenant.clone()),
        Target::Type(job_type) => Named::Type(job_type.clone()),
        Target::Queue(queue) => Named::Queue(queue.clone()),
        Target::Gate | Target::Worker(_) => return Ok(None),
    };
    KnownView::of(app, caller, named).await.map(Some)
}

fn target(tenant: Option<Text<Tenant>>, job_type: Option<Text<JobType>>) -> Result<Target, ApiError> {
    match (tenant, job_type) {
        (None, None) => Ok(Target::Gate),
        (Some(tenant), None) => Ok(Target::Tenant(tenant.0)),
        (None, Some(job_type)) => Ok(Target::Type(job_type.0)),
        (Some(_), Some(_)) => Err(ApiError::invalid("type", "give `tenant` or `type`, not both")),
    }
}

/// `POST /gate/offline`
pub(crate) async fn close(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Query(query): Query<StrictQuery>,
    Body(body): Body<OfflineBody>,
) -> Result<JsonOk<ActedGate>, ApiError> {
    let target = target(body.tenant, body.r#type)?;
    let expires = body.expires.map(|expiry| expiry.counted_from("expires", app.now())).transpose()?;
    let pause = Pause { reason: body.reason, expires, ..Pause::default() };
    let known = known(&app, &caller, &target).await?;
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
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Query(query): Query<StrictQuery>,
    Body(body): Body<OnlineBody>,
) -> Result<JsonOk<ActedGate>, ApiError> {
    let target = target(body.tenant, body.r#type)?;
    let known = known(&app, &caller, &target).await?;
    let changed = app.store().resume(&caller, target, body.reason).await?;
    if query.strict && !changed {
        return Err(ApiError::conflict("not_paused", "processing is not paused")
            .with("state", "online")
            .with("action", "online"));
    }
    Ok(JsonOk(ActedGate { gate: gate_view(&app, &caller).await?, changed, known }))
}
