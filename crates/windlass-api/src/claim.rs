//! Workers, claims and heartbeats in the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::clock::Timestamp;
use windlass_core::job::{
    AttemptId, Fence, GroupDecision, JobId, JobMetadata, JobRecord, JobState, JobType, Lane, Lease, Policy,
    QueueName, RetryPolicy, Seq, Spec, Strategy, Tenant, Timeouts, WorkerId, WorkerVersion,
};
use windlass_core::skip_none;

use crate::error::ErrorFields;
use crate::job::{JobError, priority};
use crate::job_details::{Checkpoint, Child};
use crate::json::Json;
use crate::payload::PayloadView;
use crate::retry::EffectiveRetry;
use crate::stream::StreamPart;
use crate::text::Text;
use crate::time::{Moment, Span};

/// A worker to register.
#[skip_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WorkerRequest")]
#[serde(default, deny_unknown_fields)]
pub struct WorkerBody {
    /// Display name.
    pub name: Option<String>,
    /// Queues it takes jobs from; all if empty.
    pub queues: Vec<Text<QueueName>>,
    /// Job types it can run; all if empty.
    pub types: Vec<Text<JobType>>,
    /// How many jobs it runs at once.
    #[schemars(range(min = 1, max = 100_000))]
    pub concurrency: Option<u32>,
    /// Version of its program.
    pub version: Option<String>,
    /// Whether it sends heartbeats, and so is considered lost without them; true if not given.
    pub heartbeats: Option<bool>,
}

/// A registered worker.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RegisteredWorker")]
pub struct RegisteredWorker {
    /// Id of the worker, for all further requests.
    pub worker_id: Text<WorkerId>,
    /// Interval of heartbeats.
    pub heartbeat_every: Span,
    /// Number of the worker protocol that the server speaks; 1 if an older server does not say it.
    #[serde(default = "protocol")]
    pub protocol: u32,
}

/// The number of the worker protocol, which `docs/protocol.md` describes.
pub const PROTOCOL: u32 = 1;

fn protocol() -> u32 {
    PROTOCOL
}

/// A claim for jobs.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClaimRequest")]
#[serde(deny_unknown_fields)]
pub struct ClaimBody {
    /// Id of the worker.
    #[schemars(with = "Text<WorkerId>")]
    pub worker_id: String,
    /// Queues to claim from; as registered if not given.
    pub queues: Option<Vec<Text<QueueName>>>,
    /// Job types to claim; as registered if not given.
    pub types: Option<Vec<Text<JobType>>>,
    /// Maximum number of jobs, 1 to 1000; 1 if not given.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<usize>,
    /// How long to wait for the first job, at most 60 s.
    pub wait: Option<Span>,
}

/// Claimed jobs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClaimResponse")]
pub struct ClaimView {
    /// The claimed jobs.
    pub jobs: Vec<ClaimedView>,
    /// Whether the worker is paused.
    pub paused: bool,
}

/// A claimed job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClaimedJob")]
pub struct ClaimedView {
    /// Id of the job.
    pub id: Text<JobId>,
    /// Fencing token, required in every write for this job.
    pub fence: u64,
    /// Number of attempts so far, including this one.
    pub attempt: u32,
    /// Id of the attempt.
    pub attempt_id: String,
    /// Id of the attempt before it.
    pub previous_attempt_id: Option<String>,
    /// Tenant.
    pub tenant: Text<Tenant>,
    /// Job type.
    pub r#type: Text<JobType>,
    /// Queue.
    pub queue: Text<QueueName>,
    /// The version that the job requires of its worker, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_version: Option<Text<WorkerVersion>>,
    /// Priority, 0 to 100.
    pub priority: u8,
    /// Maximum number of attempts.
    pub max_attempts: u32,
    /// Number of failed attempts before this one.
    pub failures: u32,
    /// Number of crashes among them.
    pub crashes: u32,
    /// The error of the last failed attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<JobError>,
    /// The retry policy, if it leaves the delay to the worker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<EffectiveRetry>,
    /// The payload, if it is JSON.
    #[serde(default, deserialize_with = "crate::json::present", skip_serializing_if = "Option::is_none")]
    pub payload: Option<Json>,
    /// The payload in base64, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Its content type.
    pub content_type: String,
    /// A second submission with the same key within the window returns the same job.
    pub idempotency_key: Option<String>,
    /// The caller's id for the operation it belongs to.
    pub correlation_id: Option<String>,
    /// Tags.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tags: BTreeMap<String, String>,
    /// URL that is called when the job is final.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_url: Option<String>,
    /// The trace it belongs to.
    pub traceparent: Option<String>,
    /// The `tracestate` of that trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tracestate: Option<String>,
    /// Data for everything that the job causes, in the format of W3C Baggage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baggage: Option<String>,
    /// When the attempt times out.
    pub deadline: Option<Moment>,
    /// When the lease expires unless a heartbeat extends it.
    pub lease_expires_at: Option<Moment>,
    /// When its lifetime ends: no sleep and no timeout can last longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Moment>,
    /// Checkpoints saved by earlier attempts.
    pub checkpoints: Vec<Checkpoint>,
    /// Its decided groups of children.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<ClaimedGroup>,
    /// The job's ticket, signed by the store, if tickets are on; the library has verified it, and a worker can verify it
    /// again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticket: Option<Value>,
}

impl ClaimedView {
    /// The claimed job, without checkpoints and groups.
    pub fn new(job: &JobRecord, spec: Spec) -> ClaimedView {
        let attempt = job.attempt_id();
        let PayloadView { payload, payload_base64, content_type } = (&spec.payload).into();
        ClaimedView {
            id: Text(job.id),
            fence: job.fence.0,
            attempt: job.attempt,
            attempt_id: attempt.to_string(),
            previous_attempt_id: attempt.previous().as_ref().map(AttemptId::to_string),
            tenant: Text(job.lane.tenant.clone()),
            r#type: Text(job.lane.job_type.clone()),
            queue: Text(job.lane.queue.clone()),
            requires_version: job.lane.version.clone().map(Text),
            priority: job.priority.value(),
            max_attempts: job.policy.retry.max_attempts,
            failures: job.failures,
            crashes: job.crashes,
            error: job.details.error.as_ref().map(Into::into),
            retry: (job.policy.retry.strategy == Strategy::Custom).then(|| (&job.policy.retry).into()),
            payload,
            payload_base64,
            content_type,
            idempotency_key: spec.idempotency_key,
            correlation_id: spec.metadata.correlation_id,
            tags: spec.metadata.tags,
            callback_url: spec.metadata.callback_url,
            traceparent: spec.traceparent,
            tracestate: spec.tracestate,
            baggage: spec.baggage,
            deadline: job.lease.map(|lease| lease.deadline_at.into()),
            lease_expires_at: job.lease.map(|lease| lease.expires_at.into()),
            expires_at: Some(job.expires_at.into()),
            checkpoints: Vec::new(),
            groups: Vec::new(),
            ticket: job.details.ticket.as_deref().map(|ticket| json!(ticket)),
        }
    }

    /// The record and the submitted data, as far as a claim contains them, of a job that this worker has just claimed.
    pub fn into_parts(self, worker: WorkerId, now: Timestamp) -> (JobRecord, Spec) {
        let deadline_at = self.deadline.map_or(Timestamp::MAX, |moment| moment.0);
        let expires_at = self.lease_expires_at.map_or(Timestamp::MAX, |moment| moment.0);
        let lane = Lane::new(self.tenant.0, self.queue.0, self.r#type.0)
            .requiring(self.requires_version.map(|version| version.0));
        // The limits as the server counts them: this side only needs the remaining time.
        let (execution, lease) = (deadline_at.since(now), expires_at.since(now));
        let timeouts = Timeouts { execution, lease, ..Timeouts::default() };
        let mut policy = Policy { timeouts, ..Policy::default() };
        policy.retry = self.retry.map_or(policy.retry, RetryPolicy::from);
        policy.retry.max_attempts = self.max_attempts;
        let mut job = JobRecord {
            state: JobState::Running,
            priority: priority(self.priority),
            attempt: self.attempt,
            failures: self.failures,
            crashes: self.crashes,
            fence: Fence(self.fence),
            started_at: Some(now),
            lease: Some(Lease { worker, expires_at, deadline_at }),
            // A server of an older version does not say.
            expires_at: self.expires_at.map_or(Timestamp::MAX, |moment| moment.0),
            ..JobRecord::new(Seq(0), self.id.0, Arc::new(lane), Arc::new(policy), now)
        };
        if let Some(error) = self.error {
            job.details_mut().error = Some(error.into());
        }
        // A ticket of another form is none, and the job is refused if tickets are required.
        if let Some(ticket) = self.ticket.and_then(|ticket| serde_json::from_value(ticket).ok()) {
            job.details_mut().ticket = Some(ticket);
        }
        let payload = PayloadView {
            payload: self.payload,
            payload_base64: self.payload_base64,
            content_type: self.content_type,
        };
        let spec = Spec {
            payload: payload.into(),
            idempotency_key: self.idempotency_key,
            metadata: JobMetadata {
                tags: self.tags,
                correlation_id: self.correlation_id,
                callback_url: self.callback_url,
            },
            traceparent: self.traceparent,
            tracestate: self.tracestate,
            baggage: self.baggage,
            ..Spec::unknown()
        };
        (job, spec)
    }
}

/// A decided group of a claimed job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct ClaimedGroup {
    /// Number of the group within the parent.
    pub group: u64,
    /// Name of the group within the parent.
    pub name: String,
    /// Number of children.
    pub total: u32,
    /// `well` or `badly`.
    #[schemars(with = "String")]
    pub decided: GroupDecision,
    /// The children, in input order.
    pub children: Vec<Child>,
    /// If children are left out: where `GET /jobs/{id}/children?group=NAME` continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Heartbeats of a worker.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HeartbeatRequest")]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBody {
    /// Id of the worker.
    #[schemars(with = "Text<WorkerId>")]
    pub worker_id: String,
    /// Its running jobs.
    #[serde(default)]
    pub jobs: Vec<HeartbeatItemBody>,
    /// How long to wait for a directive, at most 20 s; returns at once if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
}

/// A heartbeat for one job.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Heartbeat")]
#[serde(deny_unknown_fields)]
pub struct HeartbeatItemBody {
    /// Id of the job.
    #[schemars(with = "Text<JobId>")]
    pub id: String,
    /// The fence of the claim.
    pub fence: u64,
    /// Progress, as last reported by the worker.
    pub progress: Option<ProgressBody>,
    /// Lines for the job's log.
    pub logs: Option<Vec<String>>,
    /// A shorter time limit for this attempt, from now.
    pub timeout: Option<Span>,
}

/// Progress of a job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ProgressReport")]
#[serde(deny_unknown_fields)]
pub struct ProgressBody {
    /// 0 to 100.
    #[schemars(range(min = 0, max = 100))]
    pub percent: f64,
    /// A message for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A checkpoint's value.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CheckpointRequest")]
#[serde(deny_unknown_fields)]
pub struct CheckpointBody {
    /// The fence of the claim.
    pub fence: u64,
    /// The worker that claimed the job. Checked if given; without it the fence alone identifies the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Text<WorkerId>>")]
    pub worker_id: Option<String>,
    /// The value: any JSON.
    pub value: Json,
}

/// Writes for a running job: all are written, or none.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttemptWrites {
    /// The fence of the claim.
    pub fence: u64,
    /// The worker that claimed the job. Checked if given; without it the fence alone identifies the claim.
    #[schemars(with = "Option<Text<WorkerId>>")]
    pub worker_id: Option<String>,
    /// Checkpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<SavedStep>,
    /// Progress.
    pub progress: Option<ProgressBody>,
    /// Lines for the job's log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<String>,
    /// Partial output.
    pub stream: Option<StreamPart>,
}

/// Writes for several running jobs.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CheckpointsRequest")]
#[serde(deny_unknown_fields)]
pub struct CheckpointsBody {
    /// Id of the worker.
    #[schemars(with = "Text<WorkerId>")]
    pub worker_id: String,
    /// At most 1000.
    #[schemars(with = "Vec<JobWritesBody>", length(max = 1000))]
    pub jobs: Vec<Json>,
}

/// Writes for one of several running jobs: all are written, or none.
#[skip_none]
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobWrites")]
#[serde(deny_unknown_fields)]
pub struct JobWritesBody {
    /// Id of the job.
    pub id: Text<JobId>,
    /// The fence of the claim.
    pub fence: u64,
    /// Checkpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<SavedStep>,
    /// Progress.
    pub progress: Option<ProgressBody>,
    /// Lines for the job's log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<String>,
    /// Partial output.
    pub stream: Option<StreamPart>,
}

/// The results, in the order of the request.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CheckpointsResponse")]
pub struct CheckpointsView {
    /// The results.
    pub jobs: Vec<JobWritesView>,
}

/// The result of the writes for one job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobWritesResult")]
pub struct JobWritesView {
    /// The id as given.
    pub id: Value,
    /// `saved`, `stale` or `rejected`.
    pub status: String,
    /// Why they were rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorFields>,
}

/// A checkpoint to save.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SavedCheckpoint")]
#[serde(deny_unknown_fields)]
pub struct SavedStep {
    /// Name of the step.
    pub step: String,
    /// The value: any JSON.
    pub value: Json,
}

/// The response to heartbeats.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HeartbeatResponse")]
pub struct HeartbeatView {
    /// The directives, in the order of the request.
    pub jobs: Vec<DirectiveView>,
    /// Whether the worker itself is paused.
    pub worker: WorkerStatus,
}

/// The directive for one job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Directive")]
pub struct DirectiveView {
    /// Id of the job, as given: a text that is not an id is `lost`.
    pub id: String,
    /// `continue`, `suspend`, `cancel`, `lost` or `timeout`.
    pub directive: String,
}

/// Whether and how the worker is paused.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct WorkerStatus {
    /// Whether it is paused, and gets no jobs.
    pub paused: bool,
    /// `graceful` or `aggressive`; null if it is not paused.
    pub mode: Option<String>,
}
