//! Checkpoints of the write-ahead log. Done by the writer between commits, never automatically by SQLite: a failed
//! fsync must be noticed, because it is fatal.

use rusqlite::Connection;

use super::busy;
use super::tables::store_error;
use crate::limits;
use crate::store::engine::EngineResult;

/// The length of the log in pages, and how many of them are in the database already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    pages: u64,
    moved: u64,
}

fn run(connection: &Connection, statement: &str) -> EngineResult<Progress> {
    let mut statement = connection.prepare_cached(statement).map_err(store_error)?;
    // Both numbers are -1 while there is no log yet.
    let number = |row: &rusqlite::Row<'_>, at| row.get(at).map(|n: i64| u64::try_from(n).unwrap_or(0));
    statement
        .query_row([], |row| Ok(Progress { pages: number(row, 1)?, moved: number(row, 2)? }))
        .map_err(store_error)
}

/// The number of pages in the log.
pub(super) fn pages(connection: &Connection) -> EngineResult<u64> {
    run(connection, "PRAGMA wal_checkpoint(NOOP)").map(|log| log.pages)
}

/// Moves what can be moved without waiting, if the log is long enough.
pub(super) fn after_commit(connection: &Connection) -> EngineResult<()> {
    let log = run(connection, "PRAGMA wal_checkpoint(NOOP)")?;
    let is_worth_it = log.pages >= limits::LOG_PAGES_MAX && log.pages - log.moved >= limits::LOG_PAGES_STEP;
    if is_worth_it { move_now(connection) } else { Ok(()) }
}

/// Moves what can be moved without waiting.
pub(super) fn move_now(connection: &Connection) -> EngineResult<()> {
    run(connection, "PRAGMA wal_checkpoint(PASSIVE)").map(drop)
}

/// Moves everything and truncates the log, unless it is in use.
pub(super) fn cut(connection: &Connection) -> EngineResult<()> {
    // Waiting for a reader here would also block all writers.
    busy::never_wait(connection)?;
    let outcome = run(connection, "PRAGMA wal_checkpoint(TRUNCATE)").map(drop);
    busy::wait_for_locks(connection)?;
    outcome
}

/// Size in bytes of free pages in the database, such as those of deleted jobs.
pub(super) fn free_bytes(connection: &Connection) -> EngineResult<u64> {
    let pages: i64 =
        connection.query_row("PRAGMA freelist_count", [], |row| row.get(0)).map_err(store_error)?;
    Ok(pages.unsigned_abs() * limits::PAGE_BYTES.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engines::sqlite::open;

    #[test]
    fn a_long_log_is_moved_after_a_commit_and_can_be_cut() {
        let folder = tempfile::tempdir().unwrap();
        let location = open::locate(&folder.path().join("jobs.db")).unwrap();
        let connection = open::connect_writer(location.path()).unwrap();
        connection.execute_batch("CREATE TABLE t (body BLOB)").unwrap();
        after_commit(&connection).unwrap();
        assert_eq!(run(&connection, "PRAGMA wal_checkpoint(NOOP)").unwrap().moved, 0);
        let bytes = limits::LOG_PAGES_MAX * limits::PAGE_BYTES.unsigned_abs();
        connection.execute("INSERT INTO t VALUES (zeroblob(?1))", [i64::try_from(bytes).unwrap()]).unwrap();
        after_commit(&connection).unwrap();
        let log = run(&connection, "PRAGMA wal_checkpoint(NOOP)").unwrap();
        assert!(log.pages >= limits::LOG_PAGES_MAX && log.moved == log.pages, "{log:?}");
        cut(&connection).unwrap();
        assert_eq!(std::fs::metadata(location.beside("-wal")).unwrap().len(), 0);
    }
}
