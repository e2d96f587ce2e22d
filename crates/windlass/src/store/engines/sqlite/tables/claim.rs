//! Reads for claims and timers: claimable jobs lane by lane, jobs with due timers, and counters. Everything is read
//! from the front of an index, so that the number of other jobs does not matter.

use std::sync::Arc;

use rusqlite::{CachedStatement, OptionalExtension, Row, params, params_from_iter};

use super::row::{read_jobs, read_readable};
use super::{Holds, Tables, prepare, store_error};
use crate::clock::Timestamp;
use crate::job::{ConcurrencyKey, JobRecord, JobState, Lane, Seq, acts_at};
use crate::store::engine::{ClaimOrder, CountChange, Counts, EngineResult, LaneCursor};
use crate::store::engines::sql::columns::{NEVER, code, damaged, limit};

/// The states whose timer is in `hot.at`; scheduled jobs have an index for their lifetime instead.
const TIMED: [JobState; 7] = [
    JobState::Created,
    JobState::Pending,
    JobState::Delayed,
    JobState::Running,
    JobState::Waiting,
    JobState::Retrying,
    JobState::Suspended,
];

const READY: &str = "SELECT seq, id, lane, policy, record, rank, at FROM hot INDEXED BY hot_order \
     WHERE state = 3 AND order_key = ?1 AND (rank, at, seq) > (?2, ?3, ?4) ORDER BY rank, at, seq LIMIT ?5";
/// From the index alone: no record is read.
const NEXT_HEAD: &str = "SELECT rank, at, seq FROM hot INDEXED BY hot_order \
     WHERE state = 3 AND order_key = ?1 AND rank > ?2 ORDER BY rank, at, seq LIMIT 1";
const NEXT_ASIDE: &str = "SELECT seq, id, lane, policy, record FROM hot INDEXED BY hot_aside \
     WHERE state = 12 AND concurrency = ?1 AND lane > ?2 ORDER BY lane, rank, at, seq LIMIT 1";
const DUE: &str = "SELECT seq, id, lane, policy, record FROM hot INDEXED BY hot_order \
     WHERE state = ?1 AND order_key = 0 AND rank = 0 AND at <= ?2 ORDER BY at, seq";
const LIFETIME_OVER: &str = "SELECT seq, id, lane, policy, record FROM hot INDEXED BY hot_lifetime \
     WHERE state IN (3, 12) AND expires_at <= ?1 ORDER BY expires_at, seq";
const NEXT_DUE_RANK: &str = "SELECT due_rank FROM hot INDEXED BY hot_due \
     WHERE lane = ?1 AND due_rank > ?2 ORDER BY due_rank LIMIT 1";
const DUE_IN_RANK: &str = "SELECT at, seq FROM hot INDEXED BY hot_due \
     WHERE lane = ?1 AND due_rank = ?2 AND at <= ?3 ORDER BY at, seq LIMIT ?4";

impl<C: Holds> Tables<C> {
    pub(in crate::store::engines::sqlite) fn ready_in(
        &mut self,
        cursor: &LaneCursor,
        max: usize,
    ) -> EngineResult<Vec<JobRecord>> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let Some(lane) = interned.find_lane(connection, &cursor.lane)? else { return Ok(Vec::new()) };
        let (rank, at, seq) = cursor
            .after
            .map_or((-1, 0, 0), |place| (i64::from(place.rank), place.eligible_at.as_millis(), place.seq.0));
        let mut statement = prepare(connection, READY)?;
        let (mut jobs, mut place) = (Vec::new(), (rank, at, seq));
        loop {
            let (rank, at, seq) = place;
            let wanted = limit(max - jobs.len());
            let mut rows = statement.query([lane, rank, at, seq, wanted]).map_err(store_error)?;
            let mut is_complete = true;
            while let Some(row) = rows.next().map_err(store_error)? {
                let column = |index: usize| row.get::<_, i64>(index).map_err(store_error);
                place = (column(5)?, column(6)?, column(0)?);
                let job = read_readable(row, interned, connection)?;
                is_complete &= job.is_some();
                jobs.extend(job);
            }
            if is_complete {
                return Ok(jobs);
            }
        }
    }

    /// The first position of each rank after that of each cursor.
    pub(in crate::store::engines::sqlite) fn heads_of(
        &mut self,
        cursors: &[LaneCursor],
        max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let mut statement = prepare(connection, NEXT_HEAD)?;
        let mut left = max;
        let mut found = Vec::with_capacity(cursors.len());
        for cursor in cursors {
            let mut places = Vec::new();
            let mut last = cursor.after.map_or(-1, |place| i64::from(place.rank));
            let lane = if left > 0 { interned.find_lane(connection, &cursor.lane)? } else { None };
            while let Some(lane) = lane.filter(|_| left > 0) {
                let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
                let head = statement.query_row([lane, last], read).optional().map_err(store_error)?;
                let Some((rank, at, seq)): Option<(i64, i64, i64)> = head else { break };
                (last, left) = (rank, left - 1);
                let rank = u8::try_from(rank).map_err(|_| damaged("hot", seq, "names no rank"))?;
                places.push(ClaimOrder { rank, eligible_at: Timestamp::from_millis(at), seq: Seq(seq) });
            }
            found.push(places);
        }
        Ok(found)
    }

    pub(in crate::store::engines::sqlite) fn first_aside(
        &mut self,
        key: ConcurrencyKey,
    ) -> EngineResult<Vec<JobRecord>> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let mut statement = prepare(connection, NEXT_ASIDE)?;
        let (mut jobs, mut lane) = (Vec::new(), 0);
        // From lane to lane: the number of jobs per lane does not matter.
        loop {
            let mut rows = statement.query([key.0, lane]).map_err(store_error)?;
            let Some(row) = rows.next().map_err(store_error)? else { return Ok(jobs) };
            lane = row.get(2).map_err(store_error)?;
            jobs.extend(read_readable(row, interned, connection)?);
        }
    }

    pub(in crate::store::engines::sqlite) fn due_jobs(
        &mut self,
        now: Timestamp,
        max: usize,
    ) -> EngineResult<Vec<JobRecord>> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let now = now.as_millis();
        let mut jobs = Vec::new();
        let mut statement = prepare(connection, DUE)?;
        for state in TIMED {
            let rows = statement.query([code(state), now]).map_err(store_error)?;
            jobs.append(&mut read_jobs(rows, max, interned, connection)?);
        }
        let mut statement = prepare(connection, LIFETIME_OVER)?;
        let rows = statement.query([now]).map_err(store_error)?;
        jobs.append(&mut read_jobs(rows, max, interned, connection)?);
        jobs.sort_by_cached_key(|job| (acts_at(job), job.seq));
        jobs.truncate(max);
        Ok(jobs)
    }

    /// The positions of due jobs of a lane. Goes from rank to rank: the number of jobs that are not due yet does not
    /// matter.
    pub(in crate::store::engines::sqlite) fn due_in_lane(
        &mut self,
        lane: &Arc<Lane>,
        now: Timestamp,
        max: usize,
    ) -> EngineResult<Vec<ClaimOrder>> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let Some(lane) = interned.find_lane(connection, lane)? else { return Ok(Vec::new()) };
        let mut next_rank = prepare(connection, NEXT_DUE_RANK)?;
        let mut in_rank = prepare(connection, DUE_IN_RANK)?;
        let (mut places, mut last) = (Vec::new(), -1);
        while places.len() < max {
            let found =
                next_rank.query_row([lane, last], |row| row.get(0)).optional().map_err(store_error)?;
            let Some(rank) = found else { break };
            last = rank;
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let rows = in_rank.query_map([lane, rank, now.as_millis(), limit(max - places.len())], read);
            for row in rows.map_err(store_error)? {
                let (at, seq): (i64, i64) = row.map_err(store_error)?;
                let rank = u8::try_from(rank).map_err(|_| damaged("hot", seq, "names no rank"))?;
                places.push(ClaimOrder { rank, eligible_at: Timestamp::from_millis(at), seq: Seq(seq) });
            }
        }
        Ok(places)
    }

    pub(in crate::store::engines::sqlite) fn first_due(&mut self) -> EngineResult<Option<Timestamp>> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        // Records are read, because the timer of one that cannot be read would be due forever.
        let mut first_of = |statement: &mut CachedStatement<'_>, parameters: &[i64]| {
            let rows = statement.query(params_from_iter(parameters)).map_err(store_error)?;
            let job = read_jobs(rows, 1, interned, connection)?.pop();
            EngineResult::Ok(job.and_then(|job| acts_at(&job)))
        };
        let mut first = first_of(&mut prepare(connection, LIFETIME_OVER)?, &[NEVER])?;
        let mut statement = prepare(connection, DUE)?;
        for state in TIMED {
            let at = first_of(&mut statement, &[code(state), NEVER])?;
            first = first.into_iter().chain(at).min();
        }
        Ok(first)
    }

    pub(in crate::store::engines::sqlite) fn load_counts(&mut self) -> EngineResult<&Counts> {
        let counts = match self.counts.take() {
            Some(counts) => counts,
            None => self.read_counts()?,
        };
        Ok(self.counts.insert(counts))
    }

    fn read_counts(&mut self) -> EngineResult<Counts> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let mut counts = Counts::default();
        let mut statement = prepare(connection, "SELECT lane, state, n FROM counts WHERE n > 0")?;
        let mut rows = statement.query([]).map_err(store_error)?;
        while let Some(row) = rows.next().map_err(store_error)? {
            let lane: i64 = row.get(0).map_err(store_error)?;
            let state: u8 = row.get(1).map_err(store_error)?;
            let n: i64 = row.get(2).map_err(store_error)?;
            let Some(state) = JobState::ALL.get(usize::from(state)) else {
                return Err(damaged("counts", lane, "names no state"));
            };
            counts.add(&interned.lane(connection, lane)?, *state, n);
        }
        Ok(counts)
    }

    pub(in crate::store::engines::sqlite) fn move_counts(
        &mut self,
        changes: &[CountChange],
    ) -> EngineResult<()> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let sql = "INSERT INTO counts (lane, state, n) VALUES (?1, ?2, ?3) \
                   ON CONFLICT (lane, state) DO UPDATE SET n = n + excluded.n";
        let mut statement = prepare(connection, sql)?;
        for change in changes {
            let lane = interned.lane_id(connection, &change.lane)?;
            statement.execute(params![lane, code(change.state), change.by]).map_err(store_error)?;
            if let Some(counts) = &mut self.counts {
                counts.add(&change.lane, change.state, change.by);
            }
        }
        Ok(())
    }
}
