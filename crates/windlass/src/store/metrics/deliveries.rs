//! Calls that a server makes for jobs: callbacks, jobs for push targets, and messages of alerts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use windlass_core::Words;

use super::{Histogram, MICROS};

/// What is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
#[non_exhaustive]
pub enum DeliveryKind {
    /// The end of a job, to its callback URL.
    Callback,
    /// A job, to the push target of its queue.
    Push,
    /// A message of an alert.
    Alert,
}

/// How one call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Words)]
#[non_exhaustive]
pub enum DeliveryOutcome {
    /// The receiver accepted it.
    Accepted,
    /// The receiver wants it later, or has an error of its own: it is retried.
    Deferred,
    /// The receiver rejected it permanently.
    Rejected,
    /// There was no response.
    Unanswered,
    /// The address may not be called.
    Refused,
}

/// The calls of one process since its start, by kind and outcome.
#[derive(Debug)]
pub struct Deliveries {
    counts: [[AtomicU64; DeliveryOutcome::ALL.len()]; DeliveryKind::ALL.len()],
    micros: [Histogram; DeliveryKind::ALL.len()],
}

impl Default for Deliveries {
    fn default() -> Deliveries {
        Deliveries { counts: Default::default(), micros: DeliveryKind::ALL.map(|_| Histogram::new(&MICROS)) }
    }
}

impl Deliveries {
    /// Counts one call.
    pub fn add(&self, kind: DeliveryKind, outcome: DeliveryOutcome, took: Duration) {
        self.counts[kind as usize][outcome as usize].fetch_add(1, Ordering::Relaxed);
        self.micros[kind as usize].add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// How many calls ended like this.
    pub fn count(&self, kind: DeliveryKind, outcome: DeliveryOutcome) -> u64 {
        self.counts[kind as usize][outcome as usize].load(Ordering::Relaxed)
    }

    /// Durations of the calls, in microseconds.
    pub fn micros(&self, kind: DeliveryKind) -> &Histogram {
        &self.micros[kind as usize]
    }
}
