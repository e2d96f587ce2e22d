//! Pauses on the wire: how to pause, and who has paused what.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::store::command::hold::Pause;
use windlass::store::config::{Hold, PauseMode};

use super::claim::mode_word;
use super::time::{Moment, Span};

/// How to pause.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PauseBody {
    /// What happens to running jobs; `graceful` if not given.
    mode: Option<PauseWord>,
    reason: Option<String>,
    /// When it lifts itself.
    expires: Option<Span>,
}

/// What happens to running jobs.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PauseWord {
    Graceful,
    Aggressive,
}

impl From<PauseBody> for Pause {
    fn from(body: PauseBody) -> Pause {
        let mode = match body.mode {
            None | Some(PauseWord::Graceful) => PauseMode::Graceful,
            Some(PauseWord::Aggressive) => PauseMode::Aggressive,
        };
        Pause { mode, reason: body.reason, expires: body.expires.map(|span| span.0) }
    }
}

/// A pause in force.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Pause")]
pub(crate) struct PauseView {
    by: String,
    at: Moment,
    reason: Option<String>,
    /// `graceful` or `aggressive`.
    mode: &'static str,
    /// When it lifts itself.
    expires_at: Option<Moment>,
}

impl From<&Hold> for PauseView {
    fn from(hold: &Hold) -> PauseView {
        PauseView {
            by: hold.by.clone(),
            at: hold.since.into(),
            reason: hold.reason.clone(),
            mode: mode_word(hold.mode),
            expires_at: hold.expires_at.map(Moment),
        }
    }
}
