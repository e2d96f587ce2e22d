//! Consequences of a change that did not fit into its commit. What follows from the end of a job, from a new priority, from
//! the loss of a worker or from an aggressive pause may concern any number of jobs; one commit does a bounded part of it and
//! keeps a cursor for the rest, from which maintenance goes on. Only the data is here; `command/cascade.rs` does the work.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobId, JobRecord, Need, Seq, WorkerId};
use crate::limits;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::documents::config::{PauseRecord, Scope, encode, parse};
use crate::store::engine::{Document, DocumentKind, Edge, EngineResult, Read};
use crate::store::query::stats;

/// A cascade and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cascade {
    /// When it began.
    pub(crate) since: Timestamp,
    /// Depth of its job in the dependency graph: shallower ones are done first, so that a job is told of all its
    /// dependencies that ended before the jobs that wait for it are told of its own end.
    pub(crate) depth: u32,
    /// What is to be done.
    pub(crate) task: Task,
}

/// What is to be done to each of the jobs that a change concerns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
pub(crate) enum Task {
    /// Pass the priority of a job on to the jobs that wait for it. It is read when it is passed on, so a later change
    /// needs no cursor of its own.
    Priority {
        /// The job.
        job: Seq,
        /// The last edge that was dealt with.
        after: Option<(Seq, Need)>,
    },
    /// Tell the jobs that wait for a job that it has ended.
    Dependents {
        /// The job.
        job: Seq,
        /// The last edge that was dealt with.
        after: Option<(Seq, Need)>,
        /// The last job there was when it ended: jobs submitted later knew of it.
        last: Seq,
    },
    /// Cancel the children of a job.
    Children {
        /// The parent.
        parent: Seq,
        /// Its id.
        id: JobId,
        /// Only those of this group.
        group: Option<u64>,
        /// Why, as their error says it.
        reason: String,
        /// The last child that was dealt with.
        after: Option<Seq>,
    },
    /// End the leases of workers that are gone.
    Leases {
        /// The workers.
        workers: BTreeSet<WorkerId>,
        /// Only leases given out before this: a worker that came back holds new ones.
        before: Timestamp,
        /// How they end.
        end: LeaseEnd,
        /// The trace of the request that asked for it, if it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace_id: Option<String>,
        /// The last running job that was looked at.
        after: Option<Seq>,
    },
    /// Suspend the running jobs of a queue that was paused aggressively. Who, why and until when is read from the pause;
    /// once it is lifted, the jobs that still run go on.
    Suspend {
        /// What was paused.
        scope: Scope,
        /// Since when: a later pause of the same queue is another one.
        since: Timestamp,
        /// The trace of the request.
        trace_id: Option<String>,
        /// The last running job that was looked at.
        after: Option<Seq>,
    },
}

/// How the leases of workers that are gone end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LeaseEnd {
    /// The workers left by themselves: the jobs go back, and no failure is counted.
    Release,
    /// The workers fell silent: a crash.
    Crash,
    /// The workers were silent while the store was not served: lost, but not a crash.
    Gap,
}

impl Cascade {
    /// The key it is kept under, by which cascades are ordered. The same for the same work, so that beginning it again
    /// replaces the old cursor.
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

    /// From what is stored.
    pub(crate) fn parse(document: &Document) -> EngineResult<Cascade> {
        parse(&document.body)
    }

    /// Whether the end of its job has yet to be passed on along this edge.
    pub(crate) fn covers(&self, dependent: Seq, need: Need) -> bool {
        let Task::Dependents { after, last, .. } = &self.task else { return false };
        dependent <= *last && after.is_none_or(|after| after < (dependent, need))
    }
}

/// Whether the end of this job has yet to be passed on along this edge, the job being its dependency.
pub(crate) fn covers(db: &mut (impl Read + ?Sized), ended: &JobRecord, edge: &Edge) -> EngineResult<bool> {
    Ok(of_dependents(db, ended)?.is_some_and(|cascade| cascade.covers(edge.dependent, edge.need)))
}

/// The cascade that passes on the end of this job, if it is not over.
pub(crate) fn of_dependents(
    db: &mut (impl Read + ?Sized),
    ended: &JobRecord,
) -> EngineResult<Option<Cascade>> {
    let kept = db.document(DocumentKind::Cascade, &dependents_key(ended.depth, ended.seq))?;
    kept.map(|document| Cascade::parse(&document)).transpose()
}

/// Whether this running job has yet to be suspended by an aggressive pause of its queue.
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

/// Where the cascade that suspends the running jobs of a paused queue is kept. Running jobs have no level of their own.
fn suspend_key(scope: &Scope) -> String {
    format!("{:05}.p.{}", 0, String::from_utf8_lossy(&encode(scope)))
}

/// Where the cascade that passes on a job's priority is kept.
fn priority_key(depth: u32, Seq(job): Seq) -> String {
    format!("{depth:05}.a.{job:020}")
}

/// Where the cascade that tells a job's dependents of its end is kept.
fn dependents_key(depth: u32, Seq(job): Seq) -> String {
    format!("{depth:05}.b.{job:020}")
}

/// How the keys of all cascades begin that cancel a job's children.
fn children_key(depth: u32, Seq(parent): Seq) -> String {
    format!("{depth:05}.c.{parent:020}")
}

/// Cascades as they are stored; of several with one key the last.
pub(crate) fn documents(cascades: &[Cascade]) -> Vec<Document> {
    let by_key: BTreeMap<String, &Cascade> =
        cascades.iter().map(|cascade| (cascade.key(), cascade)).collect();
    by_key.into_iter().map(|(key, cascade)| Document { key, body: encode(cascade) }).collect()
}

/// Comes after the key of every cascade.
pub(crate) const KEYS_END: &str = "~";

impl Store {
    /// Changes whose consequences are not applied to all jobs yet, as [`Store::stats`] counts them.
    pub async fn cascades(&self, caller: &Caller) -> Result<u64, StoreError> {
        let caller = caller.clone();
        self.read("cascades", move |view| stats::cascades(view, &caller)).await
    }
}

/// How much of all cascades one commit may do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    jobs: usize,
    rows: usize,
}

impl Budget {
    /// A whole budget: so many jobs.
    pub(crate) fn new(jobs: usize) -> Budget {
        Budget { jobs, rows: jobs.saturating_mul(limits::CASCADE_ROWS_PER_JOB) }
    }

    /// How many jobs may still be changed.
    pub(crate) fn left(self) -> usize {
        if self.rows == 0 { 0 } else { self.jobs }
    }

    /// How many rows may still be looked at; one at least.
    pub(crate) fn reach(self) -> usize {
        self.rows.max(1)
    }

    /// Takes so many rows that were only looked at.
    pub(crate) fn look_at(&mut self, rows: usize) {
        self.rows = self.rows.saturating_sub(rows);
    }

    /// Takes a job that is changed. Lookups that cannot be made for many jobs at once count as further jobs.
    pub(crate) fn change(&mut self, job: &JobRecord) {
        let lookups = usize::from(job.has.unique_key)
            + usize::from(job.has.callback)
            + usize::from(job.concurrency.is_some());
        self.jobs = self.jobs.saturating_sub(1 + lookups * limits::CASCADE_JOBS_PER_LOOKUP);
        self.look_at(1);
    }
}
