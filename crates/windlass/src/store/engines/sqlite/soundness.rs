//! Whether the file is damaged, as far as is known. Checks it while it is served: on its own connection, in a thread that
//! ends with the store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;

use super::damage;
use super::open::{self, Location};
use super::tables::store_error;
use crate::clock::Stopwatch;
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::EngineResult;

/// Steps of SQLite's virtual machine between two checks whether the store is being closed: some milliseconds.
const STEPS_BETWEEN_CHECKS: std::ffi::c_int = 100_000;

/// What the check and readers have found so far.
#[derive(Debug, Default)]
pub(super) struct Soundness {
    damage: OnceLock<String>,
    is_closing: AtomicBool,
}

impl Soundness {
    /// Returns an error once damage was found: a later commit could be lost with the damaged pages.
    pub(super) fn check(&self) -> EngineResult<()> {
        self.damage.get().map_or(Ok(()), |what| Err(damage::stopped(what)))
    }

    /// Records damage that was found, by the check or by a reader.
    pub(super) fn found(&self, what: String) {
        tracing::error!(%what, "the database file is damaged");
        let _first = self.damage.set(what);
    }

    /// Ends the check early.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::SeqCst);
    }

    /// Reads the whole file.
    pub(super) fn check_whole_file(self: &Arc<Soundness>, location: &Location) {
        let watch = Stopwatch::start();
        let found = self.connect(location).and_then(|connection| {
            open::quick_check(&connection)?;
            open::check_indexes(&connection)
        });
        match found {
            Ok(()) => tracing::info!(seconds = watch.elapsed().as_secs_f64(), "the database file is intact"),
            Err(_) if self.is_closing.load(Ordering::SeqCst) => {}
            Err(StoreError::Damaged(what)) => self.found(what),
            Err(error) => tracing::warn!(%error, "the database file could not be checked"),
        }
    }

    fn connect(self: &Arc<Soundness>, location: &Location) -> EngineResult<Connection> {
        let connection = open::connect_reader(location.path(), limits::READER_CACHE_KIB)?;
        let soundness = self.clone();
        let is_closing = move || soundness.is_closing.load(Ordering::SeqCst);
        connection.progress_handler(STEPS_BETWEEN_CHECKS, Some(is_closing)).map_err(store_error)?;
        Ok(connection)
    }
}
