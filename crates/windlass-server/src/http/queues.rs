//! Queues: look, set, pause, resume.

use axum::extract::State;
use schemars::JsonSchema;
use serde::Serialize;
use windlass::clock::Timestamp;
use windlass::job::QueueName;
use windlass::store::caller::Caller;
use windlass::store::command::hold::Target;
use windlass::store::query::queues::QueueLook;
use windlass::store::rates::minute_of;
use windlass::store::settings::patch::SettingsPatch;

use super::app::App;
use super::auth::Who;
use super::jobs::Strictness;
use super::jobs::act::ReasonBody;
use super::json::Body;
use super::path::QueuePath;
use super::problem::Problem;
use super::query::Query;
use super::reply::Done;
use super::wire::name::Text;
use super::wire::numbers::{Counts, QueueRates, counts};
use super::wire::pause::{PauseBody, PauseView, already_paused, not_paused};
use super::wire::settings::{QueueBody, QueueSettingsView};
use super::wire::time::Span;

/// All about one queue.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Queue")]
pub(crate) struct QueueView {
    name: Text<QueueName>,
    /// How many jobs are in which state.
    depth: Counts,
    /// For how long its longest waiting job could have been claimed.
    oldest_age: Option<Span>,
    rates: QueueRates,
    /// Its pause; null if it is not paused.
    paused: Option<PauseView>,
    #[serde(flatten)]
    settings: QueueSettingsView,
}

impl QueueView {
    fn of(look: &QueueLook, now: Timestamp) -> QueueView {
        QueueView {
            name: Text(look.name.clone()),
            depth: counts(&look.depth),
            oldest_age: look.oldest.map(|since| now.since(since).into()),
            rates: QueueRates::of(&look.minutes, minute_of(now)),
            paused: look.paused.as_ref().map(PauseView::from),
            settings: (&look.settings).into(),
        }
    }
}

/// All queues.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Queues {
    queues: Vec<QueueView>,
}

/// A queue after an action.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActedQueue {
    #[serde(flatten)]
    queue: QueueView,
    /// Whether anything changed.
    changed: bool,
}

/// `GET /queues`
pub(crate) async fn list(State(app): State<App>, Who(caller): Who) -> Result<Done<Queues>, Problem> {
    let looks = app.store().queues(&caller).await?;
    let now = app.now();
    Ok(Done(Queues { queues: looks.iter().map(|look| QueueView::of(look, now)).collect() }))
}

async fn view(app: &App, caller: &Caller, queue: QueueName) -> Result<QueueView, Problem> {
    let look = app.store().queue(caller, queue).await?;
    Ok(QueueView::of(&look, app.now()))
}

/// `GET /queues/{queue}`
pub(crate) async fn get(
    State(app): State<App>,
    Who(caller): Who,
    QueuePath(queue): QueuePath,
) -> Result<Done<QueueView>, Problem> {
    view(&app, &caller, queue).await.map(Done)
}

/// `PUT /queues/{queue}`
pub(crate) async fn put(
    State(app): State<App>,
    Who(caller): Who,
    QueuePath(queue): QueuePath,
    Body(body): Body<QueueBody>,
) -> Result<Done<ActedQueue>, Problem> {
    let patch = SettingsPatch::Queue(queue.clone(), body.into_patch()?);
    let changed = app.store().configure(&caller, patch).await?.is_changed;
    Ok(Done(ActedQueue { queue: view(&app, &caller, queue).await?, changed }))
}

/// `POST /queues/{queue}/pause`
pub(crate) async fn pause(
    State(app): State<App>,
    Who(caller): Who,
    QueuePath(queue): QueuePath,
    Query(query): Query<Strictness>,
    Body(body): Body<PauseBody>,
) -> Result<Done<ActedQueue>, Problem> {
    let pause = body.into_pause(app.now())?;
    let changed = app.store().pause(&caller, Target::Queue(queue.clone()), pause).await?;
    if query.strict && !changed {
        return Err(already_paused(format_args!("queue {queue}")));
    }
    Ok(Done(ActedQueue { queue: view(&app, &caller, queue).await?, changed }))
}

/// `POST /queues/{queue}/resume`
pub(crate) async fn resume(
    State(app): State<App>,
    Who(caller): Who,
    QueuePath(queue): QueuePath,
    Query(query): Query<Strictness>,
    Body(body): Body<ReasonBody>,
) -> Result<Done<ActedQueue>, Problem> {
    let changed = app.store().resume(&caller, Target::Queue(queue.clone()), body.reason).await?;
    if query.strict && !changed {
        return Err(not_paused(format_args!("queue {queue}")));
    }
    Ok(Done(ActedQueue { queue: view(&app, &caller, queue).await?, changed }))
}
