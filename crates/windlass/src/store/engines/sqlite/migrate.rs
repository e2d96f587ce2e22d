//! Migrates a file to the schema of this build, step by step. It never goes back: a newer file is refused.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::tables::store_error;
use crate::error::OpenError;
use crate::store::schema::Schema;

/// The steps by name; the first one creates the schema in an empty file.
const STEPS: [(&str, &str); 3] = [
    ("0001_foundation", include_str!("migrations/0001_foundation.sql")),
    ("0002_recovery", include_str!("migrations/0002_recovery.sql")),
    ("0003_versions", include_str!("migrations/0003_versions.sql")),
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
    super::open::refuse_remains(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(store_error)?;
    super::open::leave_log(&connection)?;
    is_blank(&connection)
}

/// Reads the schema version of a file, which need not exist.
pub(crate) fn read_schema(path: &Path) -> Result<Schema, OpenError> {
    let steps = || STEPS.iter().map(|(name, _)| *name);
    super::open::refuse_remains(path)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_of_earlier_jobs_keep_their_numbers_and_require_no_version() {
        let mut file = Connection::open_in_memory().unwrap();
        step(&mut file).unwrap();
        step(&mut file).unwrap();
        file.execute_batch("INSERT INTO lanes VALUES (7, 'acme', 'q', 'a', 11), (9, 'acme', 'q', 'b', 12)")
            .unwrap();
        migrate(&mut file).unwrap();
        let all = "SELECT group_concat(id || tenant || queue || type || '[' || version || ']' || \"check\", ' ') FROM lanes";
        let found: String = file.query_row(all, [], |row| row.get(0)).unwrap();
        assert_eq!(found, "7acmeqa[]11 9acmeqb[]12");
        let add =
            "INSERT INTO lanes (tenant, queue, type, version, \"check\") VALUES ('acme', 'q', 'a', 'v1', 0)";
        assert_eq!(file.execute(add, []).unwrap(), 1);
        assert!(file.execute(add, []).is_err(), "it is there already");
    }

    #[test]
    fn concurrency_keys_of_earlier_jobs_are_counted() {
        let mut file = Connection::open_in_memory().unwrap();
        step(&mut file).unwrap();
        file.execute_batch(
            "INSERT INTO lanes VALUES (1, 'acme', 'q', 'a', 0), (2, 'b', 'q', 'a', 0), \
             (3, 'acme', 'windlass.callbacks', 'windlass.callback', 0)",
        )
        .unwrap();
        let mut seq = 0;
        let mut add = |lane: i64, state: i64, key: Option<i64>| {
            seq += 1;
            let sql = "INSERT INTO hot (seq, id, lane, policy, state, order_key, rank, at, expires_at, created_at, \
                       concurrency, record) VALUES (?1, randomblob(16), ?2, 1, ?3, 0, 0, 0, 0, 0, ?4, x'')";
            file.execute(sql, (seq, lane, state, key)).unwrap();
        };
        for state in 0..13 {
            add(1, state, Some(7));
        }
        for (lane, state, key) in
            [(1, 3, Some(8)), (1, 3, None), (1, 9, Some(9)), (2, 3, Some(7)), (3, 3, Some(6))]
        {
            add(lane, state, key);
        }
        migrate(&mut file).unwrap();
        let all = |sql: &str| -> String { file.query_row(sql, [], |row| row.get(0)).unwrap() };
        let keys = "SELECT group_concat(tenant || ' ' || key || ' ' || n, ', ') FROM concurrency_keys";
        assert_eq!(all(keys), "acme 7 9, acme 8 1, b 7 1");
        let totals = "SELECT group_concat(tenant || ' ' || n, ', ') FROM concurrency_key_totals";
        assert_eq!(all(totals), "acme 2, b 1");
    }
}
