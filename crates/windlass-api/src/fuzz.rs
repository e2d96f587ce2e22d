//! Fuzzing of the requests of the HTTP API: no body panics, a body that is taken is sent by a client as the server reads it,
//! and its conversion into the rules' types refuses with the name of a field.

use std::fmt::Display;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::error::FieldError;
use windlass_fuzz::Family;

use crate::actions::{
    BulkBody, EmptyBody, PatchBody, PriorityBody, ReasonBody, RedriveBody, SignalBody, SuspendBody,
};
use crate::claim::{
    AttemptWrites, CheckpointBody, CheckpointsBody, ClaimBody, HeartbeatBody, JobWritesBody, WorkerBody,
};
use crate::filter::{JobFilter, ListQuery};
use crate::job_details::TokenBody;
use crate::key::KeyBody;
use crate::outcome::{ChildrenBody, OutcomeBody, OutcomesBody, ParkBody};
use crate::pause::{OfflineBody, OnlineBody, PauseBody};
use crate::queue::ResumeBody;
use crate::retention::RetentionBody;
use crate::schedule::{ScheduleBody, SchedulePauseBody};
use crate::settings::{QueueBody, TenantBody, TypeBody};
use crate::stats::history::HistoryQuery;
use crate::submission::{Batch, Submission};

mod values;

/// Longest message of a refusal, which may repeat part of the request.
const MESSAGE_CHARS_MAX: usize = 1_000;

fn refused(problem: &impl Display) -> Result<(), String> {
    let length = problem.to_string().chars().count();
    if (1..=MESSAGE_CHARS_MAX).contains(&length) {
        return Ok(());
    }
    Err(format!("the refusal has {length} characters: {:.200}", problem.to_string()))
}

/// A refusal names a field by its dotted path.
fn named<T>(outcome: Result<T, FieldError>) -> Result<Option<T>, String> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(problem) if problem.field.is_empty() => Err(format!("the refusal names no field: {problem}")),
        Err(problem) => refused(&problem).map(|()| None),
    }
}

/// What is read is written so that it is read as the same.
fn sent<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Result<Option<T>, String> {
    let Ok(read) = serde_json::from_slice::<T>(bytes) else { return Ok(None) };
    let written = serde_json::to_string(&read).map_err(|problem| format!("cannot be written: {problem}"))?;
    let again: T = serde_json::from_str(&written)
        .map_err(|problem| format!("{written} cannot be read again: {problem}"))?;
    let again = serde_json::to_string(&again).map_err(|problem| problem.to_string())?;
    if written == again { Ok(Some(read)) } else { Err(format!("{written} is read as {again}")) }
}

fn jobs(bytes: &[u8]) -> Result<(), String> {
    if let Some(submission) = sent::<Submission>(bytes)?
        && let Some(job) = named(submission.into_job(None))?
    {
        named(job.check())?;
        // A client sends the job as it would be submitted here.
        let again = named(Submission::from(&job).into_job(None))?;
        if again.as_ref() != Some(&job) {
            return Err(format!("{job:?} is sent as {again:?}"));
        }
    }
    sent::<Batch>(bytes)?;
    sent::<SuspendBody>(bytes)?;
    sent::<ReasonBody>(bytes)?;
    sent::<PriorityBody>(bytes)?;
    sent::<PatchBody>(bytes)?;
    sent::<RedriveBody>(bytes)?;
    sent::<SignalBody>(bytes)?;
    sent::<BulkBody>(bytes)?;
    sent::<TokenBody>(bytes)?;
    sent::<EmptyBody>(bytes)?;
    sent::<JobFilter>(bytes).map(drop)
}

fn work(bytes: &[u8]) -> Result<(), String> {
    sent::<WorkerBody>(bytes)?;
    sent::<ClaimBody>(bytes)?;
    sent::<HeartbeatBody>(bytes)?;
    sent::<CheckpointBody>(bytes)?;
    sent::<AttemptWrites>(bytes)?;
    if let Some(body) = sent::<CheckpointsBody>(bytes)? {
        for job in body.jobs {
            sent::<JobWritesBody>(job.bytes())?;
        }
    }
    sent::<ParkBody>(bytes)?;
    sent::<ChildrenBody>(bytes)?;
    sent::<OutcomeBody>(bytes)?;
    if let Some(body) = sent::<OutcomesBody>(bytes)? {
        for outcome in body.outcomes {
            sent::<OutcomeBody>(outcome.bytes())?;
        }
    }
    Ok(())
}

fn operations(bytes: &[u8]) -> Result<(), String> {
    sent::<KeyBody>(bytes)?;
    sent::<PauseBody>(bytes)?;
    sent::<OfflineBody>(bytes)?;
    sent::<OnlineBody>(bytes)?;
    sent::<ResumeBody>(bytes)?;
    sent::<ScheduleBody>(bytes)?;
    sent::<SchedulePauseBody>(bytes)?;
    sent::<QueueBody>(bytes)?;
    sent::<TypeBody>(bytes)?;
    sent::<TenantBody>(bytes)?;
    sent::<RetentionBody>(bytes).map(drop)
}

const WORDS: [&str; 16] = [
    "\"5m\"",
    "\"retry\":",
    "\"jobs\":[",
    "null",
    "[null]",
    "1.5",
    "\"after\":[\"@\"]",
    "\"payload\":",
    "\"priority\":",
    "\"expires\":",
    "\"any\":[{",
    "\"tags\":{\"\":\"\"}",
    "\"9999-12-31T23:59:60Z\"",
    "\"type\":\"x\",",
    "\\ud800",
    "1e400",
];

#[test]
fn a_body_that_is_taken_is_sent_as_it_was_read() {
    Family::new("bodies").words(WORDS).cases(4_000).bytes(|bytes| {
        jobs(bytes)?;
        work(bytes)?;
        operations(bytes)
    });
}

#[test]
fn a_query_that_is_taken_is_sent_as_it_was_read() {
    let words = ["state=", ",", "&limit=", "=", "%", "+", "&tag=a:b", "%2C", "&payload=true", "&order="];
    Family::new("queries").words(words).text(|text| {
        sent_query::<ListQuery>(text)?;
        sent_query::<HistoryQuery>(text)
    });
}

fn sent_query<T: Serialize + DeserializeOwned>(text: &str) -> Result<(), String> {
    let read: T = match serde_urlencoded::from_str(text) {
        Ok(read) => read,
        Err(problem) => return refused(&problem),
    };
    let written =
        serde_urlencoded::to_string(&read).map_err(|problem| format!("cannot be sent: {problem}"))?;
    let again: T =
        serde_urlencoded::from_str(&written).map_err(|problem| format!("{written} is refused: {problem}"))?;
    let again = serde_urlencoded::to_string(&again).map_err(|problem| problem.to_string())?;
    if written == again { Ok(()) } else { Err(format!("{written} is read as {again}")) }
}
