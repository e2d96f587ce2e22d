//! Jobs in the server's format, converted into the library's own records. Fields that the API does not send (the
//! sequence number, internal counters) have their defaults.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::text::{Moment, Span};
use crate::clock::Timestamp;
use crate::job::{
    Category, ErrorCause, ErrorRecord, Fence, JitterMode, JobId, JobMetadata, JobRecord, JobState, JobType,
    Lane, Lease, Parent, Payload, Policy, Priority, Progress, QueueName, RareFields, RetryPolicy, Seq, Spec,
    Strategy, SuspendMode, Suspension, Tenant, Timeouts, Traceparent, WorkerId,
};
use crate::limits;
use crate::store::query::explain::Reason;
use crate::store::query::snapshot::Snapshot;

/// A value that is present, null or not; with `#[serde(default)]` a missing one is `None`.
pub(super) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// A job as sent by the server, in any response.
#[derive(Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each is what one kind of answer says, and no other")]
pub(super) struct ShownJob {
    id: JobId,
    tenant: Tenant,
    r#type: JobType,
    queue: QueueName,
    state: JobState,
    #[serde(default)]
    version: Option<String>,
    why: Option<ShownReason>,
    priority: Priority,
    effective_priority: Priority,
    attempt: u32,
    failures: u32,
    #[serde(default)]
    crashes: u32,
    #[serde(default)]
    fence: u64,
    created_at: Moment,
    updated_at: Moment,
    run_at: Moment,
    scheduled_at: Option<Moment>,
    first_started_at: Option<Moment>,
    started_at: Option<Moment>,
    completed_at: Option<Moment>,
    expires_at: Option<Moment>,
    suspended_at: Option<Moment>,
    suspended_by: Option<String>,
    #[serde(default)]
    suspension: Option<ShownSuspension>,
    #[serde(default)]
    suspend_requested: Option<ShownSuspension>,
    resumed_at: Option<Moment>,
    priority_updated_at: Option<Moment>,
    lease: Option<ShownLease>,
    retry: ShownRetry,
    timeouts: ShownTimeouts,
    #[serde(default)]
    after: Vec<JobId>,
    #[serde(default)]
    after_any: Vec<JobId>,
    retry_of: Option<JobId>,
    superseded_by: Option<JobId>,
    parent: Option<JobId>,
    #[serde(default)]
    owner: String,
    idempotency_key: Option<String>,
    unique_key: Option<String>,
    concurrency_key: Option<String>,
    #[serde(default)]
    traceparent: Option<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    correlation_id: Option<String>,
    callback_url: Option<String>,
    error: Option<ShownError>,
    progress: Option<Progress>,
    #[serde(default)]
    cost_cents: i64,
    result: Option<Box<RawValue>>,
    #[serde(default)]
    redacted: bool,
    #[serde(default, deserialize_with = "given")]
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    content_type: Option<String>,
    /// Of a submission: whether it is an earlier job with the same idempotency key.
    #[serde(default)]
    pub(super) duplicate: bool,
    /// Of a submission: whether that earlier job had another payload.
    #[serde(default)]
    pub(super) payload_differs: bool,
    /// Of a submission: whether that earlier job was deleted since.
    #[serde(default)]
    pub(super) deleted: bool,
    /// Of a submission: whether it replaced the payload of a waiting job with the same debounce key.
    #[serde(default)]
    pub(super) debounced: bool,
    /// Of an action: whether anything changed.
    #[serde(default)]
    pub(super) changed: bool,
}

/// Why a job does not run.
#[derive(Deserialize)]
pub(super) struct ShownReason {
    code: String,
    message: String,
    #[serde(flatten)]
    details: Map<String, Value>,
}

/// Every code there is for a reason.
const REASONS: [&str; 13] = [
    "held",
    "suspended",
    "suspend_requested",
    "queue_paused",
    "gate_closed",
    "not_due",
    "dependencies_unmet",
    "waiting",
    "no_worker",
    "max_running",
    "concurrency_key_held",
    "rate_limited",
    "over_quota",
];

impl From<ShownReason> for Reason {
    fn from(shown: ShownReason) -> Reason {
        let code = REASONS.into_iter().find(|code| *code == shown.code).unwrap_or("other");
        Reason { code, message: shown.message, details: Value::Object(shown.details) }
    }
}

/// A suspension that is in force or requested.
#[derive(Deserialize)]
struct ShownSuspension {
    by: String,
    reason: Option<String>,
    mode: SuspendMode,
    at: Moment,
    expires_at: Option<Moment>,
}

impl From<ShownSuspension> for Suspension {
    fn from(shown: ShownSuspension) -> Suspension {
        Suspension {
            by: shown.by,
            reason: shown.reason,
            mode: shown.mode,
            at: shown.at.0,
            expires_at: shown.expires_at.map(|moment| moment.0),
            by_pause: false,
        }
    }
}

#[derive(Deserialize)]
struct ShownLease {
    worker: WorkerId,
    expires_at: Moment,
    deadline: Option<Moment>,
}

/// An effective retry policy.
#[derive(Deserialize)]
pub(super) struct ShownRetry {
    strategy: Strategy,
    initial_delay: Span,
    max_delay: Span,
    multiplier: f64,
    jitter: f64,
    #[serde(default)]
    jitter_mode: JitterMode,
    max_attempts: u32,
    retry_on: Vec<Category>,
}

impl From<ShownRetry> for RetryPolicy {
    fn from(shown: ShownRetry) -> RetryPolicy {
        RetryPolicy {
            strategy: shown.strategy,
            initial_delay: shown.initial_delay.0,
            max_delay: shown.max_delay.0,
            multiplier: shown.multiplier,
            jitter: shown.jitter,
            jitter_mode: shown.jitter_mode,
            max_attempts: shown.max_attempts,
            retry_on: shown.retry_on,
        }
    }
}

#[derive(Deserialize)]
struct ShownTimeouts {
    execution: Span,
    lease: Span,
    lifetime: Span,
    #[serde(default)]
    start: Option<Span>,
}

/// An error of an attempt.
#[derive(Deserialize)]
pub(super) struct ShownError {
    category: Category,
    code: Option<String>,
    message: String,
    at: Moment,
    attempt: u32,
    retry_after: Option<Span>,
    error_type: String,
    #[serde(default)]
    cause: Vec<ErrorCause>,
}

impl From<ShownError> for ErrorRecord {
    fn from(shown: ShownError) -> ErrorRecord {
        ErrorRecord {
            category: shown.category,
            code: shown.code,
            message: shown.message,
            at: shown.at.0,
            attempt: shown.attempt,
            retry_after: shown.retry_after.map(|span| span.0),
            retryable: shown.error_type == "RETRYABLE",
            cause: shown.cause,
        }
    }
}

/// A payload: JSON as it is, other bytes in base64. A redacted one is empty.
pub(super) fn payload(
    json: Option<Box<RawValue>>,
    base64: Option<String>,
    content_type: Option<String>,
) -> Payload {
    let bytes = match (json, base64) {
        (Some(json), _) => Arc::from(json.get().as_bytes()),
        // A server sends base64; otherwise it was tampered with, and there is no payload.
        (None, Some(text)) => Arc::from(STANDARD.decode(text).unwrap_or_default()),
        (None, None) => Arc::from([]),
    };
    Payload { bytes, content_type: content_type.map_or_else(|| Arc::from(Payload::JSON), Arc::from) }
}

/// A job of which only these fields are known.
pub(super) fn sketch(id: JobId, job_type: JobType, state: JobState, now: Timestamp) -> JobRecord {
    let lane = Lane { tenant: Tenant::default(), queue: QueueName::default(), job_type };
    JobRecord { state, ..JobRecord::new(Seq(0), id, Arc::new(lane), Arc::default(), now) }
}

impl ShownJob {
    /// The spec.
    fn spec(&mut self) -> Spec {
        Spec {
            payload: payload(self.payload.take(), self.payload_base64.take(), self.content_type.take()),
            idempotency_key: self.idempotency_key.take(),
            unique_key: self.unique_key.take(),
            concurrency_key: self.concurrency_key.take(),
            labels: JobMetadata {
                tags: std::mem::take(&mut self.tags),
                correlation_id: self.correlation_id.take(),
                callback_url: self.callback_url.take(),
            },
            owner: std::mem::take(&mut self.owner),
            // The record needs it as well.
            traceparent: self.traceparent.clone(),
            after: std::mem::take(&mut self.after),
            after_any: std::mem::take(&mut self.after_any),
        }
    }

    fn details(&mut self) -> RareFields {
        let suspended_by = self.suspended_by.take();
        let is_suspended = self.state == JobState::Suspended;
        let suspension = self.suspension.take().map(Suspension::from);
        RareFields {
            is_held: self.state == JobState::Created,
            // A server of an earlier version only sends the actor.
            suspension: suspension.or_else(|| {
                is_suspended.then(|| Suspension {
                    by: suspended_by.clone().unwrap_or_default(),
                    reason: None,
                    mode: SuspendMode::default(),
                    at: self.suspended_at.map_or(Timestamp::MIN, |moment| moment.0),
                    expires_at: None,
                    by_pause: false,
                })
            }),
            suspend_requested: self.suspend_requested.take().map(Suspension::from),
            error: self.error.take().map(ErrorRecord::from),
            progress: self.progress.take(),
            retry_of: self.retry_of,
            superseded_by: self.superseded_by,
            suspended_at: self.suspended_at.map(|moment| moment.0),
            suspended_by,
            resumed_at: self.resumed_at.map(|moment| moment.0),
            priority_updated_at: self.priority_updated_at.map(|moment| moment.0),
            ..RareFields::default()
        }
    }

    /// Its record.
    pub(super) fn into_job(mut self) -> JobRecord {
        let details = self.details();
        let lane = Lane { tenant: self.tenant, queue: self.queue, job_type: self.r#type };
        let timeouts = Timeouts {
            execution: self.timeouts.execution.0,
            lease: self.timeouts.lease.0,
            lifetime: self.timeouts.lifetime.0,
            start: self.timeouts.start.map(|span| span.0),
        };
        let policy = Policy { retry: self.retry.into(), timeouts, crashes_max: limits::CRASHES_MAX_DEFAULT };
        let mut job = JobRecord::new(Seq(0), self.id, Arc::new(lane), Arc::new(policy), self.created_at.0);
        job.state = self.state;
        job.priority = self.priority;
        if self.effective_priority > self.priority {
            job.inherited = self.effective_priority;
        }
        (job.attempt, job.failures, job.crashes) = (self.attempt, self.failures, self.crashes);
        job.fence = Fence(self.fence);
        job.updated_at = self.updated_at.0;
        job.run_at = self.run_at.0;
        job.retry_at = (self.state == JobState::Retrying).then_some(self.run_at.0);
        job.scheduled_at = self.scheduled_at.map(|moment| moment.0);
        job.first_started_at = self.first_started_at.map(|moment| moment.0);
        job.started_at = self.started_at.map(|moment| moment.0);
        job.completed_at = self.completed_at.map(|moment| moment.0);
        job.expires_at = self.expires_at.map_or(job.expires_at, |moment| moment.0);
        job.lease = self.lease.map(|lease| Lease {
            worker: lease.worker,
            expires_at: lease.expires_at.0,
            deadline_at: lease.deadline.map_or(Timestamp::MAX, |moment| moment.0),
        });
        job.parent = self.parent.map(|id| Parent { seq: Seq(0), id, group: 0, index: 0 });
        job.trace = self.traceparent.as_deref().and_then(Traceparent::parse).map(|parent| parent.trace_id());
        job.cost_cents = self.cost_cents;
        job.has.result = self.result.is_some();
        job.has.callback = self.callback_url.is_some();
        job.details = Arc::new(details);
        job
    }
}

impl From<ShownJob> for Snapshot {
    fn from(mut shown: ShownJob) -> Snapshot {
        let why = shown.why.take().map(Reason::from);
        let shown_version = shown.version.take().and_then(|version| version.parse().ok());
        let spec = shown.spec();
        let is_redacted = shown.redacted;
        Snapshot { job: shown.into_job(), spec, why, is_redacted, shown_version }
    }
}
