//! What timers may not do yet, because the store was unavailable or its time has jumped.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Timestamp;
use crate::limits;

/// What timers may not do yet, because the store itself was unavailable or its time has just jumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Grace {
    /// Since when the store has been served again after a gap in which no worker could report; [`Timestamp::MIN`] if
    /// there was none.
    pub served_since: Timestamp,
    /// Until when no lifetime ends and nothing is pruned.
    pub lifetimes_from: Timestamp,
    /// The last interval that store time skipped.
    pub leap: Leap,
}

/// An interval that store time skipped, following a wall clock: no worker could use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Leap {
    /// The last time before.
    pub from: Timestamp,
    /// The first time after.
    pub to: Timestamp,
}

impl Leap {
    /// Its length.
    pub fn length(&self) -> Duration {
        self.to.since(self.from)
    }

    /// Whether this time was skipped.
    pub fn covers(&self, at: Timestamp) -> bool {
        self.from < at && at <= self.to
    }

    /// The later of two leaps; leaps that nodes saw at slightly different times are one.
    #[must_use]
    pub fn or_later(self, other: Leap) -> Leap {
        let (first, last) = if self.to <= other.to { (self, other) } else { (other, self) };
        if first.to > last.from { Leap { from: first.from.min(last.from), to: last.to } } else { last }
    }
}

/// The part of a [`Grace`] that applies to all nodes, as stored: a node that started a moment after another saw nothing
/// of what came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SharedGrace {
    /// Since when the store has been served again after no node committed to it for a while.
    pub served_since: Timestamp,
    /// See [`Grace::leap`].
    pub leap: Leap,
}

impl SharedGrace {
    /// Merges what two nodes know.
    #[must_use]
    pub fn with(self, other: SharedGrace) -> SharedGrace {
        SharedGrace {
            served_since: self.served_since.max(other.served_since),
            leap: self.leap.or_later(other.leap),
        }
    }
}

impl Grace {
    /// Adds what all nodes know.
    #[must_use]
    pub fn with_shared(self, shared: SharedGrace) -> Grace {
        Grace { served_since: self.served_since.max(shared.served_since), leap: shared.leap, ..self }
    }

    /// Until when no lease from before the gap expires, so that every worker can report once.
    pub fn leases_until(&self) -> Timestamp {
        if self.served_since == Timestamp::MIN {
            return Timestamp::MIN;
        }
        self.served_since.plus(limits::LEASE_GRACE)
    }

    /// When the silence of a worker last seen at `seen_at` starts to count.
    pub fn silent_from(&self, seen_at: Timestamp) -> Timestamp {
        seen_at.max(self.served_since)
    }

    /// Whether silence since `seen_at` counts as a crash: not if the worker may have tried to report during the gap.
    pub fn is_crash(&self, seen_at: Timestamp) -> bool {
        seen_at >= self.served_since
    }

    /// Like `is_crash`, for a lease from `started_at` that expired. Several nodes may have returned one after another,
    /// each of which extended leases by its own grace.
    pub fn is_crash_of_lease(&self, started_at: Timestamp, expires_at: Timestamp) -> bool {
        self.is_crash(started_at) || expires_at > self.leases_until().plus(limits::LEASE_GRACE)
    }
}
