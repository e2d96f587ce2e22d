//! Progress of long operations: a bar with rate and remaining time on a terminal, otherwise a plain line now and then.
//! Always on standard error.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use terminal_size::Width;
use unicode_width::UnicodeWidthStr;
use windlass::clock::Stopwatch;
use windlass_server::number::grouped;

use super::format;
use super::table::cut_end;
use super::text::short_span;

/// How often the bar is redrawn on a terminal.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often a line is written without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// Maximum and minimum width of the bar; a shorter one is not drawn.
const BAR_WIDTH: (usize, usize) = (24, 6);
/// Assumed width of a terminal that does not report one.
const TERMINAL_WIDTH: usize = 80;

/// The progress of a long operation.
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
    /// Starts: `what` is the noun that is counted, `total` their number if it is known.
    pub(crate) fn start(what: impl Into<String>, total: Option<u64>) -> Progress {
        Progress {
            what: what.into(),
            total,
            done: 0,
            watch: Stopwatch::start(),
            last: None,
            is_terminal: std::io::stderr().is_terminal(),
            is_shown: !format::chosen().is_quiet,
        }
    }

    /// Prints nothing if `is_unwanted`, for example with `--json`.
    #[must_use]
    pub(crate) fn unless(mut self, is_unwanted: bool) -> Progress {
        self.is_shown &= !is_unwanted;
        self
    }

    /// Sets how many are done in all.
    pub(crate) fn set(&mut self, done: u64) {
        self.done = done;
        let elapsed = self.watch.elapsed();
        let every = if self.is_terminal { DRAW_EVERY } else { LINE_EVERY };
        // Short operations print nothing.
        let since = elapsed.saturating_sub(self.last.unwrap_or_default());
        if self.is_shown && since >= every {
            self.last = Some(elapsed);
            self.draw(elapsed);
        }
    }

    /// Adds to how many are done.
    pub(crate) fn add(&mut self, more: u64) {
        self.set(self.done + more);
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.watch.elapsed()
    }

    /// Removes the bar; call it before printing anything else.
    pub(crate) fn clear(&mut self) {
        if self.is_terminal && self.last.is_some() {
            let mut stderr = std::io::stderr().lock();
            let _closed = write!(stderr, "\r\x1b[2K").and_then(|()| stderr.flush());
        }
    }

    fn draw(&self, elapsed: Duration) {
        // A wrapped line could not be removed again.
        let width =
            || terminal_size::terminal_size_of(std::io::stderr()).map(|(Width(width), _)| width.into());
        let room = self.is_terminal.then(|| width().filter(|width| *width > 0).unwrap_or(TERMINAL_WIDTH) - 1);
        let text = display(&self.what, self.done, self.total, elapsed, room);
        let mut stderr = std::io::stderr().lock();
        let _closed = if self.is_terminal {
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

/// `1,234 of 10,000 jobs, 12%, 5,321/s, 2 s to go`, with a bar if there is a terminal that is wide enough.
fn display(what: &str, done: u64, total: Option<u64>, elapsed: Duration, room: Option<usize>) -> String {
    let fitted = |text: String| room.map_or_else(|| text.clone(), |room| cut_end(&text, room));
    let rate = rate(done, elapsed);
    let per_second = grouped(rate);
    let Some(total) = total.filter(|total| *total > 0) else {
        return fitted(format!("{} {what}, {per_second}/s", grouped(done)));
    };
    let done = done.min(total);
    let left = (total - done)
        .checked_div(rate)
        .map_or(String::new(), |seconds| format!(", {} to go", short_span(Duration::from_secs(seconds))));
    let percent = done * 100 / total;
    let text = format!("{} of {} {what}, {percent}%, {per_second}/s{left}", grouped(done), grouped(total));
    // The width left for the bar and the spaces around it.
    let width = room.map_or(0, |room| room.saturating_sub(text.width() + 3).min(BAR_WIDTH.0));
    if width < BAR_WIDTH.1 {
        return fitted(text);
    }
    let full = usize::try_from(done * width as u64 / total).unwrap_or(0);
    format!("[{}{}] {text}", "#".repeat(full), "-".repeat(width - full))
}

/// Items per second.
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
    fn progress_shows_rate_and_time_to_go() {
        let after = |seconds| Duration::from_secs(seconds);
        assert_eq!(
            display("jobs", 2_500, Some(10_000), after(5), None),
            "2,500 of 10,000 jobs, 25%, 500/s, 15s to go"
        );
        assert_eq!(display("jobs", 2_500, None, after(5), Some(79)), "2,500 jobs, 500/s");
        let bar = display("jobs", 5, Some(10), after(1), Some(79));
        assert!(bar.starts_with("[############------------] 5 of 10"), "{bar}");
        // Unknown numbers are left out.
        assert_eq!(display("jobs", 0, Some(10), after(1), None), "0 of 10 jobs, 0%, 0/s");
    }

    #[test]
    fn progress_is_one_line_of_any_terminal() {
        for room in [10, 40, 60, 79, 200] {
            for done in [0, 88_000, 120_000] {
                let after = Duration::from_secs(11);
                let line = display("jobs and records", done, Some(120_000), after, Some(room));
                assert!(line.width() <= room, "{room}: {line}");
                assert_eq!(line.starts_with('['), room > 50 && done == 0 || room > 70, "{room}: {line}");
            }
        }
    }
}
