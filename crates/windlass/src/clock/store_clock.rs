//! Store time of a process: applies the rule in [`store_time`](super::store_time) to the clocks of the machine and the
//! database, and remembers what a gap or a jump means for leases and lifetimes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::store_time::{ClockTrust, Origin, StoreTime, WallClock};
use super::{Clock, Grace, Leap, Reading, SharedGrace, Timestamp, whole_millis};
use crate::limits;

/// Store time: advances with monotonic time, approaches the wall clock at a bounded rate, and never goes back. A wall
/// clock that jumped is not believed. A clock without [readings](Clock::reading) is used as store time directly.
pub struct StoreClock {
    source: Arc<dyn Clock>,
    state: Mutex<Option<State>>,
}

struct State {
    time: StoreTime,
    grace: Grace,
    /// The part of the grace that applies to all nodes: a gap in which no node committed, not only this process.
    shared: SharedGrace,
    /// Monotonic time of the last commit, or of the last attempt that reached the database.
    reached: Duration,
    /// Store time of the last commit by any process.
    last_commit: Timestamp,
    opened_at: Timestamp,
    opened: Duration,
    /// Whether the store started with a jump that no other clock confirmed.
    is_cautious: bool,
    /// How often an operator had accepted the wall clock, as far as this process knows.
    accepted: Option<u64>,
    /// Since when the wall clock has not been believed.
    doubted_since: Option<Timestamp>,
}

/// The time of a commit, in store time and machine time: the next process on the same file continues from it.
#[cfg(feature = "sqlite")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    /// [`Timestamp::MIN`] if there was no commit yet.
    pub(crate) at: Timestamp,
    /// The boot of the machine from which `uptime` counts; zero if unknown.
    pub(crate) boot: i64,
    pub(crate) uptime: Duration,
}

/// Store time compared with the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReport {
    /// Store time.
    pub now: Timestamp,
    /// The wall clock it follows: the database's, or the machine's.
    pub wall: Timestamp,
    /// Milliseconds by which the wall clock is ahead of store time; negative if it is behind.
    pub ahead_ms: i64,
    /// Whether the wall clock is believed.
    pub is_believed: bool,
    /// Since when it is not believed, in store time.
    pub doubted_since: Option<Timestamp>,
    /// Until when no lifetime ends and nothing is pruned, because the store started with a jump of its time.
    pub lifetimes_from: Option<Timestamp>,
}

impl ClockReport {
    /// Whether an operator should check it: the wall clock is not believed, or store time is still far from it.
    pub fn is_off(&self) -> bool {
        !self.is_believed || self.ahead_ms.abs() > whole_millis(limits::CLOCK_STEP_MAX)
    }
}

impl StoreClock {
    /// Store time from the readings of `source`, or `source` itself if it has none.
    pub fn new(source: Arc<dyn Clock>) -> StoreClock {
        StoreClock { source, state: Mutex::new(None) }
    }

    /// Store time now.
    pub fn now(&self) -> Timestamp {
        let Some(reading) = self.source.reading() else { return self.source.now() };
        match &mut *self.lock() {
            Some(state) => {
                state.time.advance(reading.elapsed, Timestamp::MIN);
                state.time.now()
            }
            // Not the wall clock itself, which may be changed during a measurement.
            None => self.source.now(),
        }
    }

    /// Store time now, but not before the last known commit.
    pub fn now_after(&self, last: Timestamp) -> Timestamp {
        self.now().max(last)
    }

    /// Monotonic time.
    pub fn elapsed(&self) -> Duration {
        self.source.reading().map_or(Duration::ZERO, |reading| reading.elapsed)
    }

    /// Time since the last commit by any process, as far as this process knows.
    pub(crate) fn since_last_commit(&self) -> Duration {
        self.lock().as_ref().map_or(Duration::ZERO, |state| state.time.now().since(state.last_commit))
    }

    /// What timers may not do yet.
    pub(crate) fn grace(&self) -> Grace {
        self.lock().as_ref().map_or_else(Grace::default, |state| state.grace)
    }

    /// Compares store time with the wall clock.
    pub fn report(&self) -> ClockReport {
        let now = self.now();
        let state = self.lock();
        let Some(State { time, grace, doubted_since, .. }) = &*state else {
            return ClockReport {
                now,
                wall: now,
                ahead_ms: 0,
                is_believed: true,
                doubted_since: None,
                lifetimes_from: None,
            };
        };
        ClockReport {
            now,
            wall: time.wall(),
            ahead_ms: time.ahead(),
            is_believed: time.belief() == ClockTrust::Believed,
            doubted_since: *doubted_since,
            lifetimes_from: Some(grace.lifetimes_from).filter(|from| *from > now),
        }
    }

    /// Continues from the last commit to a file. A process that is alone has no history and believes the machine's wall
    /// clock; beside other processes store time is already running.
    #[cfg(feature = "sqlite")]
    pub(crate) fn open_file(&self, last: Stamp, is_alone: bool) {
        let Some(reading) = self.source.reading() else { return };
        let is_history = last.boot != 0 && reading.boot == Some(last.boot) && last.uptime <= reading.elapsed;
        let origin = if last.at == Timestamp::MIN {
            Origin::New
        } else if is_history && !is_alone {
            Origin::Running(last.at.plus(reading.elapsed.saturating_sub(last.uptime)))
        } else {
            Origin::Last { at: last.at, is_vouched_for: true }
        };
        self.open(own_wall(reading), last.at, origin, true);
    }

    /// Continues from the last commit to a database, whose clock was read after `asked`. A jump is believed if the
    /// machine's own wall clock agrees with it.
    pub fn open_database(&self, last: Timestamp, database: Timestamp, asked: Duration) {
        let Some(reading) = self.source.reading() else { return };
        let wall = WallClock { shows: self.source.database(database), from: asked, to: reading.elapsed };
        let origin = match last {
            Timestamp::MIN => Origin::New,
            at => Origin::Last { at, is_vouched_for: agree(wall.shows, reading.wall) },
        };
        self.open(wall, last, origin, false);
    }

    fn open(&self, wall: WallClock, last: Timestamp, origin: Origin, is_cautious_of_jumps: bool) {
        let (time, has_jumped) = StoreTime::start(wall, origin);
        let now = time.now();
        let is_believed = time.belief() == ClockTrust::Believed;
        let was_away = origin != Origin::New && (!is_believed || now.since(last) > limits::HEARTBEAT_EVERY);
        let mut state = State {
            time,
            grace: Grace::default(),
            shared: SharedGrace::default(),
            reached: wall.to,
            last_commit: last,
            opened_at: now,
            opened: wall.to,
            is_cautious: has_jumped && is_cautious_of_jumps,
            accepted: None,
            doubted_since: None,
        };
        if has_jumped {
            tracing::info!(%now, last_commit = %last, "store time continues from the wall clock, far from the last commit");
        }
        state.apply_reading(was_away);
        if origin != Origin::New && now.since(last) > limits::HEARTBEAT_EVERY {
            state.shared.served_since = now;
        }
        *self.lock() = Some(state);
    }

    /// The time of a commit that follows one at `last`, from the machine's wall clock.
    pub fn commit(&self, last: Timestamp) -> Timestamp {
        let Some(reading) = self.source.reading() else { return self.source.now().max(last) };
        self.observe(own_wall(reading), last, false)
    }

    /// Like [`commit`](StoreClock::commit), from the database's clock, which was read after `asked` of
    /// [`elapsed`](StoreClock::elapsed).
    pub fn commit_by(&self, last: Timestamp, database: Timestamp, asked: Duration) -> Timestamp {
        let Some(reading) = self.source.reading() else { return self.source.now().max(last) };
        let wall = WallClock { shows: self.source.database(database), from: asked, to: reading.elapsed };
        self.observe(wall, last, agree(wall.shows, reading.wall))
    }

    /// Like [`open_database`](StoreClock::open_database), of a database that answers at once and whose clock is that of
    /// the machine, unless [`Clock::database`] says something else. A process that connects again continues as it was.
    pub fn open_near(&self, last: Timestamp) {
        let is_open = self.lock().is_some();
        if let Some(reading) = self.source.reading().filter(|_| !is_open) {
            self.open_database(last, reading.wall, reading.elapsed);
        }
    }

    /// Like [`commit_by`](StoreClock::commit_by), for the same database.
    pub fn commit_near(&self, last: Timestamp) -> Timestamp {
        let Some(reading) = self.source.reading() else { return self.source.now().max(last) };
        self.commit_by(last, reading.wall, reading.elapsed)
    }

    fn observe(&self, wall: WallClock, last: Timestamp, is_vouched_for: bool) -> Timestamp {
        if self.lock().is_none() {
            self.open(wall, Timestamp::MIN, Origin::New, false);
        }
        let mut state = self.lock();
        let Some(state) = &mut *state else { return wall.shows };
        let passed = wall.to.saturating_sub(state.reached);
        let from = state.time.now().plus(passed);
        let has_jumped = state.time.observe(wall, last, is_vouched_for);
        let was_away = passed > limits::HEARTBEAT_EVERY;
        state.reached = wall.to;
        state.last_commit = last;
        if has_jumped {
            state.leapt(from);
        } else if was_away && last != Timestamp::MIN && state.time.now().since(last) > limits::HEARTBEAT_EVERY
        {
            state.shared.served_since = state.time.now();
        }
        state.apply_reading(has_jumped || was_away);
        state.time.now()
    }

    /// The commit time in machine time, stored with the commit.
    #[cfg(feature = "sqlite")]
    pub(crate) fn stamp(&self, at: Timestamp) -> Stamp {
        let reading = self.source.reading();
        let uptime = reading.map_or(Duration::ZERO, |reading| reading.elapsed);
        Stamp { at, boot: reading.and_then(|reading| reading.boot).unwrap_or(0), uptime }
    }

    /// Merges what other nodes know of gaps and leaps. Returns the result for this node, and what all nodes should know
    /// now.
    pub(crate) fn merge_grace(&self, known: SharedGrace) -> (Grace, SharedGrace) {
        let mut state = self.lock();
        let Some(state) = &mut *state else { return (Grace::default().with_shared(known), known) };
        state.shared = state.shared.with(known);
        state.grace = state.grace.with_shared(state.shared);
        (state.grace, state.shared)
    }

    /// Accepts the wall clock as it is now, on request of an operator.
    pub(crate) fn accept(&self, number: u64) {
        if let Some(state) = &mut *self.lock() {
            state.accept(number);
        }
    }

    /// Applies how often operators have accepted the wall clock, possibly in another process; believes it again if the
    /// number grew.
    pub(crate) fn apply_accepted(&self, number: u64) {
        if let Some(state) = &mut *self.lock() {
            match state.accepted {
                Some(known) if number > known => state.accept(number),
                _ => state.accepted = Some(number),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Clock for StoreClock {
    fn now(&self) -> Timestamp {
        StoreClock::now(self)
    }
}

impl State {
    fn accept(&mut self, number: u64) {
        self.accepted = Some(number);
        let from = self.time.now();
        let has_jumped = self.time.accept();
        if has_jumped {
            self.leapt(from);
        }
        self.apply_reading(has_jumped);
    }

    /// Records that store time skipped ahead from a point in time.
    fn leapt(&mut self, from: Timestamp) {
        let leap = Leap { from, to: self.time.now() };
        if leap.to > leap.from {
            self.shared = self.shared.with(SharedGrace { served_since: leap.to, leap });
            self.grace = self.grace.with_shared(self.shared);
        }
    }

    /// Applies the consequences of a reading: the grace for timers, and log messages.
    fn apply_reading(&mut self, has_gap: bool) {
        let now = self.time.now();
        let is_believed = self.time.belief() == ClockTrust::Believed;
        if has_gap {
            self.grace.served_since = now;
        }
        let is_young = self.reached.saturating_sub(self.opened) < limits::CLOCK_CAUTION;
        self.is_cautious &= is_young || !is_believed;
        self.grace.lifetimes_from = match (self.is_cautious, is_young) {
            (false, _) => Timestamp::MIN,
            (true, true) => self.opened_at.plus(limits::CLOCK_CAUTION),
            (true, false) => now.plus(limits::CLOCK_CAUTION),
        };
        let (wall, ahead_ms) = (self.time.wall(), self.time.ahead());
        match (is_believed, self.doubted_since) {
            (false, None) => {
                self.doubted_since = Some(now);
                tracing::error!(
                    store_time = %now, %wall, ahead_ms,
                    "the wall clock jumped and is not believed: store time continues without it; see `windlass clock`"
                );
            }
            (true, Some(since)) => {
                self.doubted_since = None;
                tracing::info!(store_time = %now, %wall, ahead_ms, %since, "the wall clock is believed again");
            }
            (true, None) | (false, Some(_)) => {}
        }
    }
}

fn own_wall(reading: Reading) -> WallClock {
    WallClock { shows: reading.wall, from: reading.elapsed, to: reading.elapsed }
}

fn agree(one: Timestamp, other: Timestamp) -> bool {
    one.since(other).max(other.since(one)) <= limits::CLOCK_STEP_MAX
}
