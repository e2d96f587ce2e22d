//! The jobs that a worker runs right now. Whoever takes an entry out is the one who reports on it, so no attempt is
//! reported twice.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::context::Cx;
use crate::job::{Fence, JobId};
use crate::store::command::heartbeat::Beat;

/// Jobs by id; a job that was lost and claimed again by the same worker is there under its new fence.
#[derive(Default)]
pub(crate) struct Running {
    jobs: Mutex<HashMap<JobId, Cx>>,
    emptied: Notify,
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Cx>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, cx: Cx) {
        let replaced = self.lock().insert(cx.job_id(), cx);
        // The old attempt lost its lease, or the job could not have been claimed again.
        if let Some(old) = replaced {
            old.cancel();
        }
    }

    /// Takes an attempt out; false if somebody else did.
    pub(crate) fn remove(&self, id: JobId, fence: Fence) -> bool {
        let mut jobs = self.lock();
        let is_there = jobs.get(&id).is_some_and(|cx| cx.fence() == fence);
        if is_there {
            jobs.remove(&id);
        }
        if jobs.is_empty() {
            self.emptied.notify_waiters();
        }
        is_there
    }

    pub(crate) fn beats(&self) -> Vec<Beat> {
        self.lock().values().map(|cx| Beat::new(cx.job_id(), cx.fence())).collect()
    }

    pub(crate) fn get(&self, id: JobId) -> Option<Cx> {
        self.lock().get(&id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Cx> {
        self.lock().values().cloned().collect()
    }

    /// Returns when nothing runs.
    pub(crate) async fn emptied(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.lock().is_empty() {
                return;
            }
            emptied.await;
        }
    }
}
