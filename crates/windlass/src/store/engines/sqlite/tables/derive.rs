//! Derives data again from the rows it follows from: index columns, tags, the number of concurrency keys, indexes.

use rusqlite::params;

use super::row::IndexKeys;
use super::{Holds, Tables, prepare, store_error};
use crate::error::StoreError;
use crate::job::{ConcurrencyKey, Seq, Tenant};
use crate::store::engine::{Derived, DerivedData, DerivedMut, EngineResult};
use crate::store::engines::sql::columns::limit;

const PLACE: &str = "UPDATE hot SET state = ?2, order_key = ?3, rank = ?4, at = ?5, expires_at = ?6, created_at = ?7, \
     concurrency = ?8, parent = ?9, due_rank = ?10, worker = ?11 WHERE seq = ?1";
const UNTAG: &str = "DELETE FROM tags WHERE seq = ?1";
const TOTAL: &str = "INSERT INTO concurrency_key_totals (tenant, n) \
     SELECT ?1, count(*) FROM concurrency_keys WHERE tenant = ?1 \
     ON CONFLICT (tenant) DO UPDATE SET n = excluded.n";
const KEYS: &str = "SELECT key, n FROM concurrency_keys WHERE tenant = ?1 AND (?2 IS NULL OR key > ?2) ORDER BY key LIMIT ?3";
const TENANTS: &str = "SELECT DISTINCT tenant FROM concurrency_keys ORDER BY tenant";
/// A word of the schema, not of a caller, and quoted nevertheless.
const IS_INDEX: &str = "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND name = ?1";

impl<C: Holds> Tables<C> {
    fn derive_job(&mut self, seq: Seq) -> EngineResult<()> {
        prepare(self.connection.get(), UNTAG)?.execute([seq.0]).map_err(store_error)?;
        let Some(job) = self.load_jobs(&[seq])?.pop().flatten() else { return Ok(()) };
        let lane = self.interned.lane_id(self.connection.get(), &job.lane)?;
        let keys = IndexKeys::new(&job, lane);
        prepare(self.connection.get(), PLACE)?
            .execute(params![
                job.seq.0,
                keys.state,
                keys.order_key,
                keys.rank,
                keys.at,
                keys.expires_at,
                job.created_at.as_millis(),
                job.concurrency.map(|key| key.0),
                job.parent.as_ref().map(|parent| parent.id.as_bytes()),
                keys.due_rank,
                keys.worker,
            ])
            .map_err(store_error)?;
        match self.load_specs(&[seq])?.pop().flatten() {
            Some(spec) => self.insert_tags(seq, &spec),
            None => Ok(()),
        }
    }

    fn rebuild_index(&self, name: &str) -> EngineResult<()> {
        let known: i64 = prepare(self.connection.get(), IS_INDEX)?
            .query_row([name], |row| row.get(0))
            .map_err(store_error)?;
        if known != 1 {
            return Err(StoreError::Damaged(format!("there is no index {name}")));
        }
        let sql = format!("REINDEX \"{}\"", name.replace('"', "\"\""));
        self.connection.get().execute_batch(&sql).map_err(store_error)
    }
}

impl<C: Holds> DerivedMut for Tables<C> {
    fn derive(&mut self, what: &DerivedData) -> EngineResult<()> {
        match what {
            DerivedData::Job(seq) => self.derive_job(*seq),
            DerivedData::KeyTotal(tenant) => prepare(self.connection.get(), TOTAL)?
                .execute([tenant.as_str()])
                .map(drop)
                .map_err(store_error),
            DerivedData::Index(name) => self.rebuild_index(name),
        }
    }
}

impl<C: Holds> Derived for Tables<C> {
    fn counted_keys(
        &mut self,
        tenant: &Tenant,
        after: Option<ConcurrencyKey>,
        max: usize,
    ) -> EngineResult<Vec<(ConcurrencyKey, u64)>> {
        let mut statement = prepare(self.connection.get(), KEYS)?;
        let values = params![tenant.as_str(), after.map(|key| key.0), limit(max)];
        let read = |row: &rusqlite::Row<'_>| {
            let n: i64 = row.get(1)?;
            Ok((ConcurrencyKey(row.get(0)?), n.unsigned_abs()))
        };
        let rows = statement.query_map(values, read).map_err(store_error)?;
        rows.collect::<rusqlite::Result<_>>().map_err(store_error)
    }

    fn tenants_of_keys(&mut self) -> EngineResult<Vec<Tenant>> {
        let mut statement = prepare(self.connection.get(), TENANTS)?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).map_err(store_error)?;
        let bad = |problem| StoreError::Damaged(format!("concurrency_keys: a tenant {problem}"));
        rows.map(|name| Tenant::new(&name.map_err(store_error)?).map_err(bad)).collect()
    }
}
