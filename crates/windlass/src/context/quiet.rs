//! Knowing when nothing in a handler can go on any more. Then, and not before, a job parks: what the handler runs beside
//! a sleep or a wait gets its chance to end first, as `select!` and `join!` promise. It is also when a call that waits
//! for its turn in vain is known to wait for code that is gone.

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

/// A call that waits for something that the handler itself does not do.
pub(super) struct Waiter {
    pub(super) kind: Kind,
    pub(super) waker: Waker,
    /// Where it was made.
    branch: Branch,
    answer: Option<Answer>,
}

/// What a parked job is woken by.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Awaited {
    Moment(Timestamp),
    Signal { name: String, step: String, until: Option<Timestamp> },
}

impl Awaited {
    fn until(&self) -> Option<Timestamp> {
        match self {
            Awaited::Moment(until) => Some(*until),
            Awaited::Signal { until, .. } => *until,
        }
    }

    /// As the store takes it.
    pub(super) fn into_park(self, now: Timestamp) -> Park {
        match self {
            Awaited::Moment(until) => Park::Until(until),
            Awaited::Signal { name, step, until } => {
                Park::Signal { name, step: Some(step), timeout: until.map(|until| until.since(now)) }
            }
        }
    }
}

/// What a call waits for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// For calls that come before it.
    Turn,
    /// The same, but it is saved: only until it is seen whether anything else in the handler can go on.
    Replay,
    /// The handler dropped it in an earlier attempt, when it had run for this long.
    LeftOut(Duration),
    /// To park.
    Park(Awaited),
    /// To spawn children and park.
    Spawn,
    /// To be told to stop; keeps no job from parking.
    Stop,
}

/// What a call that waits hears.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    /// Go on.
    Go,
    /// What it waits for will not come.
    Changed,
    /// Spawn now, and park on these as well.
    Spawn(Vec<Awaited>),
    /// Park, alone: nobody who could do it polls the handler.
    Alone,
}

/// What polling a handler came to.
pub(super) enum Polled<T> {
    Ready(T),
    Pending,
    /// It parks on any of these.
    Parks(Vec<Awaited>),
}

/// What to do about a handler that cannot go on.
enum Decision {
    /// Poll it again: a call was answered.
    Again,
    Park(Vec<Awaited>),
    Nothing,
}

impl Order {
    /// Waits until `is_ready`, or until the call is answered.
    pub(super) async fn wait(&self, kind: Kind, is_ready: impl Fn(&State) -> bool) -> Answer {
        let mut entry = Entry { order: self, id: None };
        poll_fn(|context| {
            let mut state = self.lock();
            if is_ready(&state) {
                return Poll::Ready(Answer::Go);
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
            // Being polled again is not news: patience goes on.
            if is_new && kind != Kind::Stop {
                self.changed.notify_one();
            }
            Poll::Pending
        })
        .await
    }

    /// Whether the handler itself is being polled on this thread; else a task of its own is.
    pub(super) fn is_polled_here(&self) -> bool {
        POLLED.get() == std::ptr::from_ref(self).addr()
    }

    /// Polls a handler, and says of all calls that are made meanwhile that they are its own.
    fn poll_here<T>(&self, poll: impl FnOnce() -> T) -> T {
        /// Goes back to what was polled before, also if polling panics.
        struct Back(usize);

        impl Drop for Back {
            fn drop(&mut self) {
                POLLED.set(self.0);
            }
        }

        let _back = Back(POLLED.replace(std::ptr::from_ref(self).addr()));
        poll()
    }

    /// Polls a handler, and decides about calls that wait once nothing else in it can go on. Whether anybody beside the
    /// handler has a copy of its context, and might make further calls, is for `has_copies` to say.
    pub(super) fn poll<T>(
        &self,
        context: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
        has_copies: impl Fn() -> bool,
    ) -> Polled<T> {
        loop {
            if let Poll::Ready(ended) = self.poll_here(|| poll(context)) {
                return Polled::Ready(ended);
            }
            if !self.has_waiters(context) {
                return Polled::Pending;
            }
            // Once more, and this time it is seen who keeps a way to wake the handler.
            let witness =
                Arc::new(WakerProbe { waker: context.waker().clone(), has_woken: AtomicBool::default() });
            let waker = Waker::from(witness.clone());
            if let Poll::Ready(ended) = self.poll_here(|| poll(&mut Context::from_waker(&waker))) {
                return Polled::Ready(ended);
            }
            let mut state = self.lock();
            let is_quiet = state.others(&witness, &waker) == 0 && !witness.has_woken.load(Ordering::SeqCst);
            state.is_quiet_beside_copies = false;
            if !is_quiet && state.answer(|kind| *kind == Kind::Replay, &Answer::Go, usize::MAX) {
                continue;
            }
            if !is_quiet && !state.must_park {
                return Polled::Pending;
            }
            match state.decide(has_copies()) {
                Decision::Again => {}
                Decision::Park(parks) => return Polled::Parks(parks),
                Decision::Nothing => return Polled::Pending,
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

    /// Never ends; decides about calls that have waited for too long, and ends sleeps whose time comes while the handler
    /// is busy with something else.
    pub(super) async fn hurry(&self, now: impl Fn() -> Timestamp) -> Infallible {
        loop {
            let (wait, ends_at) = self.lock().patience(now());
            let Some(wait) = wait else {
                self.changed.notified().await;
                continue;
            };
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(wait) => self.lose_patience(ends_at),
            }
        }
    }

    /// Nothing has changed for as long as is waited for it.
    fn lose_patience(&self, ends_at: Option<Timestamp>) {
        let mut state = self.lock();
        if let Some(ends_at) = ends_at {
            return state.end_waits(ends_at);
        }
        if state.has(|kind| *kind == Kind::Turn) {
            if state.is_quiet_beside_copies && !state.has_tasks {
                state.answer(|kind| *kind == Kind::Turn, &Answer::Changed, usize::MAX);
                return;
            }
            drop(state);
            tracing::warn!("steps come in another order than in earlier attempts; they run in this one");
            return self.forget_order();
        }
        if state.has_parks() {
            tracing::warn!(
                "the job parks while its handler waits for something else, such as a timer: that begins again when the \
                 job goes on; let it be limited by the timeout of `wait_signal`, or by `race` and `sleep`"
            );
            return state.park_now();
        }
        tracing::warn!(
            "a call that an earlier attempt dropped is not dropped this time, and runs again: let steps decide what is \
             dropped"
        );
        state.answer(|kind| matches!(kind, Kind::LeftOut(_)), &Answer::Go, 1);
    }
}

impl State {
    /// Parks without waiting for what else the handler does. A call that is not made by the handler itself, but by a
    /// task of its own or in another way, parks by itself.
    fn park_now(&mut self) {
        match &self.handler {
            Some(handler) if !self.must_park => {
                handler.wake_by_ref();
                self.must_park = true;
            }
            _ => {
                self.answer(|kind| matches!(kind, Kind::Park(_) | Kind::Spawn), &Answer::Alone, 1);
            }
        }
    }

    fn has(&self, is_it: impl Fn(&Kind) -> bool) -> bool {
        self.waiters.values().any(|waiter| is_it(&waiter.kind))
    }

    /// How many beside calls that wait keep a way to wake the handler.
    fn others(&self, witness: &Arc<WakerProbe>, waker: &Waker) -> usize {
        // The token that tells a handler to stop keeps one more.
        let held = |waiter: &Waiter| if waiter.kind == Kind::Stop { 2 } else { 1 };
        let own =
            self.waiters.values().filter(|waiter| waiter.waker.will_wake(waker)).map(held).sum::<usize>();
        // One is the witness itself, one its waker.
        Arc::strong_count(witness).saturating_sub(2 + own)
    }

    fn answer(&mut self, is_it: impl Fn(&Kind) -> bool, answer: &Answer, most: usize) -> bool {
        let mut found = self.waiters.values_mut().filter(|waiter| is_it(&waiter.kind)).take(most).peekable();
        let is_any = found.peek().is_some();
        for waiter in found {
            waiter.answer = Some(answer.clone());
            waiter.waker.wake_by_ref();
        }
        is_any
    }

    fn parks(&self) -> Vec<Awaited> {
        let parks = self.waiters.values().filter_map(|waiter| match &waiter.kind {
            Kind::Park(awaited) => Some(awaited.clone()),
            Kind::Turn | Kind::Replay | Kind::LeftOut(_) | Kind::Spawn | Kind::Stop => None,
        });
        parks.collect()
    }

    fn has_parks(&self) -> bool {
        self.has(|kind| matches!(kind, Kind::Park(_) | Kind::Spawn))
    }

    /// Whether a step works whose work is more than calls that wait.
    fn is_working(&self) -> bool {
        let waits_for =
            |waiter: &Waiter, key: &str| waiter.kind != Kind::Stop && waiter.branch.is_within(key);
        self.working.iter().any(|key| !self.waiters.values().any(|waiter| waits_for(waiter, key)))
    }

    /// What to do now that nothing can go on.
    fn decide(&mut self, has_copies: bool) -> Decision {
        self.must_park = false;
        if self.is_over {
            return Decision::Nothing;
        }
        let is_left_out = |kind: &Kind| matches!(kind, Kind::LeftOut(_));
        let is_else = |kind: &Kind| is_left_out(kind) || matches!(kind, Kind::Park(_) | Kind::Spawn);
        // What has happened comes before anything new, unless it is certain that the code was changed.
        let is_changed = !has_copies && !self.has(is_else);
        let answer = if is_changed { Answer::Changed } else { Answer::Go };
        if self.answer(|kind| *kind == Kind::Replay, &answer, usize::MAX) {
            return Decision::Again;
        }
        let parks = self.parks();
        if self.has(|kind| *kind == Kind::Spawn) {
            self.answer(|kind| *kind == Kind::Spawn, &Answer::Spawn(parks), 1);
            return Decision::Again;
        }
        if !parks.is_empty() {
            return Decision::Park(parks);
        }
        // A call that was dropped in an earlier attempt, and is not this time: the first of them goes on.
        if self.answer(is_left_out, &Answer::Go, 1) {
            return Decision::Again;
        }
        self.is_quiet_beside_copies = has_copies;
        if !has_copies && self.answer(|kind| *kind == Kind::Turn, &Answer::Changed, usize::MAX) {
            return Decision::Again;
        }
        Decision::Nothing
    }

    /// How long to wait for a change, if for any; and the moment that then has come, if a sleep ends there.
    fn patience(&self, now: Timestamp) -> (Option<Duration>, Option<Timestamp>) {
        // The store answers in its own time, which must not decide what a handler comes to.
        if self.storing > 0 {
            return (None, None);
        }
        if self.has(|kind| *kind == Kind::Turn) {
            let is_alone = self.is_quiet_beside_copies && !self.has_tasks;
            let wait = if is_alone { limits::STEP_COPY_WAIT_MAX } else { limits::STEP_TURN_WAIT_MAX };
            return (Some(wait), None);
        }
        if !self.has_parks() {
            return (self.patience_with_dropped(), None);
        }
        if !self.is_working() {
            return (Some(limits::PARK_WAIT_MAX), None);
        }
        // A step runs beside it, and may end first.
        let first = self.parks().iter().filter_map(Awaited::until).min();
        (first.map(|until| until.since(now)), first)
    }

    /// How long to wait for what the handler preferred to calls that it dropped in an earlier attempt.
    fn patience_with_dropped(&self) -> Option<Duration> {
        let dropped = self.waiters.values().filter_map(|waiter| match waiter.kind {
            Kind::LeftOut(ran) => Some(ran),
            _ => None,
        });
        let longest = dropped.max().filter(|_| !self.is_working())?;
        Some(longest.saturating_mul(2).saturating_add(limits::DROPPED_STEP_WAIT_MAX))
    }

    fn end_waits(&mut self, ends_at: Timestamp) {
        let is_over = |kind: &Kind| matches!(kind, Kind::Park(Awaited::Moment(until)) if *until <= ends_at);
        if !self.answer(is_over, &Answer::Go, usize::MAX) {
            // Whether a signal came in time is for the store to say.
            self.park_now();
        }
    }
}

/// A call of the store that is under way.
pub(super) struct Storing<'a>(&'a Order);

impl Order {
    /// Keeps calls that wait from losing patience until the store has answered.
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

/// A waiter as long as its call waits.
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

/// Sees whether somebody keeps a waker, or has used it.
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

    /// How long the store takes must not decide what a handler comes to: a sleep beside a group that is just being spawned
    /// does not park alone.
    #[tokio::test]
    async fn nobody_loses_patience_while_the_store_is_asked() {
        let order = Order::default();
        let sleep = Kind::Park(Awaited::Moment(Timestamp::from_millis(60_000)));
        let mut sleeping = std::pin::pin!(order.wait(sleep, |_| false));
        assert!(sleeping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(order.lock().patience(Timestamp::MIN), (Some(limits::PARK_WAIT_MAX), None));
        let asking = order.storing();
        assert_eq!(order.lock().patience(Timestamp::MIN), (None, None));
        drop(asking);
        assert_eq!(order.lock().patience(Timestamp::MIN), (Some(limits::PARK_WAIT_MAX), None));
    }
}
