//! The last hour by the minute: its sums, and small lines of it for tables, in a drawing of 600 by 100.

use std::collections::BTreeMap;
use std::fmt::Write;

use windlass::clock::Timestamp;
use windlass::internal::minute_of;
use windlass::store::Minute;

use crate::dashboard::parts::format::real;

/// Minutes in a chart.
pub(in crate::dashboard) const MINUTES: i64 = 60;
/// The values that a line of an hour has room for.
const HOUR: usize = 60;

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
    path(&numbers, top, HOUR).1
}

/// A small line over the whole width of how often something happened, oldest first.
pub(in crate::dashboard) fn trend(counts: &[u64]) -> String {
    let numbers: Vec<f64> = counts.iter().copied().map(real).collect();
    let top = numbers.iter().copied().fold(1.0, f64::max);
    path(&numbers, top, numbers.len()).1
}

/// A line and the area below it; so many values fill the drawing.
fn path(values: &[f64], top: f64, most: usize) -> (String, String) {
    let x = |place: usize| (600 * place + 300) / most.max(1);
    let mut line = String::new();
    for (place, value) in values.iter().enumerate() {
        let word = if line.is_empty() { 'M' } else { 'L' };
        let _always_fits = write!(line, "{word}{} {:.1}", x(place), 98.0 - value.min(top) * 96.0 / top);
    }
    let area = format!("{line}L{} 100L{} 100Z", x(values.len().saturating_sub(1)), x(0));
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
        let line = trend(&[1, 0, 2]);
        assert_eq!(line, "M100 50.0L300 98.0L500 2.0L500 100L100 100Z");
        assert!(!trend(&[]).is_empty());
    }

    #[test]
    fn a_line_stays_within_its_drawing() {
        let (line, area) = path(&[0.0, 50.0, 200.0], 100.0, 60);
        assert_eq!(line, "M5 98.0L15 50.0L25 2.0");
        assert!(area.ends_with("L25 100L5 100Z"));
    }
}
