//! A queue as a table row, on the overview and in the list of queues.

use std::time::Duration;

use windlass::clock::Timestamp;
use windlass::job::JobState;
use windlass::store::query::queues::QueueInfo;

use crate::dashboard::page::PauseView;
use crate::dashboard::parts::chart;
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
pub(in crate::dashboard) fn lines(looks: &[QueueInfo], visitor: &Visitor, now: Timestamp) -> Vec<QueueRow> {
    let ready = |look: &QueueInfo| of(look, &[JobState::Scheduled]);
    let fullest = looks.iter().map(ready).max().unwrap_or(0).max(BAR_FULL_MIN);
    let line = |look: &QueueInfo| {
        let hour = chart::hour(&look.minutes, now);
        let sum = chart::total(&hour);
        let recent = chart::total(hour.iter().rev().skip(1).take(5));
        let waited = look.oldest.map(|oldest| now.since(oldest));
        let (held, failed) =
            (of(look, &[JobState::Suspended, JobState::Created]), sum.failed + sum.dead_letter);
        let link = format!("/queues/{}", segment(look.name.as_str()));
        QueueRow {
            name: look.name.to_string(),
            act: format!("{link}/act"),
            pop: format!("pause-{}", look.name),
            link,
            ready: compact(ready(look)),
            share: format!("{:.1}", real(ready(look)) * 100.0 / real(fullest)),
            later: compact(of(look, &[JobState::Delayed, JobState::Pending, JobState::Waiting])),
            held: (held > 0).then(|| compact(held)),
            running: compact(of(look, &[JobState::Running])),
            retrying: compact(of(look, &[JobState::Retrying])),
            failed: compact(failed),
            is_failing: failed > 0,
            dead: compact(of(look, &[JobState::DeadLetter])),
            oldest: waited.map(span),
            is_late: waited.is_some_and(|waited| waited > LATE),
            spark: chart::spark(&hour),
            rate: format!("{:.0}", real(chart::ended(&recent)) / 5.0),
            paused: look.paused.as_ref().map(|hold| PauseView::of(hold, now)),
            can_resume: look.paused.as_ref().is_some_and(|hold| resume::is_theirs(hold, visitor)),
        }
    };
    looks.iter().map(line).collect()
}

/// The number of a queue's jobs in these states.
fn of(look: &QueueInfo, states: &[JobState]) -> u64 {
    states.iter().filter_map(|state| look.depth.get(state)).sum()
}
