//! Operations for workers: register, claim, heartbeat, record, spawn, finish, deregister.

use std::future::Future;
use std::time::Duration;

use crate::clock::WaitLimit;
use crate::error::WorkError;
use crate::job::{Fence, JobId, WorkerId};
use crate::limits;
use crate::store::caller::Caller;
use crate::store::command::attempt_writes::{self, AttemptWrite, LeaseRef};
use crate::store::command::children::{self, NewGroup, Spawned};
use crate::store::command::claim::{self, ClaimAnswer, ClaimRequest};
use crate::store::command::finish::{self, Finish, Park, Report};
use crate::store::command::heartbeat::{self, HeartbeatItem, HeartbeatReply};
use crate::store::command::worker::{self, NewWorker};
use crate::store::documents::config::Worker;
use crate::store::metrics::Fallback;
use crate::store::notify::wakeup::{Listener, WorkListener};
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;
use crate::store::{Store, ask_server};

impl Store {
    /// Registers a worker under a new id.
    pub async fn register(&self, caller: &Caller, new: NewWorker) -> Result<Worker, WorkError> {
        ask_server!(self.register(new));
        let caller = caller.clone();
        self.write("register", Kind::Ordinary, move |tx| worker::register(tx, &caller, &new)).await
    }

    /// Deregisters a worker; its jobs are released without counting as failed. Returns how many.
    pub async fn deregister(&self, caller: &Caller, worker: WorkerId) -> Result<usize, WorkError> {
        ask_server!(self.deregister(worker));
        let caller = caller.clone();
        self.write("deregister", Kind::Ordinary, move |tx| worker::deregister(tx, &caller, worker)).await
    }

    /// Records that a worker's own program paused or resumed it. Does nothing on a remote store.
    pub(crate) async fn tell_paused(
        &self,
        caller: &Caller,
        worker: WorkerId,
        is_paused: bool,
    ) -> Result<(), WorkError> {
        if self.is_remote() {
            return Ok(());
        }
        let caller = caller.clone();
        let tell = move |tx: &mut WriteTx<'_>| worker::tell_paused(tx, &caller, worker, is_paused);
        self.write("tell_paused", Kind::Ordinary, tell).await
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
    /// [`start`](Store::start). If it is released or lost before, it counts as never claimed. On a remote store
    /// every claim is a start.
    pub(crate) async fn claim_ahead(
        &self,
        caller: &Caller,
        request: &ClaimRequest,
        starts: impl Fn() -> usize,
        wait: Duration,
        gone: impl Future<Output = ()>,
    ) -> Result<ClaimAnswer, WorkError> {
        let wait = wait.min(limits::CLAIM_WAIT_MAX);
        ask_server!(self.claim_until(request, wait, gone));
        let mut gone = std::pin::pin!(gone);
        let patience = WaitLimit::for_duration(wait);
        // The subscription of the last wait, if it timed out without a notification.
        let mut timed_out: Option<WorkListener> = None;
        loop {
            // Subscribing comes before the query: work that arrives in between is not missed.
            let mut work = self.env.wakeups.work();
            let (caller, request, starts) = (caller.clone(), request.clone(), starts());
            let kind = Kind::Claim(request.limit.clamp(1, limits::CLAIM_JOBS_MAX));
            let answer =
                self.write("claim", kind, move |tx| claim::claim(tx, &caller, &request, starts)).await?;
            if !answer.jobs.is_empty() || patience.is_over() {
                if timed_out.is_some_and(|work| !work.is_notified())
                    && answer.has_waited(self.env.clock.now())
                {
                    self.env.meters.fell_back(Fallback::Claim);
                }
                return Ok(answer);
            }
            work.narrow(answer.interest.clone());
            let backstop = answer.poll_interval(self.env.timing.backstop_every, self.env.wakeups.waiters());
            let is_notified = tokio::select! {
                biased;
                () = &mut gone => return Ok(answer),
                is_notified = patience.wait_for(work.notified(), backstop) => is_notified,
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
        ask_server!(self.heartbeat(worker, beats, Duration::ZERO));
        let caller = caller.clone();
        self.write("heartbeat", Kind::Urgent, move |tx| heartbeat::heartbeat(tx, &caller, worker, &beats))
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
        ask_server!(self.heartbeat(worker, beats, wait.min(limits::SERVER_WAIT_MAX)));
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
            self.env.meters.fell_back(Fallback::Interrupt);
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
        if self.is_remote() || started.is_empty() {
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
        ask_server!(self.finish(worker, reports));
        let caller = caller.clone();
        let kind = Kind::About(reports.iter().map(|report| report.job).collect());
        self.write("finish", kind, move |tx| finish::finish(tx, &caller, worker, &reports)).await
    }

    /// Writes checkpoints, progress or log lines for a running job, all or none.
    pub async fn note(
        &self,
        caller: &Caller,
        hand: LeaseRef,
        notes: Vec<AttemptWrite>,
    ) -> Result<(), WorkError> {
        ask_server!(self.note(hand, notes));
        let caller = caller.clone();
        self.write("note", Kind::Ordinary, move |tx| attempt_writes::note(tx, &caller, hand, &notes)).await
    }

    /// Spawns children of a running job and parks it until their group is decided.
    pub async fn spawn(
        &self,
        caller: &Caller,
        hand: LeaseRef,
        group: NewGroup,
    ) -> Result<Spawned, WorkError> {
        self.spawn_beside(caller, hand, group, Vec::new()).await
    }

    /// Like [`spawn`](Store::spawn), but the job is also woken by the first of `beside`, before the group is decided.
    pub async fn spawn_beside(
        &self,
        caller: &Caller,
        hand: LeaseRef,
        group: NewGroup,
        beside: Vec<Park>,
    ) -> Result<Spawned, WorkError> {
        ask_server!(self.spawn(hand, group, beside));
        let caller = caller.clone();
        let kind = Kind::Batch(group.jobs.len());
        let spawn = move |tx: &mut WriteTx<'_>| children::spawn(tx, &caller, hand, &group, &beside);
        self.write("spawn", kind, spawn).await
    }

    /// Subscribes to notifications of interrupted jobs.
    pub(crate) fn interrupts(&self) -> Interrupts {
        Interrupts { store: self.clone(), here: self.env.wakeups.interrupts() }
    }
}

/// A subscription to interrupted jobs, local or on the server of a remote store.
pub(crate) struct Interrupts {
    store: Store,
    here: Listener,
}

impl Interrupts {
    /// Whether there was a notification since this was created or last returned; a server is not queried.
    pub(crate) fn has_news(&self) -> bool {
        self.store.is_remote() || self.here.is_notified()
    }

    /// Returns when running jobs may have been interrupted since this was created or last returned.
    ///
    /// On a remote store this sends a heartbeat for `beats` that the server answers late. The answer does not cover
    /// jobs that start meanwhile, but it comes as soon as any job is interrupted.
    pub(crate) async fn news(
        &mut self,
        caller: &Caller,
        worker: WorkerId,
        beats: impl Fn() -> Vec<HeartbeatItem>,
        wait: Duration,
    ) {
        if !self.store.is_remote() {
            return self.here.notified().await;
        }
        let mut beats = beats();
        beats.truncate(limits::OUTCOMES_PER_CALL_MAX);
        if self.store.heartbeat_wait(caller, worker, beats, wait).await.is_err() {
            // The next regular heartbeat meets the same error and handles it.
            std::future::pending::<()>().await;
        }
    }
}
