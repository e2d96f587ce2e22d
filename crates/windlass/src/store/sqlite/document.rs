//! Settings and other small documents. A change to one that claims consult moves the version of the configuration, by
//! which other connections notice it.

use rusqlite::params;

use super::tables::{Tables, prepare, store_error};
use crate::store::engine::{Document, DocumentKind, EngineResult};

impl Tables {
    pub(super) fn read_documents(&mut self, kind: DocumentKind) -> EngineResult<Vec<Document>> {
        let sql = "SELECT key, body FROM documents WHERE kind = ?1 ORDER BY key";
        let mut statement = prepare(&self.connection, sql)?;
        let rows = statement
            .query_map([kind_code(kind)], |row| Ok(Document { key: row.get(0)?, body: row.get(1)? }))
            .map_err(store_error)?;
        rows.map(|document| document.map_err(store_error)).collect()
    }

    pub(super) fn write_document(
        &mut self,
        kind: DocumentKind,
        key: &str,
        body: Option<&[u8]>,
    ) -> EngineResult<()> {
        let put = "INSERT OR REPLACE INTO documents (kind, key, body) VALUES (?1, ?2, ?3)";
        let remove = "DELETE FROM documents WHERE kind = ?1 AND key = ?2";
        match body {
            Some(body) => prepare(&self.connection, put)?.execute(params![kind_code(kind), key, body]),
            None => prepare(&self.connection, remove)?.execute(params![kind_code(kind), key]),
        }
        .map_err(store_error)?;
        if kind.is_configuration() {
            self.meta.config_version += 1;
        }
        Ok(())
    }
}

fn kind_code(kind: DocumentKind) -> i64 {
    match kind {
        DocumentKind::Queue => 0,
        DocumentKind::Type => 1,
        DocumentKind::Tenant => 2,
        DocumentKind::Hold => 3,
        DocumentKind::Worker => 4,
        DocumentKind::Rate => 5,
        DocumentKind::Seal => 6,
        DocumentKind::Cost => 7,
    }
}
