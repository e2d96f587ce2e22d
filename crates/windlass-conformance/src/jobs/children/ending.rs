//! However children end, their parent is notified once.

use windlass::audit::AuditEvent;
use windlass::job::{GroupStrategy, JobId, JobState, NewJob, RetryPolicy, SuspendMode};
use windlass::store::{ActionRequest, LeaseRef, NewGroup, Outcome, Report, Suspend};

use super::{Family, child, family, group, groups, spawn, states};
use crate::fixture::{Fixture, lease_ref, secs};

tests!(
    jobs_children_ending, jobs::children::ending:
    children_that_end_in_one_batch_wake_their_parent_once,
    children_that_end_at_the_same_time_wake_their_parent_once,
    a_child_that_is_cancelled_counts_as_ended,
    a_child_whose_lease_is_lost_counts_once_it_is_final,
    a_child_whose_lifetime_is_over_counts_as_ended,
    a_suspended_parent_stays_suspended_and_the_wake_is_remembered,
    a_parent_to_be_suspended_parks_as_suspended,
    cancelling_a_parent_cancels_the_subtree,
    children_are_pruned_only_after_their_parent_is_final,
);

async fn wakes_of(t: &Fixture, id: JobId) -> usize {
    t.events_of(id).await.into_iter().filter(|event| *event == AuditEvent::Woken).count()
}

/// The parent runs again exactly once, and completes.
async fn is_woken_once(t: &Fixture, family: &Family) {
    assert_eq!(t.state(family.id()).await, JobState::Scheduled);
    assert_eq!(wakes_of(t, family.id()).await, 1);
    let again = t.claim_one(family.worker).await;
    assert_eq!((again.job.id, again.job.attempt), (family.id(), 2));
    t.complete(family.worker, &again).await;
}

/// Model: child-groups
async fn children_that_end_in_one_batch_wake_their_parent_once(t: &Fixture) {
    t.audit_all("default").await;
    let family = family(t).await;
    family.spawn(t, GroupStrategy::CollectAll, 5).await;
    let claimed = family.claim_children(t).await;
    let outcome = Outcome::Completed { result: None };
    let reports =
        claimed.iter().map(|child| Report::new(child.job.id, child.job.fence, outcome.clone())).collect();
    t.store.finish(&t.me, family.children, reports).await.unwrap();
    is_woken_once(t, &family).await;
}

/// Model: child-groups, atomic-changes
async fn children_that_end_at_the_same_time_wake_their_parent_once(t: &Fixture) {
    t.audit_all("default").await;
    let family = family(t).await;
    family.spawn(t, GroupStrategy::Threshold(3), 20).await;
    let mut ending = tokio::task::JoinSet::new();
    for claimed in family.claim_children(t).await {
        let (store, me, worker) = (t.store.clone(), t.me.clone(), family.children);
        let report = Report::new(claimed.job.id, claimed.job.fence, Outcome::Completed { result: None });
        ending.spawn(async move { store.finish(&me, worker, vec![report]).await.unwrap() });
    }
    ending.join_all().await;
    let group = groups(t, family.id()).await.remove(0);
    let completed = states(&group).into_iter().filter(|state| *state == JobState::Completed).count();
    assert_eq!((completed, group.group.open), (3, 0));
    is_woken_once(t, &family).await;
}

/// Model: child-groups
async fn a_child_that_is_cancelled_counts_as_ended(t: &Fixture) {
    t.audit_all("default").await;
    let family = family(t).await;
    let spawned = family.spawn(t, GroupStrategy::CollectAll, 2).await;
    t.cancel(spawned.children[0].id).await;
    t.cancel(spawned.children[0].id).await;
    assert_eq!(t.state(family.id()).await, JobState::Waiting);
    t.cancel(spawned.children[1].id).await;
    is_woken_once(t, &family).await;
}

/// Model: child-groups, crashes-and-poison
async fn a_child_whose_lease_is_lost_counts_once_it_is_final(t: &Fixture) {
    t.audit_all("default").await;
    let family = family(t).await;
    let retry = RetryPolicy { max_attempts: 2, ..RetryPolicy::fixed() };
    let jobs = vec![NewJob { retry: Some(retry), lease_timeout: Some(secs(10)), ..child() }];
    spawn(t, &family.parent, NewGroup { jobs, ..group("all", GroupStrategy::FailFast, 0) }).await;
    for state in [JobState::Waiting, JobState::Scheduled] {
        t.claim_one(family.children).await;
        t.advance(secs(10));
        t.tick().await;
        assert_eq!(t.state(family.id()).await, state);
        t.advance(secs(1));
    }
    is_woken_once(t, &family).await;
}

/// Model: child-groups, lifetime
async fn a_child_whose_lifetime_is_over_counts_as_ended(t: &Fixture) {
    t.audit_all("default").await;
    let family = family(t).await;
    let jobs = vec![NewJob { lifetime: Some(secs(60)), ..child() }; 2];
    spawn(t, &family.parent, NewGroup { jobs, ..group("all", GroupStrategy::CollectAll, 0) }).await;
    t.claim_one(family.children).await;
    t.advance(secs(60));
    t.tick().await;
    assert_eq!(states(&groups(t, family.id()).await[0]), [JobState::DeadLetter; 2]);
    is_woken_once(t, &family).await;
}

/// Model: resume
async fn a_suspended_parent_stays_suspended_and_the_wake_is_remembered(t: &Fixture) {
    t.audit_all("default").await;
    let family = family(t).await;
    family.spawn(t, GroupStrategy::CollectAll, 1).await;
    t.suspend(family.id()).await;
    assert_eq!(t.resume(family.id()).await.job.state, JobState::Waiting, "its child has not ended");
    t.suspend(family.id()).await;
    let claimed = t.claim_one(family.children).await;
    t.complete(family.children, &claimed).await;
    t.tick().await;
    let parent = t.get(family.id()).await.job;
    assert_eq!((parent.state, parent.details.wait.clone()), (JobState::Suspended, None));
    assert_eq!(t.resume(family.id()).await.job.state, JobState::Scheduled);
    is_woken_once(t, &family).await;
}

/// Model: suspend-modes, resume
async fn a_parent_to_be_suspended_parks_as_suspended(t: &Fixture) {
    let family = family(t).await;
    let suspend = Suspend { mode: SuspendMode::Graceful, ..Suspend::default() };
    t.act(family.id(), ActionRequest::Suspend(suspend)).await;
    let spawned = family.spawn(t, GroupStrategy::CollectAll, 1).await;
    assert_eq!(spawned.parent.state, JobState::Suspended);
    let claimed = t.claim_one(family.children).await;
    t.complete(family.children, &claimed).await;
    assert_eq!(t.state(family.id()).await, JobState::Suspended);
    assert_eq!(t.resume(family.id()).await.job.state, JobState::Scheduled);
}

/// Model: child-groups, atomic-changes
async fn cancelling_a_parent_cancels_the_subtree(t: &Fixture) {
    let family = family(t).await;
    let spawned = family.spawn(t, GroupStrategy::CollectAll, 3).await;
    let claimed = family.claim_children(t).await;
    t.complete(family.children, &claimed[0]).await;
    let inner = spawn(t, &claimed[1], group("inner", GroupStrategy::CollectAll, 2)).await;
    let running = t.claim_one(family.children).await;
    let hand_before: LeaseRef = lease_ref(&running);
    t.cancel(family.id()).await;
    for (job, state) in
        [(&spawned.children[0], JobState::Completed), (&spawned.children[1], JobState::Cancelled)]
    {
        assert_eq!(t.state(job.id).await, state);
    }
    assert_eq!(t.state(spawned.children[2].id).await, JobState::Cancelled);
    for grandchild in &inner.children {
        assert_eq!(t.state(grandchild.id).await, JobState::Cancelled);
    }
    assert!(t.get(running.job.id).await.job.fence > hand_before.fence, "the running one is fenced off");
    assert_eq!(t.store.stats(&t.me).await.unwrap().states[&JobState::Cancelled], 5);
    let events = t.trail().await.into_iter().filter(|record| record.event == AuditEvent::Cancelled).count();
    assert_eq!(events, 5, "each is recorded once");
}

/// Model: retention
async fn children_are_pruned_only_after_their_parent_is_final(t: &Fixture) {
    let family = family(t).await;
    let spawned = family.spawn(t, GroupStrategy::CollectAll, 2).await;
    let claimed = family.claim_children(t).await;
    t.complete(family.children, &claimed[0]).await;
    // The parent's lifetime is as long as the retention of its child; suspended, it outlives it.
    t.suspend(family.id()).await;
    t.cancel(spawned.children[1].id).await;
    t.advance(secs(8 * 24 * 3600));
    assert_eq!(t.store.prune().await.unwrap(), 0);
    assert_eq!(groups(t, family.id()).await[0].children.len(), 2);
    t.cancel(family.id()).await;
    assert_eq!(t.store.prune().await.unwrap(), 2);
    assert_eq!(t.store.get(&t.me, spawned.children[0].id).await.unwrap(), None);
    t.advance(secs(8 * 24 * 3600));
    assert_eq!(t.store.prune().await.unwrap(), 1);
}
