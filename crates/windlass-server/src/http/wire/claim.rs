//! Workers, claims and heartbeats on the wire.

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

/// A worker that presents itself.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct WorkerBody {
    /// A label for people.
    name: Option<String>,
    /// Which queues it takes from; all if empty.
    queues: Vec<Text<QueueName>>,
    /// Which types it can run; any if empty.
    types: Vec<Text<JobType>>,
    /// How many jobs it runs at once.
    #[schemars(range(min = 1, max = 100_000))]
    concurrency: Option<u32>,
    /// The version of its program.
    version: Option<String>,
    /// Whether it beats, and so is dead when silent; true if not given.
    heartbeats: Option<bool>,
}

impl WorkerBody {
    /// The worker, as the library takes it.
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

/// A worker that was registered.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Registered {
    pub(crate) worker_id: Text<WorkerId>,
    /// How often it should beat.
    pub(crate) heartbeat_every: Span,
}

/// The id of a worker, as given; one that is malformed is the id of nobody.
pub(crate) fn worker_id(text: &str) -> Result<WorkerId, ApiError> {
    text.parse().map_err(|_| ApiError::not_found(format!("no worker {}: register again", shown(text))))
}

/// What a worker asks for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimBody {
    worker_id: String,
    /// From which queues; as registered if not given.
    queues: Option<Vec<Text<QueueName>>>,
    /// Which types; as registered if not given.
    types: Option<Vec<Text<JobType>>>,
    /// How many at most, 1 to 1000; 1 if not given.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// How long to wait for the first, at most 60 s.
    pub(crate) wait: Option<Span>,
}

impl ClaimBody {
    /// The request, as the library takes it.
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

/// What a claim answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClaimView {
    pub(crate) jobs: Vec<ClaimedView>,
    /// Whether the worker is paused.
    pub(crate) paused: bool,
}

/// A job that is the worker's to run.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ClaimedJob")]
pub(crate) struct ClaimedView {
    id: Text<JobId>,
    /// To be named in every write for this job.
    fence: u64,
    /// Starts so far, this one included.
    attempt: u32,
    attempt_id: String,
    previous_attempt_id: Option<String>,
    tenant: Text<Tenant>,
    r#type: Text<JobType>,
    queue: Text<QueueName>,
    /// How urgent it is, 0 to 100.
    priority: u8,
    /// How many attempts may fail before the job is given up.
    max_attempts: u32,
    /// How many attempts before this one failed.
    failures: u32,
    /// How many of them were crashes.
    crashes: u32,
    /// The error of the last one that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorView>,
    /// Its retry policy, if that leaves it to the worker when it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<EffectiveRetry>,
    #[serde(flatten)]
    payload: payload::Shown,
    idempotency_key: Option<String>,
    correlation_id: Option<String>,
    /// Its tags, if it has any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    tags: BTreeMap<String, String>,
    /// Where its end is reported, if anywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<String>,
    traceparent: Option<String>,
    /// When the attempt must be over.
    deadline: Option<Moment>,
    /// When the lease ends unless it is extended by a heartbeat.
    lease_expires_at: Option<Moment>,
    checkpoints: Vec<CheckpointView>,
    /// Signed by the store, where tickets are on; verified already, and there to be verified again.
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

/// Signs of life.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatBody {
    pub(crate) worker_id: String,
    #[serde(default)]
    pub(crate) jobs: Vec<HeartbeatItemBody>,
    /// How long to wait for something to be done, at most 20 s; answers at once if there is something, or if anything was
    /// interrupted meanwhile.
    pub(crate) wait: Option<Span>,
}

/// A sign of life for one job.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeartbeatItemBody {
    id: String,
    fence: u64,
    progress: Option<ProgressBody>,
    /// Lines for its log.
    logs: Option<Vec<String>>,
    /// A shorter limit for this attempt, from now.
    timeout: Option<Span>,
}

/// How far a job is.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ProgressBody {
    #[schemars(range(min = 0, max = 100))]
    percent: f64,
    message: Option<String>,
}

impl HeartbeatItemBody {
    /// The id as given, and the beat if it is the id of anything.
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

/// What a heartbeat answers.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct HeartbeatView {
    pub(crate) jobs: Vec<DirectiveView>,
    pub(crate) worker: WorkerStatus,
}

/// What to do about one job.
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

/// The word for a way to pause.
pub(crate) fn mode_word(mode: PauseMode) -> &'static str {
    match mode {
        PauseMode::Graceful => "graceful",
        PauseMode::Aggressive => "aggressive",
    }
}
