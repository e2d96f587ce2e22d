//! Concurrency keys in a claim: the number of running jobs per key, and its tokens.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::error::StoreError;
use crate::job::{ConcurrencyKey, Lane, QueueName};
use crate::store::command::effects::rate_limit::KeyBucket;
use crate::store::documents::config::Config;
use crate::store::tx::write_tx::WriteTx;

/// Whether a job may run with regard to its concurrency key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyDecision {
    /// The job may run.
    Free,
    /// The running limit is reached.
    Held,
    /// The key has no token.
    Throttled,
}

/// The keys this claim has used.
#[derive(Default)]
pub(super) struct Keys {
    running: HashMap<ConcurrencyKey, u64>,
    buckets: HashMap<(QueueName, ConcurrencyKey), KeyBucket>,
}

impl Keys {
    /// Whether one more job with this key may run in this lane; if so, it is counted.
    pub(super) fn take(
        &mut self,
        tx: &mut WriteTx<'_>,
        config: &Config,
        lane: &Lane,
        key: ConcurrencyKey,
    ) -> Result<KeyDecision, StoreError> {
        let running = match self.running.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(tx.running_with(key)?),
        };
        let has_capacity = *running < config.running_per_key(lane);
        let Some(rate) = config.rate_per_key(lane) else {
            *running += u64::from(has_capacity);
            return Ok(if has_capacity { KeyDecision::Free } else { KeyDecision::Held });
        };
        let kept = match self.buckets.entry((lane.queue.clone(), key)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(tx.key_bucket(&lane.queue, key, rate)?),
        };
        if !has_capacity {
            // The job is unblocked by the end of a holder, not by a token.
            kept.has_waiting = false;
            return Ok(KeyDecision::Held);
        }
        if kept.bucket.tokens() == 0 {
            kept.has_waiting = true;
            return Ok(KeyDecision::Throttled);
        }
        kept.bucket = kept.bucket.without(1);
        *running += 1;
        Ok(KeyDecision::Free)
    }

    /// Consumes the tokens.
    pub(super) fn write_back(self, tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
        let mut buckets: Vec<_> = self.buckets.into_iter().collect();
        buckets.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for ((queue, key), kept) in buckets {
            tx.put_key_bucket(&queue, key, kept)?;
        }
        Ok(())
    }
}
