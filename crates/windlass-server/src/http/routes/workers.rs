//! Workers for operators: list, pause, resume.

use windlass::internal::wire::pause::pause_request;
use windlass::internal::wire::worker::worker as encode_worker;
use windlass::job::WorkerId;
use windlass::store::caller::Caller;
use windlass::store::{PauseTarget, Worker};
use windlass_api::actions::{ActionResponse, ReasonBody};
use windlass_api::pause::PauseBody;
use windlass_api::worker::{Worker as WorkerView, Workers};

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::page::PageQuery;
use crate::http::request::path::WorkerPath;
use crate::http::request::query::Query;
use crate::http::routes::jobs::StrictQuery;
use crate::limits;

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

async fn action_response(
    app: &App,
    caller: &Caller,
    id: WorkerId,
    changed: bool,
) -> Result<ActionResponse<WorkerView>, ApiError> {
    let (config, now) = (app.store().config(caller).await?, app.now());
    let worker = config.workers.get(&id).ok_or_else(|| ApiError::not_found(format!("no worker {id}")))?;
    Ok(ActionResponse { object: encode_worker(worker, &config, now), changed })
}

/// `POST /workers/{id}/pause`
pub(crate) async fn pause_worker(
    Call { app, caller }: Call,
    WorkerPath(id): WorkerPath,
    Query(query): Query<StrictQuery>,
    Body(body): Body<PauseBody>,
) -> Result<JsonOk<ActionResponse<WorkerView>>, ApiError> {
    let changed =
        app.store().pause(&caller, PauseTarget::Worker(id), pause_request(body, app.now())?).await?;
    if query.strict && !changed {
        return Err(ApiError::already_paused(format_args!("worker {id}")));
    }
    action_response(&app, &caller, id, changed).await.map(JsonOk)
}

/// `POST /workers/{id}/resume`
pub(crate) async fn resume_worker(
    Call { app, caller }: Call,
    WorkerPath(id): WorkerPath,
    Query(query): Query<StrictQuery>,
    Body(body): Body<ReasonBody>,
) -> Result<JsonOk<ActionResponse<WorkerView>>, ApiError> {
    let changed = app.store().resume(&caller, PauseTarget::Worker(id), body.reason).await?;
    if query.strict && !changed {
        return Err(ApiError::not_paused(format_args!("worker {id}")));
    }
    action_response(&app, &caller, id, changed).await.map(JsonOk)
}
