//! Queues: list, get, configure, pause, resume.

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::clock::Timestamp;
use windlass::job::QueueName;
use windlass::settings::patch::SettingsPatch;
use windlass::store::caller::Caller;
use windlass::store::command::pause::Target;
use windlass::store::documents::minute_stats::minute_of;
use windlass::store::query::known::Named;
use windlass::store::query::queues::QueueInfo;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::CurrentCaller;
use crate::http::request::json::Body;
use crate::http::request::path::QueuePath;
use crate::http::request::query::Query;
use crate::http::routes::jobs::StrictQuery;
use crate::http::wire::known::KnownView;
use crate::http::wire::page::PageQuery;
use crate::http::wire::pause::{PauseBody, PauseView, ResumptionView, already_paused, not_paused};
use crate::http::wire::settings::{QueueBody, QueueSettingsView};
use crate::http::wire::stats::{Counts, QueueRates, counts};
use crate::http::wire::text::Text;
use crate::http::wire::time::Span;

/// A queue with its counts, rates and settings.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Queue")]
pub(crate) struct QueueView {
    name: Text<QueueName>,
    #[serde(flatten)]
    known: KnownView,
    /// Number of jobs by state.
    depth: Counts,
    /// How long the oldest claimable job has waited.
    oldest_age: Option<Span>,
    rates: QueueRates,
    /// Its pause; null if it is not paused.
    paused: Option<PauseView>,
    /// Its last resume; null if it was never resumed.
    resumed: Option<ResumptionView>,
    #[serde(flatten)]
    settings: QueueSettingsView,
}

impl QueueView {
    fn of(look: &QueueInfo, known: KnownView, now: Timestamp) -> QueueView {
        QueueView {
            name: Text(look.name.clone()),
            known,
            depth: counts(&look.depth),
            oldest_age: look.oldest.map(|since| now.since(since).into()),
            rates: QueueRates::of(&look.minutes, minute_of(now)),
            paused: look.paused.as_ref().map(PauseView::from),
            resumed: look.resumed.as_ref().map(ResumptionView::from),
            settings: (&look.settings).into(),
        }
    }
}

/// Queues by name.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Queues {
    queues: Vec<QueueView>,
    /// Cursor of the next page; null on the last page.
    next_cursor: Option<String>,
}

/// A queue after an action.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActedQueue {
    #[serde(flatten)]
    queue: QueueView,
    /// Whether the action changed anything.
    changed: bool,
    /// Number of resumed jobs, if `jobs` was set.
    #[serde(skip_serializing_if = "Option::is_none")]
    jobs_resumed: Option<u64>,
}

/// How to resume a queue.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ResumeBody {
    reason: Option<String>,
    /// Also resume the jobs that aggressive pauses of the queue suspended.
    jobs: bool,
}

/// `GET /queues`
pub(crate) async fn list(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    Query(query): Query<PageQuery>,
) -> Result<JsonOk<Queues>, ApiError> {
    let limit = query.limit()?;
    let after = query.after().map(QueueName::new).transpose();
    let after = after.map_err(|problem| ApiError::invalid("cursor", problem.to_string()))?;
    let looks = app.store().queues_after(&caller, after, limit + 1).await?;
    let (looks, next_cursor) = query.of(looks, |look| look.name.to_string())?;
    let now = app.now();
    let queues = looks.iter().map(|look| QueueView::of(look, KnownView::listed(), now)).collect();
    Ok(JsonOk(Queues { queues, next_cursor }))
}

async fn known(app: &App, caller: &Caller, queue: &QueueName) -> Result<KnownView, ApiError> {
    KnownView::of(app, caller, Named::Queue(queue.clone())).await
}

async fn view(app: &App, caller: &Caller, queue: QueueName, known: KnownView) -> Result<QueueView, ApiError> {
    let look = app.store().queue(caller, queue).await?;
    Ok(QueueView::of(&look, known, app.now()))
}

/// `GET /queues/{queue}`
pub(crate) async fn get(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    QueuePath(queue): QueuePath,
) -> Result<JsonOk<QueueView>, ApiError> {
    let known = known(&app, &caller, &queue).await?;
    view(&app, &caller, queue, known).await.map(JsonOk)
}

/// `PUT /queues/{queue}`
pub(crate) async fn put(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    QueuePath(queue): QueuePath,
    Body(body): Body<QueueBody>,
) -> Result<JsonOk<ActedQueue>, ApiError> {
    let patch = SettingsPatch::Queue(queue.clone(), body.into_patch()?);
    let known = known(&app, &caller, &queue).await?;
    let changed = app.store().configure(&caller, patch).await?.is_changed;
    Ok(JsonOk(ActedQueue { queue: view(&app, &caller, queue, known).await?, changed, jobs_resumed: None }))
}

/// `POST /queues/{queue}/pause`
pub(crate) async fn pause(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    QueuePath(queue): QueuePath,
    Query(query): Query<StrictQuery>,
    Body(body): Body<PauseBody>,
) -> Result<JsonOk<ActedQueue>, ApiError> {
    let pause = body.into_pause(app.now())?;
    let known = known(&app, &caller, &queue).await?;
    let changed = app.store().pause(&caller, Target::Queue(queue.clone()), pause).await?;
    if query.strict && !changed {
        return Err(already_paused(format_args!("queue {queue}")));
    }
    Ok(JsonOk(ActedQueue { queue: view(&app, &caller, queue, known).await?, changed, jobs_resumed: None }))
}

/// `POST /queues/{queue}/resume`
pub(crate) async fn resume(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
    QueuePath(queue): QueuePath,
    Query(query): Query<StrictQuery>,
    Body(body): Body<ResumeBody>,
) -> Result<JsonOk<ActedQueue>, ApiError> {
    let known = known(&app, &caller, &queue).await?;
    let changed = app.store().resume(&caller, Target::Queue(queue.clone()), body.reason.clone()).await?;
    if query.strict && !changed {
        return Err(not_paused(format_args!("queue {queue}")));
    }
    let jobs_resumed = if body.jobs {
        Some(app.store().resume_paused_jobs(&caller, queue.clone(), body.reason).await?.changed)
    } else {
        None
    };
    Ok(JsonOk(ActedQueue { queue: view(&app, &caller, queue, known).await?, changed, jobs_resumed }))
}
