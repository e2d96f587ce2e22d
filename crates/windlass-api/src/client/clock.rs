//! The server's clock as seen from here. Stored times are the server's: a handler on a machine whose clock is an
//! hour off must not sleep an hour longer.

use std::sync::{Mutex, PoisonError};

use windlass_core::clock::Timestamp;

/// A clock of this process that is adjusted by every response of the server.
pub struct ServerClock {
    own: Box<dyn Fn() -> Timestamp + Send + Sync>,
    known: Mutex<Estimate>,
}

#[derive(Default)]
struct Estimate {
    /// Milliseconds by which the server's clock is ahead.
    ahead: i64,
    /// The server's time in the response that was taken last.
    shown: Option<Timestamp>,
    /// Number of responses that were taken.
    taken: u64,
}

/// Which responses had been taken when a request was sent.
#[derive(Clone, Copy)]
pub(super) struct RequestMark(u64);

impl ServerClock {
    /// A clock that shows what `own` returns until the first response.
    pub fn new(own: impl Fn() -> Timestamp + Send + Sync + 'static) -> ServerClock {
        ServerClock { own: Box::new(own), known: Mutex::default() }
    }

    /// The server's current time, estimated from its latest response.
    pub fn now(&self) -> Timestamp {
        let ahead = self.known().ahead;
        Timestamp::from_millis((self.own)().as_millis().saturating_add(ahead))
    }

    /// Called when a request is sent.
    pub(super) fn sent(&self) -> RequestMark {
        RequestMark(self.known().taken)
    }

    /// Adjusts to the server's time in the response to a request.
    ///
    /// Responses overtake each other: one that was written before another that came first would set the clock back, and a
    /// sleep that has ended would begin to wait again. It is left out if it shows an earlier time than one that was taken
    /// since its request. Requests sent later are believed in any case, so that a restored server is.
    pub(super) fn update(&self, now: Timestamp, sent: RequestMark) {
        let own = (self.own)();
        let mut known = self.known();
        if known.taken != sent.0 && known.shown.is_some_and(|shown| now < shown) {
            return;
        }
        *known =
            Estimate { ahead: now.as_millis() - own.as_millis(), shown: Some(now), taken: known.taken + 1 };
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Estimate> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[test]
    fn the_servers_time_counts_and_continues_by_itself() {
        let own = Arc::new(AtomicI64::new(1_000));
        let read = own.clone();
        let clock = ServerClock::new(move || Timestamp::from_millis(read.load(Ordering::Relaxed)));
        assert_eq!(clock.now().as_millis(), 1_000);
        clock.update(Timestamp::from_millis(5_000_000), clock.sent());
        own.fetch_add(10, Ordering::Relaxed);
        assert_eq!(clock.now().as_millis(), 5_000_010);
        clock.update(Timestamp::from_millis(7), clock.sent());
        assert_eq!(clock.now().as_millis(), 7);
    }

    #[test]
    fn a_response_that_was_overtaken_does_not_set_the_clock_back() {
        let clock = ServerClock::new(|| Timestamp::from_millis(0));
        let (slow, quick) = (clock.sent(), clock.sent());
        clock.update(Timestamp::from_millis(60_000), quick);
        clock.update(Timestamp::from_millis(10), slow);
        assert_eq!(clock.now().as_millis(), 60_000);
        // A server that was restored goes by an earlier time.
        let (first, second) = (clock.sent(), clock.sent());
        clock.update(Timestamp::from_millis(500), first);
        clock.update(Timestamp::from_millis(600), second);
        assert_eq!(clock.now().as_millis(), 600);
    }
}
