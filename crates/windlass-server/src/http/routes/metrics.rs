//! Metrics of the server itself: requests by route and status, and their durations. Counting takes no lock.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};

/// Upper bounds of the duration buckets, in milliseconds.
const EDGES_MS: [u64; 15] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000];

/// The statuses that are counted separately; any other is counted as the last.
const STATUSES: [u16; 17] =
    [200, 201, 202, 204, 400, 401, 403, 404, 405, 408, 409, 413, 422, 429, 500, 503, 599];

/// The requests of one route.
pub(crate) struct RouteCounter {
    method: Method,
    path: &'static str,
    statuses: [AtomicU64; STATUSES.len()],
    buckets: [AtomicU64; EDGES_MS.len() + 1],
    micros: AtomicU64,
}

impl RouteCounter {
    pub(crate) fn new(method: Method, path: &'static str) -> RouteCounter {
        RouteCounter {
            method,
            path,
            statuses: Default::default(),
            buckets: Default::default(),
            micros: AtomicU64::new(0),
        }
    }

    /// Counts a request.
    pub(crate) fn answered(&self, status: StatusCode, took: Duration) {
        let at = STATUSES.iter().position(|known| *known == status.as_u16()).unwrap_or(STATUSES.len() - 1);
        self.statuses[at].fetch_add(1, Ordering::Relaxed);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let bucket = EDGES_MS.iter().position(|edge| millis < *edge).unwrap_or(EDGES_MS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn write_statuses(&self, into: &mut String) {
        for (status, count) in STATUSES.iter().zip(&self.statuses) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                line(
                    into,
                    "windlass_http_requests_total",
                    &self.labels(&format!(",status=\"{status}\"")),
                    count,
                );
            }
        }
    }

    fn write_times(&self, into: &mut String) {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let total: u64 = counts.iter().sum();
        if total == 0 {
            return;
        }
        let mut so_far = 0;
        for (edge, count) in EDGES_MS.iter().zip(&counts) {
            so_far += count;
            let edge = Duration::from_millis(*edge).as_secs_f64();
            let labels = self.labels(&format!(",le=\"{edge}\""));
            line(into, "windlass_http_request_seconds_bucket", &labels, so_far);
        }
        line(into, "windlass_http_request_seconds_bucket", &self.labels(",le=\"+Inf\""), total);
        let seconds = Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64();
        line(into, "windlass_http_request_seconds_sum", &self.labels(""), seconds);
        line(into, "windlass_http_request_seconds_count", &self.labels(""), total);
    }

    fn labels(&self, more: &str) -> String {
        format!("method=\"{}\",route=\"{}\"{more}", self.method, self.path)
    }
}

/// Writes all counters in Prometheus format.
pub(crate) fn write_requests<'a>(
    into: &mut String,
    counters: impl Iterator<Item = &'a RouteCounter> + Clone,
) {
    heading(into, "windlass_http_requests_total", "counter", "Requests, by route and status.");
    counters.clone().for_each(|counter| counter.write_statuses(into));
    heading(into, "windlass_http_request_seconds", "histogram", "Duration of requests, by route.");
    counters.for_each(|counter| counter.write_times(into));
}

/// Writes the description of a metric.
pub(crate) fn heading(into: &mut String, name: &str, kind: &str, help: &str) {
    writeln!(into, "# HELP {name} {help}\n# TYPE {name} {kind}").expect("writing to a string cannot fail");
}

/// Writes one value.
pub(crate) fn line(into: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    writeln!(into, "{name}{labels} {value}").expect("writing to a string cannot fail");
}
