//! Workers: who is there, what each runs right now, and pausing them.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::{Path, State as AxumState};
use axum::response::{IntoResponse, Redirect, Response};
use windlass::clock::Timestamp;
use windlass::job::{State, WorkerId};
use windlass::store::caller::Permission;
use windlass::store::command::hold::Target;
use windlass::store::config::{Config, Worker};
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::ListRequest;

use super::form::{Form, Query};
use super::format::{Moment, real};
use super::guard::Visitor;
use super::page::{HoldView, Shell, Trouble, show};
use super::queues::pause_or_resume;
use super::row::Row;
use super::{Dashboard, limits};

/// Queues or types named per worker.
const NAMES_SHOWN: usize = 5;

/// A worker as shown.
struct WorkerView {
    id: String,
    /// Where its forms go.
    act: String,
    /// The id of the form that pauses it.
    pop: String,
    name: String,
    version: Option<String>,
    tenant: Option<String>,
    queues: String,
    types: String,
    concurrency: u32,
    running: u64,
    /// How much of it is busy, in percent.
    share: String,
    jobs: Vec<Row>,
    more: u64,
    jobs_link: String,
    registered: Moment,
    seen: Moment,
    is_lost: bool,
    paused: Option<HoldView>,
    can_pause: bool,
}

#[derive(Template)]
#[template(path = "workers.html")]
struct WorkersPage {
    shell: Shell,
    workers: Vec<WorkerView>,
    live: usize,
    lost: usize,
    paused: usize,
    slots: u64,
    busy: u64,
}

/// `GET /workers`
pub(super) async fn page(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
) -> Result<Response, Trouble> {
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let config = store.config(caller).await?;
    let filter = Filter { states: vec![State::Running], ..Filter::default() };
    let request = ListRequest { filter, order: Order::Newest, cursor: None, limit: limits::RUNNING_SHOWN };
    let running = store.list(caller, request).await?.jobs;
    let mut by_worker: BTreeMap<WorkerId, Vec<Row>> = BTreeMap::new();
    for snapshot in &running {
        if let Some(lease) = &snapshot.job.lease {
            by_worker.entry(lease.worker).or_default().push(Row::of(snapshot, now));
        }
    }
    let mut workers: Vec<WorkerView> = Vec::new();
    for worker in config.workers.values() {
        let jobs = by_worker.remove(&worker.id).unwrap_or_default();
        workers.push(view(worker, jobs, &config, &visitor, now));
    }
    workers.sort_by(|a, b| (a.is_lost, &a.name, &a.id).cmp(&(b.is_lost, &b.name, &b.id)));
    let live = workers.iter().filter(|worker| !worker.is_lost);
    let page = WorkersPage {
        shell: Shell::of(&board, &visitor, &config, "workers", "Workers").saying(&query),
        live: live.clone().count(),
        lost: workers.iter().filter(|worker| worker.is_lost).count(),
        paused: workers.iter().filter(|worker| worker.paused.is_some()).count(),
        slots: live.clone().map(|worker| u64::from(worker.concurrency)).sum(),
        busy: live.map(|worker| worker.running).sum(),
        workers,
    };
    show(&page)
}

fn view(
    worker: &Worker,
    mut jobs: Vec<Row>,
    config: &Config,
    visitor: &Visitor,
    now: Timestamp,
) -> WorkerView {
    let running = jobs.len() as u64;
    jobs.truncate(limits::RUNNING_PER_WORKER);
    let list = |mut names: Vec<String>, all: &str| {
        names.sort();
        match names.len() {
            0 => all.to_owned(),
            1..=NAMES_SHOWN => names.join(", "),
            number => format!("{} and {} more", names[..NAMES_SHOWN].join(", "), number - NAMES_SHOWN),
        }
    };
    // One that works for everybody is not a tenant's to stop.
    let is_theirs = visitor.caller.tenant.is_none() || worker.tenant == visitor.caller.tenant;
    let id = worker.id.to_string();
    WorkerView {
        name: if worker.name.is_empty() { "unnamed".to_owned() } else { worker.name.clone() },
        version: worker.version.clone(),
        tenant: worker.tenant.as_ref().map(ToString::to_string),
        queues: list(worker.queues.iter().map(ToString::to_string).collect(), "every queue"),
        types: list(worker.types.iter().map(ToString::to_string).collect(), "every type"),
        concurrency: worker.concurrency,
        running,
        share: format!(
            "{:.0}",
            (real(running) * 100.0 / real(u64::from(worker.concurrency).max(1))).min(100.0)
        ),
        more: running - jobs.len() as u64,
        jobs,
        jobs_link: format!("/jobs?worker={id}"),
        act: format!("/workers/{id}/act"),
        pop: format!("pause-{id}"),
        registered: Moment::new(worker.registered_at, now),
        seen: Moment::new(worker.seen_at, now),
        is_lost: worker.is_lost || worker.is_silent(now),
        paused: config.hold_on_worker(worker.id, now).map(|hold| HoldView::of(hold, now)),
        can_pause: is_theirs && visitor.may(Permission::Pause),
        id,
    }
}

/// `POST /workers/{id}/act`
pub(super) async fn act(
    AxumState(board): AxumState<Dashboard>,
    visitor: Visitor,
    Path(id): Path<String>,
    Form(form): Form,
) -> Result<Response, Trouble> {
    let worker: WorkerId = id.parse().map_err(|_| Trouble::not_found(format!("no worker {id}")))?;
    let done = pause_or_resume(&board, &visitor, Target::Worker(worker), &form).await?;
    Ok(Redirect::to(&format!("/workers?done={done}")).into_response())
}
