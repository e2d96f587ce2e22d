//! Settings and other small documents. A change to a configuration document increments the version of the
//! configuration, by which other connections notice it.

use tokio_postgres::Row;

use super::Tables;
use super::intern::check;
use super::query::text_of;
use crate::store::engine::{Document, DocumentKind, DocumentRange, Documents, DocumentsMut, EngineResult};
use crate::store::engines::postgres::connection::{Question, get};
use crate::store::engines::postgres::parameter::{Column, Parameter};
use crate::store::engines::sql::columns::{damaged, document_check, document_kind_code, limit};

const FROM: &str = "SELECT key, body, \"check\" FROM @.documents WHERE kind = $1::bigint AND key >= $2 ORDER BY key LIMIT $3";
const BETWEEN: &str = "SELECT key, body, \"check\" FROM @.documents WHERE kind = $1::bigint AND key >= $2 AND key < $4 \
     ORDER BY key LIMIT $3";
const ONE: &str = "SELECT key, body, \"check\" FROM @.documents WHERE kind = $1::bigint AND key = $2";
const FIRST: &str =
    "SELECT key, body, \"check\" FROM @.documents WHERE kind = $1::bigint ORDER BY key LIMIT 1";
const PUT: &str = "INSERT INTO @.documents (kind, key, \"check\", body) VALUES ($1::bigint, $2, $3, $4) \
     ON CONFLICT (kind, key) DO UPDATE SET \"check\" = excluded.\"check\", body = excluded.body";
const PUT_ALL: &str = "INSERT INTO @.documents (kind, key, \"check\", body) \
     SELECT $1::bigint, u.key, u.c, u.body FROM unnest($2::bytea[], $3::bigint[], $4::bytea[]) u(key, c, body) \
     ON CONFLICT (kind, key) DO UPDATE SET \"check\" = excluded.\"check\", body = excluded.body";
const REMOVE: &str = "DELETE FROM @.documents WHERE kind = $1::bigint AND key = $2";

/// All documents of several kinds in one query.
const OF: &str =
    "SELECT key, body, \"check\", kind::bigint FROM @.documents WHERE kind = ANY($1::bigint[]) ORDER BY key";

impl Tables {
    fn documents_by(
        &mut self,
        sql: &str,
        kind: DocumentKind,
        rest: Vec<Parameter>,
    ) -> EngineResult<Vec<Document>> {
        let mut values: Vec<Parameter> = vec![document_kind_code(kind).into()];
        values.extend(rest);
        self.link.fetch(sql, values)?.iter().map(|row| read(kind, row)).collect()
    }
}

impl Documents for Tables {
    fn document(&mut self, kind: DocumentKind, key: &str) -> EngineResult<Option<Document>> {
        Ok(self.documents_by(ONE, kind, vec![key.as_bytes().into()])?.pop())
    }

    fn documents_of(&mut self, kinds: &[DocumentKind]) -> EngineResult<Vec<Vec<Document>>> {
        let codes = Column::from_numbers(kinds.iter().map(|kind| document_kind_code(*kind)));
        let mut found: Vec<Vec<Document>> = kinds.iter().map(|_| Vec::new()).collect();
        for row in &self.link.fetch(OF, vec![codes.into()])? {
            let code: i64 = get(row, 3)?;
            for (kind, found) in
                kinds.iter().zip(&mut found).filter(|(kind, _)| document_kind_code(**kind) == code)
            {
                found.push(read(*kind, row)?);
            }
        }
        Ok(found)
    }

    fn configuration_version(&mut self) -> EngineResult<u64> {
        Ok(self.meta.config_version.unsigned_abs())
    }

    fn documents_in(&mut self, kind: DocumentKind, range: DocumentRange<'_>) -> EngineResult<Vec<Document>> {
        if range.before.is_some_and(|before| self.ahead.has_none_before(kind, before)) {
            return Ok(Vec::new());
        }
        let mut values = vec![range.first_key().as_bytes().into(), limit(range.limit).into()];
        values.extend(range.before.map(|before| before.as_bytes().into()));
        self.documents_by(if range.before.is_some() { BETWEEN } else { FROM }, kind, values)
    }
}

impl DocumentsMut for Tables {
    fn put_document(&mut self, kind: DocumentKind, key: &str, body: Option<&[u8]>) -> EngineResult<()> {
        self.ahead.document_moved(kind);
        let code = document_kind_code(kind);
        let mut values: Vec<Parameter> = vec![code.into(), key.as_bytes().into()];
        match body {
            Some(body) => {
                values.extend([i64::from(document_check(code, key, body)).into(), body.into()]);
                self.write(PUT, values, None)?;
            }
            None => self.write(REMOVE, values, None)?,
        }
        if kind.is_configuration() {
            self.meta.config_version += 1;
        }
        Ok(())
    }

    fn put_documents(&mut self, kind: DocumentKind, documents: &[Document]) -> EngineResult<()> {
        self.ahead.document_moved(kind);
        let code = document_kind_code(kind);
        let (mut keys, mut checks, mut bodies) = (Column::bytes(), Column::numbers(), Column::bytes());
        for document in documents {
            keys.push(document.key.as_bytes());
            checks.number(i64::from(document_check(code, &document.key, &document.body)));
            bodies.push(&document.body);
        }
        self.write(PUT_ALL, vec![code.into(), keys.into(), checks.into(), bodies.into()], None)
    }
}

/// The query for the first document of a kind.
pub(in crate::store::engines::postgres) fn first(kind: DocumentKind) -> Question<'static> {
    (FIRST, vec![document_kind_code(kind).into()])
}

/// A document from its row.
pub(in crate::store::engines::postgres) fn read(kind: DocumentKind, row: &Row) -> EngineResult<Document> {
    let kind = document_kind_code(kind);
    let key = text_of(get(row, 0)?, "documents", kind)?.to_owned();
    let document = Document { key, body: get(row, 1)? };
    if document_check(kind, &document.key, &document.body) != check(get(row, 2)?) {
        return Err(damaged("documents", kind, "does not match its checksum"));
    }
    Ok(document)
}
