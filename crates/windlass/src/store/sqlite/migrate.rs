//! Stand-in for the schema.

use rusqlite::Connection;

use super::tables::store_error;
use crate::error::OpenError;

pub(super) fn migrate(connection: &mut Connection) -> Result<(), OpenError> {
    let sql = "BEGIN IMMEDIATE;
        CREATE TABLE IF NOT EXISTS meta (store_id BLOB NOT NULL, commits INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS document (key TEXT PRIMARY KEY, body BLOB);
        INSERT INTO meta SELECT randomblob(16), 0 WHERE NOT EXISTS (SELECT 1 FROM meta);
        COMMIT";
    connection.execute_batch(sql).map_err(store_error)?;
    Ok(())
}
