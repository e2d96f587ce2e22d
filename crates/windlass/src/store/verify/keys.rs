//! The numbers of open jobs per concurrency key.

use super::VerifyReport;
use super::repair::Defect;
use crate::error::StoreError;
use crate::job::{ConcurrencyKey, JobRecord};
use crate::limits;
use crate::store::documents::key_counts::{KeyCounts, used_key};
use crate::store::engine::{Derived, KeyChange};
use crate::store::tx::read_tx::ReadTx;

/// Counts a stored job.
pub(super) fn recount(counts: &mut KeyCounts, job: &JobRecord) {
    if let Some(key) = used_key(job).filter(|_| !job.state.is_final()) {
        counts.add(&job.lane.tenant, key, 1);
    }
}

/// The stored numbers match the recount.
pub(super) fn report(tx: &mut ReadTx<'_>, counts: &KeyCounts) -> Result<VerifyReport, StoreError> {
    let promise =
        "counters of open jobs by concurrency key, and of keys by tenant, equal a recount of all jobs";
    let mut report = VerifyReport::new("concurrency_keys", promise);
    for (tenant, stored) in tx.db.all_keys_in_use()? {
        let found = counts.in_use(&tenant);
        report.count_defect((stored != found).then(|| {
            let text = format!("tenant {tenant}: counter {stored}, concurrency keys {found}");
            (text, Some(Defect::KeyTotal(tenant)))
        }));
    }
    unused(tx, counts, &mut report)?;
    for (tenant, keys) in counts.iter() {
        let names: Vec<ConcurrencyKey> = keys.keys().copied().collect();
        for some in names.chunks(limits::VERIFY_PAGE) {
            tx.is_wanted()?;
            let stored = tx.db.jobs_with_keys(tenant, some)?;
            for (key, stored) in some.iter().zip(stored) {
                let found = keys[key];
                report.count_defect((stored != found).then(|| {
                    let text = format!(
                        "tenant {tenant}, key with digest {}: counter {stored}, open jobs {found}",
                        key.0
                    );
                    let by = found.cast_signed() - stored.cast_signed();
                    let change = KeyChange { tenant: tenant.clone(), key: *key, by };
                    (text, Some(Defect::KeyCount(change)))
                }));
            }
        }
    }
    Ok(report)
}

/// Counters of keys that no open job has, where an engine can list them.
fn unused(tx: &mut ReadTx<'_>, counts: &KeyCounts, report: &mut VerifyReport) -> Result<(), StoreError> {
    let tenants = tx.db.derived().map(Derived::tenants_of_keys).transpose()?;
    for tenant in tenants.unwrap_or_default() {
        let mut after = None;
        loop {
            tx.is_wanted()?;
            let limit = limits::VERIFY_PAGE;
            let page =
                tx.db.derived().map(|derived| derived.counted_keys(&tenant, after, limit)).transpose()?;
            let page = page.unwrap_or_default();
            let Some((last, _)) = page.last() else { break };
            after = Some(*last);
            for (key, stored) in page.into_iter().filter(|(key, _)| counts.jobs_with(&tenant, *key) == 0) {
                let text =
                    format!("tenant {tenant}, key with digest {}: counter {stored}, no open job", key.0);
                let change = KeyChange { tenant: tenant.clone(), key, by: -stored.cast_signed() };
                report.count_defect(Some((text, Some(Defect::KeyCount(change)))));
            }
        }
    }
    Ok(())
}
