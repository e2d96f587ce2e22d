//! Workers.

use windlass_api::text::Text;
use windlass_api::worker;

use super::pause::pause_record;
use crate::clock::Timestamp;
use crate::store::documents::config::{Config, PauseRecord, PauseScope, Worker};

/// A worker at this time.
pub fn worker(worker: &Worker, config: &Config, now: Timestamp) -> worker::Worker {
    worker::Worker {
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
        paused: config.worker_pause(worker.id, now).map(Into::into),
    }
}

/// A server's worker, and its pause.
pub fn stored_worker(shown: worker::Worker) -> (Worker, Option<PauseRecord>) {
    let id = shown.id.0;
    let hold = shown.paused.map(|pause| pause_record(pause, PauseScope::Worker(id)));
    let worker = Worker {
        id,
        name: shown.name,
        tenant: shown.tenant.map(|tenant| tenant.0),
        queues: shown.queues.into_iter().map(|queue| queue.0).collect(),
        types: shown.types.into_iter().map(|name| name.0).collect(),
        concurrency: shown.concurrency,
        version: shown.version,
        heartbeats: shown.heartbeats,
        registered_at: shown.registered_at.0,
        seen_at: shown.seen_at.0,
        is_lost: !shown.alive,
        is_paused: false,
        key: None,
    };
    (worker, hold)
}
