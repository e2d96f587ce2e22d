//! Heartbeats: renew leases, receive suspensions, cancellations and lost leases. They continue while the worker drains.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::WorkerShared;
use crate::api::Interrupts;
use crate::clock::{Stopwatch, WaitLimit};
use crate::context::CancelReason;
use crate::error::WorkError;
use crate::limits;
use crate::store::command::heartbeat::HeartbeatItem;
use crate::store::metrics::Fallback;

/// Shortest pause between two reads of interruptions.
const INTERRUPT_PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn run(shared: Arc<WorkerShared>, over: CancellationToken) {
    let every = shared.settings.heartbeat_every;
    // A worker without heartbeats loses its leases. Its handlers are told to stop early enough to finish before other
    // workers start their jobs.
    let grace = shared.settings.grace.min(limits::WORKER_SILENCE_MAX / 3);
    let silence = limits::WORKER_CUT_OFF.saturating_sub(grace);
    let mut deadline = WaitLimit::for_duration(silence);
    // The subscription of the last wait, if the wait ended without a notification.
    let mut missed: Option<Interrupts> = None;
    loop {
        let mut interrupts = shared.client.api().clone().interrupts();
        let asked = WaitLimit::for_duration(silence);
        match beat_within(&shared, deadline).await {
            Ok(is_interrupted) => {
                deadline = asked;
                if is_interrupted && missed.take().is_some_and(|interrupts| !interrupts.is_notified()) {
                    shared.client.api().environment().metrics.fell_back(Fallback::Interrupt);
                }
            }
            Err(WorkError::NoSuchWorker(forgotten)) => {
                if let Err(error) = shared.register_again(forgotten).await {
                    tracing::warn!(%error, "failed to register again");
                }
            }
            Err(WorkError::Store(error)) if error.is_permanent() => {
                return shared.cancel_all(CancelReason::StoreUnreachable);
            }
            Err(error) => tracing::warn!(%error, "heartbeat failed"),
        }
        let is_notified = tokio::select! {
            () = over.cancelled() => return,
            () = due(&shared) => false,
            () = interrupts.notified(shared.id(), || shared.running.beats_to_go_on(), every) => {
                tokio::time::sleep(INTERRUPT_PAUSE).await;
                true
            }
        };
        missed = (!is_notified).then_some(interrupts);
    }
}

/// Returns when the next heartbeat is due: after the worker's interval, or a third of the shortest lease, so that one that
/// gets lost ends none.
async fn due(shared: &WorkerShared) {
    let since_last = Stopwatch::start();
    loop {
        let shortened = shared.running.shortened();
        let lease = shared.running.shortest_lease().unwrap_or(Duration::MAX);
        let pause = shared.settings.heartbeat_every.min(lease / 3);
        tokio::select! {
            () = tokio::time::sleep(pause.saturating_sub(since_last.elapsed())) => return,
            () = shortened => {}
        }
    }
}

/// Sends one heartbeat, and cancels all handlers if no reply arrives before the deadline; then still waits for the
/// reply. Returns whether handlers were told to stop.
async fn beat_within(shared: &WorkerShared, deadline: WaitLimit) -> Result<bool, WorkError> {
    let heartbeat = beat(shared);
    tokio::pin!(heartbeat);
    tokio::select! {
        biased;
        answer = &mut heartbeat => answer,
        () = deadline.elapsed_wait() => {
            shared.cancel_all(CancelReason::StoreUnreachable);
            heartbeat.await
        }
    }
}

/// Sends one heartbeat for all running jobs. Returns whether handlers were told to stop.
pub(crate) async fn beat(shared: &WorkerShared) -> Result<bool, WorkError> {
    // Before their leases are renewed: from here on the store knows that they have started.
    let mut started = shared.running.started();
    started.truncate(limits::OUTCOMES_PER_CALL_MAX);
    shared.client.api().start(shared.client.caller(), shared.id(), started).await?;
    let mut beats = shared.running.heartbeat_items();
    let mut is_interrupted = false;
    loop {
        let rest = beats.split_off(beats.len().min(limits::OUTCOMES_PER_CALL_MAX));
        is_interrupted |= beat_some(shared, beats).await?;
        if rest.is_empty() {
            return Ok(is_interrupted);
        }
        beats = rest;
    }
}

async fn beat_some(shared: &WorkerShared, beats: Vec<HeartbeatItem>) -> Result<bool, WorkError> {
    let mut is_interrupted = false;
    let fences: Vec<_> = beats.iter().map(|beat| (beat.job, beat.fence)).collect();
    let reply = shared.client.api().heartbeat(shared.client.caller(), shared.id(), beats).await?;
    for ((id, directive), (_, fence)) in reply.directives.into_iter().zip(fences) {
        let Some(why) = CancelReason::of(directive) else { continue };
        // Ignore directives for attempts that have finished in the meantime.
        if let Some(cx) = shared.running.get(id).filter(|cx| cx.fence() == fence) {
            tracing::info!(job = %id, directive = directive.as_str(), "telling the handler to stop");
            cx.cancel(why);
            is_interrupted = true;
        }
    }
    shared.control.on_heartbeat(reply.paused);
    Ok(is_interrupted)
}
