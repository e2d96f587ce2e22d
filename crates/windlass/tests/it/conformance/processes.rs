//! What the suite promises of every engine, with several processes on one store, one after the other or at once; and what
//! takes too long to be done on every engine.

use std::sync::Arc;
use std::time::Duration;

use windlass::clock::{ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{JobState, WorkerId};
use windlass::limits;
use windlass::settings::patch::{Field, RetentionPatch};
use windlass::store::caller::{Caller, Role};
use windlass::store::{
    ActionRequest, ClaimRequest, Environment, NewKey, NewWorker, Outcome, Pause, PauseTarget, Store,
    StoreOptions, SubmitOptions,
};
use windlass_conformance::access::made;
use windlass_conformance::reads::retention::is_there;

use crate::fixture::{Fixture, On, START, ids, job_type, new_job, queue, secs, tenant};

const DAY: u64 = 24 * 3600;
const MINUTE: Duration = Duration::from_secs(60);

/// Model: attempt-records. A job that is released again and again keeps every attempt, and says so.
#[tokio::test]
async fn any_number_of_attempts_is_kept_and_shown() {
    let t = Fixture::new(On::Memory);
    let (worker, id) = (t.worker().await, t.submit(new_job("email.send")).await.id);
    let rounds = windlass::limits::CHECKPOINTS_MAX + 2;
    for _ in 0..rounds {
        let claimed = t.claim_one(worker).await;
        t.finish(worker, id, claimed.job.fence, Outcome::Released).await;
    }
    assert_eq!(t.store.attempts(&t.me, id).await.unwrap().unwrap().len(), rounds);
}

/// Model: audit-trail, wake-ups. What another process keeps arrives too.
#[tokio::test]
async fn a_feed_has_events_of_other_processes() {
    let t = Fixture::new(On::Sqlite);
    let other = Store::open(&t.address, StoreOptions::default()).unwrap();
    let mut feed = t.store.events(&t.me, 0);
    let me = Caller::local();
    for expected in 1..=3 {
        let job =
            other.submit(&me, vec![new_job("email.send")], SubmitOptions::default()).await.unwrap().remove(0);
        other.act(&me, job.job.id, ActionRequest::Cancel { reason: None }).await.unwrap();
        let received = tokio::time::timeout(Duration::from_secs(20), feed.next()).await;
        assert_eq!(received.expect("it arrives").unwrap().seq, expected);
    }
    other.close();
    t.store.close();
}

/// Model: tenant-isolation. Another process on the same file trusts what it has read for less than a second.
#[tokio::test(start_paused = true)]
async fn a_key_revoked_by_another_process_is_rejected_within_a_second() {
    let t = Fixture::new(On::Sqlite);
    let clock = Arc::new(ManualClock::new(t.now()));
    let env = Environment::new(clock, Entropy::seeded(7), StoreOptions::default());
    let other = Store::open_in(&t.address, env).unwrap();
    let (id, secret) = made(&t, NewKey::new("web", Role::Submitter)).await;
    assert!(other.authenticate(&secret).await.unwrap().is_some(), "nothing was remembered before");
    t.store.revoke_key(&t.me, id).await.unwrap();
    assert!(limits::KEY_CACHE_TTL < secs(1));
    tokio::time::advance(limits::KEY_CACHE_TTL).await;
    assert_eq!(other.authenticate(&secret).await.unwrap(), None);
    other.close();
    t.store.close();
}

#[tokio::test]
async fn a_new_key_counts_for_all_processes_on_a_file() {
    a_new_key_counts_for_all_processes(On::Sqlite).await;
}

#[tokio::test]
async fn a_new_key_counts_for_all_processes_on_postgres() {
    a_new_key_counts_for_all_processes(On::Postgres).await;
}

/// Model: roles. From the first key on every process asks for one, and every key is known wherever it is used, at once.
async fn a_new_key_counts_for_all_processes(on: On) {
    let t = Fixture::new(on);
    let env = Environment::new(t.clock.clone(), Entropy::seeded(7), StoreOptions::default());
    let other = Store::open_in(&t.address, env).unwrap();
    assert!(!other.has_keys().await.unwrap());
    let (_, first) = made(&t, NewKey::new("root", Role::Admin)).await;
    assert!(other.has_keys().await.unwrap());
    for _ in 0..3 {
        assert!(other.authenticate(&first).await.unwrap().is_some());
        let (_, next) = made(&t, NewKey::new("web", Role::Submitter)).await;
        assert!(other.authenticate(&next).await.unwrap().is_some());
    }
    other.close();
    t.store.close();
}

#[tokio::test]
async fn one_retention_counts_for_all_processes_on_a_file() {
    one_retention_counts_for_all_processes(On::Sqlite).await;
}

#[tokio::test]
async fn one_retention_counts_for_all_processes_on_postgres() {
    one_retention_counts_for_all_processes(On::Postgres).await;
}

/// Model: retention. A process that was started with a shorter retention removes nothing that the store keeps.
async fn one_retention_counts_for_all_processes(on: On) {
    let month = StoreOptions { retention: secs(30 * DAY), ..StoreOptions::default() };
    let t = Fixture::with(on, month, 1);
    t.store.prune().await.unwrap();
    let cancelled = t.placed(JobState::Cancelled).await.id;
    let hour = StoreOptions { retention: secs(3600), ..StoreOptions::default() };
    let env = Environment::new(t.clock.clone(), Entropy::seeded(7), hour);
    let other = Store::open_in(&t.address, env).unwrap();
    t.advance(secs(29 * DAY));
    assert_eq!(other.prune().await.unwrap(), 0);
    assert_eq!(other.retention(&t.me).await.unwrap().cancelled, Some(secs(30 * DAY)));
    let week = RetentionPatch { cancelled: Field::Set(secs(7 * DAY)), ..RetentionPatch::default() };
    other.set_retention(&t.me, week).await.unwrap();
    assert_eq!(t.store.prune().await.unwrap(), 1);
    assert!(!is_there(&t.store, &t.me, cancelled).await);
    other.close();
}

/// Model: queue-pause, worker-pause, processing-on-and-off
#[tokio::test]
async fn pauses_survive_a_restart() {
    let files = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", files.path().join("jobs.db").display());
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
    let open = |seed| {
        let env = Environment::new(clock.clone(), Entropy::seeded(seed), StoreOptions::default());
        Store::open_in(&address, env).unwrap()
    };
    let me = Caller::local();
    let store = open(1);
    let worker: WorkerId =
        store.register(&me, NewWorker { heartbeats: false, ..NewWorker::default() }).await.unwrap().id;
    let targets = [
        PauseTarget::Gate,
        PauseTarget::Tenant(tenant("default")),
        PauseTarget::Type(job_type("email.send")),
        PauseTarget::Queue(queue("default")),
        PauseTarget::Worker(worker),
    ];
    let how = Pause { reason: Some("moving house".into()), expires: Some(MINUTE), ..Pause::default() };
    for target in &targets {
        store.pause(&me, target.clone(), how.clone()).await.unwrap();
    }
    let job = store
        .submit(&me, vec![new_job("email.send")], SubmitOptions::default())
        .await
        .unwrap()
        .remove(0)
        .job
        .id;
    let before = store.config(&Caller::local()).await.unwrap();
    store.close();
    drop(store);
    let store = open(2);
    assert_eq!(store.config(&Caller::local()).await.unwrap(), before);
    for target in targets {
        let answer = store.claim(&me, &ClaimRequest::new(worker, 1), Duration::ZERO).await.unwrap();
        assert!(answer.jobs.is_empty(), "still held by {target:?}");
        assert!(store.resume(&me, target, None).await.unwrap());
    }
    let answer = store.claim(&me, &ClaimRequest::new(worker, 1), Duration::ZERO).await.unwrap();
    assert_eq!(ids(&answer.jobs), [job]);
    store.close();
}
