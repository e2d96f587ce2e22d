//! Panics of commands and callbacks: they end the request that caused them, never the thread that serves all requests.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::StoreError;

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
