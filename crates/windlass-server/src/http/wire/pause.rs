//! Pauses in the API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::clock::Timestamp;
use windlass::store::command::pause::Pause;
use windlass::store::documents::config::{PauseMode, PauseRecord, Resumption};

use super::expires::Expiry;
use super::time::Moment;
use crate::http::reply::error::ApiError;

/// How to pause.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PauseBody {
    /// What happens to running jobs; `graceful` if not given.
    mode: Option<PauseWord>,
    reason: Option<String>,
    /// When it resumes automatically: a duration or a time.
    expires: Option<Expiry>,
}

/// What happens to running jobs.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum PauseWord {
    Graceful,
    Aggressive,
}

impl PauseBody {
    /// The library's pause.
    pub(crate) fn into_pause(self, now: Timestamp) -> Result<Pause, ApiError> {
        let mode = match self.mode {
            None | Some(PauseWord::Graceful) => PauseMode::Graceful,
            Some(PauseWord::Aggressive) => PauseMode::Aggressive,
        };
        let expires = self.expires.map(|expiry| expiry.counted_from("expires", now)).transpose()?;
        Ok(Pause { mode, reason: self.reason, expires })
    }
}

/// The error of a strict request if the object is already paused.
pub(crate) fn already_paused(what: impl std::fmt::Display) -> ApiError {
    ApiError::conflict("already_paused", format!("{what} is already paused"))
        .with("state", "paused")
        .with("action", "pause")
}

/// The error of a strict request if the object is not paused.
pub(crate) fn not_paused(what: impl std::fmt::Display) -> ApiError {
    ApiError::conflict("not_paused", format!("{what} is not paused"))
        .with("state", "active")
        .with("action", "resume")
}

/// An active pause.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Pause")]
pub(crate) struct PauseView {
    by: String,
    at: Moment,
    reason: Option<String>,
    /// `graceful` or `aggressive`.
    mode: &'static str,
    /// When it resumes automatically.
    expires_at: Option<Moment>,
}

/// A resume: who and when.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Resumption")]
pub(crate) struct ResumptionView {
    by: String,
    at: Moment,
    reason: Option<String>,
}

impl From<&Resumption> for ResumptionView {
    fn from(end: &Resumption) -> ResumptionView {
        ResumptionView { by: end.by.clone(), at: end.at.into(), reason: end.reason.clone() }
    }
}

impl From<&PauseRecord> for PauseView {
    fn from(hold: &PauseRecord) -> PauseView {
        PauseView {
            by: hold.by.clone(),
            at: hold.since.into(),
            reason: hold.reason.clone(),
            mode: hold.mode.as_str(),
            expires_at: hold.expires_at.map(Moment),
        }
    }
}
