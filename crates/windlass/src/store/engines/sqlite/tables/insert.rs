//! Inserts: new jobs with their specs, tags, keys and edges. That a key is free, or that an edge creates no cycle, was
//! checked before.

use rusqlite::params;

use super::row::{IndexKeys, bind_spec};
use super::{Holds, Tables, prepare, store_error};
use crate::job::{Seq, Spec};
use crate::store::engine::{Edge, EngineResult, NewRow};
use crate::store::engines::sql::codec::{Head, pack};
use crate::store::engines::sql::columns::{SpecColumns, SpecParts, need_code};

const INSERT_JOB: &str = "INSERT INTO jobs (seq, owner, content_type, idempotency_key, unique_key, concurrency_key, \
     tags, correlation_id, callback_url, traceparent, after, after_any, \"check\", payload) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)";
const INSERT_HOT: &str = "INSERT INTO hot (seq, id, lane, policy, state, order_key, rank, at, expires_at, created_at, \
     concurrency, parent, record, due_rank, worker) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";

impl<C: Holds> Tables<C> {
    pub(in crate::store::engines::sqlite) fn insert_rows(&mut self, rows: &[NewRow]) -> EngineResult<()> {
        self.insert_specs(rows)?;
        self.insert_hot(rows)?;
        for row in rows {
            self.insert_tags(row.job.seq, &row.spec)?;
            self.put_keys(&row.keys)?;
        }
        Ok(())
    }

    fn insert_specs(&mut self, rows: &[NewRow]) -> EngineResult<()> {
        let mut statement = prepare(self.connection.get(), INSERT_JOB)?;
        for row in rows {
            let parts = SpecParts::new(&row.spec);
            bind_spec(&SpecColumns::new(&row.spec, &parts), row.job.seq, &mut statement)
                .and_then(|()| statement.raw_execute())
                .map_err(store_error)?;
        }
        Ok(())
    }

    fn insert_hot(&mut self, rows: &[NewRow]) -> EngineResult<()> {
        let (connection, interned) = (self.connection.get(), &mut self.interned);
        let mut statement = prepare(connection, INSERT_HOT)?;
        let mut record = Vec::with_capacity(256);
        for NewRow { job, .. } in rows {
            let lane = interned.lane_id(connection, &job.lane)?;
            let policy = interned.policy_id(connection, &job.policy)?;
            let keys = IndexKeys::new(job, lane);
            pack(job, &Head { seq: job.seq, id: job.id, lane, policy }, &mut record);
            statement
                .execute(params![
                    job.seq.0,
                    job.id.as_bytes(),
                    lane,
                    policy,
                    keys.state,
                    keys.order_key,
                    keys.rank,
                    keys.at,
                    keys.expires_at,
                    job.created_at.as_millis(),
                    job.concurrency.map(|key| key.0),
                    job.parent.as_ref().map(|parent| parent.id.as_bytes()),
                    record,
                    keys.due_rank,
                    keys.worker,
                ])
                .map_err(store_error)?;
        }
        Ok(())
    }

    pub(in crate::store::engines::sqlite) fn insert_tags(
        &mut self,
        seq: Seq,
        spec: &Spec,
    ) -> EngineResult<()> {
        if spec.metadata.tags.is_empty() {
            return Ok(());
        }
        let mut statement =
            prepare(self.connection.get(), "INSERT INTO tags (name, value, seq) VALUES (?1, ?2, ?3)")?;
        for (name, value) in &spec.metadata.tags {
            statement.execute(params![name, value, seq.0]).map_err(store_error)?;
        }
        Ok(())
    }

    pub(in crate::store::engines::sqlite) fn insert_edges(&mut self, edges: &[Edge]) -> EngineResult<()> {
        let sql = "INSERT OR IGNORE INTO edges (dependency, dependent, need) VALUES (?1, ?2, ?3)";
        let mut statement = prepare(self.connection.get(), sql)?;
        for edge in edges {
            statement
                .execute([edge.dependency.0, edge.dependent.0, need_code(edge.need)])
                .map_err(store_error)?;
        }
        Ok(())
    }
}
