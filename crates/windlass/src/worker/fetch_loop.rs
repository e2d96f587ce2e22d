//! The fetch loop of one queue: waits for free slots and for work, claims, starts. It polls only as a fallback.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::slots::SlotPool;
use super::{WorkerShared, execute, shutdown, yield_now};
use crate::clock::Stopwatch;
use crate::error::WorkError;
use crate::job::QueueName;
use crate::limits;
use crate::store::command::claim::{ClaimRequest, ClaimedJob};

/// Pause after a store error.
const ERROR_PAUSE: Duration = Duration::from_millis(500);

/// Runs until `stop` fires; returns an error if it cannot continue.
pub(super) async fn run(
    shared: Arc<WorkerShared>,
    queue: QueueName,
    pool: Arc<SlotPool>,
    stop: CancellationToken,
) -> Result<(), WorkError> {
    let types = shared.types();
    loop {
        let first = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            permit = pool.free() => permit,
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = shared.control.resumed() => {}
        }
        let free = take_free(&pool, first).await;
        let request = ClaimRequest {
            worker: shared.id(),
            queues: Some(vec![queue.clone()]),
            types: types.clone(),
            limit: free.len(),
        };
        let gone = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = shared.control.paused() => {}
            }
        };
        let (api, caller) = (shared.client.api(), shared.client.caller());
        // Only as many jobs are started as there are slots; the others wait for a free slot.
        let starts = || pool.slots_free();
        let watch = Stopwatch::start();
        match api.claim_ahead(caller, &request, &starts, limits::CLAIM_WAIT_MAX, std::pin::pin!(gone)).await {
            Ok(answer) => {
                if answer.jobs.len() == request.limit {
                    pool.claimed(watch.elapsed());
                }
                shared.control.claimed(answer.is_paused);
                start(&shared, &pool, answer.jobs, free);
                // The worker was paused during the claim, so these jobs were not released with the others.
                if shared.control.is_interrupted() {
                    shutdown::release_all(&shared).await;
                }
            }
            Err(error) => {
                drop(free);
                let again = match error {
                    WorkError::NoSuchWorker(forgotten) => shared.register_again(forgotten).await,
                    error => Err(error),
                };
                let Err(error) = again else { continue };
                if !error.is_transient() {
                    tracing::error!(%error, %queue, "cannot claim jobs; stopping");
                    return Err(error);
                }
                tracing::warn!(%error, %queue, "failed to claim jobs, will retry");
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    () = tokio::time::sleep(ERROR_PAUSE) => {}
                }
            }
        }
    }
}

/// The error of the first fetch loop that cannot continue.
pub(super) async fn first_error(fetch_loops: &mut JoinSet<Result<(), WorkError>>) -> WorkError {
    while let Some(ended) = fetch_loops.join_next().await {
        match ended {
            Ok(Err(error)) => return error,
            Err(panic) if panic.is_panic() => {
                return WorkError::Panicked(panic.to_string());
            }
            _ => {}
        }
    }
    std::future::pending().await
}

/// Takes all free permits; the caller waited for the first.
///
/// Quick handlers finish together, within a few polls of the runtime. While permits become free, other tasks run first,
/// so that one claim fills all of them.
async fn take_free(pool: &SlotPool, first: OwnedSemaphorePermit) -> Vec<OwnedSemaphorePermit> {
    let mut free = pool.free_now();
    loop {
        yield_now().await;
        let now_free = pool.free_now();
        if now_free <= free {
            break;
        }
        free = now_free;
    }
    let others = std::iter::from_fn(|| pool.another());
    std::iter::once(first).chain(others).take(limits::CLAIM_JOBS_MAX).collect()
}

fn start(
    shared: &Arc<WorkerShared>,
    pool: &Arc<SlotPool>,
    jobs: Vec<ClaimedJob>,
    free: Vec<OwnedSemaphorePermit>,
) {
    if jobs.iter().any(|claimed| claimed.job.crashes > 0) {
        pool.disable_prefetch();
    }
    for (claimed, permit) in jobs.into_iter().zip(free) {
        // In this order: jobs whose attempt already counts get the slots.
        let slot = if claimed.job.has.claim_ahead { None } else { pool.slot() };
        execute::start(shared.clone(), claimed, pool.clone(), permit, slot);
    }
}
