//! Tools that change something. Unless `dry_run` is false they only say what would happen.

use serde_json::{Map, Value, json};
use windlass_api::submission::Submission;

use super::Session;
use super::api::{Address, CallError};
use super::arguments::Arguments;
use super::read::FILTER;
use super::shown::{guard, summary};

/// Default number of jobs of a filter that a tool acts on.
const JOBS: u64 = 100;
/// Recorded if no reason is given, so that the audit trail shows that an agent asked for the change.
const REASON: &str = "requested over MCP";

fn is_dry(arguments: &Arguments) -> bool {
    arguments.flag("dry_run").unwrap_or(true)
}

fn reason(arguments: &Arguments) -> String {
    arguments.text("reason").unwrap_or_else(|| REASON.to_owned())
}

/// The answer of a dry run: the action, and the jobs or the queue that it would change.
fn would(action: &str, about: &Value) -> Value {
    json!({"dry_run": true, "would": action, "on": about, "to_act": "call again with dry_run: false"})
}

pub(super) async fn submit(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let fields =
        ["type", "queue", "payload", "priority", "delay", "idempotency_key", "correlation_id", "tenant"];
    let body = Value::Object(arguments.only(&fields));
    if is_dry(arguments) {
        let refused = |message: String| CallError::new("invalid_value", message);
        let submission: Submission =
            serde_json::from_value(body).map_err(|error| refused(error.to_string()))?;
        let queue = submission.queue.as_ref().map_or_else(|| "default".to_owned(), ToString::to_string);
        let job_type = submission.r#type.to_string();
        submission.into_job(None).map_err(|error| refused(error.to_string()))?;
        let queue = session.get(Address::new(&["queues", &queue])).await?;
        let job_type = session.get(Address::new(&["types", &job_type])).await?;
        let known = |of: &Value, name: &str| json!({"name": of[name], "known": of["known"], "similar": of["similar"], "paused": of["paused"]});
        return Ok(would(
            "submit",
            &json!({"queue": known(&queue, "name"), "type": known(&job_type, "type")}),
        ));
    }
    let job = session.post(Address::new(&["jobs"]), &body).await?;
    Ok(json!({"job": summary(&job), "duplicate": job["duplicate"]}))
}

pub(super) async fn signal(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let (id, name) = (arguments.need("id"), arguments.need("name"));
    if is_dry(arguments) {
        let job = session.get(Address::new(&["jobs", id])).await?;
        return Ok(would("signal", &summary(&job)));
    }
    let value = arguments.json("value").cloned().unwrap_or_default();
    session.post(Address::new(&["jobs", id, "signals", name]), &json!({"value": value})).await
}

/// Does an action on the job with the given `id`, or on the jobs that match the filter.
pub(super) async fn on_jobs(
    session: &Session<'_>,
    action: &str,
    arguments: &Arguments,
) -> Result<Value, CallError> {
    let filter = arguments.only(&FILTER);
    match (arguments.text("id"), filter.is_empty()) {
        (Some(_), false) => Err(CallError::new("invalid_value", "id: give an id or a filter, not both")),
        (Some(id), true) => on_job(session, action, &id, arguments).await,
        (None, true) => Err(CallError::new("invalid_value", "id: give an id or a filter")),
        (None, false) => {
            let bulk = bulk(action, &filter, arguments);
            let result = session.post(Address::new(&["jobs", "bulk"]), &bulk).await?;
            Ok(if is_dry(arguments) { would(action, &result) } else { result })
        }
    }
}

fn bulk(action: &str, filter: &Map<String, Value>, arguments: &Arguments) -> Value {
    let mut bulk = json!({
        "action": action,
        "filter": filter,
        "dry_run": is_dry(arguments),
        "reason": reason(arguments),
        "limit": arguments.number("limit").unwrap_or(JOBS),
    });
    if let Some(mode) = arguments.text("mode") {
        bulk["mode"] = mode.into();
    }
    bulk
}

async fn on_job(
    session: &Session<'_>,
    action: &str,
    id: &str,
    arguments: &Arguments,
) -> Result<Value, CallError> {
    if is_dry(arguments) {
        let job = session.get(Address::new(&["jobs", id])).await?;
        return Ok(would(action, &summary(&job)));
    }
    let mut body = match action {
        // An agent that repeats itself must not run a job twice.
        "redrive" => json!({"only_once": true}),
        _ => json!({"reason": reason(arguments)}),
    };
    if let Some(mode) = arguments.text("mode") {
        body["mode"] = mode.into();
    }
    let job = session.post(Address::new(&["jobs", id, action]), &body).await?;
    Ok(json!({"job": summary(&job), "changed": job["changed"]}))
}

pub(super) async fn on_queue(
    session: &Session<'_>,
    action: &str,
    arguments: &Arguments,
) -> Result<Value, CallError> {
    let name = arguments.need("queue");
    let summary = |queue: &Value| {
        json!({"name": queue["name"], "known": queue["known"], "similar": queue["similar"],
        "depth": queue["depth"], "paused": queue["paused"]})
    };
    if is_dry(arguments) {
        let queue = session.get(Address::new(&["queues", name])).await?;
        return Ok(would(action, &summary(&queue)));
    }
    let mut body = arguments.only(&["mode", "expires"]);
    body.insert("reason".to_owned(), reason(arguments).into());
    let queue = session.post(Address::new(&["queues", name, action]), &body.into()).await?;
    Ok(json!({"queue": summary(&queue), "changed": queue["changed"]}))
}

pub(super) async fn trigger(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let name = arguments.need("schedule");
    if is_dry(arguments) {
        let mut schedule = session.get(Address::new(&["schedules", name])).await?;
        guard(&mut schedule, false);
        return Ok(would("trigger", &schedule));
    }
    let job = session.post(Address::new(&["schedules", name, "trigger"]), &json!({})).await?;
    Ok(json!({"job": summary(&job)}))
}
