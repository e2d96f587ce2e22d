//! Deadlines in real time, and the thread that wakes waiting tasks. It needs no runtime with a timer, since callers of
//! a store may have none, and it ignores a runtime whose time is paused.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::monotonic_now;

/// The time by which a request must be answered. It counts real time: neither the store's clock nor a paused runtime
/// affects it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

tokio::task_local! {
    /// The deadline of the current task's request; `None` once it has waited intentionally.
    static REQUEST: Cell<Option<Deadline>>;
}

impl Deadline {
    /// Runs a request that makes several calls to a store: together they have until this deadline. A call that waits
    /// intentionally, such as a claim that waits for jobs, ends that; later calls have their own time again.
    pub async fn scope<T>(self, request: impl Future<Output = T>) -> T {
        REQUEST.scope(Cell::new(Some(self)), request).await
    }

    /// The deadline of one call to a store: `wait` from now, but not after that of its request.
    pub(crate) fn for_call(wait: Duration) -> Deadline {
        let own = Deadline::after(wait);
        REQUEST.try_with(Cell::get).ok().flatten().map_or(own, |request| own.min(request))
    }

    /// Extends the deadline of the current task's request: its client took this long to send the rest of it.
    pub fn extend_request(by: Duration) {
        // Outside a request there is nothing to extend.
        let _ = REQUEST.try_with(|request| request.set(request.get().map(|deadline| deadline.plus(by))));
    }

    /// Clears the request's deadline after an intentional wait, which does not count as time that the store took.
    pub(crate) fn restart_request() {
        // Outside a request there is nothing to restart.
        let _ = REQUEST.try_with(|request| request.set(None));
    }

    /// A deadline `wait` from now.
    pub fn after(wait: Duration) -> Deadline {
        let now = monotonic_now();
        Deadline(now.checked_add(wait).unwrap_or(now))
    }

    /// This deadline, later.
    #[must_use]
    pub fn plus(self, by: Duration) -> Deadline {
        Deadline(self.0.checked_add(by).unwrap_or(self.0))
    }

    /// This deadline, earlier.
    #[must_use]
    pub fn minus(self, by: Duration) -> Deadline {
        Deadline(self.0.checked_sub(by).unwrap_or(self.0))
    }

    /// Remaining time; zero once it has passed.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(monotonic_now())
    }

    /// Whether it has passed.
    pub fn is_over(self) -> bool {
        self.left().is_zero()
    }

    /// Returns once it has passed.
    pub fn passed(self) -> impl Future<Output = ()> + Send {
        Timer { deadline: self, number: None }
    }
}

/// A task that waits for a deadline.
struct Timer {
    deadline: Deadline,
    /// Its number in the list of timers.
    number: Option<u64>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.deadline.is_over() {
            return Poll::Ready(());
        }
        let mut alarms = ALARMS.lock();
        let number = *self.number.get_or_insert_with(|| alarms.next_number());
        let is_first = alarms.waiting.keys().next().is_none_or(|first| self.deadline < first.0);
        alarms.waiting.insert((self.deadline, number), context.waker().clone());
        drop(alarms);
        if is_first {
            ALARMS.changed.notify_one();
        }
        Poll::Pending
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            ALARMS.lock().waiting.remove(&(self.deadline, number));
        }
    }
}

/// All waiting tasks of this process, and the thread that wakes them.
static ALARMS: LazyLock<Timers> = LazyLock::new(|| {
    let thread = std::thread::Builder::new().name("windlass-deadlines".to_owned());
    if let Err(error) = thread.spawn(|| ALARMS.run()) {
        tracing::error!(%error, "failed to start the timer thread: requests are not answered by their deadlines");
    }
    Timers::default()
});

#[derive(Default)]
struct Timers {
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    waiting: BTreeMap<(Deadline, u64), Waker>,
    given: u64,
}

impl Waiting {
    fn next_number(&mut self) -> u64 {
        self.given += 1;
        self.given
    }
}

impl Timers {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the tasks whose deadlines have passed; never returns.
    fn run(&self) {
        let mut state = self.lock();
        loop {
            let Some(first) = state.waiting.keys().next().map(|(deadline, _)| *deadline) else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if !first.is_over() {
                let waited = self.changed.wait_timeout(state, first.left());
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let due = state.waiting.pop_first();
            drop(state);
            // Not under the lock: a woken task may come back at once.
            if let Some((_, waker)) = due {
                waker.wake();
            }
            state = self.lock();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_of_a_request_share_its_deadline_until_it_waits_on_purpose() {
        let (long, short) = (Duration::from_secs(60), Duration::from_secs(5));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let request = Deadline::after(short);
        runtime.block_on(request.scope(async {
            assert_eq!(Deadline::for_call(long), request);
            assert!(Deadline::for_call(Duration::ZERO) < request, "a call may have less time");
            Deadline::extend_request(short);
            assert_eq!(Deadline::for_call(long), request.plus(short));
            Deadline::restart_request();
            assert!(Deadline::for_call(long) > request.plus(short));
        }));
        assert!(Deadline::for_call(long) > request, "outside a request a call has its own time");
    }

    /// In a runtime that cannot wait by itself.
    #[test]
    fn deadlines_pass_in_their_order_without_a_timer() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let [soon, late] = [20, 60].map(|millis| Deadline::after(Duration::from_millis(millis)));
        runtime.block_on(async {
            let never = Deadline::after(Duration::from_secs(3600));
            tokio::select! {
                () = never.passed() => panic!("an hour has not passed"),
                () = late.passed() => panic!("the sooner one comes first"),
                () = soon.passed() => {}
            }
            assert!(soon.is_over());
            late.passed().await;
            assert!(late.is_over());
        });
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_does_not_move_a_deadline() {
        let deadline = Deadline::after(Duration::from_secs(3600));
        let early = tokio::time::timeout(Duration::from_secs(7200), deadline.passed()).await;
        assert!(early.is_err() && !deadline.is_over());
    }
}
