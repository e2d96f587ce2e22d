//! How far long work is: a bar with rate and time to go on a terminal, a plain line now and then elsewhere. Always on
//! standard error.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use terminal_size::Width;
use unicode_width::UnicodeWidthStr;
use windlass::clock::Stopwatch;

use super::table::cut_end;
use super::text::short_span;
use crate::number::grouped;

/// How often a terminal is drawn again.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// How wide the bar is at most, and at least: a shorter one says nothing.
const BAR_WIDTH: (usize, usize) = (24, 6);
/// How wide a terminal is that does not say.
const TERMINAL_WIDTH: usize = 80;

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
        // A line that goes on in the next could not be taken away again.
        let width =
            || terminal_size::terminal_size_of(std::io::stderr()).map(|(Width(width), _)| width.into());
        let room = self.is_terminal.then(|| width().filter(|width| *width > 0).unwrap_or(TERMINAL_WIDTH) - 1);
        let text = display(&self.what, self.done, self.total, elapsed, room);
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

/// `1,234 of 10,000 jobs, 12%, 5,321/s, 2 s to go`, with a bar if there is somebody to look at it and room for it.
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
    // What a bar and the space around it leave.
    let width = room.map_or(0, |room| room.saturating_sub(text.width() + 3).min(BAR_WIDTH.0));
    if width < BAR_WIDTH.1 {
        return fitted(text);
    }
    let full = usize::try_from(done * width as u64 / total).unwrap_or(0);
    format!("[{}{}] {text}", "#".repeat(full), "-".repeat(width - full))
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
            display("jobs", 2_500, Some(10_000), after(5), None),
            "2,500 of 10,000 jobs, 25%, 500/s, 15s to go"
        );
        assert_eq!(display("jobs", 2_500, None, after(5), Some(79)), "2,500 jobs, 500/s");
        let bar = display("jobs", 5, Some(10), after(1), Some(79));
        assert!(bar.starts_with("[############------------] 5 of 10"), "{bar}");
        // What is not known is not made up.
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
