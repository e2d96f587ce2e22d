//! One connection to the file: its transactions, its caches, and the engine's contract; each method is implemented in
//! the module named for it. It contains no rules.

pub(super) mod advance;
pub(super) mod audit;
mod chapters;
pub(super) mod claim;
mod derive;
pub(super) mod document;
pub(super) mod insert;
pub(super) mod integrity;
mod intern;
pub(super) mod job_data;
pub(super) mod key_counts;
pub(super) mod keys;
pub(super) mod prune;
pub(super) mod query;
pub(super) mod row;
#[cfg(test)]
mod tests;

use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{CachedStatement, Connection, ErrorCode};

pub(super) use self::intern::Interner;
use super::{damage, migrate};
use crate::clock::{Stamp, Timestamp, whole_millis};
use crate::error::StoreError;
use crate::store::engine::{Counts, EngineResult};
use crate::store::engines::sql::columns::number;

/// Number of cached statements; more than this module has.
const STATEMENTS_KEPT: usize = 128;

/// The single row of `meta`, as of the current transaction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meta {
    commits: u64,
    pub(super) next_seq: i64,
    pub(super) next_record: u64,
    pub(super) config_version: u64,
    /// The time of the last commit, or of the current one.
    pub(super) stamp: Stamp,
    pub(super) generation: u64,
}

/// A connection: the engine's own, or a caller's with an open transaction.
pub(super) trait Holds {
    fn get(&self) -> &Connection;
}

impl Holds for Connection {
    fn get(&self) -> &Connection {
        self
    }
}

impl Holds for &Connection {
    fn get(&self) -> &Connection {
        self
    }
}

/// A connection and its caches.
pub(super) struct Tables<C = Connection> {
    pub(super) connection: C,
    pub(super) interned: Interner,
    pub(super) meta: Meta,
    changes_before: u64,
    /// How often another connection's commit was found.
    generation: u64,
    /// `None` until first used, and again after another connection may have changed them.
    pub(super) counts: Option<Counts>,
    /// Why the file counts as put in place by hand, and the generation it had when that was found.
    pub(super) put_back: Option<(String, u64)>,
}

impl Tables {
    /// Takes over a connection to a file with the current schema.
    pub(super) fn new(connection: Connection) -> EngineResult<Tables> {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        // Otherwise SQLite checks bound values to see whether a partial index applies, and parses the statement again
        // whenever they change: seven times in every claim.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(store_error)?;
        let mut tables = Tables::with_connection(connection);
        tables.refresh()?;
        Ok(tables)
    }
}

impl<'c> Tables<&'c Connection> {
    /// Borrows a connection that is inside its owner's transaction.
    pub(super) fn borrowing(connection: &'c Connection) -> EngineResult<Tables<&'c Connection>> {
        let mut tables = Tables::with_connection(connection);
        // Takes the write lock before anything is read: from here on no other connection can write in between.
        tables.run("UPDATE meta SET commits = commits")?;
        tables.refresh()?;
        Ok(tables)
    }
}

impl<C: Holds> Tables<C> {
    fn with_connection(connection: C) -> Tables<C> {
        let (interned, meta) = (Interner::default(), Meta::default());
        Tables { connection, interned, meta, changes_before: 0, generation: 0, counts: None, put_back: None }
    }

    /// Writes `meta`, and leaves committing to the connection's owner.
    pub(super) fn write_meta(&mut self) -> EngineResult<u64> {
        let meta = self.meta;
        let commits = meta.commits + 1;
        let sql = "UPDATE meta SET commits = ?1, next_seq = ?2, next_record = ?3, config_version = ?4, at = ?5, \
             boot = ?6, uptime = ?7, generation = ?8";
        let Stamp { at, boot, uptime } = meta.stamp;
        let stamp = (at.as_millis(), boot, whole_millis(uptime));
        let (record, config) = (number(meta.next_record), number(meta.config_version));
        let generation = number(meta.generation);
        prepare(self.connection.get(), sql)?
            .execute((number(commits), meta.next_seq, record, config, stamp.0, stamp.1, stamp.2, generation))
            .map_err(store_error)?;
        Ok(commits)
    }

    /// The connection itself, for operations on the file rather than its rows.
    pub(super) fn connection(&self) -> &Connection {
        self.connection.get()
    }

    /// Begins a write transaction that holds the lock from the start.
    pub(super) fn begin_write(&mut self) -> EngineResult<()> {
        self.run("BEGIN IMMEDIATE")?;
        self.changes_before = self.connection.get().total_changes();
        self.refresh()
    }

    /// Makes everything since `begin_write` durable; returns the number of this commit, or of the last one if nothing
    /// was written: a claim that finds no work costs no disk write.
    pub(super) fn commit(&mut self) -> EngineResult<u64> {
        let meta = self.meta;
        if self.connection.get().total_changes() == self.changes_before {
            self.run("COMMIT")?;
            return Ok(meta.commits);
        }
        let commits = self.write_meta()?;
        self.run("COMMIT")?;
        self.meta.commits = commits;
        Ok(commits)
    }

    /// Undoes everything since `begin_write`, and clears the caches.
    pub(super) fn rollback(&mut self) {
        self.end_read();
        self.interned.clear();
        self.counts = None;
    }

    /// Begins a snapshot.
    pub(super) fn begin_read(&mut self) -> EngineResult<()> {
        self.run("BEGIN")?;
        // Reading `meta` also starts the snapshot: SQLite takes it at the first read, not at `BEGIN`.
        self.refresh()
    }

    /// Ends a snapshot.
    pub(super) fn end_read(&mut self) {
        if !self.connection.get().is_autocommit() {
            // Fails only if the transaction has already ended, which is the goal.
            let _ = self.run("ROLLBACK");
        }
    }

    fn run(&self, sql: &str) -> EngineResult<()> {
        prepare(self.connection.get(), sql)?.execute([]).map(drop).map_err(store_error)
    }

    /// Reads what other connections may have changed.
    fn refresh(&mut self) -> EngineResult<()> {
        self.check_version()?;
        let sql =
            "SELECT commits, next_seq, next_record, config_version, at, boot, uptime, generation FROM meta";
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Meta {
                commits: row.get::<_, i64>(0)?.unsigned_abs(),
                next_seq: row.get(1)?,
                next_record: row.get::<_, i64>(2)?.unsigned_abs(),
                config_version: row.get::<_, i64>(3)?.unsigned_abs(),
                stamp: Stamp {
                    at: Timestamp::from_millis(row.get(4)?),
                    boot: row.get(5)?,
                    uptime: Duration::from_millis(row.get::<_, i64>(6)?.unsigned_abs()),
                },
                generation: row.get::<_, i64>(7)?.unsigned_abs(),
            })
        };
        let meta = prepare(self.connection.get(), sql)?.query_row([], read).map_err(store_error)?;
        if meta.commits != self.meta.commits {
            self.generation += 1;
            self.counts = None;
        }
        self.meta = meta;
        Ok(())
    }

    /// Stops if a newer version migrated the file while it was open here: that version may store what this one does not
    /// respect.
    fn check_version(&self) -> EngineResult<()> {
        let mut statement = prepare(self.connection.get(), "PRAGMA user_version")?;
        let found: i64 = statement.query_row([], |row| row.get(0)).map_err(store_error)?;
        if found <= i64::from(migrate::SCHEMA) {
            return Ok(());
        }
        let reason = format!(
            "a newer version has migrated the file to schema {found}, and this version only knows {}: start the newer \
             version here, too",
            migrate::SCHEMA
        );
        Err(StoreError::Stopped(reason))
    }
}

/// A statement that is parsed once per connection.
pub(super) fn prepare<'c>(connection: &'c Connection, sql: &str) -> EngineResult<CachedStatement<'c>> {
    connection.prepare_cached(sql).map_err(store_error)
}

/// Converts a database error into a store error.
#[allow(clippy::needless_pass_by_value, reason = "so that `map_err(store_error)` does")]
pub(super) fn store_error(error: rusqlite::Error) -> StoreError {
    use rusqlite::Error as Sql;
    match &error {
        Sql::SqliteFailure(failure, _) => {
            damage::note(*failure, &error.to_string());
            match failure.code {
                ErrorCode::DiskFull => StoreError::Full,
                ErrorCode::SystemIoFailure => {
                    StoreError::Stopped(format!("{error}; check the disk, then restart"))
                }
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
                    StoreError::Damaged(error.to_string())
                }
                _ => StoreError::Database(error.to_string()),
            }
        }
        Sql::FromSqlConversionFailure(..)
        | Sql::IntegralValueOutOfRange(..)
        | Sql::InvalidColumnType(..)
        | Sql::Utf8Error(..) => StoreError::Damaged(error.to_string()),
        _ => StoreError::Database(error.to_string()),
    }
}
