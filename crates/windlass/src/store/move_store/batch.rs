//! Rows on their way from one store to another, a page at a time: read from the source, written to the target in one
//! commit, or hashed on either side.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cursor::Cursor;
use crate::audit::Record;
use crate::error::StoreError;
use crate::job::{JobState, Lane};
use crate::store::documents::key_counts::KeyChanges;
use crate::store::engine::{
    CountChange, Document, DocumentKind, DocumentRange, Edge, EngineResult, Export, Import, JobData,
    JobDataPosition, JobDataWrite, Key, KeyHolder, NewRow, Page, Read, RecordQuery, SequenceNumbers, Write,
};

/// Rows of one part.
pub(super) enum Rows {
    Documents(DocumentKind, Vec<Document>),
    Records(Vec<Record>),
    Jobs(Vec<NewRow>),
    JobData(Vec<JobData>),
    Keys(Vec<(Key, KeyHolder)>),
    Edges(Vec<Edge>),
    Numbers(SequenceNumbers),
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        match self {
            Rows::Documents(_, rows) => rows.len(),
            Rows::Records(rows) => rows.len(),
            Rows::Jobs(rows) => rows.len(),
            Rows::JobData(rows) => rows.len(),
            Rows::Keys(rows) => rows.len(),
            Rows::Edges(rows) => rows.len(),
            Rows::Numbers(_) => 1,
        }
    }

    /// The part's index in [`PARTS`](super::cursor::PARTS).
    pub(super) fn part(&self) -> usize {
        match self {
            Rows::Documents(..) => 0,
            Rows::Records(_) => 1,
            Rows::Jobs(_) => 2,
            Rows::JobData(_) => 3,
            Rows::Keys(_) => 4,
            Rows::Edges(_) => 5,
            Rows::Numbers(_) => 6,
        }
    }
}

/// A page of rows, and the cursor after them.
pub(super) struct Batch {
    pub(super) rows: Rows,
    pub(super) next: Cursor,
}

impl Batch {
    /// Reads the page at a cursor; `None` at the end. Empty parts are skipped.
    pub(super) fn read(db: &mut dyn Read, cursor: &Cursor, page: Page) -> EngineResult<Option<Batch>> {
        let mut cursor = cursor.clone();
        loop {
            if cursor == Cursor::End {
                return Ok(None);
            }
            let (rows, next) = read_page(db, &cursor, page)?;
            match next {
                Some(next) => return Ok(Some(Batch { rows, next })),
                None => cursor = cursor.next_part(),
            }
        }
    }

    /// Writes the rows, with the counts derived from them.
    pub(super) fn write(&self, db: &mut dyn Write) -> EngineResult<()> {
        match &self.rows {
            Rows::Documents(kind, documents) => documents
                .iter()
                .try_for_each(|document| db.put_document(*kind, &document.key, Some(&document.body))),
            Rows::Records(records) => importer(db)?.import_records(records),
            Rows::Jobs(rows) => {
                db.insert(rows)?;
                db.count(&counts(rows))?;
                let mut keys = KeyChanges::default();
                for row in rows {
                    keys.add(&row.job, None, Some(row.job.state));
                }
                db.count_keys(&keys.into_changes())
            }
            Rows::JobData(job_data) => {
                let writes: Vec<JobDataWrite> = job_data.iter().cloned().map(JobDataWrite::Put).collect();
                db.write_job_data(&writes)
            }
            Rows::Keys(keys) => importer(db)?.import_keys(keys),
            Rows::Edges(edges) => db.link(edges),
            Rows::Numbers(numbers) => db.adopt(*numbers),
        }
    }
}

/// The rows at a cursor, and the cursor after the last of them; `None` if there are none.
fn read_page(db: &mut dyn Read, cursor: &Cursor, page: Page) -> EngineResult<(Rows, Option<Cursor>)> {
    Ok(match cursor {
        Cursor::Documents { kind, after } => {
            let rows = db.documents_in(*kind, DocumentRange::after(after.as_deref(), page.rows))?;
            let next =
                rows.last().map(|last| Cursor::Documents { kind: *kind, after: Some(last.key.clone()) });
            (Rows::Documents(*kind, rows), next)
        }
        Cursor::Records { after } => {
            let query = RecordQuery { after: *after, limit: page.rows, ..RecordQuery::default() };
            let rows = db.records(&query)?;
            let next = rows.last().map(|last| Cursor::Records { after: last.seq });
            (Rows::Records(rows), next)
        }
        Cursor::Jobs { after } => {
            let rows = exporter(db)?.jobs_after(*after, page)?;
            let next = rows.last().map(|last| Cursor::Jobs { after: last.job.seq });
            (Rows::Jobs(rows), next)
        }
        Cursor::JobData { after } => {
            let rows = exporter(db)?.job_data_after(after.as_ref(), page)?;
            let next = rows.last().map(|last| Cursor::JobData { after: Some(JobDataPosition::new(last)) });
            (Rows::JobData(rows), next)
        }
        Cursor::Keys { after } => {
            let rows = exporter(db)?.keys_after(after.as_ref(), page)?;
            let next = rows.last().map(|(last, _)| Cursor::Keys { after: Some(last.clone()) });
            (Rows::Keys(rows), next)
        }
        Cursor::Edges { after } => {
            let rows = exporter(db)?.edges_after(*after, page)?;
            let next = rows.last().map(|last| Cursor::Edges { after: Some(*last) });
            (Rows::Edges(rows), next)
        }
        Cursor::Numbers | Cursor::End => (Rows::Numbers(db.numbers()?), Some(Cursor::End)),
    })
}

fn exporter(db: &mut dyn Read) -> EngineResult<&mut dyn Export> {
    db.export().ok_or_else(|| StoreError::Database("the store's engine cannot be moved from".to_owned()))
}

fn importer(db: &mut dyn Write) -> EngineResult<&mut dyn Import> {
    db.import().ok_or_else(|| StoreError::Database("the store's engine cannot be moved to".to_owned()))
}

fn counts(rows: &[NewRow]) -> Vec<CountChange> {
    let mut counts: BTreeMap<(Arc<Lane>, JobState), i64> = BTreeMap::new();
    for row in rows {
        *counts.entry((row.job.lane.clone(), row.job.state)).or_default() += 1;
    }
    counts.into_iter().map(|((lane, state), by)| CountChange { lane, state, by }).collect()
}
