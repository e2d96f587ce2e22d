//! Signs of life: extends leases, hears what was suspended, cancelled or lost, and goes on while the worker drains.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Crew;
use crate::error::{StoreError, WorkError};
use crate::limits;
use crate::store::command::heartbeat::{Beat, Directive};

/// News from elsewhere are looked at no more often than this.
const NEWS_PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn run(crew: Arc<Crew>, over: CancellationToken) {
    let every = crew.settings.heartbeat_every;
    let mut unheard = Duration::ZERO;
    loop {
        let mut interrupts = crew.queue.store().environment().wakeups.interrupts();
        match beat(&crew).await {
            Ok(()) => unheard = Duration::ZERO,
            Err(WorkError::Store(StoreError::Stopped(_))) => return cancel_all(&crew),
            Err(error) => {
                tracing::warn!(%error, "heartbeat was not taken");
                unheard += every;
            }
        }
        // A worker that nobody has heard loses its leases: its handlers stop before others begin.
        if unheard + every > limits::WORKER_SILENCE_MAX {
            cancel_all(&crew);
        }
        tokio::select! {
            () = over.cancelled() => return,
            () = tokio::time::sleep(every) => {}
            () = interrupts.news() => tokio::time::sleep(NEWS_PAUSE).await,
        }
    }
}

/// Beats once for everything that runs.
pub(crate) async fn beat(crew: &Crew) -> Result<(), WorkError> {
    let mut beats = crew.running.beats();
    loop {
        let rest = beats.split_off(beats.len().min(limits::OUTCOMES_PER_CALL_MAX));
        beat_some(crew, beats).await?;
        if rest.is_empty() {
            return Ok(());
        }
        beats = rest;
    }
}

async fn beat_some(crew: &Crew, beats: Vec<Beat>) -> Result<(), WorkError> {
    let fences: Vec<_> = beats.iter().map(|beat| (beat.job, beat.fence)).collect();
    let pulse = crew.queue.store().heartbeat(crew.queue.caller(), crew.id, beats).await?;
    for ((id, directive), (_, fence)) in pulse.directives.into_iter().zip(fences) {
        if directive == Directive::Continue {
            continue;
        }
        // An attempt that ended meanwhile is none of this directive's business.
        if let Some(cx) = crew.running.get(id).filter(|cx| cx.fence() == fence) {
            tracing::info!(job = %id, directive = directive.as_str(), "handler is told to stop");
            cx.cancel();
        }
    }
    crew.control.heard(pulse.paused);
    Ok(())
}

fn cancel_all(crew: &Crew) {
    for cx in crew.running.all() {
        cx.cancel();
    }
}
