//! Leaving: drain, interrupt, release, report, deregister. Every stage has a limit, so a handler that is stuck cannot keep
//! its worker from leaving; its job goes back without an attempt being counted.

use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Crew;
use crate::limits;
use crate::store::command::finish::{Outcome, Report};

/// How a worker left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Farewell {
    /// Jobs that were given back unfinished.
    pub released: usize,
}

pub(super) async fn leave(crew: &Crew, reporting: JoinHandle<()>, closing: &CancellationToken) -> Farewell {
    let is_drained = tokio::time::timeout(crew.settings.drain, crew.running.emptied()).await.is_ok();
    let mut farewell = Farewell::default();
    if !is_drained {
        crew.cancel_all();
        let _ended_or_not = tokio::time::timeout(crew.settings.grace, crew.running.emptied()).await;
        farewell.released = release_all(crew).await;
    }
    closing.cancel();
    let _ended_or_not = tokio::time::timeout(limits::FAREWELL_MAX, reporting).await;
    match crew.queue.store().deregister(crew.queue.caller(), crew.id()).await {
        // Those whose handlers were dropped just before they would have been given back.
        Ok(released) => farewell.released += released,
        Err(error) => tracing::warn!(%error, "could not say farewell; leases end by themselves"),
    }
    farewell
}

/// Gives everything back whenever the worker is paused aggressively from within its program (M55).
pub(super) async fn release_when_paused(crew: Arc<Crew>, over: CancellationToken) {
    loop {
        tokio::select! {
            () = over.cancelled() => return,
            () = crew.control.interrupted() => {}
        }
        release_all(&crew).await;
        tokio::select! {
            () = over.cancelled() => return,
            () = crew.control.resumed() => {}
        }
    }
}

/// Gives back everything that still runs; says how much.
pub(crate) async fn release_all(crew: &Crew) -> usize {
    let mut released = 0;
    for cx in crew.running.all() {
        cx.cancel();
        if let Some(_leaving) = crew.running.remove(cx.job_id(), cx.fence()) {
            let report = Report::new(cx.job_id(), cx.fence(), Outcome::Released);
            let _ = crew.reports.send(report).await;
            released += 1;
        }
    }
    released
}
