//! The order of steps. A strict worker runs a job's steps in the order in which earlier attempts saved them (M71), except
//! for those that ran side by side: they have none.
//!
//! The order in which calls arrive proves nothing, since handlers may run steps concurrently. So a step that comes early
//! waits for those before it; only when nothing else in the handler can go on any more is it known that they will not
//! come, and that the code was changed.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use tokio::sync::Notify;

use super::lock;
use crate::job::Failure;
use crate::limits;

/// Which steps this attempt has called, and which of those that earlier attempts saved it has not.
#[derive(Default)]
pub(super) struct Order {
    state: Mutex<State>,
    /// Somebody waits for a turn.
    began_to_wait: Notify,
}

#[derive(Default)]
struct State {
    /// Saved and not called yet, by place.
    missing: BTreeSet<(u32, String)>,
    /// Where in the order each saved step is.
    places: BTreeMap<String, u32>,
    occurrences: BTreeMap<String, Occurrences>,
    /// Calls so far.
    calls: u32,
    /// Steps whose work is being done.
    working: u32,
    /// How often a step began beside another.
    overlaps: u32,
    /// Who waits for a turn, by the number of the call.
    waiting: BTreeMap<u32, Waker>,
    verdict: Option<Verdict>,
}

/// What is known once waiting is over.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    /// Nothing but steps that wait for each other: what they wait for cannot come.
    Changed,
    /// It did not come, but something else in the handler may still go on.
    Overdue,
}

/// How often a name was called; a call that came to nothing does not count.
#[derive(Default)]
struct Occurrences {
    count: u32,
    given_back: BTreeSet<u32>,
}

/// One call of a step.
pub(super) struct Call<'a> {
    order: &'a Order,
    number: u32,
    name: String,
    occurrence: u32,
    /// Where an earlier attempt saved it.
    place: Option<u32>,
    /// Overlaps when its work began; none while it does not work.
    began: Option<u32>,
    is_kept: bool,
}

impl Order {
    /// With the places of the steps that earlier attempts saved.
    pub(super) fn new(saved: impl Iterator<Item = (u32, String)>) -> Order {
        let missing: BTreeSet<_> = saved.collect();
        let places = missing.iter().map(|(place, key)| (key.clone(), *place)).collect();
        let state = State { missing, places, ..State::default() };
        Order { state: Mutex::new(state), ..Order::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The name under which this call is saved: its own, with its number from the second on (M71).
    pub(super) fn occurrence(&self, name: &str) -> String {
        key_of(name, self.lock().occurrence(name))
    }

    /// Takes note of a call.
    pub(super) fn call(&self, name: &str) -> Call<'_> {
        let mut state = self.lock();
        let occurrence = state.occurrence(name);
        let number = state.calls;
        state.calls += 1;
        let key = key_of(name, occurrence);
        let place = state.places.get(&key).copied();
        if let Some(place) = place {
            state.missing.remove(&(place, key));
            // Whoever waited for this one looks again.
            std::mem::take(&mut state.waiting).into_values().for_each(Waker::wake);
        }
        Call { order: self, number, name: name.to_owned(), occurrence, place, began: None, is_kept: false }
    }

    fn is_waited_for(&self) -> bool {
        let state = self.lock();
        state.verdict.is_none() && !state.waiting.is_empty()
    }

    fn decide(&self, verdict: Verdict) {
        let mut state = self.lock();
        state.verdict = Some(verdict);
        std::mem::take(&mut state.waiting).into_values().for_each(Waker::wake);
    }

    /// Polls a handler, and decides about steps that wait for their turn once nothing else in it can go on. Whether tasks
    /// of its own might is for `has_tasks` to say.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
        has_tasks: impl Fn() -> bool,
    ) -> Poll<T> {
        let polled = poll(context);
        if polled.is_ready() || !self.is_waited_for() {
            return polled;
        }
        // Once more, and this time it is seen who keeps a way to wake the handler.
        let witness = Arc::new(Witness { waker: context.waker().clone(), has_woken: AtomicBool::default() });
        let waker = Waker::from(witness.clone());
        let polled = poll(&mut Context::from_waker(&waker));
        if polled.is_ready() || !self.is_waited_for() {
            return polled;
        }
        let own = self.lock().waiting.values().filter(|waiting| waiting.will_wake(&waker)).count();
        // One is the witness here, one its waker.
        let others = Arc::strong_count(&witness).saturating_sub(2 + own);
        if others > 0 || witness.has_woken.load(Ordering::SeqCst) || has_tasks() {
            return Poll::Pending;
        }
        self.decide(Verdict::Changed);
        poll(context)
    }

    /// Never ends; decides about steps that wait for too long.
    pub(super) async fn hurry(&self) -> Infallible {
        loop {
            self.began_to_wait.notified().await;
            while self.is_waited_for() {
                let calls = self.lock().calls;
                tokio::time::sleep(limits::STEP_TURN_WAIT_MAX).await;
                if self.is_waited_for() && self.lock().calls == calls {
                    self.decide(Verdict::Overdue);
                }
            }
        }
    }
}

impl State {
    fn occurrence(&mut self, name: &str) -> u32 {
        let occurrences = self.occurrences.entry(name.to_owned()).or_default();
        occurrences.given_back.pop_first().unwrap_or_else(|| {
            occurrences.count += 1;
            occurrences.count
        })
    }

    fn first_missing(&self, before: u32) -> Option<&(u32, String)> {
        self.missing.first().filter(|(place, _)| *place < before)
    }
}

fn key_of(name: &str, occurrence: u32) -> String {
    if occurrence == 1 { name.to_owned() } else { format!("{name}#{occurrence}") }
}

impl Call<'_> {
    /// The name under which it is saved.
    pub(super) fn key(&self) -> String {
        key_of(&self.name, self.occurrence)
    }

    /// Returns when every step was called that earlier attempts saved with a place before this one's.
    pub(super) async fn in_turn(&self, is_saved: bool) -> Result<(), Failure> {
        // A step without a place ran beside others. A new one comes after all that were saved at its place or before.
        let before = if is_saved { self.place.unwrap_or(0) } else { self.number + 1 };
        poll_fn(|context| {
            let mut state = self.order.lock();
            let Some((place, missing)) = state.first_missing(before) else { return Poll::Ready(Ok(())) };
            if let Some(verdict) = state.verdict {
                return Poll::Ready(Err(refusal(verdict, &self.key(), *place, missing)));
            }
            state.waiting.insert(self.number, context.waker().clone());
            self.order.began_to_wait.notify_one();
            Poll::Pending
        })
        .await
    }

    /// Its work begins.
    pub(super) fn begin(&mut self) {
        let mut state = self.order.lock();
        state.overlaps += u32::from(state.working > 0);
        state.working += 1;
        // One that began beside others has overlapped already, whatever else comes.
        self.began = Some(if state.working > 1 { u32::MAX } else { state.overlaps });
    }

    /// Its place in the order; none if it ran beside another.
    pub(super) fn place(&self) -> Option<u32> {
        (self.began == Some(self.order.lock().overlaps)).then_some(self.number)
    }

    /// It was saved: the next call of this name is another step.
    pub(super) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut state = self.order.lock();
        state.working -= u32::from(self.began.is_some());
        state.waiting.remove(&self.number);
        // It came to nothing: the next call of this name takes its number.
        if !self.is_kept
            && let Some(occurrences) = state.occurrences.get_mut(&self.name)
        {
            occurrences.given_back.insert(self.occurrence);
        }
    }
}

fn refusal(verdict: Verdict, key: &str, place: u32, missing: &str) -> Failure {
    let message = format!(
        "the code was changed: step `{key}` comes now where an earlier attempt saved `{missing}` as step {place}; \
         let jobs that began before end first, or make the worker lenient"
    );
    match verdict {
        Verdict::Changed => Failure::permanent("steps_changed", message),
        // The handler was still busy with something else: the next attempt may find them in another order.
        Verdict::Overdue => Failure::temporary(message).with_code("steps_changed"),
    }
}

/// Sees whether somebody keeps a waker, or has used it.
struct Witness {
    waker: Waker,
    has_woken: AtomicBool,
}

impl Wake for Witness {
    fn wake(self: Arc<Witness>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Witness>) {
        self.has_woken.store(true, Ordering::SeqCst);
        self.waker.wake_by_ref();
    }
}
