//! The context in a blocking handler. There is no future to drop, so a handler that parks is ended by unwinding its
//! thread.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use super::Cx;

/// The unwind payload of a blocking handler that has parked; not a real panic.
pub(crate) struct ParkUnwind;

/// Unwinds the thread and runs its destructors. The panic hook is not called.
pub(super) fn unwind() -> ! {
    resume_unwind(Box::new(ParkUnwind))
}

impl Cx {
    /// Blocks on a step, a sleep, a signal, children or any other future. If that parks the job, the handler's thread
    /// is unwound and freed, and the job later runs again from the start.
    ///
    /// # Panics
    /// In an async handler; use `await` there.
    pub fn block_on<F: Future>(&self, work: F) -> F::Output {
        let mut work = pin!(work);
        Handle::current()
            .block_on(poll_fn(move |context| self.poll(context, |context| work.as_mut().poll(context))))
    }

    /// Polls a handler's future. A blocking handler is polled by [`block_on`](Cx::block_on) on its own thread.
    pub(crate) fn poll_handler<T>(
        &self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        if self.0.is_blocking.load(Ordering::Relaxed) { poll(context) } else { self.poll(context, poll) }
    }

    /// Marks the handler as blocking.
    pub(crate) fn set_blocking(&self) {
        self.0.is_blocking.store(true, Ordering::Relaxed);
    }
}
