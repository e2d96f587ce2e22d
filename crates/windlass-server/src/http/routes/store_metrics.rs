//! Metrics of the store in Prometheus format: commits, and counts of jobs since this process started.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use windlass::job::QueueName;
use windlass::store::caller::Caller;
use windlass::store::documents::minute_stats::{LatencyHistogram, Minute};
use windlass::store::metrics::{Fallback, HistogramReading, Metrics};

use crate::http::routes::metrics::{heading, line};
use crate::limits;

/// Writes the store's metrics; those of jobs as far as the caller may see them.
pub(in crate::http) fn write_store<'q>(
    text: &mut String,
    metrics: &Metrics,
    caller: &Caller,
    known: impl Iterator<Item = &'q QueueName>,
) {
    heading(text, "windlass_commit_requests", "histogram", "Requests per commit, on this node.");
    write_histogram(text, "windlass_commit_requests", &metrics.group_requests.read(), |edge| edge);
    heading(
        text,
        "windlass_commit_seconds",
        "histogram",
        "Duration of commits including fsync, on this node.",
    );
    let seconds = |micros| Duration::from_micros(micros).as_secs_f64();
    write_histogram(text, "windlass_commit_seconds", &metrics.commit_micros.read(), seconds);
    heading(
        text,
        "windlass_fallback_wakeups_total",
        "counter",
        "Changes found by polling that should have been notified, on this node.",
    );
    for what in Fallback::ALL {
        let labels = format!("path=\"{}\"", what.as_str());
        line(text, "windlass_fallback_wakeups_total", &labels, metrics.fallbacks(what));
    }
    // Known queues have series from the first scrape on, with 0: a rate needs a value before the first event.
    let mut queues: BTreeMap<&str, Minute> = known.map(|queue| (queue.as_str(), Minute::default())).collect();
    let totals = metrics.totals_by_queue();
    for ((tenant, queue), total) in &totals {
        if caller.can_see(tenant) {
            queues.entry(queue.as_str()).or_default().merge(total);
        }
    }
    // The first by name have series, so that a queue's series does not come and go.
    while queues.len() > limits::METRIC_QUEUES_MAX {
        queues.pop_last();
    }
    write_counters(text, &queues);
    let mut types: BTreeMap<&str, Minute> = BTreeMap::new();
    let totals = metrics.totals_by_type();
    for ((tenant, job_type), total) in &totals {
        if caller.can_see(tenant) {
            types.entry(job_type.as_str()).or_default().merge(total);
        }
    }
    write_types(text, &types);
}

/// Selects one count.
type Reading = fn(&Minute) -> u64;

/// Final states.
const OUTCOMES: [(&str, Reading); 4] = [
    ("completed", |total| total.completed),
    ("failed", |total| total.failed),
    ("dead_letter", |total| total.dead_letter),
    ("cancelled", |total| total.cancelled),
];

/// Counters per queue besides outcomes.
const COUNTERS: [(&str, &str, Reading); 4] = [
    ("windlass_jobs_submitted_total", "Jobs submitted, on this node, by queue.", |total| total.submitted),
    ("windlass_attempts_started_total", "Attempts started, on this node, by queue.", |total| total.claimed),
    (
        "windlass_attempts_retried_total",
        "Attempts that failed and are retried, on this node, by queue.",
        |total| total.retried,
    ),
    (
        "windlass_leases_expired_total",
        "Leases that expired before the worker reported an outcome, on this node, by queue.",
        |total| total.reaped,
    ),
];

fn write_counters(text: &mut String, queues: &BTreeMap<&str, Minute>) {
    for (name, help, reading) in COUNTERS {
        heading(text, name, "counter", help);
        for (queue, total) in queues {
            line(text, name, &format!("queue=\"{queue}\""), reading(total));
        }
    }
    let name = "windlass_jobs_finished_total";
    heading(text, name, "counter", "Jobs that reached a final state, on this node, by queue and outcome.");
    write_outcomes(text, name, "queue", queues);
    let name = "windlass_job_wait_seconds";
    heading(text, name, "histogram", "Time from claimable to claimed, on this node, by queue.");
    for (queue, total) in queues {
        write_spread(text, name, &format!("queue=\"{queue}\""), &total.waited, total.waited_ms);
    }
    let name = "windlass_job_run_seconds";
    heading(text, name, "histogram", "Time from claimed to the end of the attempt, on this node, by queue.");
    for (queue, total) in queues {
        write_spread(text, name, &format!("queue=\"{queue}\""), &total.ran, total.ran_ms);
    }
}

fn write_types(text: &mut String, types: &BTreeMap<&str, Minute>) {
    let name = "windlass_type_jobs_finished_total";
    heading(text, name, "counter", "Jobs that reached a final state, on this node, by type and outcome.");
    write_outcomes(text, name, "type", types);
    let name = "windlass_type_attempts_retried_total";
    heading(text, name, "counter", "Attempts that failed and are retried, on this node, by type.");
    for (job_type, total) in types {
        line(text, name, &format!("type=\"{job_type}\""), total.retried);
    }
    let name = "windlass_type_run_seconds";
    heading(text, name, "histogram", "Time from claimed to the end of the attempt, on this node, by type.");
    for (job_type, total) in types {
        write_spread(text, name, &format!("type=\"{job_type}\""), &total.ran, total.ran_ms);
    }
}

fn write_outcomes(text: &mut String, name: &str, label: &str, totals: &BTreeMap<&str, Minute>) {
    for (of, total) in totals {
        for (outcome, reading) in OUTCOMES {
            line(text, name, &format!("{label}=\"{of}\",outcome=\"{outcome}\""), reading(total));
        }
    }
}

fn write_histogram<N: Display>(
    text: &mut String,
    name: &str,
    read: &HistogramReading,
    unit: impl Fn(u64) -> N,
) {
    for (edge, count) in &read.up_to {
        line(text, &format!("{name}_bucket"), &format!("le=\"{}\"", unit(*edge)), count);
    }
    line(text, &format!("{name}_bucket"), "le=\"+Inf\"", read.count);
    line(text, &format!("{name}_sum"), "", unit(read.sum));
    line(text, &format!("{name}_count"), "", read.count);
}

fn write_spread(text: &mut String, name: &str, labels: &str, spread: &LatencyHistogram, sum_ms: u64) {
    for (edge, count) in spread.up_to() {
        line(text, &format!("{name}_bucket"), &format!("{labels},le=\"{}\"", edge.as_secs_f64()), count);
    }
    let count = spread.count();
    line(text, &format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), count);
    line(text, &format!("{name}_sum"), labels, Duration::from_millis(sum_ms).as_secs_f64());
    line(text, &format!("{name}_count"), labels, count);
}
