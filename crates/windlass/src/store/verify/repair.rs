//! What follows from a finding: how it is repaired if the right value follows from other stored data, and what a person
//! can do if it does not. Nothing is decided by likelihood. `command/maintenance/repair.rs` does the work.

use std::sync::Arc;

use super::VerifyReport;
use crate::job::{JobState, Lane, Seq, Tenant};
use crate::store::engine::{DerivedData, Key, KeyChange};

/// Stored data that does not follow from other stored data, although it should. In the order of repairs: what is found by
/// indexes needs them whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Defect {
    /// What an engine derives from its rows.
    Derived(DerivedData),
    /// The number of jobs of a lane in a state differs by this.
    Count { lane: Arc<Lane>, state: JobState, by: i64 },
    /// The number of open jobs with a concurrency key differs.
    KeyCount(KeyChange),
    /// The number of concurrency keys of a tenant differs.
    KeyTotal(Tenant),
    /// A job's marks do not say that others depend on it, that it has children, or that it has a unique key.
    Marks(Seq),
    /// A job does not hold the unique key of its submission, and no other job does.
    UniqueKey { seq: Seq, key: Key },
    /// Edges, open dependencies or ends that were not applied to a dependent.
    Dependencies(Seq),
    /// A group's number of open or completed children, or a parent that waits for a decided group.
    Group { parent: Seq, number: u64 },
    /// A job is blocked, and no job holds its key.
    Blocked(Seq),
    /// A job inherits another priority than that of the jobs it waits for.
    Priority(Seq),
    /// The next run of a schedule, by the key of its document.
    Schedule(String),
}

impl Defect {
    fn rank(&self) -> u8 {
        match self {
            Defect::Derived(DerivedData::Index(_)) => 0,
            Defect::Derived(DerivedData::Job(_)) => 1,
            Defect::Count { .. } => 2,
            Defect::KeyCount(_) => 3,
            Defect::KeyTotal(_) | Defect::Derived(DerivedData::KeyTotal(_)) => 4,
            Defect::Marks(_) => 5,
            Defect::UniqueKey { .. } => 6,
            Defect::Dependencies(_) => 7,
            Defect::Group { .. } => 8,
            Defect::Blocked(_) => 9,
            Defect::Priority(_) => 10,
            Defect::Schedule(_) => 11,
        }
    }

    /// What the repair will do, and why it follows.
    fn action(&self) -> String {
        match self {
            Defect::Derived(DerivedData::Index(name)) => {
                format!("build the index {name} again from the rows of its table")
            }
            Defect::Derived(DerivedData::Job(Seq(seq))) => format!(
                "write columns, index entries and tags of the job with number {seq} again, as its record and its \
                 submission say"
            ),
            Defect::Count { lane, state, by } => format!(
                "change the counter of {} {} {} {state} by {by:+}: counters are sums over the jobs, and all jobs were \
                 counted",
                lane.tenant, lane.queue, lane.job_type
            ),
            Defect::KeyCount(KeyChange { tenant, key, by }) => format!(
                "change the counter of open jobs of tenant {tenant} with the key with digest {} by {by:+}: all jobs were \
                 counted",
                key.0
            ),
            Defect::KeyTotal(tenant) | Defect::Derived(DerivedData::KeyTotal(tenant)) => {
                format!("count the concurrency keys of tenant {tenant} again")
            }
            Defect::Marks(Seq(seq)) => format!(
                "mark on the job with number {seq} what its submission, its dependents and its children say"
            ),
            Defect::UniqueKey { seq: Seq(seq), .. } => format!(
                "give the job with number {seq} its unique key: its submission names it, the job has not ended, and no \
                 other job claims the key"
            ),
            Defect::Dependencies(Seq(seq)) => format!(
                "take the dependencies of the job with number {seq} from its submission, count those that are open, and \
                 tell the job of those that have ended"
            ),
            Defect::Group { parent: Seq(seq), number } => format!(
                "count the children of group {number} of the job with number {seq} again, and wake the job if that \
                 decides the group it waits for"
            ),
            Defect::Blocked(Seq(seq)) => {
                format!(
                    "unblock the job with number {seq}: no job holds its key; the next claim decides again"
                )
            }
            Defect::Priority(Seq(seq)) => format!(
                "propagate the priority of the most urgent job that the job with number {seq} waits for once more"
            ),
            Defect::Schedule(key) => format!("set the next run of schedule {key} to what its timing says"),
        }
    }
}

/// What can be done about a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// The right value follows from other stored data: what the repair does, and from what it follows.
    Derived(String),
    /// It does not: what a person can do.
    Person(&'static str),
}

/// A finding of a verification, or several with one cause, and what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repair {
    /// The code of the invariant that is broken.
    pub code: &'static str,
    /// What was found.
    pub findings: Vec<String>,
    /// What can be done about it.
    pub remedy: Remedy,
    pub(crate) defect: Option<Defect>,
}

/// A verification with what can be done about its findings.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RepairPlan {
    /// The results of the verification.
    pub reports: Vec<VerifyReport>,
    /// What can be done, in the order in which it is to be done.
    pub repairs: Vec<Repair>,
    /// Identifies this plan in the audit records of its repairs.
    pub(crate) id: String,
    /// The last audit record of the snapshot that was verified.
    pub(crate) through: u64,
}

/// The result of a repair.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepairResult {
    /// It is done, and recorded in the audit trail.
    Done,
    /// There is nothing to do any more.
    Gone,
    /// It does not follow after all; nothing was changed.
    Refused(String),
}

/// Orders what can be done about all findings.
pub(super) fn plan(reports: &[VerifyReport]) -> Vec<Repair> {
    let mut repairs: Vec<Repair> = Vec::new();
    let found =
        reports.iter().flat_map(|report| report.found.iter().map(|found| (report.code, found.clone())));
    for (code, (finding, defect)) in found {
        let known = repairs.iter_mut().find(|known| defect.is_some() && known.defect == defect);
        if let Some(known) = known {
            known.findings.push(finding);
            continue;
        }
        let remedy = match &defect {
            Some(defect) => Remedy::Derived(defect.action()),
            None => Remedy::Person(advice(code)),
        };
        repairs.push(Repair { code, findings: vec![finding], remedy, defect });
    }
    refuse_contested_keys(&mut repairs);
    repairs.sort_by_key(|repair| repair.defect.as_ref().map_or(u8::MAX, Defect::rank));
    repairs
}

/// Which of two jobs has a unique key that both name does not follow from anything.
fn refuse_contested_keys(repairs: &mut [Repair]) {
    let keys: Vec<Key> = repairs
        .iter()
        .filter_map(|repair| match &repair.defect {
            Some(Defect::UniqueKey { key, .. }) => Some(key.clone()),
            _ => None,
        })
        .collect();
    for repair in repairs {
        if let Some(Defect::UniqueKey { key, .. }) = &repair.defect
            && keys.iter().filter(|other| *other == key).count() > 1
        {
            (repair.remedy, repair.defect) = (Remedy::Person(advice(repair.code)), None);
        }
    }
}

/// What a person can do about a finding from which nothing follows.
fn advice(code: &str) -> &'static str {
    match code {
        "payloads" => {
            "what was submitted is stored only here: restore a backup from before the damage, or delete the job and submit \
             it again"
        }
        "final_states" | "leases" | "suspensions" | "dependencies_first" | "waits" => {
            "two facts about the job contradict each other, and either may be the wrong one: read its audit records \
             (`windlass audit --job ID`), then cancel it and redrive it, or restore a backup"
        }
        "single_completion" | "attempts" | "times" | "not_early" => {
            "history is not made up: compare with a backup and with the job's audit records; cancelling and redriving the \
             job begins a new history"
        }
        "backoffs" => "it ends with the next attempt; `windlass jobs show ID` says when that is",
        "checkpoints" => {
            "only the worker knew what is missing: let the job continue only if its steps may run twice, else cancel it and \
             redrive it, which begins with the first step"
        }
        "results" => {
            "only the worker knew the result: restore a backup in which it is, or redrive the job, which computes it again"
        }
        "generations" => {
            "the store is older than its jobs, so that old workers may pass for newer ones: restore a backup, which begins a \
             new generation"
        }
        "lifetimes" => "this is what maintenance does: run `windlass serve` or a worker on this store",
        "keys" => {
            "one job may have the key, until it ends: cancel the others, or delete the one that has ended, then run this again"
        }
        "dependencies" => {
            "what the job waits for is gone or cannot be: cancel the job, or restore a backup in which both are there"
        }
        "children" => {
            "a child is gone, and its result with it: cancel the parent and redrive it, or restore a backup"
        }
        "tenants" => "one of the two jobs has changed its tenant: restore a backup, or delete both",
        "cascades" => {
            "either the end of the job or the note of it is wrong: read the job's audit records, then cancel the job, or \
             restore a backup"
        }
        "transitions" | "ends" | "recorded_ends" | "audit_chain" => {
            "the audit trail is evidence and is never changed: keep a copy of the store as it is, and compare it with a \
             backup and with heads that were stored outside"
        }
        "storage" => {
            "stored rows are damaged: copy the store before anything else, check disk and memory of the machine, and \
             restore a backup; with PostgreSQL, `REINDEX` and `amcheck` come first"
        }
        _ => {
            "restore a backup, or move the store with `windlass move`, which derives again what follows from the jobs"
        }
    }
}
