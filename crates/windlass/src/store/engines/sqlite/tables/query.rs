//! Rows by identity: ids, sequence numbers, keys, edges. Lists by a filter have their own module.

mod lanes;
mod scan;
mod source;

use rusqlite::{Connection, Row, Rows};

use super::row::{read_job, read_readable, read_spec, read_unchecked_spec};
use super::{Holds, Interner, Tables, prepare, store_error};
use crate::job::{JobId, JobRecord, Need, Seq, Spec};
use crate::store::engine::{Edge, EngineResult, Graph, Side};
use crate::store::engines::sql::columns::{damaged, limit, need_code, need_of};

const BY_ID: &str = "SELECT seq, id, lane, policy, record FROM hot WHERE id = ?1";
const BY_SEQ: &str = "SELECT seq, id, lane, policy, record FROM hot WHERE seq = ?1";
const SPEC: &str = "SELECT owner, content_type, idempotency_key, unique_key, concurrency_key, tags, correlation_id, \
     callback_url, traceparent, after, after_any, \"check\", payload FROM jobs WHERE seq = ?1";
const DEPENDENTS: &str = "SELECT dependency, dependent, need FROM edges WHERE dependency = ?1";
const DEPENDENCIES: &str = "SELECT dependency, dependent, need FROM edges WHERE dependent = ?1";

const DEPENDENTS_FROM: &str = "SELECT dependency, dependent, need FROM edges \
     WHERE dependency = ?1 AND (dependent, need) > (?2, ?3) ORDER BY dependent, need LIMIT ?4";

impl<C: Holds> Tables<C> {
    pub(in crate::store::engines::sqlite) fn find_jobs(
        &mut self,
        ids: &[JobId],
    ) -> EngineResult<Vec<Option<JobRecord>>> {
        self.each_job(
            BY_ID,
            ids,
            |id| id.as_bytes(),
            |row, interned, connection| read_job(row, interned, connection).map(Some),
        )
    }

    pub(in crate::store::engines::sqlite) fn load_jobs(
        &mut self,
        seqs: &[Seq],
    ) -> EngineResult<Vec<Option<JobRecord>>> {
        self.each_job(BY_SEQ, seqs, |seq| &seq.0, read_readable)
    }

    fn each_job<T, P: rusqlite::ToSql>(
        &mut self,
        sql: &str,
        wanted: &[T],
        parameter: impl Fn(&T) -> &P,
        read: impl Fn(&Row<'_>, &mut Interner, &Connection) -> EngineResult<Option<JobRecord>>,
    ) -> EngineResult<Vec<Option<JobRecord>>> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let mut statement = prepare(connection, sql)?;
        let mut jobs = Vec::with_capacity(wanted.len());
        for one in wanted {
            let mut rows = statement.query([parameter(one)]).map_err(store_error)?;
            let row = rows.next().map_err(store_error)?;
            jobs.push(row.map(|row| read(row, interned, connection)).transpose()?.flatten());
        }
        Ok(jobs)
    }

    pub(in crate::store::engines::sqlite) fn load_specs(
        &mut self,
        seqs: &[Seq],
    ) -> EngineResult<Vec<Option<Spec>>> {
        let mut statement = prepare(self.connection.get(), SPEC)?;
        let mut specs = Vec::with_capacity(seqs.len());
        for seq in seqs {
            let mut rows = statement.query([seq.0]).map_err(store_error)?;
            let row = rows.next().map_err(store_error)?;
            specs.push(row.map(|row| read_spec(row, *seq)).transpose()?);
        }
        Ok(specs)
    }

    pub(in crate::store::engines::sqlite) fn load_unchecked_spec(
        &mut self,
        seq: Seq,
    ) -> EngineResult<Option<Spec>> {
        let mut statement = prepare(self.connection.get(), SPEC)?;
        let mut rows = statement.query([seq.0]).map_err(store_error)?;
        let row = rows.next().map_err(store_error)?;
        Ok(row.and_then(|row| read_unchecked_spec(row, seq)))
    }
}

impl<C: Holds> Graph for Tables<C> {
    fn edges(&mut self, seqs: &[Seq], side: Side) -> EngineResult<Vec<Edge>> {
        let sql = match side {
            Side::Dependency => DEPENDENTS,
            Side::Dependent => DEPENDENCIES,
        };
        let mut statement = prepare(self.connection.get(), sql)?;
        let mut edges = Vec::new();
        for seq in seqs {
            read_edges(statement.query([seq.0]).map_err(store_error)?, &mut edges)?;
        }
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
        let mut statement = prepare(self.connection.get(), DEPENDENTS_FROM)?;
        let mut edges = Vec::new();
        let rows = statement.query([dependency.0, dependent, need, limit(max)]).map_err(store_error)?;
        read_edges(rows, &mut edges)?;
        Ok(edges)
    }
}

/// Adds the edges in these rows.
fn read_edges(mut rows: Rows<'_>, edges: &mut Vec<Edge>) -> EngineResult<()> {
    while let Some(row) = rows.next().map_err(store_error)? {
        let [dependency, dependent, need] = [0, 1, 2].map(|place| row.get::<_, i64>(place));
        let dependency = dependency.map_err(store_error)?;
        let need = need_of(need.map_err(store_error)?)
            .ok_or_else(|| damaged("edges", dependency, "names no kind of need"))?;
        let dependent = Seq(dependent.map_err(store_error)?);
        edges.push(Edge { dependency: Seq(dependency), dependent, need });
    }
    Ok(())
}
