//! Lines on standard error that are directives for the worker and not log lines. Only exact matches count, so that a
//! program's messages about Windlass are not mistaken for directives.

use std::time::Duration;

use windlass::job::Progress;
use windlass::limits;

use crate::http::Span;

/// The prefix of directives.
const MARK: &str = "windlass:";

/// A directive of a program.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Instruction {
    /// Progress.
    Progress(Progress),
    /// When to retry if the attempt fails.
    RetryAfter(Duration),
    /// Cost of the attempt, in cents.
    Cost(u32),
}

impl Instruction {
    /// Parses a line; None if it is a log line.
    pub(super) fn parse(line: &str) -> Option<Instruction> {
        let (word, rest) = line.strip_prefix(MARK)?.split_once(' ')?;
        let rest = rest.trim();
        match word {
            "progress" => progress(rest),
            "retry-after" => {
                let seconds = rest.parse().ok().map(Duration::from_secs);
                let span = seconds.or_else(|| rest.parse().ok().map(|Span(span)| span))?;
                Some(Instruction::RetryAfter(span.min(limits::DURATION_MAX)))
            }
            "cost" => rest.parse().ok().map(Instruction::Cost),
            _ => None,
        }
    }
}

fn progress(text: &str) -> Option<Instruction> {
    let (percent, message) = text.split_once(' ').unwrap_or((text, ""));
    let percent: f64 = percent.strip_suffix('%').unwrap_or(percent).parse().ok()?;
    if !(0.0..=100.0).contains(&percent) {
        return None;
    }
    let message: String = message.trim().chars().take(limits::PROGRESS_MESSAGE_CHARS_MAX).collect();
    Some(Instruction::Progress(Progress { percent, message: (!message.is_empty()).then_some(message) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_number_and_perhaps_words() {
        let read = |line: &str| match Instruction::parse(line) {
            Some(Instruction::Progress(progress)) => Some((progress.percent, progress.message)),
            _ => None,
        };
        assert_eq!(read("windlass:progress 42"), Some((42.0, None)));
        assert_eq!(read("windlass:progress 99.5% all but done "), Some((99.5, Some("all but done".into()))));
        for wrong in ["101", "-1", "NaN", "inf", "", "much"] {
            assert_eq!(read(&format!("windlass:progress {wrong}")), None, "{wrong}");
        }
    }

    #[test]
    fn a_delay_has_a_unit_or_is_in_seconds() {
        let read = |line| Instruction::parse(line);
        let after = |seconds| Some(Instruction::RetryAfter(Duration::from_secs(seconds)));
        assert_eq!(read("windlass:retry-after 30s"), after(30));
        assert_eq!(read("windlass:retry-after 90"), after(90));
        assert_eq!(read("windlass:retry-after 1h30m"), after(5400));
        assert_eq!(read("windlass:retry-after soon"), None);
        assert_eq!(read("windlass:cost 12"), Some(Instruction::Cost(12)));
    }

    /// Whatever a program writes, a directive is within its limits, and everything else is for the log.
    #[test]
    fn a_directive_is_within_its_limits() {
        let seeds = [
            "windlass:progress 99.5% all but done",
            "windlass:retry-after 1h30m",
            "windlass:cost 12",
            "windlass:",
        ];
        let words = [
            "windlass:",
            "progress ",
            "1e309",
            "-0",
            "%",
            "inf",
            "nan",
            "18446744073709551615",
            "99999999999d",
        ];
        windlass_fuzz::Family::new("directive").seeds(seeds).words(words).text(
            |line| match Instruction::parse(line) {
                Some(Instruction::Progress(progress)) => {
                    let message = progress.message.as_deref().map_or(0, |text| text.chars().count());
                    let is_within = (0.0..=100.0).contains(&progress.percent)
                        && message <= limits::PROGRESS_MESSAGE_CHARS_MAX;
                    if is_within { Ok(()) } else { Err(format!("{progress:?}")) }
                }
                Some(Instruction::RetryAfter(delay)) if delay > limits::DURATION_MAX => {
                    Err(format!("{delay:?}"))
                }
                Some(_) if !line.starts_with(MARK) => Err("is for the log".to_owned()),
                Some(_) | None => Ok(()),
            },
        );
    }

    #[test]
    fn anything_else_is_for_the_log() {
        for line in [
            "progress 5",
            " windlass:progress 5",
            "windlass: progress 5",
            "windlass:stop now",
            "windlass:cost",
        ] {
            assert_eq!(Instruction::parse(line), None, "{line}");
        }
    }
}
