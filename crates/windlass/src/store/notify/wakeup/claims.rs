//! Notifications of claimable jobs: each waiter names the queues and types it waits for and its version, and is
//! woken by jobs for it alone.
//! Otherwise a thousand idle workers would all query whenever anything is submitted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::count::WaiterCount;
use crate::job::{JobType, Lane, QueueName};
use crate::limits::{WAKEUP_LANES_MAX, WAKEUPS_KEPT};

/// The lanes in which jobs became claimable in one commit.
#[derive(Debug, Clone, Default)]
pub struct WorkEvents {
    lanes: Vec<Arc<Lane>>,
    is_everywhere: bool,
}

impl WorkEvents {
    /// Jobs may have become claimable in any lane.
    pub fn everywhere() -> WorkEvents {
        WorkEvents { lanes: Vec::new(), is_everywhere: true }
    }

    /// Whether no job became claimable.
    pub fn is_empty(&self) -> bool {
        !self.is_everywhere && self.lanes.is_empty()
    }

    /// Adds a lane in which a job became claimable. Lanes are shared values, compared by pointer.
    pub fn add(&mut self, lane: &Arc<Lane>) {
        if self.is_everywhere || self.lanes.iter().rev().any(|known| Arc::ptr_eq(known, lane)) {
            return;
        }
        if self.lanes.len() < WAKEUP_LANES_MAX {
            self.lanes.push(lane.clone());
        } else {
            *self = WorkEvents::everywhere();
        }
    }

    fn concerns(&self, interest: &WorkFilter) -> bool {
        self.is_everywhere || self.lanes.iter().any(|lane| interest.matches(lane))
    }
}

/// The jobs that a waiter waits for; `None` means any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkFilter {
    /// Jobs of these queues.
    pub queues: Option<Vec<QueueName>>,
    /// Jobs of these types.
    pub types: Option<Vec<JobType>>,
    /// The version of the waiter's program: jobs that require another version are not for it.
    pub version: Option<String>,
}

impl WorkFilter {
    fn matches(&self, lane: &Lane) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.contains(&lane.queue)) && self.fits_in_queue(lane)
    }

    fn fits_in_queue(&self, lane: &Lane) -> bool {
        self.types.as_ref().is_none_or(|types| types.contains(&lane.job_type))
            && lane.is_for_version(self.version.as_deref())
    }
}

/// A waiter.
#[derive(Debug)]
struct Waiter {
    interest: WorkFilter,
    bell: Notify,
}

/// All waiters for work, and the latest notifications.
#[derive(Debug, Default)]
pub(super) struct WaiterRegistry {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of notifications so far.
    number: u64,
    /// The latest ones, for waiters that were querying meanwhile.
    recent: VecDeque<WorkEvents>,
    by_queue: FxHashMap<QueueName, Vec<Arc<Waiter>>>,
    in_any_queue: Vec<Arc<Waiter>>,
}

impl State {
    /// Whether there were matching notifications since then. Notifications that are no longer cached count as matching.
    fn is_notified_since(&self, number: u64, interest: &WorkFilter) -> bool {
        let missed = usize::try_from(self.number - number).unwrap_or(usize::MAX);
        missed > self.recent.len()
            || self.recent.iter().rev().take(missed).any(|events| events.concerns(interest))
    }

    fn enter(&mut self, waiter: &Arc<Waiter>) {
        match &waiter.interest.queues {
            None => self.in_any_queue.push(waiter.clone()),
            Some(queues) => {
                for queue in queues {
                    self.by_queue.entry(queue.clone()).or_default().push(waiter.clone());
                }
            }
        }
    }

    fn leave(&mut self, waiter: &Arc<Waiter>) {
        let without = |waiters: &mut Vec<Arc<Waiter>>| waiters.retain(|other| !Arc::ptr_eq(other, waiter));
        match &waiter.interest.queues {
            None => without(&mut self.in_any_queue),
            Some(queues) => {
                for queue in queues {
                    if let Some(waiters) = self.by_queue.get_mut(queue) {
                        without(waiters);
                        if waiters.is_empty() {
                            self.by_queue.remove(queue);
                        }
                    }
                }
            }
        }
    }

    fn notify_matching(&self, events: &WorkEvents) {
        if events.is_everywhere {
            let all = self.by_queue.values().flatten().chain(&self.in_any_queue);
            all.for_each(|waiter| waiter.bell.notify_one());
        }
        for lane in &events.lanes {
            let here = self.by_queue.get(&lane.queue).into_iter().flatten().chain(&self.in_any_queue);
            here.filter(|waiter| waiter.interest.fits_in_queue(lane))
                .for_each(|waiter| waiter.bell.notify_one());
        }
    }
}

impl WaiterRegistry {
    fn state(&self) -> MutexGuard<'_, State> {
        // No operation under the lock can leave the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the waiters for such jobs.
    pub(super) fn notify(&self, events: WorkEvents) {
        let mut state = self.state();
        state.notify_matching(&events);
        state.number += 1;
        state.recent.push_back(events);
        if state.recent.len() > WAKEUPS_KEPT {
            state.recent.pop_front();
        }
    }

    /// Subscribes from now on, to any job until narrowed.
    pub(super) fn listen(self: &Arc<WaiterRegistry>, waiting: Arc<WaiterCount>) -> WorkListener {
        let number = self.state().number;
        WorkListener { board: self.clone(), number, interest: WorkFilter::default(), waiter: None, waiting }
    }
}

/// A subscription to claimable jobs. It takes its number before the query, so notifications between the query and the
/// wait are never missed; its filter may be set later.
pub(crate) struct WorkListener {
    board: Arc<WaiterRegistry>,
    /// The last notification that it has seen.
    number: u64,
    interest: WorkFilter,
    waiter: Option<Arc<Waiter>>,
    waiting: Arc<WaiterCount>,
}

impl WorkListener {
    /// Only notifications of such jobs count from here on, including those since it was created.
    pub(crate) fn narrow(&mut self, interest: WorkFilter) {
        self.leave();
        self.interest = interest;
    }

    /// Returns at the next notification since this was created or last returned.
    pub(crate) async fn notified(&mut self) {
        loop {
            let waiter = {
                let mut state = self.board.state();
                let is_notified = state.is_notified_since(self.number, &self.interest);
                self.number = state.number;
                if is_notified {
                    return;
                }
                let waiter = self.waiter.get_or_insert_with(|| {
                    let waiter = Arc::new(Waiter { interest: self.interest.clone(), bell: Notify::new() });
                    state.enter(&waiter);
                    self.waiting.enter();
                    waiter
                });
                waiter.clone()
            };
            waiter.bell.notified().await;
        }
    }

    /// Whether there was a notification since this was created or last returned.
    pub(crate) fn is_notified(&self) -> bool {
        self.board.state().is_notified_since(self.number, &self.interest)
    }

    fn leave(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            self.board.state().leave(&waiter);
            self.waiting.leave();
        }
    }
}

impl Drop for WorkListener {
    fn drop(&mut self) {
        self.leave();
    }
}
