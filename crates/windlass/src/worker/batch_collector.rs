//! Gathering: what comes one by one is collected until there is enough of it, the first has waited long enough, or
//! nothing more will come. It does not know what it gathers, only whether it is still there.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::yield_now;

/// Something that may leave again before enough has come.
pub(crate) trait BatchExit {
    /// Whether it has left.
    fn has_left(&self) -> bool;
}

/// Where things are gathered.
pub(crate) struct BatchCollector<T> {
    count_max: usize,
    wait_max: Duration,
    supply: OnceLock<BatchSource>,
    /// What is being gathered now.
    open: Mutex<Option<Open<T>>>,
}

/// How much can come at all.
struct BatchSource {
    slots: usize,
    over: CancellationToken,
}

struct Open<T> {
    gathered: Vec<T>,
    /// Takes them when there are enough.
    full: oneshot::Sender<Vec<T>>,
}

/// The task of whoever came first: to wait for the others.
pub(crate) struct PendingBatch<T> {
    gather: Arc<BatchCollector<T>>,
    full: oneshot::Receiver<Vec<T>>,
}

impl<T: BatchExit> BatchCollector<T> {
    /// Gathers up to `count_max`, and waits for no longer than `wait_max` after the first.
    pub(crate) fn new(count_max: usize, wait_max: Duration) -> Arc<BatchCollector<T>> {
        Arc::new(BatchCollector { count_max, wait_max, supply: OnceLock::new(), open: Mutex::default() })
    }

    /// Says that no more than `slots` are ever there at once, and none come any more once `over` fires.
    pub(crate) fn supplied_by(&self, slots: usize, over: &CancellationToken) {
        // A worker begins once; whoever would begin again finds the first's.
        let _first_or_not = self.supply.set(BatchSource { slots, over: over.clone() });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open<T>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one; whoever adds the first of a new lot has to wait for the others.
    pub(crate) fn add(self: &Arc<BatchCollector<T>>, one: T) -> Option<PendingBatch<T>> {
        let slots = self.supply.get().map_or(usize::MAX, |supply| supply.slots);
        let mut open = self.lock();
        let (mut lot, first) = open.take().map_or_else(|| self.begin(), |lot| (lot, None));
        lot.gathered.push(one);
        let enough = self.count_max.min(slots);
        if lot.gathered.len() >= enough {
            lot.gathered.retain(|one| !one.has_left());
        }
        if lot.gathered.len() >= enough {
            // Nobody waits for it only if the runtime ends, and everything with it.
            let _ = lot.full.send(lot.gathered);
        } else {
            *open = Some(lot);
        }
        first
    }

    fn begin(self: &Arc<BatchCollector<T>>) -> (Open<T>, Option<PendingBatch<T>>) {
        let (sender, full) = oneshot::channel();
        let lot = Open { gathered: Vec::new(), full: sender };
        (lot, Some(PendingBatch { gather: self.clone(), full }))
    }

    /// Returns when nothing more will come: after the last word, once those that are on their way have arrived.
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
        self.lock().as_ref().map_or(0, |lot| lot.gathered.len())
    }
}

impl<T: BatchExit> PendingBatch<T> {
    /// Waits for as many as may be.
    pub(crate) async fn all(mut self) -> Vec<T> {
        tokio::select! {
            biased;
            all = &mut self.full => return all.unwrap_or_default(),
            () = self.gather.closed() => {}
            () = tokio::time::sleep(self.gather.wait_max) => {}
        }
        let mut open = self.gather.lock();
        // It may have become full since; otherwise what is open is this lot, since the next begins only after it.
        match self.full.try_recv() {
            Ok(all) => all,
            Err(_) => open.take().map(|lot| lot.gathered).unwrap_or_default(),
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

    fn first(gather: &Arc<BatchCollector<u32>>, one: u32) -> PendingBatch<u32> {
        gather.add(one).expect("it is the first of its lot")
    }

    async fn within(time: Duration, lot: PendingBatch<u32>) -> Vec<u32> {
        tokio::time::timeout(time, lot.all()).await.expect("it waits no longer")
    }

    #[tokio::test(start_paused = true)]
    async fn enough_does_not_wait() {
        let gather = BatchCollector::new(2, WAIT);
        let one = first(&gather, 1);
        assert!(gather.add(2).is_none());
        let other = first(&gather, 3);
        assert_eq!(within(AT_ONCE, one).await, [1, 2]);
        assert_eq!(within(WAIT, other).await, [3]);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_have_left_do_not_count() {
        let gather = BatchCollector::new(2, WAIT);
        let lot = first(&gather, 0);
        assert!(gather.add(1).is_none() && gather.add(2).is_none());
        assert_eq!(within(AT_ONCE, lot).await, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_can_come_is_waited_for() {
        let gather = BatchCollector::new(100, WAIT);
        gather.supplied_by(2, &CancellationToken::new());
        let lot = first(&gather, 1);
        assert!(gather.add(2).is_none());
        assert_eq!(within(AT_ONCE, lot).await, [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn when_nothing_more_comes_nothing_is_waited_for() {
        let (gather, over) = (BatchCollector::new(100, WAIT), CancellationToken::new());
        gather.supplied_by(100, &over);
        let lot = first(&gather, 1);
        over.cancel();
        assert_eq!(within(AT_ONCE, lot).await, [1]);
        assert_eq!(within(AT_ONCE, first(&gather, 2)).await, [2], "what comes all the same does not wait");
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_waits_no_longer_for_those_who_come_late() {
        let gather = BatchCollector::new(100, WAIT);
        let lot = first(&gather, 1);
        let late = gather.clone();
        tokio::spawn(async move {
            for one in 2..5 {
                tokio::time::sleep(WAIT * 2 / 5).await;
                late.add(one);
            }
        });
        assert_eq!(within(WAIT, lot).await, [1, 2, 3]);
    }
}
