//! Statistics of errors by fingerprint: they outlive the jobs, and are bounded.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass::job::{Failure, NewJob, RetryPolicy};
use windlass::limits;
use windlass::store::caller::{Caller, Role};
use windlass::store::{ErrorStats, NewWorker};

use crate::fixture::{Fixture, caller, new_job, secs, tenant};

tests!(
    reads_errors, reads::errors:
    an_error_is_counted_from_its_first_to_its_last_failure,
    errors_are_counted_once_and_by_hour_and_day,
    a_tenant_sees_its_own_errors,
    errors_are_bounded_and_forgotten_after_a_month,
);

const HOUR: Duration = Duration::from_secs(3600);

async fn roll_up(t: &Fixture) {
    while t.store.roll_up().await.unwrap().has_more {}
}

fn once(job_type: &str) -> NewJob {
    NewJob { retry: Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() }), ..new_job(job_type) }
}

/// A job that fails with this message, and a commit that writes what was counted before it.
async fn fail(t: &Fixture, job: NewJob, message: &str) {
    let (worker, claimed) = t.running(job).await;
    t.fail(worker, &claimed, Failure::temporary(message)).await;
    t.advance(secs(2));
    t.submit(NewJob { delay: Some(HOUR * 10_000), ..new_job("settle") }).await;
}

async fn errors(t: &Fixture, who: &Caller) -> BTreeMap<String, ErrorStats> {
    t.store.errors(who).await.unwrap()
}

async fn only(t: &Fixture) -> ErrorStats {
    let mut found = errors(t, &t.me).await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.pop_first().unwrap().1
}

/// Model: bounded-commits
async fn an_error_is_counted_from_its_first_to_its_last_failure(t: &Fixture) {
    let first = t.now();
    for (version, job_type) in [("v1", "mail"), ("v2", "report")] {
        let worker = NewWorker {
            name: version.into(),
            concurrency: 1,
            heartbeats: false,
            version: Some(version.into()),
            ..NewWorker::default()
        };
        let worker = t.store.register(&t.me, worker).await.unwrap().id;
        // The first attempt is retried, the second ends the job: both failed.
        let retry = RetryPolicy { max_attempts: 2, ..RetryPolicy::standard() };
        let job = t.submit(NewJob { retry: Some(retry), ..new_job(job_type) }).await;
        for attempt in 0..2 {
            t.advance(HOUR / 12);
            t.tick().await;
            let claimed = t.claim_one(worker).await;
            t.fail(worker, &claimed, Failure::temporary(format!("no route to host 10.0.0.{attempt}"))).await;
        }
        // What is counted stays counted when the job is gone.
        t.advance(secs(2));
        t.store.delete(&t.me, job.id).await.unwrap();
        t.store.deregister(&t.me, worker).await.unwrap();
    }
    for _ in 0..2 {
        let error = only(t).await;
        assert_eq!((error.seen.count, error.seen.pattern.as_str()), (4, "no route to host #"));
        assert_eq!(error.seen.first, first.plus(HOUR / 12));
        assert!(error.seen.last > first.plus(HOUR / 4) && error.seen.last <= t.now());
        assert_eq!(error.seen.versions.keys().collect::<Vec<_>>(), ["v1", "v2"]);
        assert_eq!(error.seen.types.len(), 2);
        t.advance(HOUR);
        t.tick().await;
        roll_up(t).await;
    }
}

/// Model: atomic-changes
async fn errors_are_counted_once_and_by_hour_and_day(t: &Fixture) {
    for round in 1..=6 {
        fail(t, once("mail"), &format!("order {round} not found")).await;
        let error = only(t).await;
        assert_eq!(error.seen.count, round);
        assert_eq!((error.hours.values().sum::<u64>(), error.days.values().sum::<u64>()), (round, round));
        t.advance(HOUR);
        let (one, two) = tokio::join!(t.store.roll_up(), t.store.roll_up());
        one.unwrap();
        two.unwrap();
        roll_up(t).await;
        assert_eq!(only(t).await.seen.count, round);
    }
    let error = only(t).await;
    assert_eq!(error.hours.len(), 6);
    t.advance(HOUR * 24 * 5);
    let error = only(t).await;
    assert!(error.hours.is_empty() && error.days.values().sum::<u64>() == 6, "{error:?}");
}

/// Model: tenant-isolation
async fn a_tenant_sees_its_own_errors(t: &Fixture) {
    for (name, message) in [("blue", "blue failed"), ("red", "red failed"), ("red", "red failed")] {
        fail(t, NewJob { tenant: Some(tenant(name)), ..once("mail") }, message).await;
    }
    let eve = caller("eve", Role::Viewer, "red");
    for _ in 0..2 {
        let own = errors(t, &eve).await;
        let counts: Vec<_> =
            own.values().map(|error| (error.seen.pattern.as_str(), error.seen.count)).collect();
        assert_eq!(counts, [("red failed", 2)]);
        assert_eq!(errors(t, &t.me).await.len(), 2);
        assert!(errors(t, &caller("ann", Role::Viewer, "green")).await.is_empty());
        t.advance(HOUR);
        roll_up(t).await;
    }
}

/// Model: bounded-commits
async fn errors_are_bounded_and_forgotten_after_a_month(t: &Fixture) {
    fail(t, once("mail"), "the one from before").await;
    t.advance(HOUR);
    roll_up(t).await;
    let word = |number: usize| {
        let letter = |part: usize| char::from(b'a' + u8::try_from(part % 26).unwrap());
        format!("{}{}", letter(number / 26), letter(number))
    };
    for number in 0..limits::ERRORS_KEPT + 10 {
        fail(t, once("mail"), &format!("error {}", word(number))).await;
        t.advance(HOUR / 10);
    }
    roll_up(t).await;
    let found = errors(t, &t.me).await;
    assert_eq!(found.len(), limits::ERRORS_KEPT);
    assert!(found.values().all(|error| error.seen.pattern != "the one from before"));
    t.advance(HOUR * 24 * 40);
    assert!(errors(t, &t.me).await.is_empty());
}
