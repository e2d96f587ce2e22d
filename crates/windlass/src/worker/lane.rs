//! One queue's loop: wait for free slots and for work, claim, start. It polls only as a backstop (M103).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Crew, execute, give_way, shutdown};
use crate::error::{StoreError, WorkError};
use crate::job::QueueName;
use crate::limits;
use crate::store::command::claim::{ClaimRequest, Claimed};

/// How long to wait after the store was in trouble.
const TROUBLE_PAUSE: Duration = Duration::from_millis(500);

/// Runs until `stop`; an error if it cannot go on.
pub(super) async fn run(
    crew: Arc<Crew>,
    queue: QueueName,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
) -> Result<(), WorkError> {
    let types = crew.types();
    loop {
        let first = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            permit = slots.clone().acquire_owned() => permit.expect("the semaphore is never closed"),
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = crew.control.resumed() => {}
        }
        let permits = take_free(&slots, first).await;
        let request = ClaimRequest {
            worker: crew.id(),
            queues: Some(vec![queue.clone()]),
            types: types.clone(),
            limit: permits.len(),
        };
        let gone = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = crew.control.paused() => {}
            }
        };
        let (store, caller) = (crew.queue.store(), crew.queue.caller());
        match store.claim_unless(caller, &request, limits::CLAIM_WAIT_MAX, gone).await {
            Ok(answer) => {
                start(&crew, answer.jobs, permits);
                // Paused while the claim was on its way: these came too late to be given back with the others.
                if crew.control.is_interrupted() {
                    shutdown::release_all(&crew).await;
                }
            }
            Err(error) => {
                drop(permits);
                let again = match error {
                    WorkError::NoSuchWorker(forgotten) => crew.register_again(forgotten).await,
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
        if let Ok(Err(error)) = ended {
            return error;
        }
    }
    std::future::pending().await
}

fn is_passing(error: &WorkError) -> bool {
    matches!(error, WorkError::Store(error) if !matches!(error, StoreError::Stopped(_)))
}

/// Takes every slot that is free, the first of which was waited for.
///
/// Quick handlers end together, a few turns of the runtime apart: as long as slots keep becoming free, others get their
/// turn first, and one claim fills them all instead of one after the other.
async fn take_free(slots: &Arc<Semaphore>, first: OwnedSemaphorePermit) -> Vec<OwnedSemaphorePermit> {
    let mut free = slots.available_permits();
    loop {
        give_way().await;
        let now_free = slots.available_permits();
        if now_free <= free {
            break;
        }
        free = now_free;
    }
    let mut permits = vec![first];
    while permits.len() < limits::CLAIM_JOBS_MAX {
        match slots.clone().try_acquire_owned() {
            Ok(permit) => permits.push(permit),
            Err(_) => break,
        }
    }
    permits
}

fn start(crew: &Arc<Crew>, jobs: Vec<Claimed>, permits: Vec<OwnedSemaphorePermit>) {
    for (claimed, permit) in jobs.into_iter().zip(permits) {
        execute::start(crew.clone(), claimed, permit);
    }
}
