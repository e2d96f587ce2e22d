//! How long the server lets a transaction of this node be idle. A node that is stopped (a debugger, a suspended machine, a
//! page on a slow disk) must not stop the others for longer each time; one that is only slow must have a chance to finish.
//! So the limit grows only if this thread was running, or waiting for a processor, for as long as the limit. A node that is
//! far away has the time of a few round trips in any case: the server is idle while a message is on its way.

use std::fs::File;
use std::time::Duration;

use crate::limits;

/// How much longer a transaction may be idle after a node was too slow, and how many commits later that is undone.
const STEP: u32 = 4;
const COMMITS: u32 = 64;
/// Round trips for which a transaction may be idle.
const ROUND_TRIPS: u32 = 3;

/// The limit, and what it depends on.
#[derive(Debug)]
pub(super) struct IdleLimit {
    most: Duration,
    /// How many commits were made since that changed.
    commits: u32,
    awake: Awake,
    /// How long the thread had been awake when the attempt began.
    began: Option<Duration>,
    /// The shortest round trip to the database of any connection.
    nearest: Option<Duration>,
}

impl Default for IdleLimit {
    fn default() -> IdleLimit {
        let awake = Awake::Unopened;
        IdleLimit { most: limits::TRANSACTION_IDLE_MIN, commits: 0, awake, began: None, nearest: None }
    }
}

impl IdleLimit {
    /// An attempt begins on this thread, on a connection with this round trip; returns the limit for it.
    pub(super) fn begin(&mut self, round_trip: Duration) -> Duration {
        self.began = self.awake.read();
        // The shortest one: a node that was frozen while it was measured is not far away.
        let nearest = self.nearest.map_or(round_trip, |nearest| nearest.min(round_trip));
        self.nearest = Some(nearest);
        self.most.max(nearest.saturating_mul(ROUND_TRIPS)).min(limits::TRANSACTION_IDLE_MAX)
    }

    /// The attempt lost its connection.
    pub(super) fn lost(&mut self) {
        let awake = self.began.zip(self.awake.read()).map(|(began, now)| now.saturating_sub(began));
        self.lost_after(awake);
    }

    /// The same, after the thread was awake for so long; `None` if the system does not tell.
    pub(super) fn lost_after(&mut self, awake: Option<Duration>) {
        if awake.is_none_or(|awake| awake >= self.most) {
            self.most = (self.most * STEP).min(limits::TRANSACTION_IDLE_MAX);
        }
        self.commits = 0;
    }

    /// A machine that was slow once gets its old limit back after a while, not with the next commit.
    pub(super) fn committed(&mut self) {
        self.commits += 1;
        if self.commits >= COMMITS {
            self.most = (self.most / STEP).max(limits::TRANSACTION_IDLE_MIN);
            self.commits = 0;
        }
    }
}

/// How long a thread has run or waited for a processor, by Linux's account of it. A process that is stopped does neither.
#[derive(Debug)]
enum Awake {
    /// Opened by the thread that asks: it may not be the one that makes this.
    Unopened,
    Account(Option<File>),
}

impl Awake {
    fn read(&mut self) -> Option<Duration> {
        if matches!(self, Awake::Unopened) {
            *self = Awake::Account(File::open("/proc/thread-self/schedstat").ok());
        }
        let Awake::Account(Some(account)) = self else { return None };
        let mut text = [0; 96];
        let length = rustix::io::pread(&*account, &mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        let mut nanos = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (ran, waited) = (nanos.next()?.ok()?, nanos.next()?.ok()?);
        // Some systems have the file and keep no account.
        let awake = Duration::from_nanos(ran.saturating_add(waited));
        (!awake.is_zero()).then_some(awake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Stopwatch;

    const MIN: Duration = limits::TRANSACTION_IDLE_MIN;

    #[test]
    fn a_node_that_is_frozen_again_and_again_never_has_more_time() {
        let mut limit = IdleLimit::default();
        for _ in 0..100 {
            assert_eq!(limit.begin(Duration::ZERO), MIN);
            limit.lost_after(Some(MIN / 2));
        }
    }

    #[test]
    fn a_slow_node_has_more_time_until_it_is_quick_again() {
        let mut limit = IdleLimit::default();
        limit.lost_after(Some(MIN));
        assert_eq!(limit.begin(Duration::ZERO), MIN * STEP);
        limit.lost_after(Some(MIN));
        assert_eq!(limit.begin(Duration::ZERO), MIN * STEP, "it had four times as long");
        (0..10).for_each(|_| limit.lost_after(None));
        assert_eq!(limit.begin(Duration::ZERO), limits::TRANSACTION_IDLE_MAX);
        (0..10 * COMMITS).for_each(|_| limit.committed());
        assert_eq!(limit.begin(Duration::ZERO), MIN);
    }

    #[test]
    fn a_distant_node_has_the_time_of_some_round_trips() {
        let mut limit = IdleLimit::default();
        let distant = Duration::from_millis(250);
        assert_eq!(limit.begin(distant), distant * ROUND_TRIPS);
        // Frozen while the next connection was made.
        assert_eq!(limit.begin(Duration::from_secs(60)), distant * ROUND_TRIPS);
        assert_eq!(limit.begin(Duration::from_millis(1)), MIN);
    }

    #[test]
    fn a_thread_that_runs_is_awake_and_one_that_waits_is_not() {
        let mut awake = Awake::Unopened;
        let Some(began) = awake.read() else { return };
        let watch = Stopwatch::start();
        while watch.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let ran = awake.read().expect("it was there").saturating_sub(began);
        assert!(ran >= Duration::from_millis(10), "{ran:?}");
    }
}
