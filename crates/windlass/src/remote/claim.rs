//! Worker registration, claims and deregistration at a server.

use std::future::Future;
use std::time::Duration;

use windlass_api::claim::{ClaimBody, ClaimView, PROTOCOL, RegisteredWorker, WorkerBody};
use windlass_api::time::Span;

use super::Remote;
use super::client::Call;
use crate::api::Starts;
use crate::clock::WaitLimit;
use crate::error::{StoreError, WorkError};
use crate::job::WorkerId;
use crate::limits;
use crate::store::command::claim::{ClaimAnswer, ClaimRequest};
use crate::store::command::worker::NewWorker;
use crate::store::documents::config::Worker;
use crate::store::wire::claim::claimed;

/// The number of jobs that a deregistered worker has released.
const RELEASED: &str = "windlass-released";

impl Remote {
    pub(crate) async fn register(&self, new: NewWorker) -> Result<Worker, WorkError> {
        let body = WorkerBody::from(&new);
        // A second registration after a lost answer leaves an unused worker, which is removed in time.
        let asked =
            self.client.ask::<RegisteredWorker>(Call::post("/workers").json(&body).repeatable(true)).await;
        let missing = || WorkError::Store(StoreError::Unreachable("it has no workers".into()));
        let registered = asked.map_err(|error| error.into_work_or(missing()))?;
        let id = registered.worker_id.0;
        if registered.protocol != PROTOCOL {
            // Nothing that it sends can be relied on, so no call deregisters the worker either: it removes the worker in time.
            return Err(StoreError::OtherProtocol { server: registered.protocol, own: PROTOCOL }.into());
        }
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
        let released = reply.header(RELEASED).and_then(|count| count.parse().ok());
        Ok(released.unwrap_or_default())
    }

    pub(crate) async fn claim(
        &self,
        request: &ClaimRequest,
        wait: Duration,
    ) -> Result<ClaimAnswer, WorkError> {
        self.claim_ahead(request, &|| usize::MAX, wait, std::future::pending()).await
    }

    /// Claims jobs; if there are none, the server waits for up to `wait`.
    ///
    /// Only the wait is cut short: the answer of a claim that may be committing is awaited. If jobs arrive at the
    /// moment the connection is closed, the server releases them.
    ///
    /// Every claim is a start: a server is not asked to claim ahead.
    pub(crate) async fn claim_ahead(
        &self,
        request: &ClaimRequest,
        _starts: Starts<'_>,
        wait: Duration,
        gone: impl Future<Output = ()>,
    ) -> Result<ClaimAnswer, WorkError> {
        let wait = wait.min(limits::CLAIM_WAIT_MAX);
        let wait_limit = WaitLimit::for_duration(wait);
        let first = self.claim_once(request, Duration::ZERO).await?;
        if !first.jobs.is_empty() || wait.is_zero() {
            return Ok(first);
        }
        let waiting = async {
            loop {
                let answer = self.claim_once(request, wait_limit.left().min(limits::SERVER_WAIT_MAX)).await?;
                if !answer.jobs.is_empty() || wait_limit.is_over() {
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
        let body = ClaimBody { wait: Some(Span(wait)), ..ClaimBody::from(request) };
        let call = Call::post("/claims").json(&body).waiting(wait).once();
        let view: ClaimView = self.client.ask(call).await.map_err(|error| error.into_work(request.worker))?;
        let now = self.now();
        let jobs = view.jobs.into_iter().map(|job| claimed(job, request.worker, now)).collect();
        let jobs = self.admitted(request.worker, jobs).await;
        Ok(ClaimAnswer { jobs, is_paused: view.paused, ..ClaimAnswer::default() })
    }
}
