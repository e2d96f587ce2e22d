//! Leaving: drain, interrupt, release, report, deregister. Every stage has a limit, so a handler that is stuck cannot keep
//! its worker from leaving; its job goes back without an attempt being counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::WorkerShared;
use crate::context::CancelReason;
use crate::limits;
use crate::store::command::finish::{Outcome, Report};

/// How a worker left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShutdownReport {
    /// Jobs that were given back unfinished.
    pub released: usize,
}

/// Ends all work and reports on it; says how many jobs were given back.
pub(super) async fn leave(
    shared: &WorkerShared,
    reporting: JoinHandle<()>,
    closing: &CancellationToken,
) -> usize {
    let before = shared.released.load(Ordering::Relaxed);
    let is_drained = tokio::time::timeout(shared.settings.drain, shared.running.emptied()).await.is_ok();
    if !is_drained {
        shared.cancel_all(CancelReason::Released);
        let _ended_or_not = tokio::time::timeout(shared.settings.grace, shared.running.emptied()).await;
        release_all(shared).await;
    }
    closing.cancel();
    let _ended_or_not = tokio::time::timeout(limits::SHUTDOWN_REPORT_TIMEOUT, reporting).await;
    shared.released.load(Ordering::Relaxed) - before
}

/// Leaves the registry.
pub(super) async fn farewell(shared: &WorkerShared, mut released: usize) -> ShutdownReport {
    match shared.client.store().deregister(shared.client.caller(), shared.id()).await {
        // Those whose handlers were dropped just before they would have been given back.
        Ok(rest) => released += rest,
        Err(error) => tracing::warn!(%error, "could not say farewell; leases end by themselves"),
    }
    ShutdownReport { released }
}

/// Gives everything back whenever the worker is paused aggressively from within its program (M55).
pub(super) async fn release_when_paused(shared: Arc<WorkerShared>, over: CancellationToken) {
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            () = shared.control.interrupted() => {}
        }
        release_all(&shared).await;
        tokio::select! {
            () = over.cancelled() => return,
            () = shared.control.resumed() => {}
        }
    }
}

/// Tells the store whenever the program pauses the worker or lets it go on: jobs that wait for it say so.
pub(super) async fn tell_when_paused(shared: Arc<WorkerShared>, over: CancellationToken) {
    loop {
        for is_paused in [true, false] {
            tokio::select! {
                () = over.cancelled() => return,
                () = shared.control.paused(), if is_paused => {}
                () = shared.control.resumed(), if !is_paused => {}
            }
            let store = shared.client.store();
            if let Err(error) = store.tell_paused(shared.client.caller(), shared.id(), is_paused).await {
                tracing::warn!(%error, is_paused, "the store does not know that the worker is paused or goes on");
            }
        }
    }
}

/// Gives back everything that still runs.
pub(crate) async fn release_all(shared: &WorkerShared) {
    for cx in shared.running.all() {
        cx.cancel(CancelReason::Released);
        if let Some(_leaving) = shared.running.remove(cx.job_id(), cx.fence()) {
            shared.report(Report::new(cx.job_id(), cx.fence(), Outcome::Released)).await;
        }
    }
}
