//! Notifications of streamed output: a reader waits for one job, and is woken by that job alone. Otherwise every token
//! of every job would make all readers query.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use tokio::sync::watch;

use super::count::WaiterCount;
use crate::job::JobId;

/// The readers that wait, by job.
#[derive(Debug)]
pub(super) struct StreamReaders {
    jobs: Mutex<FxHashMap<JobId, watch::Sender<u64>>>,
    /// Another process wrote something; it does not say for which job.
    foreign: watch::Sender<u64>,
}

impl Default for StreamReaders {
    fn default() -> StreamReaders {
        StreamReaders { jobs: Mutex::default(), foreign: watch::Sender::new(0) }
    }
}

impl StreamReaders {
    fn jobs(&self) -> MutexGuard<'_, FxHashMap<JobId, watch::Sender<u64>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the readers of these jobs.
    pub(super) fn notify(&self, written: &[JobId]) {
        let jobs = self.jobs();
        if jobs.is_empty() {
            return;
        }
        for sender in written.iter().filter_map(|job| jobs.get(job)) {
            sender.send_modify(|count| *count += 1);
        }
    }

    /// Wakes all readers.
    pub(super) fn notify_all(&self) {
        self.foreign.send_modify(|count| *count += 1);
    }

    /// Subscribes to a job's output and end.
    pub(super) fn listen(self: &Arc<Self>, job: JobId, waiting: Arc<WaiterCount>) -> StreamListener {
        waiting.enter();
        let own = self.jobs().entry(job).or_insert_with(|| watch::Sender::new(0)).subscribe();
        StreamListener {
            job,
            own: Some(own),
            foreign: self.foreign.subscribe(),
            readers: self.clone(),
            waiting,
        }
    }
}

/// Why a reader is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamNotice {
    /// Its job wrote output or ended.
    Own,
    /// Another process changed something.
    Foreign,
}

/// A subscription to one job's output.
pub(crate) struct StreamListener {
    job: JobId,
    /// Present until dropped.
    own: Option<watch::Receiver<u64>>,
    foreign: watch::Receiver<u64>,
    readers: Arc<StreamReaders>,
    waiting: Arc<WaiterCount>,
}

impl StreamListener {
    /// Returns at the next notification since this was created or last returned.
    pub(crate) async fn notified(&mut self) -> StreamNotice {
        let own = self.own.as_mut().expect("present until dropped");
        tokio::select! {
            biased;
            Ok(()) = own.changed() => StreamNotice::Own,
            Ok(()) = self.foreign.changed() => StreamNotice::Foreign,
            // The store is closed; there will be no more notifications.
            else => std::future::pending().await,
        }
    }
}

impl Drop for StreamListener {
    fn drop(&mut self) {
        let mut jobs = self.readers.jobs();
        self.own = None;
        if jobs.get(&self.job).is_some_and(|sender| sender.receiver_count() == 0) {
            jobs.remove(&self.job);
        }
        self.waiting.leave();
    }
}
