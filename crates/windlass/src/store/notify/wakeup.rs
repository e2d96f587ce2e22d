//! "Something changed": whoever waits for work, for a job's end or for events is woken after the commit. Polling is the
//! backstop, never the way (M103).

#[cfg(test)]
mod tests;
mod work;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Notify, watch};

use self::work::WaiterRegistry;
pub(crate) use self::work::WorkListener;
pub use self::work::{WorkEvents, WorkFilter};

/// Wakes everybody who waits in this process.
///
/// One counter per kind of news. A waiter takes its number before it looks, so news that come between the look and the
/// wait are never missed.
#[derive(Debug)]
pub struct Notifier {
    work: Arc<WaiterRegistry>,
    ends: watch::Sender<u64>,
    interrupts: watch::Sender<u64>,
    elsewhere: watch::Sender<u64>,
    /// Told of consequences that a commit left to maintenance.
    left: Notify,
    waiting: Arc<AtomicUsize>,
}

impl Default for Notifier {
    fn default() -> Notifier {
        Notifier {
            work: Arc::default(),
            ends: watch::Sender::new(0),
            interrupts: watch::Sender::new(0),
            elsewhere: watch::Sender::new(0),
            left: Notify::new(),
            waiting: Arc::default(),
        }
    }
}

impl Notifier {
    /// Says that jobs may have become claimable anywhere. Call after the commit: a worker woken earlier would not see them.
    pub fn work_arrived(&self) {
        self.work.notify(WorkEvents::everywhere());
    }

    /// Says where jobs became claimable; only those who wait for such jobs are woken.
    pub fn work_arrived_in(&self, news: WorkEvents) {
        self.work.notify(news);
    }

    /// Says that jobs may have become final.
    pub fn jobs_ended(&self) {
        self.ends.send_modify(|count| *count += 1);
    }

    /// Says that running jobs may have been cut off: their workers should ask.
    pub fn jobs_interrupted(&self) {
        self.interrupts.send_modify(|count| *count += 1);
    }

    /// Says that another process changed the database.
    pub fn changed_elsewhere(&self) {
        self.work_arrived();
        self.jobs_ended();
        self.jobs_interrupted();
        self.recorded_elsewhere();
    }

    /// Says that another process added to the trail.
    pub fn recorded_elsewhere(&self) {
        self.elsewhere.send_modify(|count| *count += 1);
    }

    /// Says that a commit left consequences to maintenance.
    pub(crate) fn cascades_left(&self) {
        self.left.notify_one();
    }

    /// Returns when a commit has left consequences to maintenance since this last returned.
    pub(crate) async fn until_cascades_left(&self) {
        self.left.notified().await;
    }

    /// News of claimable jobs, from now on.
    pub(crate) fn work(&self) -> WorkListener {
        self.work.listen(self.waiting.clone())
    }

    /// News of ended jobs, from now on.
    pub(crate) fn ends(&self) -> Listener {
        self.listen(&self.ends)
    }

    /// News of jobs that were cut off, from now on.
    pub(crate) fn interrupts(&self) -> Listener {
        self.listen(&self.interrupts)
    }

    /// News of commits by other processes, from now on.
    pub(crate) fn elsewhere(&self) -> Listener {
        self.listen(&self.elsewhere)
    }

    /// How many wait.
    pub fn waiters(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether anybody waits; if not, nobody need look for changes by other processes.
    pub fn has_waiters(&self) -> bool {
        self.waiters() > 0
    }

    fn listen(&self, sender: &watch::Sender<u64>) -> Listener {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Listener { receiver: sender.subscribe(), waiting: self.waiting.clone() }
    }
}

/// Somebody who waits.
pub(crate) struct Listener {
    receiver: watch::Receiver<u64>,
    waiting: Arc<AtomicUsize>,
}

impl Listener {
    /// Returns at the next news since this was made or last returned.
    pub(crate) async fn news(&mut self) {
        if self.receiver.changed().await.is_err() {
            // The store is gone, and with it all news.
            std::future::pending::<()>().await;
        }
    }

    /// Whether there were news since this was made or last returned.
    pub(crate) fn has_news(&self) -> bool {
        self.receiver.has_changed().unwrap_or(true)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
