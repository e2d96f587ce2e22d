//! Inserts: new jobs with their specs, tags, keys and edges, each kind of row in one statement. That a key is free, or
//! that an edge creates no cycle, was checked before.

use super::Tables;
use super::row::{ColumnIndexes, state_code};
use crate::job::{Seq, Spec};
use crate::store::engine::{Edge, EngineResult, NewRow};
use crate::store::engines::postgres::parameter::{Column, Parameter};
use crate::store::engines::sql::codec::{Head, pack};
use crate::store::engines::sql::columns::{SpecColumns, SpecParts, need_code};

/// Array by array, here and in other bulk inserts: building one table first with `FROM unnest(…)` costs the server a
/// fifth more.
pub(in crate::store::engines::postgres) const JOBS: &str = "INSERT INTO @.jobs (seq, owner, content_type, idempotency_key, unique_key, concurrency_key, tags, \
     correlation_id, callback_url, traceparent, after, after_any, \"check\", payload) \
     SELECT unnest($1::bigint[]), unnest($2::bytea[]), unnest($3::bytea[]), unnest($4::bytea[]), unnest($5::bytea[]), \
     unnest($6::bytea[]), unnest($7::bytea[]), unnest($8::bytea[]), unnest($9::bytea[]), unnest($10::bytea[]), \
     unnest($11::bytea[]), unnest($12::bytea[]), unnest($13::bigint[]), unnest($14::bytea[])";
pub(in crate::store::engines::postgres) const HOT: &str = "INSERT INTO @.hot (seq, id, lane, policy, created_at, parent, state, record) \
     SELECT unnest($1::bigint[]), unnest($2::uuid[]), unnest($3::bigint[]), unnest($4::bigint[]), unnest($5::bigint[]), \
     unnest($6::uuid[]), unnest($7::bigint[]), unnest($8::bytea[])";
const TAGS: &str =
    "INSERT INTO @.tags (name, value, seq) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bigint[])";
const EDGES: &str = "INSERT INTO @.edges (dependency, dependent, need) \
     SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) ON CONFLICT DO NOTHING";

impl Tables {
    pub(in crate::store::engines::postgres) fn insert_rows(&mut self, rows: &[NewRow]) -> EngineResult<()> {
        self.insert_hot(rows)?;
        self.link.flush();
        self.insert_specs(rows)?;
        self.insert_tags(rows.iter().map(|row| (row.job.seq, &row.spec)))?;
        let keys: Vec<_> = rows.iter().flat_map(|row| row.keys.iter().cloned()).collect();
        self.put_keys(&keys)?;
        let mut moves = Vec::with_capacity(rows.len());
        for NewRow { job, .. } in rows {
            let places = ColumnIndexes::new(job);
            self.timers.moved(job.seq, None, &places);
            moves.push((job.seq, self.lane_id(&job.lane)?, None, places));
        }
        // What a claim of this transaction reads next is what was there, and these.
        let front = self.ahead.take_front(rows.len());
        self.place_jobs(&moves)?;
        if let Some(front) = front {
            let new = moves.iter().zip(rows).filter(|((.., places), _)| places.ready.is_some());
            self.ahead.put_back(front, new.map(|((_, lane, ..), row)| (*lane, row)));
        }
        Ok(())
    }

    fn insert_specs(&mut self, rows: &[NewRow]) -> EngineResult<()> {
        let (mut seqs, mut checks, mut payloads) = (Column::numbers(), Column::numbers(), Column::bytes());
        let mut texts = [(); 9].map(|()| Column::bytes());
        let mut lists = [(); 2].map(|()| Column::bytes());
        for row in rows {
            let parts = SpecParts::new(&row.spec);
            let columns = SpecColumns::new(&row.spec, &parts);
            seqs.number(row.job.seq.0);
            for (column, text) in texts.iter_mut().zip(columns.texts) {
                column.push_maybe(text.map(str::as_bytes));
            }
            for (column, list) in lists.iter_mut().zip(columns.lists) {
                column.push_maybe(list);
            }
            checks.number(i64::from(columns.crc(row.job.seq)));
            payloads.push(columns.payload);
        }
        let mut values: Vec<Parameter> = vec![seqs.into()];
        values.extend(texts.map(Parameter::from));
        values.extend(lists.map(Parameter::from));
        values.extend([checks.into(), payloads.into()]);
        self.write(JOBS, values, None)
    }

    fn insert_hot(&mut self, rows: &[NewRow]) -> EngineResult<()> {
        let (mut ids, mut parents, mut records) = (Column::ids(), Column::ids(), Column::bytes());
        let mut numbers = [(); 5].map(|()| Column::numbers());
        let mut record = Vec::with_capacity(256);
        self.know_lanes(rows.iter().map(|row| &row.job.lane))?;
        for NewRow { job, .. } in rows {
            let (lane, policy) = (self.lane_id(&job.lane)?, self.policy_id(&job.policy)?);
            pack(job, &Head { seq: job.seq, id: job.id, lane, policy }, &mut record);
            let fields = [job.seq.0, lane, policy, job.created_at.as_millis(), state_code(job)];
            for (column, field) in numbers.iter_mut().zip(fields) {
                column.number(field);
            }
            ids.push(job.id.as_bytes());
            parents.push_maybe(job.parent.as_ref().map(|parent| &parent.id.as_bytes()[..]));
            records.push(&record);
        }
        let [seqs, lanes, policies, created, states] = numbers.map(Parameter::from);
        let values = vec![seqs, ids.into(), lanes, policies, created, parents.into(), states, records.into()];
        self.write(HOT, values, None)
    }

    pub(in crate::store::engines::postgres) fn insert_tags<'s>(
        &mut self,
        specs: impl Iterator<Item = (Seq, &'s Spec)>,
    ) -> EngineResult<()> {
        let (mut names, mut values, mut seqs) = (Column::bytes(), Column::bytes(), Column::numbers());
        for (seq, spec) in specs {
            for (name, value) in &spec.metadata.tags {
                names.push(name.as_bytes());
                values.push(value.as_bytes());
                seqs.number(seq.0);
            }
        }
        if seqs.is_empty() {
            return Ok(());
        }
        self.write(TAGS, vec![names.into(), values.into(), seqs.into()], None)
    }

    pub(in crate::store::engines::postgres) fn insert_edges(&mut self, edges: &[Edge]) -> EngineResult<()> {
        let dependencies = Column::from_numbers(edges.iter().map(|edge| edge.dependency.0));
        let dependents = Column::from_numbers(edges.iter().map(|edge| edge.dependent.0));
        let needs = Column::from_numbers(edges.iter().map(|edge| need_code(edge.need)));
        self.write(EDGES, vec![dependencies.into(), dependents.into(), needs.into()], None)
    }
}
