//! Tools that read and change nothing.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Session;
use super::api::{Address, CallError};
use super::arguments::Arguments;
use super::shown::{counted, guard, summary, untrusted};
use crate::guides;

/// Default number of jobs in a list, events and log lines.
const PAGE: u64 = 20;
/// Parameters of `GET /jobs` that are passed on.
pub(super) const FILTER: [&str; 9] =
    ["state", "type", "queue", "tag", "correlation_id", "owner", "created_after", "created_before", "tenant"];
/// Fields of a queue in answers.
const QUEUE: [&str; 10] =
    ["name", "known", "similar", "depth", "oldest_age", "paused", "max_running", "max_depth", "rate", "push"];

/// The object with only these fields; fields that are null are left out.
fn keep(from: &Value, names: &[&str]) -> Value {
    let kept =
        |name: &&str| Some(((*name).to_owned(), from.get(*name).filter(|value| !value.is_null())?.clone()));
    names.iter().filter_map(kept).collect::<Map<_, _>>().into()
}

fn parameters<'a>(arguments: &Arguments, names: &[&'a str]) -> Vec<(&'a str, Option<String>)> {
    names.iter().map(|name| (*name, arguments.text(name))).collect()
}

/// A page of a list.
fn paged<'a>(arguments: &Arguments, names: &[&'a str]) -> Vec<(&'a str, Option<String>)> {
    let mut query = parameters(arguments, names);
    query.push(("limit", Some(arguments.number("limit").unwrap_or(PAGE).to_string())));
    query.push(("cursor", arguments.text("cursor")));
    query
}

pub(super) async fn overview(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let stats = match arguments.text("tenant") {
        None => session.get(Address::new(&["stats"])).await?,
        Some(tenant) => {
            let whole = session.get(Address::new(&["tenants", &tenant])).await?;
            return Ok(keep(
                &whole,
                &["tenant", "known", "similar", "depth", "paused", "cost_cents", "budget_cents"],
            ));
        }
    };
    let processing = session.get(Address::new(&["gate"])).await?;
    let mut hour: BTreeMap<&str, u64> = BTreeMap::new();
    for minute in stats["minutes"].as_array().into_iter().flatten() {
        for name in ["submitted", "completed", "failed", "retried", "dead_letter"] {
            *hour.entry(name).or_default() += minute[name].as_u64().unwrap_or(0);
        }
    }
    Ok(json!({
        "states": counted(&stats["states"]),
        "queues": counted(&stats["queues"]),
        "unresolved": stats["unresolved"],
        "last_hour": hour,
        "processing": processing,
    }))
}

pub(super) async fn list_jobs(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let page = session.get(Address::new(&["jobs"]).query(paged(arguments, &FILTER))).await?;
    let jobs: Vec<Value> = page["jobs"].as_array().into_iter().flatten().map(summary).collect();
    Ok(json!({"jobs": jobs, "next_cursor": page["next_cursor"]}))
}

pub(super) async fn show_job(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let id = arguments.need("id");
    let has_data = arguments.flag("include_payload").unwrap_or(false);
    let with_payload = [("payload", has_data.then(|| "true".to_owned()))];
    let mut job = session.get(Address::new(&["jobs", id]).query(with_payload)).await?;
    guard(&mut job, has_data);
    let attempts = session.get(Address::new(&["jobs", id, "attempts"])).await?;
    let last = [("limit", Some("1000".to_owned()))];
    let events = session.get(Address::new(&["jobs", id, "events"]).query(last)).await?;
    let mut answer =
        json!({"job": job, "attempts": tail(&attempts["attempts"]), "events": tail(&events["events"])});
    if has_data {
        let logs = session.get(Address::new(&["jobs", id, "logs"])).await?;
        answer["logs"] = untrusted(&tail(&logs["logs"]));
    }
    Ok(answer)
}

/// The last items of a list.
fn tail(items: &Value) -> Value {
    let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
    let most = usize::try_from(PAGE).unwrap_or(usize::MAX);
    items[items.len().saturating_sub(most)..].to_vec().into()
}

pub(super) async fn explain_job(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let id = arguments.need("id");
    let job = session.get(Address::new(&["jobs", id])).await?;
    let reasons = session.get(Address::new(&["jobs", id, "explain"])).await?;
    Ok(json!({"job": summary(&job), "reasons": reasons["reasons"]}))
}

pub(super) async fn queue_health(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let health = |queue: &Value| {
        let mut summary = keep(queue, &QUEUE);
        summary["depth"] = counted(&queue["depth"]);
        summary["last_hour"] = queue["rates"]["last_hour"].clone();
        summary
    };
    if let Some(name) = arguments.text("queue") {
        return Ok(health(&session.get(Address::new(&["queues", &name])).await?));
    }
    let most = [("limit", Some("50".to_owned()))];
    let page = session.get(Address::new(&["queues"]).query(most)).await?;
    let queues: Vec<Value> = page["queues"].as_array().into_iter().flatten().map(health).collect();
    Ok(json!({"queues": queues, "has_more": !page["next_cursor"].is_null()}))
}

/// Failures of one type with the same error.
#[derive(Default)]
struct Group {
    count: u64,
    newest: Value,
}

pub(super) async fn dead_letters(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let mut query = parameters(arguments, &["queue", "type", "tenant"]);
    query.extend([
        ("state", Some("dead_letter,failed".to_owned())),
        ("redriven", Some("false".to_owned())),
        ("limit", Some("500".to_owned())),
    ]);
    let page = session.get(Address::new(&["jobs"]).query(query)).await?;
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for job in page["jobs"].as_array().into_iter().flatten() {
        let error = &job["error"];
        // Numbers and ids in a message differ from job to job.
        let message = windlass::job::error_pattern(error["message"].as_str().unwrap_or_default());
        let group = groups
            .entry(format!("{} {} {} {message}", job["type"], error["category"], error["code"]))
            .or_default();
        if group.count == 0 {
            group.newest = summary(job);
        }
        group.count += 1;
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    let summary = |group: Group| json!({"count": group.count, "type": group.newest["type"], "error": group.newest["error"], "newest": group.newest});
    let groups: Vec<Value> = groups.into_iter().map(summary).collect();
    Ok(json!({"groups": groups, "has_more": !page["next_cursor"].is_null()}))
}

pub(super) async fn schedules(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let mut page = session.get(Address::new(&["schedules"]).query(paged(arguments, &[]))).await?;
    guard(&mut page, false);
    Ok(page)
}

pub(super) async fn audit(session: &Session<'_>, arguments: &Arguments) -> Result<Value, CallError> {
    let filter = ["job", "event", "actor", "queue", "type", "since", "until", "tenant"];
    session.get(Address::new(&["audit"]).query(paged(arguments, &filter))).await
}

/// Sections of the guides, and parts of the reference, that contain all words.
pub(super) fn documents(session: &Session<'_>, arguments: &Arguments) -> Value {
    let query = arguments.need("query");
    let mut found = session.app.documents().1.found(query);
    found["guides"] = guides::found(query).into();
    found
}
