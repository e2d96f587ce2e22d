//! Workers, claims and heartbeats in the API.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::job::{AttemptId, Fence, JobId, JobType, Progress, QueueName, Strategy, Tenant, WorkerId};
use windlass::limits;
use windlass::store::command::claim::{ClaimRequest, Claimed};
use windlass::store::command::heartbeat::{HeartbeatItem, HeartbeatReply};
use windlass::store::command::worker::NewWorker;
use windlass::store::documents::config::PauseMode;

use super::job::ErrorView;
use super::job_details::CheckpointView;
use super::payload;
use super::retry::EffectiveRetry;
use super::text::Text;
use super::time::{Moment, Span};
use crate::http::reply::error::ApiError;
use crate::http::request::path::shown;
use crate::limits::WORKER_CONCURRENCY_MAX;

/// A worker to register.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WorkerBody {
    /// Display name.
    name: Option<String>,
    /// Queues it takes jobs from; all if empty.
    queues: Vec<Text<QueueName>>,
    /// Job types it can run; all if empty.
    types: Vec<Text<JobType>>,
    /// How many jobs it runs at once.
    #[schemars(range(min = 1, max = 100_000))]
    concurrency: Option<u32>,
    /// Version of its program.
    version: Option<String>,
    /// Whether it sends heartbeats, and so is considered lost without them; true if not given.
    heartbeats: Option<bool>,
}

impl WorkerBody {
    /// The library's worker.
    pub(crate) fn into_worker(self) -> Result<NewWorker, ApiError> {
        let concurrency = self.concurrency.unwrap_or(1);
        if !(1..=WORKER_CONCURRENCY_MAX).contains(&concurrency) {
            let message = format!("is {concurrency}, allowed is 1 to {WORKER_CONCURRENCY_MAX}");
            return Err(ApiError::invalid("concurrency", message));
        }
        Ok(NewWorker {
            name: self.name.unwrap_or_default(),
            queues: self.queues.into_iter().map(|queue| queue.0).collect(),
            types: self.types.into_iter().map(|name| name.0).collect(),
            concurrency,
            version: self.version,
            heartbeats: self.heartbeats.unwrap_or(true),
        })
    }
}

/// A registered worker.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Registered {
    pub(crate) worker_id: Text<WorkerId>,
    /// Interval of heartbeats.
    pub(crate) heartbeat_every: Span,
}

/// Parses the id of a worker; a malformed one is 404.
pub(crate) fn worker_id(text: &str) -> Result<WorkerId, ApiError> {
    text.parse().map_err(|_| ApiError::not_found(format!("no worker {}: register again", shown(text))))
}

/// A claim for jobs.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    worker_id: String,
    /// Queues to claim from; as registered if not given.
    queues: Option<Vec<Text<QueueName>>>,
    /// Job types to claim; as registered if not given.
    types: Option<Vec<Text<JobType>>>,
    /// Maximum number of jobs, 1 to 1000; 1 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// How long to wait for the first job, at most 60 s.
    pub(crate) wait: Option<Span>,
}

impl ClaimBody {
    /// The library's request.
    pub(crate) fn into_request(self) -> Result<ClaimRequest, ApiError> {
        let limit = self.limit.unwrap_or(1);
        if !(1..=limits::CLAIM_JOBS_MAX).contains(&limit) {
            let message = format!("is {limit}, allowed is 1 to {}", limits::CLAIM_JOBS_MAX);
            return Err(ApiError::invalid("limit", message));
        }
        if self.wait.is_some_and(|wait| wait.0 > limits::CLAIM_WAIT_MAX) {
            return Err(ApiError::invalid("wait", "is longer than 60s"));
        }
        Ok(ClaimRequest {
            worker: worker_id(&self.worker_id)?,
            queues: self.queues.map(|queues| queues.into_iter().map(|queue| queue.0).collect()),
            types: self.types.map(|types| types.into_iter().map(|name| name.0).collect()),
            limit,
        })
    }
}

/// Claimed jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClaimView {
    pub(crate) jobs: Vec<ClaimedView>,
    /// Whether the worker is paused.
    pub(crate) paused: bool,
}

/// A claimed job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClaimedJob")]
pub(crate) struct ClaimedView {
    id: Text<JobId>,
    /// Fencing token, required in every write for this job.
    fence: u64,
    /// Number of attempts so far, including this one.
    attempt: u32,
    attempt_id: String,
    previous_attempt_id: Option<String>,
    tenant: Text<Tenant>,
    r#type: Text<JobType>,
    queue: Text<QueueName>,
    /// Priority, 0 to 100.
    priority: u8,
    /// Maximum number of attempts.
    max_attempts: u32,
    /// Number of failed attempts before this one.
    failures: u32,
    /// Number of crashes among them.
    crashes: u32,
    /// The error of the last failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorView>,
    /// The retry policy, if it leaves the delay to the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<EffectiveRetry>,
    #[serde(flatten)]
    payload: payload::Shown,
    idempotency_key: Option<String>,
    correlation_id: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    tags: BTreeMap<String, String>,
    /// URL that is called when the job is final.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<String>,
    traceparent: Option<String>,
    /// When the attempt times out.
    deadline: Option<Moment>,
    /// When the lease expires unless a heartbeat extends it.
    lease_expires_at: Option<Moment>,
    checkpoints: Vec<CheckpointView>,
    /// The job's ticket, signed by the store, if tickets are on; the library has verified it, and a worker can verify it
    /// again.
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<Value>,
}

impl From<Claimed> for ClaimedView {
    fn from(claimed: Claimed) -> ClaimedView {
        let ticket = claimed.ticket().map(|ticket| json!(ticket));
        let Claimed { job, spec, checkpoints } = claimed;
        let attempt = job.attempt_id();
        ClaimedView {
            id: Text(job.id),
            fence: job.fence.0,
            attempt: job.attempt,
            attempt_id: attempt.to_string(),
            previous_attempt_id: attempt.previous().as_ref().map(AttemptId::to_string),
            tenant: Text(job.lane.tenant.clone()),
            r#type: Text(job.lane.job_type.clone()),
            queue: Text(job.lane.queue.clone()),
            priority: job.priority.value(),
            max_attempts: job.policy.retry.max_attempts,
            failures: job.failures,
            crashes: job.crashes,
            error: job.details.error.as_ref().map(ErrorView::from),
            retry: (job.policy.retry.strategy == Strategy::Custom).then(|| (&job.policy.retry).into()),
            payload: (&spec.payload).into(),
            idempotency_key: spec.idempotency_key,
            correlation_id: spec.labels.correlation_id,
            tags: spec.labels.tags,
            callback_url: spec.labels.callback_url,
            traceparent: spec.traceparent,
            deadline: job.lease.map(|lease| lease.deadline_at.into()),
            lease_expires_at: job.lease.map(|lease| lease.expires_at.into()),
            checkpoints: checkpoints.into_iter().map(CheckpointView::from).collect(),
            ticket,
        }
    }
}

/// Heartbeats of a worker.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatBody {
    pub(crate) worker_id: String,
    #[serde(default)]
    pub(crate) jobs: Vec<HeartbeatItemBody>,
    /// How long to wait for a directive, at most 20 s; returns at once if there is one.
    pub(crate) wait: Option<Span>,
}

/// A heartbeat for one job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatItemBody {
    id: String,
    fence: u64,
    progress: Option<ProgressBody>,
    /// Lines for the job's log.
    logs: Option<Vec<String>>,
    /// A shorter time limit for this attempt, from now.
    timeout: Option<Span>,
}

/// Progress of a job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProgressBody {
    #[schemars(range(min = 0, max = 100))]
    percent: f64,
    message: Option<String>,
}

impl HeartbeatItemBody {
    /// The id as given, and the heartbeat if the id is well-formed.
    pub(crate) fn into_beat(self) -> (String, Option<HeartbeatItem>) {
        let job = self.id.parse().ok();
        let progress = self.progress.map(|given| Progress { percent: given.percent, message: given.message });
        let beat = job.map(|job| HeartbeatItem {
            job,
            fence: Fence(self.fence),
            progress,
            logs: self.logs.unwrap_or_default(),
            timeout: self.timeout.map(|span| span.0),
        });
        (self.id, beat)
    }
}

/// The response to heartbeats.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HeartbeatView {
    pub(crate) jobs: Vec<DirectiveView>,
    pub(crate) worker: WorkerStatus,
}

/// The directive for one job.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Directive")]
pub(crate) struct DirectiveView {
    pub(crate) id: String,
    /// `continue`, `suspend`, `cancel`, `lost` or `timeout`.
    pub(crate) directive: &'static str,
}

/// Whether and how the worker is paused.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkerStatus {
    paused: bool,
    mode: Option<&'static str>,
}

impl From<&HeartbeatReply> for WorkerStatus {
    fn from(pulse: &HeartbeatReply) -> WorkerStatus {
        WorkerStatus { paused: pulse.paused.is_some(), mode: pulse.paused.map(mode_word) }
    }
}

/// The name of a pause mode.
pub(crate) fn mode_word(mode: PauseMode) -> &'static str {
    match mode {
        PauseMode::Graceful => "graceful",
        PauseMode::Aggressive => "aggressive",
    }
}
