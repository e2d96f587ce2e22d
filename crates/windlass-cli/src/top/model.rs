//! The server's answers as the screen shows them: the API's types. Text is escaped while it is read, so that it cannot move
//! the cursor or hide other text.

use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::clock::Timestamp;
use windlass::job::{JobAction, JobState};
use windlass_api::job::Job;

use crate::output::escaped;

/// States of jobs that are listed as failures.
pub(super) const FAILURES: [JobState; 3] = [JobState::Failed, JobState::DeadLetter, JobState::Retrying];
/// States of jobs that failed finally.
pub(super) const FAILED: [JobState; 2] = [JobState::Failed, JobState::DeadLetter];

/// Reads an answer, or a part of one, as `T`, with control characters escaped in all of its texts.
pub(super) fn read<T: DeserializeOwned>(mut answer: Value) -> Result<T, serde_json::Error> {
    escape(&mut answer);
    serde_json::from_value(answer)
}

/// Escapes every text of a document; answers are not nested deeply, except for results, which are not shown.
fn escape(value: &mut Value) {
    match value {
        Value::String(text) => *text = escaped(text),
        Value::Array(items) => items.iter_mut().for_each(escape),
        Value::Object(fields) => {
            fields.remove("result");
            fields.values_mut().for_each(escape);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// When a job last failed, or last changed if it never failed.
pub(super) fn failed_at(job: &Job) -> Timestamp {
    job.error.as_ref().map_or(job.updated_at.0, |error| error.at.0)
}

/// Whether a job is suspended, so that it can be resumed.
pub(super) fn is_suspended(job: &Job) -> bool {
    JobAction::Resume.is_allowed_in(job.state.0)
}
