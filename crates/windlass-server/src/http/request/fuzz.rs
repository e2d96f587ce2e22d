//! Fuzzing of bodies and queries as the server reads them: every refusal has a code, is short, and names a field that the
//! caller sent or left out.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use windlass_api::actions::{
    BulkBody, EmptyBody, PatchBody, PriorityBody, ReasonBody, RedriveBody, SignalBody, SuspendBody,
};
use windlass_api::claim::{
    AttemptWrites, CheckpointBody, CheckpointsBody, ClaimBody, HeartbeatBody, WorkerBody,
};
use windlass_api::filter::ListQuery;
use windlass_api::job_details::TokenBody;
use windlass_api::key::KeyBody;
use windlass_api::outcome::{ChildrenBody, OutcomesBody};
use windlass_api::pause::{OfflineBody, OnlineBody, PauseBody};
use windlass_api::queue::ResumeBody;
use windlass_api::retention::RetentionBody;
use windlass_api::schedule::{ScheduleBody, SchedulePauseBody};
use windlass_api::settings::{QueueBody, TenantBody, TypeBody};
use windlass_api::stats::history::HistoryQuery;
use windlass_api::submission::{Batch, Submission};
use windlass_fuzz::Family;

use crate::http::reply::error::ApiError;
use crate::http::request::{json, query};

/// Longest body of a refusal.
const REFUSAL_BYTES_MAX: usize = 3_000;

/// Whether the caller can find the field of a refusal: it was sent, or it is required.
fn is_named(field: &str, message: &str, sent: &Value) -> bool {
    let first = field.split('.').next().unwrap_or_default();
    match sent {
        // A name may be empty.
        _ if field.is_empty() => message.contains("field ``"),
        _ if message.contains("is required") || message.contains("nested deeper") => true,
        // A field name may contain dots.
        Value::Object(fields) => fields.keys().any(|key| key.split('.').next() == Some(first)),
        _ => field == "body",
    }
}

fn check(problem: &ApiError, sent: Option<&Value>) -> Result<(), String> {
    let body = serde_json::to_value(problem.body()).map_err(|problem| problem.to_string())?;
    let error = &body["error"];
    let (code, message) =
        (error["code"].as_str().unwrap_or_default(), error["message"].as_str().unwrap_or_default());
    let length = body.to_string().len();
    if length > REFUSAL_BYTES_MAX {
        return Err(format!("the refusal has {length} bytes"));
    }
    match (code, sent) {
        // A `Value` has no number out of range and no half of a surrogate pair, which JSON may have.
        ("not_json" | "invalid_value", None) => Ok(()),
        ("invalid_value", Some(sent)) => {
            let field = error["details"]["field"].as_str().unwrap_or_default();
            if is_named(field, message, sent) { Ok(()) } else { Err(format!("names `{field}`: {message}")) }
        }
        _ => Err(format!("{code}: {message}")),
    }
}

fn body<T: DeserializeOwned>(bytes: &[u8], sent: Option<&Value>) -> Result<(), String> {
    let Err(problem) = json::decode::<T>(bytes) else { return Ok(()) };
    let refused = problem.body().error;
    let is_json = sent.is_some() || serde_json::from_slice::<&RawValue>(bytes).is_ok();
    if (refused.code == "not_json") == is_json && !refused.message.contains("nested deeper") {
        return Err(format!("{}: {}", refused.code, refused.message));
    }
    check(&problem, sent)
}

#[test]
fn a_refused_body_names_a_field() {
    let words = [
        "\"x\":1,",
        "null",
        "[[[[[[",
        "\"jobs\":[",
        "\"jobs.0\":",
        "1e999",
        "\"\":",
        "\\ud800",
        "-1",
        "\"type\":\"a\",",
    ];
    Family::new("bodies").words(words).cases(3_000).bytes(|bytes| {
        let is_blank = bytes.iter().all(u8::is_ascii_whitespace);
        let sent = if is_blank { Some(serde_json::json!({})) } else { serde_json::from_slice(bytes).ok() };
        let sent = sent.as_ref();
        body::<Submission>(bytes, sent)?;
        body::<Batch>(bytes, sent)?;
        body::<SuspendBody>(bytes, sent)?;
        body::<ReasonBody>(bytes, sent)?;
        body::<PriorityBody>(bytes, sent)?;
        body::<PatchBody>(bytes, sent)?;
        body::<RedriveBody>(bytes, sent)?;
        body::<SignalBody>(bytes, sent)?;
        body::<BulkBody>(bytes, sent)?;
        body::<TokenBody>(bytes, sent)?;
        body::<EmptyBody>(bytes, sent)?;
        body::<WorkerBody>(bytes, sent)?;
        body::<ClaimBody>(bytes, sent)?;
        body::<HeartbeatBody>(bytes, sent)?;
        body::<CheckpointBody>(bytes, sent)?;
        body::<AttemptWrites>(bytes, sent)?;
        body::<CheckpointsBody>(bytes, sent)?;
        body::<OutcomesBody>(bytes, sent)?;
        body::<ChildrenBody>(bytes, sent)?;
        body::<KeyBody>(bytes, sent)?;
        body::<PauseBody>(bytes, sent)?;
        body::<OfflineBody>(bytes, sent)?;
        body::<OnlineBody>(bytes, sent)?;
        body::<ResumeBody>(bytes, sent)?;
        body::<ScheduleBody>(bytes, sent)?;
        body::<SchedulePauseBody>(bytes, sent)?;
        body::<QueueBody>(bytes, sent)?;
        body::<TypeBody>(bytes, sent)?;
        body::<TenantBody>(bytes, sent)?;
        body::<RetentionBody>(bytes, sent)
    });
}

#[test]
fn a_refused_query_names_a_parameter() {
    let words = [
        "state=",
        ",",
        "&limit=",
        "=",
        "%",
        "+",
        "&tag=a:b",
        "%2C",
        "&payload=maybe",
        "&order=",
        "&limit=1&limit=2",
    ];
    Family::new("queries").words(words).text(|text| {
        let given: Value = form_urlencoded::parse(text.as_bytes())
            .map(|(name, value)| (name.into_owned(), Value::from(value)))
            .collect();
        for refused in [query::decode::<ListQuery>(text).err(), query::decode::<HistoryQuery>(text).err()] {
            refused.map_or(Ok(()), |problem| check(&problem, Some(&given)))?;
        }
        Ok(())
    });
}
