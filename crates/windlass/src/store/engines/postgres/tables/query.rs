//! Rows by identity: ids, sequence numbers, keys, edges. Lists by a filter have their own module.

mod lanes;
mod scan;
mod source;

use rustc_hash::FxHashMap;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::Tables;
use super::intern::check;
use super::row::{ColumnIndexes, Parts};
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, Need, Seq, Spec};
use crate::store::engine::{Edge, EngineResult, Graph, Prefetch, Side};
use crate::store::engines::postgres::connection::{Question, get};
use crate::store::engines::postgres::parameter::Column;
use crate::store::engines::sql::columns::{SpecColumns, damaged, limit, need_code, need_of};

const BY_ID: &str = "SELECT seq, id, lane, policy, record, ctid FROM @.hot WHERE id = ANY($1)";
const BY_SEQ: &str = "SELECT seq, id, lane, policy, record FROM @.hot WHERE seq = ANY($1)";
const OPEN: &str =
    "SELECT seq, id, lane, policy, record FROM @.hot WHERE seq = ANY($1) AND state NOT IN (8, 9, 10, 11)";
const SPECS: &str = "SELECT owner, content_type, idempotency_key, unique_key, concurrency_key, tags, correlation_id, \
     callback_url, traceparent, after, after_any, \"check\", payload, seq FROM @.jobs WHERE seq = ANY($1)";
/// The same without large payloads, like the specs that are read with claimable jobs.
const SMALL_SPECS: &str = "SELECT owner, content_type, idempotency_key, unique_key, concurrency_key, tags, correlation_id, \
     callback_url, traceparent, after, after_any, \"check\", payload, seq FROM @.jobs \
     WHERE seq = ANY($1) AND octet_length(payload) <= 8192";
const DEPENDENTS: &str = "SELECT dependency, dependent, need::bigint FROM @.edges WHERE dependency = ANY($1)";
const DEPENDENCIES: &str =
    "SELECT dependency, dependent, need::bigint FROM @.edges WHERE dependent = ANY($1)";

const DEPENDENTS_FROM: &str = "SELECT dependency, dependent, need::bigint FROM @.edges \
     WHERE dependency = $1 AND (dependent, need) > ($2, $3::bigint::smallint) ORDER BY dependent, need LIMIT $4";

/// The index of the `ctid` column.
const ROW_AT: usize = 5;
/// Rows decoded at a time: fewer lanes and policies than are cached at once.
const UNPACKED_AT_ONCE: usize = 1_000;

impl Tables {
    /// The jobs in rows of `seq, id, lane, policy, record` and, if present, `ctid`; records the location of each.
    pub(in crate::store::engines::postgres) fn read_jobs(
        &mut self,
        rows: &[Row],
    ) -> EngineResult<Vec<JobRecord>> {
        self.read_each(rows)?.into_iter().collect()
    }

    /// Like [`read_jobs`](Self::read_jobs), with the damage of each row that cannot be read.
    pub(in crate::store::engines::postgres) fn read_each(
        &mut self,
        rows: &[Row],
    ) -> EngineResult<Vec<EngineResult<JobRecord>>> {
        let mut jobs = Vec::with_capacity(rows.len());
        for some in rows.chunks(UNPACKED_AT_ONCE) {
            let heads = some
                .iter()
                .map(|row| Ok((get::<i64>(row, 2)?, get::<i64>(row, 3)?)))
                .collect::<EngineResult<Vec<_>>>()?;
            // The cache may be cleared while more is added; the second time there is room for all.
            for _ in 0..2 {
                self.cache_interned(
                    heads.iter().map(|(lane, _)| *lane),
                    heads.iter().map(|(_, policy)| *policy),
                )?;
            }
            for row in some {
                let job = match Parts::read(row)?.into_job(&self.interned) {
                    Ok(job) => job,
                    Err(damage) => {
                        jobs.push(Err(damage));
                        continue;
                    }
                };
                if self.is_writer() {
                    let is_row = row.columns().get(ROW_AT).is_some_and(|column| *column.type_() == Type::TID);
                    let row = if is_row { Some(get(row, ROW_AT)?) } else { None };
                    self.met.insert(job.seq, ColumnIndexes { row, ..ColumnIndexes::new(&job) });
                }
                jobs.push(Ok(job));
            }
        }
        Ok(jobs)
    }

    pub(in crate::store::engines::postgres) fn find_jobs(
        &mut self,
        ids: &[JobId],
    ) -> EngineResult<Vec<Option<JobRecord>>> {
        let unread: Vec<JobId> = ids.iter().filter(|id| !self.ahead.has_looked_up(**id)).copied().collect();
        let mut found = self.ahead.jobs(ids);
        if !unread.is_empty() {
            let (sql, values) = by_id(&unread);
            let rows = self.link.fetch(sql, values)?;
            found.extend(self.read_jobs(&rows)?.into_iter().map(|job| (job.id, job)));
        }
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    pub(in crate::store::engines::postgres) fn load_jobs(
        &mut self,
        seqs: &[Seq],
    ) -> EngineResult<Vec<Option<JobRecord>>> {
        let rows =
            self.link.fetch(BY_SEQ, vec![Column::from_numbers(seqs.iter().map(|seq| seq.0)).into()])?;
        let (jobs, _) = self.read_readable(&rows)?;
        let found: FxHashMap<Seq, JobRecord> = jobs.into_iter().map(|job| (job.seq, job)).collect();
        Ok(seqs.iter().map(|seq| found.get(seq).cloned()).collect())
    }

    /// Those of these jobs that are not final, unordered, and the numbers of those that cannot be read.
    pub(in crate::store::engines::postgres) fn open_jobs(
        &mut self,
        seqs: &[i64],
    ) -> EngineResult<(Vec<JobRecord>, Vec<i64>)> {
        let rows = self.link.fetch(OPEN, vec![Column::from_numbers(seqs.iter().copied()).into()])?;
        self.read_readable(&rows)
    }

    /// The jobs in these rows, and the numbers of those that cannot be read: one damaged row must not stop what is done
    /// with others.
    pub(in crate::store::engines::postgres) fn read_readable(
        &mut self,
        rows: &[Row],
    ) -> EngineResult<(Vec<JobRecord>, Vec<i64>)> {
        let (mut jobs, mut left_out) = (Vec::with_capacity(rows.len()), Vec::new());
        for (job, row) in self.read_each(rows)?.into_iter().zip(rows) {
            match job {
                Ok(job) => jobs.push(job),
                Err(StoreError::Damaged(damage)) => {
                    let seq = get(row, 0)?;
                    self.interned.left_out(seq, &damage);
                    left_out.push(seq);
                }
                Err(error) => return Err(error),
            }
        }
        Ok((jobs, left_out))
    }

    pub(in crate::store::engines::postgres) fn load_specs(
        &mut self,
        seqs: &[Seq],
    ) -> EngineResult<Vec<Option<Spec>>> {
        let mut specs: Vec<Option<Spec>> = seqs.iter().map(|seq| self.ahead.take_spec(*seq)).collect();
        let wanted = specs.iter().zip(seqs).filter(|(spec, _)| spec.is_none()).map(|(_, seq)| seq.0);
        let unread = Column::from_numbers(wanted);
        if unread.is_empty() {
            return Ok(specs);
        }
        let mut found = FxHashMap::default();
        for row in &self.link.fetch(SPECS, vec![unread.into()])? {
            let seq = Seq(get(row, 13)?);
            found.insert(seq, read_spec(row, 0, seq)?);
        }
        for (spec, seq) in specs.iter_mut().zip(seqs).filter(|(spec, _)| spec.is_none()) {
            *spec = found.get(seq).cloned();
        }
        Ok(specs)
    }

    /// The spec in a row that may not match its checksum; `None` if it cannot be decoded.
    pub(in crate::store::engines::postgres) fn load_unchecked_spec(
        &mut self,
        seq: Seq,
    ) -> EngineResult<Option<Spec>> {
        let rows = self.link.fetch(SPECS, vec![Column::from_numbers([seq.0]).into()])?;
        let spec = |row| read_columns(row, 0, seq).and_then(|columns| columns.into_unchecked_spec(seq));
        Ok(rows.first().and_then(|row| spec(row).ok()))
    }
}

impl Graph for Tables {
    fn edges(&mut self, seqs: &[Seq], side: Side) -> EngineResult<Vec<Edge>> {
        let sql = match side {
            Side::Dependency => DEPENDENTS,
            Side::Dependent => DEPENDENCIES,
        };
        let rows = self.link.fetch(sql, vec![Column::from_numbers(seqs.iter().map(|seq| seq.0)).into()])?;
        let mut edges = rows.iter().map(read_edge).collect::<EngineResult<Vec<_>>>()?;
        edges.sort_unstable();
        edges.dedup();
        Ok(edges)
    }

    fn dependents(
        &mut self,
        dependency: Seq,
        after: Option<(Seq, Need)>,
        max: usize,
    ) -> EngineResult<Vec<Edge>> {
        let (dependent, need) = after.map_or((i64::MIN, 0), |(seq, need)| (seq.0, need_code(need)));
        let values = vec![dependency.0.into(), dependent.into(), need.into(), limit(max).into()];
        self.link.fetch(DEPENDENTS_FROM, values)?.iter().map(read_edge).collect()
    }
}

impl Prefetch for Tables {
    /// Reads the small specs of these jobs, for later use.
    fn expect_specs(&mut self, seqs: &[Seq]) -> EngineResult<()> {
        let unread = seqs.iter().filter(|seq| !self.ahead.has_spec(**seq)).map(|seq| seq.0);
        let unread = Column::from_numbers(unread);
        if unread.is_empty() {
            return Ok(());
        }
        for row in &self.link.fetch(SMALL_SPECS, vec![unread.into()])? {
            let seq = Seq(get(row, 13)?);
            // A damaged one is reported when it is taken.
            if let Ok(spec) = read_spec(row, 0, seq) {
                self.ahead.keep_spec(seq, spec);
            }
        }
        Ok(())
    }
}

/// An edge from its row.
fn read_edge(row: &Row) -> EngineResult<Edge> {
    let [dependency, dependent, need]: [i64; 3] = [get(row, 0)?, get(row, 1)?, get(row, 2)?];
    let need = need_of(need).ok_or_else(|| damaged("edges", dependency, "names no kind of need"))?;
    Ok(Edge { dependency: Seq(dependency), dependent: Seq(dependent), need })
}

/// The query for jobs by their ids.
pub(in crate::store::engines::postgres) fn by_id(ids: &[JobId]) -> Question<'static> {
    let mut column = Column::ids();
    for id in ids {
        column.push(id.as_bytes());
    }
    (BY_ID, vec![column.into()])
}

/// The spec from the columns of [`SpecColumns`] with the checksum before the payload, which begin at `from`.
pub(in crate::store::engines::postgres) fn read_spec(row: &Row, from: usize, seq: Seq) -> EngineResult<Spec> {
    read_columns(row, from, seq)?.into_spec(seq, check(get(row, from + 11)?))
}

fn read_columns(row: &Row, from: usize, seq: Seq) -> EngineResult<SpecColumns<'_>> {
    let mut columns = SpecColumns { texts: [None; 9], lists: [None; 2], payload: get(row, from + 12)? };
    for (place, text) in columns.texts.iter_mut().enumerate() {
        *text = maybe_text(row, from + place, seq)?;
    }
    for (place, list) in columns.lists.iter_mut().enumerate() {
        *list = get(row, from + 9 + place)?;
    }
    Ok(columns)
}

fn maybe_text(row: &Row, place: usize, seq: Seq) -> EngineResult<Option<&str>> {
    let bytes: Option<&[u8]> = get(row, place)?;
    bytes.map(|bytes| text_of(bytes, "jobs", seq.0)).transpose()
}

/// Text that is stored as bytes.
pub(in crate::store::engines::postgres) fn text_of<'b>(
    bytes: &'b [u8],
    table: &str,
    row: i64,
) -> EngineResult<&'b str> {
    std::str::from_utf8(bytes).map_err(|_| damaged(table, row, "holds text that is none"))
}
