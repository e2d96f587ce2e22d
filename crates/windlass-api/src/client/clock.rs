//! The server's clock as seen from here. Stored times are the server's: a handler on a machine whose clock is an
//! hour off must not sleep an hour longer.

use std::sync::atomic::{AtomicI64, Ordering};

use windlass_core::clock::Timestamp;

/// A clock of this process that is adjusted by every response of the server.
pub struct ServerClock {
    own: Box<dyn Fn() -> Timestamp + Send + Sync>,
    /// Milliseconds by which the server's clock is ahead.
    ahead: AtomicI64,
}

impl ServerClock {
    /// A clock that shows what `own` returns until the first response.
    pub fn new(own: impl Fn() -> Timestamp + Send + Sync + 'static) -> ServerClock {
        ServerClock { own: Box::new(own), ahead: AtomicI64::new(0) }
    }

    /// The server's current time, estimated from its latest response.
    pub fn now(&self) -> Timestamp {
        let ahead = self.ahead.load(Ordering::Relaxed);
        Timestamp::from_millis((self.own)().as_millis().saturating_add(ahead))
    }

    /// Adjusts to the server's time in a response.
    pub(super) fn update(&self, now: Timestamp) {
        self.ahead.store(now.as_millis() - (self.own)().as_millis(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_servers_time_counts_and_goes_on_by_itself() {
        let own = Arc::new(AtomicI64::new(1_000));
        let read = own.clone();
        let clock = ServerClock::new(move || Timestamp::from_millis(read.load(Ordering::Relaxed)));
        assert_eq!(clock.now().as_millis(), 1_000);
        clock.update(Timestamp::from_millis(5_000_000));
        own.fetch_add(10, Ordering::Relaxed);
        assert_eq!(clock.now().as_millis(), 5_000_010);
        clock.update(Timestamp::from_millis(7));
        assert_eq!(clock.now().as_millis(), 7);
    }
}
