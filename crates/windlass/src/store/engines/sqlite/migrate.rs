//! Migrates a file to the schema of this build, step by step. It never goes back: a newer file is refused.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::tables::store_error;
use crate::error::OpenError;
use crate::store::schema::Schema;

/// The steps by name; the first one creates the schema in an empty file.
const STEPS: [(&str, &str); 2] = [
    ("0001_foundation", include_str!("migrations/0001_foundation.sql")),
    ("0002_recovery", include_str!("migrations/0002_recovery.sql")),
];

/// The schema version of this build.
#[allow(clippy::cast_possible_truncation, reason = "there will never be four billion migrations")]
pub(super) const SCHEMA: u32 = STEPS.len() as u32;

/// Migrates the file to [`SCHEMA`], each step in a transaction of its own, so that a crash leaves a complete schema and
/// several processes may try at once: the second one finds the step done.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    while version(connection)? < SCHEMA {
        step(connection).map_err(store_error)?;
    }
    Ok(())
}

/// Whether the file is empty.
pub(super) fn is_blank(connection: &Connection) -> Result<bool, OpenError> {
    Ok(version(connection)? == 0)
}

/// Whether an existing file is not a store: it is empty, or a database of another program without a schema version.
pub(crate) fn is_blank_file(path: &Path) -> Result<bool, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    super::open::leave_log(&connection)?;
    is_blank(&connection)
}

/// Reads the schema version of a file, which need not exist.
pub(crate) fn read_schema(path: &Path) -> Result<Schema, OpenError> {
    let steps = || STEPS.iter().map(|(name, _)| *name);
    if !path.exists() {
        return Ok(Schema::at(0, steps()));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    super::open::leave_log(&connection)?;
    Ok(Schema::at(usize::try_from(version(&connection)?).unwrap_or(usize::MAX), steps()))
}

fn step(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again: another process may have migrated while this one waited for the lock.
    let found: u32 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if let Some((_, sql)) = STEPS.get(usize::try_from(found).unwrap_or(usize::MAX)) {
        transaction.execute_batch(sql)?;
        transaction.pragma_update(None, "user_version", found + 1)?;
    }
    transaction.commit()
}

/// The schema version of the file; an error if this build does not support it.
fn version(connection: &Connection) -> Result<u32, OpenError> {
    let found: i64 =
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(store_error)?;
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    if found > SCHEMA { Err(OpenError::NewerSchema { found, known: SCHEMA }) } else { Ok(found) }
}
