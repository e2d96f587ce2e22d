//! A job as it is submitted.

use schemars::JsonSchema;
use serde::Deserialize;
use windlass::job::{Debounce, Dependency, JobMetadata, JobType, NewJob, QueueName, Tenant, Traceparent};

use super::Json;
use super::payload;
use super::priority::PriorityInput;
use super::retry::{Retry, SomeTimeouts};
use super::tags::Tags;
use super::text::Text;
use super::time::{Moment, Span};
use crate::http::reply::error::ApiError;
use crate::http::request::path::shown;

/// A job to be submitted; whatever is not given follows its type, its queue and the server, in this order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Submission {
    /// Which handler runs it.
    r#type: Text<JobType>,
    /// The work: any JSON, kept and given back byte for byte.
    payload: Option<Json>,
    /// The work as bytes in base64, instead of `payload`.
    payload_base64: Option<String>,
    /// What `payload_base64` is.
    content_type: Option<String>,
    /// Where it waits.
    queue: Option<Text<QueueName>>,
    /// How urgent it is.
    priority: Option<PriorityInput>,
    /// How long to wait first.
    delay: Option<Span>,
    /// When to run it at the earliest.
    run_at: Option<Moment>,
    /// Whether to hold it in `created` until it is submitted by id.
    hold: Option<bool>,
    /// The same key within the window gives the same job.
    idempotency_key: Option<String>,
    /// For how long.
    idempotency_window: Option<Span>,
    /// One unfinished job at a time with this key.
    unique_key: Option<String>,
    /// Not to run beside others with this key.
    concurrency_key: Option<String>,
    /// Wait for the last of several submissions with the same key.
    debounce: Option<Debouncing>,
    /// When and how often to try again.
    retry: Option<Retry>,
    /// How long things may take.
    timeouts: Option<SomeTimeouts>,
    /// Jobs that must complete first: ids, or `@name` for one of the same batch.
    after: Option<Vec<String>>,
    /// Jobs of which one must end first, well or badly.
    after_any: Option<Vec<String>>,
    /// Its name for others in the same batch.
    name: Option<String>,
    /// Words to find jobs by.
    tags: Option<Tags>,
    /// The caller's own name for what this belongs to.
    correlation_id: Option<String>,
    /// Where to report the end.
    callback_url: Option<String>,
    /// Whose job it is, for callers that may say so.
    tenant: Option<Text<Tenant>>,
    /// The trace it belongs to, if not that of the request; a child's is its parent's.
    traceparent: Option<String>,
}

/// Waiting for the last of several submissions: while the job has not started, a later one replaces payload and delay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Debouncing {
    /// Which submissions belong together, within one tenant and type.
    key: String,
    /// How long to wait for another one.
    delay: Span,
}

impl Submission {
    /// The job, as the library takes it.
    pub(crate) fn into_job(self, trace: Option<&Traceparent>) -> Result<NewJob, ApiError> {
        let timeouts = self.timeouts.unwrap_or_default();
        let payload = payload::submitted(self.payload, self.payload_base64, self.content_type)?;
        Ok(NewJob {
            queue: self.queue.map_or_else(QueueName::default, |queue| queue.0),
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
            labels: JobMetadata {
                tags: self.tags.unwrap_or_default().0,
                correlation_id: self.correlation_id,
                callback_url: self.callback_url,
            },
            tenant: self.tenant.map(|tenant| tenant.0),
            traceparent: self.traceparent.or_else(|| trace.map(|trace| trace.as_str().to_owned())),
            ..NewJob::new(self.r#type.0, payload)
        })
    }
}

fn dependencies(field: &str, given: Option<Vec<String>>) -> Result<Vec<Dependency>, ApiError> {
    let read = |(place, text): (usize, String)| match text.strip_prefix('@') {
        Some(name) => Ok(Dependency::Named(name.to_owned())),
        None => text.parse().map(Dependency::Job).map_err(|_| {
            ApiError::invalid(format!("{field}.{place}"), format!("`{}` names no job", shown(&text)))
        }),
    };
    given.unwrap_or_default().into_iter().enumerate().map(read).collect()
}

/// Several jobs, all or none; they may name each other.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Batch {
    /// The jobs.
    pub(crate) jobs: Vec<Submission>,
}

/// The jobs of a list, as the library takes them; a refusal names the one it is about.
pub(crate) fn into_jobs(jobs: Vec<Submission>, trace: Option<&Traceparent>) -> Result<Vec<NewJob>, ApiError> {
    let placed = |(index, job): (usize, Submission)| {
        job.into_job(trace).map_err(|problem| problem.within(&format!("jobs.{index}")).with("index", index))
    };
    jobs.into_iter().enumerate().map(placed).collect()
}
