//! Queues: list, get, configure, pause, resume.

use windlass::internal::wire::pause::pause_request;
use windlass::internal::wire::queue::queue as encode;
use windlass::job::QueueName;
use windlass::settings::patch::SettingsPatch;
use windlass::store::caller::Caller;
use windlass::store::{ObjectName, PauseTarget};
use windlass_api::known::KnownView;
use windlass_api::pause::PauseBody;
use windlass_api::queue::{Queue, QueueResponse, Queues, ResumeBody};
use windlass_api::settings::QueueBody;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::Call;
use crate::http::request::json::Body;
use crate::http::request::page::PageQuery;
use crate::http::request::path::QueuePath;
use crate::http::request::query::Query;
use crate::http::routes::jobs::StrictQuery;

/// `GET /queues`
pub(crate) async fn list(
    Call { app, caller }: Call,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Queues>, ApiError> {
    let limit = query.limit()?;
    let after = query.after().map(QueueName::new).transpose();
    let after = after.map_err(|problem| ApiError::invalid("cursor", problem.to_string()))?;
    let infos = app.store().queues_after(&caller, after, limit + 1).await?;
    let (infos, next_cursor) = query.take(infos, |info| info.name.to_string())?;
    let now = app.now();
    let queues = infos.iter().map(|info| encode(info, KnownView::listed(), now)).collect();
    Ok(JsonOk(Queues { queues, next_cursor }))
}

async fn view(app: &App, caller: &Caller, queue: QueueName, known: KnownView) -> Result<Queue, ApiError> {
    let info = app.store().queue(caller, queue).await?;
    Ok(encode(&info, known, app.now()))
}

/// `GET /queues/{queue}`
pub(crate) async fn get(
    Call { app, caller }: Call,
    QueuePath(queue): QueuePath,
) -> Result<JsonOk<Queue>, ApiError> {
    let known = app.known(&caller, ObjectName::Queue(queue.clone())).await?;
    view(&app, &caller, queue, known).await.map(JsonOk)
}

/// `PUT /queues/{queue}`
pub(crate) async fn put(
    Call { app, caller }: Call,
    QueuePath(queue): QueuePath,
    Body(body): Body<QueueBody>,
) -> Result<JsonOk<QueueResponse>, ApiError> {
    let patch = SettingsPatch::Queue(queue.clone(), body.into_patch()?);
    let known = app.known(&caller, ObjectName::Queue(queue.clone())).await?;
    let changed = app.store().configure(&caller, patch).await?.is_changed;
    Ok(JsonOk(QueueResponse { queue: view(&app, &caller, queue, known).await?, changed, jobs_resumed: None }))
}

/// `POST /queues/{queue}/pause`
pub(crate) async fn pause(
    Call { app, caller }: Call,
    QueuePath(queue): QueuePath,
    Query(query): Query<StrictQuery>,
    Body(body): Body<PauseBody>,
) -> Result<JsonOk<QueueResponse>, ApiError> {
    let pause = pause_request(body, app.now())?;
    let known = app.known(&caller, ObjectName::Queue(queue.clone())).await?;
    let changed = app.store().pause(&caller, PauseTarget::Queue(queue.clone()), pause).await?;
    if query.strict && !changed {
        return Err(ApiError::already_paused(format_args!("queue {queue}")));
    }
    Ok(JsonOk(QueueResponse { queue: view(&app, &caller, queue, known).await?, changed, jobs_resumed: None }))
}

/// `POST /queues/{queue}/resume`
pub(crate) async fn resume(
    Call { app, caller }: Call,
    QueuePath(queue): QueuePath,
    Query(query): Query<StrictQuery>,
    Body(body): Body<ResumeBody>,
) -> Result<JsonOk<QueueResponse>, ApiError> {
    let known = app.known(&caller, ObjectName::Queue(queue.clone())).await?;
    let changed = app.store().resume(&caller, PauseTarget::Queue(queue.clone()), body.reason.clone()).await?;
    if query.strict && !changed {
        return Err(ApiError::not_paused(format_args!("queue {queue}")));
    }
    let jobs_resumed = if body.jobs {
        Some(app.store().resume_paused_jobs(&caller, queue.clone(), body.reason).await?.changed)
    } else {
        None
    };
    Ok(JsonOk(QueueResponse { queue: view(&app, &caller, queue, known).await?, changed, jobs_resumed }))
}
