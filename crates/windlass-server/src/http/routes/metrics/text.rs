//! The text formats of metrics: Prometheus's own, and OpenMetrics for scrapers that ask for it. The values come from the
//! store at the time of a scrape, so that there is no registry: `prometheus-client` would write OpenMetrics only.

use std::fmt::{Display, Write};

use axum::http::{HeaderMap, header};
use windlass::store::Exemplar;

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    Prometheus,
    OpenMetrics,
}

impl MetricsFormat {
    /// The format that a scraper prefers. Without a preference it is Prometheus's own, which everything reads.
    pub(crate) fn accepted(headers: &HeaderMap) -> MetricsFormat {
        let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
        let (mut open, mut plain) = (0.0_f32, 0.0_f32);
        for range in lines.flat_map(|line| line.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let named = |name: &str| {
                parameters.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
            };
            let weight = named("q").map_or(1.0, |value| value.parse().unwrap_or(0.0));
            let has_version = named("version").is_none_or(|version| version.trim_matches('"') == "1.0.0");
            match media.as_str() {
                "application/openmetrics-text" if has_version => open = open.max(weight),
                "text/plain" | "text/*" | "*/*" => plain = plain.max(weight),
                _ => {}
            }
        }
        if open > 0.0 && open >= plain { MetricsFormat::OpenMetrics } else { MetricsFormat::Prometheus }
    }

    /// The content type of a response.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            MetricsFormat::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            MetricsFormat::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// Metrics being written.
pub(crate) struct MetricsText {
    text: String,
    format: MetricsFormat,
}

impl MetricsText {
    pub(crate) fn new(format: MetricsFormat) -> MetricsText {
        MetricsText { text: String::new(), format }
    }

    /// Writes the description of a metric.
    pub(crate) fn heading(&mut self, name: &str, kind: &str, help: &str) {
        // OpenMetrics names the family of a counter without the ending of its series.
        let family = match self.format {
            MetricsFormat::OpenMetrics if kind == "counter" => name.trim_end_matches("_total"),
            MetricsFormat::OpenMetrics | MetricsFormat::Prometheus => name,
        };
        self.write(format_args!("# HELP {family} {help}\n# TYPE {family} {kind}\n"));
    }

    /// Writes one value.
    pub(crate) fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        if labels.is_empty() {
            self.write(format_args!("{name} {value}\n"));
        } else {
            self.write(format_args!("{name}{{{labels}}} {value}\n"));
        }
    }

    /// Writes a whole histogram of seconds or counts, the buckets cumulated and in order, with an exemplar for each.
    pub(crate) fn histogram(&mut self, name: &str, labels: &str, histogram: &Buckets<'_>) {
        let more = if labels.is_empty() { String::new() } else { format!("{labels},") };
        for (at, (edge, count)) in histogram.up_to.iter().enumerate() {
            // The same text for the same edge in both formats: `1.0`, not `1`.
            self.write(format_args!("{name}_bucket{{{more}le=\"{edge:?}\"}} {count}"));
            self.exemplar(histogram.exemplar(at));
        }
        self.write(format_args!("{name}_bucket{{{more}le=\"+Inf\"}} {}", histogram.count));
        self.exemplar(histogram.exemplar(histogram.up_to.len()));
        self.line(&format!("{name}_sum"), labels, histogram.sum);
        self.line(&format!("{name}_count"), labels, histogram.count);
    }

    /// Ends a bucket's line, with its exemplar if the format has them.
    fn exemplar(&mut self, exemplar: Option<&Exemplar>) {
        if let (MetricsFormat::OpenMetrics, Some(Exemplar { trace, duration, at })) = (self.format, exemplar)
        {
            let (seconds, at) = (duration.as_secs_f64(), at.as_millis());
            let (whole, millis) = (at.div_euclid(1000), at.rem_euclid(1000));
            self.write(format_args!(" # {{trace_id=\"{trace}\"}} {seconds} {whole}.{millis:03}"));
        }
        self.text.push('\n');
    }

    /// The whole text.
    pub(crate) fn finish(mut self) -> String {
        if self.format == MetricsFormat::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        self.text.write_fmt(text).expect("writing to a string cannot fail");
    }
}

/// The values of a histogram.
pub(crate) struct Buckets<'a> {
    /// For each edge, how many values were not above it.
    pub(crate) up_to: Vec<(f64, u64)>,
    pub(crate) count: u64,
    pub(crate) sum: f64,
    /// An exemplar per bucket, the last for values above all edges.
    pub(crate) exemplars: &'a [Option<Exemplar>],
}

impl Buckets<'_> {
    fn exemplar(&self, bucket: usize) -> Option<&Exemplar> {
        self.exemplars.get(bucket)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::HeaderValue;
    use windlass::clock::Timestamp;
    use windlass::job::TraceId;

    use super::*;

    fn accepted(lines: &[&'static str]) -> MetricsFormat {
        let lines = lines.iter().map(|line| (header::ACCEPT, HeaderValue::from_static(line)));
        MetricsFormat::accepted(&lines.collect())
    }

    #[test]
    fn a_scraper_gets_the_format_it_prefers() {
        let (own, open) = (MetricsFormat::Prometheus, MetricsFormat::OpenMetrics);
        let scraper = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                       application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.3,*/*;q=0.2";
        for (lines, expected) in [
            (&[][..], own),
            (&["*/*"], own),
            (&["text/html, text/plain"], own),
            (&[scraper], open),
            (&["application/openmetrics-text"], open),
            (&["text/plain;q=0.5", "Application/OpenMetrics-Text; Version=\"1.0.0\""], open),
            (&["application/openmetrics-text; version=2.0.0, text/plain;q=0.1"], own),
            (&["application/openmetrics-text;q=0.1, text/plain;q=0.9"], own),
            (&["application/openmetrics-text;q=0"], own),
            (&["application/openmetrics-text;q=x"], own),
        ] {
            assert_eq!(accepted(lines), expected, "{lines:?}");
        }
    }

    fn written(format: MetricsFormat) -> String {
        let mut text = MetricsText::new(format);
        text.heading("jobs_total", "counter", "Jobs.");
        text.line("jobs_total", "queue=\"a\"", 3);
        text.heading("run_seconds", "histogram", "Durations.");
        let (trace, duration) = (TraceId::new(0xab), Duration::from_millis(1500));
        let exemplar = Exemplar { trace, duration, at: Timestamp::from_millis(61_007) };
        let exemplars = [None, Some(exemplar)];
        let buckets = Buckets { up_to: vec![(1.0, 2)], count: 3, sum: 2.5, exemplars: &exemplars };
        text.histogram("run_seconds", "", &buckets);
        text.finish()
    }

    #[test]
    fn both_formats_have_the_same_series() {
        let own = "# HELP jobs_total Jobs.\n# TYPE jobs_total counter\njobs_total{queue=\"a\"} 3\n\
                   # HELP run_seconds Durations.\n# TYPE run_seconds histogram\nrun_seconds_bucket{le=\"1.0\"} 2\n\
                   run_seconds_bucket{le=\"+Inf\"} 3\nrun_seconds_sum 2.5\nrun_seconds_count 3\n";
        assert_eq!(written(MetricsFormat::Prometheus), own);
        let open = own
            .replace("# HELP jobs_total", "# HELP jobs")
            .replace("# TYPE jobs_total", "# TYPE jobs")
            .replace(
                "le=\"+Inf\"} 3",
                "le=\"+Inf\"} 3 # {trace_id=\"000000000000000000000000000000ab\"} 1.5 61.007",
            );
        assert_eq!(written(MetricsFormat::OpenMetrics), format!("{open}# EOF\n"));
    }
}
