//! Stand-in for the tables.

#![allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps, reason = "a stand-in")]

use rusqlite::{Connection, ErrorCode};

use crate::audit::Record;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{Job, JobId, Labels, Seq, Spec};
use crate::store::engine::{
    CountChange, Counts, Document, DocumentKind, Edge, EngineResult, Facet, FacetQuery, FacetWrite, Key,
    KeyHolder, LaneCursor, NewRow, Read, RecordQuery, Side, Write,
};
use crate::store::filter::Scan;

pub(super) fn store_error(error: rusqlite::Error) -> StoreError {
    let words = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::SystemIoFailure) => StoreError::Stopped(words),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged(words),
        _ => StoreError::Database(words),
    }
}

pub(super) struct Tables(Connection);

impl Tables {
    pub(super) fn new(connection: Connection) -> EngineResult<Tables> {
        Ok(Tables(connection))
    }
    pub(super) fn connection(&self) -> &Connection {
        &self.0
    }
    fn batch(&self, sql: &str) -> EngineResult<()> {
        self.0.execute_batch(sql).map_err(store_error)
    }
    pub(super) fn begin_write(&mut self) -> EngineResult<()> {
        self.batch("BEGIN IMMEDIATE")
    }
    pub(super) fn commit(&mut self) -> EngineResult<u64> {
        self.batch("UPDATE meta SET commits = commits + 1")?;
        let number = self
            .0
            .query_row("SELECT commits FROM meta", [], |row| row.get::<_, i64>(0))
            .map_err(store_error)?;
        self.batch("COMMIT")?;
        Ok(number.unsigned_abs())
    }
    pub(super) fn rollback(&mut self) {
        let _ = self.batch("ROLLBACK");
    }
    pub(super) fn begin_read(&mut self) -> EngineResult<()> {
        self.batch("BEGIN")
    }
    pub(super) fn end_read(&mut self) {
        let _ = self.batch("COMMIT");
    }
}

fn no<T>() -> EngineResult<T> {
    Err(StoreError::Database("stand-in".to_owned()))
}

impl Read for Tables {
    fn find(&mut self, _: &[JobId]) -> EngineResult<Vec<Option<Job>>> {
        no()
    }
    fn load(&mut self, _: &[Seq]) -> EngineResult<Vec<Option<Job>>> {
        no()
    }
    fn specs(&mut self, _: &[Seq]) -> EngineResult<Vec<Option<Spec>>> {
        no()
    }
    fn ready(&mut self, _: &[LaneCursor], _: usize) -> EngineResult<Vec<Vec<Job>>> {
        no()
    }
    fn due(&mut self, _: Timestamp, _: usize) -> EngineResult<Vec<Job>> {
        no()
    }
    fn next_due(&mut self) -> EngineResult<Option<Timestamp>> {
        no()
    }
    fn scan(&mut self, _: &Scan) -> EngineResult<Vec<Job>> {
        no()
    }
    fn keyed(&mut self, _: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>> {
        no()
    }
    fn edges(&mut self, _: &[Seq], _: Side) -> EngineResult<Vec<Edge>> {
        no()
    }
    fn facets(&mut self, _: FacetQuery<'_>) -> EngineResult<Vec<Facet>> {
        no()
    }
    fn documents(&mut self, _: DocumentKind) -> EngineResult<Vec<Document>> {
        let mut statement =
            self.0.prepare("SELECT key, body FROM document ORDER BY key").map_err(store_error)?;
        let rows = statement.query_map([], |row| Ok(Document { key: row.get(0)?, body: row.get(1)? }));
        rows.and_then(Iterator::collect).map_err(store_error)
    }
    fn configuration_version(&mut self) -> EngineResult<u64> {
        no()
    }
    fn records(&mut self, _: &RecordQuery) -> EngineResult<Vec<Record>> {
        no()
    }
    fn counts(&mut self) -> EngineResult<&Counts> {
        no()
    }
}

impl Write for Tables {
    fn allocate(&mut self, _: usize) -> EngineResult<Seq> {
        no()
    }
    fn insert(&mut self, _: &[NewRow]) -> EngineResult<()> {
        no()
    }
    fn update(&mut self, _: &[Job]) -> EngineResult<()> {
        no()
    }
    fn relabel(&mut self, _: &[(Seq, Labels)]) -> EngineResult<()> {
        no()
    }
    fn remove(&mut self, _: &[Seq]) -> EngineResult<()> {
        no()
    }
    fn link(&mut self, _: &[Edge]) -> EngineResult<()> {
        no()
    }
    fn release_keys(&mut self, _: &[Key]) -> EngineResult<()> {
        no()
    }
    fn write_facets(&mut self, _: &[FacetWrite]) -> EngineResult<()> {
        no()
    }
    fn put_document(&mut self, _: DocumentKind, key: &str, body: Option<&[u8]>) -> EngineResult<()> {
        self.0
            .execute("INSERT OR REPLACE INTO document VALUES (?1, ?2)", (key, body))
            .map(drop)
            .map_err(store_error)
    }
    fn append(&mut self, _: &mut [Record]) -> EngineResult<()> {
        no()
    }
    fn count(&mut self, _: &[CountChange]) -> EngineResult<()> {
        no()
    }
}
