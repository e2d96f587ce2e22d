//! Maintenance over time: promote due jobs, end leases of silent workers, expire jobs, resume expired pauses, forget
//! old workers, prune. Each is a conditional change, so two processes doing it at once do it only once.

pub(crate) mod audit_chain;
pub(crate) mod clock;
pub(crate) mod repair;
pub(crate) mod retention;
pub(crate) mod roll_up;

use std::collections::BTreeSet;

use super::effects::needed::{has_looked_at_enough, needed_by};
use super::schedule::fire::next_run;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{JobState, Seq, WorkerId};
use crate::limits;
use crate::ordered::CollectOrdered;
use crate::store::documents::cascade::LeaseEnd;
use crate::store::documents::config::Worker;
use crate::store::documents::minute_stats::minute_of;
use crate::store::engine::{ClaimOrder, DocumentKind, DocumentRange};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::methods::pruning::SeqRange;
use crate::store::tx::write_tx::WriteTx;

/// The result of one maintenance round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TickReport {
    /// Jobs moved by timers.
    pub jobs: usize,
    /// Leases ended because their worker fell silent.
    pub leases: usize,
    /// Pauses that expired.
    pub pauses: usize,
    /// Jobs submitted by schedules.
    pub scheduled: usize,
    /// Whether schedules are due.
    pub(crate) has_due_schedules: bool,
    /// Whether there is more to do immediately.
    pub has_more: bool,
    /// When the next timer is due.
    pub next_at: Option<Timestamp>,
}

/// What the duties of one round may change together; each at least a minimum.
#[derive(Default)]
struct Share {
    used: usize,
    /// Whether a duty had more to do than it was allowed.
    is_full: bool,
}

impl Share {
    fn used(&mut self, jobs: usize) {
        self.used += jobs;
    }

    /// How many jobs the next duty may change.
    fn left(&self) -> usize {
        limits::TICK_JOBS_PER_COMMIT.saturating_sub(self.used).max(limits::TICK_SHARE_MIN)
    }

    /// Does a duty that changes up to so many jobs and returns how many it changed.
    fn run(&mut self, duty: impl FnOnce(usize) -> Result<usize, StoreError>) -> Result<usize, StoreError> {
        let left = self.left();
        let jobs = duty(left)?;
        self.used(jobs);
        self.is_full |= jobs >= left;
        Ok(jobs)
    }
}

/// Applies due timers: one bounded round.
pub(crate) fn tick(tx: &mut WriteTx<'_>) -> Result<TickReport, StoreError> {
    tx.apply_accepted_clock()?;
    tx.show_service()?;
    // Before those leases are ended as lost.
    let swept = tx.sweep_leases()?;
    let (leases, has_silent) = tx.reap_silent_workers()?;
    let mut share = Share::default();
    share.used(swept.released + leases);
    let jobs = share.run(|left| tx.promote(left))?;
    let pauses = tx.end_expired_pauses(limits::EXPIRED_PAUSES_PER_COMMIT)?;
    share.run(|left| tx.wake_throttled(left))?;
    tx.drop_old_rates()?;
    let has_cascades = tx.continue_cascades(share.left())?;
    let next_at = tx.next_at()?;
    let is_full = share.is_full || pauses >= limits::EXPIRED_PAUSES_PER_COMMIT;
    let has_more = is_full || has_silent || has_cascades || swept.has_more;
    let now = tx.now;
    let has_due_schedules = tx.config()?.schedules.values().any(|schedule| schedule.is_due(now));
    Ok(TickReport { jobs, leases, pauses, scheduled: 0, has_due_schedules, has_more, next_at })
}

impl WriteTx<'_> {
    /// Moves up to `max` due jobs; returns how many.
    pub(crate) fn promote(&mut self, max: usize) -> Result<usize, StoreError> {
        let due: Vec<Seq> = self.due(max)?;
        for seq in &due {
            self.apply_due_timers(*seq)?;
        }
        Ok(due.len())
    }

    /// Ends the leases of workers that fell silent, and removes those silent for long. Returns how many leases,
    /// and whether there are more such workers than one commit handles.
    fn reap_silent_workers(&mut self) -> Result<(usize, bool), StoreError> {
        let (now, grace, max) = (self.now, self.grace, limits::SILENT_WORKERS_PER_COMMIT);
        let config = self.config()?;
        let liveness = self.liveness()?;
        let beating = config.workers.values().filter(|worker| worker.heartbeats && !worker.is_lost);
        let seen = beating.map(|worker| (worker, liveness.seen_at(worker)));
        let silent = seen.filter(|(_, seen_at)| Worker::silent_when(*seen_at, &grace) <= now).take(max);
        let silent: Vec<Worker> =
            silent.map(|(worker, seen_at)| Worker { seen_at, ..worker.clone() }).collect();
        drop(config);
        for worker in &silent {
            self.note_lost(worker)?;
        }
        let mut ended = 0;
        // All of them together, so that the running jobs are scanned once.
        let (crashed, unserved): (Vec<&Worker>, Vec<&Worker>) =
            silent.iter().partition(|worker| grace.is_crash(worker.seen_at));
        for (workers, end) in [(crashed, LeaseEnd::Crash), (unserved, LeaseEnd::Gap)] {
            if !workers.is_empty() {
                let ids = workers.iter().map(|worker| worker.id).collect();
                ended += self.workers_gone(ids, now, end, None)?;
            }
        }
        self.remove_old_workers(max)?;
        Ok((ended, silent.len() == max))
    }

    /// Removes workers that have been silent for long and run nothing.
    fn remove_old_workers(&mut self, max: usize) -> Result<(), StoreError> {
        let (now, grace, config) = (self.now, self.grace, self.config()?);
        let liveness = self.liveness()?;
        let old = config.workers.values().filter(|worker| {
            let seen_at = liveness.seen_at(worker);
            let is_silent = worker.heartbeats && Worker::silent_when(seen_at, &grace) <= now;
            now.since(grace.silent_from(seen_at)) > limits::WORKER_REMEMBERED
                && (worker.is_lost || !is_silent)
        });
        let old: Vec<(WorkerId, bool)> = old.map(|worker| (worker.id, worker.is_lost)).take(max).collect();
        drop(config);
        // Lost workers have no leases; only workers without heartbeats may still run something.
        let quiet = old.iter().filter(|(_, is_lost)| !is_lost).map(|(worker, _)| *worker).collect();
        let busy = self.busy(quiet)?;
        for (worker, is_lost) in old {
            if is_lost || busy.as_ref().is_some_and(|busy| !busy.contains(&worker)) {
                self.remove_worker(worker)?;
            }
        }
        Ok(())
    }

    /// The workers among these that run something; `None` if they run too many jobs to scan.
    fn busy(&mut self, workers: Vec<WorkerId>) -> Result<Option<BTreeSet<WorkerId>>, StoreError> {
        if workers.is_empty() {
            return Ok(Some(BTreeSet::new()));
        }
        let filter = Filter { workers, states: vec![JobState::Running], ..Filter::default() };
        let limit = limits::BUSY_JOBS_SCAN_MAX;
        let page = self.db()?.scan(&Scan { filter, order: Order::Oldest, after: None, limit })?;
        let busy = || page.iter().filter_map(|job| job.lease).map(|lease| lease.worker).collect_ordered();
        Ok((page.len() < limit).then(busy))
    }

    fn drop_old_rates(&mut self) -> Result<(), StoreError> {
        let oldest = format!("{:012}", minute_of(self.now) - limits::RATE_MINUTES_UNROLLED_MAX);
        // Those that are not rolled up yet, and a bounded number: there is one per lane and minute, and this runs every
        // second.
        for old in self
            .db()?
            .documents_in(DocumentKind::Rate, DocumentRange::before(&oldest, limits::TICK_JOBS_PER_COMMIT))?
        {
            self.put_document(DocumentKind::Rate, &old.key, None, |_| {})?;
        }
        Ok(())
    }

    /// When the next timer of any kind is due.
    fn next_at(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let (config, grace) = (self.config()?, self.grace);
        let liveness = self.liveness()?;
        let workers = config.workers.values().filter(|worker| worker.heartbeats && !worker.is_lost);
        let silent = workers.map(|worker| Worker::silent_when(liveness.seen_at(worker), &grace)).min();
        let expiring = config.pauses.values().filter_map(|hold| hold.expires_at).min();
        let due = self.db()?.next_due()?;
        let throttled = self.first_timer()?;
        let scheduled = next_run(&config, self.now);
        Ok([silent, expiring, due, throttled, scheduled].into_iter().flatten().min())
    }
}

/// The result of one pruning round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PruneReport {
    /// Number of jobs removed.
    pub jobs: usize,
    /// Where to continue; `None` when this part of the state is done.
    pub next: Option<ClaimOrder>,
    /// Number of jobs scanned and not removed.
    pub left: usize,
    /// The last job scanned.
    pub last: Option<Seq>,
    /// When the first of the remaining jobs is to be removed.
    pub next_at: Option<Timestamp>,
    /// Whether nothing was scanned because the store time is not safe to act on yet.
    pub is_deferred: bool,
}

/// Removes jobs in `part` that ended in `state` and exceeded their retention: one bounded round.
pub(crate) fn prune(
    tx: &mut WriteTx<'_>,
    state: JobState,
    part: SeqRange,
) -> Result<PruneReport, StoreError> {
    if tx.now < tx.grace.lifetimes_from {
        return Ok(PruneReport { is_deferred: true, ..PruneReport::default() });
    }
    let config = tx.config()?;
    let default = config.store_retention(state, tx.env.options.retention_of(state));
    let shortest = config.retention_min(state).map_or(default, |time| time.min(default));
    let young = tx.now.minus(shortest);
    let filter = Filter { states: vec![state], ..Filter::default() };
    let limit = limits::BULK_JOBS_PER_COMMIT;
    let page = tx.db()?.scan(&Scan { filter, order: Order::Oldest, after: part.after(), limit })?;
    let next = (page.len() == limit).then(|| page.last().map(ClaimOrder::new)).flatten();
    let mut pruned = PruneReport { next, ..PruneReport::default() };
    for job in page {
        // Jobs are in order of submission and end after they are submitted: the remaining ones are younger.
        if !part.holds(job.seq) || (part.is_open() && job.created_at > young) {
            pruned.next = None;
            break;
        }
        let kept_for = config.retention(&job.lane, state).unwrap_or(default);
        let due_at = job.completed_at.unwrap_or(tx.now).plus(kept_for);
        let seq = tx.cache_job(job);
        pruned.last = Some(seq);
        let Some(job) = tx.job(seq)?.cloned() else { continue };
        if due_at <= tx.now && needed_by(tx, &job)?.is_none() {
            tx.remove(seq);
            pruned.jobs += 1;
        } else {
            pruned.left += 1;
            pruned.next_at = Some(pruned.next_at.map_or(due_at, |at| at.min(due_at)));
        }
        if has_looked_at_enough(tx) {
            pruned.next = Some(ClaimOrder { rank: 0, eligible_at: Timestamp::MIN, seq });
            break;
        }
    }
    // Flush now, so that no other command in this commit finds the jobs.
    tx.flush()?;
    Ok(pruned)
}
