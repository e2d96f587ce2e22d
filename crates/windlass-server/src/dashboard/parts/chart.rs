//! The last hour by the minute: its sums, and small lines of it for tables, in a drawing of 600 by 100.

use std::collections::BTreeMap;
use std::fmt::Write;

use windlass::clock::Timestamp;
use windlass::store::documents::minute_stats::{Minute, minute_of};

use crate::dashboard::parts::format::real;

/// Minutes in a chart.
pub(in crate::dashboard) const MINUTES: i64 = 60;

/// The last hour by minute, the current one last.
pub(in crate::dashboard) fn hour(minutes: &BTreeMap<i64, Minute>, now: Timestamp) -> Vec<Minute> {
    let last = minute_of(now);
    (last - MINUTES + 1..=last).map(|minute| minutes.get(&minute).cloned().unwrap_or_default()).collect()
}

/// The sum of some minutes.
pub(in crate::dashboard) fn total<'a>(minutes: impl IntoIterator<Item = &'a Minute>) -> Minute {
    let mut sum = Minute::default();
    for minute in minutes {
        sum.merge(minute);
    }
    sum
}

/// Attempts that failed.
pub(in crate::dashboard) fn bad(minute: &Minute) -> u64 {
    minute.failed + minute.dead_letter + minute.retried
}

/// Attempts that ended.
pub(in crate::dashboard) fn ended(minute: &Minute) -> u64 {
    minute.completed + bad(minute)
}

/// The next round, even number, so that half of it is an integer.
pub(super) fn ceiling(number: u64) -> u64 {
    let mut unit = 1_u64;
    loop {
        for step in [10, 12, 16, 20, 24, 30, 40, 50, 60, 80] {
            if unit.saturating_mul(step) >= number {
                return unit.saturating_mul(step);
            }
        }
        unit = unit.saturating_mul(10);
    }
}

/// The complete minutes. The current one has just begun: drawn like the others it would look like an outage.
fn last_hour(hour: &[Minute]) -> &[Minute] {
    hour.split_last().map_or(hour, |(_, whole)| whole)
}

/// A small line of the attempts that ended in each complete minute.
pub(in crate::dashboard) fn spark(hour: &[Minute]) -> String {
    let numbers: Vec<f64> = last_hour(hour).iter().map(|minute| real(ended(minute))).collect();
    let top = numbers.iter().copied().fold(1.0, f64::max);
    path(&numbers, top).1
}

/// A small line of how often something happened between two times.
pub(in crate::dashboard) fn trend(
    times: impl IntoIterator<Item = Timestamp>,
    since: Timestamp,
    now: Timestamp,
) -> String {
    let whole = now.since(since).as_millis().max(1);
    let mut numbers = vec![0.0; TREND_STEPS];
    for at in times {
        let place = at.since(since).as_millis() * TREND_STEPS as u128 / whole;
        numbers[usize::try_from(place).unwrap_or(TREND_STEPS).min(TREND_STEPS - 1)] += 1.0;
    }
    let top = numbers.iter().copied().fold(1.0, f64::max);
    path(&numbers, top).1
}

/// Steps of a trend; as wide as an hour of minutes.
const TREND_STEPS: usize = 60;

/// A line and the area below it.
fn path(values: &[f64], top: f64) -> (String, String) {
    let mut line = String::new();
    let mut x = 5;
    for value in values {
        let word = if line.is_empty() { 'M' } else { 'L' };
        let _always_fits = write!(line, "{word}{x} {:.1}", 98.0 - value.min(top) * 96.0 / top);
        x += 10;
    }
    let area = format!("{line}L{} 100L5 100Z", x - 10);
    (line, area)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        assert_eq!([0, 9, 11, 45, 230, 4_999].map(ceiling), [10, 10, 12, 50, 240, 5_000]);
        assert_eq!(ceiling(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_present_minute_is_not_drawn_as_a_whole_one() {
        let hour = [Minute { completed: 8, failed: 8, ..Minute::default() }, Minute::default()];
        assert_eq!(spark(&hour), "M5 2.0L5 100L5 100Z", "it does not drop to zero at its end");
    }

    #[test]
    fn a_trend_has_its_newest_at_the_end() {
        let at = Timestamp::from_millis;
        let line = trend([at(0), at(1_000), at(1_000)], at(0), at(1_000));
        assert!(line.starts_with("M5 50.0L15 98.0") && line.ends_with("L595 2.0L595 100L5 100Z"), "{line}");
        assert!(!trend([at(7)], at(7), at(7)).is_empty());
    }

    #[test]
    fn a_line_stays_within_its_drawing() {
        let (line, area) = path(&[0.0, 50.0, 200.0], 100.0);
        assert_eq!(line, "M5 98.0L15 50.0L25 2.0");
        assert!(area.ends_with("L25 100L5 100Z"));
    }
}
