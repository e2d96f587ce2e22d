//! Wake-ups: waiters for work, for the end of a job or for events are woken after the commit. Polling is only the
//! fallback.

mod claims;
mod count;
mod streams;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tokio::sync::{Notify, watch};

use self::claims::WaiterRegistry;
pub(crate) use self::claims::WorkListener;
pub(crate) use self::claims::{WorkEvents, WorkFilter};
use self::count::WaiterCount;
use self::streams::StreamReaders;
pub(crate) use self::streams::{StreamListener, StreamNotice};
use crate::job::JobId;

/// Wakes the waiters of this process.
///
/// There is one counter per kind of notification. A waiter reads the counter before it queries, so a notification
/// between the query and the wait is never missed.
#[derive(Debug)]
pub struct Notifier {
    work: Arc<WaiterRegistry>,
    ends: watch::Sender<u64>,
    interrupts: watch::Sender<u64>,
    foreign: watch::Sender<u64>,
    streams: Arc<StreamReaders>,
    /// Notified of consequences that a commit left to maintenance.
    left: Notify,
    waiting: Arc<WaiterCount>,
}

impl Default for Notifier {
    fn default() -> Notifier {
        Notifier {
            work: Arc::default(),
            ends: watch::Sender::new(0),
            interrupts: watch::Sender::new(0),
            foreign: watch::Sender::new(0),
            streams: Arc::default(),
            left: Notify::new(),
            waiting: Arc::default(),
        }
    }
}

impl Notifier {
    /// Notifies that jobs may have become claimable in any lane. Call after the commit: a worker woken earlier would
    /// not see them.
    pub fn work_arrived(&self) {
        self.work.notify(WorkEvents::everywhere());
    }

    /// Notifies where jobs became claimable; only waiters for such jobs are woken.
    pub fn work_arrived_in(&self, events: WorkEvents) {
        self.work.notify(events);
    }

    /// Notifies that jobs may have become final.
    pub fn jobs_ended(&self) {
        self.ends.send_modify(|count| *count += 1);
    }

    /// Notifies that running jobs may have been interrupted: their workers should send a heartbeat.
    pub fn jobs_interrupted(&self) {
        self.interrupts.send_modify(|count| *count += 1);
    }

    /// Notifies that another process changed the database.
    pub fn changed_by_others(&self) {
        self.work_arrived();
        self.jobs_ended();
        self.jobs_interrupted();
        self.streamed_by_others();
        self.recorded_by_others();
    }

    /// Notifies that these jobs wrote output or ended.
    pub(crate) fn streamed(&self, jobs: &[JobId]) {
        self.streams.notify(jobs);
    }

    /// Notifies that jobs may have written output, or ended, in another process.
    pub(crate) fn streamed_by_others(&self) {
        self.streams.notify_all();
    }

    /// Notifies that another process added to the audit trail.
    pub fn recorded_by_others(&self) {
        self.foreign.send_modify(|count| *count += 1);
    }

    /// Notifies that a commit left consequences to maintenance.
    pub(crate) fn cascades_left(&self) {
        self.left.notify_one();
    }

    /// Returns when a commit has left consequences to maintenance since this last returned.
    pub(crate) async fn until_cascades_left(&self) {
        self.left.notified().await;
    }

    /// Subscribes to notifications of claimable jobs.
    pub(crate) fn work(&self) -> WorkListener {
        self.work.listen(self.waiting.clone())
    }

    /// Subscribes to notifications of ended jobs.
    pub(crate) fn ends(&self) -> Listener {
        self.listen(&self.ends)
    }

    /// Subscribes to notifications of interrupted jobs.
    pub(crate) fn interrupts(&self) -> Listener {
        self.listen(&self.interrupts)
    }

    /// Subscribes to notifications of commits by other processes.
    pub(crate) fn foreign(&self) -> Listener {
        self.listen(&self.foreign)
    }

    /// Subscribes to the output and the end of a job.
    pub(crate) fn stream(&self, job: JobId) -> StreamListener {
        self.streams.listen(job, self.waiting.clone())
    }

    /// The number of waiters.
    pub fn waiters(&self) -> usize {
        self.waiting.get()
    }

    /// Whether there are waiters; if not, changes by other processes need not be looked for.
    pub fn has_waiters(&self) -> bool {
        self.waiters() > 0
    }

    /// Returns once there is a waiter. For one caller at a time.
    #[cfg(feature = "postgres")]
    pub(crate) async fn until_waiters(&self) {
        while !self.has_waiters() {
            self.waiting.first().await;
        }
    }

    fn listen(&self, sender: &watch::Sender<u64>) -> Listener {
        self.waiting.enter();
        Listener { receiver: sender.subscribe(), waiting: self.waiting.clone() }
    }
}

/// A subscription to one kind of notification.
pub(crate) struct Listener {
    receiver: watch::Receiver<u64>,
    waiting: Arc<WaiterCount>,
}

impl Listener {
    /// Returns at the next notification since this was created or last returned.
    pub(crate) async fn notified(&mut self) {
        if self.receiver.changed().await.is_err() {
            // The store is closed; there will be no more notifications.
            std::future::pending::<()>().await;
        }
    }

    /// Whether there was a notification since this was created or last returned.
    pub(crate) fn is_notified(&self) -> bool {
        self.receiver.has_changed().unwrap_or(true)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.waiting.leave();
    }
}
