//! Background maintenance of a store: promotes delayed jobs, reaps lost leases, expires jobs, ends pauses, submits
//! scheduled jobs, seals the audit trail, rolls statistics up, decides about alerts, prunes. Any number of processes
//! may run it on one store; every task is a conditional change, so concurrent runs have no additional effect.

use std::future::Future;
use std::time::Duration;

use crate::audit::Seal;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::limits;
use crate::store::Store;
use crate::store::command::alert::evaluate::AlertReport;
use crate::store::command::maintenance::audit_chain::SealReport;
use crate::store::command::maintenance::roll_up::RollUpReport;

/// How often final jobs are scanned for pruning.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// How often maintenance looks whether a minute is over and is to be sampled.
const ROLL_UP_EVERY: Duration = Duration::from_secs(10);
/// Pause after a store error.
const ERROR_PAUSE: Duration = Duration::from_secs(1);

/// Runs all tasks until `shutdown` resolves.
///
/// Sleeps until the next timer, at most a second, so that no timer is late by more than that; an idle store is
/// read once a second. Pruning, sealing, statistics and alerts run concurrently with timers: a million old jobs must
/// not delay a lost lease.
pub async fn run(store: &Store, shutdown: impl Future<Output = ()>) {
    tokio::select! {
        () = shutdown => {}
        _ = async {
            tokio::join!(
                run_timers(store),
                run_pruner(store),
                run_sealer(store),
                run_roller(store),
                run_alerts(store)
            )
        } => {}
    }
}

/// Applies timers, until the store has stopped.
async fn run_timers(store: &Store) {
    while let Some(pause) = pause_after(round(store).await) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Jobs wait for unfinished cascades.
            () = store.environment().wakeups.until_cascades_left() => {}
        }
    }
}

/// Prunes old jobs, until the store has stopped.
async fn run_pruner(store: &Store) {
    while let Some(pause) = pause_after(store.prune().await.map(|_| PRUNE_EVERY)) {
        tokio::time::sleep(pause).await;
    }
}

/// Rolls statistics up, until the store has stopped. Runs separately, because it waits for a reader.
async fn run_roller(store: &Store) {
    let pause = |rolled: RollUpReport| if rolled.has_more { Duration::ZERO } else { ROLL_UP_EVERY };
    while let Some(pause) = pause_after(store.roll_up().await.map(pause)) {
        tokio::time::sleep(pause).await;
    }
}

/// Decides about alerts, until the store has stopped. Runs separately, because it waits for a reader.
async fn run_alerts(store: &Store) {
    let pause = |checked: AlertReport| if checked.has_more { Duration::ZERO } else { limits::ALERTS_EVERY };
    while let Some(pause) = pause_after(store.check_alerts().await.map(pause)) {
        tokio::time::sleep(pause).await;
    }
}

/// Seals the audit trail, until the store has stopped. Runs separately, because it waits for a reader, and timers must
/// not. While another process seals, this one only checks now and then whether it still does.
async fn run_sealer(store: &Store) {
    let mut left: Option<Seal> = None;
    let mut logged_at: Option<Timestamp> = None;
    loop {
        let sealed = store.seal_unless_moved(left.clone()).await;
        if let Err(StoreError::Damaged(damage)) = &sealed {
            tracing::error!(damage, "failed to seal the audit trail");
            tokio::time::sleep(limits::SEAL_LOGGED_EVERY).await;
            continue;
        }
        let pause = sealed.map(|SealReport { seal, has_more, is_left_to_others }| {
            let is_new = !is_left_to_others && left.as_ref() != Some(&seal) && seal.through > 0;
            let now = store.environment().clock.now();
            if is_new && logged_at.is_none_or(|at| now.since(at) >= limits::SEAL_LOGGED_EVERY) {
                logged_at = Some(now);
                // External logs can later prove that the trail was not truncated or rewritten.
                tracing::info!(head = %seal, "sealed the audit trail");
            }
            left = Some(seal);
            match (has_more, is_left_to_others) {
                (true, _) => Duration::ZERO,
                (false, true) => limits::SEAL_RETRY_AFTER,
                (false, false) => limits::POLL_INTERVAL,
            }
        });
        let Some(pause) = pause_after(pause) else { return };
        tokio::time::sleep(pause).await;
    }
}

/// How long to wait before the next round; `None` once the store has stopped.
fn pause_after(outcome: Result<Duration, StoreError>) -> Option<Duration> {
    match outcome {
        Ok(pause) => Some(pause),
        Err(error) if error.is_permanent() => None,
        Err(error) => {
            tracing::warn!(%error, "maintenance round failed");
            Some(ERROR_PAUSE)
        }
    }
}

/// Runs one round. Returns how long to wait for the next.
async fn round(store: &Store) -> Result<Duration, StoreError> {
    let ticked = store.tick().await?;
    if ticked.has_more {
        return Ok(Duration::ZERO);
    }
    let now = store.environment().clock.now();
    let until_next = ticked.next_at.map_or(limits::POLL_INTERVAL, |at| at.since(now));
    Ok(until_next.clamp(Duration::from_millis(1), limits::POLL_INTERVAL))
}
