//! Reads for claims: claimable jobs lane by lane, blocked jobs, and counters. Everything is read from the front of an
//! index, so that the number of other jobs does not matter.

use std::sync::Arc;

use tokio_postgres::Row;

use super::Tables;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{ConcurrencyKey, JobRecord, JobState, Lane, Seq};
use crate::store::engine::{ClaimOrder, CountChange, Counts, EngineResult, LaneCursor};
use crate::store::engines::postgres::connection::{Question, get};
use crate::store::engines::postgres::node_cache::{ClaimPosition, FRONT};
use crate::store::engines::postgres::parameter::Column;
use crate::store::engines::postgres::prefetch::{ClaimPrefetch, place};
use crate::store::engines::sql::columns::{damaged, limit};

const NEXT_ASIDE: &str = "SELECT h.seq, h.id, h.lane, h.policy, h.record FROM \
     (SELECT seq FROM @.slots WHERE key = $1 AND state = 12 AND lane > $2 ORDER BY lane, rank, at, seq LIMIT 1) s \
     CROSS JOIN LATERAL (SELECT * FROM @.hot h WHERE h.seq = s.seq OFFSET 0) h";
const COUNTS: &str = "SELECT lane, state::bigint, sum(by)::bigint FROM @.counts WHERE n >= $1 GROUP BY lane, state \
     HAVING sum(by) <> 0";

/// From rank to rank of each lane: the number of jobs that are not due yet does not matter.
const DUE_IN: &str = "SELECT l.place, d.rank::bigint, d.at, d.seq \
     FROM unnest($1::bigint[]) WITH ORDINALITY l(lane, place) CROSS JOIN LATERAL ( \
       WITH RECURSIVE ranks(rank) AS ( \
         (SELECT s.rank FROM @.slots s WHERE s.key = 0 AND s.state = 13 AND s.lane = l.lane ORDER BY s.rank LIMIT 1) \
         UNION ALL \
         SELECT (SELECT s.rank FROM @.slots s WHERE s.key = 0 AND s.state = 13 AND s.lane = l.lane \
           AND s.rank > r.rank ORDER BY s.rank LIMIT 1) FROM ranks r WHERE r.rank IS NOT NULL) \
       SELECT r.rank, x.at, x.seq FROM ranks r CROSS JOIN LATERAL ( \
         SELECT s.at, s.seq FROM @.slots s WHERE s.key = 0 AND s.state = 13 AND s.lane = l.lane AND s.rank = r.rank \
         AND s.at <= $2 ORDER BY s.at, s.seq LIMIT $3) x \
       WHERE r.rank IS NOT NULL ORDER BY r.rank, x.at, x.seq LIMIT $3) d \
     ORDER BY l.place, d.rank, d.at, d.seq";

/// Where each lane begins, from the index alone.
const FRONTS: &str = "SELECT c.place, r.rank::bigint, r.at, r.seq \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY c(lane, rank, at, seq, place) \
     CROSS JOIN LATERAL (SELECT r.rank, r.at, r.seq FROM @.ready r WHERE r.lane = c.lane \
     AND (r.rank, r.at, r.seq) > (c.rank, c.at, c.seq) ORDER BY r.rank, r.at, r.seq LIMIT 1) r";

/// From rank to rank of each lane, up to a total number. Only a nested loop can do this join, so the lanes come in
/// their order.
const HEADS: &str = "SELECT l.place, h.rank::bigint, h.at, h.seq \
     FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY l(lane, after, place) CROSS JOIN LATERAL ( \
       WITH RECURSIVE heads(rank, at, seq) AS ( \
         (SELECT r.rank, r.at, r.seq FROM @.ready r WHERE r.lane = l.lane AND r.rank > l.after \
           ORDER BY r.rank, r.at, r.seq LIMIT 1) \
         UNION ALL \
         SELECT n.rank, n.at, n.seq FROM heads p CROSS JOIN LATERAL ( \
           SELECT r.rank, r.at, r.seq FROM @.ready r WHERE r.lane = l.lane AND r.rank > p.rank \
           ORDER BY r.rank, r.at, r.seq LIMIT 1) n) \
       SELECT rank, at, seq FROM heads) h LIMIT $3";

/// Lanes looked up at a time: fewer than are cached at once.
const LANES_AT_ONCE: usize = 16_384;

impl Tables {
    pub(in crate::store::engines::postgres) fn ready_in(
        &mut self,
        cursors: &[LaneCursor],
        max: usize,
    ) -> EngineResult<Vec<Vec<JobRecord>>> {
        let mut spots = Vec::with_capacity(cursors.len());
        let lanes = self.find_lanes(cursors.iter().map(|cursor| &cursor.lane))?;
        for (cursor, lane) in cursors.iter().zip(lanes) {
            let after = cursor.after.map_or(FRONT, position);
            let (rank, at, seq) = after.max(self.floors.before(lane));
            spots.push([lane, rank, at, seq]);
        }
        let front = ClaimPrefetch { spots, each: max };
        let is_first = cursors.iter().all(|cursor| cursor.after.is_none());
        if is_first {
            self.ahead.record_use(&front);
        }
        let (rows, entered) = match self.ahead.take(&front)? {
            Some(read) => read,
            None => (self.link.fetch(front.sql(), front.values())?, Vec::new()),
        };
        let (mut found, mut left_out) = self.sound_jobs(&front, &rows)?;
        for (place, job) in entered {
            found[place].push(job);
        }
        // One damaged row must not keep those behind it from running: as many more are read as were left out.
        while left_out > 0 {
            let more = ClaimPrefetch { spots: front.spots.clone(), each: max + left_out };
            let rows = self.link.fetch(more.sql(), more.values())?;
            let before = left_out;
            (found, left_out) = self.sound_jobs(&more, &rows)?;
            if left_out == before {
                break;
            }
        }
        for jobs in &mut found {
            jobs.sort_unstable_by_key(ClaimOrder::new);
            jobs.truncate(max);
        }
        for ((cursor, [lane, ..]), jobs) in cursors.iter().zip(&front.spots).zip(&found) {
            if cursor.after.is_none() {
                self.floors.found(*lane, jobs.first().map(ClaimOrder::new).map(position));
            }
        }
        Ok(found)
    }

    /// The jobs of each lane that can be read, and the number of rows that cannot.
    fn sound_jobs(
        &mut self,
        front: &ClaimPrefetch,
        rows: &[Row],
    ) -> EngineResult<(Vec<Vec<JobRecord>>, usize)> {
        let mut found: Vec<Vec<JobRecord>> = front.spots.iter().map(|_| Vec::new()).collect();
        let mut left_out = 0;
        for (job, row) in self.read_each(rows)?.into_iter().zip(rows) {
            let job = match job {
                Ok(job) => job,
                Err(StoreError::Damaged(damage)) => {
                    self.interned.left_out(get(row, 0)?, &damage);
                    left_out += 1;
                    continue;
                }
                Err(error) => return Err(error),
            };
            if let Some(places) = self.met.get_mut(&job.seq) {
                places.ready_row = Some(get(row, 7)?);
            }
            self.ahead.read_spec(front, row, job.seq)?;
            if let Some(jobs) = found.get_mut(place(row)?) {
                jobs.push(job);
            }
        }
        Ok((found, left_out))
    }

    /// The positions of due jobs of these lanes.
    pub(in crate::store::engines::postgres) fn due_in_lanes(
        &mut self,
        lanes: &[Arc<Lane>],
        now: i64,
        max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        let ids = self.find_lanes(lanes.iter())?;
        let values = vec![Column::from_numbers(ids).into(), now.into(), limit(max).into()];
        read_places(&self.link.fetch(DUE_IN, values)?, "slots", lanes.len())
    }

    /// The first position of each lane.
    pub(in crate::store::engines::postgres) fn fronts_of(
        &mut self,
        lanes: &[Arc<Lane>],
    ) -> EngineResult<Vec<Option<ClaimOrder>>> {
        let ids = self.find_lanes(lanes.iter())?;
        let spots: Vec<[i64; 4]> = ids.iter().map(|lane| self.floors.spot(*lane)).collect();
        let values = ClaimPrefetch { spots, each: 1 }.columns().into();
        let found = read_places(&self.link.fetch(FRONTS, values)?, "ready", lanes.len())?;
        let fronts: Vec<Option<ClaimOrder>> = found.iter().map(|places| places.first().copied()).collect();
        for (lane, front) in ids.into_iter().zip(&fronts) {
            self.floors.found(lane, front.map(position));
        }
        Ok(fronts)
    }

    /// The first position of each rank after that of each cursor.
    pub(in crate::store::engines::postgres) fn heads_of(
        &mut self,
        cursors: &[LaneCursor],
        max: usize,
    ) -> EngineResult<Vec<Vec<ClaimOrder>>> {
        let ids = self.find_lanes(cursors.iter().map(|cursor| &cursor.lane))?;
        let after = |cursor: &LaneCursor| cursor.after.map_or(-1, |place| i64::from(place.rank));
        let after = Column::from_numbers(cursors.iter().map(after));
        let values = vec![Column::from_numbers(ids).into(), after.into(), limit(max).into()];
        read_places(&self.link.fetch(HEADS, values)?, "ready", cursors.len())
    }

    /// The lanes to which other nodes have added jobs, each with the first position; `None` if they are not known.
    pub(in crate::store::engines::postgres) fn take_added(&mut self) -> Option<Vec<(Arc<Lane>, ClaimOrder)>> {
        let place = |(rank, at, seq): ClaimPosition| {
            let (rank, eligible_at) = (u8::try_from(rank).ok()?, Timestamp::from_millis(at));
            Some(ClaimOrder { rank, eligible_at, seq: Seq(seq) })
        };
        let added = self.floors.take_foreign()?.into_iter();
        // A lane that is not cached here may be cached in another place.
        added.map(|(lane, spot)| Some((self.interned.known_lane(lane)?.clone(), place(spot)?))).collect()
    }

    pub(in crate::store::engines::postgres) fn first_aside(
        &mut self,
        key: ConcurrencyKey,
    ) -> EngineResult<Vec<JobRecord>> {
        let (mut rows, mut lane): (Vec<Row>, i64) = (Vec::new(), 0);
        // From lane to lane: the number of jobs per lane does not matter.
        loop {
            let Some(row) = self.link.fetch(NEXT_ASIDE, vec![key.0.into(), lane.into()])?.pop() else {
                return Ok(self.read_readable(&rows)?.0);
            };
            lane = get(&row, 2)?;
            rows.push(row);
        }
    }

    pub(in crate::store::engines::postgres) fn load_counts(&mut self) -> EngineResult<&Counts> {
        let counts = match self.counts.take() {
            Some(counts) => counts,
            None => self.read_counts()?,
        };
        Ok(self.counts.insert(counts))
    }

    fn read_counts(&mut self) -> EngineResult<Counts> {
        let mut counts = Counts::default();
        let (sql, values) = counts_since(self.meta.counts_base);
        let rows = self.link.fetch(sql, values)?;
        self.add_counts(&mut counts, &rows)?;
        // Changes of this transaction are written with its commit.
        for ((lane, state), by) in &self.moved {
            counts.add(lane, *state, *by);
        }
        Ok(counts)
    }

    fn add_counts(&mut self, counts: &mut Counts, rows: &[Row]) -> EngineResult<()> {
        let read = |row: &Row| Ok((get(row, 0)?, get(row, 1)?, get(row, 2)?));
        let moved = rows.iter().map(read).collect::<EngineResult<Vec<(i64, i64, i64)>>>()?;
        for some in moved.chunks(LANES_AT_ONCE) {
            // Twice: the cache may be cleared while more is added.
            for _ in 0..2 {
                self.cache_interned(some.iter().map(|(lane, ..)| *lane), std::iter::empty())?;
            }
            for (lane, state, by) in some {
                let state = usize::try_from(*state).ok().and_then(|state| JobState::ALL.get(state));
                let Some(state) = state else { return Err(damaged("counts", *lane, "names no state")) };
                let known = self.interned.known_lane(*lane);
                counts.add(known.ok_or_else(|| damaged("lanes", *lane, "is missing"))?, *state, *by);
            }
        }
        Ok(())
    }

    /// Adds the changes since the last known commit to the counts; they may already be given. The changes of commits that are
    /// read one by one are not added up yet.
    pub(in crate::store::engines::postgres) fn update_counts(
        &mut self,
        moved: Option<Vec<Row>>,
    ) -> EngineResult<()> {
        let Some(mut counts) = self.counts.take() else { return Ok(()) };
        let (sql, values) = counts_since(self.meta.commit + 1);
        let rows = moved.map_or_else(|| self.link.fetch(sql, values), Ok)?;
        self.add_counts(&mut counts, &rows)?;
        self.counts = Some(counts);
        Ok(())
    }

    pub(in crate::store::engines::postgres) fn move_counts(&mut self, changes: &[CountChange]) {
        for CountChange { lane, state, by } in changes {
            *self.moved.entry((lane.clone(), *state)).or_default() += by;
            if let Some(counts) = &mut self.counts {
                counts.add(lane, *state, *by);
            }
        }
    }
}

/// A position as a lane's index has it.
fn position(place: ClaimOrder) -> ClaimPosition {
    (i64::from(place.rank), place.eligible_at.as_millis(), place.seq.0)
}

/// Positions from rows of the lane's index in the query, rank, time and number.
fn read_places(rows: &[Row], table: &str, lanes: usize) -> EngineResult<Vec<Vec<ClaimOrder>>> {
    let mut found = vec![Vec::new(); lanes];
    for row in rows {
        let [lane, rank, at, seq]: [i64; 4] = [get(row, 0)?, get(row, 1)?, get(row, 2)?, get(row, 3)?];
        let rank = u8::try_from(rank).map_err(|_| damaged(table, seq, "names no rank"))?;
        let place = ClaimOrder { rank, eligible_at: Timestamp::from_millis(at), seq: Seq(seq) };
        if let Some(places) = usize::try_from(lane - 1).ok().and_then(|at| found.get_mut(at)) {
            places.push(place);
        }
    }
    Ok(found)
}

/// The query for the changes of the counts since a commit.
pub(in crate::store::engines::postgres) fn counts_since(commit: i64) -> Question<'static> {
    (COUNTS, vec![commit.into()])
}
