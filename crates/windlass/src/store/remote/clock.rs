//! The server's clock as seen from here. Stored times are the server's: a handler on a machine whose clock is an
//! hour off must not sleep an hour longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::clock::{Clock, Timestamp};

/// A clock of this process that is adjusted by every response of the server.
pub(super) struct ServerClock {
    own: Arc<dyn Clock>,
    /// Milliseconds by which the server's clock is ahead.
    ahead: AtomicI64,
}

impl ServerClock {
    /// A clock that shows what `own` shows until the first response.
    pub(super) fn new(own: Arc<dyn Clock>) -> ServerClock {
        ServerClock { own, ahead: AtomicI64::new(0) }
    }

    /// Adjusts to the server's time in a response.
    pub(super) fn update(&self, now: Timestamp) {
        self.ahead.store(now.as_millis() - self.own.now().as_millis(), Ordering::Relaxed);
    }
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.own.now().as_millis().saturating_add(self.ahead.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::ManualClock;

    #[test]
    fn the_servers_time_counts_and_goes_on_by_itself() {
        let own = Arc::new(ManualClock::new(Timestamp::from_millis(1_000)));
        let clock = ServerClock::new(own.clone());
        assert_eq!(clock.now().as_millis(), 1_000);
        clock.update(Timestamp::from_millis(5_000_000));
        own.advance(Duration::from_millis(10));
        assert_eq!(clock.now().as_millis(), 5_000_010);
        clock.update(Timestamp::from_millis(7));
        assert_eq!(clock.now().as_millis(), 7);
    }
}
