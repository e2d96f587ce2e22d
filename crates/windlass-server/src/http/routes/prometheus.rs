//! `GET /metrics`: jobs and requests in Prometheus format. A caller sees the jobs of its own tenant.

use std::sync::Arc;

use axum::extract::State;
use windlass::clock::{ClockReport, Timestamp};
use windlass::store::documents::schedules::Schedule;
use windlass::store::query::queues::QueueInfo;

use crate::http::app::{App, StorePlace};
use crate::http::reply::error::ApiError;
use crate::http::reply::response::Plain;
use crate::http::request::auth::CurrentCaller;
use crate::http::routes::metrics::{heading, line, write_requests};
use crate::http::routes::store_metrics::write_store;
use crate::{limits, process};

/// `GET /metrics`
pub(crate) async fn metrics(
    State(app): State<App>,
    CurrentCaller(caller): CurrentCaller,
) -> Result<Plain, ApiError> {
    let max = limits::METRIC_QUEUES_MAX;
    let (mut queues, config, now) = (
        app.store().queues_after(&caller, None, max + 1).await?,
        app.store().config(&caller).await?,
        app.now(),
    );
    let has_more = queues.len() > max;
    queues.truncate(max);
    let mut text = String::new();
    write_build(&mut text, app.place());
    write_queues(&mut text, &queues, now);
    heading(
        &mut text,
        "windlass_queues_left_out",
        "gauge",
        "1 if some queues have no series, because there are too many; the first by name have series.",
    );
    line(&mut text, "windlass_queues_left_out", "", u8::from(has_more));
    let live = config.workers.values().filter(|worker| !worker.is_lost && !worker.is_silent(now));
    heading(&mut text, "windlass_workers", "gauge", "Workers that are alive.");
    line(&mut text, "windlass_workers", "", live.clone().count());
    heading(
        &mut text,
        "windlass_worker_slots",
        "gauge",
        "Maximum number of jobs that the workers alive can run at once.",
    );
    line(
        &mut text,
        "windlass_worker_slots",
        "",
        live.map(|worker| u64::from(worker.concurrency)).sum::<u64>(),
    );
    heading(&mut text, "windlass_gate_online", "gauge", "1 while processing is not paused.");
    let is_closed = config
        .pauses
        .get(&windlass::store::documents::config::PauseScope::Gate)
        .is_some_and(|hold| hold.is_active(now));
    line(&mut text, "windlass_gate_online", "", u8::from(!is_closed));
    write_clock(&mut text, &app.store().clock());
    heading(
        &mut text,
        "windlass_cascades",
        "gauge",
        "Changes whose effects are not applied to all jobs yet, at most 1000.",
    );
    line(&mut text, "windlass_cascades", "", app.store().cascades(&caller).await?);
    write_schedules(&mut text, &config.schedules.values(), now);
    heading(&mut text, "windlass_event_streams", "gauge", "Open live event streams.");
    line(&mut text, "windlass_event_streams", "", app.streams().open());
    heading(&mut text, "windlass_keys_refused_total", "counter", "Invalid API keys, on this node.");
    line(&mut text, "windlass_keys_refused_total", "", app.guesses().total());
    let known = queues.iter().map(|queue| &queue.name);
    write_store(&mut text, &app.store().environment().metrics, &caller, known);
    write_requests(&mut text, app.counters().iter().map(AsRef::as_ref));
    write_disk(&mut text, app.place());
    write_process(&mut text);
    Ok(Plain(text))
}

/// Difference between store time and the wall clock, as seen by this node.
fn write_clock(text: &mut String, clock: &ClockReport) {
    let help = "Seconds by which the wall clock is ahead of store time.";
    heading(text, "windlass_clock_skew_seconds", "gauge", help);
    #[allow(clippy::cast_precision_loss, reason = "clocks do not differ by millions of years")]
    line(text, "windlass_clock_skew_seconds", "", clock.ahead_ms as f64 / 1000.0);
    heading(text, "windlass_clock_believed", "gauge", "0 after the wall clock jumped by more than a minute.");
    line(text, "windlass_clock_believed", "", u8::from(clock.is_believed));
}

/// Version and engine, to join with other series.
fn write_build(text: &mut String, place: &StorePlace) {
    heading(text, "windlass_build_info", "gauge", "1, with the version and the storage engine as labels.");
    let labels = format!("version=\"{}\",engine=\"{}\"", env!("CARGO_PKG_VERSION"), place.engine);
    line(text, "windlass_build_info", &labels, 1);
}

/// Size of the database file, and free disk space.
fn write_disk(text: &mut String, place: &StorePlace) {
    let Some(file) = &place.file else { return };
    heading(
        text,
        "windlass_store_bytes",
        "gauge",
        "Size of the database file and its write-ahead log in bytes.",
    );
    line(text, "windlass_store_bytes", "", process::store_bytes(file));
    if let Some(free) = process::free_bytes(file) {
        heading(text, "windlass_disk_free_bytes", "gauge", "Free bytes on the disk of the database file.");
        line(text, "windlass_disk_free_bytes", "", free);
    }
}

/// Selects one number of a schedule.
type Reading = fn(&Schedule, Timestamp) -> f64;

const SCHEDULES: [(&str, &str, &str, Reading); 4] = [
    (
        "windlass_schedule_lag_seconds",
        "gauge",
        "Seconds by which the next run of a schedule is overdue.",
        |schedule, now| schedule.next_at.map_or(0.0, |next| now.since(next).as_secs_f64()),
    ),
    ("windlass_schedule_submitted_total", "counter", "Jobs submitted by a schedule.", |schedule, _| {
        counted(schedule.submitted)
    }),
    (
        "windlass_schedule_skipped_total",
        "counter",
        "Runs of a schedule skipped because the previous run was not finished.",
        |schedule, _| counted(schedule.overlapped),
    ),
    (
        "windlass_schedule_refused_total",
        "counter",
        "Runs of a schedule whose job was rejected permanently.",
        |schedule, _| counted(schedule.refusals),
    ),
];

#[allow(clippy::cast_precision_loss, reason = "a schedule does not run 2^53 times")]
fn counted(count: u64) -> f64 {
    count as f64
}

fn write_schedules<'s>(
    text: &mut String,
    schedules: &(impl Iterator<Item = &'s Arc<Schedule>> + Clone),
    now: Timestamp,
) {
    for (name, kind, help, reading) in SCHEDULES {
        heading(text, name, kind, help);
        for schedule in schedules.clone().take(limits::METRIC_SCHEDULES_MAX) {
            let labels = format!("tenant=\"{}\",schedule=\"{}\"", schedule.tenant, schedule.name);
            line(text, name, &labels, reading(schedule, now));
        }
    }
}

/// Resources of this process, under the standard Prometheus names.
fn write_process(text: &mut String) {
    heading(text, "process_cpu_seconds_total", "counter", "CPU time used by this process.");
    line(text, "process_cpu_seconds_total", "", process::cpu_time().as_secs_f64());
    // Metrics that the system does not provide are left out.
    if let Some(bytes) = process::resident_bytes() {
        heading(text, "process_resident_memory_bytes", "gauge", "Resident memory of this process.");
        line(text, "process_resident_memory_bytes", "", bytes);
    }
    if let Some(seconds) = process::started_at() {
        heading(text, "process_start_time_seconds", "gauge", "Start time of this process, in Unix time.");
        line(text, "process_start_time_seconds", "", seconds);
    }
    if let Some(open) = process::open_files() {
        heading(
            text,
            "process_open_fds",
            "gauge",
            "Open file descriptors of this process, including connections.",
        );
        line(text, "process_open_fds", "", open);
    }
    if let Some(limit) = process::open_files_max() {
        heading(text, "process_max_fds", "gauge", "Maximum number of open file descriptors of this process.");
        line(text, "process_max_fds", "", limit);
    }
}

fn write_queues(text: &mut String, queues: &[QueueInfo], now: Timestamp) {
    // Queue names need no escaping: letters, digits and `_ . : -`.
    heading(text, "windlass_jobs", "gauge", "Jobs by queue and state.");
    for queue in queues {
        for (state, count) in &queue.depth {
            line(text, "windlass_jobs", &format!("queue=\"{}\",state=\"{state}\"", queue.name), count);
        }
    }
    heading(text, "windlass_queue_oldest_seconds", "gauge", "Age of the oldest waiting job of a queue.");
    for queue in queues {
        let age = queue.oldest.map_or(0.0, |since| now.since(since).as_secs_f64());
        line(text, "windlass_queue_oldest_seconds", &format!("queue=\"{}\"", queue.name), age);
    }
    heading(text, "windlass_queue_paused", "gauge", "1 while a queue is paused.");
    for queue in queues {
        let is_paused = u8::from(queue.paused.is_some());
        line(text, "windlass_queue_paused", &format!("queue=\"{}\"", queue.name), is_paused);
    }
}
