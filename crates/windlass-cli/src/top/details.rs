//! Everything about one job or queue, as lines that can be scrolled.

use windlass::clock::Timestamp;
use windlass_api::job::{Job, Why};
use windlass_api::job_details::{Attempt, LogLine};
use windlass_api::queue::Queue;

use super::format::{age, count};
use crate::output::escaped;
use crate::output::text::word;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineStyle {
    Heading,
    Text,
    Error,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) weight: LineStyle,
    /// The label, in its own column.
    pub(super) label: String,
    pub(super) text: String,
}

/// The details dialog.
#[derive(Debug)]
pub(super) struct Details {
    /// The job; None for a queue.
    pub(super) job: Option<Job>,
    pub(super) title: String,
    pub(super) lines: Vec<Line>,
    /// Number of lines scrolled past.
    pub(super) skipped: usize,
}

/// Everything read about a job.
#[derive(Debug, Clone)]
pub(super) struct JobDetails {
    pub(super) job: Job,
    pub(super) reasons: Vec<Why>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) logs: Vec<LogLine>,
}

fn heading(text: &str) -> Line {
    Line { weight: LineStyle::Heading, label: String::new(), text: text.to_owned() }
}

fn fact(label: &str, text: impl Into<String>) -> Line {
    Line { weight: LineStyle::Text, label: label.to_owned(), text: text.into() }
}

fn error_line(label: &str, text: impl Into<String>) -> Line {
    Line { weight: LineStyle::Error, label: label.to_owned(), text: text.into() }
}

fn ago(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", age(at.since(now))) } else { format!("{} ago", age(now.since(at))) }
}

impl Details {
    /// The details known from the list, until the rest has arrived.
    pub(super) fn begin(job: &Job, now: Timestamp) -> Details {
        let mut lines = facts(job, now);
        lines.push(fact("", "loading …"));
        Details { job: Some(job.clone()), title: title(job), lines, skipped: 0 }
    }

    /// Adds everything about a job. Keeps the scroll position.
    pub(super) fn complete(&mut self, details: JobDetails, now: Timestamp) {
        let mut lines = facts(&details.job, now);
        if !details.reasons.is_empty() {
            lines.push(heading("Why it is not running"));
            lines.extend(
                details.reasons.iter().map(|reason| fact(reason.code.as_str(), reason.message.as_str())),
            );
        }
        if !details.attempts.is_empty() {
            lines.push(heading("Attempts"));
            lines.extend(details.attempts.iter().rev().flat_map(|attempt| tried(attempt, now)));
        }
        if !details.logs.is_empty() {
            lines.push(heading("Log, newest first"));
            lines
                .extend(details.logs.iter().rev().map(|line| fact(&ago(line.at.0, now), line.text.as_str())));
        }
        self.title = title(&details.job);
        (self.job, self.lines) = (Some(details.job), lines);
    }

    /// Everything about a queue.
    pub(super) fn of_queue(queue: &Queue, now: Timestamp) -> Details {
        let mut lines = Vec::new();
        if let Some(pause) = &queue.paused {
            let reason = pause.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
            lines.push(error_line("paused", format!("by {}, {}{reason}", pause.by, ago(pause.at.0, now))));
        }
        lines.push(fact(
            "oldest waiting",
            queue.oldest_age.map_or("no job waits".to_owned(), |span| age(span.0)),
        ));
        lines.push(heading("Jobs by state"));
        let filled = queue.depth.iter().filter(|(_, number)| *number > 0);
        lines.extend(filled.map(|(state, number)| fact(state.as_str(), count(number))));
        for (name, flow) in [("Last minute", &queue.rates.last_minute), ("Last hour", &queue.rates.last_hour)]
        {
            lines.push(heading(name));
            lines.push(fact("submitted", count(flow.submitted)));
            lines.push(fact("completed", count(flow.completed)));
            let failed =
                format!("{} final, {} retried", count(flow.failed + flow.dead_letter), count(flow.retried));
            lines.push(fact("failed", failed));
            for (label, spread) in [("waited", &flow.waited), ("ran", &flow.ran)] {
                if let (Some(half), Some(most)) = (spread.p50, spread.p95) {
                    lines.push(fact(label, format!("p50 {}, p95 {}", age(half.0), age(most.0))));
                }
            }
        }
        let set = serde_json::to_value(&queue.settings).unwrap_or_default();
        let set = set.as_object().into_iter().flatten().filter(|(_, value)| is_set(value));
        let set: Vec<Line> = set.map(|(name, value)| fact(name, escaped(&value.to_string()))).collect();
        if !set.is_empty() {
            lines.push(heading("Settings"));
            lines.extend(set);
        }
        Details { job: None, title: format!("Queue {}", queue.name), lines, skipped: 0 }
    }

    /// Scrolls, not past the end.
    pub(super) fn scroll(&mut self, by: isize) {
        self.skipped = self.skipped.saturating_add_signed(by).min(self.lines.len().saturating_sub(1));
    }
}

fn is_set(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => false,
        serde_json::Value::Object(fields) => fields.values().any(|field| !field.is_null()),
        _ => true,
    }
}

fn title(job: &Job) -> String {
    format!("{} {}", job.r#type, job.id)
}

fn facts(job: &Job, now: Timestamp) -> Vec<Line> {
    let mut lines = vec![
        fact("state", job.state.0.as_str()),
        fact("queue", format!("{} of tenant {}, priority {}", job.queue, job.tenant, job.priority)),
        fact("attempt", format!("{} of {}", job.attempt, job.max_attempts)),
        fact("submitted", ago(job.created_at.0, now)),
    ];
    if let Some(why) = &job.why {
        lines.insert(1, fact("why", why.message.as_str()));
    }
    if !job.state.0.is_final() && job.lease.is_none() {
        lines.push(fact("runs", ago(job.run_at.0, now)));
    }
    if let Some(at) = job.started_at {
        lines.push(fact("started", ago(at.0, now)));
    }
    if let Some(at) = job.completed_at {
        lines.push(fact("ended", ago(at.0, now)));
    }
    if let (Some(at), Some(by)) = (job.suspended_at, &job.suspended_by) {
        lines.push(fact("suspended", format!("{} by {by}", ago(at.0, now))));
    }
    if let Some(lease) = &job.lease {
        lines.push(fact(
            "lease",
            format!("of worker {}, expires {}", lease.worker, ago(lease.expires_at.0, now)),
        ));
    }
    if let Some(progress) = &job.progress {
        let message = progress.message.as_ref().map_or(String::new(), |message| format!(", {message}"));
        lines.push(fact("progress", format!("{:.0} %{message}", progress.percent)));
    }
    if let Some(error) = &job.error {
        let code = error.code.as_ref().map_or(String::new(), |code| format!(" {code}"));
        lines.push(error_line("error", format!("{}{code}, {}", error.category, ago(error.at.0, now))));
        lines.push(error_line("", error.message.as_str()));
        lines.extend(error.cause.iter().map(|cause| error_line("caused by", cause.message.as_str())));
    }
    lines
}

fn tried(attempt: &Attempt, now: Timestamp) -> Vec<Line> {
    let took = match (attempt.started_at, attempt.ended_at) {
        (Some(start), Some(end)) => format!(" after {}, {}", age(end.0.since(start.0)), ago(end.0, now)),
        (Some(start), None) => format!(" for {}", age(now.since(start.0))),
        _ => String::new(),
    };
    let outcome = attempt.outcome.as_ref().map_or_else(|| "runs".to_owned(), word);
    let label = format!("attempt {}", attempt.number);
    let mut lines = vec![fact(&label, format!("{outcome}{took}"))];
    lines.extend(attempt.error.as_ref().map(|error| error_line("", error.message.as_str())));
    lines
}
