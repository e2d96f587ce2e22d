//! The change listener: wakes waiters of this process when another process has changed the file, and ends reads that
//! hold a snapshot for too long. While there are no waiters it only checks a counter a few times a second.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use super::open;
use super::reader::Turn;
use super::tables::store_error;
use crate::limits;
use crate::store::engine::EngineResult;
use crate::store::environment::Environment;
use crate::store::metrics::Fallback;

/// Checks of the log between two SQLite queries while nothing changes.
const CHECKS: u32 = 10;
/// Checks after a change of the log during which SQLite is queried: the log is written before the fsync, and the commit
/// is visible after it, which on a busy disk takes a good part of a second.
const CHECKS_QUERIED: u32 = 50;

/// The number of commits of this process, to distinguish them from those of others.
#[derive(Default)]
pub(super) struct OwnCommits(Mutex<u64>);

impl OwnCommits {
    /// Makes a commit; `commit` returns whether there was anything to commit.
    pub(super) fn make<T>(&self, commit: impl FnOnce() -> EngineResult<(T, bool)>) -> EngineResult<T> {
        // Locked during the commit: a query in between would see the commit and not know whose it is.
        let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, is_counted) = commit()?;
        *own += u64::from(is_counted);
        Ok(value)
    }

    /// How many of all commits are not this process's.
    fn foreign(&self, all: impl FnOnce() -> EngineResult<u64>) -> EngineResult<u64> {
        let own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(all()?.saturating_sub(*own))
    }
}

/// Stops the change listener.
#[derive(Default)]
pub(super) struct Signal {
    has_rung: Mutex<bool>,
    rings: Condvar,
}

impl Signal {
    /// Ends the wait, now and permanently.
    pub(super) fn end(&self) {
        *self.has_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rings.notify_all();
    }

    /// Waits for this long; returns true once stopped.
    fn wait(&self, at_most: Duration) -> bool {
        let has_rung = self.has_rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.rings.wait_timeout_while(has_rung, at_most, |has_rung| !*has_rung);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// A reader at work: its current read, and how long it has lasted.
struct WatchedRead {
    turn: Arc<Turn>,
    read: u64,
    lasted: Duration,
}

/// The change listener.
pub(super) struct ChangeListener {
    connection: Connection,
    env: Arc<Environment>,
    own: Arc<OwnCommits>,
    version: i64,
    foreign: u64,
    log: Log,
    readers: Vec<WatchedRead>,
}

/// The log file's metadata: every commit writes to the log, and checking the metadata costs a tenth of a SQLite query.
struct Log {
    path: PathBuf,
    seen: Option<(u64, SystemTime)>,
    /// Checks since it last changed.
    settled_for: u32,
}

impl Log {
    /// Whether SQLite has to be queried, and why: for a while after the log has changed, and periodically in any case.
    fn reason_to_ask(&mut self) -> Option<Reason> {
        let seen = self.observe();
        let is_settled = seen.is_some() && seen == self.seen;
        self.seen = seen;
        self.settled_for = if is_settled { self.settled_for.saturating_add(1) } else { 0 };
        if self.settled_for < CHECKS_QUERIED {
            return Some(Reason::Log);
        }
        self.settled_for.is_multiple_of(CHECKS).then_some(Reason::Time)
    }

    fn observe(&self) -> Option<(u64, SystemTime)> {
        std::fs::metadata(&self.path).and_then(|log| Ok((log.len(), log.modified()?))).ok()
    }
}

/// Why SQLite is queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// The log has changed.
    Log,
    /// It was not queried for a while.
    Time,
}

impl ChangeListener {
    /// A change listener that knows all commits until now.
    pub(super) fn new(
        connection: Connection,
        env: Arc<Environment>,
        own: Arc<OwnCommits>,
        log: PathBuf,
        turns: Vec<Arc<Turn>>,
    ) -> EngineResult<ChangeListener> {
        let readers =
            turns.into_iter().map(|turn| WatchedRead { turn, read: 0, lasted: Duration::ZERO }).collect();
        let log = Log { path: log, seen: None, settled_for: 0 };
        let mut watch = ChangeListener { connection, env, own, version: 0, foreign: 0, log, readers };
        watch.has_foreign_commit()?;
        Ok(watch)
    }

    /// Runs until `bell` is signalled.
    pub(super) fn serve(mut self, bell: &Signal) {
        loop {
            let pause = if self.env.wakeups.has_waiters() {
                self.poll();
                limits::CROSS_PROCESS_EVERY
            } else {
                limits::LISTENER_IDLE_INTERVAL
            };
            self.end_long_reads(pause);
            if bell.wait(pause) {
                return;
            }
        }
    }

    fn poll(&mut self) {
        match self.has_foreign_commit() {
            Ok(true) => self.env.wakeups.changed_by_others(),
            Ok(false) => {}
            // Waiters also poll.
            Err(error) => tracing::debug!(%error, "cannot check for commits of other processes"),
        }
    }

    /// Whether another process has committed since the last call.
    pub(super) fn has_foreign_commit(&mut self) -> EngineResult<bool> {
        let Some(reason) = self.log.reason_to_ask() else { return Ok(false) };
        let version = {
            let mut read = self.connection.prepare_cached("PRAGMA data_version").map_err(store_error)?;
            read.query_row([], |row| row.get(0)).map_err(store_error)?
        };
        if version == self.version {
            return Ok(false);
        }
        let connection = &self.connection;
        let foreign = self.own.foreign(|| open::head(connection).map(|head| head.commits))?;
        self.version = version;
        let has_changed = std::mem::replace(&mut self.foreign, foreign) != foreign;
        // A change between the check and the query does not count as missed.
        if has_changed && reason == Reason::Time && self.log.observe() == self.log.seen {
            self.env.metrics.fell_back(Fallback::Process);
        }
        Ok(has_changed)
    }

    /// Time is counted in pauses, so that a clock change does not end a read.
    pub(super) fn end_long_reads(&mut self, pause: Duration) {
        for reader in &mut self.readers {
            let read = reader.turn.current();
            if read == reader.read && Turn::is_read(read) {
                reader.lasted += pause;
            } else {
                (reader.read, reader.lasted) = (read, Duration::ZERO);
            }
            if reader.lasted >= limits::SNAPSHOT_MAX {
                tracing::warn!(after = ?reader.lasted, "a read took too long and was ended");
                reader.turn.interrupt();
                reader.lasted = Duration::ZERO;
            }
        }
    }
}
