//! The number of open jobs per concurrency key, and the number of keys in use per tenant.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, params};

use super::{Holds, Tables, prepare, store_error};
use crate::error::StoreError;
use crate::job::{ConcurrencyKey, Tenant};
use crate::store::engine::{EngineResult, KeyChange};

const ADD: &str = "INSERT INTO concurrency_keys (tenant, key, n) VALUES (?1, ?2, ?3) \
     ON CONFLICT (tenant, key) DO UPDATE SET n = n + excluded.n RETURNING n";
const DROP: &str = "DELETE FROM concurrency_keys WHERE tenant = ?1 AND key = ?2";
const ADD_TOTAL: &str = "INSERT INTO concurrency_key_totals (tenant, n) VALUES (?1, ?2) \
     ON CONFLICT (tenant) DO UPDATE SET n = n + excluded.n";
const TOTAL: &str = "SELECT n FROM concurrency_key_totals WHERE tenant = ?1";
const TOTALS: &str = "SELECT tenant, n FROM concurrency_key_totals WHERE n <> 0";
const JOBS: &str = "SELECT n FROM concurrency_keys WHERE tenant = ?1 AND key = ?2";

impl<C: Holds> Tables<C> {
    pub(in crate::store::engines::sqlite) fn read_keys_in_use(&self, tenant: &Tenant) -> EngineResult<u64> {
        let mut statement = prepare(self.connection.get(), TOTAL)?;
        let n: Option<i64> =
            statement.query_row([tenant.as_str()], |row| row.get(0)).optional().map_err(store_error)?;
        Ok(n.map_or(0, i64::unsigned_abs))
    }

    pub(in crate::store::engines::sqlite) fn read_jobs_with_keys(
        &self,
        tenant: &Tenant,
        keys: &[ConcurrencyKey],
    ) -> EngineResult<Vec<u64>> {
        let mut statement = prepare(self.connection.get(), JOBS)?;
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            let n = statement.query_row(params![tenant.as_str(), key.0], |row| row.get::<_, i64>(0));
            found.push(n.optional().map_err(store_error)?.map_or(0, i64::unsigned_abs));
        }
        Ok(found)
    }

    pub(in crate::store::engines::sqlite) fn read_all_keys_in_use(
        &self,
    ) -> EngineResult<BTreeMap<Tenant, u64>> {
        let mut statement = prepare(self.connection.get(), TOTALS)?;
        let mut rows = statement.query([]).map_err(store_error)?;
        let mut found = BTreeMap::new();
        while let Some(row) = rows.next().map_err(store_error)? {
            let (tenant, n): (String, i64) = row.try_into().map_err(store_error)?;
            let bad = |problem| StoreError::Damaged(format!("concurrency_key_totals: `{tenant}` {problem}"));
            found.insert(Tenant::new(&tenant).map_err(bad)?, n.unsigned_abs());
        }
        Ok(found)
    }

    pub(in crate::store::engines::sqlite) fn move_key_counts(
        &mut self,
        changes: &[KeyChange],
    ) -> EngineResult<()> {
        let connection = self.connection.get();
        let mut add = prepare(connection, ADD)?;
        for KeyChange { tenant, key, by } in changes {
            let n: i64 =
                add.query_row(params![tenant.as_str(), key.0, by], |row| row.get(0)).map_err(store_error)?;
            // A key that had no jobs before, or has none any more.
            let added = i64::from(n != 0) - i64::from(n != *by);
            if n == 0 {
                prepare(connection, DROP)?.execute(params![tenant.as_str(), key.0]).map_err(store_error)?;
            }
            if added != 0 {
                prepare(connection, ADD_TOTAL)?
                    .execute(params![tenant.as_str(), added])
                    .map_err(store_error)?;
            }
        }
        Ok(())
    }
}
