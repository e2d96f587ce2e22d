//! Sorting the lists: by a column, up or down.

use std::time::Duration;

use windlass::job::JobState;
use windlass_api::job::Job;
use windlass_api::queue::Queue;
use windlass_api::stats::{QueueRates, Rates};

use super::app::{Pane, Screen};
use super::model::failed_at;
use super::rows::columns_of;

/// What a row is sorted by in a column. `None` comes last in both directions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SortValue {
    Number(u64),
    Text(String),
    None,
}

/// The chosen column of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sorting {
    pub(super) column: usize,
    pub(super) is_down: bool,
}

impl Sorting {
    /// The next column; numbers begin with the largest. `None` after the last: the list's own order.
    pub(super) fn after(current: Option<Sorting>, pane: Pane) -> Option<Sorting> {
        let column = current.map_or(0, |sorting| sorting.column + 1);
        let (_, is_down) = *names(pane).get(column)?;
        Some(Sorting { column, is_down })
    }

    /// Sorts rows by their value; equal ones stay in their order.
    pub(super) fn apply<T>(self, rows: &mut [T], value: impl Fn(&T) -> SortValue) {
        rows.sort_by(|left, right| {
            let (left, right) = (value(left), value(right));
            match (&left, &right) {
                (SortValue::None, _) | (_, SortValue::None) => left.cmp(&right),
                _ if self.is_down => right.cmp(&left),
                _ => left.cmp(&right),
            }
        });
    }
}

/// The columns that a list can be sorted by, and whether each holds numbers.
pub(super) fn names(pane: Pane) -> Vec<(&'static str, bool)> {
    match pane {
        Pane::Queues => {
            vec![
                ("queue", false),
                ("ready", true),
                ("running", true),
                ("failed", true),
                ("oldest", true),
                ("out", true),
            ]
        }
        Pane::Running | Pane::Failures | Pane::Suspended => {
            vec![("type", false), ("queue", false), ("age", true), ("attempt", true)]
        }
        pane => {
            let columns = columns_of(pane).iter().filter(|column| !column.title.is_empty());
            columns.map(|column| (column.title, column.is_number)).collect()
        }
    }
}

/// The value of a queue in a column of [`names`].
pub(super) fn of_queue(screen: &Screen, queue: &Queue, column: usize) -> SortValue {
    let number = |states: &[JobState]| SortValue::Number(queue.depth.sum(states));
    match column {
        1 => number(&[JobState::Scheduled]),
        2 => number(&[JobState::Running]),
        3 => SortValue::Number(screen.open_failures_of(&queue.name).0),
        4 => queue.oldest_age.map_or(SortValue::None, |span| {
            SortValue::Number(u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX))
        }),
        5 => SortValue::Number(screen.range.select(&queue.rates).completed),
        _ => SortValue::Text(queue.name.to_string()),
    }
}

/// The value of a job in a column of [`names`].
pub(super) fn of_job(job: &Job, column: usize, pane: Pane) -> SortValue {
    // The oldest is the largest age.
    let age = |millis: i64| SortValue::Number(u64::MAX - u64::try_from(millis).unwrap_or(0));
    match column {
        1 => SortValue::Text(job.queue.to_string()),
        2 if pane == Pane::Failures => age(failed_at(job).as_millis()),
        2 => age(job.started_at.unwrap_or(job.updated_at).0.as_millis()),
        3 => SortValue::Number(u64::from(job.attempt)),
        _ => SortValue::Text(job.r#type.to_string()),
    }
}

/// The time that is shown: rates and durations in the lists, and the curves above them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TimeRange {
    #[default]
    Minute,
    Hour,
    Day,
    Week,
    Month,
}

impl TimeRange {
    /// The next one; the shortest after the longest.
    pub(super) fn next(self) -> TimeRange {
        match self {
            TimeRange::Minute => TimeRange::Hour,
            TimeRange::Hour => TimeRange::Day,
            TimeRange::Day => TimeRange::Week,
            TimeRange::Week => TimeRange::Month,
            TimeRange::Month => TimeRange::Minute,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            TimeRange::Minute => "last minute",
            TimeRange::Hour => "last hour",
            TimeRange::Day => "last 24 hours",
            TimeRange::Week => "last 7 days",
            TimeRange::Month => "last 30 days",
        }
    }

    /// The time of the rates in the lists: those of single queues and types are known for an hour.
    pub(super) fn listed(self) -> TimeRange {
        if self == TimeRange::Minute { self } else { TimeRange::Hour }
    }

    /// How much of the server's history is drawn; none for the times that are drawn live.
    pub(super) fn stored(self) -> Option<Duration> {
        let days = match self {
            TimeRange::Minute | TimeRange::Hour => return None,
            TimeRange::Day => 1,
            TimeRange::Week => 7,
            TimeRange::Month => 30,
        };
        Some(Duration::from_secs(days * 86_400))
    }

    /// The rates of this time.
    pub(super) fn select(self, rates: &QueueRates) -> &Rates {
        if self == TimeRange::Minute { &rates.last_minute } else { &rates.last_hour }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_up_and_down_and_nothing_comes_last() {
        let sorted = |is_down| {
            let mut rows =
                vec![SortValue::Number(2), SortValue::None, SortValue::Number(9), SortValue::Number(1)];
            Sorting { column: 0, is_down }.apply(&mut rows, Clone::clone);
            rows
        };
        let number = SortValue::Number;
        assert_eq!(sorted(false), [number(1), number(2), number(9), SortValue::None]);
        assert_eq!(sorted(true), [number(9), number(2), number(1), SortValue::None]);
    }

    #[test]
    fn the_key_goes_through_all_columns_and_back_to_the_list_s_own_order() {
        for pane in Pane::ALL {
            let mut sorting = None;
            for (_, is_number) in names(pane) {
                sorting = Sorting::after(sorting, pane);
                assert_eq!(sorting.map(|sorting| sorting.is_down), Some(is_number));
            }
            assert_eq!(Sorting::after(sorting, pane), None);
        }
    }
}
