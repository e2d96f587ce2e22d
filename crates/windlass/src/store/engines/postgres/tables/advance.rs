//! Updates: changed job records and metadata. Immutable parts of a job are not written again, and index tables are
//! written only if the job's position in them changes.

use super::Tables;
use super::row::{ColumnIndexes, TupleId, state_code};
use crate::job::{JobMetadata, JobRecord, Payload, Seq, Spec};
use crate::store::engine::EngineResult;
use crate::store::engines::postgres::parameter::{Column, Parameter};
use crate::store::engines::sql::codec::{Head, pack};
use crate::store::engines::sql::columns::{SpecColumns, SpecParts, damaged};

/// Here and in all statements over several rows, each row is looked up by itself: `OFFSET 0` keeps the planner from making a
/// join of it. A join that was planned while the table was small reads the whole table for every row, and is kept.
pub(in crate::store::engines::postgres) const UPDATE: &str = "UPDATE @.hot h SET state = u.state, record = u.record \
     FROM unnest($1::bigint[], $2::bigint[], $3::bytea[]) u(seq, state, record) \
     CROSS JOIN LATERAL (SELECT o.ctid AS row FROM @.hot o WHERE o.seq = u.seq OFFSET 0) o WHERE h.ctid = o.row";
/// The same for rows that this transaction has read and whose location is known. An `=` in place of the second
/// condition would be one to join by.
pub(in crate::store::engines::postgres) const UPDATE_ROWS: &str = "UPDATE @.hot h SET state = u.state, record = u.record \
     FROM unnest($1::tid[], $2::bigint[], $3::bigint[], $4::bytea[]) u(row, seq, state, record) \
     WHERE h.ctid = u.row AND h.seq IS NOT DISTINCT FROM u.seq";
const LEAVE_READY: &str = "DELETE FROM @.ready WHERE ctid = ANY (ARRAY(SELECT o.row \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[]) u(lane, rank, at, seq) \
     CROSS JOIN LATERAL (SELECT r.ctid AS row FROM @.ready r WHERE r.lane = u.lane AND r.rank = u.rank::smallint \
     AND r.at = u.at AND r.seq = u.seq OFFSET 0) o))";
pub(in crate::store::engines::postgres) const LEAVE_READY_ROWS: &str =
    "DELETE FROM @.ready WHERE ctid = ANY($1)";
pub(in crate::store::engines::postgres) const ENTER_READY: &str = "INSERT INTO @.ready (lane, rank, at, seq) \
     SELECT unnest($1::bigint[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::bigint[])";
const LEAVE_STATES: &str = "DELETE FROM @.states WHERE ctid = ANY (ARRAY(SELECT o.row \
     FROM unnest($1::bigint[], $2::bigint[]) u(state, seq) CROSS JOIN LATERAL (SELECT s.ctid AS row FROM @.states s \
     WHERE s.state = u.state::smallint AND s.seq = u.seq OFFSET 0) o))";
const ENTER_STATES: &str =
    "INSERT INTO @.states (state, seq) SELECT * FROM unnest($1::bigint[], $2::bigint[])";
const LEAVE_SLOTS: &str = "DELETE FROM @.slots WHERE ctid = ANY (ARRAY(SELECT o.row \
     FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) \
     u(key, state, lane, rank, at, seq) CROSS JOIN LATERAL (SELECT s.ctid AS row FROM @.slots s WHERE s.key = u.key \
     AND s.state = u.state::smallint AND s.lane = u.lane AND s.rank = u.rank::smallint AND s.at = u.at \
     AND s.seq = u.seq OFFSET 0) o))";
const ENTER_SLOTS: &str = "INSERT INTO @.slots (key, state, lane, rank, at, seq) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])";
const RELABEL: &str = "UPDATE @.jobs SET tags = $2, correlation_id = $3, callback_url = $4, \"check\" = $5 \
     WHERE seq = $1";
const REWRITE: &str = "UPDATE @.jobs SET content_type = $2, payload = $3, \"check\" = $4 WHERE seq = $1";
const DROP_TAGS: &str = "DELETE FROM @.tags WHERE ctid = ANY (ARRAY(SELECT o.row \
     FROM unnest($2::bytea[], $3::bytea[]) u(name, value) CROSS JOIN LATERAL (SELECT t.ctid AS row FROM @.tags t \
     WHERE t.name = u.name AND t.value = u.value AND t.seq = $1 OFFSET 0) o))";

/// A job, its lane, its previous index positions, and the new ones.
pub(in crate::store::engines::postgres) type Move = (Seq, i64, Option<ColumnIndexes>, ColumnIndexes);

/// Rows of numbers for one statement.
struct Rows<const N: usize>([Column; N]);

impl<const N: usize> Rows<N> {
    fn new() -> Rows<N> {
        Rows([(); N].map(|()| Column::numbers()))
    }

    fn is_empty(&self) -> bool {
        self.0[0].is_empty()
    }

    fn push(&mut self, fields: [i64; N]) {
        for (column, field) in self.0.iter_mut().zip(fields) {
            column.number(field);
        }
    }

    fn write(self, tables: &mut Tables, sql: &str, is_exact: Option<&'static str>) -> EngineResult<()> {
        if self.is_empty() {
            return Ok(());
        }
        let expected = is_exact.map(|table| (self.0[0].rows(), table));
        tables.write(sql, self.0.map(Parameter::from).into(), expected)
    }
}

/// Jobs to be written to `hot`.
struct Changed {
    seqs: Column,
    states: Column,
    packed: Column,
}

impl Default for Changed {
    fn default() -> Changed {
        Changed { seqs: Column::numbers(), states: Column::numbers(), packed: Column::bytes() }
    }
}

impl Changed {
    fn push(&mut self, job: &JobRecord, record: &[u8]) {
        self.seqs.number(job.seq.0);
        self.states.number(state_code(job));
        self.packed.push(record);
    }

    /// Writes them all, by a statement that has the parameters `first` before them.
    fn write(self, tables: &mut Tables, sql: &str, first: Vec<Parameter>) -> EngineResult<()> {
        if self.seqs.is_empty() {
            return Ok(());
        }
        let expected = (self.seqs.rows(), "hot");
        let values = first.into_iter().chain([self.seqs, self.states, self.packed].map(Parameter::from));
        tables.write(sql, values.collect(), Some(expected))
    }
}

impl Tables {
    pub(in crate::store::engines::postgres) fn update_jobs(
        &mut self,
        jobs: &[JobRecord],
    ) -> EngineResult<()> {
        let (mut searched, mut at_hand) = (Changed::default(), Changed::default());
        let mut rows = Column::rows_themselves();
        let mut record = Vec::with_capacity(256);
        let mut moves = Vec::with_capacity(jobs.len());
        self.know_lanes(jobs.iter().map(|job| &job.lane))?;
        for job in jobs {
            let (lane, policy) = (self.lane_id(&job.lane)?, self.policy_id(&job.policy)?);
            pack(job, &Head { seq: job.seq, id: job.id, lane, policy }, &mut record);
            if let Some(TupleId(row)) = self.met.get(&job.seq).and_then(|places| places.row) {
                rows.push(&row);
                at_hand.push(job, &record);
            } else {
                searched.push(job, &record);
            }
            let (old, new) = (self.met.get(&job.seq).copied(), ColumnIndexes::new(job));
            self.timers.moved(job.seq, old.as_ref(), &new);
            if old.is_some_and(|old| old.is_running) {
                self.running.changed(job.seq);
            }
            // A job that was not read in this transaction was cached as running by an earlier one.
            let old = old.unwrap_or_else(|| ColumnIndexes {
                slot: job.concurrency.map(|key| (key.0, 4, 0, 0)),
                ready: None,
                listed: None,
                ..new
            });
            moves.push((job.seq, lane, Some(old), new));
        }
        searched.write(self, UPDATE, Vec::new())?;
        at_hand.write(self, UPDATE_ROWS, vec![rows.into()])?;
        self.link.flush();
        self.place_jobs(&moves)
    }

    /// Moves jobs from their previous index positions to the new ones.
    pub(in crate::store::engines::postgres) fn place_jobs(&mut self, moves: &[Move]) -> EngineResult<()> {
        let (mut leave_ready, mut enter_ready) = (Rows::<4>::new(), Rows::<4>::new());
        let mut leave_rows = Column::rows_themselves();
        let (mut leave_states, mut enter_states) = (Rows::<2>::new(), Rows::<2>::new());
        let (mut leave_slots, mut enter_slots) = (Rows::<6>::new(), Rows::<6>::new());
        for (Seq(seq), lane, old, new) in moves {
            let (old_ready, old_listed, old_slot) =
                old.map_or((None, None, None), |old| (old.ready, old.listed, old.slot));
            if old_ready != new.ready {
                match (old_ready, old.and_then(|old| old.ready_row)) {
                    (Some(_), Some(TupleId(row))) => leave_rows.push(&row),
                    (Some((rank, at)), None) => leave_ready.push([*lane, rank, at, *seq]),
                    (None, _) => {}
                }
                if let Some((rank, at)) = new.ready {
                    self.floors.added(*lane, (rank, at, *seq));
                    enter_ready.push([*lane, rank, at, *seq]);
                }
            }
            if old_listed != new.listed {
                if let Some(state) = old_listed {
                    leave_states.push([state, *seq]);
                }
                if let Some(state) = new.listed {
                    enter_states.push([state, *seq]);
                }
            }
            if old_slot != new.slot {
                if let Some((key, state, rank, at)) = old_slot {
                    leave_slots.push([key, state, *lane, rank, at, *seq]);
                }
                if let Some((key, state, rank, at)) = new.slot {
                    enter_slots.push([key, state, *lane, rank, at, *seq]);
                }
            }
            self.met.insert(Seq(*seq), ColumnIndexes { row: None, ready_row: None, ..*new });
        }
        let is_ready = |places: &ColumnIndexes| places.ready.is_some();
        if moves.iter().any(|(.., old, new)| old.as_ref().is_some_and(is_ready) || is_ready(new)) {
            self.ahead.found_otherwise();
        }
        if !leave_rows.is_empty() {
            let expected = (leave_rows.rows(), "ready");
            self.write(LEAVE_READY_ROWS, vec![leave_rows.into()], Some(expected))?;
        }
        leave_ready.write(self, LEAVE_READY, Some("ready"))?;
        enter_ready.write(self, ENTER_READY, None)?;
        leave_states.write(self, LEAVE_STATES, Some("states"))?;
        enter_states.write(self, ENTER_STATES, None)?;
        leave_slots.write(self, LEAVE_SLOTS, Some("slots"))?;
        enter_slots.write(self, ENTER_SLOTS, None)
    }

    /// Removes jobs from the index tables.
    pub(in crate::store::engines::postgres) fn displace_jobs(
        &mut self,
        jobs: &[(Seq, i64, ColumnIndexes)],
    ) -> EngineResult<()> {
        self.ahead.clear();
        let nowhere =
            |places: &ColumnIndexes| ColumnIndexes { ready: None, slot: None, listed: None, ..*places };
        let moves: Vec<Move> =
            jobs.iter().map(|(seq, lane, places)| (*seq, *lane, Some(*places), nowhere(places))).collect();
        self.place_jobs(&moves)
    }

    pub(in crate::store::engines::postgres) fn set_job_metadata(
        &mut self,
        seq: Seq,
        metadata: &JobMetadata,
    ) -> EngineResult<()> {
        let Some(spec) = self.load_specs(&[seq])?.pop().flatten() else {
            return Err(damaged("jobs", seq.0, "is missing"));
        };
        self.ahead.clear();
        self.delete_tags(seq, &spec.metadata)?;
        let spec = Spec { metadata: metadata.clone(), ..spec };
        let parts = SpecParts::new(&spec);
        let check = SpecColumns::new(&spec, &parts).crc(seq);
        let bytes = |text: Option<&String>| Parameter::Bytes(text.map(|text| text.as_bytes().to_vec()));
        let values = vec![
            seq.0.into(),
            bytes(parts.tags.as_ref()),
            bytes(metadata.correlation_id.as_ref()),
            bytes(metadata.callback_url.as_ref()),
            i64::from(check).into(),
        ];
        self.write(RELABEL, values, Some((1, "jobs")))?;
        self.insert_tags(std::iter::once((seq, &spec)))
    }

    pub(in crate::store::engines::postgres) fn rewrite_payload(
        &mut self,
        seq: Seq,
        payload: &Payload,
    ) -> EngineResult<()> {
        let Some(spec) = self.load_specs(&[seq])?.pop().flatten() else {
            return Err(damaged("jobs", seq.0, "is missing"));
        };
        self.ahead.clear();
        let spec = Spec { payload: payload.clone(), ..spec };
        let parts = SpecParts::new(&spec);
        let columns = SpecColumns::new(&spec, &parts);
        let bytes = |bytes: Option<&[u8]>| Parameter::Bytes(bytes.map(<[u8]>::to_vec));
        let values = vec![
            seq.0.into(),
            bytes(columns.texts[1].map(str::as_bytes)),
            bytes(Some(columns.payload)),
            i64::from(columns.crc(seq)).into(),
        ];
        self.write(REWRITE, values, Some((1, "jobs")))
    }

    pub(in crate::store::engines::postgres) fn delete_tags(
        &mut self,
        seq: Seq,
        metadata: &JobMetadata,
    ) -> EngineResult<()> {
        if metadata.tags.is_empty() {
            return Ok(());
        }
        let (mut names, mut values) = (Column::bytes(), Column::bytes());
        for (name, value) in &metadata.tags {
            names.push(name.as_bytes());
            values.push(value.as_bytes());
        }
        self.write(DROP_TAGS, vec![seq.0.into(), names.into(), values.into()], None)
    }
}
