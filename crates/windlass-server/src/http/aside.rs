//! Work that would keep a thread of the runtime busy: it runs on a separate thread.

use std::sync::{Arc, Mutex, PoisonError};

/// Runs it on a separate thread, and returns its result. It must not panic.
pub(crate) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let result: Arc<Mutex<Option<T>>> = Arc::default();
    let place = result.clone();
    run(Box::new(move || *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(work()))).await;
    let result = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    result.expect("it has run")
}

/// Boxed, so that the runtime's part is compiled once and not for each type of request and response.
async fn run(work: Box<dyn FnOnce() + Send>) {
    tokio::task::spawn_blocking(work).await.expect("parsing and encoding do not panic");
}
