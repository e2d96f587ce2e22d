//! Maps the end of a program to the outcome of its job. Exit codes follow `sysexits.h`: 65, invalid data, and 75, temporary
//! failure.

use std::fmt;
use std::time::Duration;

use windlass::Failure;
use windlass::context::CancelReason;
use windlass::job::Category;

use super::log_forwarder::StderrTail;
use super::output::{ProgramResult, TooLarge};
use super::signal;
use crate::http::Span;

/// The exit code of a permanent failure.
const PERMANENT: i32 = 65;

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Exited with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exit code {code}"),
            Exit::Signal(number) => match signal::name_of(*number) {
                Some("KILL") => f.write_str("killed by SIGKILL (manually, or because memory ran out)"),
                Some(name) => write!(f, "killed by SIG{name}"),
                None => write!(f, "killed by signal {number}"),
            },
        }
    }
}

/// Why a program was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// By the store or the worker.
    Interrupted(CancelReason),
    /// It exceeded the worker's time limit.
    TooLong(Duration),
    /// The worker had to stop at once.
    Killed,
    /// A supervisor signals the worker and its programs.
    Signalled,
    /// The handler was dropped.
    Abandoned,
}

impl Cause {
    /// Whether the store has withdrawn the job: its outcome no longer counts.
    pub(super) fn is_cut_off(self) -> bool {
        use CancelReason::{Cancelled, Lost, Suspended, TimedOut};
        matches!(self, Cause::Interrupted(Suspended | Cancelled | TimedOut | Lost) | Cause::Abandoned)
    }

    /// The outcome as one word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Cause::Interrupted(CancelReason::Suspended) => "suspended",
            Cause::Interrupted(CancelReason::Cancelled) => "cancelled",
            Cause::Interrupted(CancelReason::TimedOut) | Cause::TooLong(_) => "timed_out",
            Cause::Interrupted(CancelReason::Lost) | Cause::Abandoned => "lost",
            Cause::Interrupted(_) | Cause::Killed | Cause::Signalled => "released",
        }
    }
}

/// The outcome of an attempt.
#[derive(Debug)]
pub(crate) enum ExitOutcome {
    /// Completed with this result.
    Completed(Option<ProgramResult>),
    Failed(Failure),
    /// It was stopped before it ended; that is not a failure.
    Stopped(Cause),
    /// The program could not be started, which is not the job's fault.
    NotStarted {
        /// The error of the operating system.
        error: String,
    },
}

/// Determines the outcome of a process that ended this way, after it was stopped for `cause`.
pub(super) fn judge(
    exit: Exit,
    cause: Option<Cause>,
    answer: Result<Option<ProgramResult>, TooLarge>,
    words: &StderrTail,
    result_bytes_max: usize,
) -> ExitOutcome {
    let failure = |category, code: &str, what: String| {
        let message = if words.text.is_empty() { what } else { format!("{what}: {}", words.text) };
        Failure::new(category, message).with_code(code)
    };
    match (exit, cause) {
        (_, Some(cause)) if cause.is_cut_off() => ExitOutcome::Stopped(cause),
        (Exit::Code(0), _) => match answer {
            Ok(answer) => ExitOutcome::Completed(answer),
            Err(TooLarge { bytes }) => {
                let what = format!("the result has {bytes} bytes, the limit is {result_bytes_max}");
                ExitOutcome::Failed(Failure::permanent("result_too_large", what))
            }
        },
        (Exit::Code(PERMANENT), _) => {
            ExitOutcome::Failed(failure(Category::Permanent, "exit_65", exit.to_string()))
        }
        (_, Some(Cause::TooLong(limit))) => {
            let what = format!("ran longer than {} and was stopped", Span(limit));
            ExitOutcome::Failed(failure(Category::Timeout, "timeout", what))
        }
        (_, Some(cause)) => ExitOutcome::Stopped(cause),
        (Exit::Code(code), None) => {
            let failure = failure(Category::Temporary, &format!("exit_{code}"), exit.to_string());
            ExitOutcome::Failed(Failure { retry_after: words.retry_after, ..failure })
        }
        // An external signal: the attempt crashed.
        (Exit::Signal(_), None) => ExitOutcome::Failed(failure(Category::System, "killed", exit.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 1 << 20;

    fn failed(exit: Exit, cause: Option<Cause>, words: &StderrTail) -> Failure {
        match judge(exit, cause, Ok(None), words, LIMIT) {
            ExitOutcome::Failed(failure) => failure,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_exit_code_says_whether_another_attempt_makes_sense() {
        let words = StderrTail {
            text: "no such file".into(),
            retry_after: Some(Duration::from_secs(30)),
            cost_cents: 0,
        };
        assert!(matches!(judge(Exit::Code(0), None, Ok(None), &words, LIMIT), ExitOutcome::Completed(None)));
        for (code, category, delay) in [
            (65, Category::Permanent, None),
            (75, Category::Temporary, Some(Duration::from_secs(30))),
            (1, Category::Temporary, Some(Duration::from_secs(30))),
            (137, Category::Temporary, Some(Duration::from_secs(30))),
        ] {
            let failure = failed(Exit::Code(code), None, &words);
            assert_eq!((failure.category, failure.retry_after), (category, delay), "{code}");
            assert_eq!(failure.message, format!("exit code {code}: no such file"));
            assert_eq!(failure.code, Some(format!("exit_{code}")));
        }
    }

    /// Model: crashes-and-poison. A process killed by an external signal has crashed.
    #[test]
    fn a_signal_that_was_not_ours_is_a_crash() {
        let failure = failed(Exit::Signal(9), None, &StderrTail::default());
        assert_eq!((failure.category, failure.code.as_deref()), (Category::System, Some("killed")));
        assert!(failure.message.starts_with("killed by SIGKILL"), "{failure}");
        let failure = failed(Exit::Signal(11), None, &StderrTail::default());
        assert_eq!(failure.message, "killed by SIGSEGV");
    }

    #[test]
    fn a_program_that_was_asked_to_stop_has_not_failed_unless_it_says_so_or_took_too_long() {
        let released = Some(Cause::Interrupted(CancelReason::Released));
        let none = StderrTail::default();
        for exit in [Exit::Signal(15), Exit::Signal(9), Exit::Code(1), Exit::Code(75)] {
            assert!(
                matches!(judge(exit, released, Ok(None), &none, LIMIT), ExitOutcome::Stopped(_)),
                "{exit}"
            );
        }
        assert!(matches!(judge(Exit::Code(0), released, Ok(None), &none, LIMIT), ExitOutcome::Completed(_)));
        assert_eq!(failed(Exit::Code(65), released, &none).category, Category::Permanent);
        let too_long = Some(Cause::TooLong(Duration::from_secs(5)));
        let failure = failed(Exit::Signal(15), too_long, &none);
        assert_eq!(failure.category, Category::Timeout);
        assert_eq!(failure.message, "ran longer than 5s and was stopped");
    }

    #[test]
    fn what_the_store_has_taken_away_is_never_reported_as_anything_else() {
        use CancelReason::{Cancelled, Lost, Suspended, TimedOut};
        for why in [Cancelled, Lost, Suspended, TimedOut] {
            let cause = Cause::Interrupted(why);
            let exit_outcome = judge(Exit::Code(0), Some(cause), Ok(None), &StderrTail::default(), LIMIT);
            assert!(matches!(exit_outcome, ExitOutcome::Stopped(stopped) if stopped == cause), "{why:?}");
        }
    }

    #[test]
    fn a_result_that_is_too_large_is_a_permanent_failure_that_says_so() {
        let too_large = Err(TooLarge { bytes: 2_000_000 });
        match judge(Exit::Code(0), None, too_large, &StderrTail::default(), LIMIT) {
            ExitOutcome::Failed(failure) => {
                assert_eq!(failure.category, Category::Permanent);
                assert_eq!(failure.message, "the result has 2000000 bytes, the limit is 1048576");
            }
            other => panic!("{other:?}"),
        }
    }
}
