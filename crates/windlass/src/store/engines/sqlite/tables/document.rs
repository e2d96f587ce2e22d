//! Settings and other small documents. A change to a configuration document increments the version of the
//! configuration, by which other connections notice it.

use rusqlite::{ToSql, params};

use super::{Holds, Tables, prepare, store_error};
use crate::store::engine::{Document, DocumentKind, DocumentRange, Documents, DocumentsMut, EngineResult};
use crate::store::engines::sql::columns::{damaged, document_check, document_kind_code, limit};

const FROM: &str =
    "SELECT key, body, \"check\" FROM documents WHERE kind = ?1 AND key >= ?2 ORDER BY key LIMIT ?3";
const BETWEEN: &str = "SELECT key, body, \"check\" FROM documents WHERE kind = ?1 AND key >= ?2 AND key < ?4 \
     ORDER BY key LIMIT ?3";
const ONE: &str = "SELECT key, body, \"check\" FROM documents WHERE kind = ?1 AND key = ?2";

impl<C: Holds> Tables<C> {
    fn documents_by(
        &self,
        sql: &str,
        kind: DocumentKind,
        parameters: &[&dyn ToSql],
    ) -> EngineResult<Vec<Document>> {
        let mut statement = prepare(self.connection.get(), sql)?;
        let mut rows = statement.query(parameters).map_err(store_error)?;
        let mut documents = Vec::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            let document =
                Document { key: row.get(0).map_err(store_error)?, body: row.get(1).map_err(store_error)? };
            let check: u32 = row.get(2).map_err(store_error)?;
            if document_check(document_kind_code(kind), &document.key, &document.body) != check {
                return Err(damaged("documents", document_kind_code(kind), "does not match its checksum"));
            }
            documents.push(document);
        }
        Ok(documents)
    }
}

impl<C: Holds> Documents for Tables<C> {
    fn document(&mut self, kind: DocumentKind, key: &str) -> EngineResult<Option<Document>> {
        Ok(self.documents_by(ONE, kind, params![document_kind_code(kind), key])?.pop())
    }

    fn configuration_version(&mut self) -> EngineResult<u64> {
        Ok(self.meta.config_version)
    }

    fn documents_in(&mut self, kind: DocumentKind, range: DocumentRange<'_>) -> EngineResult<Vec<Document>> {
        let (code, first, limit) = (document_kind_code(kind), range.first_key(), limit(range.limit));
        match range.before {
            Some(before) => self.documents_by(BETWEEN, kind, params![code, first, limit, before]),
            None => self.documents_by(FROM, kind, params![code, first, limit]),
        }
    }
}

impl<C: Holds> DocumentsMut for Tables<C> {
    fn put_document(&mut self, kind: DocumentKind, key: &str, body: Option<&[u8]>) -> EngineResult<()> {
        let put = "INSERT OR REPLACE INTO documents (kind, key, \"check\", body) VALUES (?1, ?2, ?3, ?4)";
        let remove = "DELETE FROM documents WHERE kind = ?1 AND key = ?2";
        match body {
            Some(body) => {
                let check = document_check(document_kind_code(kind), key, body);
                prepare(self.connection.get(), put)?.execute(params![
                    document_kind_code(kind),
                    key,
                    check,
                    body
                ])
            }
            None => prepare(self.connection.get(), remove)?.execute(params![document_kind_code(kind), key]),
        }
        .map_err(store_error)?;
        if kind.is_configuration() {
            self.meta.config_version += 1;
        }
        Ok(())
    }
}
