//! Exit codes, the contract with scripts. `--help`, the man page and the tests read this list.

use std::process::ExitCode;

use super::error::Failure;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done = 0,
    /// The check failed, or an error without its own code.
    No = 1,
    Usage = 2,
    NotFound = 3,
    Refused = 4,
    /// The key is missing, wrong or lacks the permission.
    NotAllowed = 5,
    /// No server, or no response in time.
    NoServer = 6,
    /// Overload; the command can be retried.
    Busy = 7,
    /// The reader of the output closed it.
    NobodyReads = 141,
}

impl Exit {
    /// Every code with its description.
    pub(crate) const ALL: [(Exit, &str); 9] = [
        (Exit::Done, "done"),
        (Exit::No, "the check failed: an invariant is broken, the awaited job failed; or any other error"),
        (Exit::Usage, "invalid command line, or a value that no server takes"),
        (Exit::NotFound, "no such job, queue, worker, schedule or key; or an id that matches several"),
        (Exit::Refused, "the server rejected it: an invalid value, or the state does not allow it"),
        (Exit::NotAllowed, "the API key is missing, wrong or lacks the permission"),
        (Exit::NoServer, "no server, or no response in time"),
        (Exit::Busy, "overload: too many jobs or requests, a full disk, a stopping server; retry later"),
        (Exit::NobodyReads, "the reader of the output closed it, as `head` does"),
    ];

    /// The codes as lines of the help.
    pub(crate) fn listed() -> String {
        Exit::ALL
            .iter()
            .map(|(exit, when)| format!("  {:<5} {when}\n", *exit as u8))
            .collect::<Vec<_>>()
            .concat()
    }

    /// The exit code of an error.
    pub(crate) fn from_error(error: &anyhow::Error) -> Exit {
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
