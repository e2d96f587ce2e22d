//! Schedules the scans of pruning, so that it does not scan all retained jobs. Jobs of queues and types with different
//! retention are mixed in the order of submission. For spans of that order, this process caches when the first job in
//! them is to be removed, and which jobs have ended in them since. Nothing of it is stored: a new process scans once.
//! Jobs ended by other processes are found within [`limits::PRUNE_LATE_MAX`].

#[cfg(test)]
mod tests;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobState, Seq};
use crate::limits;
use crate::store::Store;
use crate::store::command::maintenance::retention;
use crate::store::command::maintenance::{self, PruneReport};
use crate::store::documents::config::Config;
use crate::store::engine::ClaimOrder;
use crate::store::environment::StoreOptions;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

/// A range of the jobs in one state, by sequence number: after one job, up to and including another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeqRange {
    after: Option<Seq>,
    through: Option<Seq>,
}

impl SeqRange {
    /// The position to scan from.
    pub(crate) fn after(&self) -> Option<ClaimOrder> {
        self.after.map(|seq| ClaimOrder { rank: 0, eligible_at: Timestamp::MIN, seq })
    }

    /// Whether a job that comes after its start is in it.
    pub(crate) fn holds(&self, seq: Seq) -> bool {
        self.through.is_none_or(|last| seq <= last)
    }

    /// Whether it extends to the newest job.
    pub(crate) fn is_open(&self) -> bool {
        self.through.is_none()
    }
}

/// Consecutive jobs: after those of the previous span, up to and including `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PruneSpan {
    last: Seq,
    jobs: usize,
    next_at: Timestamp,
}

/// When to scan which final jobs of one state.
#[derive(Debug, Default)]
struct Plan {
    /// A digest of the retention settings that the plan is based on.
    rules: u64,
    /// In order of submission.
    stretches: Vec<PruneSpan>,
    /// Jobs that ended in the spans since their last scan.
    late: Vec<Seq>,
}

impl Plan {
    /// Clears the plan if the settings have changed.
    fn keep_under(&mut self, rules: u64) {
        if self.rules != rules {
            *self = Plan { rules, ..Plan::default() };
        }
    }

    /// Records the end of a job that may lie in a span.
    fn ended(&mut self, seq: Seq) {
        if self.late.len() < limits::PRUNE_LATE_ENDS_MAX {
            self.late.push(seq);
        } else {
            // Too many to cache: everything is scanned again.
            *self = Plan { rules: self.rules, ..Plan::default() };
        }
    }

    /// The ranges in which jobs may be due for removal; the newest jobs are always included.
    fn due(&mut self, now: Timestamp) -> Vec<SeqRange> {
        let mut after = None;
        let mut parts = Vec::new();
        let mut late = std::mem::take(&mut self.late);
        late.sort_unstable();
        let mut late = late.into_iter().peekable();
        for stretch in &self.stretches {
            let mut is_touched = false;
            while late.next_if(|seq| *seq <= stretch.last).is_some() {
                is_touched = true;
            }
            if is_touched || stretch.next_at <= now {
                parts.push(SeqRange { after, through: Some(stretch.last) });
            }
            after = Some(stretch.last);
        }
        parts.push(SeqRange { after, through: None });
        parts
    }

    /// Replaces what is known of a range by what was found in it.
    fn update(&mut self, part: SeqRange, found: Vec<PruneSpan>) {
        let is_before = |seq: Seq| part.after.is_some_and(|after| seq <= after);
        let start = self.stretches.partition_point(|stretch| is_before(stretch.last));
        let end = self.stretches.partition_point(|stretch| part.holds(stretch.last));
        self.stretches.splice(start..end.max(start), found);
        self.join();
    }

    /// Merges neighbouring spans that fit into one scan, so that there are few.
    fn join(&mut self) {
        let mut joined: Vec<PruneSpan> = Vec::with_capacity(self.stretches.len());
        for next in self.stretches.drain(..) {
            match joined.last_mut() {
                Some(last) if last.jobs + next.jobs <= limits::BULK_JOBS_PER_COMMIT => {
                    *last = PruneSpan {
                        last: next.last,
                        jobs: last.jobs + next.jobs,
                        next_at: last.next_at.min(next.next_at),
                    };
                }
                _ => joined.push(next),
            }
        }
        self.stretches = joined;
    }
}

/// The plans of a process, one for each final state.
#[derive(Debug, Default)]
pub(crate) struct Pruning {
    plans: [Mutex<Plan>; JobState::FINAL.len()],
    /// The last job that the spans of each plan cover; all jobs while they are being scanned. No job has the sequence
    /// number 0.
    reaches: [AtomicI64; JobState::FINAL.len()],
    /// Whether it was logged that the store's retention differs from this process's.
    is_logged: AtomicBool,
}

impl Pruning {
    fn place(state: JobState) -> Option<usize> {
        JobState::FINAL.iter().position(|found| *found == state)
    }

    /// Whether a job that ends in this state lies in a range that is not scanned every time.
    pub(crate) fn reaches(&self, state: JobState, seq: Seq) -> bool {
        Pruning::place(state).is_some_and(|place| seq.0 <= self.reaches[place].load(Ordering::Acquire))
    }

    /// Records such jobs that a commit ended.
    pub(crate) fn ended(&self, jobs: &[(JobState, Seq)]) {
        for (state, seq) in jobs {
            self.plan(*state, |plan| plan.ended(*seq));
        }
    }

    fn plan<T>(&self, state: JobState, work: impl FnOnce(&mut Plan) -> T) -> T {
        let place = Pruning::place(state).unwrap_or(0);
        work(&mut self.plans[place].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The ranges to scan now.
    fn begin(&self, state: JobState, rules: u64, now: Timestamp) -> Vec<SeqRange> {
        if let Some(place) = Pruning::place(state) {
            self.reaches[place].store(i64::MAX, Ordering::Release);
        }
        self.plan(state, |plan| {
            plan.keep_under(rules);
            plan.due(now)
        })
    }

    /// Marks all ranges as scanned.
    fn end(&self, state: JobState) {
        let reach = self.plan(state, |plan| plan.stretches.last().map_or(0, |stretch| stretch.last.0));
        if let Some(place) = Pruning::place(state) {
            self.reaches[place].store(reach, Ordering::Release);
        }
    }
}

/// A digest of the retention settings of a state, and the shortest retention.
fn rules(config: &Config, state: JobState, default: Duration) -> (u64, Duration) {
    let mut hasher = DefaultHasher::new();
    default.hash(&mut hasher);
    for (key, settings) in &config.queues {
        settings.retention.get(state).map(|time| (key, time)).hash(&mut hasher);
    }
    for (key, settings) in &config.types {
        settings.retention.get(state).map(|time| (key, time)).hash(&mut hasher);
    }
    (hasher.finish(), config.retention_min(state).map_or(default, |time| time.min(default)))
}

/// The result of pruning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Round {
    /// Number of jobs removed.
    pub(crate) removed: usize,
    /// Number of jobs scanned and not removed.
    pub(crate) left: usize,
}

impl Store {
    /// Stores the retention that this process was started with, if the store has none. The store's retention is the
    /// effective one: a process started with another one logs that once.
    pub(crate) async fn seed_retention(&self) -> Result<(), StoreError> {
        let own = self.environment().options.retention();
        let mut stored =
            self.read("prune", |tx: &mut ReadTx<'_>| Ok::<_, StoreError>(tx.config()?.retention)).await?;
        if stored.or(own) != stored {
            stored = self.write("prune", Kind::Ordinary, retention::seed).await?;
        }
        let is_asked_for = own != StoreOptions::default().retention();
        let is_logged = &self.environment().pruning.is_logged;
        if is_asked_for && stored != own && !is_logged.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                ?stored,
                here = ?own,
                "the store's retention differs from the one this process was started with, and applies: see `windlass retention`"
            );
        }
        Ok(())
    }

    /// Removes jobs that ended in `state` and exceeded their retention, in bounded commits.
    pub(crate) async fn prune_state(&self, state: JobState) -> Result<Round, StoreError> {
        let default = self.environment().options.retention_of(state);
        let read_rules = move |tx: &mut ReadTx<'_>| {
            let config = tx.config()?;
            let default = config.store_retention(state, default);
            Ok::<_, StoreError>((rules(&config, state, default), tx.now))
        };
        let ((rules, shortest), now) = self.read("prune", read_rules).await?;
        let pruning = &self.environment().pruning;
        let parts = pruning.begin(state, rules, now);
        let keep_for_retry = now.plus(shortest.max(limits::PRUNE_LATE_MAX));
        let mut round = Round::default();
        for part in parts {
            match self.prune_part(state, part, keep_for_retry, &mut round).await? {
                Some(found) => pruning.plan(state, |plan| plan.update(part, found)),
                // The scan was incomplete: the next round starts from scratch.
                None => pruning.plan(state, |plan| *plan = Plan::default()),
            }
        }
        pruning.end(state);
        Ok(round)
    }

    /// Scans one range; `None` if the store time is not safe to act on yet.
    async fn prune_part(
        &self,
        state: JobState,
        part: SeqRange,
        keep_for_retry: Timestamp,
        round: &mut Round,
    ) -> Result<Option<Vec<PruneSpan>>, StoreError> {
        let mut found: Vec<PruneSpan> = Vec::new();
        let mut rest = part;
        loop {
            let work = move |tx: &mut WriteTx<'_>| maintenance::prune(tx, state, rest);
            let pruned = self.write("prune", Kind::Bulk(limits::BULK_JOBS_PER_COMMIT), work).await?;
            let PruneReport { jobs, next, left, last, next_at, is_deferred } = pruned;
            if is_deferred {
                return Ok(None);
            }
            round.removed += jobs;
            round.left += left;
            if let (Some(last), Some(next_at)) = (last, next_at) {
                // Jobs that end later may also fall into this range.
                found.push(PruneSpan { last, jobs: left, next_at: next_at.min(keep_for_retry) });
            }
            match next {
                Some(next) => rest = SeqRange { after: Some(next.seq), ..part },
                None => break,
            }
        }
        if let (Some(stretch), Some(through)) = (found.last_mut(), part.through) {
            stretch.last = through;
        }
        Ok(Some(found))
    }
}
