//! What happened to a job on one time axis: attempts, their steps, sleeps and waits, children and log lines. A step is drawn
//! from the end of the one before it, because only the moment it was saved is stored.

use windlass::clock::Timestamp;
use windlass::job::{AttemptOutcome, JobRecord};
use windlass::store::{Attempt, StepTime};

use crate::dashboard::pages::limits;
use crate::dashboard::parts::components::JobLink;
use crate::dashboard::parts::format::span;
use crate::dashboard::parts::timeline::{Scale, TimelineSpan, bounds, outcome_name};

/// One bar with its name.
pub(in crate::dashboard) struct WaterfallRow {
    /// What it is: `attempt`, `step`, `sleep`, `signal`, `children`, `child` or `log`.
    pub(in crate::dashboard) kind: &'static str,
    pub(in crate::dashboard) name: String,
    /// The job, if it is a child.
    pub(in crate::dashboard) link: Option<JobLink>,
    /// When it began, counted from the submission.
    pub(in crate::dashboard) offset: String,
    pub(in crate::dashboard) took: String,
    pub(in crate::dashboard) bars: Vec<TimelineSpan>,
    start: Timestamp,
    end: Timestamp,
}

/// The rows, in the order in which they began.
pub(in crate::dashboard) struct Waterfall {
    pub(in crate::dashboard) rows: Vec<WaterfallRow>,
    /// Rows that are not shown, the earliest.
    pub(in crate::dashboard) hidden: usize,
}

/// What a job's page has read about it.
pub(in crate::dashboard) struct Parts<'a> {
    pub(in crate::dashboard) job: &'a JobRecord,
    pub(in crate::dashboard) attempts: &'a [Attempt],
    pub(in crate::dashboard) steps: &'a [(String, StepTime)],
    pub(in crate::dashboard) children: &'a [JobRecord],
    /// When log lines were written.
    pub(in crate::dashboard) logs: &'a [Timestamp],
}

/// A saved step in words: what kind of call it is, and its name without the prefix that workers store. The end of a wait
/// is stored apart, and is `None`.
pub(in crate::dashboard) fn step_name(key: &str) -> Option<(&'static str, &str)> {
    let kinds = ["sleep", "signal", "children"];
    if key.starts_with("deadline:") {
        return None;
    }
    let kind = kinds.into_iter().find_map(|kind| {
        let name = key.strip_prefix(kind)?.strip_prefix(':')?;
        Some((kind, name))
    });
    Some(kind.unwrap_or(("step", key)))
}

/// A saved step for a list: `deadline of signal approval`.
pub(in crate::dashboard) fn step_label(key: &str) -> String {
    let (ends, key) = key.strip_prefix("deadline:").map_or(("", key), |rest| ("deadline of ", rest));
    match step_name(key) {
        Some(("step", name) | (_, name @ "")) => format!("{ends}{name}"),
        Some((kind, name)) => format!("{ends}{kind} {name}"),
        None => format!("{ends}{key}"),
    }
}

impl Waterfall {
    /// `None` if there are neither steps nor children: the attempts are drawn already.
    pub(in crate::dashboard) fn new(parts: &Parts<'_>, now: Timestamp) -> Option<Waterfall> {
        if parts.steps.is_empty() && parts.children.is_empty() {
            return None;
        }
        let end = parts.job.completed_at.unwrap_or(now).max(parts.job.created_at);
        let scale = Scale::new(parts.job.created_at, end);
        let mut rows = Vec::new();
        for (place, attempt) in parts.attempts.iter().enumerate() {
            let next = parts.attempts.get(place + 1).map(|next| bounds(next, parts.job, now).0);
            attempt_rows(parts, attempt, next.unwrap_or(end), &scale, now, &mut rows);
        }
        rows.extend(parts.children.iter().map(|child| child_row(child, &scale, now)));
        // Stable: an attempt comes before the step that begins with it.
        rows.sort_by_key(|row| row.start);
        let hidden = rows.len().saturating_sub(limits::WATERFALL_ROWS);
        let mut rows = rows.split_off(hidden);
        rows.extend(log_row(parts.logs, &scale));
        Some(Waterfall { rows, hidden })
    }
}

/// An attempt, its steps, and what it waited for after it.
fn attempt_rows(
    parts: &Parts<'_>,
    attempt: &Attempt,
    next: Timestamp,
    scale: &Scale,
    now: Timestamp,
    rows: &mut Vec<WaterfallRow>,
) {
    let (from, to, class) = bounds(attempt, parts.job, now);
    let outcome = attempt.record.as_ref().map(|record| record.outcome);
    let name = format!("{} {}", attempt.id.number, outcome.map_or("running", outcome_name));
    rows.push(row(("attempt", class), name, (from, to), scale));
    let mut own: Vec<&(String, StepTime)> =
        parts.steps.iter().filter(|(_, step)| step.attempt == attempt.id.number).collect();
    own.sort_by_key(|(_, step)| (step.at, step.place));
    let is_wait =
        |key: &str| ["sleep:", "signal:", "children:", "deadline:"].iter().any(|kind| key.starts_with(kind));
    let is_parked = outcome == Some(AttemptOutcome::Parked);
    // What was saved together with parking is what the job waits for.
    let waited = own.iter().rev().find(|(key, step)| is_parked && step.at >= to && is_wait(key));
    let mut before = from;
    for (key, step) in own.iter().filter(|one| Some(*one) != waited) {
        let Some((kind, name)) = step_name(key) else { continue };
        let class = if kind == "step" { "t-completed" } else { "t-parked" };
        rows.push(row((kind, class), name.to_owned(), (before.min(step.at), step.at), scale));
        before = step.at;
    }
    if is_parked {
        let key = waited.map_or("", |(key, _)| key.strip_prefix("deadline:").unwrap_or(key));
        let (kind, name) = step_name(key).filter(|_| !key.is_empty()).unwrap_or(("wait", ""));
        rows.push(row((kind, "t-waiting"), name.to_owned(), (to, next), scale));
    }
}

fn child_row(child: &JobRecord, scale: &Scale, now: Timestamp) -> WaterfallRow {
    let end = child.completed_at.unwrap_or(now).max(child.created_at);
    let class = match child.state {
        windlass::job::JobState::Completed => "t-completed",
        state if state.is_final() => "t-failed",
        _ => "t-running",
    };
    let name = child.lane.job_type.to_string();
    WaterfallRow {
        link: Some(JobLink(child.id)),
        ..row(("child", class), name, (child.created_at, end), scale)
    }
}

/// All log lines as marks in one row.
fn log_row(logs: &[Timestamp], scale: &Scale) -> Option<WaterfallRow> {
    let (first, last) = (*logs.first()?, *logs.last()?);
    let skip = logs.len().saturating_sub(limits::WATERFALL_MARKS);
    let marks = logs[skip..].iter().map(|at| scale.span("t-mark", *at, *at, String::new()));
    let name = format!("{} {}", logs.len(), if logs.len() == 1 { "line" } else { "lines" });
    Some(WaterfallRow { bars: marks.collect(), ..row(("log", "t-mark"), name, (first, last), scale) })
}

fn row(
    (kind, class): (&'static str, &'static str),
    name: String,
    (start, end): (Timestamp, Timestamp),
    scale: &Scale,
) -> WaterfallRow {
    let took = span(end.since(start));
    WaterfallRow {
        kind,
        bars: vec![scale.span(class, start, end, format!("{kind} {name}, {took}"))],
        name,
        link: None,
        offset: span(start.since(scale.from)),
        took,
        start,
        end,
    }
}

impl WaterfallRow {
    /// Whether it is a moment rather than a time.
    pub(in crate::dashboard) fn is_moment(&self) -> bool {
        self.start == self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_named_without_the_prefixes_that_workers_store() {
        assert_eq!(step_name("charge"), Some(("step", "charge")));
        assert_eq!(step_name("sleep:nap"), Some(("sleep", "nap")));
        assert_eq!(step_name("signal:approval"), Some(("signal", "approval")));
        assert_eq!(step_name("deadline:signal:approval"), None);
        assert_eq!(step_label("deadline:signal:approval"), "deadline of signal approval");
        assert_eq!(step_label("children:photos"), "children photos");
        assert_eq!(step_label("charge"), "charge");
    }
}
