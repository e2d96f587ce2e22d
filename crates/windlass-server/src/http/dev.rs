//! What only a server for development has (`windlass dev`): a clock that can be moved, workers that crash on demand, and a
//! store that can be emptied. Tests in any language so let a month pass in milliseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::clock::{Clock, Deadline, JumpClock};
use windlass::error::WorkError;
use windlass::job::WorkerId;
use windlass::store::caller::Caller;
use windlass::store::{ActionRequest, AttemptWrite, BulkAction, Filter, LeaseRef, ScheduleRef};
use windlass_api::time::{Moment, Span};

use super::app::App;
use super::reply::error::ApiError;
use super::reply::response::JsonOk;
use super::request::auth::{Call, CurrentCaller};
use super::request::json::Body;
use crate::dev::{self, tick};
use crate::limits::{DEV_REQUEST_MAX, DEV_STEPS_MAX, DEV_WAIT};

/// The clock, and where workers crash.
pub(crate) struct DevMode {
    clock: Arc<JumpClock>,
    /// Steps after whose saving the worker crashes, each once.
    crash_after: Mutex<BTreeSet<String>>,
}

impl DevMode {
    pub(crate) fn new(clock: Arc<JumpClock>) -> DevMode {
        DevMode { clock, crash_after: Mutex::default() }
    }

    /// Whether a worker crashes after these writes; each point counts once.
    pub(crate) fn crashes_after(&self, writes: &[AttemptWrite]) -> bool {
        let mut points = self.crash_after.lock().unwrap_or_else(PoisonError::into_inner);
        let mut is_one = false;
        for write in writes {
            if let AttemptWrite::Checkpoint { step, .. } = write {
                is_one |= points.remove(step);
            }
        }
        is_one
    }
}

/// The mode of a server that has these routes.
fn mode(app: &App) -> &DevMode {
    app.dev().expect("these routes are only there in this mode")
}

/// The store's time.
#[derive(Serialize, JsonSchema)]
pub(crate) struct DevClock {
    now: Moment,
}

/// `GET /dev/clock`
pub(crate) async fn clock(
    State(app): State<App>,
    CurrentCaller(_): CurrentCaller,
) -> Result<JsonOk<DevClock>, ApiError> {
    Ok(JsonOk(DevClock { now: Moment(mode(&app).clock.now()) }))
}

/// How far to move the clock.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdvanceBody {
    /// The duration.
    by: Span,
    /// How long to wait, in real time, for jobs that run; 10s if not given. Then their leases may expire.
    wait: Option<Span>,
}

/// Where the clock is.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Advanced {
    /// The store's time.
    now: Moment,
    /// Whether nothing runs any more, and workers have taken all jobs that they can take.
    settled: bool,
}

/// `POST /dev/advance`: from timer to timer, and workers run what becomes due before the next one.
pub(crate) async fn advance(
    State(app): State<App>,
    CurrentCaller(_): CurrentCaller,
    Body(body): Body<AdvanceBody>,
) -> Result<JsonOk<Advanced>, ApiError> {
    Deadline::extend_request(DEV_REQUEST_MAX);
    let wait = body.wait.map_or(DEV_WAIT, |span| span.0);
    let moved = dev::advance(app.store(), &mode(&app).clock, body.by.0, wait).await?;
    if !moved.is_done {
        let message =
            format!("more than {DEV_STEPS_MAX} timers are due in this time: advance in several requests");
        return Err(ApiError::invalid("by", message));
    }
    Ok(JsonOk(Advanced { now: Moment(moved.now), settled: moved.is_settled }))
}

/// Which workers crash, or where.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CrashBody {
    /// Name or id of the workers whose processes are gone; all workers if neither this nor `after_step` is given.
    worker: Option<String>,
    /// A step: the worker that saves it next loses its jobs then, once.
    after_step: Option<String>,
}

/// What crashed.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Crashed {
    /// How many workers lost their jobs.
    workers: usize,
    /// How many leases ended.
    leases: usize,
}

/// `POST /dev/crash`
pub(crate) async fn crash(
    Call { app, caller }: Call,
    Body(body): Body<CrashBody>,
) -> Result<JsonOk<Crashed>, ApiError> {
    if let Some(step) = body.after_step {
        mode(&app).crash_after.lock().unwrap_or_else(PoisonError::into_inner).insert(step);
        return Ok(JsonOk(Crashed { workers: 0, leases: 0 }));
    }
    let workers = app.store().config(&caller).await?.workers;
    let is_meant = |id: &WorkerId, name: &str| {
        body.worker.as_ref().is_none_or(|wanted| wanted == name || *wanted == id.to_string())
    };
    let meant: BTreeMap<WorkerId, _> =
        workers.into_iter().filter(|(id, worker)| is_meant(id, &worker.name)).collect();
    let (mut leases, count) = (0, meant.len());
    for id in meant.into_keys() {
        match app.store().crash_worker(&caller, id).await {
            Ok(ended) => leases += ended,
            Err(WorkError::NoSuchWorker(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    tick(app.store()).await?;
    Ok(JsonOk(Crashed { workers: count, leases }))
}

/// Ends the leases of the worker that holds this one; the error for its own request.
pub(crate) async fn crash_holder(app: &App, caller: &Caller, lease: LeaseRef) -> Result<ApiError, ApiError> {
    let holder = app.store().get(caller, lease.job).await?.and_then(|found| found.job.lease);
    if let Some(holder) = holder {
        app.store().crash_worker(&Caller::local(), holder.worker).await?;
        tick(app.store()).await?;
    }
    Ok(WorkError::Stale(lease.job).into())
}

/// Nothing to say.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResetBody {}

/// What was deleted.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Reset {
    /// How many jobs.
    jobs: u64,
}

/// `POST /dev/reset`: deletes jobs, schedules, workers and crash points. Settings and the clock stay.
pub(crate) async fn reset(
    Call { app, caller }: Call,
    Body(ResetBody {}): Body<ResetBody>,
) -> Result<JsonOk<Reset>, ApiError> {
    let store = app.store();
    mode(&app).crash_after.lock().unwrap_or_else(PoisonError::into_inner).clear();
    for schedule in store.schedules(&caller).await? {
        store
            .delete_schedule(
                &caller,
                ScheduleRef { tenant: Some(schedule.tenant.clone()), name: schedule.name.clone() },
            )
            .await?;
    }
    for id in store.config(&caller).await?.workers.into_keys() {
        // It may have left by itself.
        let _gone = store.crash_worker(&caller, id).await;
    }
    let all = Filter::default();
    let reason = Some("reset".to_owned());
    store.bulk(&caller, &all, BulkAction::Act(ActionRequest::Cancel { reason })).await?;
    let mut jobs = 0;
    loop {
        tick(store).await?;
        // Jobs that others need go after those.
        let deleted = store.bulk(&caller, &all, BulkAction::Delete).await?;
        jobs += deleted.changed;
        if deleted.changed == 0 || deleted.skipped == 0 {
            return Ok(JsonOk(Reset { jobs }));
        }
    }
}
