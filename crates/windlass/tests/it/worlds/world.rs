//! A world: a store, two workers with what they believe to hold, and how much may still happen.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass::clock::{Clock, Timestamp};
use windlass::entropy::Entropy;
use windlass::error::WorkError;
use windlass::job::{
    Category, Dependency, Failure, Fence, GroupStrategy, JobId, NewJob, QueueName, RetryPolicy, WorkerId,
    acts_at,
};
use windlass::limits;
use windlass::store::caller::Caller;
use windlass::store::engine::{Engine, ReadTask, WriteTask};
use windlass::store::engines::memory::MemoryEngine;
use windlass::store::{
    ActionRequest, ClaimRequest, Directive, Environment, Finish, HeartbeatItem, LeaseRef, NewGroup,
    NewWorker, Outcome, Pause, PauseTarget, Report, Store, StoreOptions, SubmitOptions, Suspend,
};

use super::action::Action;
use super::view::{self, View};
use super::{BACKOFF, LEASE, laws};
use crate::fixture::{START, new_job};

pub(super) const WORKERS: usize = 2;
/// Parent, dependent, and the child once it was spawned.
pub(super) const JOBS: usize = 3;

/// What a worker believes to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Hands {
    Empty,
    Full(JobId, Fence),
    Gone,
}

/// How often what could continue forever may still happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    pub(super) crashes: usize,
    pub(super) actions: usize,
    pub(super) timers: usize,
    pub(super) releases: usize,
}

/// One store for all worlds: it works on the world that entered last, at that world's time.
struct Stage {
    store: Store,
    env: Arc<Environment>,
    clock: Arc<SetClock>,
    entered: Arc<Entered>,
}

struct SetClock(AtomicI64);

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

struct Entered(Mutex<Arc<MemoryEngine>>);

impl Entered {
    fn engine(&self) -> MutexGuard<'_, Arc<MemoryEngine>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Shared(Arc<Entered>);

impl Engine for Shared {
    fn write(&self, task: Box<dyn WriteTask>) {
        self.0.engine().write(task);
    }

    fn read(&self, task: Box<dyn ReadTask>) {
        self.0.engine().read(task);
    }

    fn close(&self) {}
}

impl Stage {
    fn new(cascade_jobs_per_commit: usize) -> Stage {
        let clock = Arc::new(SetClock(AtomicI64::new(START)));
        let options = StoreOptions { cascade_jobs_per_commit, ..StoreOptions::default() };
        let env = Environment::new(clock.clone(), Entropy::seeded(1), options);
        let mut opened = None;
        let store = Store::with_engine(env, |env| {
            let entered = Arc::new(Entered(Mutex::new(Arc::new(MemoryEngine::new(env.clone())))));
            opened = Some((env, entered.clone()));
            Ok::<_, ()>(Shared(entered))
        });
        let (env, entered) = opened.unwrap();
        Stage { store: store.unwrap(), env, clock, entered }
    }
}

/// A state, and how it was reached.
pub(super) struct World {
    stage: Arc<Stage>,
    engine: Arc<MemoryEngine>,
    now: Timestamp,
    pub(super) workers: [WorkerId; WORKERS],
    pub(super) hands: [Hands; WORKERS],
    pub(super) left: Budget,
    /// Whether the operator has paused the queue.
    pub(super) is_paused: bool,
    /// When the first worker, which is lost if it is silent, was last seen.
    seen_at: Timestamp,
    /// Whether it had been silent for too long when it last called.
    was_silent: bool,
    /// What the last step reported, if it did.
    reported: Option<(usize, Report)>,
    pub(super) view: View,
    pub(super) path: Vec<Action>,
}

impl World {
    /// A parent and its dependent, and two workers; only the first sends heartbeats, and is lost if it is silent.
    pub(super) async fn new(budget: Budget, cascade_jobs_per_commit: usize) -> World {
        let stage = Arc::new(Stage::new(cascade_jobs_per_commit));
        let (engine, store) = (stage.entered.engine().clone(), &stage.store);
        let me = Caller::local();
        let mut workers = Vec::new();
        for heartbeats in [true, false] {
            let new = NewWorker { concurrency: 3, heartbeats, ..NewWorker::default() };
            workers.push(store.register(&me, new).await.unwrap().id);
        }
        let parent = NewJob { name: Some("parent".into()), ..job("parent") };
        let dependent = NewJob { after: vec![Dependency::Named("parent".into())], ..job("dependent") };
        store.submit(&me, vec![parent, dependent], SubmitOptions::default()).await.unwrap();
        let view = view::of(&*engine);
        World {
            stage,
            engine,
            now: Timestamp::from_millis(START),
            workers: [workers[0], workers[1]],
            hands: [Hands::Empty; WORKERS],
            left: budget,
            is_paused: false,
            seen_at: Timestamp::from_millis(START),
            was_silent: false,
            reported: None,
            view,
            path: Vec::new(),
        }
    }

    /// The same state, which continues by itself.
    pub(super) fn fork(&self) -> World {
        let engine = Arc::new(self.engine.fork(self.stage.env.clone()));
        let (stage, view, path) = (self.stage.clone(), self.view.clone(), self.path.clone());
        World { stage, engine, reported: None, view, path, ..*self }
    }

    /// The store, on this world.
    pub(super) fn store(&self) -> &Store {
        self.stage.clock.0.store(self.now.as_millis(), Ordering::SeqCst);
        *self.stage.entered.engine() = self.engine.clone();
        &self.stage.store
    }

    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// All that is stored now.
    fn read_view(&self) -> View {
        self.store();
        view::of(&*self.engine)
    }

    pub(super) fn parent(&self) -> JobId {
        self.view.jobs[0].id
    }

    /// A number that tells states apart.
    pub(super) fn digest(&self) -> u64 {
        digest((&self.left, self.core()))
    }

    /// The same, whatever may still happen.
    pub(super) fn core(&self) -> u64 {
        let hands = self.hands.map(|hands| match hands {
            // All fences but the current one are equal.
            Hands::Full(job, fence) => {
                let at = self.view.jobs.iter().position(|found| found.id == job);
                (1, at, at.is_some_and(|at| self.view.jobs[at].fence == fence))
            }
            Hands::Empty => (0, None, false),
            Hands::Gone => (2, None, false),
        });
        let silent_in = self.silent_at().map(|at| at.since(self.now()));
        digest((hands, self.is_paused, silent_in, &self.view.text))
    }

    /// When the next timer acts, other than the end of a lifetime.
    pub(super) fn next_timer(&self) -> Option<Timestamp> {
        let jobs = self.view.jobs.iter();
        let timers = jobs.filter(|job| acts_at(job) != Some(job.expires_at)).filter_map(acts_at);
        timers.chain(self.silent_at()).filter(|at| *at > self.now()).min()
    }

    /// When the first worker loses what is leased to it because it was silent.
    fn silent_at(&self) -> Option<Timestamp> {
        let leases = self.view.jobs.iter().filter_map(|job| job.lease);
        let mut leases = leases.filter(|lease| lease.worker == self.workers[0]);
        leases.next().map(|_| self.seen_at.plus(limits::WORKER_SILENCE_MAX))
    }

    /// Does one step, and checks what it did.
    pub(super) async fn step(&mut self, action: Action) -> Result<(), String> {
        self.path.push(action);
        let before = std::mem::take(&mut self.view);
        let applied = self.apply(action, &before).await;
        self.view = self.read_view();
        applied?;
        laws::follows(self, &before, action)
    }

    async fn apply(&mut self, action: Action, before: &View) -> Result<(), String> {
        if action.is_call_of(0) {
            self.was_silent = self.seen_at.plus(limits::WORKER_SILENCE_MAX) <= self.now();
            self.seen_at = self.now();
        }
        match action {
            Action::Claim(worker) => self.claim(worker, 1).await.map(drop),
            Action::Complete(worker) => {
                self.finish(worker, Outcome::Completed { result: None }, before).await
            }
            Action::Fail(worker) => self.finish(worker, failed(Category::Temporary), before).await,
            Action::Reject(worker) => self.finish(worker, failed(Category::Permanent), before).await,
            Action::Release(worker) => {
                self.left.releases -= 1;
                self.finish(worker, Outcome::Released, before).await
            }
            Action::Heartbeat(worker) => self.heartbeat(worker, before).await,
            Action::Spawn(worker) => self.spawn(worker, before).await,
            Action::Crash(worker) => {
                self.left.crashes -= 1;
                self.hands[worker] = Hands::Gone;
                Ok(())
            }
            Action::Pass => {
                self.left.timers = self.left.timers.saturating_sub(1);
                self.pass(before);
                Ok(())
            }
            Action::Tick => self.store().tick().await.map(drop).map_err(|error| error.to_string()),
            _ => {
                self.left.actions = self.left.actions.saturating_sub(1);
                self.operate(action, before).await
            }
        }
    }

    fn pass(&mut self, before: &View) {
        self.view.jobs.clone_from(&before.jobs);
        if let Some(at) = self.next_timer() {
            self.now = at;
        }
    }

    /// Claims for a worker; it holds the first of the jobs.
    pub(super) async fn claim(&mut self, worker: usize, limit: usize) -> Result<Vec<JobId>, String> {
        let request = ClaimRequest::new(self.workers[worker], limit);
        let answer = self.store().claim(&Caller::local(), &request, Duration::ZERO).await;
        let jobs = answer.map_err(|error| error.to_string())?.jobs;
        if let Some(first) = jobs.first() {
            self.hands[worker] = Hands::Full(first.job.id, first.job.fence);
        }
        Ok(jobs.iter().map(|claimed| claimed.job.id).collect())
    }

    fn held(&self, worker: usize) -> (JobId, Fence) {
        let Hands::Full(job, fence) = self.hands[worker] else { panic!("worker {worker} holds nothing") };
        (job, fence)
    }

    /// Whether the store must take what the worker says about this job. One that was silent for too long has lost it, also
    /// if maintenance has not noticed yet.
    fn is_valid(&self, worker: usize, before: &View, job: JobId, fence: Fence) -> bool {
        let is_lost = worker == 0 && self.was_silent;
        !is_lost && laws::is_valid(before, self.now(), job, fence, self.workers[worker])
    }

    async fn finish(&mut self, worker: usize, outcome: Outcome, before: &View) -> Result<(), String> {
        let (job, fence) = self.held(worker);
        let is_valid = self.is_valid(worker, before, job, fence);
        let report = Report::new(job, fence, outcome);
        let answer = self.store().finish(&Caller::local(), self.workers[worker], vec![report.clone()]).await;
        let answer = answer.map_err(|error| error.to_string())?.remove(0);
        if matches!(answer, Finish::Applied(_)) != is_valid {
            return Err(format!("the report was answered {answer:?}; was its lease valid? {is_valid}"));
        }
        self.hands[worker] = Hands::Empty;
        self.reported = Some((worker, report));
        Ok(())
    }

    /// If the answer to the last report was lost, the worker says it again, and nothing changes but by timers.
    pub(super) async fn repeat(&self) -> Result<(), String> {
        let Some((worker, report)) = &self.reported else { return Ok(()) };
        let (mut once, mut twice) = (self.fork(), self.fork());
        let again = twice.store().finish(&Caller::local(), self.workers[*worker], vec![report.clone()]).await;
        let again = again.map_err(|error| error.to_string())?.remove(0);
        for either in [&mut once, &mut twice] {
            either.settle().await?;
        }
        if once.view.text != twice.view.text {
            return Err(format!("a report that came twice changed something, and was answered {again:?}"));
        }
        Ok(())
    }

    /// Lets maintenance run until it finds nothing to do.
    pub(super) async fn settle(&mut self) -> Result<(), String> {
        while self.store().tick().await.map_err(|error| error.to_string())?.has_more {}
        self.view = self.read_view();
        Ok(())
    }

    async fn heartbeat(&mut self, worker: usize, before: &View) -> Result<(), String> {
        let (job, fence) = self.held(worker);
        let is_valid = self.is_valid(worker, before, job, fence);
        let beats = vec![HeartbeatItem::new(job, fence)];
        let reply = self.store().heartbeat(&Caller::local(), self.workers[worker], beats).await;
        let directive = reply.map_err(|error| error.to_string())?.directives[0].1;
        if directive == Directive::Continue && !is_valid {
            return Err("a heartbeat for a lost lease was answered with continue".to_owned());
        }
        if directive != Directive::Continue {
            self.hands[worker] = Hands::Empty;
        }
        Ok(())
    }

    async fn spawn(&mut self, worker: usize, before: &View) -> Result<(), String> {
        let (parent, fence) = self.held(worker);
        let id = self.workers[worker];
        let is_valid = self.is_valid(worker, before, parent, fence);
        let lease = LeaseRef { job: parent, fence, worker: Some(id) };
        let group =
            NewGroup { name: "g".into(), strategy: GroupStrategy::FailFast, jobs: vec![job("child")] };
        match self.store().spawn(&Caller::local(), lease, group).await {
            Ok(spawned) if is_valid => {
                if !spawned.parent.is_held_with(fence) {
                    self.hands[worker] = Hands::Empty;
                }
                Ok(())
            }
            Err(WorkError::Stale(_)) if !is_valid => {
                self.hands[worker] = Hands::Empty;
                Ok(())
            }
            answer => Err(format!("the spawn was answered {answer:?}; was its lease valid? {is_valid}")),
        }
    }

    async fn operate(&mut self, action: Action, before: &View) -> Result<(), String> {
        let queue = PauseTarget::Queue(QueueName::default());
        let me = Caller::local();
        let switched = match action {
            Action::Pause => self.store().pause(&me, queue, Pause::graceful()).await,
            Action::Stop => self.store().pause(&me, queue, Pause::aggressive()).await,
            Action::Open => self.store().resume(&me, queue, None).await,
            _ => {
                let (number, request) = match action {
                    Action::Cancel(number) => (number, ActionRequest::Cancel { reason: None }),
                    Action::Resume(number) => (number, ActionRequest::Resume { reason: None }),
                    Action::Interrupt(number) => (number, ActionRequest::Suspend(Suspend::aggressive())),
                    Action::Suspend(number) => (number, ActionRequest::Suspend(Suspend::graceful())),
                    other => panic!("{other:?} is not an action of an operator"),
                };
                // A timer that is due may end the job first, and then the action is refused.
                drop(self.store().act(&me, before.jobs[number].id, request).await);
                return Ok(());
            }
        };
        self.is_paused = action != Action::Open;
        switched.map(drop).map_err(|error| error.to_string())
    }
}

fn job(job_type: &str) -> NewJob {
    let retry = RetryPolicy {
        initial_delay: BACKOFF,
        max_delay: BACKOFF,
        jitter: 0.0,
        max_attempts: 2,
        ..RetryPolicy::standard()
    };
    NewJob { retry: Some(retry), lease_timeout: Some(LEASE), ..new_job(job_type) }
}

fn failed(category: Category) -> Outcome {
    Outcome::Failed(Failure::new(category, "no"))
}

fn digest(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
