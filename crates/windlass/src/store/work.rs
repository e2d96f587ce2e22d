//! What workers ask of a store: register, claim, beat, note, spawn, finish, leave.

use std::future::Future;
use std::time::Duration;

use super::caller::Caller;
use super::command::children::{self, NewGroup, Spawned};
use super::command::claim::{self, ClaimAnswer, ClaimRequest};
use super::command::finish::{self, Finish, Report};
use super::command::heartbeat::{self, Beat, Directive, Pulse};
use super::command::step::{self, Hand, Note};
use super::command::worker::{self, NewWorker};
use super::config::Worker;
use super::task::Kind;
use super::wakeup::Listener;
use super::{Store, elsewhere};
use crate::clock::Patience;
use crate::error::WorkError;
use crate::job::WorkerId;
use crate::limits;

impl Store {
    /// Registers a worker under a new identity.
    pub async fn register(&self, caller: &Caller, new: NewWorker) -> Result<Worker, WorkError> {
        elsewhere!(self.register(new));
        let caller = caller.clone();
        self.write("register", Kind::Ordinary, move |unit| worker::register(unit, &caller, &new)).await
    }

    /// A worker leaves; its jobs go back without being counted as failed. Says how many.
    pub async fn deregister(&self, caller: &Caller, worker: WorkerId) -> Result<usize, WorkError> {
        elsewhere!(self.deregister(worker));
        let caller = caller.clone();
        self.write("deregister", Kind::Ordinary, move |unit| worker::deregister(unit, &caller, worker)).await
    }

    /// Claims jobs; if there are none, waits for some for up to `wait`, woken as soon as there may be.
    pub async fn claim(
        &self,
        caller: &Caller,
        request: &ClaimRequest,
        wait: Duration,
    ) -> Result<ClaimAnswer, WorkError> {
        self.claim_unless(caller, request, wait, std::future::pending()).await
    }

    /// The same, but stops waiting once `gone` is over, as when whoever asked has hung up.
    ///
    /// A claim that is on its way is never dropped half-way: its jobs would be held unheard until their leases end. So it
    /// may still answer with jobs, which are then to be given back.
    pub async fn claim_unless(
        &self,
        caller: &Caller,
        request: &ClaimRequest,
        wait: Duration,
        gone: impl Future<Output = ()>,
    ) -> Result<ClaimAnswer, WorkError> {
        let wait = wait.min(limits::CLAIM_WAIT_MAX);
        elsewhere!(self.claim_unless(request, wait, gone));
        let mut gone = std::pin::pin!(gone);
        let patience = Patience::lasting(wait);
        loop {
            // Listening starts before looking: work that arrives in between is not missed.
            let mut work = self.env.wakeups.work();
            let (caller, request) = (caller.clone(), request.clone());
            let kind = Kind::Claim(request.limit.clamp(1, limits::CLAIM_JOBS_MAX));
            let answer = self.write("claim", kind, move |unit| claim::claim(unit, &caller, &request)).await?;
            if !answer.jobs.is_empty() || patience.is_over() {
                return Ok(answer);
            }
            work.narrow(answer.interest.clone());
            tokio::select! {
                biased;
                () = &mut gone => return Ok(answer),
                () = patience.wait_for(work.news(), answer.look_again_after(self.env.wakeups.waiters())) => {}
            }
        }
    }

    /// Takes signs of life and says what to do about each job.
    pub async fn heartbeat(
        &self,
        caller: &Caller,
        worker: WorkerId,
        beats: Vec<Beat>,
    ) -> Result<Pulse, WorkError> {
        elsewhere!(self.heartbeat(worker, beats, Duration::ZERO));
        let caller = caller.clone();
        self.write("heartbeat", Kind::Urgent, move |unit| heartbeat::heartbeat(unit, &caller, worker, &beats))
            .await
    }

    /// The same, but while there is nothing to be done waits for up to `wait` until running jobs may have been cut off:
    /// their worker then hears of it at once.
    pub async fn heartbeat_with_news(
        &self,
        caller: &Caller,
        worker: WorkerId,
        beats: Vec<Beat>,
        wait: Duration,
    ) -> Result<Pulse, WorkError> {
        elsewhere!(self.heartbeat(worker, beats, wait.min(limits::SERVER_WAIT_MAX)));
        // Listening starts before looking: what is cut off in between is not missed.
        let mut interrupts = self.env.wakeups.interrupts();
        // What it has to tell is told once.
        let again = beats.iter().map(|beat| Beat::new(beat.job, beat.fence)).collect();
        let pulse = self.heartbeat(caller, worker, beats).await?;
        if wait.is_zero() || pulse.directives.iter().any(|(_, directive)| *directive != Directive::Continue) {
            return Ok(pulse);
        }
        let wait = wait.min(limits::SERVER_WAIT_MAX);
        Patience::lasting(wait).wait_for(interrupts.news(), wait).await;
        self.heartbeat(caller, worker, again).await
    }

    /// Takes reports of how attempts ended; the answers are in their order.
    pub async fn finish(
        &self,
        caller: &Caller,
        worker: WorkerId,
        reports: Vec<Report>,
    ) -> Result<Vec<Finish>, WorkError> {
        elsewhere!(self.finish(worker, reports));
        let caller = caller.clone();
        let kind = Kind::About(reports.iter().map(|report| report.job).collect());
        self.write("finish", kind, move |unit| finish::finish(unit, &caller, worker, &reports)).await
    }

    /// Writes checkpoints, progress or log lines for a running job, all or none.
    pub async fn note(&self, caller: &Caller, hand: Hand, notes: Vec<Note>) -> Result<(), WorkError> {
        elsewhere!(self.note(hand, notes));
        let caller = caller.clone();
        self.write("note", Kind::Ordinary, move |unit| step::note(unit, &caller, hand, &notes)).await
    }

    /// Spawns children of a running job and parks it until their group is decided (M64).
    pub async fn spawn(&self, caller: &Caller, hand: Hand, group: NewGroup) -> Result<Spawned, WorkError> {
        elsewhere!(self.spawn(hand, group));
        let caller = caller.clone();
        self.write("spawn", Kind::Submission, move |unit| children::spawn(unit, &caller, hand, &group)).await
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
    /// Returns when running jobs may have been cut off since this was made or last returned.
    ///
    /// A server is asked by a heartbeat that it answers late, for those of `beats`: of jobs that begin meanwhile it says
    /// nothing, but it answers at once when any job is cut off.
    pub(crate) async fn news(
        &mut self,
        caller: &Caller,
        worker: WorkerId,
        beats: impl Fn() -> Vec<Beat>,
        wait: Duration,
    ) {
        if !self.store.is_elsewhere() {
            return self.here.news().await;
        }
        let mut beats = beats();
        beats.truncate(limits::OUTCOMES_PER_CALL_MAX);
        if self.store.heartbeat_with_news(caller, worker, beats, wait).await.is_err() {
            // The next ordinary heartbeat meets the same trouble, and deals with it.
            std::future::pending::<()>().await;
        }
    }
}
