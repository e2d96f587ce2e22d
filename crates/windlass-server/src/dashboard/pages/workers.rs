//! Workers: the jobs each is running, and pauses.

pub(in crate::dashboard) mod worker;

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use windlass::clock::Timestamp;
use windlass::job::{JobState, WorkerId};
use windlass::store::caller::Permission;
use windlass::store::{Config, Filter, ListRequest, Order, PauseTarget, Worker, WorkerLoad};

use crate::dashboard::page::{Layout, PageError, PauseView, show};
use crate::dashboard::pages::limits;
use crate::dashboard::parts::format::{Moment, compact, count, real};
use crate::dashboard::parts::job_row::Row;
use crate::dashboard::parts::sorting::Sorting;
use crate::dashboard::parts::stat_card::StatCard;
use crate::dashboard::requests::context::{FormContext, PageContext};
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::undo::PageAddress;

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
    /// What it is sorted by.
    numbers: WorkerNumbers,
}

/// The numbers of a worker that the page can be sorted by.
struct WorkerNumbers {
    running: u64,
    registered: Timestamp,
    seen: Timestamp,
}

impl WorkerView {
    fn number(&self, column: &str) -> f64 {
        let slots = real(u64::from(self.concurrency));
        let time = |at: Timestamp| real(u64::try_from(at.as_millis()).unwrap_or(0));
        match column {
            "running" => real(self.numbers.running),
            "busy" => real(self.numbers.running) / slots.max(1.0),
            "slots" => slots,
            "since" => time(self.numbers.registered),
            _ => time(self.numbers.seen),
        }
    }
}

/// The columns of the order, and their names.
const ORDERS: [(&str, &str); 5] = [
    ("running", "running jobs"),
    ("busy", "share of slots in use"),
    ("slots", "slots"),
    ("since", "registered"),
    ("seen", "last seen"),
];

#[derive(Template)]
#[template(path = "workers/workers.html")]
struct WorkersPage {
    layout: Layout,
    tiles: Vec<StatCard>,
    workers: Vec<WorkerView>,
    /// Links that sort the workers: name, address, and the order if it is the chosen one.
    orders: Vec<(&'static str, String, &'static str)>,
    /// Whether there is no worker besides the server's own.
    is_empty: bool,
    /// How many running jobs were read, if there are more.
    looked_at: Option<String>,
}

/// `GET /workers`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, config } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let filter = Filter { states: vec![JobState::Running], ..Filter::default() };
    let request = ListRequest { filter, order: Order::Newest, cursor: None, limit: limits::RUNNING_SHOWN };
    let running = store.list(caller, request).await?.jobs;
    let mut by_worker: BTreeMap<WorkerId, Vec<Row>> = BTreeMap::new();
    for snapshot in &running {
        if let Some(lease) = &snapshot.job.lease {
            by_worker.entry(lease.worker).or_default().push(Row::new(snapshot, now));
        }
    }
    let busy = store.busy(caller, limits::RUNNING_COUNTED).await?;
    let stats = store.totals(caller).await?;
    let mut workers: Vec<WorkerView> = Vec::new();
    for worker in config.workers.values() {
        let jobs = by_worker.remove(&worker.id).unwrap_or_default();
        workers.push(view(worker, jobs, &busy, config, visitor, now));
    }
    let place = |worker: &WorkerView| (worker.is_built_in, worker.is_lost);
    workers.sort_by(|a, b| (place(a), &a.name, &a.id).cmp(&(place(b), &b.name, &b.id)));
    let sorting = Sorting::from_query(query, "/workers", &ORDERS.map(|(key, _)| key));
    sorting.sort(&mut workers, WorkerView::number);
    let orders = ORDERS.iter().map(|(key, name)| {
        let column = sorting.column(key);
        (*name, column.link.clone(), column.order)
    });
    let running = stats.states.get(&JobState::Running).copied().unwrap_or(0);
    let meant = workers.iter().find(|worker| query.get("about") == Some(&worker.id));
    let name = meant.map(|worker| format!("Worker {}", worker.name));
    let page = WorkersPage {
        layout: context.layout("workers", "Workers").saying_of(query, name.as_deref()),
        orders: orders.collect(),
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
        paused: config.worker_pause(worker.id, now).map(|hold| PauseView::new(hold, now)),
        can_pause: is_theirs && visitor.may(Permission::Pause),
        numbers: WorkerNumbers { running, registered: worker.registered_at, seen: worker.seen_at },
        id,
    }
}

/// `POST /workers/{id}/act`
pub(in crate::dashboard) async fn act(
    Path(id): Path<String>,
    context: FormContext,
) -> Result<Response, PageError> {
    let worker: WorkerId = id.parse().map_err(|_| PageError::not_found(format!("no worker {id}")))?;
    let place = if context.form.get("from") == Some("own") {
        PageAddress::new(format!("/workers/{worker}"), &[])
    } else {
        PageAddress::new("/workers", &[("about", &worker.to_string())])
    };
    context.pause_or_resume(&context.visitor.caller, PauseTarget::Worker(worker), &place).await
}
