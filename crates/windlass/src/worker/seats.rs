//! The seats of one queue in a worker: one for each handler that may run, and, while handlers are much quicker than
//! claims, as many again for jobs that wait for their turn, so that no handler stands idle while the next claim is on its
//! way. As soon as handlers take longer, nothing is claimed that cannot be started.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits;

/// A mean over so many of the last handlers.
const HANDLERS_REMEMBERED: u64 = 16;
/// What is assumed before anything was measured, and again after a job has waited for its turn in vain.
const SLOW: u64 = 1_000_000_000;

#[allow(clippy::cast_possible_truncation, reason = "it is a few milliseconds")]
const QUICK: u64 = limits::QUICK_HANDLER_MAX.as_nanos() as u64;

/// Seats.
pub(super) struct Seats {
    slots: Arc<Semaphore>,
    slot_count: usize,
    places: Arc<Semaphore>,
    /// Seats beyond one for each slot; only the lane itself changes it.
    spare: AtomicUsize,
    /// How long handlers take, in nanoseconds.
    pace: AtomicU64,
}

impl Seats {
    /// For so many handlers at once.
    pub(super) fn new(slots: usize) -> Arc<Seats> {
        let semaphore = || Arc::new(Semaphore::new(slots));
        let (spare, pace) = (AtomicUsize::new(0), AtomicU64::new(SLOW));
        Arc::new(Seats { slots: semaphore(), slot_count: slots, places: semaphore(), spare, pace })
    }

    /// Waits for a seat.
    pub(super) async fn free(&self) -> OwnedSemaphorePermit {
        loop {
            let seat = self.places.clone().acquire_owned().await.expect("the semaphore is never closed");
            self.adjust();
            // One that became free after handlers had turned slow is not given out again.
            let spare = self.spare.load(Ordering::Relaxed);
            if spare == 0 || self.is_quick() {
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

    /// How many are free.
    pub(super) fn free_now(&self) -> usize {
        self.places.available_permits()
    }

    /// Waits for a job's turn to run; none if others take so long that somebody else should have the job.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = self.slots.clone().try_acquire_owned() {
            return Some(slot);
        }
        let slot = tokio::time::timeout(limits::TURN_WAIT_MAX, self.slots.clone().acquire_owned()).await;
        if slot.is_err() {
            self.pace.store(SLOW, Ordering::Relaxed);
        }
        slot.ok()?.ok()
    }

    /// A handler took so long.
    pub(super) fn took(&self, time: Duration) {
        let time = u64::try_from(time.as_nanos()).unwrap_or(SLOW).min(SLOW);
        let pace = self.pace.load(Ordering::Relaxed);
        // Two at once may lose one of the measurements, which a mean can bear.
        self.pace.store((pace * (HANDLERS_REMEMBERED - 1) + time) / HANDLERS_REMEMBERED, Ordering::Relaxed);
    }

    fn is_quick(&self) -> bool {
        self.pace.load(Ordering::Relaxed) <= QUICK
    }

    /// Adds or takes away the spare seats. With few slots order matters more than speed.
    fn adjust(&self) {
        let is_quick = self.is_quick();
        let spare = self.spare.load(Ordering::Relaxed);
        if is_quick && spare == 0 && self.slot_count >= limits::SPARE_SEATS_FROM {
            self.places.add_permits(self.slot_count);
            self.spare.store(self.slot_count, Ordering::Relaxed);
        } else if !is_quick && spare > 0 {
            self.spare.store(spare - self.places.forget_permits(spare), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(seats: &Seats) -> Vec<OwnedSemaphorePermit> {
        seats.adjust();
        std::iter::from_fn(|| seats.another()).collect()
    }

    #[test]
    fn spare_seats_are_for_quick_handlers_only() {
        let seats = Seats::new(20);
        assert_eq!(taken(&seats).len(), 20, "before anything is known");
        (0..500).for_each(|_| seats.took(Duration::from_micros(10)));
        let held = taken(&seats);
        assert_eq!(held.len(), 40);
        (0..500).for_each(|_| seats.took(Duration::from_millis(50)));
        assert_eq!(taken(&seats).len(), 0, "those given out stay so");
        drop(held);
        assert_eq!(taken(&seats).len(), 20);
    }

    #[test]
    fn a_few_slots_have_no_spare_seats() {
        let seats = Seats::new(1);
        (0..500).for_each(|_| seats.took(Duration::ZERO));
        assert_eq!(taken(&seats).len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_come_ends_the_spare_seats() {
        let seats = Seats::new(20);
        (0..500).for_each(|_| seats.took(Duration::ZERO));
        let held = taken(&seats);
        let mut running = Vec::new();
        for _ in 0..20 {
            running.push(seats.turn().await.expect("a slot is free"));
        }
        assert!(seats.turn().await.is_none());
        drop(held);
        let first = seats.free().await;
        assert_eq!(taken(&seats).len(), 19);
        drop((first, running));
        assert!(seats.turn().await.is_some());
    }
}
