//! The audit trail, newest first, with filters.

use std::time::Duration;

use askama::Template;
use axum::response::Response;
use serde_json::Value;
use windlass::audit::{AuditEvent, Record};
use windlass::clock::Timestamp;
use windlass::job::{JobType, QueueName, Tenant};
use windlass::store::Config;
use windlass::store::engine::RecordQuery;

use crate::dashboard::page::{Layout, PageError, show};
use crate::dashboard::parts::components::{JobLink, SeverityMark};
use crate::dashboard::parts::filter;
use crate::dashboard::parts::format::{self, Moment, line, span, worker_name};
use crate::dashboard::requests::context::PageContext;
use crate::dashboard::requests::form::{Fields, address};

/// A record as a table row.
pub(in crate::dashboard) struct RecordRow {
    pub(in crate::dashboard) seq: u64,
    pub(in crate::dashboard) name: String,
    pub(in crate::dashboard) severity: SeverityMark,
    pub(in crate::dashboard) at: Moment,
    pub(in crate::dashboard) actor: String,
    /// The actor's display name.
    pub(in crate::dashboard) actor_short: String,
    pub(in crate::dashboard) actor_kind: String,
    pub(in crate::dashboard) tenant: String,
    pub(in crate::dashboard) job: Option<JobLink>,
    /// The record's context, without data of other columns.
    pub(in crate::dashboard) context: String,
}

impl RecordRow {
    pub(in crate::dashboard) fn new(record: &Record, now: Timestamp) -> RecordRow {
        RecordRow {
            seq: record.seq,
            name: record.name().to_owned(),
            severity: SeverityMark(record.event.severity()),
            at: Moment::new(record.at, now),
            actor_short: if record.actor_type == "worker" {
                record.actor_id.get(24..).unwrap_or(&record.actor_id).to_owned()
            } else {
                record.actor_id.clone()
            },
            actor: record.actor_id.clone(),
            actor_kind: record.actor_type.clone(),
            tenant: record.tenant.to_string(),
            job: record.job.map(JobLink),
            context: context(&record.context),
        }
    }
}

impl RecordRow {
    /// Replaces the id of a worker by its name.
    pub(in crate::dashboard) fn naming(self, config: &Config) -> RecordRow {
        let name = worker_name(config, &self.actor);
        if self.actor_kind == "worker" { RecordRow { actor_short: name, ..self } } else { self }
    }
}

/// The context as `name value` pairs, the reason first.
fn context(json: &str) -> String {
    let parsed: Result<Value, _> = serde_json::from_str(json);
    let Ok(Value::Object(fields)) = parsed else { return line(json, 300) };
    let mut parts = Vec::new();
    let is_reason = |name: &str| name == "reason";
    let reason = fields.iter().filter(|(name, _)| is_reason(name));
    for (name, value) in reason.chain(fields.iter().filter(|(name, _)| !is_reason(name))) {
        if !["job_id", "actor_id"].contains(&name.as_str()) {
            describe_field(name, value, &mut parts);
        }
    }
    line(&parts.join(" · "), 300)
}

/// Adds a value with its name; nested values by their own names; skips values that are not set.
fn describe_field(name: &str, value: &Value, parts: &mut Vec<String>) {
    match value {
        Value::Null => {}
        Value::Object(fields) => match (fields.get("secs").and_then(Value::as_u64), fields.len()) {
            (Some(seconds), 2) => parts.push(format!("{name} {}", span(Duration::from_secs(seconds)))),
            _ => fields.iter().for_each(|(name, value)| describe_field(name, value, parts)),
        },
        Value::String(text) => parts.push(format!("{} {text}", name.replace('_', " "))),
        other => parts.push(format!("{} {other}", name.replace('_', " "))),
    }
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    layout: Layout,
    rows: Vec<RecordRow>,
    events: Vec<&'static str>,
    event: String,
    actor: String,
    job: String,
    tenant: String,
    queue: String,
    job_type: String,
    since: String,
    until: String,
    /// Predefined views: name, link, whether it is the current one.
    views: Vec<(&'static str, String, bool)>,
    /// Whether there is a filter besides a view.
    is_filtered: bool,
    next: Option<String>,
    first: Option<String>,
    show_tenant: bool,
}

const NAMES: [&str; 9] = ["by", "event", "actor", "job", "tenant", "queue", "type", "since", "until"];
/// The predefined views with their filters.
const VIEWS: [(&str, &[(&str, &str)]); 4] = [
    ("Everything", &[]),
    ("By people", &[("by", "people")]),
    ("Failed permanently", &[("event", "job.lifecycle.failed")]),
    ("Retries exhausted", &[("event", "job.lifecycle.exhausted")]),
];

/// `GET /audit`
pub(in crate::dashboard) async fn page(context: PageContext) -> Result<Response, PageError> {
    let PageContext { board, visitor, query, config } = &context;
    let before: Option<u64> = query.get("before").and_then(|text| text.parse().ok());
    let wanted = wanted(query)?;
    let found = board.0.tail.page(board.store(), &visitor.caller, &wanted, before).await?;
    let pairs = || NAMES.into_iter().filter_map(|name| Some((name, query.text(name)?)));
    let now = board.now();
    let text = |name: &str| query.text(name).unwrap_or_default();
    let layout = context.layout("audit", "Audit trail");
    let asked: Vec<(&str, String)> = pairs().collect();
    let view = |(name, wanted): (&'static str, &[(&'static str, &str)])| {
        let is_this =
            asked.len() == wanted.len() && wanted.iter().all(|(name, value)| query.get(name) == Some(value));
        let wanted = wanted.iter().map(|(name, value)| (*name, (*value).to_owned()));
        (name, address("/audit", wanted), is_this)
    };
    let views: Vec<_> = VIEWS.into_iter().map(view).collect();
    let page = Audit {
        is_filtered: !views.iter().any(|(_, _, is_this)| *is_this),
        views,
        layout: if before.is_some() { Layout { live: String::new(), ..layout } } else { layout },
        rows: found.records.iter().map(|record| RecordRow::new(record, now).naming(config)).collect(),
        events: AuditEvent::ALL.iter().map(|event| event.as_str()).collect(),
        event: text("event"),
        actor: text("actor"),
        job: text("job"),
        tenant: text("tenant"),
        queue: text("queue"),
        job_type: text("type"),
        since: text("since"),
        until: text("until"),
        next: found.before.map(|before| address("/audit", pairs().chain([("before", before.to_string())]))),
        first: before.map(|_| address("/audit", pairs())),
        show_tenant: visitor.caller.tenant.is_none(),
    };
    show(&page)
}

fn wanted(query: &Fields) -> Result<RecordQuery, PageError> {
    let event = query.get("event").map(str::parse).transpose();
    let job = query.get("job").map(str::parse).transpose();
    let tenant = query.get("tenant").map(Tenant::new).transpose();
    let queue = query.get("queue").map(QueueName::new).transpose();
    let job_type = query.get("type").map(JobType::new).transpose();
    let moment = |name: &str| {
        let read = |text: &str| format::from_local(text).map_or_else(|| filter::moment(name, text), Ok);
        query.get(name).map(read).transpose()
    };
    let actor_type = match query.get("by") {
        Some("people") => Some("user".to_owned()),
        Some(_) => return Err(PageError::invalid("by: must be `people` or empty")),
        None => None,
    };
    Ok(RecordQuery {
        actor_type,
        since: moment("since")?,
        until: moment("until")?,
        event: event.map_err(|problem| PageError::invalid(format!("event: {problem}")))?,
        job: job.map_err(|_| PageError::invalid("job: is not a job id"))?,
        tenant: tenant.map_err(|problem| PageError::invalid(format!("tenant: {problem}")))?,
        queue: queue.map_err(|problem| PageError::invalid(format!("queue: {problem}")))?,
        job_type: job_type.map_err(|problem| PageError::invalid(format!("type: {problem}")))?,
        actor: query.text("actor"),
        ..RecordQuery::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_described_with_its_reason_first() {
        let json = r#"{"next_at":null,"reason":"full","timing":{"cron":{"cron":"30 6 * * mon","timezone":"UTC"}},"job_id":"x"}"#;
        assert_eq!(context(json), "reason full · cron 30 6 * * mon · timezone UTC");
        assert_eq!(context(r#"{"every":{"secs":3600,"nanos":0},"is_new":true}"#), "every 1h · is new true");
        assert_eq!(context("no object"), "no object");
    }
}
