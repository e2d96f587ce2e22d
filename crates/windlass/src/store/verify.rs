//! Verification of the stored data: the invariants of the model, checked on a live store, in one snapshot. It only
//! reads, and reports for each invariant how much was checked and what was found.

mod audit;
pub(crate) mod graph;
mod keys;
mod life;
mod pending;
pub(crate) mod repair;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use audit::AuditCheck;
use repair::Defect;
pub use repair::{Remedy, Repair, RepairPlan, RepairResult};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::StoreError;
use crate::job::{JobId, JobRecord, JobState, Lane, Seq, Spec};
use crate::limits;
use crate::ordered::CollectOrdered;
use crate::store::documents::attempt::{self, AttemptRecord};
use crate::store::documents::key_counts::KeyCounts;
use crate::store::engine::{ClaimOrder, Damage, JobDataKind, JobDataQuery};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::notify::events::newest_record;
use crate::store::tx::read_tx::ReadTx;

/// Maximum number of findings of one invariant that are described; all are counted.
const TOLD_MAX: usize = 20;

/// The result of checking one invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The invariant's short name, for example `leases`.
    pub code: &'static str,
    /// The invariant, in a sentence.
    pub promise: &'static str,
    /// Number of objects checked.
    pub checked: u64,
    /// Number of objects that violate it.
    pub broken: u64,
    /// Descriptions of the first of those.
    pub findings: Vec<String>,
    /// More of them, each with what it is if it can be repaired.
    pub(crate) found: Vec<(String, Option<Defect>)>,
}

impl VerifyReport {
    fn new(code: &'static str, promise: &'static str) -> VerifyReport {
        VerifyReport { code, promise, checked: 0, broken: 0, findings: Vec::new(), found: Vec::new() }
    }

    /// Whether the invariant holds.
    pub fn holds(&self) -> bool {
        self.broken == 0
    }

    /// Counts one check, and its finding.
    fn count_finding(&mut self, finding: Option<String>) {
        self.count_defect(finding.map(|finding| (finding, None)));
    }

    /// Counts one check, and its finding with what can be repaired.
    fn count_defect(&mut self, finding: Option<(String, Option<Defect>)>) {
        self.checked += 1;
        if let Some((finding, defect)) = finding {
            self.broken += 1;
            if self.found.len() < limits::REPAIRS_PLANNED_MAX {
                self.found.push((finding.clone(), defect));
            }
            if self.findings.len() < TOLD_MAX {
                self.findings.push(finding);
            }
        }
    }
}

/// The progress of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyProgress {
    /// Jobs and audit records checked; a record that is checked twice counts twice.
    pub done: u64,
    /// Number of objects to check, as far as known at the beginning.
    pub expected: u64,
}

/// Counts what is checked, and reports progress.
pub(crate) struct VerifyFinding<'a> {
    checked: VerifyProgress,
    tell: &'a mut dyn FnMut(VerifyProgress),
}

impl VerifyFinding<'_> {
    fn more(&mut self, count: usize) {
        self.checked.done += count as u64;
        (self.tell)(self.checked);
    }
}

/// A job with its data, as the checks see it.
pub(crate) struct VerifyCounts {
    pub(crate) job: JobRecord,
    pub(crate) spec: Spec,
    pub(crate) attempts: Vec<(u32, AttemptRecord)>,
    /// Number and total size in bytes of the stored checkpoints.
    pub(crate) checkpoints: (u64, u64),
    /// Whether the job has a result that is not stored.
    pub(crate) has_lost_result: bool,
}

/// Checks every invariant that can be seen in stored data.
pub(crate) fn verify(
    tx: &mut ReadTx<'_>,
    tell: &mut dyn FnMut(VerifyProgress),
) -> Result<Vec<VerifyReport>, StoreError> {
    let counted: u64 = tx.db.counts()?.lanes.values().flatten().sum();
    // Every record is read twice: for its content, and in the chain.
    let expected = counted + 2 * newest_record(tx)?;
    let mut progress = VerifyFinding { checked: VerifyProgress { done: 0, expected }, tell };
    let served = life::Served { until: tx.db.committed_at()?, generation: tx.db.numbers()?.generation };
    let mut life = life::reports();
    let mut graph = graph::Graph::default();
    let mut recount: BTreeMap<(Arc<Lane>, JobState), u64> = BTreeMap::new();
    let mut key_counts = KeyCounts::default();
    let mut states: FxHashMap<JobId, JobState> = FxHashMap::default();
    let mut after = None;
    loop {
        tx.is_wanted()?;
        let limit = limits::VERIFY_PAGE;
        let scan = Scan { filter: Filter::default(), order: Order::Oldest, after, limit };
        let page = tx.db.scan(&scan)?;
        let Some(last) = page.last() else { break };
        after = Some(ClaimOrder::new(last));
        progress.more(page.len());
        let (page, damaged) = facts(tx, page)?;
        for (job, damage) in damaged {
            states.insert(job.id, job.state);
            *recount.entry((job.lane.clone(), job.state)).or_default() += 1;
            keys::recount(&mut key_counts, &job);
            life::damaged(&mut life, &job, &damage);
        }
        let mut near = graph::Near::load(tx, &page)?;
        for facts in page {
            states.insert(facts.job.id, facts.job.state);
            *recount.entry((facts.job.lane.clone(), facts.job.state)).or_default() += 1;
            keys::recount(&mut key_counts, &facts.job);
            life::check(&mut life, &facts, &served);
            graph.check(tx, &facts, &mut near)?;
        }
    }
    let mut reports = life;
    reports.extend(graph.reports());
    reports.push(counters(tx, &recount)?);
    reports.push(keys::report(tx, &key_counts)?);
    reports.push(pending::cascades(tx)?);
    reports.push(pending::schedules(tx)?);
    reports.extend(audit::records(tx, &mut progress, &states)?);
    let check = audit::own_check(tx);
    reports.push(audit::chain(tx, &mut progress, &check)?);
    reports.push(storage(tx)?);
    Ok(reports)
}

/// Checks that the audit trail is as it was sealed.
pub(crate) fn verify_audit(
    tx: &mut ReadTx<'_>,
    check: &AuditCheck,
    tell: &mut dyn FnMut(VerifyProgress),
) -> Result<VerifyReport, StoreError> {
    let expected = newest_record(tx)?;
    let mut check = check.clone();
    check.trusted.extend(audit::own_check(tx).trusted);
    audit::chain(tx, &mut VerifyFinding { checked: VerifyProgress { done: 0, expected }, tell }, &check)
}

/// A job whose submission is damaged, and what is wrong with it.
type DamagedJob = (JobRecord, String);

fn facts(
    tx: &mut ReadTx<'_>,
    page: Vec<JobRecord>,
) -> Result<(Vec<VerifyCounts>, Vec<DamagedJob>), StoreError> {
    let seqs: Vec<Seq> = page.iter().map(|job| job.seq).collect();
    let specs = tx.db.specs_or_damage(&seqs)?;
    let with_result: Vec<Seq> = page.iter().filter(|job| job.has.result).map(|job| job.seq).collect();
    let mut results: FxHashSet<Seq> = FxHashSet::default();
    for some in with_result.chunks(limits::RESULTS_AT_ONCE) {
        results.extend(tx.db.job_data_of(some, JobDataKind::Result)?.iter().map(|data| data.seq));
    }
    let (mut found, mut damaged) = (Vec::with_capacity(page.len()), Vec::new());
    for (job, spec) in page.into_iter().zip(specs) {
        let spec = match spec {
            Ok(spec) => spec,
            Err(damage) => {
                damaged.push((job, damage));
                continue;
            }
        };
        let attempts = attempt::ended(tx.db, &job)?;
        let limit = limits::CHECKPOINTS_MAX + 1;
        let kind = JobDataKind::Checkpoint;
        let query = JobDataQuery { seq: job.seq, kind, name: None, above: None, limit };
        let stored = if job.has.checkpoints { tx.db.job_data(query)? } else { Vec::new() };
        let bytes: usize = stored.iter().map(|data| data.body.len()).sum();
        let checkpoints = (stored.len() as u64, bytes as u64);
        let has_lost_result = job.has.result && !results.contains(&job.seq);
        found.push(VerifyCounts { job, spec, attempts, checkpoints, has_lost_result });
    }
    Ok((found, damaged))
}

/// Problems that no query about jobs would show.
fn storage(tx: &mut ReadTx<'_>) -> Result<VerifyReport, StoreError> {
    let mut report = VerifyReport::new(
        "storage",
        "the storage is intact: indexes match the stored rows, and rows match their checksums",
    );
    report.count_finding(None);
    for Damage { text, derived } in tx.db.damage()? {
        report.count_defect(Some((text, derived.map(Defect::Derived))));
    }
    Ok(report)
}

/// The counters match the actual counts.
fn counters(
    tx: &mut ReadTx<'_>,
    recount: &BTreeMap<(Arc<Lane>, JobState), u64>,
) -> Result<VerifyReport, StoreError> {
    let mut report = VerifyReport::new("counters", "counters by lane and state equal a recount of all jobs");
    let counts = tx.db.counts()?;
    let counted: BTreeSet<&Arc<Lane>> = recount.keys().map(|(lane, _)| lane).collect_ordered();
    let lanes: BTreeSet<&Arc<Lane>> = counts.lanes.keys().chain(counted).collect_ordered();
    for lane in lanes {
        for state in JobState::ALL {
            let found = recount.get(&(lane.clone(), state)).copied().unwrap_or(0);
            let kept = counts.lanes.get(lane).map_or(0, |counted| counted[state as usize]);
            report.count_defect((kept != found).then(|| {
                let version = lane.version.as_ref().map_or(String::new(), |version| format!(" {version}"));
                let text = format!(
                    "{} {} {}{version} {state}: counter {kept}, jobs {found}",
                    lane.tenant, lane.queue, lane.job_type
                );
                let by = found.cast_signed() - kept.cast_signed();
                (text, Some(Defect::Count { lane: lane.clone(), state, by }))
            }));
        }
    }
    Ok(report)
}

/// Checks every invariant, and plans what can be done about findings.
pub(crate) fn plan_repairs(
    tx: &mut ReadTx<'_>,
    tell: &mut dyn FnMut(VerifyProgress),
) -> Result<RepairPlan, StoreError> {
    let through = newest_record(tx)?;
    let reports = verify(tx, tell)?;
    let id = format!("{:016x}", tx.env.entropy.next_u64());
    Ok(RepairPlan { repairs: repair::plan(&reports), reports, id, through })
}
