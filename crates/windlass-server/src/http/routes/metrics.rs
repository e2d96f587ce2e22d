//! `GET /metrics`: jobs and requests, in the format of Prometheus or as OpenMetrics. A caller sees the jobs of its own tenant.

pub(in crate::http) mod requests;
mod store;
mod text;

use std::sync::Arc;

use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use windlass::clock::{ClockReport, Timestamp};
use windlass::store::{QueueInfo, Schedule};

use crate::http::app::StorePlace;
use crate::http::reply::error::ApiError;
use crate::http::request::auth::Call;
use crate::http::routes::metrics::requests::write_requests;
use crate::http::routes::metrics::store::write_store;
use crate::http::routes::metrics::text::{MetricsFormat, MetricsText};
use crate::http::schema::{Reply, Shape};
use crate::{limits, process, telemetry};

/// Metrics in the format that was asked for.
pub(crate) struct MetricsResponse(MetricsFormat, String);

impl IntoResponse for MetricsResponse {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, self.0.content_type())], self.1).into_response()
    }
}

impl Reply for MetricsResponse {
    fn describe(shape: &mut Shape) {
        shape.add_text_response(MetricsFormat::Prometheus.content_type());
        shape.add_text_response(MetricsFormat::OpenMetrics.content_type());
        shape
            .headers
            .push(("accept", "`application/openmetrics-text` for OpenMetrics, with trace ids as exemplars."));
    }
}

/// `GET /metrics`
pub(crate) async fn metrics(
    Call { app, caller }: Call,
    headers: HeaderMap,
) -> Result<MetricsResponse, ApiError> {
    let max = limits::METRIC_QUEUES_MAX;
    let (mut queues, config, now) = (
        app.store().queues_after(&caller, None, max + 1).await?,
        app.store().config(&caller).await?,
        app.now(),
    );
    let has_more = queues.len() > max;
    queues.truncate(max);
    let format = MetricsFormat::accepted(&headers);
    let mut text = MetricsText::new(format);
    write_build(&mut text, app.place());
    write_queues(&mut text, &queues, now);
    text.heading(
        "windlass_queues_left_out",
        "gauge",
        "1 if some queues have no series, because there are too many; the first by name have series.",
    );
    text.line("windlass_queues_left_out", "", u8::from(has_more));
    let live = config.workers.values().filter(|worker| !worker.is_lost && !worker.is_silent(now));
    text.heading("windlass_workers", "gauge", "Workers that are alive.");
    text.line("windlass_workers", "", live.clone().count());
    text.heading(
        "windlass_worker_slots",
        "gauge",
        "Maximum number of jobs that the workers alive can run at once.",
    );
    text.line("windlass_worker_slots", "", live.map(|worker| u64::from(worker.concurrency)).sum::<u64>());
    text.heading("windlass_gate_online", "gauge", "1 while processing is not paused.");
    let is_closed =
        config.pauses.get(&windlass::store::PauseScope::Gate).is_some_and(|hold| hold.is_active(now));
    text.line("windlass_gate_online", "", u8::from(!is_closed));
    write_clock(&mut text, &app.store().clock());
    text.heading(
        "windlass_cascades",
        "gauge",
        "Changes whose effects are not applied to all jobs yet, at most 1000.",
    );
    text.line("windlass_cascades", "", app.store().cascades(&caller).await?);
    write_schedules(&mut text, &config.schedules.values(), now);
    text.heading("windlass_event_streams", "gauge", "Open live event streams.");
    text.line("windlass_event_streams", "", app.streams().open());
    text.heading("windlass_keys_refused_total", "counter", "Invalid API keys, on this node.");
    text.line("windlass_keys_refused_total", "", app.guesses().total());
    let known = queues.iter().map(|queue| &queue.name);
    write_store(&mut text, &app.store().environment().metrics, &caller, known);
    write_requests(&mut text, app.counters().iter().map(AsRef::as_ref));
    write_disk(&mut text, app.place());
    let help = "Spans that were not sent to the collector: too many at once, or not accepted.";
    text.heading("windlass_spans_dropped_total", "counter", help);
    text.line("windlass_spans_dropped_total", "", telemetry::dropped());
    write_process(&mut text);
    Ok(MetricsResponse(format, text.finish()))
}

/// Difference between store time and the wall clock, as seen by this node.
fn write_clock(text: &mut MetricsText, clock: &ClockReport) {
    let help = "Seconds by which the wall clock is ahead of store time.";
    text.heading("windlass_clock_skew_seconds", "gauge", help);
    #[allow(clippy::cast_precision_loss, reason = "clocks do not differ by millions of years")]
    text.line("windlass_clock_skew_seconds", "", clock.ahead_ms as f64 / 1000.0);
    text.heading("windlass_clock_believed", "gauge", "0 after the wall clock jumped by more than a minute.");
    text.line("windlass_clock_believed", "", u8::from(clock.is_believed));
}

/// Version and engine, to join with other series.
fn write_build(text: &mut MetricsText, place: &StorePlace) {
    text.heading("windlass_build_info", "gauge", "1, with the version and the storage engine as labels.");
    let labels = format!("version=\"{}\",engine=\"{}\"", env!("CARGO_PKG_VERSION"), place.engine);
    text.line("windlass_build_info", &labels, 1);
}

/// Size of the database file, and free disk space.
fn write_disk(text: &mut MetricsText, place: &StorePlace) {
    let Some(file) = &place.file else { return };
    text.heading(
        "windlass_store_bytes",
        "gauge",
        "Size of the database file and its write-ahead log in bytes.",
    );
    text.line("windlass_store_bytes", "", process::store_bytes(file));
    if let Some(free) = process::free_bytes(file) {
        text.heading("windlass_disk_free_bytes", "gauge", "Free bytes on the disk of the database file.");
        text.line("windlass_disk_free_bytes", "", free);
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
    text: &mut MetricsText,
    schedules: &(impl Iterator<Item = &'s Arc<Schedule>> + Clone),
    now: Timestamp,
) {
    for (name, kind, help, reading) in SCHEDULES {
        text.heading(name, kind, help);
        for schedule in schedules.clone().take(limits::METRIC_SCHEDULES_MAX) {
            let labels = format!("tenant=\"{}\",schedule=\"{}\"", schedule.tenant, schedule.name);
            text.line(name, &labels, reading(schedule, now));
        }
    }
}

/// Resources of this process, under the standard Prometheus names.
fn write_process(text: &mut MetricsText) {
    text.heading("process_cpu_seconds_total", "counter", "CPU time used by this process.");
    text.line("process_cpu_seconds_total", "", process::cpu_time().as_secs_f64());
    // Metrics that the system does not provide are left out.
    if let Some(bytes) = process::resident_bytes() {
        text.heading("process_resident_memory_bytes", "gauge", "Resident memory of this process.");
        text.line("process_resident_memory_bytes", "", bytes);
    }
    if let Some(seconds) = process::started_at() {
        text.heading("process_start_time_seconds", "gauge", "Start time of this process, in Unix time.");
        text.line("process_start_time_seconds", "", seconds);
    }
    if let Some(open) = process::open_files() {
        text.heading(
            "process_open_fds",
            "gauge",
            "Open file descriptors of this process, including connections.",
        );
        text.line("process_open_fds", "", open);
    }
    if let Some(limit) = process::open_files_max() {
        text.heading("process_max_fds", "gauge", "Maximum number of open file descriptors of this process.");
        text.line("process_max_fds", "", limit);
    }
}

fn write_queues(text: &mut MetricsText, queues: &[QueueInfo], now: Timestamp) {
    // Queue names need no escaping: letters, digits and `_ . : -`.
    text.heading("windlass_jobs", "gauge", "Jobs by queue and state.");
    for queue in queues {
        for (state, count) in &queue.depth {
            text.line("windlass_jobs", &format!("queue=\"{}\",state=\"{state}\"", queue.name), count);
        }
    }
    text.heading("windlass_queue_oldest_seconds", "gauge", "Age of the oldest waiting job of a queue.");
    for queue in queues {
        let age = queue.oldest.map_or(0.0, |since| now.since(since).as_secs_f64());
        text.line("windlass_queue_oldest_seconds", &format!("queue=\"{}\"", queue.name), age);
    }
    text.heading("windlass_queue_paused", "gauge", "1 while a queue is paused.");
    for queue in queues {
        let is_paused = u8::from(queue.paused.is_some());
        text.line("windlass_queue_paused", &format!("queue=\"{}\"", queue.name), is_paused);
    }
}
