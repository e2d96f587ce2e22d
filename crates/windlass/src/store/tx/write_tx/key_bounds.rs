//! How many concurrency keys a tenant uses at most. The bound is read once and then raised with every job that may add
//! a key, so that submissions far below their limit read nothing.

use super::WriteTx;
use crate::job::{ConcurrencyKey, JobRecord, Tenant};
use crate::store::documents::key_counts::used_key;
use crate::store::engine::EngineResult;

/// Maximum number of tenants whose bound is cached; the cache is cleared when there are more.
const TENANTS_REMEMBERED_MAX: usize = 10_000;

impl WriteTx<'_> {
    /// An upper bound of the number of concurrency keys that a tenant's open jobs have, pending changes included.
    pub(crate) fn keys_in_use_at_most(&mut self, tenant: &Tenant) -> EngineResult<u64> {
        match self.cache.usage.key_bounds.get(tenant) {
            Some(bound) => Ok(*bound),
            None => self.keys_in_use(tenant),
        }
    }

    /// The exact number, which is the new bound.
    pub(crate) fn keys_in_use(&mut self, tenant: &Tenant) -> EngineResult<u64> {
        let in_use = self.db()?.keys_in_use(tenant)?;
        let bounds = &mut self.cache.usage.key_bounds;
        if bounds.len() >= TENANTS_REMEMBERED_MAX {
            bounds.clear();
        }
        bounds.insert(tenant.clone(), in_use);
        Ok(in_use)
    }

    /// How many open jobs of a tenant have each of these keys, in this order.
    pub(crate) fn jobs_with_keys(
        &mut self,
        tenant: &Tenant,
        keys: &[ConcurrencyKey],
    ) -> EngineResult<Vec<u64>> {
        self.db()?.jobs_with_keys(tenant, keys)
    }

    /// Raises the bound by a new job. It is not lowered when the job is undone or ends: it stays a bound.
    pub(super) fn raise_key_bound(&mut self, job: &JobRecord) {
        if used_key(job).is_some()
            && let Some(bound) = self.cache.usage.key_bounds.get_mut(&job.lane.tenant)
        {
            *bound += 1;
        }
    }
}
