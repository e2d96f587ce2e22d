//! A job in the API: all submitted and computed fields, and what it waits for. Fields without a value are null, so that
//! the shape is always the same.

pub mod actions;
pub mod details;
pub mod filter;
mod record;
pub mod stream;
pub mod submission;

pub use record::priority;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use windlass_core::job::{
    Category, JobId, JobMetadata, JobRecord, JobState, JobType, Payload, QueueName, RareFields, Spec,
    SuspendMode, Tenant, Version, WorkerId, WorkerVersion,
};

use crate::json::{Json, two_parts};
use crate::payload::PayloadView;
use crate::retry::{EffectiveRetry, EffectiveTimeouts};
use crate::text::Text;
use crate::time::{Moment, Span};

/// A job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Id.
    pub id: Text<JobId>,
    /// Tenant.
    pub tenant: Text<Tenant>,
    /// Job type.
    pub r#type: Text<JobType>,
    /// Queue.
    pub queue: Text<QueueName>,
    /// The version of the only workers that receive it; any if null.
    pub requires_version: Option<Text<WorkerVersion>>,
    /// State.
    pub state: Text<JobState>,
    /// Changes with every change of the job; the first part of the `ETag`.
    #[schemars(with = "String")]
    pub version: Text<Version>,
    /// Why it is not running, while it is not final; for a running job only a requested suspension.
    pub why: Option<Why>,
    /// Priority, 0 to 100.
    pub priority: u8,
    /// The higher of its own and its inherited priority.
    pub effective_priority: u8,
    /// Number of attempts so far.
    pub attempt: u32,
    /// Maximum number of attempts, including the first.
    pub max_attempts: u32,
    /// Retryable failures so far.
    pub failures: u32,
    /// Attempts that ended with a crash, a panic or a lost lease.
    pub crashes: u32,
    /// Number of retries so far.
    pub retry_count: u32,
    /// One less than `max_attempts`.
    pub max_retries: u32,
    /// When it was created.
    pub created_at: Moment,
    /// When it was last changed.
    pub updated_at: Moment,
    /// Earliest time of its next or first run.
    pub run_at: Moment,
    /// When it last became claimable.
    pub scheduled_at: Option<Moment>,
    /// When its first attempt started.
    pub first_started_at: Option<Moment>,
    /// When its last attempt started.
    pub started_at: Option<Moment>,
    /// When it became final.
    pub completed_at: Option<Moment>,
    /// When its lifetime ends.
    pub expires_at: Moment,
    /// When it was last suspended.
    pub suspended_at: Option<Moment>,
    /// Who last suspended it.
    pub suspended_by: Option<String>,
    /// The suspension, while it is suspended.
    pub suspension: Option<Suspension>,
    /// A graceful suspension that takes effect when the running attempt ends; a resume withdraws it.
    pub suspend_requested: Option<Suspension>,
    /// When it was last resumed.
    pub resumed_at: Option<Moment>,
    /// When its priority was last changed.
    pub priority_updated_at: Option<Moment>,
    /// The lease, while it is running.
    pub lease: Option<Lease>,
    /// Retry policy.
    pub retry: EffectiveRetry,
    /// Time limits.
    pub timeouts: EffectiveTimeouts,
    /// Jobs that must complete first.
    pub after: Vec<Text<JobId>>,
    /// Jobs of which one must be final first.
    pub after_any: Vec<Text<JobId>>,
    /// The job that it is a redrive of.
    pub retry_of: Option<Text<JobId>>,
    /// The job that was redriven from it.
    pub superseded_by: Option<Text<JobId>>,
    /// The job that spawned it.
    pub parent: Option<Text<JobId>>,
    /// Who submitted it.
    pub owner: String,
    /// A second submission with the same key within the window returns the same job.
    pub idempotency_key: Option<String>,
    /// At most one unfinished job with this key at a time.
    pub unique_key: Option<String>,
    /// Key for concurrency limits across jobs.
    pub concurrency_key: Option<String>,
    /// The trace it belongs to.
    pub traceparent: Option<String>,
    /// The `tracestate` of that trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// Data for everything that the job causes, in the format of W3C Baggage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baggage: Option<String>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// The caller's id for the operation it belongs to.
    pub correlation_id: Option<String>,
    /// URL that is called when the job is final.
    pub callback_url: Option<String>,
    /// The error of the last failed attempt.
    pub error: Option<JobError>,
    /// Progress, as last reported by the worker.
    pub progress: Option<Progress>,
    /// Cost of all attempts, as reported by workers.
    pub cost_cents: i64,
    /// The result, once it is completed.
    pub result: Option<Json>,
    /// True if the caller may not read payloads of this job: `result` is null, a requested payload is left out, and
    /// `callback_url` has no query.
    pub redacted: bool,
    /// The payload, if it was requested and is JSON.
    #[serde(default, deserialize_with = "crate::json::present", skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The payload in base64, if it was requested and is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// The content type of the payload, if it was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

/// Why a job is not running.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Reason")]
pub struct Why {
    /// A stable code for programs.
    pub code: String,
    /// A message for people.
    pub message: String,
    /// Further data about the reason.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

/// A suspension: who, when and how.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Suspension {
    /// Who requested it.
    pub by: String,
    /// The reason given.
    pub reason: Option<String>,
    /// `idle_only`, `graceful` or `aggressive`.
    #[schemars(with = "String")]
    pub mode: SuspendMode,
    /// When it was requested.
    pub at: Moment,
    /// When the job resumes automatically.
    pub expires_at: Option<Moment>,
}

/// A lease: the worker, and until when.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Lease {
    /// The worker.
    pub worker: Text<WorkerId>,
    /// When it expires unless a heartbeat extends it.
    pub expires_at: Moment,
    /// When the attempt times out.
    pub deadline: Moment,
}

/// An error of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JobError {
    /// Category; decides whether it is retried.
    pub category: Category,
    /// A code for programs.
    pub code: Option<String>,
    /// A message for people.
    pub message: String,
    /// When.
    pub at: Moment,
    /// Number of the attempt.
    pub attempt: u32,
    /// Delay that the worker asked for.
    pub retry_after: Option<Span>,
    /// `RETRYABLE` or `TERMINAL`.
    pub error_type: String,
    /// The underlying errors, the nearest first.
    pub cause: Vec<JobErrorCause>,
}

/// An underlying error.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ErrorCause")]
pub struct JobErrorCause {
    /// A message for people.
    pub message: String,
    /// A code for programs.
    pub code: Option<String>,
}

/// A job's progress, as reported by its worker.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    /// 0 to 100.
    pub percent: f64,
    /// A message for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl Job {
    /// The job as stored, without its result and payload.
    pub fn from_stored(job: &JobRecord, spec: Spec, version: Version) -> Job {
        let (policy, details, metadata) = (&job.policy, &job.details, spec.metadata);
        Job {
            id: Text(job.id),
            tenant: Text(job.lane.tenant.clone()),
            r#type: Text(job.lane.job_type.clone()),
            queue: Text(job.lane.queue.clone()),
            requires_version: job.lane.version.clone().map(Text),
            state: Text(job.state),
            version: Text(version),
            why: None,
            priority: job.priority.value(),
            effective_priority: job.effective_priority().value(),
            attempt: job.attempt,
            max_attempts: policy.retry.max_attempts,
            failures: job.failures,
            crashes: job.crashes,
            retry_count: job.retry_count(),
            max_retries: policy.retry.max_retries(),
            created_at: job.created_at.into(),
            updated_at: job.updated_at.into(),
            run_at: job.next_run_at().into(),
            scheduled_at: job.scheduled_at.map(Moment),
            first_started_at: job.first_started_at.map(Moment),
            started_at: job.started_at.map(Moment),
            completed_at: job.completed_at.map(Moment),
            expires_at: job.expires_at.into(),
            suspended_at: details.suspended_at.map(Moment),
            suspended_by: details.suspended_by.clone(),
            suspension: details.suspension.as_ref().map(Suspension::from),
            suspend_requested: details.suspend_requested.as_ref().map(Suspension::from),
            resumed_at: details.resumed_at.map(Moment),
            priority_updated_at: details.priority_updated_at.map(Moment),
            lease: job.lease.map(Lease::from),
            retry: (&policy.retry).into(),
            timeouts: policy.timeouts.into(),
            after: spec.after.into_iter().map(Text).collect(),
            after_any: spec.after_any.into_iter().map(Text).collect(),
            retry_of: details.retry_of.map(Text),
            superseded_by: details.superseded_by.map(Text),
            parent: job.parent.map(|parent| Text(parent.id)),
            owner: spec.owner,
            idempotency_key: spec.idempotency_key,
            unique_key: spec.unique_key,
            concurrency_key: spec.concurrency_key,
            traceparent: spec.traceparent,
            tracestate: spec.tracestate,
            baggage: spec.baggage,
            tags: metadata.tags,
            correlation_id: metadata.correlation_id,
            callback_url: metadata.callback_url,
            error: details.error.as_ref().map(Into::into),
            progress: details.progress.as_ref().map(Into::into),
            cost_cents: job.cost_cents,
            result: None,
            redacted: false,
            payload: None,
            payload_base64: None,
            content_type: None,
        }
    }

    /// The record and the submitted data, as far as the API sends them.
    pub fn into_parts(mut self) -> (JobRecord, Spec) {
        let spec = Spec {
            payload: self.take_payload(),
            idempotency_key: self.idempotency_key.take(),
            unique_key: self.unique_key.take(),
            concurrency_key: self.concurrency_key.take(),
            metadata: JobMetadata {
                tags: std::mem::take(&mut self.tags),
                correlation_id: self.correlation_id.take(),
                // The record says whether there is one.
                callback_url: self.callback_url.clone(),
            },
            owner: std::mem::take(&mut self.owner),
            // The record needs it as well.
            traceparent: self.traceparent.clone(),
            tracestate: self.tracestate.take(),
            baggage: self.baggage.take(),
            after: self.after.drain(..).map(|id| id.0).collect(),
            after_any: self.after_any.drain(..).map(|id| id.0).collect(),
        };
        (self.into(), spec)
    }

    /// The stored fields that few jobs have, as far as the API sends them.
    fn take_rare_fields(&mut self) -> RareFields {
        RareFields {
            is_held: self.state.0 == JobState::Created,
            suspension: self.suspension.take().map(Into::into),
            suspend_requested: self.suspend_requested.take().map(Into::into),
            error: self.error.take().map(Into::into),
            progress: self.progress.take().map(Into::into),
            retry_of: self.retry_of.as_ref().map(|id| id.0),
            superseded_by: self.superseded_by.as_ref().map(|id| id.0),
            suspended_at: self.suspended_at.map(|moment| moment.0),
            suspended_by: self.suspended_by.take(),
            resumed_at: self.resumed_at.map(|moment| moment.0),
            priority_updated_at: self.priority_updated_at.map(|moment| moment.0),
            ..RareFields::default()
        }
    }

    /// Adds the payload.
    #[must_use]
    pub fn with_payload(self, shown: PayloadView) -> Job {
        let PayloadView { payload, payload_base64, content_type } = shown;
        Job { payload, payload_base64, content_type: Some(content_type), ..self }
    }

    /// The payload; empty if it was not requested or may not be read.
    pub fn take_payload(&mut self) -> Payload {
        let content_type = self.content_type.take().unwrap_or_else(|| Payload::JSON.to_owned());
        PayloadView { payload: self.payload.take(), payload_base64: self.payload_base64.take(), content_type }
            .into()
    }
}

/// A submitted job.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(extend("x-variant-of" = "Job"))]
#[allow(clippy::struct_excessive_bools, reason = "independent flags, each with its own name")]
pub struct SubmittedJob {
    /// The job.
    #[serde(flatten)]
    pub job: Job,
    /// True for an existing job with the same idempotency key; only in the response to a submission.
    pub duplicate: bool,
    /// Whether the existing job has another payload; only in the response to a submission.
    pub payload_differs: bool,
    /// True if the existing job was deleted. Only `id`, `tenant`, `type`, `state` and `created_at` are then known; all
    /// other fields have default values. Left out otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub deleted: bool,
    /// True for a waiting job with the same debounce key, whose payload and delay were replaced; only in the response to a
    /// submission.
    pub debounced: bool,
}

/// The fields of a submission's response beside the job's own.
#[derive(Default, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags, each with its own name")]
struct Flags {
    duplicate: bool,
    payload_differs: bool,
    deleted: bool,
    debounced: bool,
}

impl<'de> Deserialize<'de> for SubmittedJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SubmittedJob, D::Error> {
        let (job, flags) = two_parts(deserializer)?;
        let Flags { duplicate, payload_differs, deleted, debounced } = flags;
        Ok(SubmittedJob { job, duplicate, payload_differs, deleted, debounced })
    }
}

/// The jobs of a batch, in its order.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SubmittedJobs {
    /// The jobs.
    pub jobs: Vec<SubmittedJob>,
}

/// A page of jobs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct JobPage {
    /// The jobs. A page may have fewer jobs than requested, or none, without being the last: the number of jobs read per
    /// page is limited.
    pub jobs: Vec<Job>,
    /// Cursor of the next page; null on the last page.
    pub next_cursor: Option<String>,
}
