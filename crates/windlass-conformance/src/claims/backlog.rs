//! Backpressure: how many unfinished jobs a queue or tenant may hold.

use std::time::Duration;

use windlass::error::{ActionError, SubmitError, TooDeep, WorkError};
use windlass::job::{Failure, GroupStrategy, JobState, NewJob};
use windlass::settings::{QueueSettings, TenantSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::{BulkAction, Filter, NewGroup, Redrive, Settings};

use crate::fixture::{Fixture, lease_ref, new_job, queue, tenant};

tests!(
    claims_backlog, claims::backlog:
    a_queue_holds_at_most_its_depth,
    a_tenant_holds_at_most_its_depth,
    a_batch_fits_as_a_whole_or_not_at_all,
    every_unfinished_job_counts_and_no_final_one,
    a_duplicate_does_not_count,
    a_tenants_own_depth_counts_its_own_jobs,
    a_redrive_over_the_depth_is_refused,
    redriving_in_bulk_stops_at_the_depth,
    children_over_the_depth_are_refused_and_their_parent_continues,
);

fn deep(limit: u64) -> QueueSettings {
    QueueSettings { max_depth: Some(limit), ..QueueSettings::default() }
}

fn too_deep(error: SubmitError) -> (String, u64, u64) {
    let SubmitError::TooDeep(TooDeep { scope, depth, limit, retry_after }) = error else { panic!("{error}") };
    assert!(retry_after > Duration::ZERO, "it says when to come again");
    (scope, depth, limit)
}

/// Model: backpressure
async fn a_queue_holds_at_most_its_depth(t: &Fixture) {
    t.set_queue("mail", deep(3)).await;
    let mail = NewJob { queue: queue("mail"), ..new_job("send") };
    for name in ["send", "report", "send"] {
        t.submit(NewJob { queue: queue("mail"), ..new_job(name) }).await;
    }
    let other = NewJob { tenant: Some(tenant("acme")), ..mail.clone() };
    for job in [mail.clone(), other] {
        assert_eq!(too_deep(t.refused(vec![job]).await), ("queue mail".into(), 3, 3));
    }
    t.submit(new_job("send")).await;
    t.set_queue("mail", deep(4)).await;
    t.submit(mail).await;
}

/// Model: backpressure
async fn a_tenant_holds_at_most_its_depth(t: &Fixture) {
    t.set_tenant("acme", TenantSettings { max_depth: Some(2), ..TenantSettings::default() }).await;
    let theirs = NewJob { tenant: Some(tenant("acme")), ..new_job("send") };
    t.submit(theirs.clone()).await;
    t.submit(NewJob { queue: queue("mail"), ..theirs.clone() }).await;
    let other_queue = NewJob { queue: queue("slow"), ..theirs };
    assert_eq!(too_deep(t.refused(vec![other_queue]).await), ("tenant acme".into(), 2, 2));
    t.submit(new_job("send")).await;
}

/// Model: batches, backpressure
async fn a_batch_fits_as_a_whole_or_not_at_all(t: &Fixture) {
    t.set_queue("default", deep(10)).await;
    t.submit_all(vec![new_job("send"); 4]).await;
    t.refused(vec![new_job("send"); 7]).await;
    let mut mixed = vec![NewJob { queue: queue("mail"), ..new_job("send") }; 5];
    mixed.extend(vec![new_job("send"); 7]);
    t.refused(mixed).await;
    t.submit_all(vec![new_job("send"); 6]).await;
}

/// Model: backpressure
async fn every_unfinished_job_counts_and_no_final_one(t: &Fixture) {
    let worker = t.worker().await;
    t.set_queue("default", deep(4)).await;
    t.submit(new_job("send")).await;
    let running = t.claim_one(worker).await;
    t.submit(NewJob { hold: true, ..new_job("send") }).await;
    let suspended = t.submit(new_job("send")).await.id;
    t.suspend(suspended).await;
    let delay = Some(Duration::from_secs(60));
    t.submit(NewJob { delay, ..new_job("send") }).await;
    t.refused(vec![new_job("send")]).await;
    t.fail(worker, &running, Failure::temporary("again")).await;
    t.refused(vec![new_job("send")]).await;
    t.cancel(suspended).await;
    let next = t.submit(new_job("send")).await;
    assert_eq!(next.state, JobState::Scheduled);
    t.refused(vec![new_job("send")]).await;
}

/// Model: idempotency-key, backpressure
async fn a_duplicate_does_not_count(t: &Fixture) {
    t.set_queue("default", deep(1)).await;
    let job = NewJob { idempotency_key: Some("once".into()), ..new_job("send") };
    t.submit_all(vec![job.clone(), job.clone()]).await;
    assert!(t.submit_all(vec![job]).await[0].is_duplicate);
}

/// Model: tenant-isolation, backpressure
async fn a_tenants_own_depth_counts_its_own_jobs(t: &Fixture) {
    let operator = Caller::new("ops", Role::Operator, Some(tenant("acme")));
    t.store.configure(&operator, Settings::Queue(queue("default"), deep(1))).await.unwrap();
    let theirs = NewJob { tenant: Some(tenant("acme")), ..new_job("send") };
    t.submit_all(vec![new_job("send"); 3]).await;
    t.submit(theirs.clone()).await;
    t.refused(vec![theirs]).await;
    t.submit(new_job("send")).await;
}

/// Model: final-states, backpressure
async fn a_redrive_over_the_depth_is_refused(t: &Fixture) {
    t.set_queue("default", deep(1)).await;
    let old = t.submit(new_job("send")).await.id;
    t.cancel(old).await;
    t.submit(new_job("send")).await;
    let before = t.everything().await;
    let refused = t.store.redrive(&t.me, old, Redrive::default()).await;
    let Err(ActionError::TooDeep(TooDeep { scope, depth, limit, retry_after })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((scope.as_str(), depth, limit), ("queue default", 1, 1));
    assert!(retry_after > Duration::ZERO, "it says when to come again");
    assert_eq!(t.everything().await, before, "a refusal leaves no trace");
    t.set_queue("default", deep(2)).await;
    t.store.redrive(&t.me, old, Redrive::default()).await.unwrap();
}

/// Model: backpressure
async fn redriving_in_bulk_stops_at_the_depth(t: &Fixture) {
    for job in t.submit_all(vec![new_job("send"); 9]).await {
        t.cancel(job.job.id).await;
    }
    t.set_queue("default", deep(4)).await;
    let all = BulkAction::Redrive(Redrive::default());
    let done = t.store.bulk(&t.me, &Filter::default(), all).await.unwrap();
    assert_eq!((done.matched, done.changed), (9, 4));
    let counts = t.store.stats(&t.me).await.unwrap().states;
    assert_eq!((counts[&JobState::Scheduled], counts[&JobState::Cancelled]), (4, 9));
}

/// Model: child-groups, backpressure
async fn children_over_the_depth_are_refused_and_their_parent_continues(t: &Fixture) {
    let (worker, parent) = t.running(new_job("send")).await;
    t.set_queue("default", deep(3)).await;
    let group = |count| NewGroup {
        name: "group".into(),
        strategy: GroupStrategy::CollectAll,
        jobs: vec![new_job("step"); count],
    };
    let refused = t.store.spawn(&t.me, lease_ref(&parent), group(3)).await;
    let Err(WorkError::Children(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(too_deep(*error), ("queue default".into(), 1, 3));
    assert_eq!(t.state(parent.job.id).await, JobState::Running);
    t.store.spawn(&t.me, lease_ref(&parent), group(2)).await.unwrap();
    assert_eq!(t.claim(worker, 9).await.len(), 2);
}
