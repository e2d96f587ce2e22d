//! What a context does in a batch handler, which works for other jobs, too: it cannot be dropped because one of them
//! parks.

use std::sync::atomic::Ordering;

use super::{Cx, HandlerExit, lock};
use crate::job::Failure;

impl Cx {
    /// Its handler is called for other jobs, too.
    pub(crate) fn set_batched(&self) {
        self.0.is_one_of_many.store(true, Ordering::Relaxed);
    }

    /// Whether its handler is called for other jobs, too.
    pub(super) fn is_batched(&self) -> bool {
        self.0.is_one_of_many.load(Ordering::Relaxed)
    }

    /// The worker dies here, for a test.
    pub(crate) fn crash(&self) {
        self.set_exit(HandlerExit::Crash);
    }

    /// Whether its handler has been stopped, and its outcome is decided without what the handler returns.
    pub(crate) fn has_left(&self) -> bool {
        lock(&self.0.stop).is_some()
    }

    /// Parks the job, and with it its handler; one that works for others, too, is told by an error, and goes on with them.
    pub(super) async fn leave<T>(&self, stop: HandlerExit) -> Result<T, anyhow::Error> {
        if !self.is_batched() {
            return self.stop(stop).await;
        }
        self.set_exit(stop);
        Err(Failure::temporary("the job is parked; the batch goes on without it").with_code("parked").into())
    }

    /// Tells whoever runs this attempt that it is over.
    pub(super) fn set_exit(&self, stop: HandlerExit) {
        // What was said first is what happened.
        lock(&self.0.stop).get_or_insert(stop);
        self.0.order.lock().is_over = true;
        self.0.stopped.notify_one();
    }
}
