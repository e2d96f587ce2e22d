//! Statistics over time on a page: the range that is shown, links to other ranges, and the charts of it. Everything is a
//! link or a drawing, so that it works without scripts.

mod charts;
mod heat_map;
mod ranges;

use std::time::Duration;

use windlass::clock::Timestamp;
use windlass::limits::HISTORY_RANGE_MAX;
use windlass::store::{History, HistoryRequest, HistorySubject, Point};

pub(in crate::dashboard) use self::charts::{BarChart, LineChart};
pub(in crate::dashboard) use self::heat_map::HeatMap;
use self::ranges::Compare;
pub(in crate::dashboard) use self::ranges::{Ranges, ShownRange};
use crate::dashboard::Dashboard;
use crate::dashboard::page::PageError;
use crate::dashboard::parts::chart::{bad, ended};
use crate::dashboard::parts::format::{at_most, compact, percent};
use crate::dashboard::requests::form::Fields;
use crate::dashboard::requests::middleware::Visitor;

/// The charts of a page.
pub(in crate::dashboard) struct HistoryView {
    pub(in crate::dashboard) ranges: Ranges,
    pub(in crate::dashboard) throughput: BarChart,
    pub(in crate::dashboard) failures: LineChart,
    pub(in crate::dashboard) ready: LineChart,
    pub(in crate::dashboard) waited: LineChart,
    pub(in crate::dashboard) ran: LineChart,
    /// Only for everything, and if there were workers.
    pub(in crate::dashboard) utilisation: Option<LineChart>,
    pub(in crate::dashboard) heat: HeatMap,
    /// How the time compares with the same time before.
    pub(in crate::dashboard) compared: Vec<Comparison>,
    /// The share of attempts that failed.
    pub(in crate::dashboard) failure_share: String,
}

/// A number of the range that is shown and of the same time before.
pub(in crate::dashboard) struct Comparison {
    pub(in crate::dashboard) name: &'static str,
    pub(in crate::dashboard) now: String,
    pub(in crate::dashboard) before: String,
    /// The difference, such as `+12%`; empty if there is none.
    pub(in crate::dashboard) change: String,
    /// `good-text`, `bad-text` or nothing.
    pub(in crate::dashboard) class: &'static str,
}

impl HistoryView {
    /// The charts of one part, in the range that the page's address names.
    pub(in crate::dashboard) async fn load(
        board: &Dashboard,
        visitor: &Visitor,
        part: HistorySubject,
        path: &str,
        query: &Fields,
    ) -> Result<HistoryView, PageError> {
        let shown = ShownRange::from_query(query)?;
        let wanted = HistoryRequest { part, range: shown.range, until: shown.until };
        let mut history = board.store().history(&visitor.caller, wanted.clone()).await?;
        if let Compare::Earlier(seconds) = shown.compare {
            // In whole steps, as the time that is shown.
            let range = history.until.since(history.from);
            let until = history.until.minus(Duration::from_secs(seconds));
            let is_kept = board.now().since(until.minus(range)) <= HISTORY_RANGE_MAX;
            let before = HistoryRequest { range, until: Some(until), ..wanted };
            let before = board.store().history(&visitor.caller, before).await?;
            history.previous = is_kept.then_some(before.total);
        }
        Ok(HistoryView::draw(&history, Ranges::new(&history, &shown, path, board.now()), board.now()))
    }

    fn draw(history: &History, ranges: Ranges, now: Timestamp) -> HistoryView {
        let sum = &history.total.counts;
        let share = percent(bad(sum), ended(sum)).unwrap_or(0.0);
        HistoryView {
            throughput: charts::throughput(history, &ranges, now),
            failures: charts::failures(history, now),
            ready: charts::ready(history, now),
            waited: charts::latencies((history, now), "waited", |point| &point.counts.waited),
            ran: charts::latencies((history, now), "ran", |point| &point.counts.ran),
            utilisation: charts::utilisation(history, now),
            heat: HeatMap::new(history, now),
            compared: history.previous.as_ref().map_or(Vec::new(), |before| compare(&history.total, before)),
            failure_share: format!("{share:.1}%"),
            ranges,
        }
    }
}

/// Whether more of it is better.
#[derive(Clone, Copy, PartialEq)]
enum Better {
    More,
    Less,
    Neither,
}

fn compare(now: &Point, before: &Point) -> Vec<Comparison> {
    let number = |name, better, now: u64, before: u64| {
        let change = percent(now, before).map(|share| share - 100.0);
        comparison(name, better, (compact(now), compact(before)), change)
    };
    let share = |point: &Point| percent(bad(&point.counts), ended(&point.counts));
    let text = |share: Option<f64>| share.map_or("–".to_owned(), |share| format!("{share:.1}%"));
    let points = share(now).zip(share(before)).map(|(now, before)| now - before);
    let time = |name, now: Option<Duration>, before: Option<Duration>| {
        let text = |time: Option<Duration>| time.map_or("–".to_owned(), at_most);
        let change = now.zip(before).filter(|(_, before)| !before.is_zero());
        let change = change.map(|(now, before)| (now.as_secs_f64() / before.as_secs_f64() - 1.0) * 100.0);
        comparison(name, Better::Less, (text(now), text(before)), change)
    };
    let mut failed =
        comparison("Failed attempts", Better::Less, (text(share(now)), text(share(before))), points);
    failed.change = failed.change.replace('%', " points");
    let p95 = |point: &Point| (point.counts.waited.percentile(0.95), point.counts.ran.percentile(0.95));
    let ((waited, ran), (waited_before, ran_before)) = (p95(now), p95(before));
    vec![
        number("Submitted", Better::Neither, now.counts.submitted, before.counts.submitted),
        number("Completed", Better::More, now.counts.completed, before.counts.completed),
        failed,
        time("Waited (p95)", waited, waited_before),
        time("Ran (p95)", ran, ran_before),
    ]
}

fn comparison(
    name: &'static str,
    better: Better,
    (now, before): (String, String),
    change: Option<f64>,
) -> Comparison {
    // A difference that rounds to nothing is none.
    let change = change.filter(|change| change.abs() >= 0.5);
    let is_good = change.map(|change| (change > 0.0) == (better == Better::More));
    let class = match (better, is_good) {
        (Better::Neither, _) | (_, None) => "",
        (_, Some(true)) => "good-text",
        (_, Some(false)) => "bad-text",
    };
    let change = change.map_or(String::new(), |change| format!("{change:+.0}%").replace('-', "−"));
    Comparison { name, now, before, change, class }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::store::Minute;

    #[test]
    fn a_difference_says_whether_it_is_good() {
        let point = |completed, failed| {
            let mut point = Point::default();
            point.counts = Minute { completed, failed, ..Minute::default() };
            point
        };
        let found = compare(&point(150, 50), &point(100, 0));
        let shown: Vec<_> = found.iter().map(|one| (one.name, one.change.as_str(), one.class)).collect();
        assert_eq!(shown[1], ("Completed", "+50%", "good-text"));
        assert_eq!(shown[2], ("Failed attempts", "+25 points", "bad-text"));
        assert_eq!(shown[0], ("Submitted", "", ""), "nothing is compared with nothing");
        assert_eq!((found[3].now.as_str(), found[3].change.as_str()), ("–", ""));
    }
}
