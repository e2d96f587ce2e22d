//! The threads of an engine: started with a name, and joined at the end.

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
