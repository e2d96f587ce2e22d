//! Heartbeats: renew leases, receive suspensions, cancellations and lost leases. They continue while the worker drains.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::WorkerShared;
use crate::api::Interrupts;
use crate::clock::{LeaseWatch, Stopwatch};
use crate::context::CancelReason;
use crate::error::WorkError;
use crate::limits;
use crate::store::command::heartbeat::HeartbeatItem;
use crate::store::metrics::Fallback;

/// Shortest pause between two reads of interruptions.
const INTERRUPT_PAUSE: Duration = Duration::from_millis(20);
/// First and longest pause after a heartbeat that failed.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How often silence is looked at.
const SILENCE_STEP: Duration = Duration::from_secs(1);
/// Shortest pause between heartbeats.
const PAUSE_MIN: Duration = Duration::from_millis(100);

pub(super) async fn run(shared: Arc<WorkerShared>, over: CancellationToken) {
    let answered = Mutex::new(LeaseWatch::start());
    tokio::select! {
        () = send_until(&shared, &over, &answered) => {}
        never = stop_when_silent(&shared, &answered) => match never {},
    }
}

/// A worker without heartbeats loses its leases. Its handlers are asked to stop early enough to end before other workers
/// start their jobs. Jobs that were claimed since are not affected: the store knew the worker then.
async fn stop_when_silent(shared: &WorkerShared, answered: &Mutex<LeaseWatch>) -> Infallible {
    let silence = limits::WORKER_CUT_OFF.saturating_sub(silent_grace(shared.settings.grace));
    loop {
        let left = silence.saturating_sub(lock(answered).elapsed());
        if left.is_zero() {
            for cx in shared.running.claimed_before(silence) {
                cx.cancel(CancelReason::StoreUnreachable);
            }
        }
        // A timer stands still while the machine is suspended.
        let next = if left.is_zero() { SILENCE_STEP } else { left.min(SILENCE_STEP) };
        tokio::time::sleep(next).await;
    }
}

/// The grace period of handlers that stop because the store does not answer.
pub(super) fn silent_grace(grace: Duration) -> Duration {
    grace.min(limits::WORKER_SILENCE_MAX / 3)
}

fn lock(answered: &Mutex<LeaseWatch>) -> MutexGuard<'_, LeaseWatch> {
    answered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends heartbeats until `over`, or until the store will never answer again.
async fn send_until(shared: &WorkerShared, over: &CancellationToken, answered: &Mutex<LeaseWatch>) {
    let every = shared.settings.heartbeat_every;
    let mut pause = RETRY_MIN;
    // The subscription of the last wait, if the wait ended without a notification.
    let mut missed: Option<Interrupts> = None;
    loop {
        let mut interrupts = shared.client.api().clone().interrupts();
        let asked = LeaseWatch::start();
        let failed = match beat(shared).await {
            Ok(is_interrupted) => {
                *lock(answered) = asked;
                if is_interrupted && missed.take().is_some_and(|interrupts| !interrupts.is_notified()) {
                    shared.client.api().environment().metrics.fell_back(Fallback::Interrupt);
                }
                None
            }
            Err(WorkError::NoSuchWorker(forgotten)) => {
                let registered = shared.register_again(forgotten).await;
                if registered.is_ok() {
                    *lock(answered) = asked;
                }
                registered.err()
            }
            Err(WorkError::Store(error)) if error.is_permanent() => {
                return shared.cancel_all(CancelReason::StoreUnreachable);
            }
            Err(error) => Some(error),
        };
        if let Some(error) = failed {
            tracing::warn!(%error, "heartbeat failed");
            tokio::select! {
                () = over.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(RETRY_MAX);
            continue;
        }
        pause = RETRY_MIN;
        let is_notified = tokio::select! {
            () = over.cancelled() => return,
            () = due(shared) => false,
            () = interrupts.notified(shared.id(), || shared.running.beats_to_continue(), every) => {
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
        let pause = shared.settings.heartbeat_every.min(lease / 3).max(PAUSE_MIN);
        tokio::select! {
            () = tokio::time::sleep(pause.saturating_sub(since_last.elapsed())) => return,
            () = shortened => {}
        }
    }
}

/// Sends one heartbeat for all running jobs. Returns whether handlers were asked to stop.
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
        let Some(why) = CancelReason::from_directive(directive) else { continue };
        // Ignore directives for attempts that have finished in the meantime.
        if let Some(cx) = shared.running.get(id).filter(|cx| cx.fence() == fence) {
            tracing::info!(job = %id, directive = directive.as_str(), "stopping the handler");
            cx.cancel(why);
            is_interrupted = true;
        }
    }
    shared.control.on_heartbeat(reply.paused);
    Ok(is_interrupted)
}
