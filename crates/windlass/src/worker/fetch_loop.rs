//! One queue's loop: wait for free slots and for work, claim, start. It polls only as a backstop (M103).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::slots::SlotPool;
use super::{WorkerShared, execute, shutdown, yield_now};
use crate::error::{StoreError, WorkError};
use crate::job::QueueName;
use crate::limits;
use crate::store::command::claim::{ClaimRequest, Claimed};

/// How long to wait after the store was in trouble.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);

/// Runs until `stop`; an error if it cannot go on.
pub(super) async fn run(
    shared: Arc<WorkerShared>,
    queue: QueueName,
    seats: Arc<SlotPool>,
    stop: CancellationToken,
) -> Result<(), WorkError> {
    let types = shared.types();
    loop {
        let first = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            seat = seats.free() => seat,
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = shared.control.resumed() => {}
        }
        let free = take_free(&seats, first).await;
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
        let (store, caller) = (shared.client.store(), shared.client.caller());
        // No more are started than there are slots; the others are at hand for when a slot becomes free.
        let starts = || seats.slots_free();
        match store.claim_ahead(caller, &request, starts, limits::CLAIM_WAIT_MAX, gone).await {
            Ok(answer) => {
                shared.control.claimed(answer.is_paused);
                start(&shared, &seats, answer.jobs, free);
                // Paused while the claim was on its way: these came too late to be given back with the others.
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
                if !is_passing(&error) {
                    tracing::error!(%error, %queue, "cannot claim any more");
                    return Err(error);
                }
                tracing::warn!(%error, %queue, "cannot claim, will try again");
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    () = tokio::time::sleep(TROUBLE_PAUSE) => {}
                }
            }
        }
    }
}

/// The error of the first lane that cannot go on.
pub(super) async fn first_error(lanes: &mut JoinSet<Result<(), WorkError>>) -> WorkError {
    while let Some(ended) = lanes.join_next().await {
        match ended {
            Ok(Err(error)) => return error,
            Err(panic) if panic.is_panic() => {
                return WorkError::Store(StoreError::Stopped(format!(
                    "the worker cannot claim any more: {panic}"
                )));
            }
            _ => {}
        }
    }
    std::future::pending().await
}

fn is_passing(error: &WorkError) -> bool {
    matches!(error, WorkError::Store(error) if !matches!(error, StoreError::Stopped(_)))
}

/// Takes every seat that is free, the first of which was waited for.
///
/// Quick handlers end together, a few turns of the runtime apart: as long as seats keep becoming free, others get their
/// turn first, and one claim fills them all instead of one after the other.
async fn take_free(seats: &SlotPool, first: OwnedSemaphorePermit) -> Vec<OwnedSemaphorePermit> {
    let mut free = seats.free_now();
    loop {
        yield_now().await;
        let now_free = seats.free_now();
        if now_free <= free {
            break;
        }
        free = now_free;
    }
    let others = std::iter::from_fn(|| seats.another());
    std::iter::once(first).chain(others).take(limits::CLAIM_JOBS_MAX).collect()
}

fn start(
    shared: &Arc<WorkerShared>,
    seats: &Arc<SlotPool>,
    jobs: Vec<Claimed>,
    free: Vec<OwnedSemaphorePermit>,
) {
    if jobs.iter().any(|claimed| claimed.job.crashes > 0) {
        seats.disable_prefetch();
    }
    for (claimed, seat) in jobs.into_iter().zip(free) {
        // In this order: those whose attempt counts already get the slots.
        let slot = if claimed.job.has.claim_ahead { None } else { seats.slot() };
        execute::start(shared.clone(), claimed, seats.clone(), seat, slot);
    }
}
