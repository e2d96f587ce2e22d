//! What walks have found, each as the shortest story that shows it.

use std::time::Duration;

use windlass::error::{FieldError, FieldProblem, SubmitError, WorkError};
use windlass::job::{Dependency, JobState, NewJob};
use windlass::settings::QueueSettings;
use windlass::store::{AttemptWrite, Redrive, Settings, SubmitOptions};

use crate::fixture::{Fixture, lease_ref, new_job, on_every_engine, queue, tenant};

on_every_engine!(
    a_stale_note_of_a_worker_that_fell_silent_is_refused_by_name,
    a_key_is_counted_in_full_for_queues_with_different_limits,
    waiting_for_a_duplicate_is_waiting_for_the_job_it_stands_for,
    jobs_of_a_batch_that_wait_for_each_other_through_a_duplicate_are_a_cycle,
    a_name_in_a_batch_does_not_reach_into_another_tenant,
    a_unique_key_that_time_frees_belongs_to_the_next_holder,
    keys_and_edges_of_removed_jobs_are_not_missed,
);

fn named(name: &str, after: &[&str]) -> NewJob {
    let after = after.iter().map(|name| Dependency::Named((*name).to_owned())).collect();
    NewJob { name: Some(name.to_owned()), after, ..crate::fixture::new_job("email.send") }
}

/// Model: leases-and-heartbeats. That the worker was silent stands; that its note came too late is its own answer.
async fn a_stale_note_of_a_worker_that_fell_silent_is_refused_by_name(t: &Fixture) {
    let (_, claimed) = t.running(new_job("email.send")).await;
    t.advance(Duration::from_secs(31));
    let note = AttemptWrite::Logs(vec!["still here".to_owned()]);
    let answer = t.store.record(&t.me, lease_ref(&claimed), vec![note]).await;
    assert_eq!(answer, Err(WorkError::Stale(claimed.job.id)));
    assert_eq!(t.state(claimed.job.id).await, JobState::Retrying);
}

/// Model: concurrency-limits. What one queue allows for a key does not hide from another how many there are.
async fn a_key_is_counted_in_full_for_queues_with_different_limits(t: &Fixture) {
    let settings = QueueSettings { max_running_per_key: Some(2), ..QueueSettings::default() };
    t.store.configure(&t.me, Settings::Queue(queue("mail"), settings)).await.expect("an admin may");
    let job = |name: &str| NewJob {
        queue: queue(name),
        concurrency_key: Some("c1".to_owned()),
        ..new_job("email.send")
    };
    let worker = t.worker().await;
    t.submit_all(vec![job("mail"), job("mail")]).await;
    assert_eq!(t.claim(worker, 10).await.len(), 2);
    t.submit_all(vec![job("default"), job("mail")]).await;
    assert!(t.claim(worker, 10).await.is_empty());
}

/// Model: idempotency-key, dependency-limits. A duplicate is the job that had its key before, also for those who wait for it.
async fn waiting_for_a_duplicate_is_waiting_for_the_job_it_stands_for(t: &Fixture) {
    let key = Some("k".to_owned());
    let jobs = vec![named("a", &[]), NewJob { idempotency_key: key.clone(), ..named("b", &["a"]) }];
    let deep = t.submit_all(jobs).await.remove(1).job;
    let jobs = vec![NewJob { idempotency_key: key, ..named("x", &[]) }, named("y", &["x"])];
    let receipts = t.submit_all(jobs).await;
    assert!(receipts[0].is_duplicate);
    assert_eq!(receipts[1].job.depth, deep.depth + 1);
    assert_eq!(t.get(receipts[1].job.id).await.spec.after, [deep.id]);
    // Within one batch, whatever the order.
    let key = Some("m".to_owned());
    let jobs = vec![
        named("d", &["c"]),
        NewJob { idempotency_key: key.clone(), ..named("b", &["a"]) },
        NewJob { idempotency_key: key, ..named("c", &[]) },
        named("a", &[]),
    ];
    let receipts = t.submit_all(jobs).await;
    assert_eq!(receipts[0].job.state, JobState::Pending);
    assert_eq!(t.get(receipts[0].job.id).await.spec.after, [receipts[1].job.id]);
    assert_eq!(receipts[0].job.depth, 3);
}

/// Model: dependency-limits. No job waits for itself, under whatever name.
async fn jobs_of_a_batch_that_wait_for_each_other_through_a_duplicate_are_a_cycle(t: &Fixture) {
    let key = Some("k".to_owned());
    let jobs = vec![
        NewJob { idempotency_key: key.clone(), ..named("a", &["c"]) },
        NewJob { idempotency_key: key, ..named("b", &[]) },
        named("c", &["b"]),
    ];
    let answer = t.store.submit(&t.me, jobs, SubmitOptions::default()).await;
    let Err(SubmitError::Invalid { invalid: FieldError { problem: FieldProblem::Cycle(_), .. }, .. }) =
        answer
    else {
        panic!("{answer:?}");
    };
}

/// Model: dependency-limits, tenant-isolation. Another tenant's job looks like one that does not exist.
async fn a_name_in_a_batch_does_not_reach_into_another_tenant(t: &Fixture) {
    let jobs = vec![NewJob { tenant: Some(tenant("acme")), ..named("a", &[]) }, named("b", &["a"])];
    let answer = t.store.submit(&t.me, jobs, SubmitOptions::default()).await;
    let Err(SubmitError::Invalid { index: 1, invalid }) = answer else { panic!("{answer:?}") };
    assert_eq!(invalid, FieldError::new("after.0", FieldProblem::NoSuchJob("@a".to_owned())));
}

/// Model: unique-key. A holder whose time is over lets go of the key before the next one takes it.
async fn a_unique_key_that_time_frees_belongs_to_the_next_holder(t: &Fixture) {
    let job = || NewJob {
        unique_key: Some("u".to_owned()),
        lifetime: Some(Duration::from_secs(1)),
        ..new_job("email.send")
    };
    let first = t.submit(job()).await;
    t.advance(Duration::from_secs(2));
    let second = t.submit(job()).await;
    let third = t.store.submit(&t.me, vec![job()], SubmitOptions::default()).await;
    let taken = SubmitError::UniqueKeyTaken { index: 0, key: "u".to_owned(), holder: second.id };
    assert_eq!(third, Err(taken));
    t.advance(Duration::from_secs(2));
    t.store.redrive(&t.me, first.id, Redrive::default()).await.expect("the key is free");
}

/// Nothing is wrong with a job that has outlived the window of its key, or a job it waited for.
async fn keys_and_edges_of_removed_jobs_are_not_missed(t: &Fixture) {
    let job = || NewJob {
        idempotency_key: Some("k".to_owned()),
        idempotency_window: Some(Duration::from_secs(1)),
        ..new_job("email.send")
    };
    let first = t.submit(job()).await;
    t.advance(Duration::from_secs(1));
    let second = t.submit(job()).await;
    assert_ne!(first.id, second.id);
    let after_any = vec![Dependency::Job(first.id), Dependency::Job(second.id)];
    let dependent = t.submit(NewJob { after_any, hold: true, ..new_job("email.send") }).await;
    t.cancel(second.id).await;
    t.cancel(dependent.id).await;
    t.store.delete(&t.me, second.id).await.expect("it has ended");
}
