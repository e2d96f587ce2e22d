//! What every test of a store starts from: a store on each engine, a clock that stands still, and short ways to say what is
//! done to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use windlass::audit::{AuditEvent, AuditLevel, Record};
use windlass::clock::{Clock, ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{
    Dependency, Failure, Fence, Job, JobId, JobType, NewJob, Payload, QueueName, RetryPolicy, State, Tenant,
    WorkerId,
};
use windlass::store::Store;
use windlass::store::caller::{Caller, Role};
use windlass::store::command::act::{Act, Acted, Suspend};
use windlass::store::command::claim::{Checkpoint, ClaimRequest, Claimed};
use windlass::store::command::finish::{Finish, Outcome, Park, Report};
use windlass::store::command::settings::Settings;
use windlass::store::command::step::{Hand, Note};
use windlass::store::command::submit::{Receipt, SubmitOptions};
use windlass::store::command::worker::NewWorker;
use windlass::store::config::QueueSettings;
use windlass::store::engine::RecordQuery;
use windlass::store::environment::{Environment, StoreOptions};
use windlass::store::query::side::Attempt;
use windlass::store::query::snapshot::Snapshot;

/// A store to be tested.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) me: Caller,
    pub(crate) address: String,
    _files: Option<TempDir>,
}

/// Which engine a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Memory,
    Sqlite,
}

/// When every test begins.
pub(crate) const START: i64 = 1_800_000_000_000;

impl Fixture {
    pub(crate) fn new(on: On) -> Fixture {
        Fixture::with(on, StoreOptions::default(), 1)
    }

    pub(crate) fn with(on: On, options: StoreOptions, seed: u64) -> Fixture {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
        let env = Environment::new(clock.clone(), Entropy::seeded(seed), options);
        let (files, address) = match on {
            On::Memory => (None, "memory:".to_owned()),
            On::Sqlite => {
                let files = tempfile::tempdir().expect("a directory for the test");
                let address = format!("sqlite:{}", files.path().join("jobs.db").display());
                (Some(files), address)
            }
        };
        let store = Store::open_in(&address, env).expect("a new store opens");
        Fixture { store, clock, me: Caller::local(), address, _files: files }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// A job of a type, with a small payload.
    pub(crate) fn job(&self, job_type: &str) -> NewJob {
        new_job(job_type)
    }

    pub(crate) async fn submit(&self, job: NewJob) -> Job {
        self.submit_all(vec![job]).await.remove(0).job
    }

    pub(crate) async fn submit_all(&self, jobs: Vec<NewJob>) -> Vec<Receipt> {
        self.store.submit(&self.me, jobs, SubmitOptions::default()).await.expect("the submission is allowed")
    }

    pub(crate) async fn worker(&self) -> WorkerId {
        self.worker_for(&[], &[]).await
    }

    pub(crate) async fn worker_for(&self, queues: &[&str], types: &[&str]) -> WorkerId {
        let queues = queues.iter().map(|name| QueueName::new(name).unwrap()).collect();
        let types = types.iter().map(|name| JobType::new(name).unwrap()).collect();
        let new = NewWorker { queues, types, ..NewWorker::default() };
        self.store.register(&self.me, new).await.expect("anybody may register").id
    }

    /// Claims up to `limit` jobs, without waiting.
    pub(crate) async fn claim(&self, worker: WorkerId, limit: usize) -> Vec<Claimed> {
        let request = ClaimRequest::new(worker, limit);
        self.store.claim(&self.me, &request, Duration::ZERO).await.expect("the worker is known").jobs
    }

    /// Claims the one job that there is.
    pub(crate) async fn claim_one(&self, worker: WorkerId) -> Claimed {
        let mut jobs = self.claim(worker, 1).await;
        assert_eq!(jobs.len(), 1, "there is a job to claim");
        jobs.remove(0)
    }

    /// Submits a job and claims it with a new worker.
    pub(crate) async fn running(&self, job: NewJob) -> (WorkerId, Claimed) {
        let worker = self.worker().await;
        let job = self.submit(job).await;
        let claimed = self.claim_one(worker).await;
        assert_eq!(claimed.job.id, job.id, "no other job was in the way");
        (worker, claimed)
    }

    pub(crate) async fn finish(&self, worker: WorkerId, id: JobId, fence: Fence, outcome: Outcome) -> Finish {
        let reports = vec![Report::new(id, fence, outcome)];
        self.store.finish(&self.me, worker, reports).await.expect("the worker is known").remove(0)
    }

    pub(crate) async fn complete(&self, worker: WorkerId, claimed: &Claimed) -> Finish {
        self.finish(worker, claimed.job.id, claimed.job.fence, Outcome::Completed { result: None }).await
    }

    pub(crate) async fn act(&self, id: JobId, act: Act) -> Acted {
        self.store.act(&self.me, id, act).await.expect("the action is allowed")
    }

    pub(crate) async fn suspend(&self, id: JobId) -> Acted {
        self.act(id, Act::Suspend(Suspend::default())).await
    }

    pub(crate) async fn resume(&self, id: JobId) -> Acted {
        self.act(id, Act::Resume { reason: None }).await
    }

    pub(crate) async fn cancel(&self, id: JobId) -> Acted {
        self.act(id, Act::Cancel { reason: None }).await
    }

    pub(crate) async fn get(&self, id: JobId) -> Snapshot {
        self.store.get(&self.me, id).await.unwrap().expect("the job is there")
    }

    pub(crate) async fn state(&self, id: JobId) -> State {
        self.get(id).await.job.state
    }

    /// Lets time act on everything.
    pub(crate) async fn tick(&self) {
        while self.store.tick().await.unwrap().has_more {}
    }

    /// Every invariant holds; called at the end of every test.
    pub(crate) async fn verify(&self) {
        self.tick().await;
        for verdict in self.store.verify().await.unwrap() {
            assert!(verdict.holds(), "{}: {}: {:#?}", verdict.code, verdict.promise, verdict.findings);
        }
    }
}

pub(crate) fn new_job(job_type: &str) -> NewJob {
    NewJob::new(JobType::new(job_type).unwrap(), Payload::json(r#"{"to":"a@b.c"}"#))
}

pub(crate) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(crate) fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

pub(crate) fn hand(claimed: &Claimed) -> Hand {
    let worker = claimed.job.lease.map(|lease| lease.worker);
    Hand { job: claimed.job.id, fence: claimed.job.fence, worker }
}

/// Runs each test of a module on every engine.
macro_rules! on_every_engine {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                let fixture = crate::fixture::Fixture::new(crate::fixture::On::Memory);
                super::$name(&fixture).await;
                fixture.verify().await;
            })*
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let fixture = crate::fixture::Fixture::new(crate::fixture::On::Sqlite);
                super::$name(&fixture).await;
                fixture.verify().await;
                fixture.store.close();
            })*
        }
    };
}

pub(crate) use on_every_engine;

/// Everything that a refusal must leave as it was.
#[derive(Debug, PartialEq)]
pub(crate) struct Picture {
    job: Option<Snapshot>,
    attempts: Option<Vec<Attempt>>,
    checkpoints: Option<Vec<Checkpoint>>,
    states: BTreeMap<State, u64>,
    trail: Vec<Record>,
}

/// A job that was brought into some state, and who ran it last.
pub(crate) struct Placed {
    pub(crate) id: JobId,
    pub(crate) worker: WorkerId,
    pub(crate) claimed: Option<Claimed>,
}

impl Fixture {
    /// A worker that is not taken for dead however long it says nothing.
    pub(crate) async fn steady_worker(&self) -> WorkerId {
        self.steady_worker_for(&[]).await
    }

    pub(crate) async fn steady_worker_for(&self, queues: &[&str]) -> WorkerId {
        let queues = queues.iter().map(|name| queue(name)).collect();
        let new = NewWorker { queues, heartbeats: false, ..NewWorker::default() };
        self.store.register(&self.me, new).await.expect("anybody may register").id
    }

    pub(crate) async fn fail(&self, worker: WorkerId, claimed: &Claimed, failure: Failure) -> Finish {
        self.finish(worker, claimed.job.id, claimed.job.fence, Outcome::Failed(failure)).await
    }

    pub(crate) async fn park(&self, worker: WorkerId, claimed: &Claimed, park: Park) -> Finish {
        self.finish(worker, claimed.job.id, claimed.job.fence, Outcome::Parked(park)).await
    }

    pub(crate) async fn checkpoint(&self, claimed: &Claimed, step: &str, value: &str) {
        let note = Note::Checkpoint { step: step.to_owned(), value: value.into() };
        self.store.note(&self.me, hand(claimed), vec![note]).await.expect("the lease is held");
    }

    /// Names and values of a job's checkpoints.
    pub(crate) async fn checkpoints(&self, id: JobId) -> Vec<(String, String)> {
        let found = self.store.checkpoints(&self.me, id).await.unwrap().expect("the job is there");
        found
            .into_iter()
            .map(|saved| (saved.step, String::from_utf8_lossy(&saved.value).into_owned()))
            .collect()
    }

    pub(crate) async fn attempts(&self, id: JobId) -> Vec<Attempt> {
        self.store.attempts(&self.me, id).await.unwrap().expect("the job is there")
    }

    /// All that is kept of what happened.
    pub(crate) async fn trail(&self) -> Vec<Record> {
        let mut trail: Vec<Record> = Vec::new();
        loop {
            let after = trail.last().map_or(0, |record| record.seq);
            let query = RecordQuery { after, limit: usize::MAX, ..RecordQuery::default() };
            let page = self.store.audit(&self.me, query).await.unwrap();
            if page.is_empty() {
                return trail;
            }
            trail.extend(page);
        }
    }

    /// What is kept of what happened to one job.
    pub(crate) async fn events_of(&self, id: JobId) -> Vec<AuditEvent> {
        self.trail()
            .await
            .into_iter()
            .filter(|record| record.job == Some(id))
            .map(|record| record.event)
            .collect()
    }

    pub(crate) async fn picture(&self, id: JobId) -> Picture {
        Picture {
            job: self.store.get(&self.me, id).await.unwrap(),
            attempts: self.store.attempts(&self.me, id).await.unwrap(),
            checkpoints: self.store.checkpoints(&self.me, id).await.unwrap(),
            states: self.store.stats(&self.me).await.unwrap().states,
            trail: self.trail().await,
        }
    }

    /// Every transition of a queue is kept from now on.
    pub(crate) async fn audit_all(&self, name: &str) {
        let settings = QueueSettings { audit: Some(AuditLevel::All), ..QueueSettings::default() };
        self.store.configure(&self.me, Settings::Queue(queue(name), settings)).await.unwrap();
    }

    /// A new job in this state, alone in a queue of its own.
    pub(crate) async fn placed(&self, state: State) -> Placed {
        self.placed_as(state, new_job("email.send")).await
    }

    /// This job in this state, alone in a queue of its own.
    pub(crate) async fn placed_as(&self, state: State, mut job: NewJob) -> Placed {
        static QUEUES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("own-{}", QUEUES.fetch_add(1, Ordering::Relaxed));
        job.queue = queue(&name);
        let worker = self.steady_worker_for(&[&name]).await;
        match state {
            State::Created => job.hold = true,
            State::Pending => job.after.push(Dependency::Job(self.submit(new_job("other")).await.id)),
            State::Delayed => job.delay = Some(Duration::from_secs(3600)),
            State::DeadLetter => job.retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() }),
            _ => {}
        }
        let id = self.submit(job).await.id;
        let claimed = match state {
            State::Created | State::Pending | State::Delayed | State::Scheduled => None,
            State::Suspended => {
                self.suspend(id).await;
                None
            }
            State::Cancelled => {
                self.cancel(id).await;
                None
            }
            _ => Some(self.claim_one(worker).await),
        };
        if let Some(claimed) = &claimed {
            self.end_in(state, worker, claimed).await;
        }
        assert_eq!(self.state(id).await, state);
        Placed { id, worker, claimed }
    }

    async fn end_in(&self, state: State, worker: WorkerId, claimed: &Claimed) {
        let outcome = match state {
            State::Running => return,
            State::Waiting => Outcome::Parked(Park::Signal { name: "go".into(), step: None, timeout: None }),
            State::Retrying => {
                Outcome::Failed(Failure::temporary("later").with_retry_after(Duration::from_secs(3600)))
            }
            State::Completed => Outcome::Completed { result: None },
            State::Failed => Outcome::Failed(Failure::permanent("gone", "never")),
            State::DeadLetter => Outcome::Failed(Failure::temporary("again")),
            _ => unreachable!("no attempt ends {state}"),
        };
        self.finish(worker, claimed.job.id, claimed.job.fence, outcome).await;
    }
}

pub(crate) fn caller(id: &str, role: Role, tenant_name: &str) -> Caller {
    Caller::new(id, role, Some(tenant(tenant_name)))
}

pub(crate) fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The shortest time there is to a store.
pub(crate) const MOMENT: Duration = Duration::from_millis(1);

/// A moment less than this.
pub(crate) fn just_under(time: Duration) -> Duration {
    time.saturating_sub(MOMENT)
}
