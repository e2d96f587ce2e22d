//! Claiming ahead: which attempts count, and from when.

use std::sync::Arc;
use std::time::Duration;

use crate::clock::{ManualClock, Timestamp};
use crate::entropy::Entropy;
use crate::job::{JobRecord, JobType, NewJob, Payload, WorkerId};
use crate::store::Store;
use crate::store::caller::Caller;
use crate::store::command::claim::ClaimRequest;
use crate::store::command::submit::SubmitOptions;
use crate::store::command::worker::NewWorker;
use crate::store::environment::{Environment, StoreOptions};

async fn register(store: &Store) -> WorkerId {
    store.register(&Caller::local(), NewWorker::default()).await.unwrap().id
}

/// Claims everything; the first `starts` jobs are started at once.
async fn claim(store: &Store, worker: WorkerId, starts: usize) -> Vec<JobRecord> {
    let (me, request, never) = (Caller::local(), ClaimRequest::new(worker, 10), std::future::pending());
    let claimed = store.claim_ahead(&me, &request, move || starts, Duration::ZERO, never);
    claimed.await.unwrap().jobs.into_iter().map(|claimed| claimed.job).collect()
}

/// Model: crashes-and-poison. A job that crashes its worker before its start is recorded is not charged the first time. The second time it is,
/// so that it is poison in the end and does not crash workers forever.
#[tokio::test]
async fn a_job_that_ends_its_workers_is_poison_although_it_is_claimed_ahead() {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000)));
    let env = Environment::new(clock.clone(), Entropy::seeded(1), StoreOptions::default());
    let store = Store::open_in("memory:", env).unwrap();
    let job = NewJob::new(JobType::new("send").unwrap(), Payload::json("{}"));
    let id = store.submit(&Caller::local(), vec![job], SubmitOptions::default()).await.unwrap()[0].job.id;
    for life in 0..4 {
        let worker = register(&store).await;
        let claimed = claim(&store, worker, 0).await;
        assert_eq!(claimed.len(), 1, "life {life}");
        assert_eq!((claimed[0].has.claim_ahead, claimed[0].attempt), (life == 0, life));
        clock.advance(Duration::from_secs(600));
        while store.tick().await.unwrap().has_more {}
        let lost = store.get(&Caller::local(), id).await.unwrap().unwrap().job;
        assert_eq!((lost.crashes, lost.attempt), (life, life));
        clock.advance(Duration::from_secs(60));
        while store.tick().await.unwrap().has_more {}
    }
    let poison = store.get(&Caller::local(), id).await.unwrap().unwrap().job;
    assert_eq!(poison.details.error.as_ref().unwrap().code.as_deref(), Some("poison"));
}
