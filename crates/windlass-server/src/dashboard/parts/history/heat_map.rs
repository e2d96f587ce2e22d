//! How long jobs ran over time: a column per step, a row per duration, a stronger colour where more runs are.

use windlass::clock::Timestamp;
use windlass::store::{History, LatencyHistogram, Minute};

use super::charts::start_times;
use super::ranges::short;
use crate::dashboard::parts::format::{at_most, real, span, zone_at};

/// Columns at most: more would make the page large and cannot be distinguished on a phone.
const COLUMNS_MAX: usize = 40;

/// A cell with runs.
pub(in crate::dashboard) struct Cell {
    pub(in crate::dashboard) x: String,
    pub(in crate::dashboard) y: String,
    /// From 0 to 1.
    pub(in crate::dashboard) shade: String,
    pub(in crate::dashboard) title: String,
}

/// The map, in a drawing of 600 by 100.
pub(in crate::dashboard) struct HeatMap {
    pub(in crate::dashboard) cells: Vec<Cell>,
    pub(in crate::dashboard) width: String,
    pub(in crate::dashboard) height: String,
    /// The longest, middle and shortest duration that are drawn.
    pub(in crate::dashboard) rows: [String; 3],
    pub(in crate::dashboard) label: String,
}

/// How many runs ended up in each row: up to 1, 2, 5 ms and so on.
fn rows(spread: &LatencyHistogram) -> Vec<u64> {
    let mut before = 0;
    let counts = spread.up_to().into_iter().map(|(_, so_far)| {
        let own = so_far - before;
        before = so_far;
        own
    });
    counts.collect()
}

impl HeatMap {
    pub(super) fn new(history: &History, now: Timestamp) -> HeatMap {
        let grouped = history.points.len().div_ceil(COLUMNS_MAX).max(1);
        let length = history.until.since(history.from);
        let starts: Vec<Timestamp> =
            start_times(history).step_by(grouped).take_while(|at| *at <= now).collect();
        let columns: Vec<Vec<u64>> = history
            .points
            .chunks(grouped)
            .map(|points| {
                let mut sum = Minute::default();
                for point in points {
                    sum.merge(&point.counts);
                }
                rows(&sum.ran)
            })
            .collect();
        let all = rows(&history.total.counts.ran);
        let is_used = |count: &u64| *count > 0;
        let first = all.iter().position(is_used).unwrap_or(0).saturating_sub(1);
        let last = (all.iter().rposition(is_used).unwrap_or(0) + 1).min(all.len().saturating_sub(1));
        let edges: Vec<_> = history.total.counts.ran.up_to().into_iter().map(|(edge, _)| edge).collect();
        let most = columns.iter().flatten().copied().max().unwrap_or(0).max(1);
        let (width, height) =
            (600.0 / real(columns.len().max(1) as u64), 100.0 / real((last - first + 1).max(1) as u64));
        let mut cells = Vec::new();
        for (place, (column, at)) in columns.iter().zip(&starts).enumerate() {
            for row in (first..=last).filter(|row| column.get(*row).is_some_and(is_used)) {
                // By its root, so that few runs are visible beside many.
                let shade = 0.12 + 0.88 * (real(column[row]) / real(most)).sqrt();
                cells.push(Cell {
                    x: format!("{:.1}", real(place as u64) * width),
                    y: format!("{:.1}", 100.0 - real((row - first + 1) as u64) * height),
                    shade: format!("{shade:.2}"),
                    title: format!(
                        "{} {}, {}: {} runs",
                        short(*at, length),
                        zone_at(*at),
                        at_most(edges[row]),
                        column[row]
                    ),
                });
            }
        }
        let edge = |row: usize| edges.get(row).map_or(String::new(), |edge| span(*edge));
        let ran = |share| history.total.counts.ran.percentile(share).map_or("–".to_owned(), at_most);
        HeatMap {
            cells,
            width: format!("{:.2}", width * 0.94),
            height: format!("{:.2}", height * 0.9),
            rows: [edge(last), edge(first + (last - first) / 2), edge(first)],
            label: format!("How long jobs ran over time: half {}, 95 percent {}", ran(0.5), ran(0.95)),
        }
    }
}
