//! Signs of life: extends leases, hears what was suspended, cancelled or lost, and goes on while the worker drains.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::WorkerShared;
use crate::clock::WaitLimit;
use crate::context::CancelReason;
use crate::error::{StoreError, WorkError};
use crate::limits;
use crate::store::api::work::Interrupts;
use crate::store::command::heartbeat::HeartbeatItem;
use crate::store::metrics::Fallback;

/// News from elsewhere are looked at no more often than this.
const NEWS_PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn run(shared: Arc<WorkerShared>, over: CancellationToken) {
    let every = shared.settings.heartbeat_every;
    // A worker that nobody has heard loses its leases: its handlers are told in time to be gone before others begin.
    let grace = shared.settings.grace.min(limits::WORKER_SILENCE_MAX / 3);
    let silence = limits::WORKER_SILENCE_MAX.saturating_sub(grace);
    let mut heard = WaitLimit::for_duration(silence);
    // The news that the last wait was for, if it ended without any.
    let mut unheard: Option<Interrupts> = None;
    loop {
        let mut interrupts = shared.client.store().interrupts();
        let asked = WaitLimit::for_duration(silence);
        match beat_within(&shared, heard).await {
            Ok(is_interrupted) => {
                heard = asked;
                if is_interrupted && unheard.take().is_some_and(|interrupts| !interrupts.has_news()) {
                    shared.client.store().environment().meters.fell_back(Fallback::Interrupt);
                }
            }
            Err(WorkError::NoSuchWorker(forgotten)) => {
                if let Err(error) = shared.register_again(forgotten).await {
                    tracing::warn!(%error, "cannot register again");
                }
            }
            Err(WorkError::Store(StoreError::Stopped(_))) => {
                return shared.cancel_all(CancelReason::Unheard);
            }
            Err(error) => tracing::warn!(%error, "heartbeat was not taken"),
        }
        let has_news = tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(every) => false,
            () = interrupts.news(shared.client.caller(), shared.id(), || shared.running.beats_to_go_on(), every) => {
                tokio::time::sleep(NEWS_PAUSE).await;
                true
            }
        };
        unheard = (!has_news).then_some(interrupts);
    }
}

/// Beats once, and cancels everything if the answer has not come when patience ends; then still waits for it. True if
/// handlers were told to stop.
async fn beat_within(shared: &WorkerShared, heard: WaitLimit) -> Result<bool, WorkError> {
    let beating = beat(shared);
    tokio::pin!(beating);
    tokio::select! {
        biased;
        answer = &mut beating => answer,
        () = heard.elapsed_wait() => {
            shared.cancel_all(CancelReason::Unheard);
            beating.await
        }
    }
}

/// Beats once for everything that runs; true if handlers were told to stop.
pub(crate) async fn beat(shared: &WorkerShared) -> Result<bool, WorkError> {
    // Before their leases are extended: from here on it is known that they have started.
    let mut started = shared.running.started();
    started.truncate(limits::OUTCOMES_PER_CALL_MAX);
    shared.client.store().start(shared.client.caller(), shared.id(), started).await?;
    let mut beats = shared.running.beats();
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
    let pulse = shared.client.store().heartbeat(shared.client.caller(), shared.id(), beats).await?;
    for ((id, directive), (_, fence)) in pulse.directives.into_iter().zip(fences) {
        let Some(why) = CancelReason::of(directive) else { continue };
        // An attempt that ended meanwhile is none of this directive's business.
        if let Some(cx) = shared.running.get(id).filter(|cx| cx.fence() == fence) {
            tracing::info!(job = %id, directive = directive.as_str(), "handler is told to stop");
            cx.cancel(why);
            is_interrupted = true;
        }
    }
    shared.control.on_heartbeat(pulse.paused);
    Ok(is_interrupted)
}
