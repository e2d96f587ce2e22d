//! Who is woken by what; with a store in memory, since every engine announces the same.

use std::sync::Arc;
use std::time::Duration;

use super::Listener;
use crate::clock::{ManualClock, Timestamp};
use crate::entropy::Entropy;
use crate::job::{JobType, NewJob, Payload, QueueName, WorkerId};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::claim::{ClaimRequest, Claimed};
use crate::store::command::finish::{Outcome, Report};
use crate::store::command::hold::{Pause, Target};
use crate::store::command::settings::Settings;
use crate::store::command::submit::SubmitOptions;
use crate::store::command::worker::NewWorker;
use crate::store::config::{PauseMode, QueueSettings};
use crate::store::environment::{Environment, StoreOptions};

struct Fixture {
    store: Store,
    clock: Arc<ManualClock>,
    me: Caller,
}

impl Fixture {
    fn new() -> Fixture {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000)));
        let env = Environment::new(clock.clone(), Entropy::seeded(1), StoreOptions::default());
        Fixture { store: Store::open_in("memory:", env).unwrap(), clock, me: Caller::local() }
    }

    /// A running job, and one more that could run.
    async fn running(&self) -> (WorkerId, Claimed) {
        let worker = self.store.register(&self.me, NewWorker::default()).await.unwrap().id;
        let jobs = vec![NewJob::new(JobType::new("send").unwrap(), Payload::json("{}")); 2];
        self.store.submit(&self.me, jobs, SubmitOptions::default()).await.unwrap();
        let request = ClaimRequest::new(worker, 1);
        let claimed = self.store.claim(&self.me, &request, Duration::ZERO).await.unwrap().jobs.remove(0);
        (worker, claimed)
    }

    async fn complete(&self, worker: WorkerId, claimed: &Claimed) {
        let outcome = Outcome::Completed { result: None };
        let report = Report::new(claimed.job.id, claimed.job.fence, outcome);
        self.store.finish(&self.me, worker, vec![report]).await.unwrap();
    }

    fn interrupts(&self) -> Listener {
        self.store.environment().wakeups.interrupts()
    }
}

async fn has_news(listener: &mut Listener) -> bool {
    tokio::time::timeout(Duration::ZERO, listener.news()).await.is_ok()
}

/// M55: the handlers of a worker that is paused aggressively hear of it before others run their jobs for long.
#[tokio::test]
async fn a_worker_whose_jobs_are_taken_away_is_told_at_once() {
    let t = Fixture::new();
    let (worker, _) = t.running().await;
    let mut interrupts = t.interrupts();
    let pause = Pause { mode: PauseMode::Aggressive, ..Pause::default() };
    t.store.pause(&t.me, Target::Worker(worker), pause).await.unwrap();
    assert!(has_news(&mut interrupts).await);
}

/// M31
#[tokio::test]
async fn a_worker_whose_lease_is_lost_is_told_at_once() {
    let t = Fixture::new();
    t.running().await;
    let mut interrupts = t.interrupts();
    t.clock.advance(Duration::from_secs(31));
    t.store.tick().await.unwrap();
    assert!(has_news(&mut interrupts).await);
}

#[tokio::test]
async fn an_attempt_that_ends_by_itself_interrupts_nobody() {
    let t = Fixture::new();
    let (worker, claimed) = t.running().await;
    let mut interrupts = t.interrupts();
    t.complete(worker, &claimed).await;
    assert!(!has_news(&mut interrupts).await);
}

/// M103: who waits for a place that is limited need not poll for it.
#[tokio::test]
async fn a_place_that_becomes_free_wakes_those_who_wait_for_work() {
    for max_running in [None, Some(1)] {
        let t = Fixture::new();
        let settings = QueueSettings { max_running, ..QueueSettings::default() };
        t.store.configure(&t.me, Settings::Queue(QueueName::default(), settings)).await.unwrap();
        let (worker, claimed) = t.running().await;
        let mut work = t.store.environment().wakeups.work();
        t.complete(worker, &claimed).await;
        assert_eq!(has_news(&mut work).await, max_running.is_some());
    }
}
