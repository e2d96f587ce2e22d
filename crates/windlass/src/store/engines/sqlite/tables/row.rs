//! Jobs and their specs as rows: columns, their order, and the checks that a row read is the row written. The encoding
//! of a job's record has its own module.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, Rows, Statement};

use super::{Interner, store_error};
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, JobState, Seq, Spec, acts_at};
use crate::store::engine::{ClaimOrder, EngineResult, is_row_damage};
use crate::store::engines::sql::codec::{Head, Shared, is_whole, unpack};
use crate::store::engines::sql::columns::{NEVER, SET_ASIDE, SpecColumns, code, damaged, worker_code};
use crate::store::filter::is_redriven;

/// The columns that a job's position in every index depends on; see the migration for their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::engines::sqlite) struct IndexKeys {
    pub(in crate::store::engines::sqlite) state: i64,
    pub(in crate::store::engines::sqlite) order_key: i64,
    pub(in crate::store::engines::sqlite) rank: i64,
    pub(in crate::store::engines::sqlite) at: i64,
    /// The column `expires_at`: for a scheduled job, whose column `at` is its claim position, when its timer is due;
    /// the end of its lifetime for any other.
    pub(in crate::store::engines::sqlite) expires_at: i64,
    /// The rank of a job that waits for a time.
    pub(in crate::store::engines::sqlite) due_rank: Option<i64>,
    /// The worker that it is leased to; see [`worker_code`].
    pub(in crate::store::engines::sqlite) worker: i64,
}

impl IndexKeys {
    /// The index columns of a job in this lane.
    pub(in crate::store::engines::sqlite) fn new(job: &JobRecord, lane: i64) -> IndexKeys {
        let state = code(job.state);
        let expires_at = job.expires_at.as_millis();
        if job.state == JobState::Scheduled {
            let place = ClaimOrder::new(job);
            let expires_at = acts_at(job).map_or(expires_at, Timestamp::as_millis);
            let (rank, at) = (i64::from(place.rank), place.eligible_at.as_millis());
            if job.is_blocked {
                let order_key = job.concurrency.map_or(0, |key| key.0);
                return IndexKeys {
                    state: SET_ASIDE,
                    order_key,
                    rank,
                    at,
                    expires_at,
                    due_rank: None,
                    worker: 0,
                };
            }
            return IndexKeys { state, order_key: lane, rank, at, expires_at, due_rank: None, worker: 0 };
        }
        let at = if job.state.is_final() { 0 } else { acts_at(job).map_or(NEVER, Timestamp::as_millis) };
        let due_rank = ClaimOrder::when_due(job).map(|place| i64::from(place.rank));
        let worker = worker_code(job);
        let order_key = i64::from(job.state.is_final() && is_redriven(job));
        IndexKeys { state, order_key, rank: 0, at, expires_at, due_rank, worker }
    }
}

/// The job in a row of `seq, id, lane, policy, record`.
pub(in crate::store::engines::sqlite) fn read_job(
    row: &Row<'_>,
    interned: &mut Interner,
    connection: &Connection,
) -> EngineResult<JobRecord> {
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

/// Like [`read_job`]; `None` if the row is damaged, because one damaged row must not stop what is done with others.
pub(in crate::store::engines::sqlite) fn read_readable(
    row: &Row<'_>,
    interned: &mut Interner,
    connection: &Connection,
) -> EngineResult<Option<JobRecord>> {
    match read_job(row, interned, connection) {
        Err(StoreError::Damaged(damage)) if is_row_damage(&damage) => {
            interned.left_out(row.get(0).map_err(store_error)?, &damage);
            Ok(None)
        }
        read => read.map(Some),
    }
}

/// The first `max` jobs of a result that can be read.
pub(in crate::store::engines::sqlite) fn read_jobs(
    mut rows: Rows<'_>,
    max: usize,
    interned: &mut Interner,
    connection: &Connection,
) -> EngineResult<Vec<JobRecord>> {
    let mut jobs = Vec::new();
    while jobs.len() < max
        && let Some(row) = rows.next().map_err(store_error)?
    {
        jobs.extend(read_readable(row, interned, connection)?);
    }
    Ok(jobs)
}

/// Binds a spec's columns from `owner` on to the parameters after the first, which is the sequence number.
pub(in crate::store::engines::sqlite) fn bind_spec(
    columns: &SpecColumns<'_>,
    seq: Seq,
    statement: &mut Statement<'_>,
) -> rusqlite::Result<()> {
    statement.raw_bind_parameter(1, seq.0)?;
    for (place, text) in columns.texts.iter().enumerate() {
        statement.raw_bind_parameter(place + 2, text)?;
    }
    for (place, list) in columns.lists.iter().enumerate() {
        statement.raw_bind_parameter(place + 11, list)?;
    }
    statement.raw_bind_parameter(13, columns.crc(seq))?;
    statement.raw_bind_parameter(14, columns.payload)
}

fn read_columns<'a>(row: &'a Row<'_>) -> rusqlite::Result<SpecColumns<'a>> {
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

/// The spec from a row of the columns from `owner` on.
pub(in crate::store::engines::sqlite) fn read_spec(row: &Row<'_>, seq: Seq) -> EngineResult<Spec> {
    let unreadable = |_| damaged("jobs", seq.0, "cannot be decoded");
    let columns = read_columns(row).map_err(unreadable)?;
    columns.into_spec(seq, row.get(11).map_err(unreadable)?)
}

/// Like [`read_spec`], for a row that does not match its checksum; `None` if it cannot be decoded.
pub(in crate::store::engines::sqlite) fn read_unchecked_spec(row: &Row<'_>, seq: Seq) -> Option<Spec> {
    read_columns(row).ok()?.into_unchecked_spec(seq).ok()
}
