//! When a schedule runs: cron in a time zone, at an interval, or once; which runs were missed, and what to do about
//! them. Pure: the current time is an argument, and the time zone rules are compiled in.

mod cron;
#[cfg(test)]
mod tests;
mod zone;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use cron::Cron;
pub use zone::Zone;

use crate::clock::{Timestamp, whole_millis};
use crate::error::{FieldError, FieldProblem};
use crate::limits;

/// The trigger of a schedule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleSpec {
    /// At the times of a cron expression in a time zone.
    Cron {
        /// The expression.
        cron: Cron,
        /// The time zone.
        timezone: Zone,
    },
    /// At a fixed interval, counted from when the schedule was created.
    Every(Duration),
    /// Once, at this time.
    At(Timestamp),
}

/// What to do about runs that were missed while no process could run them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// Skip all missed runs.
    Skip,
    /// Run the latest missed run.
    #[default]
    Once,
    /// Run all missed runs, at most the latest [`limits::SCHEDULE_MISSED_MAX`].
    All,
}

/// What to do if a run is due while the previous one has not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Run both.
    #[default]
    Allow,
    /// Skip the new run.
    Skip,
    /// Cancel the previous run.
    Cancel,
}

/// The runs that are due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The runs to start, oldest first.
    pub runs: Vec<Timestamp>,
    /// The latest due run, started or not: all runs up to it are handled.
    pub through: Timestamp,
    /// The first missed run, if any.
    pub missed_since: Option<Timestamp>,
}

impl ScheduleSpec {
    /// Checks every value against its limits.
    pub fn check(&self) -> Result<(), FieldError> {
        match self {
            ScheduleSpec::Every(every)
                if !(limits::SCHEDULE_EVERY_MIN..=limits::DURATION_MAX).contains(every) =>
            {
                let (value, min) = (format!("{every:?}"), format!("{:?}", limits::SCHEDULE_EVERY_MIN));
                Err(FieldError::new(
                    "every",
                    FieldProblem::OutOfRange { value, min, max: "100 years".into() },
                ))
            }
            ScheduleSpec::Every(_) | ScheduleSpec::Cron { .. } | ScheduleSpec::At(_) => Ok(()),
        }
    }

    /// The first run after `after`; `None` if there is none. Intervals count from `start`.
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

    /// The first `count` runs after `after`.
    pub fn next_runs(&self, start: Timestamp, after: Timestamp, count: usize) -> Vec<Timestamp> {
        std::iter::successors(self.next_after(start, after), |run| self.next_after(start, *run))
            .take(count)
            .collect()
    }

    /// The runs after `after` that are due by `now`; `None` if none is.
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

    /// The latest run up to `now`; `first` is one of the runs.
    ///
    /// There may be millions of runs in between, so they are not enumerated: a binary search finds the last point in
    /// time with a run between it and now.
    fn latest(&self, start: Timestamp, first: Timestamp, now: Timestamp) -> Timestamp {
        let run_from = |moment| self.next_after(start, moment).filter(|run| *run <= now);
        let mut latest = first;
        let (mut low, mut high) = (first.as_millis(), now.as_millis());
        while low < high {
            // First check whether there is any other run at all; mostly there is not.
            let middle =
                if latest == first && low == first.as_millis() { low } else { low + (high - low) / 2 };
            match run_from(Timestamp::from_millis(middle)) {
                Some(run) => (latest, low) = (run, run.as_millis()),
                None => high = middle,
            }
        }
        latest
    }

    /// The latest runs from `first` to `latest`, oldest first, at most as many as are caught up.
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
