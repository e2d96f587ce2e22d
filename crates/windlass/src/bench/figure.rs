//! One measured figure, and its output for people and programs.

use std::time::Duration;

use serde::Serialize;
use windlass_core::skip_none;

/// One measured figure.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figure {
    /// The workload, such as `submit`.
    pub workload: &'static str,
    /// Description of the measurement.
    pub what: String,
    /// Number of nodes, where it is varied.
    pub nodes: Option<usize>,
    /// Time added to each round trip to the database in milliseconds, where it is varied.
    pub rtt_ms: Option<f64>,
    /// Rate per second.
    pub per_second: Option<f64>,
    /// Latencies.
    #[serde(flatten)]
    pub times: Option<Times>,
    /// Share of a core, in percent.
    pub core_percent: Option<f64>,
    /// Processor time per job.
    pub cpu_micros_per_job: Option<f64>,
    /// Memory.
    pub bytes: Option<f64>,
    /// A count.
    pub count: Option<u64>,
    /// The rate it is compared with, per second: the raw database baseline, or another rate.
    pub floor_per_second: Option<f64>,
    /// The rate divided by the compared rate.
    pub ratio: Option<f64>,
}

/// Percentiles of latencies.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Times {
    /// Median, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: f64,
}

impl Times {
    /// The percentiles of measured durations; zero if there are none.
    pub fn new(mut times: Vec<Duration>) -> Times {
        times.sort_unstable();
        let at = |percent: usize| {
            let place = (times.len() * percent / 100).min(times.len().saturating_sub(1));
            times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1_000.0)
        };
        Times { p50_ms: at(50), p99_ms: at(99) }
    }
}

/// The rate per second.
pub fn rate(jobs: usize, took: Duration) -> f64 {
    real(jobs) / took.as_secs_f64().max(f64::EPSILON)
}

#[allow(clippy::cast_precision_loss, reason = "three digits are enough")]
pub(super) fn real(number: usize) -> f64 {
    number as f64
}

impl Figure {
    /// A figure of a workload.
    pub fn new(workload: &'static str, what: impl Into<String>) -> Figure {
        Figure { workload, what: what.into(), ..Figure::default() }
    }

    /// Sets the rate.
    #[must_use]
    pub fn rate(self, per_second: f64) -> Figure {
        Figure { per_second: Some(per_second), ..self }
    }

    /// Sets the rate it is compared with, if there is one.
    #[must_use]
    pub fn beside(self, floor: Option<f64>) -> Figure {
        let ratio = self.per_second.zip(floor).map(|(rate, floor)| rate / floor);
        Figure { floor_per_second: floor, ratio, ..self }
    }

    /// Sets the latencies.
    #[must_use]
    pub fn times(self, times: Times) -> Figure {
        Figure { times: Some(times), ..self }
    }

    /// Sets the share of a core.
    #[must_use]
    pub fn percent(self, core_percent: f64) -> Figure {
        Figure { core_percent: Some(core_percent), ..self }
    }

    /// Sets the memory.
    #[must_use]
    pub fn bytes(self, bytes: f64) -> Figure {
        Figure { bytes: Some(bytes), ..self }
    }

    /// The figure as text.
    pub fn value(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.per_second.map(|rate| format!("{rate:.0}/s")));
        parts.extend(
            self.times.map(|times| format!("p50 {:.2} ms, p99 {:.2} ms", times.p50_ms, times.p99_ms)),
        );
        parts.extend(self.core_percent.map(|percent| format!("{percent:.2} % of a core")));
        parts.extend(self.cpu_micros_per_job.map(|micros| format!("{micros:.1} µs of processor per job")));
        let size = |bytes: f64| {
            if bytes < 1e6 { format!("{:.0} kB", bytes / 1e3) } else { format!("{:.0} MB", bytes / 1e6) }
        };
        parts.extend(self.bytes.map(size));
        parts.extend(self.count.map(|count| count.to_string()));
        parts.join(", ")
    }

    /// The comparison as text.
    pub fn beside_what(&self) -> String {
        match (self.floor_per_second, self.ratio) {
            (Some(floor), Some(ratio)) => format!("{ratio:.2} of {floor:.0}/s"),
            _ => String::new(),
        }
    }
}

/// Figures as a table.
pub fn table(figures: &[Figure]) -> String {
    let rows: Vec<[String; 4]> = figures
        .iter()
        .map(|figure| [figure.workload.to_owned(), figure.what.clone(), figure.value(), figure.beside_what()])
        .collect();
    let titles = ["workload", "what", "figure", "beside"].map(str::to_owned);
    let width = |column: usize| {
        rows.iter().chain([&titles]).map(|row| row[column].chars().count()).max().unwrap_or(0)
    };
    let widths = [0, 1, 2, 3].map(width);
    let line = |cells: &[String; 4]| {
        let cells: Vec<String> =
            cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = widths.map(|width| "-".repeat(width.max(1)));
    let mut text = line(&titles) + &line(&rule);
    text.extend(rows.iter().map(line));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_times() {
        let times = Times::new((1..=100).map(Duration::from_millis).collect());
        assert_eq!((times.p50_ms, times.p99_ms), (51.0, 100.0));
        assert!(Times::new(Vec::new()).p99_ms.abs() < f64::EPSILON);
    }

    #[test]
    fn a_figure_is_shown_beside_its_floor() {
        let figure = Figure::new("batch", "submit").rate(50_000.0).beside(Some(100_000.0));
        assert_eq!((figure.value().as_str(), figure.beside_what().as_str()), ("50000/s", "0.50 of 100000/s"));
        let json = serde_json::to_value(&figure).unwrap();
        assert_eq!(json["ratio"], 0.5);
        assert!(json.get("p50_ms").is_none());
        let table = table(&[figure]);
        assert!(
            table.lines().all(|line| line.chars().count() == table.lines().next().unwrap().chars().count()),
            "{table}"
        );
    }
}
