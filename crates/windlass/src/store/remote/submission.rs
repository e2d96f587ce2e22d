//! Submissions to a server.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::value::RawValue;

use super::text::{Moment, Span};
use crate::job::{
    Category, Dependency, JitterMode, JobType, NewJob, Payload, Priority, QueueName, RetryPolicy, Strategy,
    Tenant,
};

/// A job as it is submitted.
#[derive(Serialize)]
pub(super) struct Submission<'a> {
    r#type: &'a JobType,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<&'a str>,
    queue: &'a QueueName,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Priority>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<Moment>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hold: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idempotency_window: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrency_key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    debounce: Option<DebounceBody<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryBody<'a>>,
    #[serde(skip_serializing_if = "Timeouts::is_empty")]
    timeouts: Timeouts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after_any: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    tags: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a Tenant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
}

/// A complete retry policy.
#[derive(Serialize)]
pub(super) struct RetryBody<'a> {
    strategy: Strategy,
    initial_delay: Span,
    max_delay: Span,
    multiplier: f64,
    jitter: f64,
    jitter_mode: JitterMode,
    max_attempts: u32,
    retry_on: &'a [Category],
}

impl<'a> From<&'a RetryPolicy> for RetryBody<'a> {
    fn from(policy: &'a RetryPolicy) -> RetryBody<'a> {
        RetryBody {
            strategy: policy.strategy,
            initial_delay: Span(policy.initial_delay),
            max_delay: Span(policy.max_delay),
            multiplier: policy.multiplier,
            jitter: policy.jitter,
            jitter_mode: policy.jitter_mode,
            max_attempts: policy.max_attempts,
            retry_on: &policy.retry_on,
        }
    }
}

/// Time limits, each optional.
#[derive(Serialize)]
struct Timeouts {
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lifetime: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<Span>,
}

impl Timeouts {
    fn is_empty(&self) -> bool {
        let all = [self.execution, self.lease, self.lifetime, self.start];
        all.iter().all(Option::is_none)
    }
}

/// JSON as it is; anything else, and JSON with surrounding blanks that would be lost, in base64.
fn payload(payload: &Payload) -> (Option<&RawValue>, Option<String>, Option<&str>) {
    if &*payload.content_type == Payload::JSON
        && let Ok(json) = serde_json::from_slice::<&RawValue>(&payload.bytes)
        && json.get().len() == payload.bytes.len()
    {
        return (Some(json), None, None);
    }
    (None, Some(STANDARD.encode(&payload.bytes)), Some(&payload.content_type))
}

fn names(dependencies: &[Dependency]) -> Vec<String> {
    let name = |dependency: &Dependency| match dependency {
        Dependency::Job(id) => id.to_string(),
        Dependency::Named(name) => format!("@{name}"),
    };
    dependencies.iter().map(name).collect()
}

/// Debouncing options.
#[derive(Serialize)]
struct DebounceBody<'a> {
    key: &'a str,
    delay: Span,
}

impl<'a> From<&'a NewJob> for Submission<'a> {
    fn from(new: &'a NewJob) -> Submission<'a> {
        let (json, payload_base64, content_type) = payload(&new.payload);
        Submission {
            r#type: &new.job_type,
            payload: json,
            payload_base64,
            content_type,
            queue: &new.queue,
            priority: new.priority,
            delay: new.delay.map(Span),
            run_at: new.run_at.map(Moment),
            hold: new.hold,
            idempotency_key: new.idempotency_key.as_deref(),
            idempotency_window: new.idempotency_window.map(Span),
            unique_key: new.unique_key.as_deref(),
            concurrency_key: new.concurrency_key.as_deref(),
            debounce: new
                .debounce
                .as_ref()
                .map(|last| DebounceBody { key: &last.key, delay: Span(last.delay) }),
            retry: new.retry.as_ref().map(RetryBody::from),
            timeouts: Timeouts {
                execution: new.execution_timeout.map(Span),
                lease: new.lease_timeout.map(Span),
                lifetime: new.lifetime.map(Span),
                start: new.start_timeout.map(Span),
            },
            after: names(&new.after),
            after_any: names(&new.after_any),
            name: new.name.as_deref(),
            tags: &new.labels.tags,
            correlation_id: new.labels.correlation_id.as_deref(),
            callback_url: new.labels.callback_url.as_deref(),
            tenant: new.tenant.as_ref(),
            traceparent: new.traceparent.as_deref(),
        }
    }
}
