//! How many open jobs have each concurrency key, and how many keys a tenant uses. Updated in the commit of every change,
//! so that the limit on keys needs no scan. Jobs without a key cost nothing here.

use std::collections::BTreeMap;

use crate::job::{ConcurrencyKey, JobRecord, JobState, Tenant};

/// A change of the number of open jobs with a concurrency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The tenant.
    pub tenant: Tenant,
    /// The key.
    pub key: ConcurrencyKey,
    /// The difference, never zero.
    pub by: i64,
}

/// The concurrency key that a job uses while it is open. Jobs of the system itself do not count for their tenant.
pub(crate) fn used_key(job: &JobRecord) -> Option<ConcurrencyKey> {
    job.concurrency.filter(|_| !job.lane.is_internal())
}

/// The changes of a commit, added up by key.
#[derive(Default)]
pub(crate) struct KeyChanges(BTreeMap<(Tenant, ConcurrencyKey), i64>);

impl KeyChanges {
    /// Counts a job that was stored in one state and will be in another; `None` if it is not stored.
    pub(crate) fn add(&mut self, job: &JobRecord, before: Option<JobState>, after: Option<JobState>) {
        let Some(key) = used_key(job) else { return };
        let is_open = |state: Option<JobState>| i64::from(state.is_some_and(|state| !state.is_final()));
        let by = is_open(after) - is_open(before);
        if by != 0 {
            *self.0.entry((job.lane.tenant.clone(), key)).or_default() += by;
        }
    }

    /// The changes, each key once.
    pub(crate) fn into_changes(self) -> Vec<KeyChange> {
        let changed = self.0.into_iter().filter(|(_, by)| *by != 0);
        changed.map(|((tenant, key), by)| KeyChange { tenant, key, by }).collect()
    }
}

/// The counts themselves: those of the memory engine, and a recount of stored jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyCounts {
    jobs: BTreeMap<Tenant, BTreeMap<ConcurrencyKey, u64>>,
}

impl KeyCounts {
    /// Changes a count; removes a key without jobs.
    pub(crate) fn add(&mut self, tenant: &Tenant, key: ConcurrencyKey, by: i64) {
        let keys = self.jobs.entry(tenant.clone()).or_default();
        let jobs = keys.entry(key).or_default();
        *jobs = jobs.saturating_add_signed(by);
        if *jobs == 0 {
            keys.remove(&key);
        }
        if keys.is_empty() {
            self.jobs.remove(tenant);
        }
    }

    /// How many open jobs of a tenant have this key.
    pub(crate) fn jobs_with(&self, tenant: &Tenant, key: ConcurrencyKey) -> u64 {
        self.jobs.get(tenant).and_then(|keys| keys.get(&key)).copied().unwrap_or(0)
    }

    /// How many keys a tenant uses.
    pub(crate) fn in_use(&self, tenant: &Tenant) -> u64 {
        self.jobs.get(tenant).map_or(0, |keys| keys.len() as u64)
    }

    /// Every tenant that uses keys, with its keys and their numbers of jobs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Tenant, &BTreeMap<ConcurrencyKey, u64>)> {
        self.jobs.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_while_it_has_jobs() {
        let (a, b) = (Tenant::new("a").unwrap(), Tenant::new("b").unwrap());
        let (one, two) = (ConcurrencyKey(1), ConcurrencyKey(2));
        let mut counts = KeyCounts::default();
        for (tenant, key) in [(&a, one), (&a, one), (&a, two), (&b, one)] {
            counts.add(tenant, key, 1);
        }
        assert_eq!((counts.in_use(&a), counts.in_use(&b), counts.jobs_with(&a, one)), (2, 1, 2));
        counts.add(&a, one, -1);
        assert_eq!((counts.in_use(&a), counts.jobs_with(&a, one)), (2, 1), "another job has it");
        counts.add(&a, one, -1);
        counts.add(&a, two, -1);
        counts.add(&b, one, -1);
        assert_eq!(counts, KeyCounts::default(), "nothing is left of what became empty");
    }
}
