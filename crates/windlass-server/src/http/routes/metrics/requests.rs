//! Metrics of the server itself: requests by route and status, and their durations. Counting takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::http::{Method, StatusCode};

use crate::http::routes::metrics::text::{Buckets, MetricsText};

/// Upper bounds of the duration buckets, in milliseconds.
const EDGES_MS: [u64; 15] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000];

/// The statuses that are counted separately. Any other is counted as the last of its class, so that an alert on 5xx is
/// about nothing else.
const STATUSES: [u16; 25] = [
    199, 200, 201, 202, 204, 299, 303, 304, 399, 400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 422, 429,
    499, 500, 503, 599,
];

/// The requests of one route.
pub(crate) struct RouteCounter {
    method: Method,
    path: &'static str,
    statuses: [AtomicU64; STATUSES.len()],
    buckets: [AtomicU64; EDGES_MS.len() + 1],
    micros: AtomicU64,
    in_flight: AtomicU64,
}

/// A request that is being answered; counted until it is dropped.
pub(crate) struct InFlight<'a>(&'a AtomicU64);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl RouteCounter {
    pub(crate) fn new(method: Method, path: &'static str) -> RouteCounter {
        RouteCounter {
            method,
            path,
            statuses: Default::default(),
            buckets: Default::default(),
            micros: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
        }
    }

    /// Counts a request as being answered, until the returned guard is dropped.
    pub(crate) fn begin(&self) -> InFlight<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(&self.in_flight)
    }

    /// Counts a request.
    pub(crate) fn answered(&self, status: StatusCode, took: Duration) {
        self.statuses[counted_as(status)].fetch_add(1, Ordering::Relaxed);
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let bucket = EDGES_MS.iter().position(|edge| millis < *edge).unwrap_or(EDGES_MS.len());
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn write_statuses(&self, into: &mut MetricsText) {
        for (status, count) in STATUSES.iter().zip(&self.statuses) {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                let labels = self.labels(&format!(",status=\"{status}\""));
                into.line("windlass_http_requests_total", &labels, count);
            }
        }
    }

    fn write_times(&self, into: &mut MetricsText) {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let count: u64 = counts.iter().sum();
        if count == 0 {
            return;
        }
        let mut so_far = 0;
        let up_to = EDGES_MS.iter().zip(&counts).map(|(edge, count)| {
            so_far += count;
            (Duration::from_millis(*edge).as_secs_f64(), so_far)
        });
        let up_to = up_to.collect();
        let sum = Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64();
        let buckets = Buckets { up_to, count, sum, exemplars: &[] };
        into.histogram("windlass_http_request_seconds", &self.labels(""), &buckets);
    }

    fn labels(&self, more: &str) -> String {
        format!("method=\"{}\",route=\"{}\"{more}", self.method, self.path)
    }
}

/// Where in [`STATUSES`] a status is counted.
fn counted_as(status: StatusCode) -> usize {
    let status = status.as_u16();
    let known = STATUSES.binary_search(&status);
    known.unwrap_or_else(|_| {
        let last_of_class = status / 100 * 100 + 99;
        STATUSES.binary_search(&last_of_class).unwrap_or(STATUSES.len() - 1)
    })
}

/// Writes all counters.
pub(crate) fn write_requests<'a>(
    into: &mut MetricsText,
    counters: impl Iterator<Item = &'a RouteCounter> + Clone,
) {
    into.heading("windlass_http_requests_total", "counter", "Requests, by route and status.");
    counters.clone().for_each(|counter| counter.write_statuses(into));
    into.heading("windlass_http_request_seconds", "histogram", "Duration of requests, by route.");
    counters.clone().for_each(|counter| counter.write_times(into));
    into.heading("windlass_http_requests_in_flight", "gauge", "Requests being answered, with long polls.");
    let in_flight = counters.map(|counter| counter.in_flight.load(Ordering::Relaxed)).sum::<u64>();
    into.line("windlass_http_requests_in_flight", "", in_flight);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_counted_as_itself_or_within_its_class() {
        for status in 100..600 {
            let counted = STATUSES[counted_as(StatusCode::from_u16(status).unwrap())];
            assert_eq!(counted / 100, status / 100, "{status} is counted as {counted}");
            assert!(counted == status || counted % 100 == 99, "{status} is counted as {counted}");
        }
        for common in [200, 304, 404, 412, 500, 503] {
            assert_eq!(STATUSES[counted_as(StatusCode::from_u16(common).unwrap())], common);
        }
        assert_eq!(STATUSES[counted_as(StatusCode::from_u16(999).unwrap())], 599);
    }
}
