//! Job submissions in the API.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_core::error::FieldError;
use windlass_core::job::{
    Debounce, Dependency, JobMetadata, JobType, NewJob, QueueName, Tenant, TraceHeaders, WorkerVersion,
};
use windlass_core::skip_none;

use crate::json::Json;
use crate::priority::PriorityInput;
use crate::retry::{Retry, SomeTimeouts};
use crate::tags::Tags;
use crate::text::Text;
use crate::time::{Moment, Span};
use crate::{invalid, payload, shown};

/// A job to submit; fields that are not given follow its type, its queue and the server, in this order.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Job type: selects the handler.
    pub r#type: Text<JobType>,
    /// Payload: any JSON, stored and returned byte for byte.
    pub payload: Option<Json>,
    /// Payload as bytes in base64, instead of `payload`.
    pub payload_base64: Option<String>,
    /// Content type of `payload_base64`.
    pub content_type: Option<String>,
    /// Queue.
    pub queue: Option<Text<QueueName>>,
    /// Only workers that registered with exactly this `version` receive the job.
    pub requires_version: Option<Text<WorkerVersion>>,
    /// Priority.
    pub priority: Option<PriorityInput>,
    /// Delay before it runs.
    pub delay: Option<Span>,
    /// Earliest time to run.
    pub run_at: Option<Moment>,
    /// Keep it in `created` until it is submitted by id.
    pub hold: Option<bool>,
    /// A second submission with the same key within the window returns the same job.
    pub idempotency_key: Option<String>,
    /// How long the idempotency key applies.
    pub idempotency_window: Option<Span>,
    /// At most one unfinished job with this key at a time.
    pub unique_key: Option<String>,
    /// Key for concurrency limits across jobs.
    pub concurrency_key: Option<String>,
    /// Run only the last of several submissions with the same key.
    pub debounce: Option<Debouncing>,
    /// Retry policy.
    pub retry: Option<Retry>,
    /// Time limits.
    pub timeouts: Option<SomeTimeouts>,
    /// Jobs that must complete first: ids, or `@name` for one of the same batch.
    pub after: Option<Vec<String>>,
    /// Jobs of which one must be final first.
    pub after_any: Option<Vec<String>>,
    /// Its name for other jobs in the same batch.
    pub name: Option<String>,
    /// Tags, for filters.
    pub tags: Option<Tags>,
    /// The caller's id for the operation it belongs to.
    pub correlation_id: Option<String>,
    /// URL to call when the job is final.
    pub callback_url: Option<String>,
    /// Tenant, for callers that may choose it.
    pub tenant: Option<Text<Tenant>>,
    /// The trace it belongs to, if not that of the request; a child belongs to its parent's.
    pub traceparent: Option<String>,
    /// The `tracestate` of that trace.
    pub tracestate: Option<String>,
    /// Data for everything that the job causes, in the format of W3C Baggage; workers and child jobs get it.
    pub baggage: Option<String>,
}

/// Debouncing: until the job has started, a later submission replaces its payload and delay.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Debounce")]
#[serde(deny_unknown_fields)]
pub struct Debouncing {
    /// Groups submissions, within one tenant and type.
    pub key: String,
    /// How long to wait for another submission.
    pub delay: Span,
}

impl Submission {
    /// The names of all fields. Every way to submit is tested against them.
    #[doc(hidden)]
    pub fn field_names() -> BTreeSet<String> {
        let schema = schemars::schema_for!(Submission);
        let fields = schema.get("properties").and_then(serde_json::Value::as_object);
        fields.into_iter().flat_map(serde_json::Map::keys).cloned().collect()
    }

    /// A job of this type, without payload and options.
    pub fn new(r#type: Text<JobType>) -> Submission {
        Submission {
            r#type,
            payload: None,
            payload_base64: None,
            content_type: None,
            queue: None,
            requires_version: None,
            priority: None,
            delay: None,
            run_at: None,
            hold: None,
            idempotency_key: None,
            idempotency_window: None,
            unique_key: None,
            concurrency_key: None,
            debounce: None,
            retry: None,
            timeouts: None,
            after: None,
            after_any: None,
            name: None,
            tags: None,
            correlation_id: None,
            callback_url: None,
            tenant: None,
            traceparent: None,
            tracestate: None,
            baggage: None,
        }
    }

    /// The library's job. A submission that names its own trace does not belong to that of its request.
    pub fn into_job(mut self, trace: Option<&TraceHeaders>) -> Result<NewJob, FieldError> {
        if let (None, Some(trace)) = (&self.traceparent, trace) {
            self.traceparent = Some(trace.traceparent.as_str().to_owned());
            self.tracestate = self.tracestate.or_else(|| trace.tracestate.clone());
            self.baggage = self.baggage.or_else(|| trace.baggage.clone());
        }
        let timeouts = self.timeouts.unwrap_or_default();
        let payload = payload::submitted(self.payload, self.payload_base64, self.content_type)?;
        Ok(NewJob {
            queue: self.queue.map_or_else(QueueName::default, |queue| queue.0),
            requires_version: self.requires_version.map(|version| version.0),
            priority: self.priority.map(|priority| priority.0),
            delay: self.delay.map(|span| span.0),
            run_at: self.run_at.map(|moment| moment.0),
            hold: self.hold.unwrap_or(false),
            idempotency_key: self.idempotency_key,
            idempotency_window: self.idempotency_window.map(|span| span.0),
            unique_key: self.unique_key,
            concurrency_key: self.concurrency_key,
            debounce: self.debounce.map(|last| Debounce { key: last.key, delay: last.delay.0 }),
            retry: self.retry.map(Retry::into_policy).transpose()?,
            execution_timeout: timeouts.execution.map(|span| span.0),
            lease_timeout: timeouts.lease()?.map(|span| span.0),
            lifetime: timeouts.lifetime.map(|span| span.0),
            start_timeout: timeouts.start.map(|span| span.0),
            after: dependencies("after", self.after)?,
            after_any: dependencies("after_any", self.after_any)?,
            name: self.name,
            metadata: JobMetadata {
                tags: self.tags.unwrap_or_default().0,
                correlation_id: self.correlation_id,
                callback_url: self.callback_url,
            },
            tenant: self.tenant.map(|tenant| tenant.0),
            traceparent: self.traceparent,
            tracestate: self.tracestate,
            baggage: self.baggage,
            ..NewJob::new(self.r#type.0, payload)
        })
    }
}

impl From<&NewJob> for Submission {
    fn from(new: &NewJob) -> Submission {
        let (json, payload_base64, content_type) = payload::fields(&new.payload);
        let timeouts = SomeTimeouts {
            execution: new.execution_timeout.map(Span),
            lease: new.lease_timeout.map(Span),
            visibility: None,
            lifetime: new.lifetime.map(Span),
            start: new.start_timeout.map(Span),
        };
        Submission {
            payload: json,
            payload_base64,
            content_type,
            queue: Some(Text(new.queue.clone())),
            requires_version: new.requires_version.clone().map(Text),
            priority: new.priority.map(PriorityInput),
            delay: new.delay.map(Span),
            run_at: new.run_at.map(Moment),
            hold: new.hold.then_some(true),
            idempotency_key: new.idempotency_key.clone(),
            idempotency_window: new.idempotency_window.map(Span),
            unique_key: new.unique_key.clone(),
            concurrency_key: new.concurrency_key.clone(),
            debounce: new
                .debounce
                .as_ref()
                .map(|last| Debouncing { key: last.key.clone(), delay: Span(last.delay) }),
            retry: new.retry.as_ref().map(Retry::from),
            timeouts: (timeouts != SomeTimeouts::default()).then_some(timeouts),
            after: names(&new.after),
            after_any: names(&new.after_any),
            name: new.name.clone(),
            tags: (!new.metadata.tags.is_empty()).then(|| Tags(new.metadata.tags.clone())),
            correlation_id: new.metadata.correlation_id.clone(),
            callback_url: new.metadata.callback_url.clone(),
            tenant: new.tenant.clone().map(Text),
            traceparent: new.traceparent.clone(),
            tracestate: new.tracestate.clone(),
            baggage: new.baggage.clone(),
            ..Submission::new(Text(new.job_type.clone()))
        }
    }
}

fn names(dependencies: &[Dependency]) -> Option<Vec<String>> {
    let name = |dependency: &Dependency| match dependency {
        Dependency::Job(id) => id.to_string(),
        Dependency::Named(name) => format!("@{name}"),
    };
    (!dependencies.is_empty()).then(|| dependencies.iter().map(name).collect())
}

fn dependencies(field: &str, given: Option<Vec<String>>) -> Result<Vec<Dependency>, FieldError> {
    let read = |(place, text): (usize, String)| match text.strip_prefix('@') {
        Some(name) => Ok(Dependency::Named(name.to_owned())),
        None => text.parse().map(Dependency::Job).map_err(|_| {
            invalid(
                format!("{field}.{place}"),
                format!("`{}` is not the name of a job in this batch", shown(&text)),
            )
        }),
    };
    given.unwrap_or_default().into_iter().enumerate().map(read).collect()
}

/// Several jobs, submitted all or none; they may refer to each other.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobBatch")]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The jobs.
    pub jobs: Vec<Submission>,
}

#[cfg(test)]
mod tests;
