//! The batch collector: collects items that arrive one by one until there are enough, the first has waited long enough,
//! or no more will arrive. Of an item it only knows whether it has been withdrawn.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::yield_now;

/// An item that can be withdrawn before its batch starts.
pub(crate) trait BatchExit {
    /// Whether the item has been withdrawn.
    fn has_left(&self) -> bool;
}

/// Collects items into batches.
pub(crate) struct BatchCollector<T> {
    count_max: usize,
    wait_max: Duration,
    supply: OnceLock<BatchSource>,
    /// The batch that is being collected now.
    open: Mutex<Option<OpenBatch<T>>>,
}

/// Limits on the items that can arrive.
struct BatchSource {
    slots: usize,
    over: CancellationToken,
}

struct OpenBatch<T> {
    collected: Vec<T>,
    /// Delivers the batch once it is full.
    full: oneshot::Sender<Vec<T>>,
}

/// A new batch; the caller that added its first item waits on it for the others.
pub(crate) struct PendingBatch<T> {
    collector: Arc<BatchCollector<T>>,
    full: oneshot::Receiver<Vec<T>>,
}

impl<T: BatchExit> BatchCollector<T> {
    /// Collects up to `count_max` items, and waits at most `wait_max` after the first.
    pub(crate) fn new(count_max: usize, wait_max: Duration) -> Arc<BatchCollector<T>> {
        Arc::new(BatchCollector { count_max, wait_max, supply: OnceLock::new(), open: Mutex::default() })
    }

    /// Sets that at most `slots` items exist at once, and that no more arrive once `over` fires.
    pub(crate) fn supplied_by(&self, slots: usize, over: &CancellationToken) {
        // A worker starts once; a second call has no effect.
        let _first_or_not = self.supply.set(BatchSource { slots, over: over.clone() });
    }

    fn lock(&self) -> MutexGuard<'_, Option<OpenBatch<T>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item. Returns the new batch if the item is its first: the caller then has to wait for the others.
    pub(crate) fn add(self: &Arc<BatchCollector<T>>, one: T) -> Option<PendingBatch<T>> {
        let slots = self.supply.get().map_or(usize::MAX, |supply| supply.slots);
        let mut open = self.lock();
        let (mut batch, first) = open.take().map_or_else(|| self.begin(), |batch| (batch, None));
        batch.collected.push(one);
        let enough = self.count_max.min(slots);
        if batch.collected.len() >= enough {
            batch.collected.retain(|one| !one.has_left());
        }
        if batch.collected.len() >= enough {
            // The receiver is gone only if the runtime is shutting down.
            let _ = batch.full.send(batch.collected);
        } else {
            *open = Some(batch);
        }
        first
    }

    fn begin(self: &Arc<BatchCollector<T>>) -> (OpenBatch<T>, Option<PendingBatch<T>>) {
        let (sender, full) = oneshot::channel();
        let batch = OpenBatch { collected: Vec::new(), full: sender };
        (batch, Some(PendingBatch { collector: self.clone(), full }))
    }

    /// Returns when no more items will arrive: after `over` has fired, once items on their way have arrived.
    async fn closed(&self) {
        match self.supply.get() {
            Some(supply) => supply.over.cancelled().await,
            None => std::future::pending().await,
        }
        let mut here = self.count();
        loop {
            yield_now().await;
            let before = std::mem::replace(&mut here, self.count());
            if here <= before {
                return;
            }
        }
    }

    fn count(&self) -> usize {
        self.lock().as_ref().map_or(0, |batch| batch.collected.len())
    }
}

impl<T: BatchExit> PendingBatch<T> {
    /// Waits for the batch to be full, or for the longest wait.
    pub(crate) async fn all(mut self) -> Vec<T> {
        tokio::select! {
            biased;
            all = &mut self.full => return all.unwrap_or_default(),
            () = self.collector.closed() => {}
            () = tokio::time::sleep(self.collector.wait_max) => {}
        }
        let mut open = self.collector.lock();
        // The batch may have become full in the meantime. Otherwise the open batch is this one, since the next one
        // starts only after it.
        match self.full.try_recv() {
            Ok(all) => all,
            Err(_) => open.take().map(|batch| batch.collected).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_secs(5);
    const AT_ONCE: Duration = Duration::from_millis(1);

    impl BatchExit for u32 {
        fn has_left(&self) -> bool {
            *self == 0
        }
    }

    fn first(collector: &Arc<BatchCollector<u32>>, one: u32) -> PendingBatch<u32> {
        collector.add(one).expect("it is the first of its batch")
    }

    async fn within(time: Duration, batch: PendingBatch<u32>) -> Vec<u32> {
        tokio::time::timeout(time, batch.all()).await.expect("it waits no longer")
    }

    #[tokio::test(start_paused = true)]
    async fn enough_does_not_wait() {
        let collector = BatchCollector::new(2, WAIT);
        let one = first(&collector, 1);
        assert!(collector.add(2).is_none());
        let other = first(&collector, 3);
        assert_eq!(within(AT_ONCE, one).await, [1, 2]);
        assert_eq!(within(WAIT, other).await, [3]);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_have_left_do_not_count() {
        let collector = BatchCollector::new(2, WAIT);
        let batch = first(&collector, 0);
        assert!(collector.add(1).is_none() && collector.add(2).is_none());
        assert_eq!(within(AT_ONCE, batch).await, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_can_come_is_waited_for() {
        let collector = BatchCollector::new(100, WAIT);
        collector.supplied_by(2, &CancellationToken::new());
        let batch = first(&collector, 1);
        assert!(collector.add(2).is_none());
        assert_eq!(within(AT_ONCE, batch).await, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn when_nothing_more_comes_nothing_is_waited_for() {
        let (collector, over) = (BatchCollector::new(100, WAIT), CancellationToken::new());
        collector.supplied_by(100, &over);
        let batch = first(&collector, 1);
        over.cancel();
        assert_eq!(within(AT_ONCE, batch).await, [1]);
        assert_eq!(within(AT_ONCE, first(&collector, 2)).await, [2], "a later item does not wait");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_waits_no_longer_for_those_who_come_late() {
        let collector = BatchCollector::new(100, WAIT);
        let batch = first(&collector, 1);
        let late = collector.clone();
        tokio::spawn(async move {
            for one in 2..5 {
                tokio::time::sleep(WAIT * 2 / 5).await;
                late.add(one);
            }
        });
        assert_eq!(within(WAIT, batch).await, [1, 2, 3]);
    }
}
