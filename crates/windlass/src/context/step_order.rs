//! The order of a job's calls of steps, sleeps, waits and child groups. A strict worker runs them in the order in which
//! earlier attempts saved them, except for calls that ran concurrently, which have no order.
//!
//! The order in which calls arrive proves nothing, because handlers may run steps concurrently. So a new call that
//! comes early waits for the saved calls before it. Only when nothing else in the handler can continue is it known that
//! those will not come, and that the code was changed. A saved call waits only until it is known whether anything else
//! can continue.
//!
//! A call that ends without a value (a temporary error, or dropped by the handler) is undecided at first: it runs again
//! in the next attempt. Once a later call is saved, the handler has continued, so the error or the drop is saved with
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use super::branch::Branch;
use super::call::{Call, Status};
use super::history::{DroppedCall, Record, SavedHistory};
use super::lock;
use super::quiet::{Kind, Waiter};
use super::reopen::ReturnedError;

/// The calls that this attempt has made, and the saved calls that it has not made yet.
#[derive(Default)]
pub(super) struct Order {
    state: Mutex<State>,
    /// Notified when a call starts, ends, or starts to wait.
    pub(super) changed: Notify,
}

#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(super) struct State {
    pub(super) known: SavedHistory,
    /// Number of calls of each name, by branch.
    occurrences: BTreeMap<(String, Branch), u32>,
    /// Number of races, by branch.
    races: BTreeMap<Branch, u32>,
    /// Counts starts and ends of calls, to know which came first.
    tick: u64,
    /// When the last call was made.
    pub(super) last_made: u64,
    /// Keys of steps that are running.
    pub(super) working: BTreeSet<String>,
    /// Store requests in progress; waiting calls wait for their responses.
    pub(super) storing: u32,
    /// Calls outside of steps that have not ended.
    pub(super) active: u32,
    /// How often a call outside of steps started beside another.
    pub(super) overlaps: u32,
    /// Saved sleeps and groups with a place that have not ended, with their records without a place: another call
    /// beside them may end first, and then they are not required in a later attempt.
    pub(super) placed: BTreeMap<String, Vec<u8>>,
    /// Calls of this attempt that ended without a value and are not saved, by key.
    pub(super) undecided: BTreeMap<String, OpenRecord>,
    /// Keys of calls that were undecided in this attempt and are now saved.
    pub(super) settled: BTreeSet<String>,
    /// Errors returned to the handler.
    pub(super) errors: Vec<ReturnedError>,
    /// Calls that the handler dropped in this attempt.
    pub(super) dropped: BTreeMap<String, DroppedCall>,
    /// This attempt has done work or saved something.
    pub(super) has_progress: bool,
    /// The attempt was asked to stop: calls that end without a value from now on run again, and new calls are not
    /// required later.
    pub(super) is_stopping: bool,
    /// A spawned task made a call, outside of the handler's own poll.
    pub(super) has_tasks: bool,
    /// Nothing in the handler itself can continue, but a copy of its context exists.
    pub(super) is_quiet_beside_copies: bool,
    /// Calls that wait for something outside the handler.
    pub(super) waiters: BTreeMap<u64, Waiter>,
    pub(super) waiters_made: u64,
    /// Parks as soon as the handler is polled, whatever else it does.
    pub(super) must_park: bool,
    /// The handler has stopped; no more decisions are made.
    pub(super) is_over: bool,
    /// Wakes the handler itself.
    pub(super) handler: Option<std::task::Waker>,
    /// The saved order did not match a busy handler: calls no longer wait for their turn.
    is_order_unknown: bool,
}

pub(super) struct OpenRecord {
    pub(super) record: Record<'static>,
    pub(super) ended: u64,
}

impl Order {
    pub(super) fn new(known: SavedHistory) -> Order {
        Order { state: Mutex::new(State { known, ..State::default() }), ..Order::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Registers a call.
    pub(super) fn call(&self, name: &str) -> Call<'_> {
        Call::new(self, name)
    }

    /// The two sides of a race that starts here.
    pub(super) fn race(&self) -> [Branch; 2] {
        let current = Branch::current();
        let mut state = self.lock();
        let races = state.races.entry(current.clone()).or_default();
        *races += 1;
        current.sides(*races)
    }

    /// Records that the attempt was asked to stop.
    pub(super) fn stops(&self) {
        self.lock().is_stopping = true;
    }

    /// Stops ordering calls in this attempt.
    pub(super) fn stop_ordering(&self) {
        let mut state = self.lock();
        state.is_order_unknown = true;
        state.wake_turns();
    }

    /// The first required call that has not been made, for an error message.
    pub(super) fn first_missing(&self) -> Option<(u32, String)> {
        self.lock().known.required.first().cloned()
    }

    /// The records to save with `call` or before it: earlier calls that ended without a value, and sleeps and groups
    /// beside it without their place.
    pub(super) fn saved_before(&self, call: &Call<'_>) -> Vec<(String, Vec<u8>)> {
        let state = self.lock();
        let before = state.undecided.iter().filter(|(_, undecided)| undecided.ended < call.made());
        let undecided =
            before.filter_map(|(key, one)| Some((key.clone(), serde_json::to_vec(&one.record).ok()?)));
        let placed = state.placed.iter().filter(|(key, _)| **key != call.key());
        undecided.chain(placed.map(|(key, record)| (key.clone(), record.clone()))).collect()
    }

    /// Sleeps and groups that wait concurrently, as keys and records without a place.
    pub(super) fn beside_each_other(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.lock();
        let is_alone = state.active <= 1;
        state.placed.iter().filter(|_| !is_alone).map(|(key, record)| (key.clone(), record.clone())).collect()
    }

    /// Marks these as saved.
    pub(super) fn mark_returned<'k>(&self, keys: impl Iterator<Item = &'k String>) {
        let mut state = self.lock();
        state.has_progress = true;
        for key in keys {
            state.placed.remove(key);
            match state.undecided.remove(key) {
                // It runs again, so there is nothing to reopen.
                Some(undecided) if undecided.record.open => drop(state.settled.remove(key)),
                Some(_) => drop(state.settled.insert(key.clone())),
                None => {}
            }
        }
    }
}

impl State {
    pub(super) fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    pub(super) fn next_of(&mut self, name: &str, branch: &Branch) -> (String, Status) {
        let occurrence = self.occurrences.entry((name.to_owned(), branch.clone())).or_default();
        *occurrence += 1;
        let key = branch.key_of(name, *occurrence);
        if self.known.left_out.contains_key(&key) {
            return (key, Status::LeftOut);
        }
        if let Some(places) = self.known.places.get(&key).copied() {
            if let Some(at) = places.at {
                self.known.required.remove(&(at, key.clone()));
                self.wake_turns();
            }
            return (key, Status::Saved(places));
        }
        let place = self.known.next_place;
        self.known.next_place += 1;
        let from = self.known.open.get(&key).copied().flatten();
        (key, Status::Fresh { place, from })
    }

    pub(super) fn wake_turns(&self) {
        let turns = self.waiters.values().filter(|waiter| matches!(waiter.kind, Kind::Turn | Kind::Replay));
        turns.for_each(|waiter| waiter.waker.wake_by_ref());
    }

    /// Whether all saved calls with a place before this one have been made.
    pub(super) fn is_turn(&self, before: u32) -> bool {
        self.is_order_unknown || self.known.required.first().is_none_or(|(place, _)| *place >= before)
    }
}
