//! Jobs as rows: the columns of `hot`, and the index tables that list a job because of its state. The encoding of a
//! record is the same in every database and has its own module.

use std::error::Error;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};
use uuid::Uuid;

use crate::clock::Timestamp;
use crate::job::{JobId, JobRecord, JobState, Seq, acts_at};
use crate::store::engine::{ClaimOrder, EngineResult};
use crate::store::engines::postgres::connection::get;
use crate::store::engines::sql::codec::{Head, Shared, is_whole, unpack};
use crate::store::engines::sql::columns::{NEVER, REDRIVEN, SET_ASIDE, TIMED, code, damaged, worker_code};
use crate::store::engines::sql::interner::Interner;
use crate::store::filter::is_redriven;

/// A job's entries in the index tables; all are derived from the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::engines::postgres) struct ColumnIndexes {
    /// The location of the row in `hot`, if it was just read: it can be changed without a search.
    pub(in crate::store::engines::postgres) row: Option<TupleId>,
    /// In `ready`: rank and time.
    pub(in crate::store::engines::postgres) ready: Option<(i64, i64)>,
    /// The location of the row in `ready`, if it was just read: it can be removed without a search.
    pub(in crate::store::engines::postgres) ready_row: Option<TupleId>,
    /// In `slots`: key, state, rank and time. Jobs that wait for a time are there too.
    pub(in crate::store::engines::postgres) slot: Option<(i64, i64, i64, i64)>,
    /// In `states`: the state, increased by [`REDRIVEN`] for a final job that was redriven. Other completed jobs are
    /// not listed: most jobs are completed, and scanning all jobs finds them as quickly.
    pub(in crate::store::engines::postgres) listed: Option<i64>,
    /// In `timers`: not after this time.
    pub(in crate::store::engines::postgres) acts_at: i64,
    /// Whether it is among the running jobs of `timers`.
    pub(in crate::store::engines::postgres) is_running: bool,
    /// Their worker; see [`worker_code`].
    pub(in crate::store::engines::postgres) worker: i64,
}

impl ColumnIndexes {
    /// The index entries of a job.
    pub(in crate::store::engines::postgres) fn new(job: &JobRecord) -> ColumnIndexes {
        let place = ClaimOrder::new(job);
        let (rank, at) = (i64::from(place.rank), place.eligible_at.as_millis());
        let (is_scheduled, is_running) = (job.state == JobState::Scheduled, job.state == JobState::Running);
        let slot = job.concurrency.and_then(|key| match job.state {
            // Running jobs are found by key alone.
            JobState::Running => Some((key.0, code(JobState::Running), 0, 0)),
            JobState::Scheduled if job.is_blocked => Some((key.0, SET_ASIDE, rank, at)),
            _ => None,
        });
        let timed = ClaimOrder::when_due(job).map(|due| (0, TIMED, rank, due.eligible_at.as_millis()));
        let is_listed = !is_scheduled && !is_running && job.state != JobState::Completed;
        let listed = if job.state.is_final() && is_redriven(job) {
            Some(code(job.state) + REDRIVEN)
        } else {
            is_listed.then(|| code(job.state))
        };
        ColumnIndexes {
            row: None,
            ready: (is_scheduled && !job.is_blocked).then_some((rank, at)),
            ready_row: None,
            slot: slot.or(timed),
            listed,
            acts_at: acts_at(job).map_or(NEVER, Timestamp::as_millis),
            is_running,
            worker: worker_code(job),
        }
    }
}

/// The location of a row in its table: valid until the transaction that read it ends, as long as no other transaction
/// writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store::engines::postgres) struct TupleId(pub(in crate::store::engines::postgres) [u8; 6]);

impl<'r> FromSql<'r> for TupleId {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<TupleId, Box<dyn Error + Sync + Send>> {
        Ok(TupleId(raw.try_into()?))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::TID
    }
}

/// The state in `hot`: blocked jobs have their own code.
pub(in crate::store::engines::postgres) fn state_code(job: &JobRecord) -> i64 {
    if job.state == JobState::Scheduled && job.is_blocked { SET_ASIDE } else { code(job.state) }
}

/// The columns of a job, in the order in which they are read.
pub(in crate::store::engines::postgres) struct Parts<'r> {
    pub(in crate::store::engines::postgres) head: Head,
    pub(in crate::store::engines::postgres) record: &'r [u8],
}

impl<'r> Parts<'r> {
    /// From a row of `seq, id, lane, policy, record`.
    pub(in crate::store::engines::postgres) fn read(row: &'r Row) -> EngineResult<Parts<'r>> {
        let id: Uuid = get(row, 1)?;
        let head = Head {
            seq: Seq(get(row, 0)?),
            id: JobId::from_bytes(id.into_bytes()),
            lane: get(row, 2)?,
            policy: get(row, 3)?,
        };
        Ok(Parts { head, record: get(row, 4)? })
    }

    /// The job; its lane and policy must be cached.
    pub(in crate::store::engines::postgres) fn into_job(
        self,
        interned: &Interner,
    ) -> EngineResult<JobRecord> {
        let Parts { head, record } = self;
        let seq = head.seq.0;
        if !is_whole(record, &head) {
            return Err(damaged("hot", seq, "does not match its checksum"));
        }
        let lane = interned.known_lane(head.lane).ok_or_else(|| damaged("lanes", head.lane, "is missing"))?;
        let policy = interned
            .known_policy(head.policy)
            .ok_or_else(|| damaged("policies", head.policy, "is missing"))?;
        let shared =
            Shared { lane: lane.clone(), policy: policy.clone(), no_details: interned.no_details.clone() };
        unpack(record, &head, shared).ok_or_else(|| damaged("hot", seq, "cannot be unpacked"))
    }
}
