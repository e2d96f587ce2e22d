//! For users' tests: a queue in memory, a clock that moves when told to, handlers that run when told to, and workers that
//! die where told to. Retries, schedules, timeouts and crash recovery are tested in milliseconds, without sleeping. It
//! runs the same code as a worker that runs by itself, only step by step.

mod assert;
mod tamper;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub use tamper::tamper;
use tokio_util::sync::CancellationToken;

pub use crate::context::{CrashPoint, StepCall, StepRun};

use crate::client::Client;
use crate::clock::{Clock, ManualClock, Timestamp};
use crate::context::StepLog;
use crate::entropy::Entropy;
use crate::job::{JobId, JobState, WorkerId};
use crate::limits;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::claim::ClaimRequest;
use crate::store::command::maintenance::TickReport;
use crate::store::environment::{Environment, StoreOptions};
use crate::store::filter::Filter;
use crate::store::query::job_details::Attempt;
use crate::store::query::list::ListRequest;
use crate::store::query::snapshot::Snapshot;
use crate::worker::{Worker, completer, execute};

/// When every test queue begins.
const START: i64 = 1_800_000_000_000;

/// A queue to be tested with.
pub struct TestClient {
    client: Client,
    /// The store itself, on which time is made to act.
    store: Store,
    clock: Arc<ManualClock>,
    journal: Arc<StepLog>,
}

impl Default for TestClient {
    fn default() -> TestClient {
        TestClient::new()
    }
}

impl TestClient {
    /// An empty queue in memory; the same every time.
    pub fn new() -> TestClient {
        TestClient::open("memory:")
    }

    /// An empty queue at an address, for tests that want the real database.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub fn open(address: &str) -> TestClient {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
        let env = Environment::new(clock.clone(), Entropy::seeded(1), StoreOptions::default());
        let store = Store::open_in(address, env).expect("the store of a test opens");
        TestClient {
            client: Client::from_store_without_maintenance(store.clone()),
            store,
            clock,
            journal: Arc::default(),
        }
    }

    /// The same store and the same clock, but the program under test reaches them through a server at this address.
    ///
    /// # Panics
    /// When it is no address.
    #[must_use]
    pub fn through(self, address: &str) -> TestClient {
        let env = Environment::new(self.clock.clone(), Entropy::seeded(2), StoreOptions::default());
        let queue =
            Client::from_store_without_maintenance(Store::open_in(address, env).expect("the address is one"));
        TestClient { client: queue, ..self }
    }

    /// The store itself.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The queue, as the program under test uses it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Moves the clock, and lets time act at every moment on the way: leases end, delays and backoffs are over, lifetimes
    /// too, each in its order.
    ///
    /// # Panics
    /// When the store fails.
    pub async fn advance(&self, by: Duration) {
        let end = self.now().plus(by);
        loop {
            let next_at = self.tick().await.next_at;
            let now = self.now();
            if now >= end {
                return;
            }
            let next = next_at.filter(|at| *at > now).map_or(end, |at| at.min(end));
            self.clock.advance(next.since(now));
        }
    }

    async fn tick(&self) -> TickReport {
        loop {
            let ticked = self.store.tick().await.expect("time acts");
            if !ticked.has_more {
                return ticked;
            }
        }
    }

    /// Lets `time` pass as if workers ran all the while: runs what is due, moves to the next moment at which anything is,
    /// and so on; says how many attempts ran. For each round a new worker is made.
    ///
    /// # Panics
    /// When a worker cannot register or the store fails.
    pub async fn run_for(&self, time: Duration, mut worker: impl FnMut() -> Worker) -> usize {
        let end = self.now().plus(time);
        let mut attempts = 0;
        loop {
            attempts += self.run_due(worker()).await;
            let now = self.now();
            if now >= end {
                return attempts;
            }
            let next = self.tick().await.next_at.map_or(end, |at| at.min(end));
            self.advance(next.since(now).max(Duration::from_millis(1))).await;
        }
    }

    /// Runs everything that is due with this worker, and everything that becomes due by it, until nothing is; says how
    /// many attempts ran. The worker is registered anew each time and leaves afterwards, unless it crashed on something:
    /// then it is gone without a word, and that stays leased until the lease ends.
    ///
    /// The store's time stands still meanwhile. A handler that hangs is cut off by its execution timeout, which is counted
    /// in tokio's time: test that with `#[tokio::test(start_paused = true)]`, where it takes no time either.
    ///
    /// # Panics
    /// When the worker cannot register or the store fails.
    pub async fn run_due(&self, worker: Worker) -> usize {
        let (shared, lanes, _inbox) =
            worker.journalled(self.journal.clone()).assemble().await.expect("the worker registers");
        // Everything that is due is started at once: a batch need not wait for more.
        let no_more = CancellationToken::new();
        no_more.cancel();
        shared.start_handlers(&no_more);
        let mut attempts = 0;
        loop {
            let mut started = Vec::new();
            for (queue, slots) in &lanes {
                let request = ClaimRequest {
                    worker: shared.id(),
                    queues: Some(vec![queue.clone()]),
                    types: shared.types(),
                    limit: (*slots).min(limits::CLAIM_JOBS_MAX),
                };
                let claimed =
                    shared.client.store().claim(shared.client.caller(), &request, Duration::ZERO).await;
                for job in claimed.expect("the store answers").jobs {
                    let shared = shared.clone();
                    started.push(tokio::spawn(async move { execute::attempt(&shared, job).await }));
                }
            }
            if started.is_empty() {
                self.leave(shared.id()).await;
                return attempts;
            }
            attempts += started.len();
            let mut reports = Vec::new();
            for attempt in started {
                reports.extend(attempt.await.expect("the attempt is supervised"));
            }
            // In the store before the next claim looks for work.
            completer::send(&shared, reports).await;
        }
    }

    /// Takes a worker out of the registry that holds nothing any more.
    async fn leave(&self, worker: WorkerId) {
        let (store, caller) = (&self.store, &Caller::local());
        let filter = Filter { workers: vec![worker], states: vec![JobState::Running], ..Filter::default() };
        let held = store.list(caller, ListRequest { filter, limit: 1, ..ListRequest::default() }).await;
        if held.expect("the store answers").jobs.is_empty() {
            store.deregister(caller, worker).await.expect("the worker leaves");
        }
    }

    /// Everything about a job.
    ///
    /// # Panics
    /// When there is no such job.
    pub async fn job(&self, id: JobId) -> Snapshot {
        let found = self.client.store().get(self.client.caller(), id).await.expect("the store answers");
        found.expect("the job is there")
    }

    /// A job's attempts.
    ///
    /// # Panics
    /// When there is no such job.
    pub async fn attempts(&self, id: JobId) -> Vec<Attempt> {
        let found = self.client.store().attempts(self.client.caller(), id).await.expect("the store answers");
        found.expect("the job is there")
    }

    /// Every call of a step by this job's attempts, in their order.
    pub fn steps(&self, id: JobId) -> Vec<StepCall> {
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.iter().filter(|call| call.job == id).cloned().collect()
    }
}
