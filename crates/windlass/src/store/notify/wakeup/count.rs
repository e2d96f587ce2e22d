//! How many waiters a process has, and a notification of the first of them: other nodes announce their commits only to
//! nodes with waiters.

use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(feature = "postgres")]
use tokio::sync::Notify;

/// The number of waiters.
#[derive(Debug, Default)]
pub(super) struct WaiterCount {
    count: AtomicUsize,
    #[cfg(feature = "postgres")]
    first: Notify,
}

impl WaiterCount {
    pub(super) fn enter(&self) {
        let before = self.count.fetch_add(1, Ordering::AcqRel);
        if before == 0 {
            self.come();
        }
    }

    pub(super) fn leave(&self) {
        self.count.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn get(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// There is a first waiter.
    #[cfg_attr(
        not(feature = "postgres"),
        allow(clippy::unused_self, reason = "only other nodes are notified")
    )]
    fn come(&self) {
        #[cfg(feature = "postgres")]
        self.first.notify_one();
    }

    /// Returns when there has been a first waiter since this last returned; it may have gone.
    #[cfg(feature = "postgres")]
    pub(super) async fn first(&self) {
        self.first.notified().await;
    }
}
