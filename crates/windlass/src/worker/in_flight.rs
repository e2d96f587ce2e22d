//! The jobs that a worker is running. Only the task that removes an entry reports its outcome, so no attempt is
//! reported twice. A job counts as running until that report is queued.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::clock::LeaseWatch;
use crate::context::{CancelReason, Cx};
use crate::job::{Fence, JobId};
use crate::limits;
use crate::store::command::heartbeat::HeartbeatItem;

/// Running jobs by id. A job that was lost and claimed again by the same worker is stored under its new fence.
#[derive(Default)]
pub(crate) struct Running {
    attempts: Mutex<Attempts>,
    emptied: Notify,
    /// Notified when a job with a short lease has started.
    shortened: Notify,
}

#[derive(Default)]
struct Attempts {
    jobs: HashMap<JobId, InFlight>,
    /// Removed, but not reported yet.
    leaving: usize,
}

struct InFlight {
    cx: Cx,
    claimed: LeaseWatch,
}

/// The right to report an attempt's outcome; the attempt counts as running until this is dropped.
pub(crate) struct InFlightGuard<'a>(&'a Running);

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        let mut attempts = self.0.lock();
        attempts.leaving -= 1;
        if attempts.is_empty() {
            self.0.emptied.notify_waiters();
        }
    }
}

impl Attempts {
    fn all(&self) -> impl Iterator<Item = &Cx> {
        self.jobs.values().map(|job| &job.cx)
    }

    fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.leaving == 0
    }
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, cx: Cx) {
        let is_short = lease(&cx) < limits::WORKER_SILENCE_MAX;
        let id = cx.job_id();
        let replaced = self.lock().jobs.insert(id, InFlight { cx, claimed: LeaseWatch::start() });
        if is_short {
            self.shortened.notify_waiters();
        }
        // The old attempt has lost its lease, otherwise the job could not have been claimed again.
        if let Some(old) = replaced {
            old.cx.cancel(CancelReason::Lost);
        }
    }

    /// Removes an attempt; `None` if another task already did.
    pub(crate) fn remove(&self, id: JobId, fence: Fence) -> Option<InFlightGuard<'_>> {
        let mut attempts = self.lock();
        attempts.jobs.get(&id).filter(|job| job.cx.fence() == fence)?;
        attempts.jobs.remove(&id);
        attempts.leaving += 1;
        Some(InFlightGuard(self))
    }

    pub(crate) fn heartbeat_items(&self) -> Vec<HeartbeatItem> {
        self.lock().all().map(|cx| HeartbeatItem::new(cx.job_id(), cx.fence())).collect()
    }

    /// Heartbeat items of attempts that were not asked to stop.
    pub(crate) fn beats_to_continue(&self) -> Vec<HeartbeatItem> {
        let attempts = self.lock();
        let going_on = attempts.all().filter(|cx| !cx.is_cancelled());
        going_on.map(|cx| HeartbeatItem::new(cx.job_id(), cx.fence())).collect()
    }

    /// The shortest lease of a running job.
    pub(crate) fn shortest_lease(&self) -> Option<Duration> {
        self.lock().all().map(lease).min()
    }

    /// Returns when a job with a short lease starts after this call.
    pub(crate) fn shortened(&self) -> Notified<'_> {
        self.shortened.notified()
    }

    /// Prefetched jobs that have started since.
    pub(crate) fn started(&self) -> Vec<(JobId, Fence)> {
        let attempts = self.lock();
        let started = attempts.all().filter(|cx| cx.has_started_unnoticed());
        started.map(|cx| (cx.job_id(), cx.fence())).collect()
    }

    pub(crate) fn get(&self, id: JobId) -> Option<Cx> {
        self.lock().jobs.get(&id).map(|job| job.cx.clone())
    }

    pub(crate) fn all(&self) -> Vec<Cx> {
        self.lock().all().cloned().collect()
    }

    /// Attempts that were claimed at least this long ago and not asked to stop.
    pub(crate) fn claimed_before(&self, age: Duration) -> Vec<Cx> {
        let attempts = self.lock();
        let old = attempts.jobs.values().filter(|job| !job.cx.is_cancelled() && job.claimed.elapsed() >= age);
        old.map(|job| job.cx.clone()).collect()
    }

    /// Returns when no job is running and all outcomes are reported.
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

/// How long a job is held without a heartbeat.
fn lease(cx: &Cx) -> Duration {
    cx.claimed().job.policy.timeouts.lease
}
