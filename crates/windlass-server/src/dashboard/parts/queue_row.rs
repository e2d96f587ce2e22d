//! A queue as a table row, on the overview and in the list of queues.

use std::time::Duration;

use windlass::clock::Timestamp;
use windlass::job::JobState;
use windlass::store::QueueInfo;

use crate::dashboard::page::PauseView;
use crate::dashboard::parts::chart;
use crate::dashboard::parts::failure::open::OpenFailures;
use crate::dashboard::parts::format::{compact, real, span};
use crate::dashboard::requests::form::segment;
use crate::dashboard::requests::middleware::Visitor;
use crate::dashboard::requests::resume;

/// A job that waited longer than this for a worker is late: with idle workers it takes milliseconds.
pub(in crate::dashboard) const LATE: Duration = Duration::from_secs(60);
/// Minimum number of ready jobs for a full bar: two jobs are not a backlog, even if no queue has more.
const BAR_FULL_MIN: u64 = 100;

/// A queue as a table row.
pub(in crate::dashboard) struct QueueRow {
    pub(in crate::dashboard) name: String,
    pub(in crate::dashboard) link: String,
    /// The action of its forms.
    pub(in crate::dashboard) act: String,
    /// The id of its pause dialog.
    pub(in crate::dashboard) pop: String,
    /// Claimable jobs.
    pub(in crate::dashboard) ready: String,
    /// Width of their bar in percent.
    pub(in crate::dashboard) share: String,
    /// Delayed, blocked or parked.
    pub(in crate::dashboard) later: String,
    /// Suspended or not submitted, if any.
    pub(in crate::dashboard) held: Option<String>,
    pub(in crate::dashboard) running: String,
    pub(in crate::dashboard) retrying: String,
    /// Jobs that failed in the last hour.
    pub(in crate::dashboard) failed: String,
    /// Whether some of them are open: they were not retried.
    pub(in crate::dashboard) is_failing: bool,
    /// Stored dead letters, including redriven ones.
    pub(in crate::dashboard) dead: String,
    pub(in crate::dashboard) oldest: Option<String>,
    pub(in crate::dashboard) is_late: bool,
    pub(in crate::dashboard) spark: String,
    pub(in crate::dashboard) rate: String,
    pub(in crate::dashboard) paused: Option<PauseView>,
    /// Whether this visitor can resume its pause.
    pub(in crate::dashboard) can_resume: bool,
}

/// Queues as rows; bars are relative to the longest queue.
pub(in crate::dashboard) fn lines(
    infos: &[QueueInfo],
    visitor: &Visitor,
    open: &OpenFailures,
    now: Timestamp,
) -> Vec<QueueRow> {
    let ready = |info: &QueueInfo| count(info, &[JobState::Scheduled]);
    let fullest = infos.iter().map(ready).max().unwrap_or(0).max(BAR_FULL_MIN);
    let line = |info: &QueueInfo| {
        let hour = chart::hour(&info.minutes, now);
        let sum = chart::total(&hour);
        let recent = chart::total(hour.iter().rev().skip(1).take(5));
        let waited = info.oldest.map(|oldest| now.since(oldest));
        let (held, failed) =
            (count(info, &[JobState::Suspended, JobState::Created]), sum.failed + sum.dead_letter);
        let link = format!("/queues/{}", segment(info.name.as_str()));
        QueueRow {
            name: info.name.to_string(),
            act: format!("{link}/act"),
            pop: format!("pause-{}", info.name),
            link,
            ready: compact(ready(info)),
            share: format!("{:.1}", real(ready(info)) * 100.0 / real(fullest)),
            later: compact(count(info, &[JobState::Delayed, JobState::Pending, JobState::Waiting])),
            held: (held > 0).then(|| compact(held)),
            running: compact(count(info, &[JobState::Running])),
            retrying: compact(count(info, &[JobState::Retrying])),
            failed: compact(failed),
            is_failing: failed > 0 && open.in_queue(&info.name),
            dead: compact(count(info, &[JobState::DeadLetter])),
            oldest: waited.map(span),
            is_late: waited.is_some_and(|waited| waited > LATE),
            spark: chart::spark(&hour),
            rate: format!("{:.0}", real(chart::ended(&recent)) / 5.0),
            paused: info.paused.as_ref().map(|hold| PauseView::new(hold, now)),
            can_resume: info.paused.as_ref().is_some_and(|hold| resume::is_theirs(hold, visitor)),
        }
    };
    infos.iter().map(line).collect()
}

/// The columns that the list can be sorted by.
pub(in crate::dashboard) const COLUMNS: [&str; 8] =
    ["ready", "oldest", "running", "retrying", "later", "failed", "dead", "rate"];

/// What a queue has in a column.
pub(in crate::dashboard) fn sort_value(info: &QueueInfo, column: &str, now: Timestamp) -> f64 {
    let hour = chart::hour(&info.minutes, now);
    match column {
        "ready" => real(count(info, &[JobState::Scheduled])),
        "oldest" => info.oldest.map_or(-1.0, |oldest| now.since(oldest).as_secs_f64()),
        "running" => real(count(info, &[JobState::Running])),
        "retrying" => real(count(info, &[JobState::Retrying])),
        "later" => real(count(info, &[JobState::Delayed, JobState::Pending, JobState::Waiting])),
        "failed" => {
            let sum = chart::total(&hour);
            real(sum.failed + sum.dead_letter)
        }
        "dead" => real(count(info, &[JobState::DeadLetter])),
        _ => real(chart::ended(&chart::total(hour.iter().rev().skip(1).take(5)))),
    }
}

/// The number of a queue's jobs in these states.
fn count(info: &QueueInfo, states: &[JobState]) -> u64 {
    states.iter().filter_map(|state| info.depth.get(state)).sum()
}
