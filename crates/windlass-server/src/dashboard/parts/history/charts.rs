//! The charts of a range: bars and lines in a drawing of 600 by 100, which the pages scale; labels are outside.

use std::fmt::Write;
use std::time::Duration;

use windlass::clock::Timestamp;
use windlass::store::{History, LatencyHistogram, Point};

use super::ranges::{Ranges, short};
use crate::dashboard::parts::chart::{bad, ceiling, ended};
use crate::dashboard::parts::format::{at_most, compact, count, percent, real, span, zone_at};

/// The width of a drawing.
const WIDTH: f64 = 600.0;

/// One rectangle.
pub(in crate::dashboard) struct Block {
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) y: String,
    pub(in crate::dashboard) height: String,
}

/// One step.
pub(in crate::dashboard) struct Bar {
    /// Where its place begins, and where its blocks do.
    pub(in crate::dashboard) x: String,
    pub(in crate::dashboard) inner: String,
    pub(in crate::dashboard) blocks: Vec<Block>,
    pub(in crate::dashboard) title: String,
    /// Incomplete; it is drawn differently.
    pub(in crate::dashboard) is_now: bool,
    /// Where a click leads.
    pub(in crate::dashboard) zoom: Option<String>,
}

/// Labels below a chart.
pub(in crate::dashboard) struct Axis(pub(in crate::dashboard) [String; 3]);

impl Axis {
    fn new(history: &History) -> Axis {
        let length = history.until.since(history.from);
        Axis([history.from, history.from.plus(length / 2), history.until].map(|at| short(at, length)))
    }
}

/// A chart of stacked bars.
pub(in crate::dashboard) struct BarChart {
    pub(in crate::dashboard) bars: Vec<Bar>,
    /// The width of a place, and of its blocks.
    pub(in crate::dashboard) width: String,
    pub(in crate::dashboard) inner: String,
    pub(in crate::dashboard) top: String,
    pub(in crate::dashboard) half: String,
    /// The chart as text.
    pub(in crate::dashboard) label: String,
}

/// A line, and what it shows.
pub(in crate::dashboard) struct Line {
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) path: String,
    /// The area below it; empty unless it is the only line.
    pub(in crate::dashboard) area: String,
    /// For the legend: its name and its value over the whole range.
    pub(in crate::dashboard) name: &'static str,
    pub(in crate::dashboard) value: String,
}

/// A chart of lines.
pub(in crate::dashboard) struct LineChart {
    pub(in crate::dashboard) lines: Vec<Line>,
    pub(in crate::dashboard) top: String,
    pub(in crate::dashboard) half: String,
    pub(in crate::dashboard) axis: Axis,
    pub(in crate::dashboard) label: String,
    /// Whether there is nothing to draw.
    pub(in crate::dashboard) is_empty: bool,
    /// What each step shows, one after the other, separated by `|`; a script shows the one that is pointed at.
    pub(in crate::dashboard) values: String,
}

/// When each point begins.
pub(super) fn start_times(history: &History) -> impl Iterator<Item = Timestamp> {
    let step = history.step;
    std::iter::successors(Some(history.from), move |at| Some(at.plus(step)))
}

/// Attempts that ended in each step: completed, retried, failed.
pub(super) fn throughput(history: &History, ranges: &Ranges, now: Timestamp) -> BarChart {
    let most = history.points.iter().map(|point| ended(&point.counts)).max().unwrap_or(0);
    let top = ceiling(most);
    let width = WIDTH / real(history.points.len().max(1) as u64);
    let length = history.until.since(history.from);
    let bars = start_times(history).zip(&history.points).enumerate().map(|(place, (at, point))| {
        let counts = &point.counts;
        let failed = counts.failed + counts.dead_letter;
        let parts = [("c-completed", counts.completed), ("c-retried", counts.retried), ("c-failed", failed)];
        let mut base = 100.0;
        let mut blocks = Vec::new();
        for (class, number) in parts.into_iter().filter(|(_, number)| *number > 0) {
            // Even one failure among thousands must be visible.
            let height = (real(number) * 100.0 / real(top)).max(1.5);
            base -= height;
            blocks.push(Block { class, y: format!("{:.2}", base.max(0.0)), height: format!("{height:.2}") });
        }
        let x = real(place as u64) * width;
        let when = short(at, length);
        let title = format!(
            "{when} {}: {} completed, {} retried, {failed} failed",
            zone_at(at),
            counts.completed,
            counts.retried
        );
        Bar {
            x: format!("{x:.2}"),
            inner: format!("{:.2}", x + width * 0.1),
            blocks,
            title,
            is_now: at.plus(history.step) > now,
            zoom: ranges.zoom_link(at, history, now),
        }
    });
    let sum = &history.total.counts;
    let label = format!(
        "{}: {} jobs completed, {} attempts were retried, {} jobs failed; the busiest step had {}",
        ranges.what,
        count(sum.completed),
        count(sum.retried),
        count(sum.failed + sum.dead_letter),
        count(most)
    );
    BarChart {
        bars: bars.collect(),
        width: format!("{width:.2}"),
        inner: format!("{:.2}", width * 0.8),
        top: compact(top),
        half: compact(top / 2),
        label,
    }
}

/// The complete steps: the last one has just begun, and drawn like the others it would look like an outage.
fn complete(history: &History, now: Timestamp) -> &[Point] {
    let is_last_open = history.until > now;
    let points = &history.points;
    if is_last_open { points.split_last().map_or(points.as_slice(), |(_, whole)| whole) } else { points }
}

/// The share of failed attempts in percent.
pub(super) fn failures(history: &History, now: Timestamp) -> LineChart {
    let share = |point: &Point| percent(bad(&point.counts), ended(&point.counts));
    let shares: Vec<Option<f64>> =
        complete(history, now).iter().map(|point| Some(share(point).unwrap_or(0.0))).collect();
    let highest = shares.iter().flatten().copied().fold(0.0, f64::max);
    let top = [5.0, 10.0, 25.0, 50.0, 100.0].into_iter().find(|top| *top >= highest).unwrap_or(100.0);
    let all = share(&history.total).unwrap_or(0.0);
    let label = format!("{all:.1} percent of attempts failed; {highest:.0} percent in the worst step");
    let line = Line::filled("k-failed", &shares, top, history.points.len());
    let values = values((history, now), |point| share(point).map(|share| format!("{share:.1}%")));
    chart(history, vec![line], (format!("{top:.0}%"), format!("{:.0}%", top / 2.0)), (label, values))
}

/// How many jobs were ready: the most of each step.
pub(super) fn ready(history: &History, now: Timestamp) -> LineChart {
    let level = |point: &Point| (point.ready.samples > 0).then(|| real(point.ready.max));
    let levels: Vec<Option<f64>> = history.points.iter().map(level).collect();
    let most = history.total.ready.max;
    let top = ceiling(most);
    let average = history.total.ready.average().unwrap_or(0.0);
    let label = format!("At most {} jobs were ready, {average:.0} on average", count(most));
    let line = Line::filled("k-ready", &levels, real(top), history.points.len());
    let values = values((history, now), |point| (point.ready.samples > 0).then(|| count(point.ready.max)));
    chart(history, vec![line], (compact(top), compact(top / 2)), (label, values))
}

/// The share of the workers' slots in use.
pub(super) fn utilisation(history: &History, now: Timestamp) -> Option<LineChart> {
    let average = history.total.utilisation()? * 100.0;
    let shares: Vec<Option<f64>> =
        history.points.iter().map(|point| point.utilisation().map(|share| share * 100.0)).collect();
    let label = format!("{average:.0} percent of the workers' slots were in use on average");
    let line = Line::filled("k-used", &shares, 100.0, history.points.len());
    let share = |point: &Point| point.utilisation().map(|share| format!("{:.0}%", share * 100.0));
    let values = values((history, now), share);
    Some(chart(history, vec![line], ("100%".to_owned(), "50%".to_owned()), (label, values)))
}

/// The median, 95th and 99th percentile of a duration.
pub(super) fn latencies(
    (history, now): (&History, Timestamp),
    verb: &str,
    of: impl Fn(&Point) -> &LatencyHistogram,
) -> LineChart {
    let quantiles = [("k-p50", "p50", 0.5), ("k-p95", "p95", 0.95), ("k-p99", "p99", 0.99)];
    let longest = history.points.iter().filter_map(|point| of(point).percentile(0.99)).max();
    let top = round_up(longest.unwrap_or(Duration::ZERO));
    let all = |share| of(&history.total).percentile(share);
    let lines = quantiles.map(|(class, name, share)| {
        let values = history.points.iter().map(|point| of(point).percentile(share));
        let values: Vec<Option<f64>> = values.map(|time| time.map(|time| time.as_secs_f64())).collect();
        let path = path(&values, top.as_secs_f64(), history.points.len());
        Line { class, path, area: String::new(), name, value: all(share).map_or("–".to_owned(), at_most) }
    });
    let said = |share| all(share).map_or("nothing".to_owned(), at_most);
    let label = format!(
        "Half of the jobs {verb} {}, 95 percent {}, 99 percent {}",
        said(0.5),
        said(0.95),
        said(0.99)
    );
    let values = values((history, now), |point| {
        let each = quantiles.iter().map(|(_, _, share)| of(point).percentile(*share).map(at_most));
        Some(each.collect::<Option<Vec<String>>>()?.join(" · "))
    });
    chart(history, lines.into(), (span(top), span(top / 2)), (label, values))
}

/// The next round duration, so that half of it is one as well.
fn round_up(time: Duration) -> Duration {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let units = [1, 1_000, 60_000, 3_600_000, 86_400_000];
    let unit = units.into_iter().rev().find(|unit| millis >= *unit).unwrap_or(1);
    Duration::from_millis(ceiling(millis.div_ceil(unit)).saturating_mul(unit))
}

/// What each step shows, with its time; empty for a step without a value.
fn values((history, now): (&History, Timestamp), value: impl Fn(&Point) -> Option<String>) -> String {
    let length = history.until.since(history.from);
    let steps = start_times(history).zip(&history.points).map(|(at, point)| {
        let value = value(point).filter(|_| at <= now);
        value.map_or(String::new(), |value| format!("{} {value}", short(at, length)))
    });
    steps.collect::<Vec<_>>().join("|")
}

fn chart(
    history: &History,
    lines: Vec<Line>,
    (top, half): (String, String),
    (label, values): (String, String),
) -> LineChart {
    let is_empty = lines.iter().all(|line| line.path.is_empty());
    LineChart { lines, top, half, axis: Axis::new(history), label, is_empty, values }
}

impl Line {
    /// A single line with the area below it.
    fn filled(class: &'static str, values: &[Option<f64>], top: f64, places: usize) -> Line {
        let path = path(values, top, places);
        let step = WIDTH / real(places.max(1) as u64);
        let known = || values.iter().enumerate().filter(|(_, value)| value.is_some());
        let at = |place: usize| (real(place as u64) + 0.5) * step;
        let is_whole = values.iter().all(Option::is_some);
        let area = match (known().next(), known().next_back()) {
            (Some((first, _)), Some((last, _))) if is_whole => {
                format!("{path}L{:.1} 100L{:.1} 100Z", at(last), at(first))
            }
            _ => String::new(),
        };
        Line { class, path, area, name: "", value: String::new() }
    }
}

/// A line through the known values; it is interrupted where nothing is known. A single value is a short dash.
fn path(values: &[Option<f64>], top: f64, places: usize) -> String {
    let step = WIDTH / real(places.max(1) as u64);
    let mut line = String::new();
    let mut is_open = false;
    for (place, value) in values.iter().enumerate() {
        let Some(value) = value else {
            is_open = false;
            continue;
        };
        let (x, y) =
            ((real(place as u64) + 0.5) * step, 98.0 - value.min(top) * 96.0 / top.max(f64::MIN_POSITIVE));
        let is_alone = !is_open && values.get(place + 1).is_none_or(Option::is_none);
        let _always_fits = match (is_open, is_alone) {
            (true, _) => write!(line, "L{x:.1} {y:.1}"),
            (false, true) => write!(line, "M{:.1} {y:.1}h{:.1}", x - step / 2.0, step),
            (false, false) => write!(line, "M{x:.1} {y:.1}"),
        };
        is_open = true;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_interrupted_where_nothing_is_known() {
        let values = [Some(0.0), Some(50.0), None, Some(200.0), None];
        assert_eq!(path(&values, 100.0, 6), "M50.0 98.0L150.0 50.0M300.0 2.0h100.0");
        assert_eq!(path(&[], 100.0, 0), "");
    }

    #[test]
    fn scales_of_durations_end_at_round_ones() {
        let ms = Duration::from_millis;
        let secs = Duration::from_secs;
        let round = [ms(0), ms(7), ms(230), ms(2_300), secs(75), secs(4_000)].map(round_up);
        assert_eq!(round, [ms(10), ms(10), ms(240), secs(10), secs(600), secs(36_000)]);
    }
}
