//! The context in a batch handler. The handler works for several jobs, so it cannot be dropped because one of them
//! parks.

use std::sync::atomic::Ordering;

use super::{Cx, HandlerExit, lock};
use crate::job::Failure;

impl Cx {
    /// Marks the handler as shared with other jobs.
    pub(crate) fn set_batched(&self) {
        self.0.is_one_of_many.store(true, Ordering::Relaxed);
    }

    /// Whether the handler is shared with other jobs.
    pub(super) fn is_batched(&self) -> bool {
        self.0.is_one_of_many.load(Ordering::Relaxed)
    }

    /// Crashes the worker here, for a test.
    pub(crate) fn crash(&self) {
        self.set_exit(HandlerExit::Crash);
    }

    /// Whether the handler was stopped, so that its return value does not matter.
    pub(crate) fn has_left(&self) -> bool {
        lock(&self.0.stop).is_some()
    }

    /// Parks the job and its handler. A batch handler gets an error instead and continues with its other jobs.
    pub(super) async fn leave<T>(&self, stop: HandlerExit) -> Result<T, anyhow::Error> {
        if !self.is_batched() {
            return self.stop(stop).await;
        }
        self.set_exit(stop);
        Err(Failure::temporary("the job is parked; the batch continues without it")
            .with_code("parked")
            .into())
    }

    /// Notifies the supervising task that this attempt is over.
    pub(super) fn set_exit(&self, stop: HandlerExit) {
        // The first exit counts.
        lock(&self.0.stop).get_or_insert(stop);
        self.0.order.lock().is_over = true;
        self.0.stopped.notify_one();
    }
}
