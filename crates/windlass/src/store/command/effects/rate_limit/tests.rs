//! What a rate limit per key leaves behind, and what a change of settings costs.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{ManualClock, Timestamp};
use crate::entropy::Entropy;
use crate::job::{JobState, JobType, NewJob, Payload, QueueName, Rate, WorkerId};
use crate::limits;
use crate::settings::QueueSettings;
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::claim::ClaimRequest;
use crate::store::command::settings::Settings;
use crate::store::command::submit::SubmitOptions;
use crate::store::command::worker::NewWorker;
use crate::store::engine::DocumentKind;
use crate::store::environment::{Environment, StoreOptions};
use crate::store::filter::Filter;

struct Fixture {
    store: Store,
    clock: Arc<ManualClock>,
    me: Caller,
}

impl Fixture {
    fn new() -> Fixture {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
        let env = Environment::new(clock.clone(), Entropy::seeded(1), StoreOptions::default());
        Fixture { store: Store::open_in("memory:", env).unwrap(), clock, me: Caller::local() }
    }

    async fn submit(&self, key: &str, count: usize) {
        let kind = JobType::new("sync").unwrap();
        let job = NewJob { concurrency_key: Some(key.into()), ..NewJob::new(kind, Payload::json("1")) };
        self.store.submit(&self.me, vec![job; count], SubmitOptions::default()).await.unwrap();
    }

    async fn set(&self, rate_per_key: Option<Rate>, max_running_per_key: Option<u64>) {
        let settings = QueueSettings { max_running_per_key, rate_per_key, ..QueueSettings::default() };
        self.store.configure(&self.me, Settings::Queue(QueueName::default(), settings)).await.unwrap();
    }

    async fn worker(&self) -> WorkerId {
        self.store
            .register(&self.me, NewWorker { heartbeats: false, ..NewWorker::default() })
            .await
            .unwrap()
            .id
    }

    async fn claim(&self, worker: WorkerId) -> usize {
        let request = ClaimRequest::new(worker, 1_000);
        self.store.claim(&self.me, &request, Duration::ZERO).await.unwrap().jobs.len()
    }

    async fn tick(&self) {
        while self.store.tick().await.unwrap().has_more {}
    }

    async fn documents(&self) -> Vec<String> {
        let found = self.store.read("documents", |view| view.db.documents(DocumentKind::Bucket)).await;
        found.unwrap().into_iter().map(|document| document.key).collect()
    }

    async fn set_aside(&self) -> u64 {
        let filter =
            Filter { states: vec![JobState::Scheduled], is_blocked: Some(true), ..Filter::default() };
        self.store.bulk_dry_run(&self.me, &filter).await.unwrap()
    }
}

/// Model: rate-limits. Keys that were used once must not be stored forever.
#[tokio::test]
async fn keys_that_have_rested_leave_nothing_behind() {
    let t = Fixture::new();
    t.set(Some(Rate::new(2, Duration::from_secs(10))), Some(9)).await;
    let worker = t.worker().await;
    for number in 0..50 {
        t.submit(&format!("k{number}"), 3).await;
    }
    assert_eq!(t.claim(worker).await, 100);
    assert_eq!(t.documents().await.len(), 100, "a bucket and a timer for each key");
    t.clock.advance(Duration::from_secs(5));
    assert_eq!(t.claim(worker).await, 50);
    for _ in 0..3 {
        t.clock.advance(Duration::from_secs(11));
        t.tick().await;
    }
    assert_eq!(t.documents().await, Vec::<String>::new());
    assert_eq!(t.store.tick().await.unwrap().next_at.map(|at| at > t.clock_now()), Some(true));
}

/// Model: concurrency-limits. A change that affects many waiting jobs is applied in bounded commits and reaches all of them.
#[tokio::test]
async fn a_changed_limit_reaches_every_key_however_many_jobs_wait() {
    let t = Fixture::new();
    let worker = t.worker().await;
    let keys = 3 * limits::BULK_JOBS_PER_COMMIT;
    for number in 0..keys {
        t.submit(&format!("k{number}"), 3).await;
    }
    let mut running = 0;
    while running < keys {
        running += t.claim(worker).await;
    }
    t.claim(worker).await;
    assert_eq!(t.set_aside().await, 2 * keys as u64);
    t.set(None, Some(2)).await;
    assert!(t.set_aside().await >= 2 * keys as u64 - limits::BULK_JOBS_PER_COMMIT as u64);
    t.tick().await;
    for _ in 0..20 {
        t.tick().await;
        running += t.claim(worker).await;
    }
    assert_eq!(running, 2 * keys, "each key runs two now");
    assert_eq!(t.documents().await, Vec::<String>::new());
}

impl Fixture {
    fn clock_now(&self) -> Timestamp {
        crate::clock::Clock::now(&*self.clock)
    }
}
