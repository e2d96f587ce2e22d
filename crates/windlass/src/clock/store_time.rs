//! The rule of store time, as a pure function of clock readings: it advances with monotonic time, approaches a wall
//! clock at a bounded rate, never goes back, and does not believe a wall clock that jumped. It reads no clock and is
//! independent of the engine.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::Timestamp;
use crate::limits;

/// A wall clock reading, taken between two points of monotonic time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WallClock {
    pub(crate) shows: Timestamp,
    /// Monotonic time before the reading.
    pub(crate) from: Duration,
    /// Monotonic time after the reading.
    pub(crate) to: Duration,
}

/// What is known of store time when the process starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(all(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "each engine uses its own variant")
)]
pub(crate) enum Origin {
    /// The store is new.
    New,
    /// The time of the last commit, however long ago.
    Last {
        at: Timestamp,
        /// Whether the wall clock is believed even if it is far from the last commit.
        is_vouched_for: bool,
    },
    /// Store time now, by monotonic time since the last commit.
    Running(Timestamp),
}

/// Whether the wall clock is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockTrust {
    Believed,
    NotBelieved,
}

/// Store time of one process, in microseconds, so that many small steps lose nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreTime {
    /// Store time at the monotonic time `elapsed`.
    at: i64,
    elapsed: i64,
    /// What the wall clock should show at monotonic time zero, as far as it is believed.
    base: i64,
    /// The same as last read, believed or not.
    read: i64,
    /// Monotonic time of that reading.
    read_at: i64,
    belief: ClockTrust,
    /// Whether there is history to compare the wall clock with: false if the first reading was not believed.
    has_history: bool,
}

impl StoreTime {
    /// The first reading. The second value is whether store time jumped from the last commit by more than
    /// [`limits::CLOCK_STEP_MAX`].
    pub(crate) fn start(wall: WallClock, origin: Origin) -> (StoreTime, bool) {
        let (shows, elapsed) = (micros(wall.shows), whole_micros(wall.to));
        let read = shows - elapsed;
        let known = |at: i64, belief, has_history| {
            let base = if belief == ClockTrust::Believed { read } else { at - elapsed };
            let at = at.max(base + elapsed);
            StoreTime { at, elapsed, base, read, read_at: elapsed, belief, has_history }
        };
        match origin {
            Origin::New => (known(shows, ClockTrust::Believed, true), false),
            Origin::Last { at, is_vouched_for } => {
                let at = micros(at);
                let is_near = is_near(shows, at);
                let belief =
                    if is_near || is_vouched_for { ClockTrust::Believed } else { ClockTrust::NotBelieved };
                let is_believed = belief == ClockTrust::Believed;
                (known(at, belief, is_believed), is_believed && !is_near)
            }
            Origin::Running(at) => {
                let at = micros(at);
                let belief = if is_near(shows, at) { ClockTrust::Believed } else { ClockTrust::NotBelieved };
                (known(at, belief, true), false)
            }
        }
    }

    /// Applies a reading of the wall clock and the time of the last commit by any process. `is_vouched_for` is whether
    /// another clock agrees with the reading, which counts only as long as there is no history. Returns whether store
    /// time jumped.
    pub(crate) fn observe(&mut self, wall: WallClock, last: Timestamp, is_vouched_for: bool) -> bool {
        let (shows, from, to) = (micros(wall.shows), whole_micros(wall.from), whole_micros(wall.to));
        // The wall clock may have been read at any time in between: take the one that fits best.
        let read = self.base.clamp(shows - to, shows - from.min(to));
        let passed = (to - self.read_at).max(0);
        (self.read, self.read_at) = (read, to);
        let is_steady = is_near(read, self.base);
        if is_steady {
            // Not all at once, otherwise a wall clock that runs too fast would be followed anywhere.
            self.base += (read - self.base).clamp(-passed / SLOWEST, passed / CATCH_UP);
        }
        let has_jumped = self.advance(wall.to, last);
        if is_steady {
            self.belief = ClockTrust::Believed;
            self.has_history = true;
        } else if is_near(read + self.elapsed, self.at) {
            // Another process believed it, and store time has moved there since.
            self.trust();
        } else if is_vouched_for && !self.has_history {
            return self.accept() || has_jumped;
        } else {
            self.belief = ClockTrust::NotBelieved;
        }
        has_jumped
    }

    /// Advances to a monotonic time, and to the time of the last commit if that is later. Returns whether that was a
    /// jump.
    pub(crate) fn advance(&mut self, to: Duration, last: Timestamp) -> bool {
        let to = whole_micros(to).max(self.elapsed);
        let passed = to - self.elapsed;
        let target = self.base + to;
        self.at = target.clamp(self.at + passed / SLOWEST, self.at + passed + passed / CATCH_UP);
        self.elapsed = to;
        let last = micros(last);
        let has_jumped = is_leap(self.at, last);
        self.at = self.at.max(last);
        has_jumped
    }

    /// Believes the wall clock as it was last read. If it is ahead, store time moves there at once; if it is behind,
    /// store time runs slowly until they meet. Returns whether store time jumped.
    pub(crate) fn accept(&mut self) -> bool {
        self.trust();
        let target = self.base + self.elapsed;
        let has_jumped = is_leap(self.at, target);
        self.at = self.at.max(target);
        has_jumped
    }

    fn trust(&mut self) {
        self.base = self.read;
        self.belief = ClockTrust::Believed;
        self.has_history = true;
    }

    /// Store time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.at.div_euclid(1_000))
    }

    /// What the wall clock shows now, from the last reading.
    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp::from_millis((self.read + self.elapsed).div_euclid(1_000))
    }

    /// Milliseconds by which the wall clock is ahead of store time.
    pub(crate) fn ahead(&self) -> i64 {
        (self.read + self.elapsed - self.at).div_euclid(1_000)
    }

    pub(crate) fn belief(&self) -> ClockTrust {
        self.belief
    }
}

const SLOWEST: i64 = limits::CLOCK_SLOWEST;
const CATCH_UP: i64 = limits::CLOCK_CATCH_UP;

fn is_near(one: i64, other: i64) -> bool {
    (one - other).abs() <= whole_micros(limits::CLOCK_STEP_MAX)
}

/// Whether store time moves ahead by so much at once that a worker that reports regularly would seem lost.
fn is_leap(from: i64, to: i64) -> bool {
    to - from > whole_micros(limits::HEARTBEAT_EVERY)
}

fn micros(at: Timestamp) -> i64 {
    at.as_millis() * 1_000
}

fn whole_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX / 4)
}
