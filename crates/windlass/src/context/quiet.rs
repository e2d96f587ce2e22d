//! Detects when nothing in a handler can continue. Only then does a job park, so that futures that run beside a sleep
//! or a wait can finish first, as `select!` and `join!` promise. At that point it is also known that a call that still
//! waits for its turn waits for code that was removed.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use super::branch::Branch;
use super::step_order::{Order, State};
use crate::clock::Timestamp;
use crate::limits;
use crate::store::command::finish::Park;

thread_local! {
    /// The address of the order whose handler is being polled on this thread.
    static POLLED: Cell<usize> = const { Cell::new(0) };
}

/// A call that waits for something outside the handler.
pub(super) struct Waiter {
    pub(super) kind: Kind,
    pub(super) waker: Waker,
    /// The branch in which it was made.
    branch: Branch,
    answer: Option<WaitAnswer>,
}

/// What wakes a parked job.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WakeUp {
    Moment(Timestamp),
    Signal {
        name: String,
        step: String,
        until: Option<Timestamp>,
    },
    /// A group of children that was spawned.
    Group(String),
}

impl WakeUp {
    fn until(&self) -> Option<Timestamp> {
        match self {
            WakeUp::Moment(until) => Some(*until),
            WakeUp::Signal { until, .. } => *until,
            WakeUp::Group(_) => None,
        }
    }

    /// The value as the store takes it.
    pub(super) fn into_park(self, now: Timestamp) -> Park {
        match self {
            WakeUp::Moment(until) => Park::Until(until),
            WakeUp::Group(name) => Park::Group { name },
            WakeUp::Signal { name, step, until } => {
                Park::Signal { name, step: Some(step), timeout: until.map(|until| until.since(now)) }
            }
        }
    }
}

/// What a call waits for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// For earlier calls.
    Turn,
    /// Like `Turn`, but its result is saved: it waits only until it is known whether anything else in the handler can
    /// continue.
    Replay,
    /// The handler dropped it in an earlier attempt, after it had run for this long.
    LeftOut(Duration),
    /// To park.
    Park(WakeUp),
    /// To spawn children and park.
    Spawn,
    /// To be stopped; does not keep a job from parking.
    Stop,
}

/// The answer to a waiting call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WaitAnswer {
    /// Continue.
    Go,
    /// The awaited calls will not be made: the code was changed.
    Changed,
    /// Spawn now, and park on these as well.
    Spawn(Vec<WakeUp>),
    /// Spawn now without parking, because another call spawns children beside it.
    SpawnFirst,
    /// Park alone, because no task polls the handler.
    Alone,
}

/// The result of polling a handler.
pub(super) enum HandlerPoll<T> {
    Ready(T),
    Pending,
    /// It parks on any of these.
    Parks(Vec<WakeUp>),
}

/// What to do with a handler that cannot continue.
enum Decision {
    /// Poll it again, because a call was answered.
    Again,
    Park(Vec<WakeUp>),
    Nothing,
}

impl Order {
    /// Waits until `is_ready`, or until the call is answered.
    pub(super) async fn wait(&self, kind: Kind, is_ready: impl Fn(&State) -> bool) -> WaitAnswer {
        let mut entry = Entry { order: self, id: None };
        poll_fn(|context| {
            let mut state = self.lock();
            if is_ready(&state) {
                return Poll::Ready(WaitAnswer::Go);
            }
            if let Some(answer) = entry.id.and_then(|id| state.waiters.get_mut(&id)?.answer.take()) {
                return Poll::Ready(answer);
            }
            let is_new = entry.id.is_none();
            let id = *entry.id.get_or_insert_with(|| {
                state.waiters_made += 1;
                state.waiters_made
            });
            let (waker, branch) = (context.waker().clone(), Branch::current());
            state.waiters.insert(id, Waiter { kind: kind.clone(), waker, branch, answer: None });
            drop(state);
            // Being polled again does not restart the wait.
            if is_new && kind != Kind::Stop {
                self.changed.notify_one();
            }
            Poll::Pending
        })
        .await
    }

    /// Whether the handler itself is being polled on this thread, and not a spawned task.
    pub(super) fn is_polled_here(&self) -> bool {
        POLLED.get() == std::ptr::from_ref(self).addr()
    }

    /// Polls a handler, and marks calls made in the meantime as its own.
    fn poll_here<T>(&self, poll: impl FnOnce() -> T) -> T {
        /// Restores the previous value, even if polling panics.
        struct Back(usize);

        impl Drop for Back {
            fn drop(&mut self) {
                POLLED.set(self.0);
            }
        }

        let _back = Back(POLLED.replace(std::ptr::from_ref(self).addr()));
        poll()
    }

    /// Polls a handler, and answers waiting calls once nothing else in it can continue. `has_copies` returns whether
    /// another task has a copy of the context and could make further calls.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
        has_copies: impl Fn() -> bool,
    ) -> HandlerPoll<T> {
        loop {
            if let Poll::Ready(ended) = self.poll_here(|| poll(context)) {
                return HandlerPoll::Ready(ended);
            }
            if !self.has_waiters(context) {
                return HandlerPoll::Pending;
            }
            // Polls once more with a probe, to see which futures keep a waker of the handler.
            let witness =
                Arc::new(WakerProbe { waker: context.waker().clone(), has_woken: AtomicBool::default() });
            let waker = Waker::from(witness.clone());
            if let Poll::Ready(ended) = self.poll_here(|| poll(&mut Context::from_waker(&waker))) {
                return HandlerPoll::Ready(ended);
            }
            let mut state = self.lock();
            let is_quiet = state.others(&witness, &waker) == 0 && !witness.has_woken.load(Ordering::SeqCst);
            state.is_quiet_beside_copies = false;
            if !is_quiet && state.answer(|kind| *kind == Kind::Replay, &WaitAnswer::Go, usize::MAX) {
                continue;
            }
            if !is_quiet && !state.must_park {
                return HandlerPoll::Pending;
            }
            match state.decide(has_copies()) {
                Decision::Again => {}
                Decision::Park(parks) => return HandlerPoll::Parks(parks),
                Decision::Nothing => return HandlerPoll::Pending,
            }
        }
    }

    fn has_waiters(&self, context: &Context<'_>) -> bool {
        let mut state = self.lock();
        let has_waiters = state.waiters.values().any(|waiter| waiter.kind != Kind::Stop);
        if has_waiters {
            state.handler = Some(context.waker().clone());
        }
        has_waiters
    }

    /// Never returns. Answers calls that have waited too long, and ends sleeps that are due while the handler is busy.
    pub(super) async fn watch_waits(&self, now: impl Fn() -> Timestamp) -> Infallible {
        loop {
            let (wait, ends_at) = self.lock().wait_limit(now());
            let Some(wait) = wait else {
                self.changed.notified().await;
                continue;
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(wait) => self.wait_expired(ends_at),
            }
        }
    }

    /// Nothing has changed within the longest wait.
    fn wait_expired(&self, ends_at: Option<Timestamp>) {
        let mut state = self.lock();
        if let Some(ends_at) = ends_at {
            return state.end_waits(ends_at);
        }
        if state.has(|kind| *kind == Kind::Turn) {
            // Also beside a copy of the context: a task that has it may be late, so the code need not have changed.
            drop(state);
            tracing::warn!("the order of steps differs from earlier attempts; running them in the new order");
            return self.stop_ordering();
        }
        if state.has_parks() {
            tracing::warn!(
                "the job parks while its handler waits for something else, such as a timer, which restarts when the job \
                 runs again; use the timeout of `wait_signal`, or `race` and `sleep`, instead"
            );
            return state.park_now();
        }
        tracing::warn!(
            "a call that an earlier attempt dropped is not dropped this time, and runs again: let steps decide which \
             calls are dropped"
        );
        state.answer(|kind| matches!(kind, Kind::LeftOut(_)), &WaitAnswer::Go, 1);
    }
}

impl State {
    /// Parks without waiting for the rest of the handler. A call made by a spawned task parks by itself.
    fn park_now(&mut self) {
        match &self.handler {
            Some(handler) if !self.must_park => {
                handler.wake_by_ref();
                self.must_park = true;
            }
            _ => {
                self.answer(|kind| matches!(kind, Kind::Park(_) | Kind::Spawn), &WaitAnswer::Alone, 1);
            }
        }
    }

    fn has(&self, is_it: impl Fn(&Kind) -> bool) -> bool {
        self.waiters.values().any(|waiter| is_it(&waiter.kind))
    }

    /// How many futures, other than waiting calls, keep a waker of the handler.
    fn others(&self, witness: &Arc<WakerProbe>, waker: &Waker) -> usize {
        // The cancellation token keeps one more.
        let held = |waiter: &Waiter| if waiter.kind == Kind::Stop { 2 } else { 1 };
        let own =
            self.waiters.values().filter(|waiter| waiter.waker.will_wake(waker)).map(held).sum::<usize>();
        // One for the probe itself, one for its waker.
        Arc::strong_count(witness).saturating_sub(2 + own)
    }

    fn answer(&mut self, is_it: impl Fn(&Kind) -> bool, answer: &WaitAnswer, most: usize) -> bool {
        let mut found = self.waiters.values_mut().filter(|waiter| is_it(&waiter.kind)).take(most).peekable();
        let is_any = found.peek().is_some();
        for waiter in found {
            waiter.answer = Some(answer.clone());
            waiter.waker.wake_by_ref();
        }
        is_any
    }

    fn parks(&self) -> Vec<WakeUp> {
        let parks = self.waiters.values().filter_map(|waiter| match &waiter.kind {
            Kind::Park(awaited) => Some(awaited.clone()),
            Kind::Turn | Kind::Replay | Kind::LeftOut(_) | Kind::Spawn | Kind::Stop => None,
        });
        parks.collect()
    }

    fn has_parks(&self) -> bool {
        self.has(|kind| matches!(kind, Kind::Park(_) | Kind::Spawn))
    }

    /// Whether a step is working that does more than wait in calls.
    fn is_working(&self) -> bool {
        let waits_for =
            |waiter: &Waiter, key: &str| waiter.kind != Kind::Stop && waiter.branch.is_within(key);
        self.working.iter().any(|key| !self.waiters.values().any(|waiter| waits_for(waiter, key)))
    }

    /// Decides what to do now that nothing can continue.
    fn decide(&mut self, has_copies: bool) -> Decision {
        self.must_park = false;
        if self.is_over {
            return Decision::Nothing;
        }
        let is_left_out = |kind: &Kind| matches!(kind, Kind::LeftOut(_));
        let is_else = |kind: &Kind| is_left_out(kind) || matches!(kind, Kind::Park(_) | Kind::Spawn);
        // Saved calls go before new ones, unless the code was certainly changed.
        let is_changed = !has_copies && !self.has(is_else);
        let answer = if is_changed { WaitAnswer::Changed } else { WaitAnswer::Go };
        if self.answer(|kind| *kind == Kind::Replay, &answer, usize::MAX) {
            return Decision::Again;
        }
        let parks = self.parks();
        let spawning = self.waiters.values().filter(|waiter| waiter.kind == Kind::Spawn).count();
        if spawning > 0 {
            // The last of several groups parks, on all of them.
            let answer = if spawning == 1 { WaitAnswer::Spawn(parks) } else { WaitAnswer::SpawnFirst };
            self.answer(|kind| *kind == Kind::Spawn, &answer, 1);
            return Decision::Again;
        }
        if !parks.is_empty() {
            return Decision::Park(parks);
        }
        // A call that was dropped in an earlier attempt, but not in this one: the first of them continues.
        if self.answer(is_left_out, &WaitAnswer::Go, 1) {
            return Decision::Again;
        }
        self.is_quiet_beside_copies = has_copies;
        if !has_copies && self.answer(|kind| *kind == Kind::Turn, &WaitAnswer::Changed, usize::MAX) {
            return Decision::Again;
        }
        Decision::Nothing
    }

    /// How long to wait for a change, if at all, and the end of a sleep that is then reached.
    fn wait_limit(&self, now: Timestamp) -> (Option<Duration>, Option<Timestamp>) {
        // The duration of a store request must not affect what a handler does.
        if self.storing > 0 {
            return (None, None);
        }
        if self.has(|kind| *kind == Kind::Turn) {
            let is_alone = self.is_quiet_beside_copies && !self.has_tasks;
            let wait = if is_alone { limits::STEP_COPY_WAIT_MAX } else { limits::STEP_TURN_WAIT_MAX };
            return (Some(wait), None);
        }
        if !self.has_parks() {
            return (self.wait_for_dropped(), None);
        }
        if !self.is_working() {
            return (Some(limits::PARK_WAIT_MAX), None);
        }
        // A step runs beside it and may end first.
        let first = self.parks().iter().filter_map(WakeUp::until).min();
        (first.map(|until| until.since(now)), first)
    }

    /// How long to wait for the calls that the handler preferred over those it dropped in an earlier attempt.
    fn wait_for_dropped(&self) -> Option<Duration> {
        let dropped = self.waiters.values().filter_map(|waiter| match waiter.kind {
            Kind::LeftOut(ran) => Some(ran),
            _ => None,
        });
        let longest = dropped.max().filter(|_| !self.is_working())?;
        Some(longest.saturating_mul(2).saturating_add(limits::DROPPED_STEP_WAIT_MAX))
    }

    fn end_waits(&mut self, ends_at: Timestamp) {
        let is_over = |kind: &Kind| matches!(kind, Kind::Park(WakeUp::Moment(until)) if *until <= ends_at);
        if !self.answer(is_over, &WaitAnswer::Go, usize::MAX) {
            // Whether a signal arrived in time is decided by the store.
            self.park_now();
        }
    }
}

/// A store request in progress.
pub(super) struct Storing<'a>(&'a Order);

impl Order {
    /// Stops the wait limits until the store has answered.
    pub(super) fn storing(&self) -> Storing<'_> {
        self.lock().storing += 1;
        self.changed.notify_one();
        Storing(self)
    }
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        self.0.lock().storing -= 1;
        self.0.changed.notify_one();
    }
}

/// Registers a waiter while its call waits.
struct Entry<'a> {
    order: &'a Order,
    id: Option<u64>,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.order.lock().waiters.remove(&id);
        }
    }
}

/// Detects whether a waker is kept or used.
struct WakerProbe {
    waker: Waker,
    has_woken: AtomicBool,
}

impl Wake for WakerProbe {
    fn wake(self: Arc<WakerProbe>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<WakerProbe>) {
        self.has_woken.store(true, Ordering::SeqCst);
        self.waker.wake_by_ref();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The duration of a store request must not affect what a handler does: a sleep beside a group that is being
    /// spawned does not park alone.
    #[tokio::test]
    async fn no_wait_expires_during_a_store_request() {
        let order = Order::default();
        let sleep = Kind::Park(WakeUp::Moment(Timestamp::from_millis(60_000)));
        let mut sleeping = std::pin::pin!(order.wait(sleep, |_| false));
        assert!(sleeping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(order.lock().wait_limit(Timestamp::MIN), (Some(limits::PARK_WAIT_MAX), None));
        let asking = order.storing();
        assert_eq!(order.lock().wait_limit(Timestamp::MIN), (None, None));
        drop(asking);
        assert_eq!(order.lock().wait_limit(Timestamp::MIN), (Some(limits::PARK_WAIT_MAX), None));
    }
}
