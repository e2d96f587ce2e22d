//! PostgreSQL without Windlass, for benchmarks of several nodes: rows of the same size, inserted one by one with a commit
//! each, and round trips. Calls block; they must not be made inside a runtime.

use crate::error::OpenError;
use crate::limits;
use crate::store::engines::postgres::connection::address::Address;
use crate::store::engines::postgres::connection::waits::Waits;
use crate::store::engines::postgres::connection::{Connection, get};
use crate::store::engines::postgres::writer;

/// Connections of an open store: its writer, its readers, its appenders and its change listener.
pub const CONNECTIONS_OF_A_STORE: usize = limits::READERS + limits::READERS_RESERVED + limits::APPENDERS + 2;

/// A connection to the database, with the schema of the address.
pub struct PlainConnection {
    link: Connection,
    schema: String,
    is_pooled: bool,
}

impl PlainConnection {
    /// Connects.
    ///
    /// # Errors
    /// If the address is invalid, or the server cannot be reached or written to.
    pub fn open(address: &str) -> Result<PlainConnection, OpenError> {
        let address = Address::parse(address)?;
        let link = writer::connect(&address, Waits::default())?;
        Ok(PlainConnection { link, is_pooled: !address.keeps_statements, schema: address.schema })
    }

    /// Creates the schema, and in it a table for [`PlainConnection::insert`].
    ///
    /// # Errors
    /// If it exists, another program uses it.
    pub fn create(&mut self) -> Result<(), OpenError> {
        // Both or neither: statements that are sent together are one transaction.
        let both = format!(
            "CREATE SCHEMA \"{}\"; CREATE TABLE @.plain \
             (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload bytea NOT NULL)",
            self.schema
        );
        Ok(self.link.run(&both)?)
    }

    /// Drops the schema with everything in it.
    ///
    /// # Errors
    /// If the database does not.
    pub fn drop_schema(&mut self) -> Result<(), OpenError> {
        Ok(self.link.run(&format!("DROP SCHEMA IF EXISTS \"{}\" CASCADE", self.schema))?)
    }

    /// Inserts a row and waits for its commit.
    ///
    /// # Errors
    /// If the database does not.
    pub fn insert(&mut self, payload: &[u8]) -> Result<(), OpenError> {
        self.link.send("INSERT INTO @.plain (payload) VALUES ($1)", vec![payload.into()], None)?;
        Ok(self.link.flush_replies()?)
    }

    /// Asks for nothing and waits for the answer.
    ///
    /// # Errors
    /// If there is none.
    pub fn round_trip(&mut self) -> Result<(), OpenError> {
        self.link.fetch("SELECT 1::bigint", Vec::new())?;
        Ok(())
    }

    /// How many more connections the server accepts; `None` behind a pooler, which has its own limit.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn spare_connections(&mut self) -> Result<Option<usize>, OpenError> {
        let sql = "SELECT current_setting('max_connections')::bigint \
             - current_setting('superuser_reserved_connections')::bigint \
             - (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')";
        let rows = self.link.fetch(sql, Vec::new())?;
        let spare = rows.first().map(|row| get::<i64>(row, 0)).transpose()?;
        Ok(spare.filter(|_| !self.is_pooled).map(|spare| usize::try_from(spare).unwrap_or(0)))
    }
}
