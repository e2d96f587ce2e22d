//! The table that the benchmark prints.

use std::time::Duration;

/// One figure.
struct Line {
    what: String,
    value: String,
    beside: String,
}

/// All figures.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<Line>,
}

impl Report {
    /// A rate in jobs a second, beside the floor's.
    pub(crate) fn add(&mut self, what: String, rate: f64, floor: Option<f64>) {
        let beside =
            floor.map_or(String::new(), |floor| format!("floor {floor:.0}/s, ratio {:.2}", rate / floor));
        self.push(what, format!("{rate:.0}/s"), beside);
    }

    /// A rate beside the one it is compared with.
    pub(crate) fn add_ratio(&mut self, what: String, rate: f64, base: f64) {
        self.push(what, format!("{rate:.0}/s"), format!("{:.2} of {base:.0}/s", rate / base));
    }

    /// Two percentiles.
    pub(crate) fn add_times(&mut self, what: String, p50: Duration, p99: Duration) {
        self.push(what, format!("p50 {p50:.1?}"), format!("p99 {p99:.1?}"));
    }

    /// Anything else.
    pub(crate) fn push(&mut self, what: String, value: String, beside: String) {
        eprintln!("{what}: {value} {beside}");
        self.lines.push(Line { what, value, beside });
    }

    pub(crate) fn print(&self) {
        println!("| what | figure | beside |");
        println!("|---|---|---|");
        for line in &self.lines {
            println!("| {} | {} | {} |", line.what, line.value, line.beside);
        }
    }
}

/// The value below which `share` of the times lie.
pub(crate) fn percentile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let at = ((times.len() as f64 * share) as usize).min(times.len() - 1);
    times[at]
}
