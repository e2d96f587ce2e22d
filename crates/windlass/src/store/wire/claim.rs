//! Workers, claims and heartbeats.

use std::sync::Arc;

use serde_json::json;
use windlass_api::claim::{
    ClaimBody, ClaimedView, HeartbeatBody, HeartbeatItemBody, ProgressBody, WorkerBody, WorkerStatus,
};
use windlass_api::job::priority;
use windlass_api::job_details::Checkpoint as ShownCheckpoint;
use windlass_api::json::Json;
use windlass_api::payload::Shown;
use windlass_api::text::Text;
use windlass_api::time::Span;

use super::invalid;
use crate::clock::Timestamp;
use crate::error::Invalid;
use crate::job::{
    AttemptId, Fence, JobMetadata, JobRecord, JobState, Lane, Lease, Policy, Progress, RetryPolicy, Seq,
    Spec, Strategy, Timeouts, WorkerId,
};
use crate::limits;
use crate::store::command::claim::{Checkpoint, ClaimRequest, Claimed};
use crate::store::command::heartbeat::{HeartbeatItem, HeartbeatReply};
use crate::store::command::worker::NewWorker;

impl TryFrom<WorkerBody> for NewWorker {
    type Error = Invalid;

    fn try_from(body: WorkerBody) -> Result<NewWorker, Invalid> {
        let (concurrency, max) = (body.concurrency.unwrap_or(1), limits::WORKER_CONCURRENCY_MAX);
        if !(1..=max).contains(&concurrency) {
            return Err(invalid("concurrency", format!("is {concurrency}, allowed is 1 to {max}")));
        }
        Ok(NewWorker {
            name: body.name.unwrap_or_default(),
            queues: body.queues.into_iter().map(|queue| queue.0).collect(),
            types: body.types.into_iter().map(|name| name.0).collect(),
            concurrency,
            version: body.version,
            heartbeats: body.heartbeats.unwrap_or(true),
        })
    }
}

impl From<&NewWorker> for WorkerBody {
    fn from(new: &NewWorker) -> WorkerBody {
        WorkerBody {
            name: Some(new.name.clone()),
            queues: new.queues.iter().cloned().map(Text).collect(),
            types: new.types.iter().cloned().map(Text).collect(),
            concurrency: Some(new.concurrency),
            version: new.version.clone(),
            heartbeats: Some(new.heartbeats),
        }
    }
}

/// The request of this worker.
///
/// # Errors
/// [`Invalid`] names the field that is out of range.
pub fn claim_request(body: ClaimBody, worker: WorkerId) -> Result<ClaimRequest, Invalid> {
    let limit = body.limit.unwrap_or(1);
    if !(1..=limits::CLAIM_JOBS_MAX).contains(&limit) {
        return Err(invalid("limit", format!("is {limit}, allowed is 1 to {}", limits::CLAIM_JOBS_MAX)));
    }
    if body.wait.is_some_and(|wait| wait.0 > limits::CLAIM_WAIT_MAX) {
        return Err(invalid("wait", "is longer than 60s"));
    }
    Ok(ClaimRequest {
        worker,
        queues: body.queues.map(|queues| queues.into_iter().map(|queue| queue.0).collect()),
        types: body.types.map(|types| types.into_iter().map(|name| name.0).collect()),
        limit,
    })
}

impl From<&ClaimRequest> for ClaimBody {
    fn from(request: &ClaimRequest) -> ClaimBody {
        ClaimBody {
            worker_id: request.worker.to_string(),
            queues: request.queues.as_ref().map(|queues| queues.iter().cloned().map(Text).collect()),
            types: request.types.as_ref().map(|types| types.iter().cloned().map(Text).collect()),
            limit: Some(request.limit),
            wait: None,
        }
    }
}

impl From<Checkpoint> for ShownCheckpoint {
    fn from(checkpoint: Checkpoint) -> ShownCheckpoint {
        ShownCheckpoint { value: Json::stored(&checkpoint.value), step: checkpoint.step }
    }
}

impl From<ShownCheckpoint> for Checkpoint {
    fn from(shown: ShownCheckpoint) -> Checkpoint {
        let value = shown.value.as_ref().map_or(&b"null"[..], Json::bytes);
        Checkpoint { step: shown.step, value: Arc::from(value) }
    }
}

impl From<Claimed> for ClaimedView {
    fn from(claimed: Claimed) -> ClaimedView {
        let ticket = claimed.ticket().map(|ticket| json!(ticket));
        let Claimed { job, spec, checkpoints } = claimed;
        let attempt = job.attempt_id();
        let Shown { payload, payload_base64, content_type } = (&spec.payload).into();
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
            checkpoints: checkpoints.into_iter().map(Into::into).collect(),
            ticket,
        }
    }
}

/// A job that this worker has just claimed at a server.
pub fn claimed(shown: ClaimedView, worker: WorkerId, now: Timestamp) -> Claimed {
    let deadline_at = shown.deadline.map_or(Timestamp::MAX, |moment| moment.0);
    let expires_at = shown.lease_expires_at.map_or(Timestamp::MAX, |moment| moment.0);
    let lane = Lane { tenant: shown.tenant.0, queue: shown.queue.0, job_type: shown.r#type.0 };
    // The limit as the server counts it: this side only needs the remaining time.
    let timeouts = Timeouts { execution: deadline_at.since(now), ..Timeouts::default() };
    let mut policy = Policy { timeouts, ..Policy::default() };
    policy.retry = shown.retry.map_or(policy.retry, RetryPolicy::from);
    policy.retry.max_attempts = shown.max_attempts;
    let mut job = JobRecord {
        state: JobState::Running,
        priority: priority(shown.priority),
        attempt: shown.attempt,
        failures: shown.failures,
        crashes: shown.crashes,
        fence: Fence(shown.fence),
        started_at: Some(now),
        lease: Some(Lease { worker, expires_at, deadline_at }),
        ..JobRecord::new(Seq(0), shown.id.0, Arc::new(lane), Arc::new(policy), now)
    };
    if let Some(error) = shown.error {
        job.details_mut().error = Some(error.into());
    }
    // A ticket of another form is none, and the job is refused if tickets are required.
    if let Some(ticket) = shown.ticket.and_then(|ticket| serde_json::from_value(ticket).ok()) {
        job.details_mut().ticket = Some(ticket);
    }
    let payload = Shown {
        payload: shown.payload,
        payload_base64: shown.payload_base64,
        content_type: shown.content_type,
    };
    let spec = Spec {
        payload: payload.into(),
        idempotency_key: shown.idempotency_key,
        unique_key: None,
        concurrency_key: None,
        metadata: JobMetadata {
            tags: shown.tags,
            correlation_id: shown.correlation_id,
            callback_url: shown.callback_url,
        },
        owner: String::new(),
        traceparent: shown.traceparent,
        tracestate: shown.tracestate,
        baggage: shown.baggage,
        after: Vec::new(),
        after_any: Vec::new(),
    };
    Claimed { job, spec, checkpoints: shown.checkpoints.into_iter().map(Checkpoint::from).collect() }
}

/// The id as given, and the heartbeat if the id is well-formed.
pub fn heartbeat_item(body: HeartbeatItemBody) -> (String, Option<HeartbeatItem>) {
    let job = body.id.parse().ok();
    let progress = body.progress.map(|given| Progress { percent: given.percent, message: given.message });
    let item = job.map(|job| HeartbeatItem {
        job,
        fence: Fence(body.fence),
        progress,
        logs: body.logs.unwrap_or_default(),
        timeout: body.timeout.map(|span| span.0),
    });
    (body.id, item)
}

impl From<&HeartbeatItem> for HeartbeatItemBody {
    fn from(item: &HeartbeatItem) -> HeartbeatItemBody {
        let progress = item.progress.clone();
        HeartbeatItemBody {
            id: item.job.to_string(),
            fence: item.fence.0,
            progress: progress.map(|Progress { percent, message }| ProgressBody { percent, message }),
            logs: (!item.logs.is_empty()).then(|| item.logs.clone()),
            timeout: item.timeout.map(Span),
        }
    }
}

/// The heartbeats of a worker.
pub fn heartbeats(worker: WorkerId, items: &[HeartbeatItem], wait: Option<Span>) -> HeartbeatBody {
    let jobs = items.iter().map(HeartbeatItemBody::from).collect();
    HeartbeatBody { worker_id: worker.to_string(), jobs, wait }
}

impl From<&HeartbeatReply> for WorkerStatus {
    fn from(reply: &HeartbeatReply) -> WorkerStatus {
        let mode = reply.paused.map(|mode| mode.as_str().to_owned());
        WorkerStatus { paused: mode.is_some(), mode }
    }
}
