//! The content of a store as a count and a SHA-256 per part, over logical rows, so that two engines with the same
//! content give the same result. Everything of varying length is preceded by its length, so that field boundaries are
//! covered.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::batch::{Batch, Rows};
use super::cursor::PARTS;
use crate::audit::Record;
use crate::store::documents::config::encode;
use crate::store::engine::{DocumentKind, JobData, Key, KeyHolder, NewRow};
use crate::store::engines::sql::codec::{Head, pack};
use crate::store::engines::sql::columns::{
    SpecColumns, SpecParts, document_kind_code, event_code, job_data_kind_code, key_columns, need_code,
    state_code_of,
};
use crate::ticket::hexadecimal;

/// The digest of one part of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartDigest {
    /// The part's name.
    pub part: &'static str,
    /// Number of rows.
    pub rows: u64,
    /// Their SHA-256, in hexadecimal digits.
    pub sha256: String,
}

impl fmt::Display for PartDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} with sha256 {}", self.rows, self.part, &self.sha256[..16])
    }
}

/// All parts while they are read.
#[derive(Default)]
pub(super) struct Digests {
    parts: [(u64, Sha256); PARTS.len()],
}

impl Digests {
    /// Adds the rows of a batch.
    pub(super) fn take(&mut self, batch: &Batch) {
        // Since when a store is served differs between the source and the target.
        if matches!(batch.rows, Rows::Documents(DocumentKind::Grace, _)) {
            return;
        }
        let fold = &mut self.parts[batch.rows.part()];
        fold.0 += batch.rows.len() as u64;
        fold_rows(&mut Fold(&mut fold.1), &batch.rows);
    }

    /// The digests.
    pub(super) fn finish(self) -> Vec<PartDigest> {
        let parts = PARTS.into_iter().zip(self.parts);
        parts
            .map(|(part, (rows, sha))| PartDigest { part, rows, sha256: hexadecimal(&sha.finalize()) })
            .collect()
    }
}

/// A hasher for fields.
struct Fold<'a>(&'a mut Sha256);

impl Fold<'_> {
    fn number(&mut self, number: i64) {
        self.0.update(number.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn maybe(&mut self, bytes: Option<&[u8]>) {
        self.0.update([u8::from(bytes.is_some())]);
        if let Some(bytes) = bytes {
            self.bytes(bytes);
        }
    }
}

fn fold_rows(fold: &mut Fold<'_>, rows: &Rows) {
    match rows {
        Rows::Documents(kind, documents) => {
            for document in documents {
                fold.number(document_kind_code(*kind));
                fold.bytes(document.key.as_bytes());
                fold.bytes(&document.body);
            }
        }
        Rows::Records(records) => records.iter().for_each(|record| fold_record(fold, record)),
        Rows::Jobs(rows) => {
            let mut packed = Vec::with_capacity(256);
            for row in rows {
                fold_job(fold, row, &mut packed);
            }
        }
        Rows::JobData(job_data) => job_data.iter().for_each(|data| fold_job_data(fold, data)),
        Rows::Keys(keys) => keys.iter().for_each(|(key, holder)| fold_key(fold, key, *holder)),
        Rows::Edges(edges) => {
            for edge in edges {
                for number in [edge.dependency.0, edge.dependent.0, need_code(edge.need)] {
                    fold.number(number);
                }
            }
        }
        Rows::Numbers(numbers) => {
            fold.number(numbers.seq.0);
            fold.number(numbers.record.cast_signed());
        }
    }
}

fn fold_record(fold: &mut Fold<'_>, record: &Record) {
    fold.number(record.seq.cast_signed());
    fold.number(event_code(record.event));
    fold.number(record.at.as_millis());
    for text in [&record.actor_type, &record.actor_id, &record.context] {
        fold.bytes(text.as_bytes());
    }
    fold.bytes(record.tenant.as_str().as_bytes());
    fold.maybe(record.alias.as_deref().map(str::as_bytes));
    fold.maybe(record.trace_id.as_deref().map(str::as_bytes));
    fold.maybe(record.job.as_ref().map(|job| &job.as_bytes()[..]));
    fold.maybe(record.queue.as_ref().map(|queue| queue.as_str().as_bytes()));
    fold.maybe(record.job_type.as_ref().map(|job_type| job_type.as_str().as_bytes()));
}

fn fold_job(fold: &mut Fold<'_>, row: &NewRow, packed: &mut Vec<u8>) {
    let job = &row.job;
    // The numbers of lanes and policies are specific to an engine; their content follows.
    pack(job, &Head { seq: job.seq, id: job.id, lane: 0, policy: 0 }, packed);
    fold.number(job.seq.0);
    fold.bytes(job.id.as_bytes());
    fold.bytes(packed);
    for name in [job.lane.tenant.as_str(), job.lane.queue.as_str(), job.lane.job_type.as_str()] {
        fold.bytes(name.as_bytes());
    }
    fold.maybe(job.lane.version.as_ref().map(|version| version.as_str().as_bytes()));
    fold.bytes(&encode(&*job.policy));
    let parts = SpecParts::new(&row.spec);
    let columns = SpecColumns::new(&row.spec, &parts);
    columns.texts.iter().for_each(|text| fold.maybe(text.map(str::as_bytes)));
    columns.lists.iter().for_each(|list| fold.maybe(*list));
    fold.bytes(columns.payload);
}

fn fold_job_data(fold: &mut Fold<'_>, data: &JobData) {
    fold.number(data.seq.0);
    fold.number(job_data_kind_code(data.kind));
    fold.bytes(data.name.as_bytes());
    fold.number(data.number.cast_signed());
    fold.bytes(&data.body);
}

fn fold_key(fold: &mut Fold<'_>, key: &Key, holder: KeyHolder) {
    let (kind, tenant, job_type, text) = key_columns(key);
    fold.number(kind);
    for text in [tenant, job_type, text] {
        fold.bytes(text.as_bytes());
    }
    fold.number(holder.seq.0);
    fold.number(holder.expires_at.as_millis());
    fold.maybe(holder.memory.as_ref().map(|memory| &memory.id.as_bytes()[..]));
    fold.maybe(holder.memory.as_ref().map(|memory| &memory.payload.0[..]));
    fold.number(state_code_of(&holder).unwrap_or(-1));
}
