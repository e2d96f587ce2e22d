//! What workers ask of a store: register, claim, beat, note, spawn, finish, leave.

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
use crate::store::command::heartbeat::{self, Directive, HeartbeatItem, HeartbeatReply};
use crate::store::command::worker::{self, NewWorker};
use crate::store::documents::config::Worker;
use crate::store::metrics::Fallback;
use crate::store::notify::wakeup::{Listener, WorkListener};
use crate::store::tx::request::Kind;
use crate::store::tx::write_tx::WriteTx;
use crate::store::{Store, ask_server};

impl Store {
    /// Registers a worker under a new identity.
    pub async fn register(&self, caller: &Caller, new: NewWorker) -> Result<Worker, WorkError> {
        ask_server!(self.register(new));
        let caller = caller.clone();
        self.write("register", Kind::Ordinary, move |tx| worker::register(tx, &caller, &new)).await
    }

    /// A worker leaves; its jobs go back without being counted as failed. Says how many.
    pub async fn deregister(&self, caller: &Caller, worker: WorkerId) -> Result<usize, WorkError> {
        ask_server!(self.deregister(worker));
        let caller = caller.clone();
        self.write("deregister", Kind::Ordinary, move |tx| worker::deregister(tx, &caller, worker)).await
    }

    /// A worker's own program has paused it, or lets it go on. A server is not told.
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

    /// Claims jobs; if there are none, waits for some for up to `wait`, woken as soon as there may be.
    pub async fn claim(
        &self,
        caller: &Caller,
        request: &ClaimRequest,
        wait: Duration,
    ) -> Result<ClaimAnswer, WorkError> {
        self.claim_until(caller, request, wait, std::future::pending()).await
    }

    /// The same, but stops waiting once `gone` is over, as when whoever asked has hung up.
    ///
    /// A claim that is on its way is never dropped half-way: its jobs would be held unheard until their leases end. So it
    /// may still answer with jobs, which are then to be given back.
    pub async fn claim_until(
        &self,
        caller: &Caller,
        request: &ClaimRequest,
        wait: Duration,
        gone: impl Future<Output = ()>,
    ) -> Result<ClaimAnswer, WorkError> {
        self.claim_ahead(caller, request, || usize::MAX, wait, gone).await
    }

    /// The same, but of the jobs beyond the first `starts`, asked for again whenever it looks, no attempt counts yet: each starts with the first thing that
    /// its worker reports or saves for it, or by [`start`](Store::start); given back or lost before, it is as if it had
    /// not been claimed (M5). At a server every claim is a start.
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
        // The news that the last wait was for, if it ended without any.
        let mut unheard: Option<WorkListener> = None;
        loop {
            // Listening starts before looking: work that arrives in between is not missed.
            let mut work = self.env.wakeups.work();
            let (caller, request, starts) = (caller.clone(), request.clone(), starts());
            let kind = Kind::Claim(request.limit.clamp(1, limits::CLAIM_JOBS_MAX));
            let answer =
                self.write("claim", kind, move |tx| claim::claim(tx, &caller, &request, starts)).await?;
            if !answer.jobs.is_empty() || patience.is_over() {
                if unheard.is_some_and(|work| !work.has_news()) && answer.has_waited(self.env.clock.now()) {
                    self.env.meters.fell_back(Fallback::Claim);
                }
                return Ok(answer);
            }
            work.narrow(answer.interest.clone());
            let backstop = answer.poll_interval(self.env.timing.backstop_every, self.env.wakeups.waiters());
            let has_news = tokio::select! {
                biased;
                () = &mut gone => return Ok(answer),
                has_news = patience.wait_for(work.news(), backstop) => has_news,
            };
            // What a rate or a budget held back is waited for by time.
            unheard = (!has_news && answer.throttled_for.is_none()).then_some(work);
        }
    }

    /// Takes signs of life and says what to do about each job.
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

    /// The same, but while there is nothing to be done waits for up to `wait` until running jobs may have been cut off:
    /// their worker then hears of it at once.
    pub async fn heartbeat_wait(
        &self,
        caller: &Caller,
        worker: WorkerId,
        beats: Vec<HeartbeatItem>,
        wait: Duration,
    ) -> Result<HeartbeatReply, WorkError> {
        ask_server!(self.heartbeat(worker, beats, wait.min(limits::SERVER_WAIT_MAX)));
        // Listening starts before looking: what is cut off in between is not missed.
        let mut interrupts = self.env.wakeups.interrupts();
        // What it has to tell is told once.
        let again = beats.iter().map(|beat| HeartbeatItem::new(beat.job, beat.fence)).collect();
        let pulse = self.heartbeat(caller, worker, beats).await?;
        if wait.is_zero() || pulse.directives.iter().any(|(_, directive)| *directive != Directive::Continue) {
            return Ok(pulse);
        }
        let wait = wait.min(limits::SERVER_WAIT_MAX);
        WaitLimit::for_duration(wait).wait_for(interrupts.news(), wait).await;
        self.heartbeat(caller, worker, again).await
    }

    /// Notes that jobs which were claimed ahead have started.
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

    /// Takes reports of how attempts ended; the answers are in their order.
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

    /// Spawns children of a running job and parks it until their group is decided (M64).
    pub async fn spawn(
        &self,
        caller: &Caller,
        hand: LeaseRef,
        group: NewGroup,
    ) -> Result<Spawned, WorkError> {
        self.spawn_beside(caller, hand, group, Vec::new()).await
    }

    /// The same, but the job is also woken by the first of `beside`, before the group is decided.
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

    /// News of jobs that were cut off, from now on.
    pub(crate) fn interrupts(&self) -> Interrupts {
        Interrupts { store: self.clone(), here: self.env.wakeups.interrupts() }
    }
}

/// Whoever waits for news of jobs that were cut off, here or at the server that keeps the store.
pub(crate) struct Interrupts {
    store: Store,
    here: Listener,
}

impl Interrupts {
    /// Whether there were news since this was made or last returned; a server is not asked.
    pub(crate) fn has_news(&self) -> bool {
        self.store.is_remote() || self.here.has_news()
    }

    /// Returns when running jobs may have been cut off since this was made or last returned.
    ///
    /// A server is asked by a heartbeat that it answers late, for those of `beats`: of jobs that begin meanwhile it says
    /// nothing, but it answers at once when any job is cut off.
    pub(crate) async fn news(
        &mut self,
        caller: &Caller,
        worker: WorkerId,
        beats: impl Fn() -> Vec<HeartbeatItem>,
        wait: Duration,
    ) {
        if !self.store.is_remote() {
            return self.here.news().await;
        }
        let mut beats = beats();
        beats.truncate(limits::OUTCOMES_PER_CALL_MAX);
        if self.store.heartbeat_wait(caller, worker, beats, wait).await.is_err() {
            // The next ordinary heartbeat meets the same trouble, and deals with it.
            std::future::pending::<()>().await;
        }
    }
}
