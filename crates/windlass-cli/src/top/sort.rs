//! Sorting the lists: by a column, up or down.

use windlass::job::JobState;
use windlass_api::job::Job;
use windlass_api::queue::Queue;
use windlass_api::stats::{QueueRates, Rates};

use super::app::Pane;
use super::model::{FAILED, failed_at};
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
pub(super) fn of_queue(queue: &Queue, column: usize, range: TimeRange) -> SortValue {
    let number = |states: &[JobState]| SortValue::Number(queue.depth.sum(states));
    match column {
        1 => number(&[JobState::Scheduled]),
        2 => number(&[JobState::Running]),
        3 => number(&FAILED),
        4 => queue.oldest_age.map_or(SortValue::None, |span| {
            SortValue::Number(u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX))
        }),
        5 => SortValue::Number(range.of(&queue.rates).completed),
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

/// The time that rates and durations in the lists are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum TimeRange {
    #[default]
    Minute,
    Hour,
}

impl TimeRange {
    pub(super) fn other(self) -> TimeRange {
        if self == TimeRange::Minute { TimeRange::Hour } else { TimeRange::Minute }
    }

    pub(super) fn name(self) -> &'static str {
        if self == TimeRange::Minute { "last minute" } else { "last hour" }
    }

    /// The rates of this time.
    pub(super) fn of(self, rates: &QueueRates) -> &Rates {
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
