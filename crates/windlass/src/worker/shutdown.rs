//! Shutdown: drain, interrupt, release, report, deregister. Every stage has a timeout, so a stuck handler cannot keep
//! its worker from shutting down. Its job is released without counting an attempt.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::WorkerShared;
use crate::context::CancelReason;
use crate::limits;
use crate::store::command::finish::{Outcome, Report};

/// The result of a worker's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Jobs that were released unfinished.
    pub released: usize,
}

/// Ends all running jobs and reports their outcomes. Returns how many jobs were released.
pub(super) async fn leave(
    shared: &WorkerShared,
    completer: JoinHandle<()>,
    closing: &CancellationToken,
) -> usize {
    let before = shared.released.load(Ordering::Relaxed);
    let is_drained = tokio::time::timeout(shared.settings.drain, shared.running.emptied()).await.is_ok();
    if !is_drained {
        shared.cancel_all(CancelReason::Released);
        let _ended_or_not = tokio::time::timeout(shared.settings.grace, shared.running.emptied()).await;
        release_dropped(shared).await;
    }
    closing.cancel();
    let _ended_or_not = tokio::time::timeout(limits::SHUTDOWN_REPORT_TIMEOUT, completer).await;
    shared.released.load(Ordering::Relaxed) - before
}

/// Deregisters the worker.
pub(super) async fn deregister(shared: &WorkerShared, mut released: usize) -> ShutdownReport {
    match shared.client.api().deregister(shared.client.caller(), shared.id()).await {
        // Jobs whose handlers were dropped just before they would have been released.
        Ok(rest) => released += rest,
        Err(error) => tracing::warn!(%error, "failed to deregister worker; its leases will expire"),
    }
    ShutdownReport { released }
}

/// Releases all jobs whenever the program pauses the worker aggressively.
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

/// Reports to the store when the program pauses or resumes the worker, so that `explain` shows it.
pub(super) async fn report_pauses(shared: Arc<WorkerShared>, over: CancellationToken) {
    loop {
        for is_paused in [true, false] {
            tokio::select! {
                () = over.cancelled() => return,
                () = shared.control.paused(), if is_paused => {}
                () = shared.control.resumed(), if !is_paused => {}
            }
            let store = shared.client.api();
            if let Err(error) = store.set_worker_paused(shared.client.caller(), shared.id(), is_paused).await
            {
                tracing::warn!(%error, is_paused, "failed to report that the worker was paused or resumed");
            }
        }
    }
}

/// Releases all jobs that still run, after their handlers were dropped: another worker may start them at once. A handler
/// that blocks its thread is not waited for any longer than the limit.
async fn release_dropped(shared: &WorkerShared) {
    let running = shared.running.all().into_iter();
    let leaving: Vec<_> =
        running.filter_map(|cx| Some((shared.running.remove(cx.job_id(), cx.fence())?, cx))).collect();
    let _dropped_or_not =
        tokio::time::timeout(limits::HANDLER_DROP_TIMEOUT, shared.handlers_alive.write()).await;
    for (_leaving, cx) in leaving {
        shared.report(Report::new(cx.job_id(), cx.fence(), Outcome::Released)).await;
    }
}

/// Releases all jobs that still run.
pub(crate) async fn release_all(shared: &WorkerShared) {
    for cx in shared.running.all() {
        cx.cancel(CancelReason::Released);
        if let Some(_leaving) = shared.running.remove(cx.job_id(), cx.fence()) {
            shared.report(Report::new(cx.job_id(), cx.fence(), Outcome::Released)).await;
        }
    }
}
