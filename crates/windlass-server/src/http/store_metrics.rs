//! What the store measures of itself, as Prometheus reads it: commits, and what happened to jobs since this process started.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::time::Duration;

use windlass::job::QueueName;
use windlass::store::caller::Caller;
use windlass::store::meter::{Fallback, HistogramReading, Meters};
use windlass::store::rates::{Minute, Spread};

use super::metrics::{heading, line};
use super::prometheus::RATES;

/// Writes the metrics of the store, those of jobs as far as the caller may see them.
pub(super) fn write_store(text: &mut String, meters: &Meters, caller: &Caller) {
    heading(text, "windlass_commit_requests", "histogram", "Requests that shared one commit, on this node.");
    write_histogram(text, "windlass_commit_requests", &meters.group_requests.read(), |edge| edge);
    heading(
        text,
        "windlass_commit_seconds",
        "histogram",
        "How long commits took, fsync included, on this node.",
    );
    let seconds = |micros| Duration::from_micros(micros).as_secs_f64();
    write_histogram(text, "windlass_commit_seconds", &meters.commit_micros.read(), seconds);
    heading(
        text,
        "windlass_fallback_wakeups_total",
        "counter",
        "Changes found by polling although a notification should have told of them, on this node.",
    );
    for what in Fallback::ALL {
        let labels = format!("path=\"{}\"", what.as_str());
        line(text, "windlass_fallback_wakeups_total", &labels, meters.fallbacks(what));
    }
    let mut queues: BTreeMap<QueueName, Minute> = BTreeMap::new();
    for ((tenant, queue), total) in meters.totals_by_queue() {
        if caller.sees(&tenant) {
            queues.entry(queue).or_default().merge(&total);
        }
    }
    heading(
        text,
        "windlass_jobs_total",
        "counter",
        "What happened to jobs on this node since it started, by queue.",
    );
    for (queue, total) in &queues {
        for (what, reading) in RATES {
            line(text, "windlass_jobs_total", &format!("queue=\"{queue}\",what=\"{what}\""), reading(total));
        }
    }
    heading(
        text,
        "windlass_job_wait_seconds",
        "histogram",
        "From claimable to claimed, on this node, by queue.",
    );
    for (queue, total) in &queues {
        write_spread(text, "windlass_job_wait_seconds", queue, &total.waited);
    }
    heading(
        text,
        "windlass_job_run_seconds",
        "histogram",
        "From claimed to the end of the attempt, on this node, by queue.",
    );
    for (queue, total) in &queues {
        write_spread(text, "windlass_job_run_seconds", queue, &total.ran);
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

/// Times in buckets that quadruple. Their sum is not kept, so there is none.
fn write_spread(text: &mut String, name: &str, queue: &QueueName, spread: &Spread) {
    let up_to = spread.up_to();
    for (edge, count) in up_to.iter().step_by(2) {
        let labels = format!("queue=\"{queue}\",le=\"{}\"", edge.as_secs_f64());
        line(text, &format!("{name}_bucket"), &labels, count);
    }
    let all = up_to.last().map_or(0, |(_, count)| *count);
    line(text, &format!("{name}_bucket"), &format!("queue=\"{queue}\",le=\"+Inf\""), all);
    line(text, &format!("{name}_count"), &format!("queue=\"{queue}\""), all);
}
