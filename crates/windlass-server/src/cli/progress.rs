//! How far long work is: a bar with rate and time to go on a terminal, a plain line now and then elsewhere. Always on
//! standard error.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use windlass::clock::Stopwatch;

use super::text::short_span;
use crate::number::grouped;

/// How often a terminal is drawn again.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// How wide the bar is.
const BAR_WIDTH: u64 = 24;

/// Long work that is under way.
pub(crate) struct Progress {
    what: String,
    total: Option<u64>,
    done: u64,
    watch: Stopwatch,
    last: Option<Duration>,
    is_terminal: bool,
    is_shown: bool,
}

impl Progress {
    /// Work that begins: what is counted, and how much there is if that is known.
    pub(crate) fn start(what: impl Into<String>, total: Option<u64>) -> Progress {
        Progress {
            what: what.into(),
            total,
            done: 0,
            watch: Stopwatch::start(),
            last: None,
            is_terminal: std::io::stderr().is_terminal(),
            is_shown: true,
        }
    }

    /// Says nothing if this is so, as where a program reads the answer.
    #[must_use]
    pub(crate) fn unless(mut self, is_unwanted: bool) -> Progress {
        self.is_shown = !is_unwanted;
        self
    }

    /// So much is done in all.
    pub(crate) fn set(&mut self, done: u64) {
        self.done = done;
        let elapsed = self.watch.elapsed();
        let every = if self.is_terminal { DRAW_EVERY } else { LINE_EVERY };
        // Nothing is said of work that is over before anybody could read it.
        let since = elapsed.saturating_sub(self.last.unwrap_or_default());
        if self.is_shown && since >= every {
            self.last = Some(elapsed);
            self.draw(elapsed);
        }
    }

    /// One more piece is done.
    pub(crate) fn add(&mut self, more: u64) {
        self.set(self.done + more);
    }

    /// How long it has taken.
    pub(crate) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Takes the bar away, before anything else is said.
    pub(crate) fn clear(&mut self) {
        if self.is_terminal && self.last.is_some() {
            let mut stderr = std::io::stderr().lock();
            let _nobody_looks = write!(stderr, "\r\x1b[2K").and_then(|()| stderr.flush());
        }
    }

    fn draw(&self, elapsed: Duration) {
        let text = shown(&self.what, self.done, self.total, elapsed, self.is_terminal);
        let mut stderr = std::io::stderr().lock();
        let _nobody_looks = if self.is_terminal {
            write!(stderr, "\r\x1b[2K{text}").and_then(|()| stderr.flush())
        } else {
            writeln!(stderr, "{text}")
        };
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `1,234 of 10,000 jobs, 12%, 5,321/s, 2 s to go`, with a bar if there is somebody to look at it.
fn shown(what: &str, done: u64, total: Option<u64>, elapsed: Duration, has_bar: bool) -> String {
    let rate = rate(done, elapsed);
    let per_second = grouped(rate);
    let Some(total) = total.filter(|total| *total > 0) else {
        return format!("{} {what}, {per_second}/s", grouped(done));
    };
    let done = done.min(total);
    let bar = if has_bar {
        let full = usize::try_from(done * BAR_WIDTH / total).unwrap_or(0);
        let width = usize::try_from(BAR_WIDTH).unwrap_or(0);
        format!("[{}{}] ", "#".repeat(full), "-".repeat(width - full))
    } else {
        String::new()
    };
    let left = (total - done)
        .checked_div(rate)
        .map_or(String::new(), |seconds| format!(", {} to go", short_span(Duration::from_secs(seconds))));
    let percent = done * 100 / total;
    format!("{bar}{} of {} {what}, {percent}%, {per_second}/s{left}", grouped(done), grouped(total))
}

/// Pieces per second.
pub(crate) fn rate(done: u64, elapsed: Duration) -> u64 {
    let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
    done.saturating_mul(1000) / millis
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn progress_tells_rate_and_time_to_go() {
        let after = |seconds| Duration::from_secs(seconds);
        assert_eq!(
            shown("jobs", 2_500, Some(10_000), after(5), false),
            "2,500 of 10,000 jobs, 25%, 500/s, 15s to go"
        );
        assert_eq!(shown("jobs", 2_500, None, after(5), true), "2,500 jobs, 500/s");
        let bar = shown("jobs", 5, Some(10), after(1), true);
        assert!(bar.starts_with("[############------------] 5 of 10"), "{bar}");
        // What is not known is not made up.
        assert_eq!(shown("jobs", 0, Some(10), after(1), false), "0 of 10 jobs, 0%, 0/s");
    }
}
