//! `GET /metrics`: jobs and requests as Prometheus reads them. A caller sees the jobs of its own tenant.

use std::sync::Arc;

use axum::extract::State;
use windlass::clock::{ClockReport, Timestamp};
use windlass::store::query::queues::QueueLook;
use windlass::store::rates::{Minute, minute_of};
use windlass::store::schedules::Schedule;

use super::app::App;
use super::auth::Who;
use super::metrics::{heading, line, write_requests};
use super::problem::Problem;
use super::reply::Plain;
use super::store_metrics::write_store;
use crate::process;

/// `GET /metrics`
pub(crate) async fn metrics(State(app): State<App>, Who(caller): Who) -> Result<Plain, Problem> {
    let (queues, config, now) =
        (app.store().queues(&caller).await?, app.store().config(&caller).await?, app.now());
    let mut text = String::new();
    write_queues(&mut text, &queues, now);
    let live = config.workers.values().filter(|worker| !worker.is_lost && !worker.is_silent(now)).count();
    heading(&mut text, "windlass_workers", "gauge", "Workers that are alive.");
    line(&mut text, "windlass_workers", "", live);
    heading(&mut text, "windlass_gate_online", "gauge", "1 while the gate is open.");
    let is_closed =
        config.holds.get(&windlass::store::config::Scope::Gate).is_some_and(|hold| hold.is_active(now));
    line(&mut text, "windlass_gate_online", "", u8::from(!is_closed));
    write_clock(&mut text, &app.store().clock());
    heading(
        &mut text,
        "windlass_cascades",
        "gauge",
        "Changes whose consequences are not applied to all jobs yet, 1000 at most.",
    );
    line(&mut text, "windlass_cascades", "", app.store().cascades(&caller).await?);
    write_schedules(&mut text, config.schedules.values());
    heading(&mut text, "windlass_event_streams", "gauge", "Live event streams that are open.");
    let open = crate::limits::STREAMS_MAX - app.streams().available_permits();
    line(&mut text, "windlass_event_streams", "", open);
    write_store(&mut text, &app.store().environment().meters, &caller);
    write_requests(&mut text, app.counters().iter().map(AsRef::as_ref));
    write_process(&mut text);
    Ok(Plain(text))
}

/// How store time stands to the wall clock, as this node sees it.
fn write_clock(text: &mut String, clock: &ClockReport) {
    let help = "Seconds by which the wall clock is ahead of store time.";
    heading(text, "windlass_clock_skew_seconds", "gauge", help);
    #[allow(clippy::cast_precision_loss, reason = "a clock is not off by millions of years")]
    line(text, "windlass_clock_skew_seconds", "", clock.ahead_ms as f64 / 1000.0);
    heading(text, "windlass_clock_believed", "gauge", "0 after the wall clock jumped by more than a minute.");
    line(text, "windlass_clock_believed", "", u8::from(clock.is_believed));
}

fn write_schedules<'s>(text: &mut String, schedules: impl Iterator<Item = &'s Arc<Schedule>>) {
    heading(
        text,
        "windlass_schedule_refused_total",
        "counter",
        "Runs of a schedule whose job was refused for good.",
    );
    for schedule in schedules {
        let labels = format!("tenant=\"{}\",schedule=\"{}\"", schedule.tenant, schedule.name);
        line(text, "windlass_schedule_refused_total", &labels, schedule.refusals);
    }
}

/// What this process uses, under the names that every Prometheus knows.
fn write_process(text: &mut String) {
    heading(text, "process_cpu_seconds_total", "counter", "Processor time used by this process.");
    line(text, "process_cpu_seconds_total", "", process::cpu_time().as_secs_f64());
    // Where the system does not tell, there is no such metric.
    if let Some(bytes) = process::resident_bytes() {
        heading(
            text,
            "process_resident_memory_bytes",
            "gauge",
            "Memory of this process that is not swapped out.",
        );
        line(text, "process_resident_memory_bytes", "", bytes);
    }
}

/// How one number is read off a minute.
pub(super) type Reading = fn(&Minute) -> u64;

/// What is told of each queue's last whole minute.
pub(super) const RATES: [(&str, Reading); 8] = [
    ("submitted", |minute| minute.submitted),
    ("claimed", |minute| minute.claimed),
    ("completed", |minute| minute.completed),
    ("failed", |minute| minute.failed),
    ("retried", |minute| minute.retried),
    ("dead_letter", |minute| minute.dead_letter),
    ("cancelled", |minute| minute.cancelled),
    ("reaped", |minute| minute.reaped),
];

fn write_queues(text: &mut String, queues: &[QueueLook], now: Timestamp) {
    // Names of queues need no escaping: letters, digits and `_ . : -`.
    heading(text, "windlass_jobs", "gauge", "Jobs by queue and state.");
    for queue in queues {
        for (state, count) in &queue.depth {
            line(text, "windlass_jobs", &format!("queue=\"{}\",state=\"{state}\"", queue.name), count);
        }
    }
    heading(
        text,
        "windlass_queue_oldest_seconds",
        "gauge",
        "How long a queue's longest waiting job has waited.",
    );
    for queue in queues {
        let age = queue.oldest.map_or(0.0, |since| now.since(since).as_secs_f64());
        line(text, "windlass_queue_oldest_seconds", &format!("queue=\"{}\"", queue.name), age);
    }
    heading(text, "windlass_queue_paused", "gauge", "1 while a queue is paused.");
    for queue in queues {
        let is_paused = u8::from(queue.paused.is_some());
        line(text, "windlass_queue_paused", &format!("queue=\"{}\"", queue.name), is_paused);
    }
    heading(text, "windlass_last_minute", "gauge", "What happened in the last whole minute, by queue.");
    for queue in queues {
        let minute = queue.minutes.get(&(minute_of(now) - 1)).cloned().unwrap_or_default();
        for (what, reading) in RATES {
            let labels = format!("queue=\"{}\",what=\"{what}\"", queue.name);
            line(text, "windlass_last_minute", &labels, reading(&minute));
        }
    }
    heading(
        text,
        "windlass_last_minute_seconds",
        "gauge",
        "Waiting and running times of the last whole minute.",
    );
    for queue in queues {
        let minute = queue.minutes.get(&(minute_of(now) - 1)).cloned().unwrap_or_default();
        for (what, spread) in [("waited", &minute.waited), ("ran", &minute.ran)] {
            for share in [0.5, 0.95, 0.99] {
                let Some(time) = spread.percentile(share) else { continue };
                let labels = format!("queue=\"{}\",what=\"{what}\",quantile=\"{share}\"", queue.name);
                line(text, "windlass_last_minute_seconds", &labels, time.as_secs_f64());
            }
        }
    }
}
