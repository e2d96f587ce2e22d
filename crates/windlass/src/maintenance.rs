//! What keeps a store going by itself: promote, reap, expire, lift, seal, prune. Any number of processes may run it on one
//! store; every duty is a conditional change, so two that do it at once do it once.

use std::future::Future;
use std::time::Duration;

use crate::error::StoreError;
use crate::limits;
use crate::store::Store;

/// How often final jobs are looked through for those to be removed.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// How long to wait after the store was in trouble.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// Runs all duties until `shutdown` is over.
///
/// Sleeps until the next moment at which time changes anything, at most a second, so that nothing is acted on later than
/// that (M35); an idle store is looked at once a second and otherwise left alone.
pub async fn run(store: &Store, shutdown: impl Future<Output = ()>) {
    tokio::pin!(shutdown);
    let mut rounds_until_prune = 0;
    loop {
        let pause = match round(store, &mut rounds_until_prune).await {
            Ok(pause) => pause,
            Err(StoreError::Stopped(_)) => return,
            Err(error) => {
                tracing::warn!(%error, "maintenance could not do its round");
                TROUBLE_PAUSE
            }
        };
        tokio::select! {
            () = &mut shutdown => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// One round; says how long nothing will happen.
async fn round(store: &Store, rounds_until_prune: &mut u64) -> Result<Duration, StoreError> {
    let ticked = store.tick().await?;
    let sealed = store.seal().await?;
    if *rounds_until_prune == 0 {
        store.prune().await?;
        *rounds_until_prune = PRUNE_EVERY.as_secs() / limits::BACKSTOP_EVERY.as_secs();
    }
    *rounds_until_prune -= 1;
    if ticked.has_more || sealed.has_more {
        return Ok(Duration::ZERO);
    }
    let now = store.environment().clock.now();
    let until_next = ticked.next_at.map_or(limits::BACKSTOP_EVERY, |at| at.since(now));
    Ok(until_next.clamp(Duration::from_millis(1), limits::BACKSTOP_EVERY))
}
