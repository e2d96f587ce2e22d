//! The slots of one queue in a worker, and the permits to claim for them. There is one permit for each slot. While
//! handlers are much faster than claims, there are additional permits to claim ahead, so that slots do not stay idle
//! during the next claim: the faster the handlers, the more permits, so that no job waits much longer than a claim
//! takes. When handlers become slower, the worker claims only jobs that it can start.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::clock::Stopwatch;
use crate::limits;

/// Number of recent handlers in the mean.
const HANDLERS_REMEMBERED: u64 = 16;
/// Handler duration assumed before any was measured, and again after a job that was claimed ahead waited too long for a
/// slot.
const SLOW: u64 = 1_000_000_000;

#[allow(clippy::cast_possible_truncation, reason = "it is a few milliseconds")]
const QUICK: u64 = limits::QUICK_HANDLER_MAX.as_nanos() as u64;

/// Number of recent claims in the mean.
const CLAIMS_REMEMBERED: u64 = 8;
/// How many times [`limits::QUICK_HANDLER_MAX`] a claim counts at most.
const STRETCH_MAX: u64 = 8;

/// Slots and claim permits.
pub(super) struct SlotPool {
    slots: Arc<Semaphore>,
    slot_count: usize,
    permits: Arc<Semaphore>,
    /// Permits beyond one for each slot; only the fetch loop changes it.
    spare: AtomicUsize,
    /// Mean handler duration, in nanoseconds.
    pace: AtomicU64,
    /// Mean time from a claim to its answer, in nanoseconds.
    claim: AtomicU64,
    stop: CancellationToken,
}

impl SlotPool {
    /// A pool with this many slots, until `stop` fires.
    pub(super) fn new(slots: usize, stop: CancellationToken) -> Arc<SlotPool> {
        let semaphore = || Arc::new(Semaphore::new(slots));
        let (spare, pace, claim) = (AtomicUsize::new(0), AtomicU64::new(SLOW), AtomicU64::new(0));
        let (permits, slots, slot_count) = (semaphore(), semaphore(), slots);
        Arc::new(SlotPool { slots, slot_count, permits, spare, pace, claim, stop })
    }

    /// Waits for a permit.
    pub(super) async fn free(&self) -> OwnedSemaphorePermit {
        loop {
            let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
            self.adjust();
            // A permit that was returned after handlers became slower is removed.
            let spare = self.spare.load(Ordering::Relaxed);
            if spare <= self.spare_wanted() {
                return permit;
            }
            permit.forget();
            self.spare.store(spare - 1, Ordering::Relaxed);
        }
    }

    /// A permit, if one is free.
    pub(super) fn another(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    pub(super) fn slot(&self) -> Option<OwnedSemaphorePermit> {
        self.slots.clone().try_acquire_owned().ok()
    }

    pub(super) fn slots_free(&self) -> usize {
        self.slots.available_permits()
    }

    /// The number of free permits.
    pub(super) fn free_now(&self) -> usize {
        self.permits.available_permits()
    }

    /// Waits for a slot. `None` if the wait takes so long that another worker should run the job, or if no more jobs
    /// are to be started. `execution` is the job's timeout, which limits the wait.
    pub(super) async fn turn(
        &self,
        execution: Duration,
        given_up: impl Future<Output = ()>,
    ) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = self.slots.clone().try_acquire_owned() {
            return Some(slot);
        }
        // The timeout counts from the claim, so only a small part of it may be spent waiting.
        let (watch, wait_max) = (Stopwatch::start(), limits::PREFETCH_WAIT_MAX.min(execution / 10));
        let slot = tokio::select! {
            biased;
            () = given_up => return None,
            () = self.stop.cancelled() => return None,
            slot = self.slots.clone().acquire_owned() => slot.ok(),
            () = tokio::time::sleep(wait_max) => None,
        };
        // A process that was stopped finds a slot and its expired wait at the same time; the lease may have expired
        // too.
        let slot = slot.filter(|_| watch.elapsed() <= wait_max);
        if slot.is_none() {
            self.disable_prefetch();
        }
        slot
    }

    /// Disables claiming ahead for a while, because a claimed job has crashed its worker before: no other jobs should
    /// be lost if it does so again.
    pub(super) fn disable_prefetch(&self) {
        self.pace.store(SLOW, Ordering::Relaxed);
    }

    /// Records a handler's duration.
    pub(super) fn took(&self, time: Duration) {
        add_to_mean(&self.pace, HANDLERS_REMEMBERED, nanos(time));
    }

    /// Records how long a claim took that got as much as it asked for, and so did not wait for jobs. One that took unusually
    /// long counts for little, so that a pause of the machine does not fill the worker with jobs.
    pub(super) fn claimed(&self, time: Duration) {
        let before = self.claim.load(Ordering::Relaxed);
        add_to_mean(&self.claim, CLAIMS_REMEMBERED, nanos(time).min(2 * before.max(QUICK)));
    }

    /// How many extra permits there should be. With few slots, order matters more than speed.
    fn spare_wanted(&self) -> usize {
        if self.slot_count < limits::PREFETCH_FROM_SLOTS {
            return 0;
        }
        // Handlers run for as long as the next claim takes. A claim that takes a long time is most often one for many jobs:
        // how far that goes is limited.
        let claim = self.claim.load(Ordering::Relaxed).clamp(QUICK, QUICK * STRETCH_MAX);
        let stretch = usize::try_from(claim.div_ceil(QUICK)).unwrap_or(1).min(limits::PREFETCH_STRETCH);
        let turns = claim / self.pace.load(Ordering::Relaxed).max(1);
        let each = usize::try_from(turns).unwrap_or(usize::MAX).min(limits::PREFETCH_PER_SLOT * stretch);
        (each * self.slot_count).min(limits::PREFETCH_MAX * stretch)
    }

    /// Adds extra permits, or removes free ones.
    fn adjust(&self) {
        let (spare, wanted) = (self.spare.load(Ordering::Relaxed), self.spare_wanted());
        if wanted > spare {
            self.permits.add_permits(wanted - spare);
            self.spare.store(wanted, Ordering::Relaxed);
        } else if wanted < spare {
            self.spare.store(spare - self.permits.forget_permits(spare - wanted), Ordering::Relaxed);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(SLOW).min(SLOW)
}

fn add_to_mean(mean: &AtomicU64, remembered: u64, value: u64) {
    let next = |mean: u64| (mean * (remembered - 1) + value) / remembered;
    let _ = mean.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |mean| Some(next(mean)));
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn pool(slots: usize) -> Arc<SlotPool> {
        SlotPool::new(slots, CancellationToken::new())
    }

    fn taken(pool: &SlotPool) -> Vec<OwnedSemaphorePermit> {
        pool.adjust();
        std::iter::from_fn(|| pool.another()).collect()
    }

    #[test]
    fn extra_permits_are_for_quick_handlers_only() {
        let pool = pool(20);
        assert_eq!(taken(&pool).len(), 20, "before any measurement");
        (0..500).for_each(|_| pool.took(Duration::from_micros(10)));
        let held = taken(&pool);
        assert_eq!(held.len(), 20 + 8 * 20);
        (0..500).for_each(|_| pool.took(Duration::from_millis(50)));
        assert_eq!(taken(&pool).len(), 0, "permits in use stay");
        drop(held);
        assert_eq!(taken(&pool).len(), 20);
    }

    #[test]
    fn the_quicker_the_handlers_the_more_is_claimed_ahead() {
        let pool = pool(20);
        for (micros, expected) in [(1_900, 40), (900, 60), (600, 80), (100, 180), (1_500, 40), (3_000, 20)] {
            (0..500).for_each(|_| pool.took(Duration::from_micros(micros)));
            assert_eq!(taken(&pool).len(), expected, "handlers of {micros} µs");
        }
    }

    #[test]
    fn the_longer_claims_take_the_more_is_claimed_ahead() {
        let pool = pool(20);
        let claims = |millis| (0..200).for_each(|_| pool.claimed(Duration::from_millis(millis)));
        (0..500).for_each(|_| pool.took(Duration::from_micros(900)));
        // Claims of at most two milliseconds are quick; at five, five handlers of a slot run meanwhile, and so on.
        for (millis, expected) in [(1, 20 + 2 * 20), (5, 20 + 5 * 20), (10, 20 + 11 * 20), (1, 20 + 2 * 20)] {
            claims(millis);
            assert_eq!(taken(&pool).len(), expected, "claims of {millis} ms");
        }
        claims(1_000);
        assert!(taken(&pool).len() <= 20 + 16 * 20, "there is a limit");
        (0..500).for_each(|_| pool.took(Duration::from_millis(50)));
        assert_eq!(taken(&pool).len(), 20, "slow handlers never claim ahead");
        claims(1);
        pool.claimed(LONG);
        (0..500).for_each(|_| pool.took(Duration::from_micros(900)));
        assert_eq!(taken(&pool).len(), 20 + 2 * 20, "one slow claim counts for little");
    }

    #[test]
    fn what_is_claimed_ahead_is_bounded_however_many_slots_there_are() {
        let pool = pool(1_000);
        (0..500).for_each(|_| pool.took(Duration::ZERO));
        assert_eq!(taken(&pool).len(), 1_000 + limits::PREFETCH_MAX);
        (0..200).for_each(|_| pool.claimed(Duration::from_secs(1)));
        assert_eq!(taken(&pool).len(), 1_000 + limits::PREFETCH_MAX * limits::PREFETCH_STRETCH);
    }

    #[test]
    fn beside_a_job_that_brought_down_its_worker_nothing_is_claimed_ahead() {
        let pool = pool(20);
        (0..500).for_each(|_| pool.took(Duration::ZERO));
        pool.disable_prefetch();
        assert_eq!(taken(&pool).len(), 20);
    }

    #[test]
    fn a_few_slots_have_no_extra_permits() {
        let pool = pool(1);
        (0..500).for_each(|_| pool.took(Duration::ZERO));
        assert_eq!(taken(&pool).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_come_ends_the_extra_permits() {
        let pool = pool(20);
        (0..500).for_each(|_| pool.took(Duration::ZERO));
        let held = taken(&pool);
        let mut running = Vec::new();
        for _ in 0..20 {
            running.push(pool.turn(LONG, pending()).await.expect("a slot is free"));
        }
        assert!(pool.turn(LONG, std::future::ready(())).await.is_none(), "it was cancelled");
        let watch = Stopwatch::start();
        assert!(pool.turn(Duration::from_millis(50), pending()).await.is_none());
        assert!(watch.elapsed() <= Duration::from_millis(10), "it has little time to run");
        assert!(pool.turn(LONG, pending()).await.is_none());
        drop(held);
        let first = pool.free().await;
        assert_eq!(taken(&pool).len(), 19);
        drop((first, running));
        assert!(pool.turn(LONG, pending()).await.is_some());
    }
}
