//! The limit on the number of concurrency keys per tenant: a key counts while an open job has it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::keys::{Duplicate, concurrency_key};
use super::{Batch, invalid};
use crate::error::{FieldProblem, StoreError, SubmitError};
use crate::job::{ConcurrencyKey, Tenant};
use crate::store::tx::write_tx::WriteTx;

/// A concurrency key to add, as given and as stored.
pub(crate) struct WantedKey<'a> {
    pub(crate) text: &'a str,
    pub(crate) key: ConcurrencyKey,
}

impl Batch<'_> {
    /// Refuses a submission that would exceed the tenant's number of concurrency keys.
    pub(super) fn check_concurrency_keys(
        &self,
        tx: &mut WriteTx<'_>,
        duplicates: &HashMap<usize, Duplicate>,
    ) -> Result<(), SubmitError> {
        let mut wanted: BTreeMap<&Tenant, Vec<(usize, &str)>> = BTreeMap::new();
        for (index, (job, lane)) in self.jobs.iter().zip(&self.lanes).enumerate() {
            if let Some(text) = &job.concurrency_key
                && !lane.is_internal()
                && !duplicates.contains_key(&index)
            {
                wanted.entry(&lane.tenant).or_default().push((index, text));
            }
        }
        for (tenant, jobs) in wanted {
            if is_far_below_limit(tx, tenant, jobs.len())? {
                continue;
            }
            let keys = jobs.iter().map(|(_, text)| WantedKey { text, key: concurrency_key(tenant, text) });
            if let Some((place, problem)) = first_beyond_limit(tx, tenant, &keys.collect::<Vec<_>>())? {
                return Err(invalid(jobs[place].0, "concurrency_key", problem));
            }
        }
        Ok(())
    }
}

/// Whether a tenant may add so many keys even if all of them are new. Usually reads nothing.
fn is_far_below_limit(tx: &mut WriteTx<'_>, tenant: &Tenant, count: usize) -> Result<bool, StoreError> {
    let limit = tx.config()?.concurrency_keys_max(tenant);
    Ok(tx.keys_in_use_at_most(tenant)? + count as u64 <= limit)
}

/// The index of the first key that the tenant may not add, and why. Keys that are in use add nothing.
pub(crate) fn first_beyond_limit(
    tx: &mut WriteTx<'_>,
    tenant: &Tenant,
    wanted: &[WantedKey<'_>],
) -> Result<Option<(usize, FieldProblem)>, StoreError> {
    if is_far_below_limit(tx, tenant, wanted.len())? {
        return Ok(None);
    }
    let limit = tx.config()?.concurrency_keys_max(tenant);
    let in_use = tx.keys_in_use(tenant)?;
    if in_use + wanted.len() as u64 <= limit {
        return Ok(None);
    }
    let keys: Vec<ConcurrencyKey> = wanted.iter().map(|wanted| wanted.key).collect();
    let jobs = tx.jobs_with_keys(tenant, &keys)?;
    let mut new = BTreeSet::new();
    for (place, (wanted, jobs)) in wanted.iter().zip(jobs).enumerate() {
        if jobs == 0 && new.insert(wanted.key) && in_use + new.len() as u64 > limit {
            let (value, tenant) = (wanted.text.to_owned(), tenant.to_string());
            let name = FieldProblem::MAX_CONCURRENCY_KEYS;
            return Ok(Some((place, FieldProblem::LimitReached { name, value, limit, tenant })));
        }
    }
    Ok(None)
}
