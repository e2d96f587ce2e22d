//! Clocks that stand still until they are moved, for tests and simulations. Nothing here reads the machine's clocks.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::{Clock, Reading, Timestamp};

/// A clock that stands still until it is told to move. It is store time by itself: whatever it shows is believed.
#[derive(Debug)]
pub struct ManualClock {
    millis: AtomicI64,
    moving: Mutex<()>,
}

impl ManualClock {
    /// A clock that shows `start`.
    pub fn new(start: Timestamp) -> ManualClock {
        ManualClock { millis: AtomicI64::new(start.as_millis()), moving: Mutex::new(()) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let _one_at_a_time = self.moving.lock();
        let next = self.now().plus(by);
        self.millis.store(next.as_millis(), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::SeqCst))
    }
}

/// The clocks of a machine and of its database, each of which can be set apart from the others: for tests of what a store
/// makes of clocks that are wrong.
#[derive(Debug)]
pub struct ManualClocks {
    shown: Mutex<Shown>,
}

#[derive(Debug, Clone, Copy)]
struct Shown {
    elapsed: Duration,
    wall: Timestamp,
    database: Timestamp,
    boot: i64,
}

impl ManualClocks {
    /// A machine that was just started; its wall clock and that of its database show `wall`.
    pub fn new(wall: Timestamp) -> ManualClocks {
        ManualClocks { shown: Mutex::new(Shown { elapsed: Duration::ZERO, wall, database: wall, boot: 1 }) }
    }

    /// Clocks of another process that show the same, to be set off by themselves.
    #[must_use]
    pub fn copied(&self) -> ManualClocks {
        ManualClocks { shown: Mutex::new(self.shown()) }
    }

    /// Time passes: all clocks move on.
    pub fn pass(&self, by: Duration) {
        self.change(|shown| {
            shown.elapsed += by;
            shown.wall = shown.wall.plus(by);
            shown.database = shown.database.plus(by);
        });
    }

    /// Sets the machine's wall clock off by so many milliseconds.
    pub fn step_wall(&self, millis: i64) {
        self.change(|shown| shown.wall = Timestamp::from_millis(shown.wall.as_millis() + millis));
    }

    /// Sets the database's clock off by so many milliseconds.
    pub fn step_database(&self, millis: i64) {
        self.change(|shown| shown.database = Timestamp::from_millis(shown.database.as_millis() + millis));
    }

    /// The machine is started again: monotonic time begins at zero. The wall clocks go on.
    pub fn reboot(&self) {
        self.change(|shown| {
            shown.elapsed = Duration::ZERO;
            shown.boot += 1;
        });
    }

    fn change(&self, change: impl FnOnce(&mut Shown)) {
        change(&mut self.shown.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn shown(&self) -> Shown {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClocks {
    fn now(&self) -> Timestamp {
        self.shown().wall
    }

    fn reading(&self) -> Option<Reading> {
        let Shown { elapsed, wall, boot, .. } = self.shown();
        Some(Reading { elapsed, wall, boot: Some(boot) })
    }

    fn database(&self, _read: Timestamp) -> Timestamp {
        self.shown().database
    }
}
