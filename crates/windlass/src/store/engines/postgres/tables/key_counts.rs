//! The number of open jobs per concurrency key, and the number of keys in use per tenant. Only one node writes at a
//! time, so that a statement may compute new numbers from those it reads.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::Tables;
use crate::error::StoreError;
use crate::job::{ConcurrencyKey, Tenant};
use crate::store::engine::{EngineResult, KeyChange};
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::parameter::Column;

/// All changes in one statement, which is sent without waiting for its result. Rows are looked up one by one through
/// the whole key of the index: a join may be planned while the table is nearly empty, then looks through all keys of the
/// tenant for every key, and is kept.
const MOVE: &str = "WITH changes AS ( \
       SELECT c.tenant, c.key, k.found, coalesce(k.n, 0) AS n, coalesce(k.n, 0) + c.by AS then_n \
       FROM unnest($1::text[], $2::bigint[], $3::bigint[]) c(tenant, key, by) \
       LEFT JOIN LATERAL (SELECT o.ctid AS found, o.n FROM @.concurrency_keys o \
         WHERE o.tenant = c.tenant AND o.key = c.key OFFSET 0) k ON true), \
     unused AS (DELETE FROM @.concurrency_keys \
       WHERE ctid = ANY (ARRAY(SELECT found FROM changes WHERE then_n = 0 AND found IS NOT NULL))), \
     used AS (INSERT INTO @.concurrency_keys (tenant, key, n) SELECT tenant, key, then_n FROM changes WHERE then_n <> 0 \
       ON CONFLICT (tenant, key) DO UPDATE SET n = excluded.n) \
     INSERT INTO @.concurrency_key_totals AS t (tenant, n) \
       SELECT tenant, sum((then_n <> 0)::int - (n <> 0)::int) AS added FROM changes GROUP BY tenant \
       HAVING sum((then_n <> 0)::int - (n <> 0)::int) <> 0 \
       ON CONFLICT (tenant) DO UPDATE SET n = t.n + excluded.n";
const TOTAL: &str = "SELECT n FROM @.concurrency_key_totals WHERE tenant = $1";
const TOTALS: &str = "SELECT tenant, n FROM @.concurrency_key_totals WHERE n <> 0";
const JOBS: &str = "SELECT u.place, k.n FROM unnest($2::bigint[]) WITH ORDINALITY u(key, place) \
     CROSS JOIN LATERAL (SELECT o.n FROM @.concurrency_keys o WHERE o.tenant = $1 AND o.key = u.key OFFSET 0) k";

impl Tables {
    pub(in crate::store::engines::postgres) fn read_keys_in_use(
        &mut self,
        tenant: &Tenant,
    ) -> EngineResult<u64> {
        let row = self.link.fetch(TOTAL, vec![tenant.as_str().into()])?.pop();
        row.map_or(Ok(0), |row| get::<i64>(&row, 0).map(i64::unsigned_abs))
    }

    pub(in crate::store::engines::postgres) fn read_jobs_with_keys(
        &mut self,
        tenant: &Tenant,
        keys: &[ConcurrencyKey],
    ) -> EngineResult<Vec<u64>> {
        let mut found = vec![0; keys.len()];
        let values = vec![tenant.as_str().into(), Column::from_numbers(keys.iter().map(|key| key.0)).into()];
        for row in self.link.fetch(JOBS, values)? {
            let (place, n): (i64, i64) = (get(&row, 0)?, get(&row, 1)?);
            if let Some(jobs) = usize::try_from(place - 1).ok().and_then(|place| found.get_mut(place)) {
                *jobs = n.unsigned_abs();
            }
        }
        Ok(found)
    }

    pub(in crate::store::engines::postgres) fn read_all_keys_in_use(
        &mut self,
    ) -> EngineResult<BTreeMap<Tenant, u64>> {
        let mut found = BTreeMap::new();
        for row in self.link.fetch(TOTALS, Vec::new())? {
            let (tenant, n): (&str, i64) = (get(&row, 0)?, get(&row, 1)?);
            let bad = |problem| StoreError::Damaged(format!("concurrency_key_totals: `{tenant}` {problem}"));
            found.insert(Tenant::new(tenant).map_err(bad)?, n.unsigned_abs());
        }
        Ok(found)
    }

    pub(in crate::store::engines::postgres) fn move_key_counts(
        &mut self,
        changes: &[KeyChange],
    ) -> EngineResult<()> {
        let mut tenants = Column::texts();
        for change in changes {
            tenants.push(change.tenant.as_str().as_bytes());
        }
        let keys = Column::from_numbers(changes.iter().map(|change| change.key.0));
        let by = Column::from_numbers(changes.iter().map(|change| change.by));
        self.write(MOVE, vec![tenants.into(), keys.into(), by.into()], None)
    }
}
