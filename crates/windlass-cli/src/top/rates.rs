//! Rates of jobs per second, derived from the server's counts per minute, which grow during the minute.

use std::collections::{BTreeMap, VecDeque};

use windlass::clock::Timestamp;
use windlass_api::stats::Stats;

/// Seconds stored: the columns of the widest screen.
const SECONDS_MAX: usize = 240;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Totals {
    pub(super) submitted: f64,
    pub(super) completed: f64,
    /// Attempts that failed.
    pub(super) failed: f64,
}

/// Selects one number of the counts.
pub(super) type Reading = fn(&Totals) -> f64;

/// Rates of the last minutes and the last hour.
#[derive(Debug, Default)]
pub(super) struct Rates {
    last: Option<(Timestamp, BTreeMap<i64, Totals>)>,
    seconds: VecDeque<Totals>,
}

#[allow(clippy::cast_precision_loss, reason = "drawings need no more precision")]
fn real(number: u64) -> f64 {
    number as f64
}

impl Rates {
    /// Records the current counts.
    pub(super) fn record(&mut self, stats: &Stats, now: Timestamp) {
        let minutes: BTreeMap<i64, Totals> = stats
            .minutes
            .iter()
            .map(|minute| {
                let rates = &minute.rates;
                let counted = Totals {
                    submitted: real(rates.submitted),
                    completed: real(rates.completed),
                    failed: real(rates.failed_attempts()),
                };
                (minute.at.0.as_millis(), counted)
            })
            .collect();
        if let Some((then, before)) = &self.last {
            let elapsed = now.since(*then).as_secs_f64().max(0.1);
            let grown = |reading: Reading| {
                let now: f64 = minutes.values().map(reading).sum();
                // Minutes dropped since then must not count as a decrease.
                let then: f64 = before
                    .iter()
                    .filter(|(at, _)| minutes.contains_key(at))
                    .map(|(_, counted)| reading(counted))
                    .sum();
                ((now - then) / elapsed).max(0.0)
            };
            self.seconds.push_back(Totals {
                submitted: grown(|counted| counted.submitted),
                completed: grown(|counted| counted.completed),
                failed: grown(|counted| counted.failed),
            });
            while self.seconds.len() > SECONDS_MAX {
                self.seconds.pop_front();
            }
        }
        self.last = Some((now, minutes));
    }

    /// Restarts the measurement, after a gap without responses.
    pub(super) fn interrupt(&mut self) {
        self.last = None;
    }

    /// The current rate: the mean of the last few seconds, since single seconds vary.
    pub(super) fn now(&self, reading: Reading) -> f64 {
        let recent: Vec<f64> = self.seconds.iter().rev().take(3).map(reading).collect();
        if recent.is_empty() { 0.0 } else { recent.iter().sum::<f64>() / real(recent.len() as u64) }
    }

    /// The last seconds, oldest first.
    pub(super) fn seconds(&self, reading: Reading) -> Vec<f64> {
        self.seconds.iter().map(reading).collect()
    }

    /// The minutes of the last hour as rates per second, oldest first; the incomplete minute is left out.
    pub(super) fn minutes(&self, reading: Reading) -> Vec<f64> {
        let Some((_, minutes)) = &self.last else { return Vec::new() };
        let whole = minutes.len().saturating_sub(1);
        minutes.values().take(whole).map(|counted| reading(counted) / 60.0).collect()
    }
}
