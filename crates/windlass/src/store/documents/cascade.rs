//! Consequences of a change that did not fit into its commit. The end of a job, a new priority, the loss of a worker or
//! an aggressive pause may affect any number of jobs. One commit applies a bounded part and stores a cursor for the
//! rest, from which maintenance continues. Only the data is here; `command/cascade.rs` does the work.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::{JobId, JobRecord, Need, Seq, WorkerId};
use crate::limits;
use crate::ordered::CollectOrdered;
use crate::store::documents::config::{PauseRecord, PauseScope, encode, parse};
use crate::store::engine::{Document, DocumentKind, Edge, EngineResult, Read};

/// A cascade and its progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cascade {
    /// When it began.
    pub(crate) since: Timestamp,
    /// Depth of its job in the dependency graph. Shallower cascades run first, so that a job is notified of all its
    /// dependencies that ended before its own dependents are notified of its end.
    pub(crate) depth: u32,
    /// The work to do.
    pub(crate) task: Task,
}

/// What to do with each affected job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub(crate) enum Task {
    /// Propagate the priority of a job to its dependents. The priority is read when it is propagated, so a later change
    /// needs no cursor of its own.
    Priority {
        /// The job.
        job: Seq,
        /// The last edge that was processed.
        after: Option<(Seq, Need)>,
    },
    /// Notify the dependents of a job that it has ended.
    Dependents {
        /// The job.
        job: Seq,
        /// The last edge that was processed.
        after: Option<(Seq, Need)>,
        /// The newest job when it ended: jobs submitted later saw the end.
        last: Seq,
    },
    /// Cancel the children of a job.
    Children {
        /// The parent.
        parent: Seq,
        /// Its id.
        id: JobId,
        /// Only children of this group.
        group: Option<u64>,
        /// The reason, used in their error.
        reason: String,
        /// The last child that was processed.
        after: Option<Seq>,
    },
    /// End the leases of lost workers.
    Leases {
        /// The workers.
        workers: BTreeSet<WorkerId>,
        /// Only leases issued before this: a worker that came back holds new ones.
        before: Timestamp,
        /// How they end.
        end: LeaseEnd,
        /// The trace of the request that caused it, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_id: Option<String>,
        /// The last running job that was scanned.
        after: Option<Seq>,
    },
    /// Suspend the running jobs of a queue that was paused aggressively. Actor, reason and end are read from the pause;
    /// once it is resumed, the remaining running jobs continue.
    Suspend {
        /// The paused scope.
        scope: PauseScope,
        /// When the pause began: a later pause of the same queue is another one.
        since: Timestamp,
        /// The trace of the request.
        trace_id: Option<String>,
        /// The last running job that was scanned.
        after: Option<Seq>,
    },
}

/// How the leases of lost workers end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeaseEnd {
    /// The workers deregistered: the jobs are released, and no failure is counted.
    Release,
    /// The workers fell silent: counted as a crash.
    Crash,
    /// The workers were silent while the store was not served: not counted as a crash.
    Gap,
}

impl Cascade {
    /// The document key, by which cascades are ordered. Equal for the same work, so that starting it again replaces the
    /// old cursor.
    pub(crate) fn key(&self) -> String {
        match &self.task {
            Task::Priority { job, .. } => priority_key(self.depth, *job),
            Task::Dependents { job, .. } => dependents_key(self.depth, *job),
            Task::Children { parent, group, .. } => {
                let group = group.map_or_else(|| "all".to_owned(), |group| format!("{group:020}"));
                format!("{}.{group}", children_key(self.depth, *parent))
            }
            Task::Leases { workers, before, .. } => {
                let first = workers.first().map(ToString::to_string).unwrap_or_default();
                format!("{:05}.w.{first}.{}", self.depth, before.as_millis())
            }
            Task::Suspend { scope, .. } => suspend_key(scope),
        }
    }

    /// Parses a stored cascade.
    pub(crate) fn parse(document: &Document) -> EngineResult<Cascade> {
        parse(&document.body)
    }

    /// Whether the end of its job has yet to be propagated along this edge.
    pub(crate) fn covers(&self, dependent: Seq, need: Need) -> bool {
        let Task::Dependents { after, last, .. } = &self.task else { return false };
        dependent <= *last && after.is_none_or(|after| after < (dependent, need))
    }
}

/// Whether the end of this job, the dependency, has yet to be propagated along this edge.
pub(crate) fn covers(db: &mut (impl Read + ?Sized), ended: &JobRecord, edge: &Edge) -> EngineResult<bool> {
    Ok(of_dependents(db, ended)?.is_some_and(|cascade| cascade.covers(edge.dependent, edge.need)))
}

/// The unfinished cascade that propagates the end of this job, if any.
pub(crate) fn of_dependents(
    db: &mut (impl Read + ?Sized),
    ended: &JobRecord,
) -> EngineResult<Option<Cascade>> {
    let kept = db.document(DocumentKind::Cascade, &dependents_key(ended.depth, ended.seq))?;
    kept.map(|document| Cascade::parse(&document)).transpose()
}

/// Whether the priority of this job has yet to be propagated to some of its dependents.
pub(crate) fn propagates_priority(db: &mut (impl Read + ?Sized), job: &JobRecord) -> EngineResult<bool> {
    Ok(db.document(DocumentKind::Cascade, &priority_key(job.depth, job.seq))?.is_some())
}

/// Whether this child of a cancelled job has yet to be cancelled.
pub(crate) fn cancels(db: &mut (impl Read + ?Sized), parent: &JobRecord, child: Seq) -> EngineResult<bool> {
    let key = format!("{}.all", children_key(parent.depth, parent.seq));
    let kept = db.document(DocumentKind::Cascade, &key)?;
    let kept = kept.map(|document| Cascade::parse(&document)).transpose()?;
    Ok(kept.is_some_and(|cascade| match cascade.task {
        Task::Children { after, .. } => after.is_none_or(|after| after < child),
        _ => false,
    }))
}

/// Whether an aggressive pause of its queue has yet to suspend this running job.
pub(crate) fn suspends(
    db: &mut (impl Read + ?Sized),
    hold: &PauseRecord,
    job: &JobRecord,
) -> EngineResult<bool> {
    let kept = db.document(DocumentKind::Cascade, &suspend_key(&hold.scope))?;
    let kept = kept.map(|document| Cascade::parse(&document)).transpose()?;
    Ok(kept.is_some_and(|cascade| match cascade.task {
        Task::Suspend { since, after, .. } => {
            since == hold.since && after.is_none_or(|after| after < job.seq)
        }
        _ => false,
    }))
}

/// The document key of the cascade that suspends the running jobs of a paused queue. Running jobs have no level of
/// their own.
fn suspend_key(scope: &PauseScope) -> String {
    format!("{:05}.p.{}", 0, String::from_utf8_lossy(&encode(scope)))
}

/// The document key of the cascade that propagates a job's priority.
fn priority_key(depth: u32, Seq(job): Seq) -> String {
    format!("{depth:05}.a.{job:020}")
}

/// The document key of the cascade that notifies a job's dependents of its end.
fn dependents_key(depth: u32, Seq(job): Seq) -> String {
    format!("{depth:05}.b.{job:020}")
}

/// The key prefix of all cascades that cancel a job's children.
fn children_key(depth: u32, Seq(parent): Seq) -> String {
    format!("{depth:05}.c.{parent:020}")
}

/// Cascades as documents; of several with one key the last.
pub(crate) fn documents(cascades: &[Cascade]) -> Vec<Document> {
    let by_key: BTreeMap<String, &Cascade> =
        cascades.iter().map(|cascade| (cascade.key(), cascade)).collect_ordered();
    by_key.into_iter().map(|(key, cascade)| Document { key, body: encode(cascade) }).collect()
}

/// Sorts after the key of every cascade.
pub(crate) const KEYS_END: &str = "~";

/// How much work of all cascades one commit may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    jobs: usize,
    rows: usize,
}

impl Budget {
    /// A full budget for this many jobs.
    pub(crate) fn new(jobs: usize) -> Budget {
        Budget { jobs, rows: jobs.saturating_mul(limits::CASCADE_ROWS_PER_JOB) }
    }

    /// Lowers the budget to this many jobs.
    pub(crate) fn limit(&mut self, jobs: usize) {
        let Budget { jobs, rows } = Budget::new(jobs);
        (self.jobs, self.rows) = (self.jobs.min(jobs), self.rows.min(rows));
    }

    /// How many jobs may still be changed.
    pub(crate) fn left(self) -> usize {
        if self.rows == 0 { 0 } else { self.jobs }
    }

    /// How many rows may still be scanned; at least one.
    pub(crate) fn reach(self) -> usize {
        self.rows.max(1)
    }

    /// Charges rows that were only read.
    pub(crate) fn charge_rows(&mut self, rows: usize) {
        self.rows = self.rows.saturating_sub(rows);
    }

    /// Charges a changed job. Lookups that cannot be batched count as further jobs.
    pub(crate) fn change(&mut self, job: &JobRecord) {
        let lookups = usize::from(job.has.unique_key)
            + usize::from(job.has.callback)
            + usize::from(job.concurrency.is_some());
        self.jobs = self.jobs.saturating_sub(1 + lookups * limits::CASCADE_JOBS_PER_LOOKUP);
        self.charge_rows(1);
    }
}
