//! Moving the clock of a store for development: from timer to timer, and workers run what becomes due before the next one.

use std::time::Duration;

use windlass::Store;
use windlass::clock::{Clock, Deadline, JumpClock, Timestamp};
use windlass::error::StoreError;
use windlass::job::JobState;
use windlass::store::caller::Caller;

use crate::limits::{DEV_POLL, DEV_READY_WAIT, DEV_STEPS_MAX};

/// Where the clock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advanced {
    /// The store's time. It is earlier than asked for if there were more timers than one call applies.
    pub now: Timestamp,
    /// Whether all of the time has passed.
    pub is_done: bool,
    /// Whether nothing runs any more, and workers have taken all jobs that they can take.
    pub is_settled: bool,
}

/// Moves the clock forward. Waits up to `wait` of real time for jobs that run, before each step.
///
/// # Errors
/// If the store fails.
pub async fn advance(
    store: &Store,
    clock: &JumpClock,
    by: Duration,
    wait: Duration,
) -> Result<Advanced, StoreError> {
    let end = clock.now().plus(by);
    let mut settling = Settling { wait, left_ready: 0 };
    settling.settle(store).await?;
    for _ in 0..DEV_STEPS_MAX {
        let next_at = tick(store).await?;
        let is_settled = settling.settle(store).await?;
        let now = clock.now();
        if now >= end {
            return Ok(Advanced { now, is_done: true, is_settled });
        }
        // Jobs that just ran may have set a nearer timer.
        let next_at = tick(store).await?.or(next_at);
        let next = next_at.filter(|at| *at > now).map_or(end, |at| at.min(end));
        clock.advance(next.since(now));
    }
    Ok(Advanced { now: clock.now(), is_done: false, is_settled: false })
}

/// Applies due timers; returns when the next one is due.
///
/// # Errors
/// If the store fails.
pub async fn tick(store: &Store) -> Result<Option<Timestamp>, StoreError> {
    loop {
        let ticked = store.tick().await?;
        if !ticked.has_more {
            return Ok(ticked.next_at);
        }
    }
}

/// Waits for workers.
struct Settling {
    /// How long for jobs that run.
    wait: Duration,
    /// Ready jobs that no worker took the last time; they are not waited for again.
    left_ready: u64,
}

impl Settling {
    /// Waits until nothing runs and workers have taken what is ready; returns whether that is so.
    async fn settle(&mut self, store: &Store) -> Result<bool, StoreError> {
        let (until, ready_until) =
            (Deadline::after(self.wait), Deadline::after(DEV_READY_WAIT.min(self.wait)));
        loop {
            let states = store.stats(&Caller::local()).await?.states;
            let count = |state| states.get(&state).copied().unwrap_or(0);
            let (running, ready) = (count(JobState::Running), count(JobState::Scheduled));
            if running == 0 && ready <= self.left_ready {
                self.left_ready = ready;
                return Ok(true);
            }
            if running == 0 && ready_until.is_over() {
                self.left_ready = ready;
                return Ok(false);
            }
            if until.is_over() {
                return Ok(false);
            }
            tokio::time::sleep(DEV_POLL).await;
        }
    }
}
