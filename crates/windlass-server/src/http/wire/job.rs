//! A job as it is shown: every field that was submitted or computed, and what it is waiting for. A field without a value is null, so that
//! the shape is always the same.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use windlass::job::{
    ErrorCause, ErrorRecord, JobId, JobRecord, JobState, JobType, Progress, QueueName, Suspension, Tenant,
    Version, WorkerId,
};
use windlass::store::query::explain::Reason;
use windlass::store::query::snapshot::Snapshot;

use super::Json;
use super::payload;
use super::retry::{EffectiveRetry, EffectiveTimeouts, Kind};
use super::text::Text;
use super::time::{Moment, Span};
use crate::http::reply::etag::EntityTag;

/// A job as it was at one moment.
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
    /// What it is waiting for, while it is not final; of a running job only that it is to be suspended.
    why: Option<Why>,
    priority: u8,
    /// Its own priority or one it inherited, whichever is higher.
    effective_priority: u8,
    /// Starts so far.
    attempt: u32,
    max_attempts: u32,
    /// Retryable failures so far.
    failures: u32,
    /// Attempts that ended with a crash, a panic or a lost lease.
    crashes: u32,
    /// Retries granted so far.
    retry_count: u32,
    max_retries: u32,
    created_at: Moment,
    updated_at: Moment,
    /// When it runs next, or was to run.
    run_at: Moment,
    /// When it last became claimable.
    scheduled_at: Option<Moment>,
    first_started_at: Option<Moment>,
    started_at: Option<Moment>,
    /// When it became final.
    completed_at: Option<Moment>,
    /// End of its lifetime.
    expires_at: Moment,
    suspended_at: Option<Moment>,
    suspended_by: Option<String>,
    /// The suspension in force, while it is suspended.
    suspension: Option<SuspensionView>,
    /// A graceful suspension that takes effect when the running attempt ends; a resume withdraws it.
    suspend_requested: Option<SuspensionView>,
    resumed_at: Option<Moment>,
    priority_updated_at: Option<Moment>,
    /// Who runs it, while somebody does.
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
    /// What it came to.
    result: Option<Json>,
    /// True if the caller does not read payloads of this job: `result` is then null, the payload left out although it was
    /// asked for, and `callback_url` without its query.
    redacted: bool,
    /// The payload, if it was asked for.
    #[serde(flatten)]
    payload: Option<payload::Shown>,
}

/// What a job is waiting for.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Why {
    /// A stable word for programs.
    code: String,
    /// A sentence for people.
    message: String,
    /// Everything known about it.
    #[serde(flatten)]
    details: Map<String, Value>,
}

/// Who suspended a job, or asked for it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Suspension")]
pub(crate) struct SuspensionView {
    by: String,
    reason: Option<String>,
    /// `idle_only`, `graceful` or `aggressive`.
    mode: &'static str,
    /// When it was asked for.
    at: Moment,
    /// When it lifts itself.
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

/// Who runs a job, and until when.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Lease")]
pub(crate) struct LeaseView {
    worker: Text<WorkerId>,
    expires_at: Moment,
    /// When the attempt must be over.
    deadline: Moment,
}

/// An error of an attempt.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "JobError")]
pub(crate) struct ErrorView {
    category: Kind,
    code: Option<String>,
    message: String,
    at: Moment,
    attempt: u32,
    retry_after: Option<Span>,
    /// `RETRYABLE` or `TERMINAL`.
    error_type: &'static str,
    /// The errors behind it, the nearest first.
    cause: Vec<CauseView>,
}

/// An error behind another.
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

/// How far a job is, in its worker's words.
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
            category: error.category.into(),
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

    /// The tag of an answer that shows this.
    pub(crate) fn tag(&self) -> EntityTag {
        // What is shown and not covered by the version.
        EntityTag::new(
            self.version.0,
            &(&self.why, &self.lease, &self.progress, &self.payload, self.redacted),
        )
    }

    /// The same with its payload.
    #[must_use]
    pub(crate) fn with_payload(self, payload: payload::Shown) -> JobView {
        JobView { payload: Some(payload), ..self }
    }
}

/// A submitted job.
#[derive(Debug, Serialize, JsonSchema)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each with a name of its own")]
pub(crate) struct SubmittedJob {
    #[serde(flatten)]
    pub(crate) job: JobView,
    /// True for an earlier job with the same idempotency key.
    pub(crate) duplicate: bool,
    /// Whether that earlier job had another payload.
    pub(crate) payload_differs: bool,
    /// True if that earlier job was deleted since. Only `id`, `tenant`, `type`, `state` and `created_at` are then known of it;
    /// all other fields are at their defaults. Left out otherwise.
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
    /// Whether anything changed.
    pub(crate) changed: bool,
}

/// A page of jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobPage {
    /// The jobs; fewer than asked for, or none, also before the last page, where few of many that were looked at fit.
    pub(crate) jobs: Vec<JobView>,
    /// Where to go on; null after the last page.
    pub(crate) next_cursor: Option<String>,
}
