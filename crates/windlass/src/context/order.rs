//! The order of a job's calls of steps, sleeps, waits and child groups. A strict worker runs them in the order in which
//! earlier attempts saved them (M71), except for steps that ran side by side, which have no order.
//!
//! The order in which calls arrive proves nothing, since handlers may run steps concurrently. So a call that comes early
//! waits for those before it; only when nothing else in the handler can go on is it known that they will not come, and
//! that the code was changed.
//!
//! A call that ends without a value (a temporary error, or dropped by the handler) is undecided at first: it runs again
//! in the next attempt. Once a call that began later is saved, the handler has gone on, so the error, or that the call
//! was dropped, is saved with it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use tokio::sync::Notify;

use super::history::{Known, Record, key_of};
use super::quiet::{Answer, Kind, Waiter};
use super::{branch, lock};
use crate::job::{Failure, Origin};

/// Which calls this attempt has made, and which of those that earlier attempts saved it has not.
#[derive(Default)]
pub(super) struct Order {
    state: Mutex<State>,
    /// A call began, ended, or began to wait.
    pub(super) changed: Notify,
}

#[derive(Default)]
pub(super) struct State {
    known: Known,
    /// How often each name was called, by branch.
    occurrences: BTreeMap<(String, String), u32>,
    /// Races so far, by branch.
    races: BTreeMap<String, u32>,
    /// Counts beginnings and ends of calls, so that it is known which came first.
    tick: u64,
    /// Steps whose work is being done.
    pub(super) working: u32,
    /// Calls of the store that are under way: whatever waits, waits for their answers.
    pub(super) storing: u32,
    /// Calls that have not ended.
    active: u32,
    /// How often a call began beside another.
    overlaps: u32,
    /// Sleeps and groups that are saved with a place and have not ended, with their records without one: whatever else
    /// is called beside them may end first, and then they need not come in a later attempt.
    placed: BTreeMap<String, Vec<u8>>,
    /// Calls of this attempt that ended without a value and are not saved, by key.
    undecided: BTreeMap<String, Undecided>,
    /// Keys of errors that were undecided in this attempt and are saved now.
    settled: BTreeSet<String>,
    /// Errors that the handler was given.
    errors: Vec<Returned>,
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

struct Undecided {
    record: Record<'static>,
    ended: u64,
}

/// An error that a call returned to the handler.
struct Returned {
    key: String,
    at: Option<u32>,
    from: Option<u32>,
    message: String,
    token: Weak<()>,
    /// Whether the handler still had the error when it made its next call.
    was_kept: Option<bool>,
}

/// One call.
pub(super) struct Call<'a> {
    order: &'a Order,
    name: String,
    branch: String,
    key: String,
    /// When it was made.
    made: u64,
    status: Status,
    /// Overlaps when it was made; the highest number there is if that was beside another call.
    began: u32,
    is_working: bool,
    has_ended: bool,
}

/// What earlier attempts have saved of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Nothing: it takes this place. `from` is its first place if it was opened again.
    Fresh { place: u32, from: Option<u32> },
    /// What it came to, at this place.
    Saved(Option<u32>),
    /// That the handler dropped it.
    LeftOut,
}

impl Order {
    pub(super) fn new(known: Known) -> Order {
        Order { state: Mutex::new(State { known, ..State::default() }), ..Order::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Takes note of a call.
    pub(super) fn call(&self, name: &str) -> Call<'_> {
        let mut state = self.lock();
        for error in state.errors.iter_mut().filter(|error| error.was_kept.is_none()) {
            error.was_kept = Some(error.token.strong_count() > 0);
        }
        let branch = branch::current();
        let (key, status) = state.next_of(name, &branch);
        let made = state.next_tick();
        state.overlaps += u32::from(state.active > 0);
        state.active += 1;
        let began = if state.active > 1 { u32::MAX } else { state.overlaps };
        self.changed.notify_one();
        Call {
            order: self,
            name: name.to_owned(),
            branch,
            key,
            made,
            status,
            began,
            is_working: false,
            has_ended: false,
        }
    }

    /// The branch of the right side of a race that begins here: its calls are counted by themselves, since they are not
    /// made where the left side has ended already.
    pub(super) fn branch(&self) -> String {
        let current = branch::current();
        let mut state = self.lock();
        let races = state.races.entry(current.clone()).or_default();
        *races += 1;
        format!("{current}#r{races}")
    }

    /// Nothing waits for its turn any more in this attempt.
    pub(super) fn forget_order(&self) {
        let mut state = self.lock();
        state.is_order_unknown = true;
        state.wake_turns();
    }

    /// The calls that have to come, and have not, for an error message.
    fn first_missing(&self) -> Option<(u32, String)> {
        self.lock().known.required.first().cloned()
    }

    /// What is to be saved with `call`, and before it, as keys and records: what ended without a value before it was
    /// made, and that sleeps and groups beside it have no place.
    pub(super) fn saved_before(&self, call: &Call<'_>) -> Vec<(String, Vec<u8>)> {
        let state = self.lock();
        let before = state.undecided.iter().filter(|(_, undecided)| undecided.ended < call.made);
        let undecided =
            before.filter_map(|(key, one)| Some((key.clone(), serde_json::to_vec(&one.record).ok()?)));
        let placed = state.placed.iter().filter(|(key, _)| **key != call.key);
        undecided.chain(placed.map(|(key, record)| (key.clone(), record.clone()))).collect()
    }

    /// Sleeps and groups that wait beside each other, as keys and records without a place.
    pub(super) fn beside_each_other(&self) -> Vec<(String, Vec<u8>)> {
        let state = self.lock();
        let is_alone = state.active <= 1;
        state.placed.iter().filter(|_| !is_alone).map(|(key, record)| (key.clone(), record.clone())).collect()
    }

    /// These are saved.
    pub(super) fn settle<'k>(&self, keys: impl Iterator<Item = &'k String>) {
        let mut state = self.lock();
        for key in keys {
            state.placed.remove(key);
            if state.undecided.remove(key).is_some_and(|undecided| undecided.record.failure.is_some()) {
                state.settled.insert(key.clone());
            }
        }
    }

    /// The saved temporary errors that make up `error`, which fails the attempt, as keys and records that open them
    /// again. An error that the handler kept also counts if its message is part of this one's.
    pub(super) fn reopened_by(&self, error: &anyhow::Error, message: &str) -> Vec<(String, Vec<u8>)> {
        let state = self.lock();
        let origins = error.chain().filter_map(|cause| cause.downcast_ref::<Failure>());
        let tokens: Vec<&Arc<()>> = origins.filter_map(|failure| failure.origin.token()).collect();
        let is_cause = |returned: &&Returned| {
            let is_same =
                tokens.iter().any(|token| std::ptr::eq(Arc::as_ptr(token), returned.token.as_ptr()));
            is_same || (returned.was_kept == Some(true) && names(message, &returned.message))
        };
        let is_saved = |returned: &&Returned| {
            state.settled.contains(&returned.key) || state.known.places.contains_key(&returned.key)
        };
        let found = state.errors.iter().filter(is_saved).filter(is_cause);
        found
            .filter_map(|one| {
                let record = Record { at: one.at, from: one.from, open: true, ..Record::default() };
                Some((one.key.clone(), serde_json::to_vec(&record).ok()?))
            })
            .collect()
    }
}

/// Whether `message` has `part` in it, not as a part of other words.
fn names(message: &str, part: &str) -> bool {
    let is_word = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    !part.is_empty()
        && message.match_indices(part).any(|(at, _)| {
            !is_word(message[..at].chars().next_back()) && !is_word(message[at + part.len()..].chars().next())
        })
}

impl State {
    fn next_tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    fn next_of(&mut self, name: &str, branch: &str) -> (String, Status) {
        let occurrence = self.occurrences.entry((name.to_owned(), branch.to_owned())).or_default();
        *occurrence += 1;
        let key = key_of(name, branch, *occurrence);
        if self.known.left_out.contains(&key) {
            return (key, Status::LeftOut);
        }
        if let Some(at) = self.known.places.get(&key).copied() {
            if let Some(at) = at {
                self.known.required.remove(&(at, key.clone()));
                self.wake_turns();
            }
            return (key, Status::Saved(at));
        }
        let place = self.known.next_place;
        self.known.next_place += 1;
        let from = self.known.open.get(&key).copied();
        (key, Status::Fresh { place, from })
    }

    fn wake_turns(&self) {
        let turns = self.waiters.values().filter(|waiter| matches!(waiter.kind, Kind::Turn));
        turns.for_each(|waiter| waiter.waker.wake_by_ref());
    }

    /// Whether nothing that earlier attempts saved with a place before this one is left to come.
    fn is_turn(&self, before: u32) -> bool {
        self.is_order_unknown || self.known.required.first().is_none_or(|(place, _)| *place >= before)
    }
}

impl Call<'_> {
    /// The key under which it is saved.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Whether earlier attempts have saved what it came to.
    pub(super) fn is_saved(&self) -> bool {
        matches!(self.status, Status::Saved(_))
    }

    /// Waits until it may go on: for ever if the handler dropped it in an earlier attempt, since whatever the handler
    /// preferred comes first again; and if `is_strict` for its turn.
    ///
    /// # Errors
    /// The code was changed: calls that were saved before it will not come any more.
    pub(super) async fn may_go_on(&mut self, is_strict: bool) -> Result<(), Failure> {
        while self.status == Status::LeftOut {
            self.order.wait(Kind::LeftOut, |_| false).await;
            // Nothing else can go on, so this is not the call that was dropped but the next one of its name.
            let mut state = self.order.lock();
            (self.key, self.status) = state.next_of(&self.name, &self.branch);
        }
        if !is_strict {
            return Ok(());
        }
        let before = match self.status {
            Status::Saved(place) => place.unwrap_or(0),
            Status::Fresh { .. } | Status::LeftOut => u32::MAX,
        };
        match self.order.wait(Kind::Turn, |state| state.is_turn(before)).await {
            Answer::Changed => Err(self.refusal()),
            _ => Ok(()),
        }
    }

    fn refusal(&self) -> Failure {
        let missing = self
            .order
            .first_missing()
            .map_or_else(|| "another call".to_owned(), |(place, key)| format!("`{key}` as call {place}"));
        let message = format!(
            "the code was changed: `{}` comes now where an earlier attempt saved {missing}; let jobs that began before \
             end first, or make the worker lenient",
            self.key
        );
        Failure::permanent("steps_changed", message)
    }

    /// The work of a step begins.
    pub(super) fn begin(&mut self) {
        self.order.lock().working += 1;
        self.is_working = true;
    }

    /// This record of it is about to be saved, and it goes on for longer.
    pub(super) fn goes_on(&self, record: Record<'_>) {
        if record.at.is_some()
            && let Ok(record) = serde_json::to_vec(&Record { at: None, from: None, ..record })
        {
            self.order.lock().placed.insert(self.key.clone(), record);
        }
    }

    /// An empty record with its place; without one if it ran beside another call.
    pub(super) fn record(&self) -> Record<'static> {
        let was_alone = self.began == self.order.lock().overlaps;
        let (at, from) = match self.status {
            Status::Fresh { place, from } => (was_alone.then_some(place), from),
            Status::Saved(place) => (place, None),
            Status::LeftOut => (None, None),
        };
        Record { at, from: from.filter(|_| at.is_some()), ..Record::default() }
    }

    /// It ended with what is saved.
    pub(super) fn keep(&mut self) {
        self.has_ended = true;
    }

    /// It ended with an error that is not saved yet. `is_stopping`: the attempt was told to stop, so the error is not
    /// the work's own, and the call runs again whatever comes.
    pub(super) fn fail(&mut self, failure: Failure, is_stopping: bool) -> Failure {
        let record =
            Record { failure: (!is_stopping).then(|| failure.clone()), open: is_stopping, ..self.record() };
        let (at, from) = (record.at, record.from.or(record.at));
        self.has_ended = true;
        let mut state = self.order.lock();
        let ended = state.next_tick();
        state.undecided.insert(self.key.clone(), Undecided { record, ended });
        drop(state);
        self.returns(failure, at, from)
    }

    /// It ended with a temporary error that an earlier attempt saved.
    pub(super) fn fail_again(&mut self, failure: Failure, record: &Record<'_>) -> Failure {
        self.has_ended = true;
        self.returns(failure, record.at, record.from.or(record.at))
    }

    fn returns(&self, failure: Failure, at: Option<u32>, from: Option<u32>) -> Failure {
        let origin = Origin::new();
        let token = origin.token().map(Arc::downgrade).unwrap_or_default();
        let (key, message) = (self.key.clone(), failure.message.clone());
        self.order.lock().errors.push(Returned { key, at, from, message, token, was_kept: None });
        Failure { origin, ..failure }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let record = Record { left_out: true, ..Record::default() };
        let mut state = self.order.lock();
        state.working -= u32::from(self.is_working);
        state.active -= 1;
        state.placed.remove(&self.key);
        let ended = state.next_tick();
        if !self.has_ended && self.status != Status::LeftOut {
            state.undecided.insert(self.key.clone(), Undecided { record, ended });
        }
        self.order.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_only_as_a_whole() {
        assert!(names("charging: no funds", "no funds"));
        assert!(names("no", "no") && names("(no)", "no"));
        assert!(!names("none", "no") && !names("no", "") && !names("piano", "no"));
    }
}
