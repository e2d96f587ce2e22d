//! Charts: the numbers of the last hour as rectangles and lines in a drawing of 600 by 100. The pages scale it; labels are
//! outside, so that they are not distorted.

use std::collections::BTreeMap;
use std::fmt::Write;

use windlass::clock::Timestamp;
use windlass::store::documents::minute_stats::{Minute, minute_of};

use crate::dashboard::parts::format::{compact, count, percent, real};

/// Minutes in a chart.
pub(in crate::dashboard) const MINUTES: i64 = 60;

/// One rectangle.
pub(in crate::dashboard) struct Block {
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) y: String,
    pub(in crate::dashboard) height: String,
}

/// One minute.
pub(in crate::dashboard) struct Bar {
    pub(in crate::dashboard) x: i64,
    pub(in crate::dashboard) blocks: Vec<Block>,
    pub(in crate::dashboard) title: String,
    /// The current, incomplete minute; it is drawn differently.
    pub(in crate::dashboard) is_now: bool,
}

/// A chart of stacked bars.
pub(in crate::dashboard) struct BarChart {
    pub(in crate::dashboard) bars: Vec<Bar>,
    pub(in crate::dashboard) top: String,
    pub(in crate::dashboard) half: String,
    /// The chart as text.
    pub(in crate::dashboard) label: String,
}

/// A chart of one line with the area below it.
pub(in crate::dashboard) struct LineChart {
    pub(in crate::dashboard) line: String,
    pub(in crate::dashboard) area: String,
    pub(in crate::dashboard) top: String,
    pub(in crate::dashboard) half: String,
    pub(in crate::dashboard) label: String,
}

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
fn ceiling(number: u64) -> u64 {
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

fn ago(place: usize) -> String {
    match MINUTES - 1 - i64::try_from(place).unwrap_or(0) {
        0 => "this minute so far".to_owned(),
        1 => "1 minute ago".to_owned(),
        minutes => format!("{minutes} minutes ago"),
    }
}

/// Attempts that ended in each minute: completed, retried, failed.
pub(in crate::dashboard) fn throughput(hour: &[Minute]) -> BarChart {
    let top = ceiling(hour.iter().map(ended).max().unwrap_or(0));
    let bars = hour.iter().enumerate().map(|(place, minute)| {
        let parts = [
            ("c-completed", minute.completed),
            ("c-retried", minute.retried),
            ("c-failed", minute.failed + minute.dead_letter),
        ];
        let mut base = 100.0;
        let mut blocks = Vec::new();
        for (class, number) in parts.into_iter().filter(|(_, number)| *number > 0) {
            // Even one failure among thousands must be visible.
            let height = (real(number) * 100.0 / real(top)).max(1.5);
            base -= height;
            blocks.push(Block { class, y: format!("{:.2}", base.max(0.0)), height: format!("{height:.2}") });
        }
        let failed = minute.failed + minute.dead_letter;
        let title = format!(
            "{}: {} completed, {} retried, {failed} failed",
            ago(place),
            minute.completed,
            minute.retried
        );
        let is_now = place + 1 == hour.len();
        Bar { x: i64::try_from(place).unwrap_or(0) * 10, blocks, title, is_now }
    });
    let sum = total(hour);
    let label = format!(
        "In the last hour {} jobs completed, {} attempts were retried, {} jobs failed; the busiest minute \
         had {}",
        count(sum.completed),
        count(sum.retried),
        count(sum.failed + sum.dead_letter),
        count(hour.iter().map(ended).max().unwrap_or(0))
    );
    BarChart { bars: bars.collect(), top: compact(top), half: compact(top / 2), label }
}

/// The complete minutes. The current one has just begun: drawn like the others it would look like an outage.
fn last_hour(hour: &[Minute]) -> &[Minute] {
    hour.split_last().map_or(hour, |(_, whole)| whole)
}

/// The share of failed attempts in percent, for every complete minute.
pub(in crate::dashboard) fn failure_rate(hour: &[Minute]) -> LineChart {
    let shares: Vec<f64> =
        last_hour(hour).iter().map(|minute| percent(bad(minute), ended(minute)).unwrap_or(0.0)).collect();
    let highest = shares.iter().copied().fold(0.0, f64::max);
    let top = [5.0, 10.0, 25.0, 50.0, 100.0].into_iter().find(|top| *top >= highest).unwrap_or(100.0);
    let (line, area) = path(&shares, top);
    let sum = total(hour);
    let share = percent(bad(&sum), ended(&sum)).unwrap_or(0.0);
    let label = format!(
        "{share:.1} percent of attempts failed in the last hour; {highest:.0} percent in the worst minute"
    );
    LineChart { line, area, top: format!("{top:.0}%"), half: format!("{:.0}%", top / 2.0), label }
}

/// A small line of the attempts that ended in each complete minute.
pub(in crate::dashboard) fn spark(hour: &[Minute]) -> String {
    let numbers: Vec<f64> = last_hour(hour).iter().map(|minute| real(ended(minute))).collect();
    let top = numbers.iter().copied().fold(1.0, f64::max);
    path(&numbers, top).1
}

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
    fn one_failure_among_thousands_is_seen() {
        let hour = [Minute { completed: 100_000, failed: 1, ..Minute::default() }];
        let chart = throughput(&hour);
        assert_eq!(chart.bars[0].blocks.len(), 2);
        assert_eq!(chart.bars[0].blocks[1].height, "1.50");
        assert!(chart.label.contains("100,000 jobs completed"));
    }

    #[test]
    fn the_present_minute_is_not_drawn_as_a_whole_one() {
        let hour = [Minute { completed: 8, failed: 8, ..Minute::default() }, Minute::default()];
        assert_eq!(spark(&hour), "M5 2.0L5 100L5 100Z", "it does not drop to zero at its end");
        assert_eq!(failure_rate(&hour).line, "M5 2.0");
        assert_eq!(throughput(&hour).bars.iter().map(|bar| bar.is_now).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_line_stays_within_its_drawing() {
        let (line, area) = path(&[0.0, 50.0, 200.0], 100.0);
        assert_eq!(line, "M5 98.0L15 50.0L25 2.0");
        assert!(area.ends_with("L25 100L5 100Z"));
    }
}
