//! Errors of commands that call a server, with what to try next.

use std::time::Duration;

use thiserror::Error;
use windlass_api::client::error::ErrorResponse;

use super::exit_code::Exit;
use super::output::escaped;

/// Why a request failed.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// Nothing listens at the address.
    #[error("no server at {place} ({cause}); start one with `windlass serve` or set WINDLASS_URL")]
    NoServer {
        place: String,
        /// The error of the operating system.
        cause: String,
    },
    /// The connection works but no response arrives.
    #[error("no response from {place} within {within:?}; is it a Windlass server, and is it overloaded?")]
    Silent { place: String, within: Duration },
    /// The response is not one of the API.
    #[error("unexpected response from {place}: {problem}; check WINDLASS_URL")]
    BadAnswer { place: String, problem: String },
    /// The response is JSON, but not what this version expects.
    #[error(
        "the request succeeded, but the response of {place} cannot be read: {problem}; the server may be newer \
         than this program: update it, or use --json, which prints responses as they are"
    )]
    Unreadable { place: String, problem: String },
    /// The server responded with an error.
    #[error("{}", describe(.0))]
    Refused(Box<ErrorResponse>),
    /// The command line is invalid.
    #[error("{0}")]
    Usage(String),
    /// The object does not exist.
    #[error("{0}")]
    NotFound(String),
}

impl Failure {
    /// An error for a command line found invalid after it was parsed.
    pub(crate) fn usage(message: impl Into<String>) -> anyhow::Error {
        Failure::Usage(message.into()).into()
    }

    /// The process's exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Failure::NoServer { .. } | Failure::Silent { .. } | Failure::BadAnswer { .. } => Exit::NoServer,
            Failure::Unreadable { .. } => Exit::No,
            Failure::Usage(_) => Exit::Usage,
            Failure::NotFound(_) => Exit::NotFound,
            Failure::Refused(refusal) => match refusal.status {
                401 | 403 => Exit::NotAllowed,
                404 => Exit::NotFound,
                429 | 503 => Exit::Busy,
                400..=499 => Exit::Refused,
                _ => Exit::No,
            },
        }
    }

    /// The error response, if the server sent one.
    pub(crate) fn refusal(&self) -> Option<&ErrorResponse> {
        match self {
            Failure::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }
}

/// The error response as text, with what to do about it.
fn describe(refusal: &ErrorResponse) -> String {
    let ErrorResponse { status, code, message, retry_after, had_key, .. } = refusal;
    let message = escaped(message);
    match (*status, code.as_str()) {
        (401, _) if !had_key => {
            "the server requires an API key: set WINDLASS_KEY, or put the key in a profile".to_owned()
        }
        (401, _) => "invalid API key (wrong, revoked or expired)".to_owned(),
        (403, "forbidden") => format!("{message}; ask an admin for a key with this permission"),
        (429 | 503, _) => match retry_after {
            Some(after) => format!("{message} ({code}); retry in {} s", after.as_secs().max(1)),
            None => format!("{message} ({code}); retry later"),
        },
        _ => format!("{message} ({code})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;

    fn refused(status: u16, code: &str) -> Failure {
        Failure::Refused(Box::new(ErrorResponse {
            status,
            code: code.to_owned(),
            message: "so it is".to_owned(),
            details: Map::new(),
            retry_after: None,
            had_key: false,
        }))
    }

    #[test]
    fn every_kind_of_failure_has_its_own_exit_code() {
        let place = || "127.0.0.1:1".to_owned();
        for (failure, exit) in [
            (Failure::NoServer { place: place(), cause: "refused".into() }, Exit::NoServer),
            (Failure::Silent { place: place(), within: Duration::from_secs(1) }, Exit::NoServer),
            (Failure::BadAnswer { place: place(), problem: "no JSON".into() }, Exit::NoServer),
            (Failure::Unreadable { place: place(), problem: "unknown word".into() }, Exit::No),
            (Failure::Usage("no".into()), Exit::Usage),
            (Failure::NotFound("no".into()), Exit::NotFound),
            (refused(401, "unauthorized"), Exit::NotAllowed),
            (refused(403, "forbidden"), Exit::NotAllowed),
            (refused(404, "not_found"), Exit::NotFound),
            (refused(409, "state_conflict"), Exit::Refused),
            (refused(422, "invalid_value"), Exit::Refused),
            (refused(413, "payload_too_large"), Exit::Refused),
            (refused(429, "too_many_jobs"), Exit::Busy),
            (refused(503, "disk_full"), Exit::Busy),
            (refused(500, "damaged"), Exit::No),
        ] {
            assert_eq!(Exit::from_error(&anyhow::Error::from(failure)), exit);
        }
        let pipe = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(Exit::from_error(&anyhow::Error::from(pipe).context("cannot write")), Exit::NobodyReads);
        assert_eq!(Exit::from_error(&anyhow::anyhow!("something else")), Exit::No);
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        assert!(refused(401, "unauthorized").to_string().contains("WINDLASS_KEY"));
        assert!(refused(403, "forbidden").to_string().contains("admin"));
        assert!(refused(503, "draining").to_string().contains("retry later"));
        assert_eq!(refused(409, "state_conflict").to_string(), "so it is (state_conflict)");
    }
}
