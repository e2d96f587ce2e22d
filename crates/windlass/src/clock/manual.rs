//! Clocks that only move when set, for tests and simulations. Nothing here reads the machine's clocks.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use super::{Clock, Reading, SystemClock, Timestamp};

/// A clock that only moves when advanced. It is used as store time directly.
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

/// The clocks of a machine and of its database, each of which can be set separately: for tests with wrong clocks.
#[derive(Debug)]
pub struct ManualClocks {
    shown: Mutex<Times>,
}

#[derive(Debug, Clone, Copy)]
struct Times {
    elapsed: Duration,
    wall: Timestamp,
    database: Timestamp,
    boot: i64,
}

impl ManualClocks {
    /// A machine that was just booted; its wall clock and that of its database show `wall`.
    pub fn new(wall: Timestamp) -> ManualClocks {
        ManualClocks { shown: Mutex::new(Times { elapsed: Duration::ZERO, wall, database: wall, boot: 1 }) }
    }

    /// Clocks of another process that show the same and can be set separately.
    #[must_use]
    pub fn copied(&self) -> ManualClocks {
        ManualClocks { shown: Mutex::new(self.shown()) }
    }

    /// Advances all clocks.
    pub fn pass(&self, by: Duration) {
        self.change(|shown| {
            shown.elapsed += by;
            shown.wall = shown.wall.plus(by);
            shown.database = shown.database.plus(by);
        });
    }

    /// Changes the machine's wall clock by this many milliseconds.
    pub fn step_wall(&self, millis: i64) {
        self.change(|shown| shown.wall = Timestamp::from_millis(shown.wall.as_millis() + millis));
    }

    /// Changes the database's clock by this many milliseconds.
    pub fn step_database(&self, millis: i64) {
        self.change(|shown| shown.database = Timestamp::from_millis(shown.database.as_millis() + millis));
    }

    /// Reboots the machine: monotonic time restarts at zero, the wall clocks continue.
    pub fn reboot(&self) {
        self.change(|shown| {
            shown.elapsed = Duration::ZERO;
            shown.boot += 1;
        });
    }

    fn change(&self, change: impl FnOnce(&mut Times)) {
        change(&mut self.shown.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn shown(&self) -> Times {
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for ManualClocks {
    fn now(&self) -> Timestamp {
        self.shown().wall
    }

    fn reading(&self) -> Option<Reading> {
        let Times { elapsed, wall, boot, .. } = self.shown();
        Some(Reading { elapsed, wall, boot: Some(boot) })
    }

    fn database(&self, _read: Timestamp) -> Timestamp {
        self.shown().database
    }
}

/// A clock that a person or a test moves forward, while it runs or stands still: for programs under development.
#[derive(Debug)]
pub struct JumpClock {
    /// The clock that it follows; without one it stands still.
    follows: Option<SystemClock>,
    start: Timestamp,
    jumped: ManualClock,
}

impl JumpClock {
    /// A clock that shows the machine's time, and runs with it if `runs`.
    pub fn new(runs: bool) -> JumpClock {
        let (system, zero) = (SystemClock::new(), Timestamp::from_millis(0));
        let start = system.now();
        JumpClock { follows: runs.then_some(system), start, jumped: ManualClock::new(zero) }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.jumped.advance(by);
    }
}

impl Clock for JumpClock {
    fn now(&self) -> Timestamp {
        let shown = self.follows.as_ref().map_or(self.start, SystemClock::now);
        shown.plus(self.jumped.now().since(Timestamp::from_millis(0)))
    }
}
