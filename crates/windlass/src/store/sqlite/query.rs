//! Rows by what names them: ids, places, keys, edges. Lists by a filter have their own module.

mod scan;
mod source;

use rusqlite::OptionalExtension;

use super::row::{read_job, read_spec};
use super::tables::{Holds, Tables, prepare, store_error};
use crate::clock::Timestamp;
use crate::job::{Job, JobId, Seq, Spec};
use crate::store::durable::columns::{damaged, key_check, key_columns, need_of};
use crate::store::engine::{Edge, EngineResult, Key, KeyHolder, Side};

const BY_ID: &str = "SELECT seq, id, lane, policy, record FROM hot WHERE id = ?1";
const BY_SEQ: &str = "SELECT seq, id, lane, policy, record FROM hot WHERE seq = ?1";
const SPEC: &str = "SELECT owner, content_type, idempotency_key, unique_key, concurrency_key, tags, correlation_id, \
     callback_url, traceparent, after, after_any, \"check\", payload FROM jobs WHERE seq = ?1";
const DEPENDENTS: &str = "SELECT dependency, dependent, need FROM edges WHERE dependency = ?1";
const DEPENDENCIES: &str = "SELECT dependency, dependent, need FROM edges WHERE dependent = ?1";

impl<C: Holds> Tables<C> {
    pub(super) fn find_jobs(&mut self, ids: &[JobId]) -> EngineResult<Vec<Option<Job>>> {
        self.each_job(BY_ID, ids, |id| id.as_bytes())
    }

    pub(super) fn load_jobs(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<Job>>> {
        self.each_job(BY_SEQ, seqs, |seq| &seq.0)
    }

    fn each_job<T, P: rusqlite::ToSql>(
        &mut self,
        sql: &str,
        wanted: &[T],
        parameter: impl Fn(&T) -> &P,
    ) -> EngineResult<Vec<Option<Job>>> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let mut statement = prepare(connection, sql)?;
        let mut jobs = Vec::with_capacity(wanted.len());
        for one in wanted {
            let mut rows = statement.query([parameter(one)]).map_err(store_error)?;
            let row = rows.next().map_err(store_error)?;
            jobs.push(row.map(|row| read_job(row, interned, connection)).transpose()?);
        }
        Ok(jobs)
    }

    pub(super) fn load_specs(&mut self, seqs: &[Seq]) -> EngineResult<Vec<Option<Spec>>> {
        let mut statement = prepare(self.connection.get(), SPEC)?;
        let mut specs = Vec::with_capacity(seqs.len());
        for seq in seqs {
            let mut rows = statement.query([seq.0]).map_err(store_error)?;
            let row = rows.next().map_err(store_error)?;
            specs.push(row.map(|row| read_spec(row, *seq)).transpose()?);
        }
        Ok(specs)
    }

    pub(super) fn key_holders(&mut self, keys: &[Key]) -> EngineResult<Vec<Option<KeyHolder>>> {
        let sql = "SELECT seq, expires_at, \"check\" FROM keys \
                   WHERE kind = ?1 AND tenant = ?2 AND type = ?3 AND key = ?4";
        let mut statement = prepare(self.connection.get(), sql)?;
        let mut holder = |key: &Key| {
            let found: Option<(i64, i64, u32)> = statement
                .query_row(key_columns(key), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()
                .map_err(store_error)?;
            let Some((seq, expires_at, check)) = found else { return Ok(None) };
            if key_check(key_columns(key), seq, expires_at) != check {
                return Err(damaged("keys", seq, "does not match its checksum"));
            }
            Ok(Some(KeyHolder { seq: Seq(seq), expires_at: Timestamp::from_millis(expires_at) }))
        };
        keys.iter().map(&mut holder).collect()
    }

    pub(super) fn delete_keys(&mut self, keys: &[Key]) -> EngineResult<()> {
        let sql = "DELETE FROM keys WHERE kind = ?1 AND tenant = ?2 AND type = ?3 AND key = ?4";
        let mut statement = prepare(self.connection.get(), sql)?;
        for key in keys {
            statement.execute(key_columns(key)).map_err(store_error)?;
        }
        Ok(())
    }

    pub(super) fn edges_of(&mut self, seqs: &[Seq], side: Side) -> EngineResult<Vec<Edge>> {
        let sql = match side {
            Side::Dependency => DEPENDENTS,
            Side::Dependent => DEPENDENCIES,
        };
        let mut statement = prepare(self.connection.get(), sql)?;
        let mut edges = Vec::new();
        for seq in seqs {
            let mut rows = statement.query([seq.0]).map_err(store_error)?;
            while let Some(row) = rows.next().map_err(store_error)? {
                let [dependency, dependent, need] = [0, 1, 2].map(|place| row.get::<_, i64>(place));
                let need = need_of(need.map_err(store_error)?)
                    .ok_or_else(|| damaged("edges", seq.0, "names no kind of need"))?;
                let dependency = Seq(dependency.map_err(store_error)?);
                edges.push(Edge { dependency, dependent: Seq(dependent.map_err(store_error)?), need });
            }
        }
        edges.sort_unstable();
        edges.dedup();
        Ok(edges)
    }
}
