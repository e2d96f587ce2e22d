//! Exit codes, in one place: what scripts may rely on. `--help`, the manual and the tests read this list.

use std::process::ExitCode;

use super::error::Failure;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done = 0,
    /// The answer is no, or something went wrong that has no code of its own.
    No = 1,
    /// The command line is wrong.
    Usage = 2,
    /// There is no such thing.
    NotFound = 3,
    /// The server refused it.
    Refused = 4,
    /// The key is missing, wrong or not enough.
    NotAllowed = 5,
    /// No server, or no answer in time.
    NoServer = 6,
    /// Not now.
    Busy = 7,
    /// Whoever read the output has gone.
    NobodyReads = 141,
}

impl Exit {
    /// Every code with when it is used.
    pub(crate) const ALL: [(Exit, &str); 9] = [
        (Exit::Done, "done"),
        (Exit::No, "the answer is no: an invariant is broken, the awaited job failed; or any other trouble"),
        (Exit::Usage, "the command line is wrong"),
        (Exit::NotFound, "no such job, queue, worker, schedule or key; or an id that fits several"),
        (Exit::Refused, "the server refused it: a value is not allowed, or a state is in the way"),
        (Exit::NotAllowed, "the key is missing, wrong or may not do this"),
        (Exit::NoServer, "no server there, or no answer in time"),
        (Exit::Busy, "not now: too many jobs or requests, a full disk, a server that stops; try again later"),
        (Exit::NobodyReads, "whoever read the output has gone, as `head` does"),
    ];

    /// The codes as lines of help.
    pub(crate) fn listed() -> String {
        Exit::ALL
            .iter()
            .map(|(exit, when)| format!("  {:<5} {when}\n", *exit as u8))
            .collect::<Vec<_>>()
            .concat()
    }

    /// The code for what went wrong.
    pub(crate) fn of(error: &anyhow::Error) -> Exit {
        if let Some(failure) = error.downcast_ref::<Failure>() {
            return failure.exit();
        }
        let is_pipe = |cause: &(dyn std::error::Error + 'static)| {
            cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        };
        if error.chain().any(is_pipe) { Exit::NobodyReads } else { Exit::No }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
