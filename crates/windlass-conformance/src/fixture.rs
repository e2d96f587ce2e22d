//! What every test of a store starts from: a store on the engine under test, a clock that stands still, and short ways to say what is
//! done to it.

mod nodes;
mod states;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use windlass::audit::Record;
use windlass::clock::{Clock, ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::error::SubmitError;
use windlass::job::{
    Dependency, Failure, Fence, JobId, JobRecord, JobState, JobType, NewJob, Payload, Priority, QueueName,
    Tenant, WorkerId,
};
use windlass::settings::{QueueSettings, TenantSettings, TypeSettings};
use windlass::store::caller::Caller;
use windlass::store::engine::RecordQuery;
use windlass::store::{
    ActionReport, ActionRequest, ByState, ClaimRequest, ClaimedJob, Environment, Finish, LeaseRef,
    ListRequest, NewWorker, Outcome, Receipt, Report, Settings, Snapshot, Store, StoreOptions, SubmitOptions,
    Suspend,
};

use crate::{EngineUnderTest, TestStore};

/// A store to be tested.
pub struct Fixture {
    /// One store, or several on the same data that are asked in turns.
    pub store: Nodes,
    pub clock: Arc<ManualClock>,
    pub me: Caller,
    /// Where it can be opened once more; empty if only the engine knows.
    pub address: String,
    /// Whether searches without an index end at their reach.
    pub has_bounded_searches: bool,
    engine: Arc<dyn EngineUnderTest>,
    _keep: Option<Box<dyn Any + Send + Sync>>,
}

/// Seeds of the nodes of a store differ by this.
const SEEDS_PER_NODE: u64 = 1_000;
/// When every test begins.
pub const START: i64 = 1_800_000_000_000;

impl Fixture {
    pub fn new(engine: impl EngineUnderTest) -> Fixture {
        Fixture::with(engine, StoreOptions::default(), 1)
    }

    pub fn with(engine: impl EngineUnderTest, options: StoreOptions, seed: u64) -> Fixture {
        Fixture::on(Arc::new(engine), options, seed)
    }

    fn on(engine: Arc<dyn EngineUnderTest>, options: StoreOptions, seed: u64) -> Fixture {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
        let shared = clock.clone();
        let env = move |node: u64| {
            let entropy = Entropy::seeded(seed + node * SEEDS_PER_NODE);
            Environment::new(shared.clone(), entropy, options.clone())
        };
        let TestStore { store, address, has_bounded_searches, keep } = engine.open(env(0));
        let others =
            (1..engine.nodes()).map(|node| Store::open_in(&address, env(node)).expect("a node opens"));
        let store = Nodes::new(store, others);
        Fixture { store, clock, me: Caller::local(), address, has_bounded_searches, engine, _keep: keep }
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    pub async fn submit(&self, job: NewJob) -> JobRecord {
        self.submit_all(vec![job]).await.remove(0).job
    }

    pub async fn submit_all(&self, jobs: Vec<NewJob>) -> Vec<Receipt> {
        self.store.submit(&self.me, jobs, SubmitOptions::default()).await.expect("the submission is allowed")
    }

    pub async fn worker(&self) -> WorkerId {
        self.worker_for(&[], &[]).await
    }

    pub async fn worker_for(&self, queues: &[&str], types: &[&str]) -> WorkerId {
        let queues = queues.iter().map(|name| QueueName::new(name).unwrap()).collect();
        let types = types.iter().map(|name| JobType::new(name).unwrap()).collect();
        let new = NewWorker { queues, types, ..NewWorker::default() };
        self.store.register(&self.me, new).await.expect("any caller may register").id
    }

    /// Claims up to `limit` jobs, without waiting.
    pub async fn claim(&self, worker: WorkerId, limit: usize) -> Vec<ClaimedJob> {
        let request = ClaimRequest::new(worker, limit);
        self.store.claim(&self.me, &request, Duration::ZERO).await.expect("the worker is known").jobs
    }

    /// Claims the one job that there is.
    pub async fn claim_one(&self, worker: WorkerId) -> ClaimedJob {
        let mut jobs = self.claim(worker, 1).await;
        assert_eq!(jobs.len(), 1, "there is a job to claim");
        jobs.remove(0)
    }

    /// Submits a job and claims it with a new worker.
    pub async fn running(&self, job: NewJob) -> (WorkerId, ClaimedJob) {
        let worker = self.worker().await;
        let job = self.submit(job).await;
        let claimed = self.claim_one(worker).await;
        assert_eq!(claimed.job.id, job.id, "no other job was in the way");
        (worker, claimed)
    }

    pub async fn finish(&self, worker: WorkerId, id: JobId, fence: Fence, outcome: Outcome) -> Finish {
        let reports = vec![Report::new(id, fence, outcome)];
        self.store.finish(&self.me, worker, reports).await.expect("the worker is known").remove(0)
    }

    pub async fn complete(&self, worker: WorkerId, claimed: &ClaimedJob) -> Finish {
        self.finish(worker, claimed.job.id, claimed.job.fence, Outcome::Completed { result: None }).await
    }

    pub async fn act(&self, id: JobId, act: ActionRequest) -> ActionReport {
        self.store.act(&self.me, id, act).await.expect("the action is allowed")
    }

    pub async fn suspend(&self, id: JobId) -> ActionReport {
        self.act(id, ActionRequest::Suspend(Suspend::default())).await
    }

    pub async fn resume(&self, id: JobId) -> ActionReport {
        self.act(id, ActionRequest::Resume { reason: None }).await
    }

    pub async fn cancel(&self, id: JobId) -> ActionReport {
        self.act(id, ActionRequest::Cancel { reason: None }).await
    }

    pub async fn get(&self, id: JobId) -> Snapshot {
        self.store.get(&self.me, id).await.unwrap().expect("the job is there")
    }

    pub async fn state(&self, id: JobId) -> JobState {
        self.get(id).await.job.state
    }

    /// Lets time act on everything.
    pub async fn tick(&self) {
        while self.store.tick().await.unwrap().has_more {}
    }

    /// Every invariant holds; called at the end of every test.
    pub async fn verify(&self) {
        self.tick().await;
        for result in self.store.verify().await.unwrap() {
            assert!(result.holds(), "{}: {}: {:#?}", result.code, result.promise, result.findings);
        }
    }
}

pub fn new_job(job_type: &str) -> NewJob {
    NewJob::new(JobType::new(job_type).unwrap(), Payload::json(r#"{"to":"a@b.c"}"#))
}

pub fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

pub fn lease_ref(claimed: &ClaimedJob) -> LeaseRef {
    let worker = claimed.job.lease.map(|lease| lease.worker);
    LeaseRef { job: claimed.job.id, fence: claimed.job.fence, worker }
}

pub use nodes::Nodes;
pub use states::{MOMENT, PlacedJob, caller, just_under, secs};

/// Everything that is stored, to prove that a refusal changed nothing.
#[derive(Debug, PartialEq)]
pub struct Everything {
    pub jobs: Vec<Snapshot>,
    pub counts: ByState,
    pub records: Vec<Record>,
}

impl Fixture {
    /// Another, empty store on the same engine.
    #[must_use]
    pub fn another(&self, options: StoreOptions) -> Fixture {
        Fixture::on(self.engine.clone(), options, 2)
    }

    pub async fn everything(&self) -> Everything {
        let mut request = ListRequest { limit: 500, ..ListRequest::default() };
        let mut jobs = Vec::new();
        loop {
            let page = self.store.list(&self.me, request.clone()).await.unwrap();
            jobs.extend(page.jobs);
            if page.next.is_none() {
                break;
            }
            request.cursor = page.next;
        }
        let counts = self.store.stats(&self.me).await.unwrap().states;
        Everything { jobs, counts, records: self.records(RecordQuery::default()).await }
    }

    pub async fn records(&self, query: RecordQuery) -> Vec<Record> {
        self.store.audit(&self.me, RecordQuery { limit: 1_000, ..query }).await.unwrap()
    }

    /// Submits what must be refused, and makes sure that nothing changed by it.
    pub async fn refused(&self, jobs: Vec<NewJob>) -> SubmitError {
        let before = self.everything().await;
        let error =
            self.store.submit(&self.me, jobs, SubmitOptions::default()).await.expect_err("must be refused");
        assert_eq!(self.everything().await, before, "a refusal leaves no trace");
        error
    }

    pub async fn fail(&self, worker: WorkerId, claimed: &ClaimedJob, failure: Failure) -> Finish {
        self.finish(worker, claimed.job.id, claimed.job.fence, Outcome::Failed(failure)).await
    }

    /// Claims as many as there are and gives their ids, in order.
    pub async fn claim_ids(&self, worker: WorkerId, limit: usize) -> Vec<JobId> {
        ids(&self.claim(worker, limit).await)
    }

    pub async fn set_queue(&self, name: &str, settings: QueueSettings) {
        self.store.configure(&self.me, Settings::Queue(queue(name), settings)).await.unwrap();
    }

    pub async fn set_type(&self, name: &str, settings: TypeSettings) {
        self.store.configure(&self.me, Settings::Type(job_type(name), settings)).await.unwrap();
    }

    pub async fn set_tenant(&self, name: &str, settings: TenantSettings) {
        self.store.configure(&self.me, Settings::Tenant(tenant(name), settings)).await.unwrap();
    }
}

pub fn job_type(name: &str) -> JobType {
    JobType::new(name).unwrap()
}

pub fn priority(value: i64) -> Priority {
    Priority::new(value).unwrap()
}

pub fn ids(claimed: &[ClaimedJob]) -> Vec<JobId> {
    claimed.iter().map(|claimed| claimed.job.id).collect()
}

/// A job that waits for these to complete.
pub fn after(dependencies: &[JobId]) -> NewJob {
    NewJob { after: dependencies.iter().copied().map(Dependency::Job).collect(), ..new_job("step") }
}

/// A job that waits for one of these to end.
pub fn after_any(dependencies: &[JobId]) -> NewJob {
    NewJob { after_any: dependencies.iter().copied().map(Dependency::Job).collect(), ..new_job("step") }
}

/// A job with a name for others of its batch, which it waits for.
pub fn named(name: &str, after: &[&str]) -> NewJob {
    let after = after.iter().map(|name| Dependency::Named((*name).to_owned())).collect();
    NewJob { name: Some(name.to_owned()), after, ..new_job("step") }
}

/// All of this time but the last instant.
pub fn just_before(time: Duration) -> Duration {
    time.saturating_sub(Duration::from_millis(1))
}

impl Fixture {
    /// Runs everything that can be claimed, and gives the moments it was to run at.
    pub async fn claim_and_finish_all(&self) -> Vec<Timestamp> {
        let worker = self.worker().await;
        let claimed = self.claim(worker, 100).await;
        for job in &claimed {
            self.complete(worker, job).await;
        }
        self.store.deregister(&self.me, worker).await.unwrap();
        claimed.iter().map(|claimed| claimed.job.run_at).collect()
    }
}
