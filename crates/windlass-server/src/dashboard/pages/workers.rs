//! Workers: the jobs each is running, and pauses.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::job::{JobState, WorkerId};
use windlass::store::caller::Permission;
use windlass::store::command::pause::PauseTarget;
use windlass::store::documents::config::{Config, Worker};
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::{ListRequest, WorkerLoad};

use crate::dashboard::page::{Layout, PageError, PauseView, show};
use crate::dashboard::pages::queues::pause_or_resume;
use crate::dashboard::parts::format::{Moment, compact, count, real};
use crate::dashboard::parts::job_row::Row;
use crate::dashboard::parts::stat_card::StatCard;
use crate::dashboard::requests::form::{Form, Query};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::{Dashboard, pages::limits};

/// Queues or types shown per worker.
const NAMES_SHOWN: usize = 5;

/// A worker.
struct WorkerView {
    id: String,
    /// The action of its forms.
    act: String,
    /// The id of its pause dialog.
    pop: String,
    name: String,
    version: Option<String>,
    tenant: Option<String>,
    queues: String,
    types: String,
    concurrency: u32,
    /// How many jobs it runs; with `+` if there may be more.
    running: String,
    /// How many of its slots are in use, in percent.
    share: String,
    jobs: Vec<Row>,
    /// How many more jobs it runs, if any.
    more: Option<String>,
    jobs_link: String,
    registered: Moment,
    seen: Moment,
    is_lost: bool,
    /// Whether it is the server's own callback worker.
    is_built_in: bool,
    paused: Option<PauseView>,
    can_pause: bool,
}

#[derive(Template)]
#[template(path = "workers.html")]
struct WorkersPage {
    layout: Layout,
    tiles: Vec<StatCard>,
    workers: Vec<WorkerView>,
    /// Whether there is no worker besides the server's own.
    is_empty: bool,
    /// How many running jobs were read, if there are more.
    looked_at: Option<String>,
}

/// `GET /workers`
pub(in crate::dashboard) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, PageError> {
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let config = store.config(caller).await?;
    let filter = Filter { states: vec![JobState::Running], ..Filter::default() };
    let request = ListRequest { filter, order: Order::Newest, cursor: None, limit: limits::RUNNING_SHOWN };
    let running = store.list(caller, request).await?.jobs;
    let mut by_worker: BTreeMap<WorkerId, Vec<Row>> = BTreeMap::new();
    for snapshot in &running {
        if let Some(lease) = &snapshot.job.lease {
            by_worker.entry(lease.worker).or_default().push(Row::of(snapshot, now));
        }
    }
    let busy = store.busy(caller, limits::RUNNING_COUNTED).await?;
    let stats = store.totals(caller).await?;
    let mut workers: Vec<WorkerView> = Vec::new();
    for worker in config.workers.values() {
        let jobs = by_worker.remove(&worker.id).unwrap_or_default();
        workers.push(view(worker, jobs, &busy, &config, &visitor, now));
    }
    let place = |worker: &WorkerView| (worker.is_built_in, worker.is_lost);
    workers.sort_by(|a, b| (place(a), &a.name, &a.id).cmp(&(place(b), &b.name, &b.id)));
    let running = stats.states.get(&JobState::Running).copied().unwrap_or(0);
    let meant = workers.iter().find(|worker| query.get("about") == Some(&worker.id));
    let name = meant.map(|worker| format!("Worker {}", worker.name));
    let page = WorkersPage {
        layout: Layout::of(&board, &visitor, &config, "workers", "Workers")
            .saying_of(&query, name.as_deref()),
        tiles: tiles(&workers, running),
        is_empty: workers.iter().all(|worker| worker.is_built_in),
        looked_at: (!busy.is_all).then(|| count(limits::RUNNING_COUNTED as u64)),
        workers,
    };
    show(&page)
}

/// The counts, without the server's own worker.
fn tiles(workers: &[WorkerView], running: u64) -> Vec<StatCard> {
    let others = workers.iter().filter(|worker| !worker.is_built_in);
    let live = others.clone().filter(|worker| !worker.is_lost);
    let slots: u64 = live.clone().map(|worker| u64::from(worker.concurrency)).sum();
    let paused = live.clone().filter(|worker| worker.paused.is_some()).count() as u64;
    let lost = others.filter(|worker| worker.is_lost).count() as u64;
    vec![
        StatCard::new("Live", live.count() as u64, "responding workers", "running"),
        StatCard::new("Running", running, format!("jobs, of {} slots", compact(slots)), "running")
            .to("/jobs?state=running"),
        StatCard::new("Paused", paused, "take no new jobs", if paused > 0 { "suspended" } else { "quiet" }),
        StatCard::new(
            "Lost",
            lost,
            "lost or left in the last hour",
            if lost > 0 { "dead_letter" } else { "quiet" },
        ),
    ]
}

/// Whether a worker is the server's own, which delivers callbacks and runs no jobs of users.
pub(in crate::dashboard) fn is_built_in(worker: &Worker) -> bool {
    matches!(worker.queues.as_slice(), [queue] if queue.as_str() == windlass::callback::QUEUE)
}

fn view(
    worker: &Worker,
    mut jobs: Vec<Row>,
    busy: &WorkerLoad,
    config: &Config,
    visitor: &Visitor,
    now: Timestamp,
) -> WorkerView {
    let running = busy.workers.get(&worker.id).copied().unwrap_or(0);
    jobs.truncate(limits::RUNNING_PER_WORKER);
    let or_more = if busy.is_all { "" } else { "+" };
    let more = running.saturating_sub(jobs.len() as u64);
    let list = |mut names: Vec<String>, all: &str| {
        names.sort();
        match names.len() {
            0 => all.to_owned(),
            1..=NAMES_SHOWN => names.join(", "),
            number => format!("{} and {} more", names[..NAMES_SHOWN].join(", "), number - NAMES_SHOWN),
        }
    };
    // A worker for all tenants cannot be paused by a tenant.
    let is_theirs = visitor.caller.tenant.is_none() || worker.tenant == visitor.caller.tenant;
    let id = worker.id.to_string();
    WorkerView {
        name: if worker.name.is_empty() { "unnamed".to_owned() } else { worker.name.clone() },
        version: worker.version.clone(),
        tenant: worker.tenant.as_ref().map(ToString::to_string),
        queues: list(worker.queues.iter().map(ToString::to_string).collect(), "every queue"),
        types: list(worker.types.iter().map(ToString::to_string).collect(), "every type"),
        concurrency: worker.concurrency,
        running: format!("{}{or_more}", count(running)),
        share: format!(
            "{:.0}",
            (real(running) * 100.0 / real(u64::from(worker.concurrency).max(1))).min(100.0)
        ),
        more: (more > 0).then(|| format!("{}{or_more}", count(more))),
        jobs,
        jobs_link: format!("/jobs?worker={id}"),
        act: format!("/workers/{id}/act"),
        pop: format!("pause-{id}"),
        registered: Moment::new(worker.registered_at, now),
        seen: Moment::new(worker.seen_at, now),
        is_lost: worker.is_lost || worker.is_silent(now),
        is_built_in: is_built_in(worker),
        paused: config.worker_pause(worker.id, now).map(|hold| PauseView::of(hold, now)),
        can_pause: is_theirs && visitor.may(Permission::Pause),
        id,
    }
}

/// `POST /workers/{id}/act`
pub(in crate::dashboard) async fn act(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    Form(form): Form,
) -> Result<Response, PageError> {
    let worker: WorkerId = id.parse().map_err(|_| PageError::not_found(format!("no worker {id}")))?;
    let done = pause_or_resume(&board, &visitor, PauseTarget::Worker(worker), &form).await?;
    Ok(Redirect::to(&format!("/workers?done={done}&about={worker}")).into_response())
}
