//! What keeps a store going by itself: promote, reap, expire, lift, submit the jobs of schedules, seal, prune. Any number of
//! processes may run it on one store; every duty is a conditional change, so two that do it at once do it once.

use std::future::Future;
use std::time::Duration;

use crate::audit::Seal;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::limits;
use crate::store::Store;
use crate::store::command::audit_chain::SealReport;

/// How often final jobs are looked through for those to be removed.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// How long to wait after the store was in trouble.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// Runs all duties until `shutdown` is over.
///
/// Sleeps until the next moment at which time changes anything, at most a second, so that nothing is acted on later than
/// that (M35); an idle store is looked at once a second and otherwise left alone. Pruning and sealing go on beside it: a
/// million old jobs must not keep a lost lease waiting.
pub async fn run(store: &Store, shutdown: impl Future<Output = ()>) {
    tokio::select! {
        () = shutdown => {}
        ((), (), ()) = async { tokio::join!(run_timers(store), run_pruner(store), run_sealer(store)) } => {}
    }
}

/// Lets time act, until the store has stopped.
async fn run_timers(store: &Store) {
    while let Some(pause) = pause_after(round(store).await) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // Jobs wait for what a commit has left to do.
            () = store.environment().wakeups.until_cascades_left() => {}
        }
    }
}

/// Removes what is old, until the store has stopped.
async fn run_pruner(store: &Store) {
    while let Some(pause) = pause_after(store.prune().await.map(|_| PRUNE_EVERY)) {
        tokio::time::sleep(pause).await;
    }
}

/// Seals the audit trail, until the store has stopped. Apart from the rest: it waits for its turn among those who read,
/// and what time does must not. While another process is at it, this one only looks now and then whether it still is.
async fn run_sealer(store: &Store) {
    let mut left: Option<Seal> = None;
    let mut logged_at: Option<Timestamp> = None;
    loop {
        let sealed = store.seal_unless_moved(left.clone()).await;
        if let Err(StoreError::Damaged(damage)) = &sealed {
            tracing::error!(damage, "the audit trail cannot be sealed");
            tokio::time::sleep(limits::SEAL_LOGGED_EVERY).await;
            continue;
        }
        let pause = sealed.map(|SealReport { seal, has_more, is_left_to_others }| {
            let is_new = !is_left_to_others && left.as_ref() != Some(&seal) && seal.through > 0;
            let now = store.environment().clock.now();
            if is_new && logged_at.is_none_or(|at| now.since(at) >= limits::SEAL_LOGGED_EVERY) {
                logged_at = Some(now);
                // Whoever keeps logs elsewhere can prove later that the trail was not cut or written anew.
                tracing::info!(head = %seal, "the audit trail is sealed");
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

/// How long to wait before the next round; none once the store has stopped.
fn pause_after(outcome: Result<Duration, StoreError>) -> Option<Duration> {
    match outcome {
        Ok(pause) => Some(pause),
        Err(StoreError::Stopped(_)) => None,
        Err(error) => {
            tracing::warn!(%error, "maintenance could not do its round");
            Some(TROUBLE_PAUSE)
        }
    }
}

/// One round; says how long nothing will happen.
async fn round(store: &Store) -> Result<Duration, StoreError> {
    let ticked = store.tick().await?;
    if ticked.has_more {
        return Ok(Duration::ZERO);
    }
    let now = store.environment().clock.now();
    let until_next = ticked.next_at.map_or(limits::POLL_INTERVAL, |at| at.since(now));
    Ok(until_next.clamp(Duration::from_millis(1), limits::POLL_INTERVAL))
}
