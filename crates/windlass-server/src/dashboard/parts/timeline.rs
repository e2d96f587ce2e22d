//! A job's history as a drawing of width 1000: one lane for the whole job, and one for each attempt.

use std::time::Duration;

use windlass::clock::Timestamp;
use windlass::job::{AttemptOutcome, JobRecord};
use windlass::store::{Attempt, Config};

use crate::dashboard::pages::limits;
use crate::dashboard::parts::format::worker_name;
use crate::dashboard::parts::format::{Moment, line, real, span};

/// A time span.
pub(in crate::dashboard) struct TimelineSpan {
    pub(in crate::dashboard) class: &'static str,
    pub(in crate::dashboard) x: String,
    pub(in crate::dashboard) width: String,
    pub(in crate::dashboard) title: String,
}

/// One attempt.
pub(in crate::dashboard) struct AttemptRow {
    pub(in crate::dashboard) number: u32,
    pub(in crate::dashboard) worker: Option<String>,
    /// The worker's display name.
    pub(in crate::dashboard) worker_name: String,
    pub(in crate::dashboard) outcome: &'static str,
    pub(in crate::dashboard) started: Moment,
    pub(in crate::dashboard) took: String,
    pub(in crate::dashboard) error: Option<String>,
    pub(in crate::dashboard) code: Option<String>,
    pub(in crate::dashboard) category: Option<&'static str>,
    /// The underlying errors.
    pub(in crate::dashboard) causes: Vec<String>,
    pub(in crate::dashboard) bar: TimelineSpan,
}

/// The whole timeline.
pub(in crate::dashboard) struct Timeline {
    pub(in crate::dashboard) life: Vec<TimelineSpan>,
    pub(in crate::dashboard) attempts: Vec<AttemptRow>,
    /// Attempts that are not shown.
    pub(in crate::dashboard) hidden: usize,
    pub(in crate::dashboard) began: Moment,
    pub(in crate::dashboard) ended: Option<Moment>,
    pub(in crate::dashboard) took: String,
    pub(in crate::dashboard) label: String,
}

const WIDTH: f64 = 1000.0;
/// Minimum width, so that short spans are visible.
const WIDTH_MIN: f64 = 4.0;

/// Where times are in a drawing.
pub(super) struct Scale {
    pub(super) from: Timestamp,
    total: Duration,
}

impl Scale {
    pub(super) fn new(from: Timestamp, end: Timestamp) -> Scale {
        Scale { from, total: end.since(from) }
    }

    pub(super) fn span(
        &self,
        class: &'static str,
        from: Timestamp,
        to: Timestamp,
        title: String,
    ) -> TimelineSpan {
        let at = |moment: Timestamp| {
            let since = u64::try_from(moment.since(self.from).as_millis()).unwrap_or(u64::MAX);
            let total = u64::try_from(self.total.as_millis()).unwrap_or(u64::MAX).max(1);
            real(since) * WIDTH / real(total)
        };
        let (x, end) = (at(from).min(WIDTH), at(to).min(WIDTH));
        let width = (end - x).max(WIDTH_MIN);
        let x = x.min(WIDTH - width);
        TimelineSpan { class, x: format!("{x:.1}"), width: format!("{width:.1}"), title }
    }
}

pub(in crate::dashboard) fn outcome_name(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Completed => "completed",
        AttemptOutcome::Failed => "failed",
        AttemptOutcome::TimedOut => "timed out",
        AttemptOutcome::Lost => "lost",
        AttemptOutcome::Released => "released",
        AttemptOutcome::Parked => "parked",
        AttemptOutcome::Suspended => "suspended",
        AttemptOutcome::Cancelled => "cancelled",
        AttemptOutcome::Expired => "expired",
    }
}

fn outcome_class(outcome: AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Completed => "t-completed",
        AttemptOutcome::Failed
        | AttemptOutcome::TimedOut
        | AttemptOutcome::Lost
        | AttemptOutcome::Expired => "t-failed",
        AttemptOutcome::Released
        | AttemptOutcome::Parked
        | AttemptOutcome::Suspended
        | AttemptOutcome::Cancelled => "t-parked",
    }
}

/// A job's history so far.
pub(in crate::dashboard) fn timeline(
    job: &JobRecord,
    attempts: &[Attempt],
    config: &Config,
    now: Timestamp,
) -> Timeline {
    let end = job.completed_at.unwrap_or(now).max(job.created_at);
    let scale = Scale::new(job.created_at, end);
    let hidden = attempts.len().saturating_sub(limits::ATTEMPTS_SHOWN);
    let rows: Vec<AttemptRow> =
        attempts[hidden..].iter().map(|attempt| row(attempt, job, &scale, config, now)).collect();
    let mut life = vec![];
    let whole = format!("waiting, {} in all", span(end.since(job.created_at)));
    life.push(scale.span("t-waiting", job.created_at, end, whole));
    for attempt in &attempts[hidden..] {
        let (from, to, class) = bounds(attempt, job, now);
        let title = format!("attempt {}: {}", attempt.id.number, span(to.since(from)));
        life.push(scale.span(class, from, to, title));
    }
    let took = span(end.since(job.created_at));
    let label = format!("{} attempts over {took}", attempts.len());
    Timeline {
        life,
        attempts: rows,
        hidden,
        began: Moment::new(job.created_at, now),
        ended: job.completed_at.map(|at| Moment::new(at, now)),
        took,
        label,
    }
}

/// When an attempt began and ended, and how it is drawn.
pub(super) fn bounds(
    attempt: &Attempt,
    job: &JobRecord,
    now: Timestamp,
) -> (Timestamp, Timestamp, &'static str) {
    match &attempt.record {
        Some(record) => (record.started_at, record.ended_at, outcome_class(record.outcome)),
        None => (job.started_at.unwrap_or(now), now, "t-running"),
    }
}

fn row(attempt: &Attempt, job: &JobRecord, scale: &Scale, config: &Config, now: Timestamp) -> AttemptRow {
    let (from, to, class) = bounds(attempt, job, now);
    let record = attempt.record.as_ref();
    let worker = match record {
        Some(record) => record.worker,
        None => job.lease.map(|lease| lease.worker),
    };
    let error = record.and_then(|record| record.error.as_ref());
    let outcome = record.map_or("running", |record| outcome_name(record.outcome));
    let took = span(to.since(from));
    let worker = worker.map(|worker| worker.to_string());
    AttemptRow {
        number: attempt.id.number,
        worker_name: worker.as_deref().map_or_else(String::new, |id| worker_name(config, id)),
        worker,
        outcome,
        started: Moment::new(from, now),
        bar: scale.span(class, from, to, format!("{outcome}, {took}")),
        took,
        error: error.map(|error| error.message.chars().take(limits::LINE_CHARS_SHOWN / 4).collect()),
        code: error.and_then(|error| error.code.clone()),
        category: error.map(|error| error.category.as_str()),
        causes: error.map_or_else(Vec::new, |error| {
            error.cause.iter().map(|cause| line(&cause.message, 200)).collect()
        }),
    }
}
