//! A job in the API: all submitted and computed fields, and what it waits for. Fields without a value are null, so that the shape
//! is always the same.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use windlass::job::{
    Category, ErrorCause, ErrorRecord, JobId, JobRecord, JobState, JobType, Progress, QueueName, Suspension,
    Tenant, Version, WorkerId,
};
use windlass::store::query::explain::Reason;
use windlass::store::query::snapshot::Snapshot;

use super::Json;
use super::payload;
use super::retry::{EffectiveRetry, EffectiveTimeouts};
use super::text::Text;
use super::time::{Moment, Span};
use crate::http::reply::etag::EntityTag;

/// A job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub(crate) struct JobView {
    id: Text<JobId>,
    tenant: Text<Tenant>,
    r#type: Text<JobType>,
    queue: Text<QueueName>,
    state: Text<JobState>,
    /// Changes with every change of the job; the first part of the `ETag`.
    #[schemars(with = "String")]
    version: Text<Version>,
    /// Why it is not running, while it is not final; for a running job only a requested suspension.
    why: Option<Why>,
    priority: u8,
    /// The higher of its own and its inherited priority.
    effective_priority: u8,
    /// Number of attempts so far.
    attempt: u32,
    max_attempts: u32,
    /// Retryable failures so far.
    failures: u32,
    /// Attempts that ended with a crash, a panic or a lost lease.
    crashes: u32,
    /// Number of retries so far.
    retry_count: u32,
    max_retries: u32,
    created_at: Moment,
    updated_at: Moment,
    /// Earliest time of its next or first run.
    run_at: Moment,
    /// When it last became claimable.
    scheduled_at: Option<Moment>,
    first_started_at: Option<Moment>,
    started_at: Option<Moment>,
    /// When it became final.
    completed_at: Option<Moment>,
    /// When its lifetime ends.
    expires_at: Moment,
    suspended_at: Option<Moment>,
    suspended_by: Option<String>,
    /// The suspension, while it is suspended.
    suspension: Option<SuspensionView>,
    /// A graceful suspension that takes effect when the running attempt ends; a resume withdraws it.
    suspend_requested: Option<SuspensionView>,
    resumed_at: Option<Moment>,
    priority_updated_at: Option<Moment>,
    /// The lease, while it is running.
    lease: Option<LeaseView>,
    retry: EffectiveRetry,
    timeouts: EffectiveTimeouts,
    after: Vec<Text<JobId>>,
    after_any: Vec<Text<JobId>>,
    retry_of: Option<Text<JobId>>,
    superseded_by: Option<Text<JobId>>,
    parent: Option<Text<JobId>>,
    owner: String,
    idempotency_key: Option<String>,
    unique_key: Option<String>,
    concurrency_key: Option<String>,
    /// The trace it belongs to.
    traceparent: Option<String>,
    tags: BTreeMap<String, String>,
    correlation_id: Option<String>,
    callback_url: Option<String>,
    error: Option<ErrorView>,
    progress: Option<ProgressView>,
    cost_cents: i64,
    /// The result, once it is completed.
    result: Option<Json>,
    /// True if the caller may not read payloads of this job: `result` is null, a requested payload is left out, and
    /// `callback_url` has no query.
    redacted: bool,
    /// The payload, if requested.
    #[serde(flatten)]
    payload: Option<payload::Shown>,
}

/// Why a job is not running.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Why {
    /// A stable code for programs.
    code: String,
    /// A message for people.
    message: String,
    /// Further data about the reason.
    #[serde(flatten)]
    details: Map<String, Value>,
}

/// A suspension: who, when and how.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Suspension")]
pub(crate) struct SuspensionView {
    by: String,
    reason: Option<String>,
    /// `idle_only`, `graceful` or `aggressive`.
    mode: &'static str,
    /// When it was requested.
    at: Moment,
    /// When the job resumes automatically.
    expires_at: Option<Moment>,
}

impl From<&Suspension> for SuspensionView {
    fn from(suspension: &Suspension) -> SuspensionView {
        SuspensionView {
            by: suspension.by.clone(),
            reason: suspension.reason.clone(),
            mode: suspension.mode.as_str(),
            at: suspension.at.into(),
            expires_at: suspension.expires_at.map(Moment),
        }
    }
}

/// A lease: the worker, and until when.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lease")]
pub(crate) struct LeaseView {
    worker: Text<WorkerId>,
    expires_at: Moment,
    /// When the attempt times out.
    deadline: Moment,
}

/// An error of an attempt.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "JobError")]
pub(crate) struct ErrorView {
    category: Category,
    code: Option<String>,
    message: String,
    at: Moment,
    attempt: u32,
    retry_after: Option<Span>,
    /// `RETRYABLE` or `TERMINAL`.
    error_type: &'static str,
    /// The underlying errors, the nearest first.
    cause: Vec<CauseView>,
}

/// An underlying error.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "JobErrorCause")]
pub(crate) struct CauseView {
    message: String,
    code: Option<String>,
}

impl From<&ErrorCause> for CauseView {
    fn from(cause: &ErrorCause) -> CauseView {
        CauseView { message: cause.message.clone(), code: cause.code.clone() }
    }
}

/// A job's progress, as reported by its worker.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Progress")]
pub(crate) struct ProgressView {
    percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

impl From<&ErrorRecord> for ErrorView {
    fn from(error: &ErrorRecord) -> ErrorView {
        ErrorView {
            category: error.category,
            code: error.code.clone(),
            message: error.message.clone(),
            at: error.at.into(),
            attempt: error.attempt,
            retry_after: error.retry_after.map(Span),
            error_type: error.error_type(),
            cause: error.cause.iter().map(CauseView::from).collect(),
        }
    }
}

impl From<&Progress> for ProgressView {
    fn from(progress: &Progress) -> ProgressView {
        ProgressView { percent: progress.percent, message: progress.message.clone() }
    }
}

impl From<Reason> for Why {
    fn from(reason: Reason) -> Why {
        let details = match reason.details {
            Value::Object(details) => details,
            _ => Map::new(),
        };
        Why { code: reason.code.to_owned(), message: reason.message, details }
    }
}

fn lease_of(job: &JobRecord) -> Option<LeaseView> {
    job.lease.map(|lease| LeaseView {
        worker: Text(lease.worker),
        expires_at: lease.expires_at.into(),
        deadline: lease.deadline_at.into(),
    })
}

impl JobView {
    /// The job with its result.
    pub(crate) fn of(snapshot: Snapshot, result: Option<Json>) -> JobView {
        let version = snapshot.version();
        let Snapshot { job, spec, why, is_redacted, .. } = snapshot;
        let (policy, details, labels) = (&job.policy, &job.details, spec.labels);
        JobView {
            id: Text(job.id),
            tenant: Text(job.lane.tenant.clone()),
            r#type: Text(job.lane.job_type.clone()),
            queue: Text(job.lane.queue.clone()),
            state: Text(job.state),
            version: Text(version),
            why: why.map(Why::from),
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
            suspension: details.suspension.as_ref().map(SuspensionView::from),
            suspend_requested: details.suspend_requested.as_ref().map(SuspensionView::from),
            resumed_at: details.resumed_at.map(Moment),
            priority_updated_at: details.priority_updated_at.map(Moment),
            lease: lease_of(&job),
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
            tags: labels.tags,
            correlation_id: labels.correlation_id,
            callback_url: labels.callback_url,
            error: details.error.as_ref().map(ErrorView::from),
            progress: details.progress.as_ref().map(ProgressView::from),
            cost_cents: job.cost_cents,
            result,
            redacted: is_redacted,
            payload: None,
        }
    }

    /// The tag of a response with this job.
    pub(crate) fn tag(&self) -> EntityTag {
        // The shown data that the version does not cover.
        EntityTag::new(
            self.version.0,
            &(&self.why, &self.lease, &self.progress, &self.payload, self.redacted),
        )
    }

    /// Adds the payload.
    #[must_use]
    pub(crate) fn with_payload(self, payload: payload::Shown) -> JobView {
        JobView { payload: Some(payload), ..self }
    }
}

/// A submitted job.
#[derive(Debug, Serialize, JsonSchema)]
#[allow(clippy::struct_excessive_bools, reason = "independent flags, each with its own name")]
pub(crate) struct SubmittedJob {
    #[serde(flatten)]
    pub(crate) job: JobView,
    /// True for an existing job with the same idempotency key.
    pub(crate) duplicate: bool,
    /// Whether the existing job has another payload.
    pub(crate) payload_differs: bool,
    /// True if the existing job was deleted. Only `id`, `tenant`, `type`, `state` and `created_at` are then known; all
    /// other fields have default values. Left out otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub(crate) deleted: bool,
    /// True for a waiting job with the same debounce key, whose payload and delay were replaced.
    pub(crate) debounced: bool,
}

/// The jobs of a batch, in its order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SubmittedJobs {
    pub(crate) jobs: Vec<SubmittedJob>,
}

/// A job after an action.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ActedJob {
    #[serde(flatten)]
    pub(crate) job: JobView,
    /// Whether the action changed anything.
    pub(crate) changed: bool,
}

/// A page of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobPage {
    /// The jobs. A page may have fewer jobs than requested, or none, without being the last: the number of jobs read per
    /// page is limited.
    pub(crate) jobs: Vec<JobView>,
    /// Cursor of the next page; null on the last page.
    pub(crate) next_cursor: Option<String>,
}
