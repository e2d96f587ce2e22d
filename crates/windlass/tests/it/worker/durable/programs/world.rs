//! What happens outside of random handlers, and what each of their attempts received.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass::clock::Timestamp;
use windlass::context::Cx;
use windlass::job::{Category, Failure};

use super::acts::{Call, How};

/// What happened outside of handlers, and what each attempt received.
#[derive(Clone, Default)]
pub(super) struct World(Arc<Mutex<Facts>>);

#[derive(Default)]
pub(super) struct Facts {
    pub(super) program: Vec<Call>,
    /// How many attempts failed that called the work of a place.
    failed: BTreeMap<String, usize>,
    pub(super) attempts: BTreeMap<u32, AttemptLog>,
    /// Places of steps that were dropped.
    pub(super) dropped: BTreeSet<usize>,
    /// A step that a crashed attempt had dropped came in a later one, and was saved with the errors before it.
    pub(super) has_come: bool,
    /// Long work does not end: the worker is about to be stopped.
    pub(super) is_long: bool,
}

/// What one attempt received, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct AttemptLog {
    pub(super) lines: Vec<String>,
    /// So many of them came before something that was saved.
    pub(super) durable: usize,
    /// The same, if the attempt parks where it is.
    pub(super) if_parked: Option<usize>,
    /// The attempt failed with the error of a step that came after so many.
    pub(super) reopened: Option<usize>,
    /// Sleeps that it called, in order.
    pub(super) sleeps: Vec<Sleep>,
    /// Places whose work it called.
    called: BTreeSet<String>,
}

/// A sleep that an attempt called.
#[derive(Debug, Clone)]
pub(super) struct Sleep {
    /// Its place in the program, the same in every attempt.
    pub(super) place: String,
    pub(super) called_at: Timestamp,
    /// The end that it asked for.
    pub(super) asked: Timestamp,
    /// When it was over, if this attempt saw that.
    pub(super) over_at: Option<Timestamp>,
}

pub(super) fn now(cx: &Cx) -> Timestamp {
    cx.client().api().environment().clock.now()
}

impl World {
    pub(super) fn facts<T>(&self, look: impl FnOnce(&mut Facts) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }

    /// Whether the work of a place fails now. It depends on attempts that failed alone, so a crash changes nothing.
    pub(super) fn fails(&self, cx: &Cx, place: &str, how: How) -> bool {
        self.log(cx, |log| log.called.insert(place.to_owned()));
        self.facts(|facts| facts.failed.get(place).copied().unwrap_or(0)) < how.fails
    }

    /// The work of a step. All errors have the same text.
    pub(super) async fn work(&self, is_failing: bool, place: String, how: How) -> anyhow::Result<String> {
        tokio::task::yield_now().await;
        if is_failing {
            anyhow::bail!("connection refused");
        }
        if how.is_bad { Err(Failure::permanent("bad", format!("{place} is bad")).into()) } else { Ok(place) }
    }

    pub(super) fn log<T>(&self, cx: &Cx, change: impl FnOnce(&mut AttemptLog) -> T) -> T {
        self.facts(|facts| change(facts.attempts.entry(cx.attempt()).or_default()))
    }

    /// Records that the handler received this; if `is_saved`, that and all before it is durable.
    pub(super) fn record(&self, cx: &Cx, line: String, is_saved: bool) {
        self.log(cx, |log| {
            log.lines.push(line);
            log.if_parked = None;
            if is_saved {
                log.durable = log.lines.len();
            }
        });
    }

    /// Records a call that may park: everything received before is durable then.
    pub(super) fn may_park(&self, cx: &Cx) {
        self.log(cx, |log| log.if_parked = Some(log.lines.len()));
    }

    /// Records that a sleep begins, or begins again.
    pub(super) fn sleeps(&self, cx: &Cx, place: usize, lasts: Duration) {
        let called_at = now(cx);
        self.log(cx, |log| {
            let earlier =
                log.sleeps.iter().filter(|sleep| sleep.place.starts_with(&format!("{place}."))).count();
            let place = format!("{place}.{earlier}");
            log.sleeps.push(Sleep { place, called_at, asked: called_at.plus(lasts), over_at: None });
        });
    }

    /// Records that the last sleep is over.
    pub(super) fn slept(&self, cx: &Cx) {
        let over_at = now(cx);
        self.log(cx, |log| log.sleeps.last_mut().expect("it slept").over_at = Some(over_at));
    }

    /// The attempt fails; if it was asked to stop, it is given back.
    pub(super) fn ends_badly(&self, cx: &Cx) {
        if cx.is_cancelled() {
            return;
        }
        let called = self.log(cx, |log| log.called.clone());
        self.facts(|facts| called.into_iter().for_each(|place| *facts.failed.entry(place).or_default() += 1));
    }
}

pub(super) fn said(outcome: &anyhow::Result<String>) -> (String, bool) {
    match outcome {
        Ok(value) => (value.clone(), true),
        Err(error) => {
            let failure = error.downcast_ref::<Failure>();
            let is_permanent = failure.is_some_and(|failure| failure.category == Category::Permanent);
            (format!("error: {error}"), is_permanent)
        }
    }
}
