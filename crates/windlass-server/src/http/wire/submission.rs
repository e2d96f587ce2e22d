//! Job submissions in the API.

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

/// A job to submit; fields that are not given follow its type, its queue and the server, in this order.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Submission {
    /// Job type: selects the handler.
    r#type: Text<JobType>,
    /// Payload: any JSON, stored and returned byte for byte.
    payload: Option<Json>,
    /// Payload as bytes in base64, instead of `payload`.
    payload_base64: Option<String>,
    /// Content type of `payload_base64`.
    content_type: Option<String>,
    /// Queue.
    queue: Option<Text<QueueName>>,
    /// Priority.
    priority: Option<PriorityInput>,
    /// Delay before it runs.
    delay: Option<Span>,
    /// Earliest time to run.
    run_at: Option<Moment>,
    /// Keep it in `created` until it is submitted by id.
    hold: Option<bool>,
    /// A second submission with the same key within the window returns the same job.
    idempotency_key: Option<String>,
    /// How long the idempotency key applies.
    idempotency_window: Option<Span>,
    /// At most one unfinished job with this key at a time.
    unique_key: Option<String>,
    /// Key for concurrency limits across jobs.
    concurrency_key: Option<String>,
    /// Run only the last of several submissions with the same key.
    debounce: Option<Debouncing>,
    /// Retry policy.
    retry: Option<Retry>,
    /// Time limits.
    timeouts: Option<SomeTimeouts>,
    /// Jobs that must complete first: ids, or `@name` for one of the same batch.
    after: Option<Vec<String>>,
    /// Jobs of which one must be final first.
    after_any: Option<Vec<String>>,
    /// Its name for other jobs in the same batch.
    name: Option<String>,
    /// Tags, for filters.
    tags: Option<Tags>,
    /// The caller's id for the operation it belongs to.
    correlation_id: Option<String>,
    /// URL to call when the job is final.
    callback_url: Option<String>,
    /// Tenant, for callers that may choose it.
    tenant: Option<Text<Tenant>>,
    /// The trace it belongs to, if not that of the request; a child belongs to its parent's.
    traceparent: Option<String>,
}

/// Debouncing: until the job has started, a later submission replaces its payload and delay.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Debouncing {
    /// Groups submissions, within one tenant and type.
    key: String,
    /// How long to wait for another submission.
    delay: Span,
}

impl Submission {
    /// The library's job.
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
            ApiError::invalid(
                format!("{field}.{place}"),
                format!("`{}` is not the name of a job in this batch", shown(&text)),
            )
        }),
    };
    given.unwrap_or_default().into_iter().enumerate().map(read).collect()
}

/// Several jobs, submitted all or none; they may refer to each other.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Batch {
    pub(crate) jobs: Vec<Submission>,
}

/// The library's jobs; an error names the job it is about.
pub(crate) fn into_jobs(jobs: Vec<Submission>, trace: Option<&Traceparent>) -> Result<Vec<NewJob>, ApiError> {
    let placed = |(index, job): (usize, Submission)| {
        job.into_job(trace).map_err(|problem| problem.within(&format!("jobs.{index}")).with("index", index))
    };
    jobs.into_iter().enumerate().map(placed).collect()
}
