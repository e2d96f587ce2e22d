//! The seats of one queue in a worker: one for each handler that may run, and, while handlers are much quicker than
//! claims, some more for jobs that wait for their turn, so that no handler stands idle while the next claim is on its way:
//! the quicker the handlers the more, so that none waits much longer than a claim takes. As soon as handlers take longer,
//! nothing is claimed that cannot be started.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::clock::Stopwatch;
use crate::limits;

/// A mean over so many of the last handlers.
const HANDLERS_REMEMBERED: u64 = 16;
/// What is assumed before anything was measured, and again after a job has waited for its turn in vain.
const SLOW: u64 = 1_000_000_000;

#[allow(clippy::cast_possible_truncation, reason = "it is a few milliseconds")]
const QUICK: u64 = limits::QUICK_HANDLER_MAX.as_nanos() as u64;

/// Seats.
pub(super) struct SlotPool {
    slots: Arc<Semaphore>,
    slot_count: usize,
    places: Arc<Semaphore>,
    /// Seats beyond one for each slot; only the lane itself changes it.
    spare: AtomicUsize,
    /// How long handlers take, in nanoseconds.
    pace: AtomicU64,
    stop: CancellationToken,
}

impl SlotPool {
    /// For so many handlers at once, until `stop`.
    pub(super) fn new(slots: usize, stop: CancellationToken) -> Arc<SlotPool> {
        let semaphore = || Arc::new(Semaphore::new(slots));
        let (spare, pace) = (AtomicUsize::new(0), AtomicU64::new(SLOW));
        Arc::new(SlotPool { slots: semaphore(), slot_count: slots, places: semaphore(), spare, pace, stop })
    }

    /// Waits for a seat.
    pub(super) async fn free(&self) -> OwnedSemaphorePermit {
        loop {
            let seat = self.places.clone().acquire_owned().await.expect("the semaphore is never closed");
            self.adjust();
            // One that became free after handlers had turned slower is not given out again.
            let spare = self.spare.load(Ordering::Relaxed);
            if spare <= self.spare_wanted() {
                return seat;
            }
            seat.forget();
            self.spare.store(spare - 1, Ordering::Relaxed);
        }
    }

    /// A seat, if one is free.
    pub(super) fn another(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// A slot, if one is free.
    pub(super) fn slot(&self) -> Option<OwnedSemaphorePermit> {
        self.slots.clone().try_acquire_owned().ok()
    }

    /// How many slots are free.
    pub(super) fn slots_free(&self) -> usize {
        self.slots.available_permits()
    }

    /// How many are free.
    pub(super) fn free_now(&self) -> usize {
        self.places.available_permits()
    }

    /// Waits for a job's turn to run, which is over once it may run for `execution` and no more. None if others take so
    /// long that somebody else should have the job, or if nothing is to be started any more.
    pub(super) async fn turn(
        &self,
        execution: Duration,
        given_up: impl Future<Output = ()>,
    ) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = self.slots.clone().try_acquire_owned() {
            return Some(slot);
        }
        // The time to run counts from the claim: little of it may pass in waiting.
        let (watch, wait_max) = (Stopwatch::start(), limits::PREFETCH_WAIT_MAX.min(execution / 10));
        let slot = tokio::select! {
            biased;
            () = given_up => return None,
            () = self.stop.cancelled() => return None,
            slot = self.slots.clone().acquire_owned() => slot.ok(),
            () = tokio::time::sleep(wait_max) => None,
        };
        // A process that stood still finds a slot and the end of its patience at once; the lease may be over too.
        let slot = slot.filter(|_| watch.elapsed() <= wait_max);
        if slot.is_none() {
            self.disable_prefetch();
        }
        slot
    }

    /// A job was claimed that has brought down its worker before: for a while no others are to be at hand when it does so
    /// again.
    pub(super) fn disable_prefetch(&self) {
        self.pace.store(SLOW, Ordering::Relaxed);
    }

    /// A handler took so long.
    pub(super) fn took(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(SLOW).min(SLOW);
        let mean = |pace: u64| (pace * (HANDLERS_REMEMBERED - 1) + time) / HANDLERS_REMEMBERED;
        let _ = self.pace.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pace| Some(mean(pace)));
    }

    /// How many spare seats there should be. With few slots order matters more than speed.
    fn spare_wanted(&self) -> usize {
        if self.slot_count < limits::PREFETCH_FROM_SLOTS {
            return 0;
        }
        let turns = QUICK / self.pace.load(Ordering::Relaxed).max(1);
        let each = usize::try_from(turns).unwrap_or(usize::MAX).min(limits::PREFETCH_PER_SLOT);
        (each * self.slot_count).min(limits::PREFETCH_MAX)
    }

    /// Adds spare seats or takes away those that are free.
    fn adjust(&self) {
        let (spare, wanted) = (self.spare.load(Ordering::Relaxed), self.spare_wanted());
        if wanted > spare {
            self.places.add_permits(wanted - spare);
            self.spare.store(wanted, Ordering::Relaxed);
        } else if wanted < spare {
            self.spare.store(spare - self.places.forget_permits(spare - wanted), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn seats(slots: usize) -> Arc<SlotPool> {
        SlotPool::new(slots, CancellationToken::new())
    }

    fn taken(seats: &SlotPool) -> Vec<OwnedSemaphorePermit> {
        seats.adjust();
        std::iter::from_fn(|| seats.another()).collect()
    }

    #[test]
    fn spare_seats_are_for_quick_handlers_only() {
        let seats = seats(20);
        assert_eq!(taken(&seats).len(), 20, "before anything is known");
        (0..500).for_each(|_| seats.took(Duration::from_micros(10)));
        let held = taken(&seats);
        assert_eq!(held.len(), 20 + 8 * 20);
        (0..500).for_each(|_| seats.took(Duration::from_millis(50)));
        assert_eq!(taken(&seats).len(), 0, "those given out stay so");
        drop(held);
        assert_eq!(taken(&seats).len(), 20);
    }

    #[test]
    fn the_quicker_the_handlers_the_more_is_claimed_ahead() {
        let seats = seats(20);
        for (micros, expected) in [(1_900, 40), (900, 60), (600, 80), (100, 180), (1_500, 40), (3_000, 20)] {
            (0..500).for_each(|_| seats.took(Duration::from_micros(micros)));
            assert_eq!(taken(&seats).len(), expected, "handlers of {micros} µs");
        }
    }

    #[test]
    fn what_is_claimed_ahead_is_bounded_however_many_slots_there_are() {
        let seats = seats(1_000);
        (0..500).for_each(|_| seats.took(Duration::ZERO));
        assert_eq!(taken(&seats).len(), 1_000 + limits::PREFETCH_MAX);
    }

    #[test]
    fn beside_a_job_that_brought_down_its_worker_nothing_is_claimed_ahead() {
        let seats = seats(20);
        (0..500).for_each(|_| seats.took(Duration::ZERO));
        seats.disable_prefetch();
        assert_eq!(taken(&seats).len(), 20);
    }

    #[test]
    fn a_few_slots_have_no_spare_seats() {
        let seats = seats(1);
        (0..500).for_each(|_| seats.took(Duration::ZERO));
        assert_eq!(taken(&seats).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_come_ends_the_spare_seats() {
        let seats = seats(20);
        (0..500).for_each(|_| seats.took(Duration::ZERO));
        let held = taken(&seats);
        let mut running = Vec::new();
        for _ in 0..20 {
            running.push(seats.turn(LONG, pending()).await.expect("a slot is free"));
        }
        assert!(seats.turn(LONG, std::future::ready(())).await.is_none(), "it was cancelled");
        let watch = Stopwatch::start();
        assert!(seats.turn(Duration::from_millis(50), pending()).await.is_none());
        assert!(watch.elapsed() <= Duration::from_millis(10), "it has little time to run");
        assert!(seats.turn(LONG, pending()).await.is_none());
        drop(held);
        let first = seats.free().await;
        assert_eq!(taken(&seats).len(), 19);
        drop((first, running));
        assert!(seats.turn(LONG, pending()).await.is_some());
    }
}
