//! The server's answers as the screen shows them: the API's types. Text is escaped while it is read, so that it cannot move
//! the cursor or hide other text.

use serde::de::DeserializeOwned;
use windlass::clock::Timestamp;
use windlass::job::{JobAction, JobState};
use windlass_api::job::Job;

use crate::output::raw::with_escaped_texts;

/// States of jobs that failed finally.
pub(super) const FAILED: [JobState; 2] = [JobState::Failed, JobState::DeadLetter];

/// Reads an answer, or a part of one, as `T`, with control characters escaped in all of its texts but payloads and results.
pub(super) fn read<T: DeserializeOwned>(answer: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(&with_escaped_texts(answer))
}

/// When a job last failed, or last changed if it never failed.
pub(super) fn failed_at(job: &Job) -> Timestamp {
    job.error.as_ref().map_or(job.updated_at.0, |error| error.at.0)
}

/// Whether a job failed finally and was not redriven, so that it needs attention.
pub(super) fn is_open_failure(job: &Job) -> bool {
    FAILED.contains(&job.state.0) && job.superseded_by.is_none()
}

/// Whether a job is suspended, so that it can be resumed.
pub(super) fn is_suspended(job: &Job) -> bool {
    JobAction::Resume.is_allowed_in(job.state.0)
}
