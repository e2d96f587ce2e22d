//! Store time when clocks are wrong, and what a gap of the store means for its workers, on every engine. Every clock is moved
//! by hand, each apart from the others.

mod gap;
mod jump;
mod locked;
mod moved;
mod nodes;
mod processes;
mod start;
mod walk;

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use windlass::clock::{ManualClocks, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{JobId, JobRecord, JobState, NewJob, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::{
    ClaimRequest, ClaimedJob, Directive, Environment, HeartbeatItem, NewWorker, Store, StoreOptions,
    SubmitOptions,
};

use crate::fixture::{On, START};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE_MS: i64 = 60_000;
const DAY: Duration = Duration::from_secs(24 * 3600);
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// A process with a store open, and the clocks of its machine and of its database.
struct Node {
    store: Store,
    clocks: Arc<ManualClocks>,
    address: String,
    me: Caller,
    _files: Option<TempDir>,
}

impl Node {
    fn new(on: On) -> Node {
        let clocks = Arc::new(ManualClocks::new(Timestamp::from_millis(START)));
        let (files, address) = on.address();
        let store = open(&address, &clocks);
        Node { store, clocks, address, me: Caller::local(), _files: files }
    }

    /// The process ends and is started again after `gap`.
    fn restart_after(self, gap: Duration) -> Node {
        self.store.close();
        drop(self.store);
        self.clocks.pass(gap);
        Node { store: open(&self.address, &self.clocks), ..self }
    }

    /// Another process on the same store and machine.
    fn another(&self) -> Node {
        let store = open(&self.address, &self.clocks);
        let (clocks, address, me) = (self.clocks.clone(), self.address.clone(), self.me.clone());
        Node { store, clocks, address, me, _files: None }
    }

    /// Sets the wall clock off that this store goes by.
    fn step(&self, millis: i64) {
        match On::of(&self.address) {
            On::Memory | On::Sqlite => self.clocks.step_wall(millis),
            On::Postgres => self.clocks.step_database(millis),
        }
    }

    async fn submit(&self, jobs: Vec<NewJob>) -> Vec<JobId> {
        let receipts = self.store.submit(&self.me, jobs, SubmitOptions::default()).await.unwrap();
        receipts.into_iter().map(|receipt| receipt.job.id).collect()
    }

    async fn worker(&self) -> WorkerId {
        self.store.register(&self.me, NewWorker::default()).await.unwrap().id
    }

    async fn claim(&self, worker: WorkerId, limit: usize) -> Vec<ClaimedJob> {
        let request = ClaimRequest::new(worker, limit);
        self.store.claim(&self.me, &request, Duration::ZERO).await.unwrap().jobs
    }

    /// The directives to a worker that beats for these jobs.
    async fn beat(&self, worker: WorkerId, claimed: &[ClaimedJob]) -> Vec<Directive> {
        let beats =
            claimed.iter().map(|claimed| HeartbeatItem::new(claimed.job.id, claimed.job.fence)).collect();
        let reply = self.store.heartbeat(&self.me, worker, beats).await.unwrap();
        reply.directives.into_iter().map(|(_, directive)| directive).collect()
    }

    async fn job(&self, id: JobId) -> JobRecord {
        self.store.get(&self.me, id).await.unwrap().expect("the job is there").job
    }

    async fn states(&self) -> Vec<(JobState, u64)> {
        let stats = self.store.stats(&self.me).await.unwrap();
        stats.states.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    async fn tick(&self) {
        while self.store.tick().await.unwrap().has_more {}
    }

    /// Time passes second by second while the store keeps itself.
    async fn pass(&self, seconds: u64) {
        for _ in 0..seconds {
            self.clocks.pass(SECOND);
            self.tick().await;
        }
    }

    /// The same while a worker beats every ten seconds; all of its jobs stay with it.
    async fn pass_beating(&self, seconds: u64, worker: WorkerId, claimed: &[ClaimedJob]) {
        for second in 0..seconds {
            self.clocks.pass(SECOND);
            self.tick().await;
            if second % 10 == 0 {
                let directives = self.beat(worker, claimed).await;
                assert!(
                    directives.iter().all(|reply| *reply == Directive::Continue),
                    "{second}: {directives:?}"
                );
            }
        }
    }

    async fn verify(&self) {
        for result in self.store.verify().await.unwrap() {
            assert!(result.holds(), "{}: {}: {:#?}", result.code, result.promise, result.findings);
        }
    }
}

fn open(address: &str, clocks: &Arc<ManualClocks>) -> Store {
    let env = Environment::new(clocks.clone(), Entropy::from_system(), StoreOptions::default());
    Store::open_in(address, env).expect("the store opens")
}

/// A test for each engine that is named.
macro_rules! on_engines {
    ($engines:tt $($test:ident),+ $(,)?) => {
        $(mod $test {
            crate::clock::on_engines!(@ $test, $engines);
        })+
    };
    (@ $test:ident, [$($engine:ident),+]) => {
        $(
            #[tokio::test]
            #[allow(non_snake_case, reason = "named for the engine")]
            async fn $engine() {
                super::$test(crate::fixture::On::$engine).await;
            }
        )+
    };
}
use on_engines;
