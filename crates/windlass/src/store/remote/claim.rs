//! Worker registration, claims and deregistration at a server.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::HeaderName;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::Remote;
use super::client::Call;
use super::job::{ShownError, ShownRetry, given, payload};
use super::text::{Moment, Span};
use crate::clock::{Timestamp, WaitLimit};
use crate::error::{StoreError, WorkError};
use crate::job::{
    Fence, JobId, JobMetadata, JobRecord, JobState, JobType, Lane, Lease, Policy, Priority, QueueName,
    RetryPolicy, Seq, Spec, Tenant, Timeouts, WorkerId,
};
use crate::limits;
use crate::store::command::claim::{Checkpoint, ClaimAnswer, ClaimRequest, Claimed};
use crate::store::command::worker::NewWorker;
use crate::store::documents::config::Worker;
use crate::ticket::Ticket;

/// The number of jobs that a deregistered worker has released.
static RELEASED: HeaderName = HeaderName::from_static("windlass-released");

#[derive(Deserialize)]
struct Registered {
    worker_id: WorkerId,
}

#[derive(Serialize)]
struct ClaimBody<'a> {
    worker_id: WorkerId,
    #[serde(skip_serializing_if = "Option::is_none")]
    queues: Option<&'a [QueueName]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    types: Option<&'a [JobType]>,
    limit: usize,
    wait: Span,
}

#[derive(Deserialize)]
struct ClaimView {
    jobs: Vec<ClaimedView>,
    paused: bool,
}

#[derive(Deserialize)]
struct ClaimedView {
    id: JobId,
    fence: u64,
    attempt: u32,
    r#type: JobType,
    queue: QueueName,
    #[serde(default)]
    tenant: Tenant,
    priority: Option<Priority>,
    max_attempts: Option<u32>,
    #[serde(default)]
    failures: u32,
    #[serde(default)]
    crashes: u32,
    error: Option<ShownError>,
    retry: Option<ShownRetry>,
    #[serde(default, deserialize_with = "given")]
    payload: Option<Box<RawValue>>,
    payload_base64: Option<String>,
    content_type: Option<String>,
    idempotency_key: Option<String>,
    correlation_id: Option<String>,
    #[serde(default)]
    tags: BTreeMap<String, String>,
    callback_url: Option<String>,
    traceparent: Option<String>,
    deadline: Option<Moment>,
    lease_expires_at: Option<Moment>,
    #[serde(default)]
    checkpoints: Vec<ShownCheckpoint>,
    ticket: Option<Box<Ticket>>,
}

/// A saved step.
#[derive(Deserialize)]
pub(super) struct ShownCheckpoint {
    step: String,
    value: Box<RawValue>,
}

impl From<ShownCheckpoint> for Checkpoint {
    fn from(shown: ShownCheckpoint) -> Checkpoint {
        Checkpoint { step: shown.step, value: Arc::from(shown.value.get().as_bytes()) }
    }
}

impl ClaimedView {
    fn into_claimed(self, worker: WorkerId, now: Timestamp) -> Claimed {
        let deadline_at = self.deadline.map_or(Timestamp::MAX, |moment| moment.0);
        let expires_at = self.lease_expires_at.map_or(Timestamp::MAX, |moment| moment.0);
        let lane = Lane { tenant: self.tenant, queue: self.queue, job_type: self.r#type };
        // The limit as the server counts it: this side only needs the remaining time.
        let timeouts = Timeouts { execution: deadline_at.since(now), ..Timeouts::default() };
        let mut policy = Policy { timeouts, ..Policy::default() };
        // Older servers send neither.
        policy.retry = self.retry.map_or(policy.retry, RetryPolicy::from);
        policy.retry.max_attempts = self.max_attempts.unwrap_or(policy.retry.max_attempts);
        let mut job = JobRecord {
            state: JobState::Running,
            priority: self.priority.unwrap_or_default(),
            attempt: self.attempt,
            failures: self.failures,
            crashes: self.crashes,
            fence: Fence(self.fence),
            started_at: Some(now),
            lease: Some(Lease { worker, expires_at, deadline_at }),
            ..JobRecord::new(Seq(0), self.id, Arc::new(lane), Arc::new(policy), now)
        };
        if let Some(error) = self.error {
            job.details_mut().error = Some(error.into());
        }
        if self.ticket.is_some() {
            job.details_mut().ticket = self.ticket;
        }
        let spec = Spec {
            payload: payload(self.payload, self.payload_base64, self.content_type),
            idempotency_key: self.idempotency_key,
            unique_key: None,
            concurrency_key: None,
            labels: JobMetadata {
                tags: self.tags,
                correlation_id: self.correlation_id,
                callback_url: self.callback_url,
            },
            owner: String::new(),
            traceparent: self.traceparent,
            after: Vec::new(),
            after_any: Vec::new(),
        };
        Claimed { job, spec, checkpoints: self.checkpoints.into_iter().map(Checkpoint::from).collect() }
    }
}

impl Remote {
    pub(crate) async fn register(&self, new: NewWorker) -> Result<Worker, WorkError> {
        let body = json!({
            "name": new.name, "queues": new.queues, "types": new.types, "concurrency": new.concurrency,
            "version": new.version, "heartbeats": new.heartbeats,
        });
        // A second registration after a lost answer leaves an unused worker, which is removed in time.
        let asked = self.client.ask::<Registered>(Call::post("/workers").json(&body).repeatable(true)).await;
        let missing = || WorkError::Store(StoreError::Unreachable("it has no workers".into()));
        let id = asked.map_err(|error| error.into_work_or(missing()))?.worker_id;
        let now = self.now();
        Ok(Worker {
            id,
            name: new.name,
            tenant: None,
            queues: new.queues,
            types: new.types,
            concurrency: new.concurrency,
            version: new.version,
            heartbeats: new.heartbeats,
            registered_at: now,
            seen_at: now,
            is_lost: false,
            is_paused: false,
            key: None,
        })
    }

    pub(crate) async fn deregister(&self, worker: WorkerId) -> Result<usize, WorkError> {
        let left = self.client.done(Call::delete(format!("/workers/{worker}"))).await;
        let reply = left.map_err(|error| error.into_work(worker))?;
        let released = reply.headers.get(&RELEASED).and_then(|count| count.to_str().ok()?.parse().ok());
        Ok(released.unwrap_or_default())
    }

    /// Claims jobs; if there are none, the server waits for up to `wait`.
    ///
    /// Only the wait is cut short: the answer of a claim that may be committing is awaited. If jobs arrive at the
    /// moment the connection is closed, the server releases them.
    pub(crate) async fn claim_until(
        &self,
        request: &ClaimRequest,
        wait: Duration,
        gone: impl Future<Output = ()>,
    ) -> Result<ClaimAnswer, WorkError> {
        let patience = WaitLimit::for_duration(wait);
        let first = self.claim_once(request, Duration::ZERO).await?;
        if !first.jobs.is_empty() || wait.is_zero() {
            return Ok(first);
        }
        let waiting = async {
            loop {
                let answer = self.claim_once(request, patience.left().min(limits::SERVER_WAIT_MAX)).await?;
                if !answer.jobs.is_empty() || patience.is_over() {
                    return Ok(answer);
                }
            }
        };
        tokio::select! {
            biased;
            answer = waiting => answer,
            () = gone => Ok(first),
        }
    }

    async fn claim_once(&self, request: &ClaimRequest, wait: Duration) -> Result<ClaimAnswer, WorkError> {
        let body = ClaimBody {
            worker_id: request.worker,
            queues: request.queues.as_deref(),
            types: request.types.as_deref(),
            limit: request.limit,
            wait: Span(wait),
        };
        let call = Call::post("/claims").json(&body).waiting(wait).once();
        let view: ClaimView = self.client.ask(call).await.map_err(|error| error.into_work(request.worker))?;
        let now = self.now();
        let jobs = view.jobs.into_iter().map(|job| job.into_claimed(request.worker, now)).collect();
        let jobs = self.admitted(request.worker, jobs).await;
        Ok(ClaimAnswer { jobs, is_paused: view.paused, ..ClaimAnswer::default() })
    }
}
