//! Jobs and what was submitted for them as rows: which columns, in which order, and the checks that a row read is the row
//! written. The packing of a job's record has its own module.

mod record;

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Rows, Statement};

pub(super) use self::record::{Head, pack};
use self::record::{Shared, is_whole, unpack};
use super::tables::{Interned, damaged, store_error};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{Job, JobId, Labels, Payload, Seq, Spec, State, acts_at};
use crate::store::config::{encode, parse};
use crate::store::engine::{EngineResult, Place};

/// The code of a scheduled job that is set aside for its concurrency key; one more than the last state's.
pub(super) const SET_ASIDE: i64 = 12;
/// A moment that never comes.
pub(super) const NEVER: i64 = i64::MAX;

/// The columns that a job's place in every order follows from; see the migration for their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IndexKeys {
    pub(super) state: i64,
    pub(super) order_key: i64,
    pub(super) rank: i64,
    pub(super) at: i64,
}

impl IndexKeys {
    /// Where a job in this lane stands.
    pub(super) fn of(job: &Job, lane: i64) -> IndexKeys {
        let state = code(job.state);
        if job.state == State::Scheduled {
            let place = Place::of(job);
            let (rank, at) = (i64::from(place.rank), place.eligible_at.as_millis());
            if job.is_blocked {
                let order_key = job.concurrency.map_or(0, |key| key.0);
                return IndexKeys { state: SET_ASIDE, order_key, rank, at };
            }
            return IndexKeys { state, order_key: lane, rank, at };
        }
        let at = if job.state.is_final() { 0 } else { acts_at(job).map_or(NEVER, Timestamp::as_millis) };
        IndexKeys { state, order_key: 0, rank: 0, at }
    }
}

/// A state as stored.
pub(super) fn code(state: State) -> i64 {
    i64::from(state as u8)
}

/// The job in a row of `seq, id, lane, policy, record`.
pub(super) fn read_job(row: &Row<'_>, interned: &mut Interned, connection: &Connection) -> EngineResult<Job> {
    let seq: i64 = row.get(0).map_err(store_error)?;
    let id: [u8; 16] = row.get(1).map_err(store_error)?;
    let (lane, policy) = (row.get(2).map_err(store_error)?, row.get(3).map_err(store_error)?);
    let head = Head { seq: Seq(seq), id: JobId::from_bytes(id), lane, policy };
    let record = row.get_ref(4).map_err(store_error)?.as_blob_or_null().ok().flatten().unwrap_or_default();
    if !is_whole(record, &head) {
        return Err(damaged("hot", seq, "does not match its checksum"));
    }
    let shared = Shared {
        lane: interned.lane(connection, lane)?,
        policy: interned.policy(connection, policy)?,
        no_details: interned.no_details.clone(),
    };
    unpack(record, &head, shared).ok_or_else(|| damaged("hot", seq, "cannot be unpacked"))
}

/// All jobs of a result.
pub(super) fn read_jobs(
    mut rows: Rows<'_>,
    interned: &mut Interned,
    connection: &Connection,
) -> EngineResult<Vec<Job>> {
    let mut jobs = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        jobs.push(read_job(row, interned, connection)?);
    }
    Ok(jobs)
}

/// The columns of `jobs` in their order: owner, content type, idempotency key, unique key, concurrency key, tags,
/// correlation id, callback address, traceparent; then the two lists of dependencies; then the payload.
pub(super) struct SpecColumns<'a> {
    texts: [Option<&'a str>; 9],
    lists: [Option<&'a [u8]>; 2],
    payload: &'a [u8],
}

/// The parts of a [`Spec`] that have to be written out before they can be columns.
pub(super) struct SpecParts {
    pub(super) tags: Option<String>,
    after: Option<Vec<u8>>,
    after_any: Option<Vec<u8>>,
}

impl SpecParts {
    pub(super) fn of(spec: &Spec) -> SpecParts {
        let list = |ids: &[JobId]| {
            (!ids.is_empty()).then(|| ids.iter().flat_map(|id| *id.as_bytes()).collect::<Vec<u8>>())
        };
        SpecParts {
            tags: tags_text(&spec.labels),
            after: list(&spec.after),
            after_any: list(&spec.after_any),
        }
    }
}

fn tags_text(labels: &Labels) -> Option<String> {
    (!labels.tags.is_empty()).then(|| String::from_utf8_lossy(&encode(&labels.tags)).into_owned())
}

impl<'a> SpecColumns<'a> {
    /// What is to be written.
    pub(super) fn of(spec: &'a Spec, parts: &'a SpecParts) -> SpecColumns<'a> {
        let content_type = &*spec.payload.content_type;
        SpecColumns {
            texts: [
                Some(&spec.owner),
                (content_type != Payload::JSON).then_some(content_type),
                spec.idempotency_key.as_deref(),
                spec.unique_key.as_deref(),
                spec.concurrency_key.as_deref(),
                parts.tags.as_deref(),
                spec.labels.correlation_id.as_deref(),
                spec.labels.callback_url.as_deref(),
                spec.traceparent.as_deref(),
            ],
            lists: [parts.after.as_deref(), parts.after_any.as_deref()],
            payload: &spec.payload.bytes,
        }
    }

    /// Binds the columns from `owner` on to the parameters after the first, which is the place.
    pub(super) fn bind(&self, seq: Seq, statement: &mut Statement<'_>) -> rusqlite::Result<()> {
        statement.raw_bind_parameter(1, seq.0)?;
        for (place, text) in self.texts.iter().enumerate() {
            statement.raw_bind_parameter(place + 2, text)?;
        }
        for (place, list) in self.lists.iter().enumerate() {
            statement.raw_bind_parameter(place + 11, list)?;
        }
        statement.raw_bind_parameter(13, self.crc(seq))?;
        statement.raw_bind_parameter(14, self.payload)
    }

    /// A checksum over everything, with the lengths, so that no text can pass for a part of its neighbour.
    pub(super) fn crc(&self, seq: Seq) -> u32 {
        let texts = self.texts.iter().map(|text| text.map(str::as_bytes));
        let mut head = Vec::with_capacity(256);
        head.extend(seq.0.to_le_bytes());
        for field in texts.chain(self.lists) {
            let length = field.map_or(0, |bytes| bytes.len() as u64 + 1);
            head.extend(length.to_le_bytes());
            head.extend(field.unwrap_or_default());
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        hasher.update(self.payload);
        hasher.finalize()
    }

    fn read(row: &'a Row<'_>) -> rusqlite::Result<SpecColumns<'a>> {
        let mut columns = SpecColumns { texts: [None; 9], lists: [None; 2], payload: &[] };
        for (place, text) in columns.texts.iter_mut().enumerate() {
            *text = row.get_ref(place)?.as_str_or_null()?;
        }
        for (place, list) in columns.lists.iter_mut().enumerate() {
            *list = row.get_ref(place + 9)?.as_blob_or_null()?;
        }
        if let ValueRef::Blob(payload) = row.get_ref(12)? {
            columns.payload = payload;
        }
        Ok(columns)
    }
}

/// What was submitted, from a row of the columns from `owner` on.
pub(super) fn read_spec(row: &Row<'_>, seq: Seq) -> EngineResult<Spec> {
    let columns = SpecColumns::read(row).map_err(store_error)?;
    let check: u32 = row.get(11).map_err(store_error)?;
    if columns.crc(seq) != check {
        return Err(damaged("jobs", seq.0, "does not match its checksum"));
    }
    let owned = |place: usize| columns.texts[place].map(str::to_owned);
    Ok(Spec {
        payload: Payload {
            bytes: Arc::from(columns.payload),
            content_type: Arc::from(columns.texts[1].unwrap_or(Payload::JSON)),
        },
        idempotency_key: owned(2),
        unique_key: owned(3),
        concurrency_key: owned(4),
        labels: Labels {
            tags: columns.texts[5].map_or_else(|| Ok(BTreeMap::new()), |text| parse(text.as_bytes()))?,
            correlation_id: owned(6),
            callback_url: owned(7),
        },
        owner: owned(0).unwrap_or_default(),
        traceparent: owned(8),
        after: read_ids(columns.lists[0], seq)?,
        after_any: read_ids(columns.lists[1], seq)?,
    })
}

fn read_ids(list: Option<&[u8]>, seq: Seq) -> Result<Vec<JobId>, StoreError> {
    let (ids, rest) = list.unwrap_or_default().as_chunks::<16>();
    if !rest.is_empty() {
        return Err(damaged("jobs", seq.0, "holds half an id"));
    }
    Ok(ids.iter().map(|id| JobId::from_bytes(*id)).collect())
}
