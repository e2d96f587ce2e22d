//! What a context does on a thread of its own, where a handler blocks: there is no future to drop, so a handler that parks
//! is ended by unwinding its thread.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use super::Cx;

/// How the thread of a blocking handler ends that has parked; nobody's panic.
pub(crate) struct ParkUnwind;

/// Ends the thread, and runs what is to be dropped. No panic hook hears of it.
pub(super) fn unwind() -> ! {
    resume_unwind(Box::new(ParkUnwind))
}

impl Cx {
    /// Waits, in a handler that blocks, for a step, a sleep, a signal, children or anything else that is async. What
    /// parks an async handler ends this one, too: its thread is unwound and free, and the job runs again from the top.
    ///
    /// # Panics
    /// In an async handler: await there instead.
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        Handle::current()
            .block_on(poll_fn(move |context| self.poll(context, |context| work.as_mut().poll(context))))
    }

    /// Polls a handler's future; one that blocks is looked after by [`block_on`](Cx::block_on), on its own thread.
    pub(crate) fn poll_handler<T>(
        &self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if self.0.is_blocking.load(Ordering::Relaxed) { poll(context) } else { self.poll(context, poll) }
    }

    /// Its handler runs on a thread of its own.
    pub(crate) fn set_blocking(&self) {
        self.0.is_blocking.store(true, Ordering::Relaxed);
    }
}
