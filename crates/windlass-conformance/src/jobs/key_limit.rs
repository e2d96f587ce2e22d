//! How many concurrency keys the open jobs of a tenant may have.

use windlass::entropy::Entropy;
use windlass::error::{ActionError, FieldError, FieldProblem, ScheduleError, SubmitError, WorkError};
use windlass::job::{GroupStrategy, JobState, NewJob};
use windlass::schedule::ScheduleSpec;
use windlass::settings::TenantSettings;
use windlass::store::{
    BulkAction, Environment, Filter, NewGroup, NewSchedule, Redrive, Store, StoreOptions, SubmitOptions,
};

use crate::fixture::{Fixture, lease_ref, new_job, secs, tenant};
use crate::schedule::{get, named, put};

tests!(
    jobs_key_limit, jobs::key_limit:
    a_tenant_uses_as_many_keys_as_it_may,
    a_batch_with_too_many_keys_adds_nothing,
    a_key_counts_until_its_last_job_has_ended,
    a_change_of_the_limit_counts_at_once,
    a_duplicate_adds_no_key,
    submissions_at_once_do_not_exceed_the_limit,
    a_redriven_job_needs_its_key_again,
    children_with_too_many_keys_are_refused_together,
    a_run_that_finds_no_free_key_is_tried_again,
    keys_of_callbacks_do_not_count,
);

fn job(who: &str, key: &str) -> NewJob {
    NewJob { tenant: Some(tenant(who)), concurrency_key: Some(key.to_owned()), ..new_job("sync") }
}

fn limited_to(limit: u64) -> TenantSettings {
    TenantSettings { max_concurrency_keys: Some(limit), ..TenantSettings::default() }
}

async fn limit_keys(t: &Fixture, limit: u64) {
    t.set_tenant("acme", limited_to(limit)).await;
}

fn beyond(limit: u64, key: &str) -> FieldError {
    let (value, tenant) = (key.to_owned(), "acme".to_owned());
    let problem =
        FieldProblem::LimitReached { name: FieldProblem::MAX_CONCURRENCY_KEYS, value, limit, tenant };
    FieldError::new("concurrency_key", problem)
}

async fn assert_refused(t: &Fixture, jobs: Vec<NewJob>, at: usize, expected: FieldError) {
    let before = t.everything().await;
    match t.refused(jobs).await {
        SubmitError::Invalid { index, invalid } => assert_eq!((index, invalid), (at, expected)),
        other => panic!("{other}"),
    }
    assert_eq!(t.everything().await, before, "a refusal leaves no trace");
}

/// Model: number-of-names
async fn a_tenant_uses_as_many_keys_as_it_may(t: &Fixture) {
    limit_keys(t, 2).await;
    let first = t.submit(job("acme", "a")).await.id;
    t.submit(job("acme", "b")).await;
    assert_refused(t, vec![job("acme", "c")], 0, beyond(2, "c")).await;
    // Keys in use, jobs without a key and other tenants are not concerned.
    t.submit_all(vec![job("acme", "a"), job("acme", "b"), job("other", "c"), job("other", "d")]).await;
    t.submit(NewJob { tenant: Some(tenant("acme")), ..new_job("sync") }).await;
    t.submit_all(vec![job("other", "e"), job("other", "f")]).await;
    t.cancel(first).await;
    assert_refused(t, vec![job("acme", "c")], 0, beyond(2, "c")).await;
    t.verify().await;
}

/// Model: number-of-names, atomic-changes
async fn a_batch_with_too_many_keys_adds_nothing(t: &Fixture) {
    limit_keys(t, 3).await;
    t.submit(job("acme", "a")).await;
    let batch = ["b", "a", "b", "c", "d", "e"].map(|key| job("acme", key));
    assert_refused(t, batch.to_vec(), 4, beyond(3, "d")).await;
    let mixed = vec![job("other", "x"), job("acme", "b"), job("acme", "c"), job("acme", "d")];
    assert_refused(t, mixed, 3, beyond(3, "d")).await;
    // What fits is accepted, however often a key occurs.
    t.submit_all(batch[..4].to_vec()).await;
    t.submit_all(vec![job("acme", "c"); 20]).await;
    assert_refused(t, vec![job("acme", "d")], 0, beyond(3, "d")).await;
    t.verify().await;
}

/// Whether a job with another key is refused; if not, it is cancelled again.
async fn is_key_in_use(t: &Fixture) -> bool {
    let other = NewJob { concurrency_key: Some("other".into()), ..new_job("sync") };
    match t.store.submit(&t.me, vec![other], SubmitOptions::default()).await {
        Ok(receipts) => {
            t.cancel(receipts[0].job.id).await;
            false
        }
        Err(refused) => {
            assert!(matches!(refused, SubmitError::Invalid { .. }), "{refused}");
            true
        }
    }
}

/// Model: number-of-names
async fn a_key_counts_until_its_last_job_has_ended(t: &Fixture) {
    t.set_tenant("default", limited_to(1)).await;
    for (number, state) in JobState::ALL.into_iter().enumerate() {
        let keyed = NewJob { concurrency_key: Some(format!("key {number}")), ..new_job("sync") };
        let placed = t.placed_as(state, keyed.clone()).await;
        let second = t.submit(keyed).await.id;
        t.verify().await;
        assert!(is_key_in_use(t).await);
        t.cancel(second).await;
        assert_eq!(is_key_in_use(t).await, !state.is_final(), "{state}");
        if !state.is_final() {
            t.cancel(placed.id).await;
        }
        assert!(!is_key_in_use(t).await, "{state}");
        t.verify().await;
    }
    // Time ends a job as well.
    let late = NewJob { lifetime: Some(secs(10)), concurrency_key: Some("late".into()), ..new_job("sync") };
    t.submit(late).await;
    assert!(is_key_in_use(t).await);
    t.advance(secs(10));
    t.tick().await;
    assert!(!is_key_in_use(t).await);
    t.verify().await;
}

async fn a_change_of_the_limit_counts_at_once(t: &Fixture) {
    t.submit_all(vec![job("acme", "a"), job("acme", "b"), job("acme", "c")]).await;
    limit_keys(t, 2).await;
    assert_refused(t, vec![job("acme", "d")], 0, beyond(2, "d")).await;
    t.submit(job("acme", "a")).await;
    limit_keys(t, 4).await;
    t.submit(job("acme", "d")).await;
    assert_refused(t, vec![job("acme", "e")], 0, beyond(4, "e")).await;
    limit_keys(t, 0).await;
    assert_refused(t, vec![job("acme", "e")], 0, beyond(0, "e")).await;
    t.set_tenant("acme", TenantSettings::default()).await;
    t.submit_all((0..50).map(|number| job("acme", &format!("k{number}"))).collect()).await;
    t.verify().await;
}

async fn a_duplicate_adds_no_key(t: &Fixture) {
    limit_keys(t, 1).await;
    let once = NewJob { idempotency_key: Some("once".into()), ..job("acme", "a") };
    let first = t.submit(once.clone()).await.id;
    t.cancel(first).await;
    t.submit(job("acme", "b")).await;
    let again = t.submit_all(vec![once.clone()]).await.remove(0);
    assert_eq!((again.job.id, again.is_duplicate), (first, true));
    t.verify().await;
}

/// Submissions and ends that share commits, through one store and, where there can be, through two.
async fn submissions_at_once_do_not_exceed_the_limit(t: &Fixture) {
    limit_keys(t, 10).await;
    let ended = t.submit_all(vec![job("acme", "old"), job("acme", "older")]).await;
    let mut stores = vec![t.store.clone()];
    if !t.address.is_empty() {
        let env = Environment::new(t.clock.clone(), Entropy::seeded(9), StoreOptions::default());
        stores.push(Store::open_in(&t.address, env).unwrap());
    }
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..60 {
        let (store, me) = (stores[number % stores.len()].clone(), t.me.clone());
        let job = job("acme", &format!("k{}", number / 2));
        calls.spawn(async move { store.submit(&me, vec![job], SubmitOptions::default()).await.is_ok() });
    }
    let accepted = calls.join_all().await.into_iter().filter(|is_accepted| *is_accepted).count();
    assert!((8..=16).contains(&accepted), "eight keys, each once or twice: {accepted}");
    t.verify().await;
    assert!(matches!(t.refused(vec![job("acme", "new")]).await, SubmitError::Invalid { .. }));
    for receipt in ended {
        t.cancel(receipt.job.id).await;
    }
    // Each store knows what the other did.
    for (store, key) in stores.iter().zip(["x", "y"]) {
        store.submit(&t.me, vec![job("acme", key)], SubmitOptions::default()).await.unwrap();
    }
    if stores.len() == 1 {
        t.submit(job("acme", "y")).await;
    }
    for store in &stores {
        let refused = store.submit(&t.me, vec![job("acme", "z")], SubmitOptions::default()).await;
        assert_eq!(refused.err(), Some(SubmitError::Invalid { index: 0, invalid: beyond(10, "z") }));
    }
    t.verify().await;
    stores.drain(1..).for_each(|store| store.close());
}

async fn a_redriven_job_needs_its_key_again(t: &Fixture) {
    limit_keys(t, 2).await;
    let old = t.submit_all(vec![job("acme", "a"), job("acme", "b")]).await;
    for receipt in &old {
        t.cancel(receipt.job.id).await;
    }
    t.submit(job("acme", "c")).await;
    t.store.redrive(&t.me, old[0].job.id, Redrive::default()).await.unwrap();
    let before = t.everything().await;
    let refused = t.store.redrive(&t.me, old[1].job.id, Redrive::default()).await;
    assert_eq!(refused, Err(ActionError::Invalid(beyond(2, "b"))));
    assert_eq!(t.everything().await, before, "a refusal leaves no trace");
    let all = Filter { states: [JobState::Cancelled].into(), ..Filter::default() };
    let done = t.store.bulk(&t.me, &all, BulkAction::Redrive(Redrive::default())).await.unwrap();
    assert_eq!((done.matched, done.changed), (2, 1), "the key of the first is in use");
    t.verify().await;
}

async fn children_with_too_many_keys_are_refused_together(t: &Fixture) {
    limit_keys(t, 2).await;
    let (worker, parent) = t.running(job("acme", "parent")).await;
    let child = |key: &str| NewJob { tenant: None, ..job("acme", key) };
    let group = |keys: &[&str]| NewGroup {
        name: "group".into(),
        strategy: GroupStrategy::CollectAll,
        jobs: keys.iter().map(|key| child(key)).collect(),
    };
    let refused = t.store.spawn(&t.me, lease_ref(&parent), group(&["a", "b"])).await;
    let expected = SubmitError::Invalid { index: 1, invalid: beyond(2, "b") };
    assert_eq!(refused.err(), Some(WorkError::Children(Box::new(expected))));
    assert_eq!(t.state(parent.job.id).await, JobState::Running);
    t.store.spawn(&t.me, lease_ref(&parent), group(&["a", "a", "parent"])).await.unwrap();
    assert_eq!(t.claim(worker, 9).await.len(), 2, "one of each key");
    t.verify().await;
}

async fn a_run_that_finds_no_free_key_is_tried_again(t: &Fixture) {
    limit_keys(t, 1).await;
    let blocking = t.submit(job("acme", "a")).await.id;
    let schedule = NewSchedule::new(ScheduleSpec::Every(secs(60)), job("acme", "b"));
    put(t, "often", schedule).await;
    t.advance(secs(60));
    t.tick().await;
    let refused = get(t, "often").await;
    assert!(refused.retry.is_some(), "{refused:?}");
    let message = &refused.refused.as_ref().expect("the only key is in use").message;
    assert!(message.contains("max_concurrency_keys is 1"), "{message}");
    let by_hand = t.store.trigger_schedule(&t.me, named("often")).await.unwrap_err();
    assert!(matches!(by_hand, ScheduleError::Invalid(_)), "{by_hand}");
    t.cancel(blocking).await;
    t.advance(secs(5));
    t.tick().await;
    let schedule = get(t, "often").await;
    assert_eq!((schedule.submitted, schedule.retry), (1, None));
    t.verify().await;
}

/// A callback has its receiver as key, and must not be refused.
async fn keys_of_callbacks_do_not_count(t: &Fixture) {
    limit_keys(t, 1).await;
    let mut reported = job("acme", "a");
    reported.metadata.callback_url = Some("https://example.com/hook".into());
    for _ in 0..2 {
        let id = t.submit(reported.clone()).await.id;
        t.cancel(id).await;
    }
    t.submit(job("acme", "b")).await;
    let id = t.submit(job("acme", "b")).await.id;
    assert_refused(t, vec![job("acme", "c")], 0, beyond(1, "c")).await;
    t.cancel(id).await;
    t.verify().await;
}
