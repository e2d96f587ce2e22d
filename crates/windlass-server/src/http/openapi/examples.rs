//! Examples of fields and bodies. An enumeration, a time, a duration or an id is its own example; texts, numbers and free JSON
//! are here, by the name of the field. A test fails for a field without one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::schemas::PREFIX;

/// Ids of the objects that the examples are about.
const JOB: &str = "0199ad3b-6f0a-7c41-8f7d-52c0e8a1d9b3";
const WORKER: &str = "0199ad3b-5ff6-7d0e-9c86-3b0a4c6a2f11";

/// Fields that have no value in a whole example, because they exclude each other: the example is a job that has completed.
const ABSENT: [&str; 40] = [
    "Alert.last_delivery",
    "Alert.longer_than",
    "Alert.min_attempts",
    "Alert.paused",
    "Alert.repeat_interval",
    "Alert.turning_since",
    "Alert.type",
    "Attempt.error",
    "Attempt.previous_attempt_id",
    "Child.error",
    "ChildGroup.decided",
    "Clock.lifetimes_wait_until",
    "Clock.not_believed_since",
    "Job.callback_url",
    "Job.error",
    "Job.lease",
    "Job.parent",
    "Job.priority_updated_at",
    "Job.progress",
    "Job.resumed_at",
    "Job.retry_of",
    "Job.superseded_by",
    "Job.suspend_requested",
    "Job.suspended_at",
    "Job.suspended_by",
    "Job.suspension",
    "Job.unique_key",
    "Job.concurrency_key",
    "Job.why",
    "JobResult.error",
    "JobType.paused",
    "AuditRecord.alias_of",
    "Queue.paused",
    "Queue.push",
    "Queue.resumed",
    "Schedule.at",
    "Schedule.deleted_at",
    "Schedule.deleted_by",
    "Schedule.every",
    "Schedule.paused",
];

/// Examples by the name of a field, or by `Schema.field` where the name has several meanings.
fn table() -> &'static BTreeMap<&'static str, Value> {
    static TABLE: OnceLock<BTreeMap<&'static str, Value>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let texts = TEXTS.iter().map(|(name, text)| (*name, Value::from(*text)));
        texts.chain(values()).collect()
    })
}

/// Texts.
#[rustfmt::skip]
const TEXTS: &[(&str, &str)] = &[
    ("alert", "mail-dead"), ("Alert.name", "mail-dead"), ("Alert.value", "12"),
    ("Alert.description", "more than 10 dead letters within 10m in queue mail of tenant acme"),
    ("Alert.url", "https://example.com/alerts"), ("AlertRequest.url", "https://example.com/alerts"),
    ("actor", "shop"), ("Actor.id", "shop"), ("Actor.type", "user"), ("actor_id", "shop"),
    ("after", "0199ad3b-6f0a-7c41-8f7d-52c0e8a1d9b3"), ("after_any", "0199ad3b-6f0a-7c41-8f7d-52c0e8a1d9b3"),
    ("alias_of", "job.lifecycle.completed"), ("attempt_id", "0199ad3b-6f0a-7c41-8f7d-52c0e8a1d9b3.1"),
    ("baggage", "customer=7"), ("by", "ada"), ("callback_url", "https://example.com/done"), ("code", "smtp_421"),
    ("concurrency_key", "customer-7"), ("content_type", "application/json"), ("correlation_id", "order-7"),
    ("created_by", "ada"), ("deleted_by", "ada"), ("from_step", "charge"), ("token", "wlj_TOKEN"), ("cron", "0 7 * * MON-FRI"), ("cursor", "eyJhZnRlciI6MTAwfQ"), ("decided", "well"),
    ("directive", "continue"), ("error_type", "RETRYABLE"), ("event", "job.lifecycle.completed"),
    ("exhausted_event", "order.lost"), ("hash", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
    ("head", "1042:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"), ("id_prefix", "0199ad3b"),
    ("idempotency_key", "welcome-7"), ("Key.id", "3f9a0c5d7e8b1a24"), ("CreatedKey.id", "3f9a0c5d7e8b1a24"),
    ("key", "customer-7"), ("last_event_id", "1042"), ("logs", "seat 12 reserved"),
    ("message", "the mail server is busy"), ("mode", "graceful"), ("name", "mailer-1"),
    ("ChildGroup.name", "children"), ("ChildrenRequest.name", "pages"), ("Job.name", "charge"),
    ("Submission.name", "charge"), ("Key.name", "shop"), ("CreatedKey.name", "shop"), ("KeyRequest.name", "shop"),
    ("Queue.name", "mail"), ("Schedule.name", "daily-report"), ("need", "after"),
    ("next_cursor", "eyJhZnRlciI6MTAwfQ"), ("outcome", "completed"), ("owner", "shop"),
    ("payload_base64", "aGVsbG8="), ("preset", "backoff"),
    ("previous_attempt_id", "0199ad3b-6f0a-7c41-8f7d-52c0e8a1d9b3.0"), ("queue", "mail"), ("queues", "mail"),
    ("reason", "maintenance"), ("Reason.code", "queue_paused"), ("Reason.message", "the queue is paused"),
    ("retried_until", "2030-01-31T13:00:00.000Z"), ("schedule", "daily-report"),
    ("secret", "wl_3f9a0c5d7e8b1a24_SECRET"), ("severity", "info"), ("signal", "paid"),
    ("signed_by", "b5bb9d8014a0f9b1d61e21e796d78dcc"), ("similar", "mails"), ("status", "applied"),
    ("step", "reserve"), ("success_event", "order.shipped"), ("suspended_by", "ada"), ("tag", "customer:7"),
    ("tags", "7"), ("tenant", "acme"), ("text", "seat 12 reserved"), ("timezone", "Europe/Berlin"),
    ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"), ("tracestate", "vendor=1"),
    ("trace_id", "0af7651916cd43dd8448eb211c80319c"), ("type", "email.send"), ("types", "email.send"),
    ("unique_key", "order-7"), ("updated_by", "ada"), ("url", "https://example.com/jobs"), ("version", "3"),
    ("If-Match", "\"3.5d41402a\""), ("If-None-Match", "\"3.5d41402a\""), ("Worker.version", "1.4.2"),
    ("WorkerRequest.version", "1.4.2"), ("requires_version", "1.4.2"), ("ErrorDetails.message", "no such job"),
    ("accept", "application/openmetrics-text"), ("state", "completed"), ("Job.state", "completed"),
    ("Child.state", "completed"), ("JobResult.state", "completed"), ("Parent.state", "waiting"),
    ("OutcomeResult.state", "completed"), ("role", "operator"), ("group", "children"), ("q", "cancel"),
    ("Cause", "connection refused"), ("cause", "connection refused"),
];

/// Numbers, flags and objects.
#[rustfmt::skip]
fn values() -> Vec<(&'static str, Value)> {
    let counts = json!({"scheduled": 12, "running": 3, "completed": 4180});
    vec![
        ("more_than", json!(10)), ("min_attempts", json!(10)), ("Alert.state", json!("firing")),
        ("budget_cents", json!(100_000)), ("concurrency", json!(10)), ("context", json!({"attempt": 1})),
        ("cost_cents", json!(12)), ("count", json!(100)), ("depth", counts.clone()), ("states", counts.clone()),
        ("details", json!({"id": JOB})), ("id", json!(JOB)), ("failures", json!(0)), ("crashes", json!(0)),
        ("retry_count", json!(0)), ("jitter", json!(0.2)), ("limit", json!(100)), ("max_attempts", json!(3)),
        ("max_retries", json!(2)), ("max_running", json!(20)), ("multiplier", json!(2.0)), ("protocol", json!(1)),
        ("payload", json!({"to": "ada@example.com"})), ("ListJobs.payload", json!(true)), ("percent", json!(40.0)),
        ("priority", json!(50)), ("effective_priority", json!(50)), ("result", json!({"message_id": "m-7"})),
        ("payload_schema", json!({"type": "object", "required": ["to"]})), ("result_schema", json!({"type": "object"})),
        ("seq", json!(1042)), ("ticket", json!({"job": JOB})), ("value", json!({"seat": 12})),
        ("worker", json!(WORKER)), ("worker_id", json!(WORKER)), ("Worker.id", json!(WORKER)),
        ("Stats.queues", json!({"mail": counts})), ("Stats.types", json!({"email.send": counts})),
        ("Stats.tenants", json!({"acme": counts})), ("LeftOut.queues", json!(20)), ("LeftOut.types", json!(0)),
        ("Job.tags", json!({"customer": "7"})), ("alive", json!(true)), ("believed", json!(true)),
        ("changed", json!(true)), ("chunk", json!("Once upon")), ("BulkResult.changed", json!(12)), ("matched", json!(14)),
        ("complete", json!(true)), ("heartbeats", json!(true)), ("known", json!(true)), ("online", json!(true)),
        ("difference_ms", json!(0)), ("Job.after", json!([])), ("Job.after_any", json!([])),
        ("Job.expires_at", json!("2030-02-07T12:00:00.000Z")), ("EffectiveTimeouts.execution", json!("5m")),
        ("EffectiveTimeouts.lifetime", json!("7d")), ("EffectiveRetry.strategy", json!("exponential")),
        ("EffectiveRetry.max_delay", json!("1h")),
        ("EffectiveRetry.retry_on", json!(["temporary", "timeout", "system"])),
    ]
}

/// An example of the field `name` of `owner`.
pub(super) fn field(owner: &str, name: &str, schema: &Value, schemas: &Map<String, Value>) -> Option<Value> {
    Finder { schemas, open: BTreeSet::new() }.field(owner, name, schema)
}

/// An example of a whole response.
pub(super) fn response(schema: &Value, schemas: &Map<String, Value>) -> Option<Value> {
    Finder { schemas, open: BTreeSet::new() }.value("", "", schema)
}

struct Finder<'a> {
    schemas: &'a Map<String, Value>,
    /// Schemas that are being put together, so that one that contains itself ends.
    open: BTreeSet<String>,
}

impl Finder<'_> {
    fn field(&mut self, owner: &str, name: &str, schema: &Value) -> Option<Value> {
        let listed = table().get(format!("{owner}.{name}").as_str());
        let is_list = type_of(schema) == Some("array");
        let is_free =
            type_of(schema).is_none() && schema.get("$ref").is_none() && schema.get("anyOf").is_none();
        match listed {
            Some(example) if !is_list || example.is_array() => Some(example.clone()),
            _ => {
                let own = self.value(owner, name, schema);
                if is_free && own.is_none() { table().get(name).cloned() } else { own }
            }
        }
    }

    fn value(&mut self, owner: &str, name: &str, schema: &Value) -> Option<Value> {
        if let Some(example) = schema["examples"].get(0) {
            return Some(example.clone());
        }
        if let Some(target) = schema["$ref"].as_str() {
            return self.referred(target.strip_prefix(PREFIX)?);
        }
        if let Some(first) =
            schema["enum"].as_array().and_then(|words| words.iter().find(|word| !word.is_null()))
        {
            return Some(first.clone());
        }
        if let Some(only) = schema.get("const") {
            return Some(only.clone());
        }
        let alternatives = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        if let Some(alternatives) = alternatives {
            return alternatives
                .iter()
                .filter(|one| one["type"] != "null")
                .find_map(|one| self.value(owner, name, one));
        }
        let listed = || {
            let table = table();
            table.get(format!("{owner}.{name}").as_str()).or_else(|| table.get(name)).cloned()
        };
        match type_of(schema) {
            Some("object") => self.object(owner, name, schema),
            Some("array") => {
                let item = self.value(owner, name, &schema["items"]);
                Some(item.map_or_else(|| json!([]), |item| json!([item])))
            }
            Some("string") if schema["format"] == "uuid" => Some(listed().unwrap_or_else(|| json!(JOB))),
            Some("string") => listed().filter(Value::is_string),
            Some("boolean") => Some(listed().filter(Value::is_boolean).unwrap_or(json!(false))),
            Some("integer") => Some(listed().filter(Value::is_i64).unwrap_or(json!(1))),
            Some("number") => Some(listed().filter(Value::is_number).unwrap_or(json!(1.0))),
            _ => listed(),
        }
    }

    fn referred(&mut self, name: &str) -> Option<Value> {
        if !self.open.insert(name.to_owned()) {
            return None;
        }
        let found = self.schemas.get(name).and_then(|schema| self.value(name, "", schema));
        self.open.remove(name);
        found
    }

    /// The required fields, or the first if none is required.
    fn object(&mut self, owner: &str, name: &str, schema: &Value) -> Option<Value> {
        let Some(fields) = schema["properties"].as_object() else {
            let kind = &schema["additionalProperties"];
            let value = self.value(owner, name, kind)?;
            return Some(if kind.is_object() { json!({"customer": value}) } else { json!({}) });
        };
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let owner = if name.is_empty() { owner } else { name };
        let mut whole = Map::new();
        for (name, field) in fields {
            let is_only = required.is_empty() && whole.is_empty();
            if !is_only && !required.contains(&name.as_str()) {
                continue;
            }
            let is_absent = ABSENT.contains(&format!("{owner}.{name}").as_str());
            let example = if is_absent { None } else { self.field(owner, name, field) };
            whole.insert(name.clone(), example.unwrap_or(Value::Null));
        }
        Some(Value::Object(whole))
    }
}

/// The type of a schema, apart from null.
fn type_of(schema: &Value) -> Option<&str> {
    match &schema["type"] {
        Value::String(name) => Some(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
        _ => None,
    }
}
