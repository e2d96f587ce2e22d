//! Metrics of the store for `/metrics`: commits, deliveries, and counts of jobs since this process started.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass::job::QueueName;
use windlass::store::caller::Caller;
use windlass::store::{
    Deliveries, DeliveryKind, DeliveryOutcome, Exemplar, Fallback, HistogramReading, LatencyHistogram,
    Metrics, Minute,
};

use crate::http::routes::metrics::text::{Buckets, MetricsText};
use crate::limits;

/// Writes the store's metrics; those of jobs as far as the caller may see them.
pub(in crate::http) fn write_store<'q>(
    text: &mut MetricsText,
    metrics: &Metrics,
    caller: &Caller,
    known: impl Iterator<Item = &'q QueueName>,
) {
    text.heading("windlass_commit_requests", "histogram", "Requests per commit, on this node.");
    write_histogram(text, "windlass_commit_requests", "", &metrics.group_requests.read(), plain);
    text.heading(
        "windlass_commit_seconds",
        "histogram",
        "Duration of commits including fsync, on this node.",
    );
    write_histogram(text, "windlass_commit_seconds", "", &metrics.commit_micros.read(), seconds);
    let name = "windlass_write_wait_seconds";
    let help =
        "Time that writes wait for their commit to begin, with the wait for the store's lock, on this node.";
    text.heading(name, "histogram", help);
    write_histogram(text, name, "", &metrics.write_wait_micros.read(), seconds);
    write_deliveries(text, &metrics.deliveries);
    text.heading(
        "windlass_fallback_wakeups_total",
        "counter",
        "Changes found by polling that should have been notified, on this node.",
    );
    for what in Fallback::ALL {
        let labels = format!("path=\"{}\"", what.as_str());
        text.line("windlass_fallback_wakeups_total", &labels, metrics.fallbacks(what));
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

fn write_deliveries(text: &mut MetricsText, deliveries: &Deliveries) {
    let name = "windlass_deliveries_total";
    text.heading(name, "counter", "Calls of callbacks and push targets, on this node, by kind and outcome.");
    for kind in DeliveryKind::ALL {
        for outcome in DeliveryOutcome::ALL {
            let labels = format!("kind=\"{}\",outcome=\"{}\"", kind.as_str(), outcome.as_str());
            text.line(name, &labels, deliveries.count(kind, outcome));
        }
    }
    let name = "windlass_delivery_seconds";
    text.heading(
        name,
        "histogram",
        "Duration of calls of callbacks and push targets, on this node, by kind.",
    );
    for kind in DeliveryKind::ALL {
        let labels = format!("kind=\"{}\"", kind.as_str());
        write_histogram(text, name, &labels, &deliveries.micros(kind).read(), seconds);
    }
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

fn write_counters(text: &mut MetricsText, queues: &BTreeMap<&str, Minute>) {
    for (name, help, reading) in COUNTERS {
        text.heading(name, "counter", help);
        for (queue, total) in queues {
            text.line(name, &format!("queue=\"{queue}\""), reading(total));
        }
    }
    let name = "windlass_jobs_finished_total";
    text.heading(name, "counter", "Jobs that reached a final state, on this node, by queue and outcome.");
    write_outcomes(text, name, "queue", queues);
    let name = "windlass_job_wait_seconds";
    text.heading(name, "histogram", "Time from claimable to claimed, on this node, by queue.");
    for (queue, total) in queues {
        write_spread(text, name, &format!("queue=\"{queue}\""), &total.waited, (total.waited_ms, &[]));
    }
    let name = "windlass_job_run_seconds";
    text.heading(name, "histogram", "Time from claimed to the end of the attempt, on this node, by queue.");
    for (queue, total) in queues {
        write_spread(
            text,
            name,
            &format!("queue=\"{queue}\""),
            &total.ran,
            (total.ran_ms, &total.ran_exemplars.0),
        );
    }
}

fn write_types(text: &mut MetricsText, types: &BTreeMap<&str, Minute>) {
    let name = "windlass_type_jobs_finished_total";
    text.heading(name, "counter", "Jobs that reached a final state, on this node, by type and outcome.");
    write_outcomes(text, name, "type", types);
    let name = "windlass_type_attempts_retried_total";
    text.heading(name, "counter", "Attempts that failed and are retried, on this node, by type.");
    for (job_type, total) in types {
        text.line(name, &format!("type=\"{job_type}\""), total.retried);
    }
    let name = "windlass_type_run_seconds";
    text.heading(name, "histogram", "Time from claimed to the end of the attempt, on this node, by type.");
    for (job_type, total) in types {
        write_spread(
            text,
            name,
            &format!("type=\"{job_type}\""),
            &total.ran,
            (total.ran_ms, &total.ran_exemplars.0),
        );
    }
}

fn write_outcomes(text: &mut MetricsText, name: &str, label: &str, totals: &BTreeMap<&str, Minute>) {
    for (of, total) in totals {
        for (outcome, reading) in OUTCOMES {
            text.line(name, &format!("{label}=\"{of}\",outcome=\"{outcome}\""), reading(total));
        }
    }
}

/// Writes a histogram whose values are converted by `unit`.
fn write_histogram(
    text: &mut MetricsText,
    name: &str,
    labels: &str,
    read: &HistogramReading,
    unit: impl Fn(u64) -> f64,
) {
    let up_to = read.up_to.iter().map(|(edge, count)| (unit(*edge), *count)).collect();
    let buckets = Buckets { up_to, count: read.count, sum: unit(read.sum), exemplars: &[] };
    text.histogram(name, labels, &buckets);
}

fn seconds(micros: u64) -> f64 {
    Duration::from_micros(micros).as_secs_f64()
}

#[allow(clippy::cast_precision_loss, reason = "nothing is counted 2^53 times")]
fn plain(count: u64) -> f64 {
    count as f64
}

fn write_spread(
    text: &mut MetricsText,
    name: &str,
    labels: &str,
    spread: &LatencyHistogram,
    (sum_ms, exemplars): (u64, &[Option<Exemplar>]),
) {
    let up_to = spread.up_to().into_iter().map(|(edge, count)| (edge.as_secs_f64(), count)).collect();
    let sum = Duration::from_millis(sum_ms).as_secs_f64();
    text.histogram(name, labels, &Buckets { up_to, count: spread.count(), sum, exemplars });
}
