//! Prints how jobs ended, one line each: for people on standard error, or for programs on standard output.

use std::io::Write;
use std::time::Duration;

use serde_json::json;
use windlass_server::exec::{Exit, Summary};

use crate::output::color::{Colour, Paint};
use crate::output::escaped;

/// Characters of an id that are printed: the submission time and some random digits, which are unique in practice.
const ID_CHARS: usize = 18;
/// Maximum width of the type column; longer types shift the rest.
const TYPE_WIDTH_MAX: usize = 30;

/// Prints how jobs ended.
pub(super) struct Reporter {
    style: Style,
    /// Width of the type column.
    type_width: usize,
}

enum Style {
    Quiet,
    Json,
    Text { paint: Paint },
}

impl Reporter {
    pub(super) fn new(is_quiet: bool, is_json: bool, types: &[String]) -> Reporter {
        let style = match (is_quiet, is_json) {
            (_, true) => Style::Json,
            (true, false) => Style::Quiet,
            (false, false) => Style::Text { paint: Paint::for_talk() },
        };
        let type_width = types.iter().map(String::len).max().unwrap_or_default().min(TYPE_WIDTH_MAX);
        Reporter { style, type_width }
    }

    /// Prints how an attempt ended. A closed output does not stop the worker.
    pub(super) fn say(&self, summary: &Summary) {
        let _read_or_not = match self.style {
            Style::Quiet => Ok(()),
            Style::Json => writeln!(std::io::stdout().lock(), "{}", json_line(summary)),
            Style::Text { paint } => {
                writeln!(std::io::stderr().lock(), "{}", text_line(summary, self.type_width, paint))
            }
        };
    }
}

fn json_line(summary: &Summary) -> serde_json::Value {
    let (code, signal) = match summary.exit {
        Some(Exit::Code(code)) => (Some(code), None),
        Some(Exit::Signal(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    json!({
        "job": summary.job.to_string(),
        "type": summary.job_type.as_str(),
        "queue": summary.queue.as_str(),
        "attempt": summary.attempt,
        "outcome": summary.outcome,
        "category": summary.category,
        "exit_code": code,
        "signal": signal,
        "duration_ms": u64::try_from(summary.took.as_millis()).unwrap_or(u64::MAX),
        "error": summary.error,
    })
}

fn text_line(summary: &Summary, type_width: usize, paint: Paint) -> String {
    let id: String = summary.job.to_string().chars().take(ID_CHARS).collect();
    let outcome = format!("{:<11}", summary.outcome.replace('_', " "));
    let colour = match summary.outcome {
        "completed" => Colour::Good,
        "failed" | "not_started" | "timed_out" => Colour::Bad,
        _ => Colour::Warning,
    };
    let outcome = paint.paint(&outcome, Some(colour));
    let line =
        format!("{id}  {:<type_width$}  {outcome} {:>7}", summary.job_type.as_str(), took(summary.took));
    let attempt = (summary.attempt > 1).then(|| format!("attempt {}", summary.attempt));
    let error = summary.error.as_deref().map(on_one_line);
    [Some(line), attempt, error].into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// The beginning and the end of a message on one line, escaped for a terminal.
fn on_one_line(message: &str) -> String {
    const SHOWN: usize = 160;
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let (first, last) = (lines.next().unwrap_or_default(), lines.next_back());
    let text = last.map_or_else(|| first.to_owned(), |last| format!("{first} … {last}"));
    let text = escaped(&without_colour(&text));
    let cut: String = text.chars().take(SHOWN).collect();
    if cut.len() < text.len() { cut + "…" } else { cut }
}

/// The text without colour sequences.
fn without_colour(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        match rest.strip_prefix('m') {
            Some(rest) => plain.push_str(rest),
            None => plain.extend(["\x1b[", piece]),
        }
    }
    plain
}

fn took(took: Duration) -> String {
    match took.as_secs() {
        0 => format!("{}ms", took.as_millis()),
        1..60 => format!("{:.1}s", took.as_secs_f64()),
        seconds @ 60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        seconds => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        let shown = |millis| took(Duration::from_millis(millis));
        assert_eq!(
            [shown(7), shown(1_250), shown(61_000), shown(7_260_000)],
            ["7ms", "1.2s", "1m01s", "2h01m"]
        );
    }

    #[test]
    fn a_message_is_one_line_and_no_terminal_obeys_it() {
        assert_eq!(on_one_line("exit code 1: a\nb\n\nc\n"), "exit code 1: a … c");
        assert_eq!(on_one_line("\x1b[2J"), "\\u{1b}[2J");
        assert_eq!(on_one_line("it is \x1b[1;31mbad\x1b[0m"), "it is bad");
        assert_eq!(on_one_line(&"x".repeat(500)).chars().count(), 161);
    }
}
