//! Helpers for users' tests: a store in memory, a clock that tests advance, handlers that run on demand, and workers
//! that crash at chosen points. Retries, schedules, timeouts and crash recovery are tested in milliseconds, without
//! sleeping. The code is the same as in a normal worker, run step by step.

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

/// Start time of every test client.
const START: i64 = 1_800_000_000_000;

/// A client for tests.
pub struct TestClient {
    client: Client,
    /// The store itself, whose clock the test advances.
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
    /// An empty store in memory; deterministic.
    pub fn new() -> TestClient {
        TestClient::open("memory:")
    }

    /// An empty store at an address, for tests with a real database.
    ///
    /// # Panics
    /// If the store cannot be opened.
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

    /// Uses the same store and clock, but the program under test accesses them through a server at this address.
    ///
    /// # Panics
    /// If the address is invalid.
    #[must_use]
    #[cfg(feature = "remote")]
    pub fn through(self, address: &str) -> TestClient {
        let env = Environment::new(self.clock.clone(), Entropy::seeded(2), StoreOptions::default());
        let client = Client::connect_in(address, env).expect("the address is valid");
        TestClient { client, ..self }
    }

    /// The store itself.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The client, as the program under test uses it.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The current time of the store.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Advances the clock, and applies every timer on the way in order: lease expiry, delays, backoffs, lifetimes.
    ///
    /// # Panics
    /// If the store fails.
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
            let ticked = self.store.tick().await.expect("timers are applied");
            if !ticked.has_more {
                return ticked;
            }
        }
    }

    /// Advances by `time` as if workers ran all the time: runs due jobs, advances to the next due time, and so on.
    /// Returns how many attempts ran. `worker` creates a new worker for each round.
    ///
    /// # Panics
    /// If a worker cannot register or the store fails.
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

    /// Runs all due jobs with this worker, and those that become due by that, until none are left. Returns how many
    /// attempts ran. The worker registers for each call and deregisters afterwards, unless it crashed: then it stays
    /// registered, and its job stays leased until the lease expires.
    ///
    /// The store's time does not advance meanwhile. A handler that hangs is stopped by its execution timeout, which
    /// uses tokio's time: test that with `#[tokio::test(start_paused = true)]`, where it takes no real time.
    ///
    /// # Panics
    /// If the worker cannot register or the store fails.
    pub async fn run_due(&self, worker: Worker) -> usize {
        let (shared, lanes, _inbox) =
            worker.journalled(self.journal.clone()).assemble().await.expect("the worker registers");
        // All due jobs start at once, so a batch need not wait for more.
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
                    shared.client.api().claim(shared.client.caller(), &request, Duration::ZERO).await;
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
            // Stored before the next claim.
            completer::send(&shared, reports).await;
        }
    }

    /// Deregisters a worker that holds no jobs.
    async fn leave(&self, worker: WorkerId) {
        let (store, caller) = (&self.store, &Caller::local());
        let filter = Filter { workers: vec![worker], states: vec![JobState::Running], ..Filter::default() };
        let held = store.list(caller, ListRequest { filter, limit: 1, ..ListRequest::default() }).await;
        if held.expect("the store answers").jobs.is_empty() {
            store.deregister(caller, worker).await.expect("the worker leaves");
        }
    }

    /// The job's current data.
    ///
    /// # Panics
    /// If the job does not exist.
    pub async fn job(&self, id: JobId) -> Snapshot {
        let found = self.client.api().get(self.client.caller(), id).await.expect("the store answers");
        found.expect("the job is there")
    }

    /// The job's attempts, oldest first.
    ///
    /// # Panics
    /// If the job does not exist.
    pub async fn attempts(&self, id: JobId) -> Vec<Attempt> {
        let found = self.client.api().attempts(self.client.caller(), id).await.expect("the store answers");
        found.expect("the job is there")
    }

    /// All calls of steps by this job's attempts, in order.
    pub fn steps(&self, id: JobId) -> Vec<StepCall> {
        let journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.iter().filter(|call| call.job == id).cloned().collect()
    }
}
