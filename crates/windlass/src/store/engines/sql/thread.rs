//! The threads of an engine: started with a name, and joined at the end. Panics of commands and callbacks end the request that
//! caused them, never the thread that serves all requests.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use crate::error::StoreError;
use crate::store::engine::EngineResult;

/// Starts a thread.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> EngineResult<JoinHandle<()>> {
    let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| StoreError::Database(format!("cannot start a thread: {error}")))
}

/// Joins a thread.
pub(crate) fn join(thread: JoinHandle<()>) {
    // A callback may drop the last handle to the store on one of these threads.
    if thread.thread().id() != thread::current().id() && thread.join().is_err() {
        tracing::error!("a thread of the store panicked");
    }
}

/// The error for a caller whose command panicked.
pub(crate) fn panicked(payload: &(dyn Any + Send)) -> StoreError {
    let words = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    StoreError::Database(format!("a command panicked, nothing was changed: {words}"))
}

/// Runs a caller's code and catches its panics.
pub(crate) fn catch_panic(what: &'static str, work: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(work)) {
        tracing::error!(error = %panicked(payload.as_ref()), "panic while {what}");
    }
}
