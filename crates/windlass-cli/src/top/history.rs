//! What happened over a longer time than the rates of the lists: the server's history of all jobs, or of the selected queue
//! or type.

use windlass_api::stats::history::{HistoryQuery, Period, StatsHistory};
use windlass_api::time::Span;

use super::app::{Pane, Screen};
use super::sort::TimeRange;
use crate::connection::client::Call;

/// Whose history, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HistoryOf {
    range: TimeRange,
    queue: Option<String>,
    job_type: Option<String>,
}

/// A history that was read.
#[derive(Debug, Clone)]
pub(super) struct History {
    pub(super) of: HistoryOf,
    pub(super) found: StatsHistory,
}

/// Selects one number of a period.
pub(super) type PeriodReading = fn(&Period) -> u64;

impl HistoryOf {
    /// What it is of, for people.
    pub(super) fn title(&self) -> String {
        let whose = match (&self.queue, &self.job_type) {
            (Some(queue), _) => format!("queue {queue}"),
            (None, Some(job_type)) => format!("type {job_type}"),
            (None, None) => "all jobs".to_owned(),
        };
        format!("{whose} · {}", self.range.name())
    }

    /// The request.
    pub(super) fn call(&self) -> Call {
        let query = HistoryQuery { range: self.range.stored().map(Span), ..HistoryQuery::default() };
        let call = Call::get(&["stats", "history"]).queries(&query);
        call.query_if("queue", self.queue.as_deref()).query_if("type", self.job_type.as_deref())
    }
}

impl Screen {
    /// The history to show; none for the times that are drawn live.
    pub(super) fn history_wanted(&self) -> Option<HistoryOf> {
        self.range.stored()?;
        let queue = self.chosen_queue().map(|queue| queue.name.to_string());
        let job_type = (self.pane == Pane::Types).then(|| self.chosen_key()).flatten().map(str::to_owned);
        Some(HistoryOf { range: self.range, queue, job_type })
    }

    /// The history that is wanted, once it was read.
    pub(super) fn history_shown(&self) -> Option<&StatsHistory> {
        let wanted = self.history_wanted()?;
        self.history.as_ref().filter(|history| history.of == wanted).map(|history| &history.found)
    }
}

/// The numbers of the points over so many columns: the largest of the points in a column.
pub(super) fn columns_of(history: &StatsHistory, reading: PeriodReading, width: usize) -> Vec<f64> {
    let values: Vec<u64> = history.points.iter().map(|point| reading(&point.period)).collect();
    let column = |x: usize| {
        let from = x * values.len() / width;
        let until = ((x + 1) * values.len() / width).max(from + 1);
        values.get(from..until).and_then(|values| values.iter().max()).copied().unwrap_or(0)
    };
    #[allow(clippy::cast_precision_loss, reason = "drawings need no more precision")]
    (0..width).map(|x| column(x) as f64).collect()
}
