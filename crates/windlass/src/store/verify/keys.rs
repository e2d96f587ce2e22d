//! The numbers of open jobs per concurrency key.

use super::VerifyReport;
use crate::error::StoreError;
use crate::job::{ConcurrencyKey, JobRecord};
use crate::limits;
use crate::store::documents::key_counts::{KeyCounts, used_key};
use crate::store::tx::read_tx::ReadTx;

/// Counts a stored job.
pub(super) fn recount(counts: &mut KeyCounts, job: &JobRecord) {
    if let Some(key) = used_key(job).filter(|_| !job.state.is_final()) {
        counts.add(&job.lane.tenant, key, 1);
    }
}

/// The stored numbers match the recount. Keys without jobs are found by the number of keys.
pub(super) fn report(tx: &mut ReadTx<'_>, counts: &KeyCounts) -> Result<VerifyReport, StoreError> {
    let promise =
        "counters of open jobs by concurrency key, and of keys by tenant, equal a recount of all jobs";
    let mut report = VerifyReport::new("concurrency_keys", promise);
    for (tenant, stored) in tx.db.all_keys_in_use()? {
        let found = counts.in_use(&tenant);
        report.count_finding(
            (stored != found).then(|| format!("tenant {tenant}: counter {stored}, concurrency keys {found}")),
        );
    }
    for (tenant, keys) in counts.iter() {
        let names: Vec<ConcurrencyKey> = keys.keys().copied().collect();
        for some in names.chunks(limits::VERIFY_PAGE) {
            tx.is_wanted()?;
            let stored = tx.db.jobs_with_keys(tenant, some)?;
            for (key, stored) in some.iter().zip(stored) {
                let found = keys[key];
                report.count_finding((stored != found).then(|| {
                    format!("tenant {tenant}, key with digest {}: counter {stored}, open jobs {found}", key.0)
                }));
            }
        }
    }
    Ok(report)
}
