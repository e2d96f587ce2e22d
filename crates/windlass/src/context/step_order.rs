//! The order of a job's calls of steps, sleeps, waits and child groups. A strict worker runs them in the order in which
//! earlier attempts saved them (M71), except for steps that ran side by side, which have no order.
//!
//! The order in which calls arrive proves nothing, since handlers may run steps concurrently. So a new call that comes
//! early waits for those before it; only when nothing else in the handler can go on is it known that they will not come,
//! and that the code was changed. A call that is saved waits no longer than it takes to see whether anything else can.
//!
//! A call that ends without a value (a temporary error, or dropped by the handler) is undecided at first: it runs again
//! in the next attempt. Once a call that began later is saved, the handler has gone on, so the error, or that the call
//! was dropped, is saved with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use tokio::sync::Notify;

use super::branch::Branch;
use super::call::{Call, Status};
use super::history::{Dropped, Record, SavedHistory};
use super::lock;
use super::quiet::{Kind, Waiter};
use super::reopen::Returned;

/// Which calls this attempt has made, and which of those that earlier attempts saved it has not.
#[derive(Default)]
pub(super) struct Order {
    state: Mutex<State>,
    /// A call began, ended, or began to wait.
    pub(super) changed: Notify,
}

#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct State {
    pub(super) known: SavedHistory,
    /// How often each name was called, by branch.
    occurrences: BTreeMap<(String, Branch), u32>,
    /// Races so far, by branch.
    races: BTreeMap<Branch, u32>,
    /// Counts beginnings and ends of calls, so that it is known which came first.
    tick: u64,
    /// When the last call was made.
    pub(super) last_made: u64,
    /// Keys of steps whose work is being done.
    pub(super) working: BTreeSet<String>,
    /// Calls of the store that are under way: whatever waits, waits for their answers.
    pub(super) storing: u32,
    /// Calls outside of steps that have not ended.
    pub(super) active: u32,
    /// How often a call outside of steps began beside another.
    pub(super) overlaps: u32,
    /// Sleeps and groups that are saved with a place and have not ended, with their records without one: whatever else
    /// is called beside them may end first, and then they need not come in a later attempt.
    pub(super) placed: BTreeMap<String, Vec<u8>>,
    /// Calls of this attempt that ended without a value and are not saved, by key.
    pub(super) undecided: BTreeMap<String, Undecided>,
    /// Keys of calls that were undecided in this attempt and are saved now.
    pub(super) settled: BTreeSet<String>,
    /// Errors that the handler was given.
    pub(super) errors: Vec<Returned>,
    /// Calls that the handler dropped in this attempt.
    pub(super) dropped: BTreeMap<String, Dropped>,
    /// This attempt has done work, or saved something.
    pub(super) has_news: bool,
    /// The attempt was told to stop: what ends without a value from now on runs again, and what is called from now on
    /// need not come again.
    pub(super) is_stopping: bool,
    /// A call was made outside of the handler's own poll, by a task.
    pub(super) has_tasks: bool,
    /// Nothing in the handler itself can go on, but somebody holds a copy of its context.
    pub(super) is_quiet_beside_copies: bool,
    /// Calls that wait for something that the handler itself does not do.
    pub(super) waiters: BTreeMap<u64, Waiter>,
    pub(super) waiters_made: u64,
    /// Parks as soon as the handler is polled, whatever else it does.
    pub(super) must_park: bool,
    /// The handler has stopped, and nothing is decided any more.
    pub(super) is_over: bool,
    /// Wakes the handler itself.
    pub(super) handler: Option<std::task::Waker>,
    /// The saved order did not hold in a handler that was busy: nothing waits for its turn any more.
    is_order_unknown: bool,
}

pub(super) struct Undecided {
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

    /// Takes note of a call.
    pub(super) fn call(&self, name: &str) -> Call<'_> {
        Call::new(self, name)
    }

    /// The two sides of a race that begins here.
    pub(super) fn race(&self) -> [Branch; 2] {
        let current = Branch::current();
        let mut state = self.lock();
        let races = state.races.entry(current.clone()).or_default();
        *races += 1;
        current.sides(*races)
    }

    /// The attempt was told to stop.
    pub(super) fn stops(&self) {
        self.lock().is_stopping = true;
    }

    /// Nothing waits for its turn any more in this attempt.
    pub(super) fn forget_order(&self) {
        let mut state = self.lock();
        state.is_order_unknown = true;
        state.wake_turns();
    }

    /// The calls that have to come, and have not, for an error message.
    pub(super) fn first_missing(&self) -> Option<(u32, String)> {
        self.lock().known.required.first().cloned()
    }

    /// What is to be saved with `call`, and before it, as keys and records: what ended without a value before it was
    /// made, and that sleeps and groups beside it have no place.
    pub(super) fn saved_before(&self, call: &Call<'_>) -> Vec<(String, Vec<u8>)> {
        let state = self.lock();
        let before = state.undecided.iter().filter(|(_, undecided)| undecided.ended < call.made());
        let undecided =
            before.filter_map(|(key, one)| Some((key.clone(), serde_json::to_vec(&one.record).ok()?)));
        let placed = state.placed.iter().filter(|(key, _)| **key != call.key());
        undecided.chain(placed.map(|(key, record)| (key.clone(), record.clone()))).collect()
    }

    /// Sleeps and groups that wait beside each other, as keys and records without a place.
    pub(super) fn beside_each_other(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.lock();
        let is_alone = state.active <= 1;
        state.placed.iter().filter(|_| !is_alone).map(|(key, record)| (key.clone(), record.clone())).collect()
    }

    /// These are saved.
    pub(super) fn mark_returned<'k>(&self, keys: impl Iterator<Item = &'k String>) {
        let mut state = self.lock();
        state.has_news = true;
        for key in keys {
            state.placed.remove(key);
            match state.undecided.remove(key) {
                // It runs again: nothing is left to open.
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

    /// Whether nothing that earlier attempts saved with a place before this one is left to come.
    pub(super) fn is_turn(&self, before: u32) -> bool {
        self.is_order_unknown || self.known.required.first().is_none_or(|(place, _)| *place >= before)
    }
}
