//! Operations for workers: register, claim, heartbeat, record, spawn, finish, deregister.

use std::future::Future;
use std::time::Duration;

use crate::clock::WaitLimit;
use crate::error::WorkError;
use crate::job::{Fence, JobId, WorkerId};
use crate::limits;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::attempt_writes::{self, AttemptWrite, JobWrites, JobWritesResult, LeaseRef};
use crate::store::command::children::{self, NewGroup, SpawnOptions, SpawnReport};
use crate::store::command::claim::{self, ClaimAnswer, ClaimRequest};
use crate::store::command::finish::{self, Finish, Report};
use crate::store::command::heartbeat::{self, HeartbeatItem, HeartbeatReply};
use crate::store::command::worker::{self, NewWorker};
use crate::store::documents::config::Worker;
use crate::store::metrics::Fallback;
use crate::store::notify::wakeup::WorkListener;
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;

impl Store {
    /// Registers a worker under a new id.
    pub async fn register(&self, caller: &Caller, new: NewWorker) -> Result<Worker, WorkError> {
        self.write_for(caller, "register", Kind::Ordinary, move |tx, caller| {
            worker::register(tx, caller, &new)
        })
        .await
    }

    /// Deregisters a worker; its jobs are released without counting as failed. Returns how many.
    pub async fn deregister(&self, caller: &Caller, worker: WorkerId) -> Result<usize, WorkError> {
        self.write_for(caller, "deregister", Kind::Ordinary, move |tx, caller| {
            worker::deregister(tx, caller, worker)
        })
        .await
    }

    /// Ends a worker's leases as if its process had died and its silence had been noticed: for tests of programs in any
    /// language, where no time passes. Returns how many. Only for callers who may administer.
    pub async fn crash_worker(&self, caller: &Caller, worker: WorkerId) -> Result<usize, WorkError> {
        self.write_for(caller, "crash_worker", Kind::Ordinary, move |tx, caller| {
            worker::crash(tx, caller, worker)
        })
        .await
    }

    /// Records that a worker's own program paused or resumed it.
    pub(crate) async fn set_worker_paused(
        &self,
        caller: &Caller,
        worker: WorkerId,
        is_paused: bool,
    ) -> Result<(), WorkError> {
        self.write_for(caller, "set_worker_paused", Kind::Ordinary, move |tx, caller| {
            worker::set_worker_paused(tx, caller, worker, is_paused)
        })
        .await
    }

    /// Claims jobs; if there are none, waits for up to `wait`, and is woken as soon as there may be some.
    pub async fn claim(
        &self,
        caller: &Caller,
        request: &ClaimRequest,
        wait: Duration,
    ) -> Result<ClaimAnswer, WorkError> {
        self.claim_until(caller, request, wait, std::future::pending()).await
    }

    /// Like [`claim`](Store::claim), but stops waiting once `gone` completes, for example when the client has
    /// disconnected.
    ///
    /// A claim in progress is never dropped: its jobs would be leased without a worker until their leases end. So it
    /// may still return jobs, which must then be released.
    pub async fn claim_until(
        &self,
        caller: &Caller,
        request: &ClaimRequest,
        wait: Duration,
        gone: impl Future<Output = ()>,
    ) -> Result<ClaimAnswer, WorkError> {
        self.claim_ahead(caller, request, || usize::MAX, wait, gone).await
    }

    /// Like [`claim_until`](Store::claim_until), but jobs beyond the first `starts` (evaluated at each query) are
    /// claimed ahead: their attempt does not count yet. Each starts with the first report or write of its worker, or by
    /// [`start`](Store::start). If it is released or lost before, it counts as never claimed.
    pub(crate) async fn claim_ahead(
        &self,
        caller: &Caller,
        request: &ClaimRequest,
        starts: impl Fn() -> usize,
        wait: Duration,
        gone: impl Future<Output = ()>,
    ) -> Result<ClaimAnswer, WorkError> {
        let wait = wait.min(limits::CLAIM_WAIT_MAX);
        let mut gone = std::pin::pin!(gone);
        let wait_limit = WaitLimit::for_duration(wait);
        // The subscription of the last wait, if it timed out without a notification.
        let mut timed_out: Option<WorkListener> = None;
        loop {
            // Subscribing comes before the query: work that arrives in between is not missed.
            let mut work = self.env.wakeups.work();
            let (caller, request, starts) = (caller.clone(), request.clone(), starts());
            let wanted = request.limit.clamp(1, limits::CLAIM_JOBS_MAX);
            let kind = if timed_out.is_some() { Kind::IdleClaim(wanted) } else { Kind::Claim(wanted) };
            let answer =
                self.write("claim", kind, move |tx| claim::claim(tx, &caller, &request, starts)).await?;
            if !answer.jobs.is_empty() || wait_limit.is_over() {
                if timed_out.is_some_and(|work| !work.is_notified())
                    && answer.has_waited(self.env.clock.now())
                {
                    self.env.metrics.fell_back(Fallback::Claim);
                }
                return Ok(answer);
            }
            work.narrow(answer.interest.clone());
            let backstop = answer.poll_interval(self.env.timing.backstop_every, self.env.wakeups.waiters());
            let is_notified = tokio::select! {
                biased;
                () = &mut gone => return Ok(answer),
                is_notified = wait_limit.wait_for(work.notified(), backstop) => is_notified,
            };
            // Jobs held back by a rate limit or a budget are waited for by time.
            timed_out = (!is_notified && answer.throttled_for.is_none()).then_some(work);
        }
    }

    /// Processes heartbeats and returns a directive for each job.
    pub async fn heartbeat(
        &self,
        caller: &Caller,
        worker: WorkerId,
        beats: Vec<HeartbeatItem>,
    ) -> Result<HeartbeatReply, WorkError> {
        // Too many are refused without being read.
        let is_read = beats.len() <= limits::OUTCOMES_PER_CALL_MAX;
        let kind = if is_read {
            Kind::UrgentAbout(beats.iter().map(|beat| beat.job).collect())
        } else {
            Kind::Urgent
        };
        self.write_for(caller, "heartbeat", kind, move |tx, caller| {
            heartbeat::heartbeat(tx, caller, worker, &beats)
        })
        .await
    }

    /// Like [`heartbeat`](Store::heartbeat), but while there is nothing to do, waits for up to `wait` until running
    /// jobs may have been interrupted: the worker learns of it immediately.
    pub async fn heartbeat_wait(
        &self,
        caller: &Caller,
        worker: WorkerId,
        beats: Vec<HeartbeatItem>,
        wait: Duration,
    ) -> Result<HeartbeatReply, WorkError> {
        // Subscribing comes before the query: an interruption in between is not missed.
        let mut interrupts = self.env.wakeups.interrupts();
        // Progress and logs are sent only once.
        let again = beats.iter().map(|beat| HeartbeatItem::new(beat.job, beat.fence)).collect();
        let reply = self.heartbeat(caller, worker, beats).await?;
        if wait.is_zero() || reply.is_interrupted() {
            return Ok(reply);
        }
        let wait = wait.min(limits::SERVER_WAIT_MAX);
        let is_notified = WaitLimit::for_duration(wait).wait_for(interrupts.notified(), wait).await;
        let reply = self.heartbeat(caller, worker, again).await?;
        if !is_notified && reply.has_request() && !interrupts.is_notified() {
            self.env.metrics.fell_back(Fallback::Interrupt);
        }
        Ok(reply)
    }

    /// Marks jobs that were claimed ahead as started.
    pub(crate) async fn start(
        &self,
        caller: &Caller,
        worker: WorkerId,
        started: Vec<(JobId, Fence)>,
    ) -> Result<(), WorkError> {
        if started.is_empty() {
            return Ok(());
        }
        let caller = caller.clone();
        let kind = Kind::About(started.iter().map(|(job, _)| *job).collect());
        self.write("start", kind, move |tx| attempt_writes::start(tx, &caller, worker, &started)).await
    }

    /// Processes reports of how attempts ended; the answers are in their order.
    pub async fn finish(
        &self,
        caller: &Caller,
        worker: WorkerId,
        reports: Vec<Report>,
    ) -> Result<Vec<Finish>, WorkError> {
        let caller = caller.clone();
        let kind = Kind::About(reports.iter().map(|report| report.job).collect());
        let mut checks = self.check_reports(&caller, &reports).await?;
        self.write("finish", kind, move |tx| finish::finish(tx, &caller, worker, &reports, &mut checks)).await
    }

    /// Writes checkpoints, progress, log lines or output for a running job, all or none.
    pub async fn record(
        &self,
        caller: &Caller,
        lease: LeaseRef,
        writes: Vec<AttemptWrite>,
    ) -> Result<(), WorkError> {
        self.write_for(caller, "record", Kind::About(vec![lease.job]), move |tx, caller| {
            attempt_writes::record(tx, caller, lease, &writes)
        })
        .await
    }

    /// Like [`record`](Store::record), for several jobs of a worker in one commit; the answers are in their order.
    pub async fn record_each(
        &self,
        caller: &Caller,
        worker: WorkerId,
        jobs: Vec<JobWrites>,
    ) -> Result<Vec<JobWritesResult>, WorkError> {
        let kind = Kind::About(jobs.iter().map(|one| one.job).collect());
        self.write_for(caller, "record", kind, move |tx, caller| {
            attempt_writes::record_each(tx, caller, worker, &jobs)
        })
        .await
    }

    /// Spawns children of a running job and parks it until their group is decided.
    pub async fn spawn(
        &self,
        caller: &Caller,
        lease: LeaseRef,
        group: NewGroup,
    ) -> Result<SpawnReport, WorkError> {
        self.spawn_with(caller, lease, group, SpawnOptions::default()).await
    }

    /// Like [`spawn`](Store::spawn), but the job is also woken by the first of the given conditions, before the group is
    /// decided, and its own writes are in the same commit.
    pub async fn spawn_with(
        &self,
        caller: &Caller,
        lease: LeaseRef,
        group: NewGroup,
        options: SpawnOptions,
    ) -> Result<SpawnReport, WorkError> {
        let caller = caller.clone();
        let kind = Kind::Batch(group.jobs.len());
        let mut checks = self.check_payloads(&group.jobs).await?;
        let spawn =
            move |tx: &mut WriteTx<'_>| children::spawn(tx, &caller, lease, &group, &options, &mut checks);
        self.write("spawn", kind, spawn).await
    }
}
