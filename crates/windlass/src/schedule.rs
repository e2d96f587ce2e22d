//! When a schedule runs: cron in a time zone, every so often, or once; which runs were missed, and what becomes of them
//! (M80). Pure: the moment to look from is an argument, and the rules of all time zones are part of the program.

mod cron;
#[cfg(test)]
mod tests;
mod zone;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use cron::Cron;
pub use zone::Zone;

use crate::clock::{Timestamp, whole_millis};
use crate::error::{FieldProblem, Invalid};
use crate::limits;

/// When a schedule runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleSpec {
    /// At the times a cron expression names in a time zone.
    Cron {
        /// Which times.
        cron: Cron,
        /// On whose clocks.
        timezone: Zone,
    },
    /// Again and again, counted from when the schedule was made.
    Every(Duration),
    /// Once.
    At(Timestamp),
}

/// What becomes of runs that were missed while nothing could run them (M80).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// None is made up for.
    Skip,
    /// The latest is made up for.
    #[default]
    Once,
    /// All are made up for, the latest [`limits::SCHEDULE_MISSED_MAX`] at most.
    All,
}

/// What happens when a run comes while the one before is not over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// They run side by side.
    #[default]
    Allow,
    /// The new one is left out.
    Skip,
    /// The one before is cancelled.
    Cancel,
}

/// What is to be done about the runs that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The runs to start, the oldest first.
    pub runs: Vec<Timestamp>,
    /// The latest run that is due, started or not: all up to it are dealt with.
    pub through: Timestamp,
    /// The first run that was missed, if any was.
    pub missed_since: Option<Timestamp>,
}

impl ScheduleSpec {
    /// Whether every value is within its limits.
    pub fn check(&self) -> Result<(), Invalid> {
        match self {
            ScheduleSpec::Every(every)
                if !(limits::SCHEDULE_EVERY_MIN..=limits::DURATION_MAX).contains(every) =>
            {
                let (value, min) = (format!("{every:?}"), format!("{:?}", limits::SCHEDULE_EVERY_MIN));
                Err(Invalid::new("every", FieldProblem::OutOfRange { value, min, max: "100 years".into() }))
            }
            ScheduleSpec::Every(_) | ScheduleSpec::Cron { .. } | ScheduleSpec::At(_) => Ok(()),
        }
    }

    /// The first run after a moment; none if there is no more. `start` is where repetitions count from.
    pub fn next_after(&self, start: Timestamp, after: Timestamp) -> Option<Timestamp> {
        match self {
            ScheduleSpec::Cron { cron, timezone } => timezone.next_after(cron, after),
            ScheduleSpec::Every(every) => {
                let step = whole_millis(*every).max(1);
                let passed = (after.as_millis() - start.as_millis()).max(0) / step;
                let next = passed.checked_add(1)?.checked_mul(step)?.checked_add(start.as_millis())?;
                (next <= Timestamp::MAX.as_millis()).then(|| Timestamp::from_millis(next))
            }
            ScheduleSpec::At(at) => (*at > after).then_some(*at),
        }
    }

    /// The first `count` runs after a moment.
    pub fn next_runs(&self, start: Timestamp, after: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next_after(start, after), |run| self.next_after(start, *run))
            .take(count)
            .collect()
    }

    /// What is to be done about the runs after `after` that are due by `now`; none if none is.
    pub fn due(&self, start: Timestamp, after: Timestamp, now: Timestamp, missed: CatchUp) -> Option<Due> {
        let first = self.next_after(start, after).filter(|first| *first <= now)?;
        let latest = self.latest(start, first, now);
        let is_late = now.since(latest) > limits::SCHEDULE_LATE_MAX;
        let runs = match missed {
            CatchUp::Skip if is_late => Vec::new(),
            CatchUp::Skip | CatchUp::Once => vec![latest],
            CatchUp::All => self.runs_back_to(start, first, latest),
        };
        let missed_since = (is_late || first < latest).then_some(first);
        Some(Due { runs, through: latest, missed_since })
    }

    /// The latest run up to `now`, of which `first` is one.
    ///
    /// There may be millions in between, so they are not walked through: whether a run lies between a moment and now can
    /// be asked of any moment, and halving finds the last one for which it is so.
    fn latest(&self, start: Timestamp, first: Timestamp, now: Timestamp) -> Timestamp {
        let run_from = |moment| self.next_after(start, moment).filter(|run| *run <= now);
        let mut latest = first;
        let (mut low, mut high) = (first.as_millis(), now.as_millis());
        while low < high {
            // The first question is whether there is any other at all, which mostly ends it.
            let middle =
                if latest == first && low == first.as_millis() { low } else { low + (high - low) / 2 };
            match run_from(Timestamp::from_millis(middle)) {
                Some(run) => (latest, low) = (run, run.as_millis()),
                None => high = middle,
            }
        }
        latest
    }

    /// The latest runs from `first` to `latest`, as many as are ever made up for, the oldest first.
    fn runs_back_to(&self, start: Timestamp, first: Timestamp, latest: Timestamp) -> Vec<Timestamp> {
        let before = |run: Timestamp| {
            let end = run.minus(Duration::from_millis(1));
            (run > first).then(|| self.latest(start, first, end))
        };
        let mut runs: Vec<Timestamp> = std::iter::successors(Some(latest), |run| before(*run))
            .take(limits::SCHEDULE_MISSED_MAX)
            .collect();
        runs.reverse();
        runs
    }
}
