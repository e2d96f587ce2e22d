//! What the store does by itself as time passes: promote, reap, expire, lift, forget, prune. Each is a conditional
//! change like any other, so two processes doing it at once do it once.

use super::schedule::fire::next_run;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{Seq, State};
use crate::limits;
use crate::store::config::Worker;
use crate::store::engine::{DocumentKind, Place, Side};
use crate::store::filter::{Filter, Order, Scan};
use crate::store::rates::minute_of;
use crate::store::unit::Unit;

/// What one round of maintenance did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticked {
    /// Jobs that time moved.
    pub jobs: usize,
    /// Leases that ended with a silent worker.
    pub leases: usize,
    /// Pauses that lifted themselves.
    pub holds: usize,
    /// Jobs that schedules submitted.
    pub scheduled: usize,
    /// Whether schedules are due.
    pub(crate) has_due_schedules: bool,
    /// Whether there is more to do at once.
    pub has_more: bool,
    /// When time changes something next.
    pub next_at: Option<Timestamp>,
}

/// Lets time act: one bounded round.
pub(crate) fn tick(unit: &mut Unit<'_>) -> Result<Ticked, StoreError> {
    let leases = unit.reap_silent_workers()?;
    let jobs = unit.promote(limits::TICK_JOBS_PER_COMMIT)?;
    let holds = unit.lift_expired_holds()?;
    let throttled = unit.wake_throttled(limits::TICK_JOBS_PER_COMMIT)?;
    unit.drop_old_rates()?;
    let next_at = unit.next_at()?;
    let has_more = jobs.max(throttled) >= limits::TICK_JOBS_PER_COMMIT;
    let now = unit.now;
    let has_due_schedules = unit.config()?.schedules.values().any(|schedule| schedule.is_due(now));
    Ok(Ticked { jobs, leases, holds, scheduled: 0, has_due_schedules, has_more, next_at })
}

impl Unit<'_> {
    /// Moves up to `max` jobs whose time has come; says how many.
    pub(crate) fn promote(&mut self, max: usize) -> Result<usize, StoreError> {
        let due: Vec<Seq> = self.due(max)?;
        for seq in &due {
            self.catch_up(*seq)?;
        }
        Ok(due.len())
    }

    /// Ends the leases of workers that fell silent, and forgets those silent for long (M31).
    fn reap_silent_workers(&mut self) -> Result<usize, StoreError> {
        let now = self.now;
        let silent: Vec<Worker> = self
            .config()?
            .workers
            .values()
            .filter(|worker| worker.is_silent(now) || now.since(worker.seen_at) > limits::WORKER_REMEMBERED)
            .cloned()
            .collect();
        let mut ended = 0;
        for worker in silent {
            if worker.is_silent(now) && !worker.is_lost {
                ended += self.worker_lost(&worker)?;
            }
            if now.since(worker.seen_at) > limits::WORKER_REMEMBERED && !self.runs_anything(&worker)? {
                self.forget_worker(worker.id)?;
            }
        }
        Ok(ended)
    }

    fn runs_anything(&mut self, worker: &Worker) -> Result<bool, StoreError> {
        let filter = Filter { worker: Some(worker.id), states: vec![State::Running], ..Filter::default() };
        let scan = Scan { filter, order: Order::Oldest, after: None, limit: 1 };
        Ok(!self.db()?.scan(&scan)?.is_empty())
    }

    fn drop_old_rates(&mut self) -> Result<(), StoreError> {
        let oldest = format!("{:012}", minute_of(self.now) - limits::RATE_MINUTES_KEPT);
        // Only those, and not all at once: there is one for each lane and minute, and this is asked every second.
        for old in self.db()?.documents_before(DocumentKind::Rate, &oldest, limits::TICK_JOBS_PER_COMMIT)? {
            self.put_document(DocumentKind::Rate, &old.key, None, |_| {})?;
        }
        Ok(())
    }

    /// The next moment at which time changes anything.
    fn next_at(&mut self) -> Result<Option<Timestamp>, StoreError> {
        let config = self.config()?;
        let workers = config.workers.values().filter(|worker| worker.heartbeats && !worker.is_lost);
        let silent = workers.map(Worker::silent_at).min();
        let lifted = config.holds.values().filter_map(|hold| hold.expires_at).min();
        let due = self.db()?.next_due()?;
        let throttled = self.first_timer()?;
        let scheduled = next_run(&config, self.now);
        Ok([silent, lifted, due, throttled, scheduled].into_iter().flatten().min())
    }
}

/// What one round of pruning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Jobs removed.
    pub jobs: usize,
    /// Where to go on; none when this state is done.
    pub next: Option<Place>,
}

/// Removes jobs that ended in `state` longer ago than they are kept: one bounded round (M96).
pub(crate) fn prune(unit: &mut Unit<'_>, state: State, after: Option<Place>) -> Result<Pruned, StoreError> {
    let cutoff = unit.now.minus(unit.env.options.retention_of(state));
    let filter = Filter { states: vec![state], ..Filter::default() };
    let limit = limits::BULK_JOBS_PER_COMMIT;
    let page = unit.db()?.scan(&Scan { filter, order: Order::Oldest, after, limit })?;
    let mut pruned =
        Pruned { jobs: 0, next: (page.len() == limit).then(|| page.last().map(Place::of)).flatten() };
    for job in page {
        // Jobs are in the order of submission, and none ends before it is submitted: the rest is younger still.
        if job.created_at > cutoff {
            pruned.next = None;
            break;
        }
        let is_old = job.completed_at.is_some_and(|at| at <= cutoff);
        let seq = unit.remember(job);
        if is_old && !is_needed(unit, seq)? {
            unit.remove(seq);
            pruned.jobs += 1;
        }
    }
    // At once, so that nobody else in this commit finds them any more.
    unit.flush()?;
    Ok(pruned)
}

/// Whether a parent still has to read its result, or jobs still wait with it.
fn is_needed(unit: &mut Unit<'_>, seq: Seq) -> Result<bool, StoreError> {
    let Some(job) = unit.job(seq)?.cloned() else { return Ok(false) };
    if let Some(parent) = job.parent
        && unit.job(parent.seq)?.is_some_and(|parent| !parent.state.is_final())
    {
        return Ok(true);
    }
    if job.has.dependents {
        for edge in unit.db()?.edges(&[seq], Side::Dependency)? {
            if unit.job(edge.dependent)?.is_some_and(|dependent| !dependent.state.is_final()) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}
