//! Limits on the number of workers per API key and tenant, and on the size of their names: every process holds all of
//! them in memory, and iterates over them when it explains why a job waits.

use std::cmp::Reverse;

use crate::error::WorkError;
use crate::job::{JobType, QueueName, WorkerId};
use crate::limits;
use crate::store::documents::config::Worker;
use crate::store::tx::write_tx::WriteTx;

/// Size of a worker's texts in memory, in bytes.
pub(super) fn bytes_of<'a>(
    queues: impl Iterator<Item = &'a str>,
    types: impl Iterator<Item = &'a str>,
    name: &str,
    version: Option<&str>,
) -> usize {
    let names = queues.chain(types).map(|name| name.len() + limits::WORKER_NAME_OVERHEAD);
    names.sum::<usize>() + name.len() + version.map_or(0, str::len)
}

fn bytes(worker: &Worker) -> usize {
    let queues = worker.queues.iter().map(QueueName::as_str);
    let types = worker.types.iter().map(JobType::as_str);
    bytes_of(queues, types, &worker.name, worker.version.as_deref())
}

/// The part of the registry that some workers use.
#[derive(Default)]
struct Share {
    workers: usize,
    bytes: usize,
    /// Lost workers, which hold no leases.
    lost: Vec<(Reverse<crate::clock::Timestamp>, WorkerId, usize)>,
}

impl Share {
    fn add(&mut self, worker: &Worker) {
        let bytes = bytes(worker);
        self.workers += 1;
        self.bytes += bytes;
        if worker.is_lost {
            self.lost.push((Reverse(worker.seen_at), worker.id, bytes));
        }
    }

    /// The lost workers to remove, the longest silent first, so that one more fits; `None` if it does not fit even so.
    fn room_for(mut self, new: usize, workers_max: usize, bytes_max: usize) -> Option<Vec<WorkerId>> {
        let mut forgotten = Vec::new();
        self.lost.sort_unstable();
        while self.workers + 1 > workers_max || self.bytes + new > bytes_max {
            let (_, worker, bytes) = self.lost.pop()?;
            self.workers -= 1;
            self.bytes -= bytes;
            forgotten.push(worker);
        }
        Some(forgotten)
    }
}

/// Refuses a worker beyond the limits of its API key and tenant; lost workers are removed first.
pub(super) fn make_room(tx: &mut WriteTx<'_>, new: &Worker) -> Result<(), WorkError> {
    let config = tx.config()?;
    let (mut of_key, mut of_tenant) = (Share::default(), Share::default());
    for worker in config.workers.values() {
        if worker.key == new.key {
            of_key.add(worker);
        }
        if new.tenant.is_some() && worker.tenant == new.tenant {
            of_tenant.add(worker);
        }
    }
    drop(config);
    let bytes = bytes(new);
    let shares = [
        ("key", of_key, limits::WORKERS_PER_KEY_MAX, limits::WORKERS_BYTES_PER_KEY_MAX),
        ("tenant", of_tenant, limits::WORKERS_PER_TENANT_MAX, limits::WORKERS_BYTES_PER_TENANT_MAX),
    ];
    for (of, share, workers_max, bytes_max) in shares {
        let retry_after = limits::WORKER_SILENCE_MAX;
        let too_many = WorkError::TooManyWorkers { of, workers_max, bytes_max, retry_after };
        for lost in share.room_for(bytes, workers_max, bytes_max).ok_or(too_many)? {
            tx.remove_worker(lost)?;
        }
    }
    Ok(())
}
