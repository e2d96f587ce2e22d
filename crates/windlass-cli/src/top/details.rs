//! Everything about one job, queue, worker, type, schedule or group of failures, as lines that can be scrolled.

use windlass::clock::Timestamp;
use windlass_api::job::{Job, Why};
use windlass_api::job_details::{Attempt, LogLine};
use windlass_api::json::Json;
use windlass_api::pause::Pause;
use windlass_api::queue::{Queue, Type};
use windlass_api::schedule::ScheduleView;
use windlass_api::stats::{Counts, QueueRates};
use windlass_api::worker::Worker;

use super::format::{age, count};
use super::rows::FailureGroup;
use crate::output::text::api_name;
use crate::output::{escaped, raw};

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
        lines.push(heading("Payload"));
        lines.extend(payload(&details.job));
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
        lines.extend(counted(&queue.depth, &queue.rates));
        lines.extend(settings(&serde_json::to_value(&queue.settings).unwrap_or_default()));
        Details { job: None, title: format!("Queue {}", queue.name), lines, skipped: 0 }
    }

    /// Everything about a worker; `jobs` are those that it runs.
    pub(super) fn of_worker(worker: &Worker, jobs: &[&Job], now: Timestamp) -> Details {
        let mut lines = vec![
            fact("id", worker.id.to_string()),
            fact("state", if worker.alive { "alive" } else { "lost" }),
            fact("seen", ago(worker.seen_at.0, now)),
            fact("registered", ago(worker.registered_at.0, now)),
            fact("at once", worker.concurrency.to_string()),
        ];
        lines.extend(worker.version.as_ref().map(|version| fact("version", version.as_str())));
        lines.extend(worker.tenant.as_ref().map(|tenant| fact("tenant", tenant.to_string())));
        lines.extend(worker.paused.as_ref().map(|pause| paused(pause, now)));
        lines.push(heading("Takes"));
        let names = |names: Vec<String>| if names.is_empty() { "all".to_owned() } else { names.join(", ") };
        lines.push(fact("queues", names(worker.queues.iter().map(ToString::to_string).collect())));
        lines.push(fact("types", names(worker.types.iter().map(ToString::to_string).collect())));
        if !jobs.is_empty() {
            lines.push(heading("Runs"));
            lines.extend(jobs.iter().map(|job| fact(job.r#type.0.as_str(), job.id.to_string())));
        }
        Details { job: None, title: format!("Worker {}", worker.name), lines, skipped: 0 }
    }

    /// Everything about a type.
    pub(super) fn of_type(job_type: &Type, now: Timestamp) -> Details {
        let mut lines: Vec<Line> = job_type.paused.iter().map(|pause| paused(pause, now)).collect();
        lines.extend(counted(&job_type.depth, &job_type.rates));
        lines.extend(settings(&serde_json::to_value(&job_type.settings).unwrap_or_default()));
        Details { job: None, title: format!("Type {}", job_type.r#type), lines, skipped: 0 }
    }

    /// Everything about a schedule.
    pub(super) fn of_schedule(schedule: &ScheduleView, now: Timestamp) -> Details {
        let mut lines = vec![
            fact("when", crate::commands::manage::schedules::timing(schedule)),
            fact("job", format!("{} in queue {}", schedule.job.r#type, schedule.job.queue)),
            fact("missed", api_name(&schedule.missed)),
            fact("overlap", api_name(&schedule.overlap)),
            fact("submitted", count(schedule.submitted)),
        ];
        if let Some(pause) = &schedule.paused {
            let reason = pause.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
            lines.push(error_line("paused", format!("by {}, {}{reason}", pause.by, ago(pause.at.0, now))));
        }
        if let Some(refused) = &schedule.last_refused {
            lines.push(error_line("refused", format!("{}: {}", ago(refused.at.0, now), refused.reason)));
        }
        lines.extend(schedule.last_job.as_ref().map(|job| fact("last job", job.to_string())));
        lines.push(heading("Next runs"));
        lines.extend(schedule.next_runs.iter().map(|run| fact(&ago(run.0, now), run.0.to_string())));
        if let Some(payload) = &schedule.job.payload {
            lines.push(heading("Payload"));
            lines.extend(json_lines(payload));
        }
        Details { job: None, title: format!("Schedule {}", schedule.name), lines, skipped: 0 }
    }

    /// The jobs of a group of failures.
    pub(super) fn of_group(group: &FailureGroup) -> Details {
        let mut lines = vec![error_line("error", group.message.as_str())];
        lines.push(heading("Jobs, newest failure first"));
        lines.extend(group.jobs.iter().map(|id| fact("", id.as_str())));
        let title = format!(
            "{} of {}",
            super::format::several(group.jobs.len() as u64, "failure", "failures"),
            group.job_type
        );
        Details { job: None, title, lines, skipped: 0 }
    }

    /// Scrolls, not past the end.
    pub(super) fn scroll(&mut self, by: isize) {
        self.skipped = self.skipped.saturating_add_signed(by).min(self.lines.len().saturating_sub(1));
    }
}

/// Lines of a payload that are shown.
const PAYLOAD_LINES: usize = 200;

/// The payload of a job, as far as this key may read it.
fn payload(job: &Job) -> Vec<Line> {
    match (&job.payload, &job.payload_base64) {
        (Some(payload), _) => json_lines(payload),
        (None, Some(base64)) => {
            let kind = job.content_type.as_deref().unwrap_or("unknown type");
            vec![fact("", format!("{kind}, {} characters of base64", base64.len()))]
        }
        (None, None) => vec![fact("", "not readable with this key")],
    }
}

/// JSON over several lines, up to a limit.
fn json_lines(json: &Json) -> Vec<Line> {
    let all = raw::lines(json.0.get());
    let mut lines: Vec<Line> = all.iter().take(PAYLOAD_LINES).map(|line| fact("", line.as_str())).collect();
    if all.len() > PAYLOAD_LINES {
        lines.push(fact("", "…"));
    }
    lines
}

fn paused(pause: &Pause, now: Timestamp) -> Line {
    let reason = pause.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    error_line("paused", format!("by {}, {}{reason}", pause.by, ago(pause.at.0, now)))
}

/// Jobs by state, and what happened in the last minute and hour.
fn counted(depth: &Counts, rates: &QueueRates) -> Vec<Line> {
    let mut lines = vec![heading("Jobs by state")];
    let filled = depth.iter().filter(|(_, number)| *number > 0);
    lines.extend(filled.map(|(state, number)| fact(state.as_str(), count(number))));
    for (name, flow) in [("Last minute", &rates.last_minute), ("Last hour", &rates.last_hour)] {
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
    lines
}

/// The settings that are set.
fn settings(all: &serde_json::Value) -> Vec<Line> {
    let set = all.as_object().into_iter().flatten().filter(|(_, value)| is_set(value));
    let mut set: Vec<Line> = set.map(|(name, value)| fact(name, escaped(&value.to_string()))).collect();
    if !set.is_empty() {
        set.insert(0, heading("Settings"));
    }
    set
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
    let outcome = attempt.outcome.as_ref().map_or_else(|| "runs".to_owned(), api_name);
    let label = format!("attempt {}", attempt.number);
    let mut lines = vec![fact(&label, format!("{outcome}{took}"))];
    lines.extend(attempt.error.as_ref().map(|error| error_line("", error.message.as_str())));
    lines
}
