//! The page of one worker: its slots, what it runs, and what it ran recently.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use windlass::job::{JobState, WorkerId};
use windlass::store::{Filter, ListRequest, Order};

use super::{WorkerView, view};
use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::pages::limits;
use crate::dashboard::parts::job_row::Row;
use crate::dashboard::requests::context::PageContext;

#[derive(Template)]
#[template(path = "workers/worker.html")]
struct WorkerPage {
    layout: Layout,
    worker: WorkerView,
    running: Vec<Row>,
    has_more: bool,
    recent: Vec<Row>,
    /// How many of the newest final jobs were searched.
    searched: usize,
}

/// `GET /workers/{id}`
pub(in crate::dashboard) async fn page(
    context: PageContext,
    Path(id): Path<String>,
) -> Result<Response, PageError> {
    let PageContext { board, visitor, config, .. } = &context;
    let (store, caller, now) = (board.store(), &visitor.caller, board.now());
    let missing = || PageError::not_found(format!("No worker {id}: it left, or was lost long ago."));
    let worker: WorkerId = id.parse().map_err(|_| missing())?;
    let found = config.workers.get(&worker).ok_or_else(missing)?;
    let list = async |filter: Filter, limit: usize| {
        store.list(caller, ListRequest { filter, order: Order::Newest, cursor: None, limit }).await
    };
    let running = Filter { workers: vec![worker], states: vec![JobState::Running], ..Filter::default() };
    let running = list(running, limits::RUNNING_SHOWN).await?;
    // No index leads from a worker to the jobs it ran, so the newest of all are searched.
    let ended = Filter { states: JobState::FINAL.to_vec(), ..Filter::default() };
    let ended = list(ended, limits::WORKER_JOBS_SEARCHED).await?.jobs;
    let searched = ended.len();
    let own = ended.iter().filter(|snapshot| snapshot.job.completed_by == Some(worker));
    let busy = store.busy(caller, limits::RUNNING_COUNTED).await?;
    let worker = view(found, Vec::new(), &busy, config, visitor, now);
    let page = WorkerPage {
        layout: context.layout("workers", format!("Worker {}", worker.name)),
        running: running.jobs.iter().map(|snapshot| Row::new(snapshot, now)).collect(),
        has_more: running.next.is_some(),
        recent: own.take(limits::WORKER_JOBS_SHOWN).map(|snapshot| Row::new(snapshot, now)).collect(),
        searched,
        worker,
    };
    show(&page)
}
