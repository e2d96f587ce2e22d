//! When which final jobs are to be looked at again, so that pruning does not walk over all that are kept. Jobs of queues and
//! types with different retention lie between each other in the order of submission; this process remembers, for stretches
//! of that order, when the first job in them is to be removed, and which jobs have ended in there since. Nothing of it is
//! stored: a process that starts walks once. What other processes end is found within [`limits::PRUNE_LATE_MAX`] of its time.

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
use crate::store::command::maintenance::{self, PruneReport};
use crate::store::command::retention;
use crate::store::documents::config::Config;
use crate::store::engine::ClaimOrder;
use crate::store::environment::StoreOptions;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

/// A part of the jobs in one state, by the order of submission: after one job, up to and including another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SeqRange {
    after: Option<Seq>,
    through: Option<Seq>,
}

impl SeqRange {
    /// After which job to look.
    pub(crate) fn after(&self) -> Option<ClaimOrder> {
        self.after.map(|seq| ClaimOrder { rank: 0, eligible_at: Timestamp::MIN, seq })
    }

    /// Whether a job that comes after it is in it.
    pub(crate) fn holds(&self, seq: Seq) -> bool {
        self.through.is_none_or(|last| seq <= last)
    }

    /// Whether it goes on to the newest job.
    pub(crate) fn is_open(&self) -> bool {
        self.through.is_none()
    }
}

/// Jobs that lie together: after those of the stretch before, up to and including `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PruneSpan {
    last: Seq,
    jobs: usize,
    next_at: Timestamp,
}

/// When to look at which final jobs of one state.
#[derive(Debug, Default)]
struct Plan {
    /// A digest of the retention settings that it was made under.
    rules: u64,
    /// In the order of submission.
    stretches: Vec<PruneSpan>,
    /// Jobs that ended in them since they were last looked at.
    late: Vec<Seq>,
}

impl Plan {
    /// Forgets all if the settings are others than before.
    fn keep_under(&mut self, rules: u64) {
        if self.rules != rules {
            *self = Plan { rules, ..Plan::default() };
        }
    }

    /// A job ended that may lie in a stretch.
    fn ended(&mut self, seq: Seq) {
        if self.late.len() < limits::PRUNE_LATE_ENDS_MAX {
            self.late.push(seq);
        } else {
            // Too many to remember: everything is looked at once more.
            *self = Plan { rules: self.rules, ..Plan::default() };
        }
    }

    /// The parts in which jobs may be old enough by now; the newest jobs are always among them.
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

    /// Replaces what is known of a part by what was found in it.
    fn update(&mut self, part: SeqRange, found: Vec<PruneSpan>) {
        let is_before = |seq: Seq| part.after.is_some_and(|after| seq <= after);
        let start = self.stretches.partition_point(|stretch| is_before(stretch.last));
        let end = self.stretches.partition_point(|stretch| part.holds(stretch.last));
        self.stretches.splice(start..end.max(start), found);
        self.join();
    }

    /// Joins neighbours that one look is enough for, so that there are few however many were made.
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
    /// Up to which job the stretches of each plan reach; all jobs while they are being looked at. Zero is no job's place.
    reaches: [AtomicI64; JobState::FINAL.len()],
    /// Whether it was said that the store's retention is not this process's.
    is_told: AtomicBool,
}

impl Pruning {
    fn place(state: JobState) -> Option<usize> {
        JobState::FINAL.iter().position(|found| *found == state)
    }

    /// Whether a job that ends in this state lies among those that are not looked at every time.
    pub(crate) fn reaches(&self, state: JobState, seq: Seq) -> bool {
        Pruning::place(state).is_some_and(|place| seq.0 <= self.reaches[place].load(Ordering::Acquire))
    }

    /// Takes in which such jobs a commit ended.
    pub(crate) fn ended(&self, jobs: &[(JobState, Seq)]) {
        for (state, seq) in jobs {
            self.plan(*state, |plan| plan.ended(*seq));
        }
    }

    fn plan<T>(&self, state: JobState, work: impl FnOnce(&mut Plan) -> T) -> T {
        let place = Pruning::place(state).unwrap_or(0);
        work(&mut self.plans[place].lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is to be looked at now.
    fn begin(&self, state: JobState, rules: u64, now: Timestamp) -> Vec<SeqRange> {
        if let Some(place) = Pruning::place(state) {
            self.reaches[place].store(i64::MAX, Ordering::Release);
        }
        self.plan(state, |plan| {
            plan.keep_under(rules);
            plan.due(now)
        })
    }

    /// All of it was looked at.
    fn end(&self, state: JobState) {
        let reach = self.plan(state, |plan| plan.stretches.last().map_or(0, |stretch| stretch.last.0));
        if let Some(place) = Pruning::place(state) {
            self.reaches[place].store(reach, Ordering::Release);
        }
    }
}

/// The settings that decide how long jobs in a state are kept, as a digest, and the shortest of them.
fn rules(config: &Config, state: JobState, default: Duration) -> (u64, Duration) {
    let mut hasher = DefaultHasher::new();
    default.hash(&mut hasher);
    for (key, settings) in &config.queues {
        settings.retention.of(state).map(|time| (key, time)).hash(&mut hasher);
    }
    for (key, settings) in &config.types {
        settings.retention.of(state).map(|time| (key, time)).hash(&mut hasher);
    }
    (hasher.finish(), config.retention_min(state).map_or(default, |time| time.min(default)))
}

/// What pruning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Round {
    /// Jobs removed.
    pub(crate) removed: usize,
    /// Jobs looked at and left.
    pub(crate) left: usize,
}

impl Store {
    /// Makes the retention that this process was started with the store's, if it has none. The store's counts: a process
    /// that was told another one says so once.
    pub(crate) async fn seed_retention(&self) -> Result<(), StoreError> {
        let own = self.environment().options.retention();
        let mut stored =
            self.read("prune", |view: &mut ReadTx<'_>| Ok::<_, StoreError>(view.config()?.retention)).await?;
        if stored.or(own) != stored {
            stored = self.write("prune", Kind::Ordinary, retention::seed).await?;
        }
        let is_asked_for = own != StoreOptions::default().retention();
        let is_told = &self.environment().pruning.is_told;
        if is_asked_for && stored != own && !is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                ?stored,
                here = ?own,
                "this store has another retention than this process was started with, and keeps it: see `windlass retention`"
            );
        }
        Ok(())
    }

    /// Removes the jobs that ended in `state` longer ago than they are kept, in bounded commits (M96).
    pub(crate) async fn prune_state(&self, state: JobState) -> Result<Round, StoreError> {
        let default = self.environment().options.retention_of(state);
        let look = move |view: &mut ReadTx<'_>| {
            let config = view.config()?;
            let default = config.store_retention(state, default);
            Ok::<_, StoreError>((rules(&config, state, default), view.now))
        };
        let ((rules, shortest), now) = self.read("prune", look).await?;
        let pruning = &self.environment().pruning;
        let parts = pruning.begin(state, rules, now);
        let look_again = now.plus(shortest.max(limits::PRUNE_LATE_MAX));
        let mut round = Round::default();
        for part in parts {
            match self.prune_part(state, part, look_again, &mut round).await? {
                Some(found) => pruning.plan(state, |plan| plan.update(part, found)),
                // Nothing was learnt: the next round begins from nothing.
                None => pruning.plan(state, |plan| *plan = Plan::default()),
            }
        }
        pruning.end(state);
        Ok(round)
    }

    /// Walks over one part; none if the time is not to be acted on yet.
    async fn prune_part(
        &self,
        state: JobState,
        part: SeqRange,
        look_again: Timestamp,
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
                // Jobs that end later may come to lie in here as well.
                found.push(PruneSpan { last, jobs: left, next_at: next_at.min(look_again) });
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
