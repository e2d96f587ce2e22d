//! Notifications between nodes: what one node has to announce, and what it received. Both are sets of kinds that are
//! merged, not lists of messages: nothing is dropped and memory is bounded, however much happens at once.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::clock::Stopwatch;
use crate::limits;
use crate::store::tx::write_tx::Effects;

/// Kinds of changes, as bits.
pub(super) const WORK: u8 = 1;
pub(super) const ENDS: u8 = 2;
pub(super) const INTERRUPTS: u8 = 4;
/// A commit was made; every change has this bit.
const COMMITTED: u8 = 8;
/// Jobs wrote output.
pub(super) const OUTPUT: u8 = 16;
/// Anything may have changed.
pub(super) const EVERYTHING: u8 = WORK | ENDS | INTERRUPTS | COMMITTED | OUTPUT;

/// What this node's writer committed and has not announced to the other nodes yet.
#[derive(Default)]
pub(super) struct Notifications {
    unannounced: AtomicU8,
    /// Number of this node's last commit.
    commit: AtomicI64,
    arrived: Notify,
    closing: CancellationToken,
    audience: Mutex<Audience>,
}

/// Who announces changes, as long as a caller may wait for them on another node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Announcer {
    pub(super) node: i32,
    /// Whether a caller waits on this node, too.
    pub(super) is_waiting: bool,
}

impl Announcer {
    /// What others receive.
    pub(super) fn message(self, kinds: u8, commit: i64) -> String {
        format!("{}:{kinds}:{commit}:{}", self.node, u8::from(self.is_waiting))
    }
}

#[derive(Default)]
struct Audience {
    announcer: Option<Announcer>,
    /// Since the last announcement.
    last: Option<Stopwatch>,
}

/// The kinds of changes that these effects are.
fn kinds_of(effects: &Effects) -> u8 {
    let kinds = [
        (!effects.work.is_empty(), WORK),
        (effects.has_ends, ENDS),
        (effects.has_interrupts, INTERRUPTS),
        (effects.has_output, OUTPUT),
    ];
    kinds.iter().filter(|(is_so, _)| *is_so).fold(COMMITTED, |all, (_, bit)| all | bit)
}

impl Notifications {
    fn audience(&self) -> MutexGuard<'_, Audience> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records who announces changes; `None` if no caller waits for them.
    pub(super) fn know(&self, announcer: Option<Announcer>) {
        self.audience().announcer = announcer;
    }

    /// Records that something was announced now.
    pub(super) fn announced(&self) {
        self.audience().last = Some(Stopwatch::start());
    }

    /// The message that announces a change along with it, if a caller may wait for it and this node has announced nothing
    /// for a while. In a transaction that waits for the disk a notification keeps others from being made, so this is for a
    /// change that is alone.
    pub(super) fn along_with(&self, effects: &Effects) -> Option<String> {
        let mut audience = self.audience();
        let announcer = audience.announcer?;
        let quiet = limits::NOTIFY_EVERY_BUSY + limits::NOTIFY_EVERY;
        if audience.last.is_some_and(|last| last.elapsed() < quiet) || self.has_unannounced() {
            return None;
        }
        audience.last = Some(Stopwatch::start());
        Some(announcer.message(kinds_of(effects), self.commit.load(Ordering::Acquire)))
    }

    /// Records a commit of this node.
    pub(super) fn committed(&self, effects: &Effects, number: i64) {
        self.add(kinds_of(effects));
        // After its kinds: announcing this number also announces them.
        self.commit.fetch_max(number, Ordering::AcqRel);
    }

    /// Adds kinds of changes to announce.
    pub(super) fn add(&self, kinds: u8) {
        self.unannounced.fetch_or(kinds, Ordering::AcqRel);
        self.arrived.notify_one();
    }

    /// Takes what is to be announced; it is put back unless it is marked as announced.
    pub(super) fn take(&self) -> Option<NotificationPayload<'_>> {
        let commit = self.commit.load(Ordering::Acquire);
        let kinds = self.unannounced.swap(0, Ordering::AcqRel);
        (kinds != 0).then_some(NotificationPayload { notifications: self, kinds, commit })
    }

    /// Returns when there is something to announce, or the store is closed.
    pub(super) async fn arrive(&self) {
        while !self.has_unannounced() && !self.is_closed() {
            // The condition is checked above, so it does not matter which waiter used up the permit.
            tokio::select! {
                () = self.arrived.notified() => {}
                () = self.closing.cancelled() => {}
            }
        }
    }

    /// Whether there is still something to announce.
    pub(super) fn has_unannounced(&self) -> bool {
        self.unannounced.load(Ordering::Acquire) != 0
    }

    /// Stops the change listener once everything is announced.
    pub(super) fn close(&self) {
        self.closing.cancel();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Returns `grace` after the store was closed.
    pub(super) async fn closed_for(&self, grace: Duration) {
        self.closing.cancelled().await;
        tokio::time::sleep(grace).await;
    }

    /// Waits for this long; true once the store is closed.
    pub(super) async fn is_closed_within(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.closing.cancelled()).await.is_ok()
    }
}

/// The interval between two notifications of this node; commits in between share one. A node that always has something
/// to announce does so more rarely: every notification is a transaction, and every other node receives it.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// How many notifications in a row were due as soon as they could be.
    in_a_row: u32,
}

impl Pace {
    /// The shortest time until the next notification.
    pub(super) fn interval(&self) -> Duration {
        if self.in_a_row < limits::NOTIFY_IN_A_ROW { limits::NOTIFY_EVERY } else { limits::NOTIFY_EVERY_BUSY }
    }

    /// A notification is due this long after the last one.
    pub(super) fn announced(&mut self, since_last: Option<Duration>) {
        let is_busy = since_last.is_some_and(|since| since < self.interval() + limits::NOTIFY_EVERY);
        self.in_a_row = if is_busy { self.in_a_row.saturating_add(1) } else { 0 };
    }
}

/// A pending announcement. If it is dropped before it is done, it is announced again: twice is harmless.
pub(super) struct NotificationPayload<'a> {
    notifications: &'a Notifications,
    pub(super) kinds: u8,
    /// All commits of this node up to this number are covered.
    pub(super) commit: i64,
}

impl NotificationPayload<'_> {
    /// Marks it as announced.
    pub(super) fn done(mut self) {
        self.kinds = 0;
    }
}

impl Drop for NotificationPayload<'_> {
    fn drop(&mut self) {
        if self.kinds != 0 {
            self.notifications.add(self.kinds);
        }
    }
}

/// What other nodes announced and this one has not acted on yet.
#[derive(Default)]
pub(super) struct Received {
    state: Mutex<Sent>,
    arrived: Notify,
}

/// Announcements of other nodes, merged.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) kinds: u8,
    /// Whether jobs were submitted through SQL.
    pub(super) has_entries: bool,
    /// Whether a caller waits on one of the nodes that announced something.
    pub(super) is_waiting: bool,
    /// Whether the connection has ended, and no more notifications will arrive on it.
    pub(super) is_over: bool,
    /// The last commit that each node announced; entries are never removed.
    pub(super) commits: HashMap<i32, i64>,
}

impl Received {
    fn state(&self) -> MutexGuard<'_, Sent> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processes the payload of a notification; the node's own notifications are ignored.
    pub(super) fn receive(&self, message: &str, own: i32) {
        let mut parts = message.split(':').map(str::parse::<i64>);
        let mut state = self.state();
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Ok(node)), Some(Ok(kinds)), commit) => {
                let node = i32::try_from(node).unwrap_or(own);
                if node == own {
                    return;
                }
                state.kinds |= u8::try_from(kinds & i64::from(EVERYTHING)).unwrap_or(EVERYTHING) | COMMITTED;
                // An older build does not send the number of the commit.
                let commit = commit.and_then(Result::ok).unwrap_or(i64::MAX);
                if state.commits.len() >= limits::NODES_KEPT {
                    state.commits.clear();
                }
                let last = state.commits.entry(node).or_insert(commit);
                *last = commit.max(*last);
                // An older build does not say so, and always wants changes to be announced.
                state.is_waiting |= !matches!(parts.next(), Some(Ok(0)));
            }
            // Not from a node: jobs submitted through SQL.
            _ => state.has_entries = true,
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// No more notifications will arrive.
    pub(super) fn end(&self) {
        self.state().is_over = true;
        self.arrived.notify_one();
    }

    /// Returns what was announced since the last call, as soon as there is anything.
    pub(super) async fn next(&self) -> Sent {
        loop {
            {
                let mut state = self.state();
                if state.kinds != 0 || state.has_entries || state.is_over {
                    let is_over = state.is_over;
                    let taken = std::mem::take(&mut *state);
                    state.is_over = is_over;
                    return taken;
                }
            }
            self.arrived.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the change listener would announce now.
    fn announced(notifications: &Notifications) -> Option<u8> {
        notifications.take().map(|announcement| {
            let kinds = announcement.kinds;
            announcement.done();
            kinds
        })
    }

    #[tokio::test]
    async fn what_was_committed_without_listeners_is_announced_later() {
        let notifications = Notifications::default();
        notifications.add(WORK);
        // A waiter for the close only must not use up the notification.
        assert!(!notifications.is_closed_within(Duration::from_millis(1)).await);
        notifications.arrive().await;
        assert_eq!(announced(&notifications), Some(WORK));
        assert_eq!(announced(&notifications), None);
        notifications.add(INTERRUPTS);
        notifications.arrive().await;
        assert_eq!(announced(&notifications), Some(INTERRUPTS));
    }

    #[test]
    fn a_node_that_always_has_something_to_announce_does_so_more_rarely() {
        let mut pace = Pace::default();
        pace.announced(None);
        for _ in 0..limits::NOTIFY_IN_A_ROW {
            assert_eq!(pace.interval(), limits::NOTIFY_EVERY);
            pace.announced(Some(limits::NOTIFY_EVERY));
        }
        assert_eq!(pace.interval(), limits::NOTIFY_EVERY_BUSY);
        pace.announced(Some(limits::NOTIFY_EVERY_BUSY));
        assert_eq!(pace.interval(), limits::NOTIFY_EVERY_BUSY);
        pace.announced(Some(2 * limits::NOTIFY_EVERY_BUSY));
        assert_eq!(pace.interval(), limits::NOTIFY_EVERY);
    }

    #[test]
    fn only_a_change_that_is_alone_is_announced_along_with_it() {
        let (notifications, effects) = (Notifications::default(), Effects::default());
        assert_eq!(notifications.along_with(&effects), None, "no caller waits");
        notifications.know(Some(Announcer { node: 7, is_waiting: true }));
        notifications.committed(&effects, 5);
        assert_eq!(notifications.along_with(&effects), None, "something before it is not announced yet");
        assert_eq!(announced(&notifications), Some(COMMITTED));
        assert_eq!(notifications.along_with(&effects), Some(format!("7:{COMMITTED}:5:1")));
        assert_eq!(notifications.along_with(&effects), None, "the last one was a moment ago");
        let received = Received::default();
        received.receive("7:9:5:1", 1);
        assert_eq!(received.state().commits[&7], 5);
    }

    #[tokio::test]
    async fn an_announcement_that_fails_is_made_again() {
        let notifications = Notifications::default();
        notifications.add(ENDS);
        drop(notifications.take());
        notifications.arrive().await;
        assert_eq!(announced(&notifications), Some(ENDS));
    }

    #[tokio::test]
    async fn however_much_is_received_at_once_no_kind_is_dropped() {
        let received = Received::default();
        for commit in 0..10_000 {
            received.receive(&format!("7:{WORK}:{commit}"), 1);
        }
        received.receive(&format!("8:{INTERRUPTS}:10000"), 1);
        received.receive("not from a node", 1);
        received.receive(&format!("1:{ENDS}:10001"), 1);
        let announced = received.next().await;
        assert_eq!(announced.kinds, WORK | INTERRUPTS | COMMITTED, "and nothing of the node's own");
        assert!(announced.has_entries && !announced.is_over);
        assert!(announced.is_waiting, "an older build does not say");
        assert_eq!((announced.commits[&7], announced.commits[&8]), (9_999, 10_000));
        for (waits, expected) in [(0, false), (1, true)] {
            received.receive(&format!("7:{WORK}:10000:{waits}"), 1);
            assert_eq!(received.next().await.is_waiting, expected);
        }
        received.end();
        assert!(received.next().await.is_over);
    }
}
