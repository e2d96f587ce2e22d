//! A spawning that is refused leaves nothing behind, and the parent running.

use windlass::error::{FieldProblem, SubmitError, WorkError};
use windlass::job::{Dependency, GroupStrategy, JobId, JobState, NewJob};
use windlass::limits;
use windlass::store::caller::Role;
use windlass::store::{ClaimedJob, LeaseRef, NewGroup, NewWorker, SpawnOptions, SubmitOptions};

use super::{child, family, group};
use crate::fixture::{Fixture, caller, lease_ref, new_job, secs, tenant};

tests!(
    jobs_children_refusal, jobs::children::refusal:
    a_stale_hand_spawns_nothing,
    a_threshold_is_between_one_and_the_number_of_children,
    children_that_are_not_allowed_are_refused_together,
    a_child_that_waits_for_what_waits_for_its_parent_is_refused,
    children_belong_to_their_parents_tenant,
    a_worker_may_spawn_though_it_may_not_submit,
);

/// Model: counters-and-fences, child-groups
async fn a_stale_hand_spawns_nothing(t: &Fixture) {
    let family = family(t).await;
    let old = lease_ref(&family.parent);
    t.advance(family.parent.job.policy.timeouts.lease);
    t.tick().await;
    t.advance(secs(5));
    let current = lease_ref(&t.claim_one(family.worker).await);
    let before = t.picture(family.id()).await;
    let unknown = JobId::from_bytes([7; 16]);
    for (stale, expected) in [
        (old, WorkError::Stale(family.id())),
        (LeaseRef { worker: Some(family.children), ..current }, WorkError::Stale(family.id())),
        (LeaseRef { job: unknown, ..current }, WorkError::NoSuchJob(unknown)),
    ] {
        let refused = t.store.spawn(&t.me, stale, group("all", GroupStrategy::CollectAll, 2)).await;
        assert_eq!(refused.unwrap_err(), expected);
    }
    assert_eq!(t.picture(family.id()).await, before);
    assert!(super::groups(t, family.id()).await.is_empty());
}

/// Model: child-groups
async fn a_threshold_is_between_one_and_the_number_of_children(t: &Fixture) {
    let family = family(t).await;
    let before = t.picture(family.id()).await;
    for (threshold, count) in [(0, 2), (3, 2), (1, 0)] {
        let refused = t
            .store
            .spawn(&t.me, lease_ref(&family.parent), group("all", GroupStrategy::Threshold(threshold), count))
            .await;
        let Err(WorkError::Invalid(invalid)) = refused else { panic!("{refused:?}") };
        assert_eq!(invalid.field, "strategy.threshold");
        // "allowed is 1 to 0" would help no reader.
        assert_eq!(count == 0, matches!(invalid.problem, FieldProblem::Contradiction(_)), "{invalid}");
    }
    assert_eq!(t.picture(family.id()).await, before);
    for name in [String::new(), "n".repeat(limits::STEP_NAME_CHARS_MAX + 1)] {
        let refused =
            t.store.spawn(&t.me, lease_ref(&family.parent), group(&name, GroupStrategy::CollectAll, 1)).await;
        assert!(
            matches!(&refused, Err(WorkError::Invalid(invalid)) if invalid.field == "group"),
            "{refused:?}"
        );
    }
    assert_eq!(t.picture(family.id()).await, before);
    family.spawn(t, GroupStrategy::Threshold(2), 2).await;
}

/// Model: child-groups, batches
async fn children_that_are_not_allowed_are_refused_together(t: &Fixture) {
    let family = family(t).await;
    let before = t.picture(family.id()).await;
    let bad = [
        NewJob { idempotency_key: Some("once".into()), ..child() },
        NewJob { delay: Some(secs(1)), run_at: Some(t.now()), ..child() },
        NewJob { after: vec![windlass::job::Dependency::Job(JobId::from_bytes([7; 16]))], ..child() },
        NewJob {
            payload: windlass::job::Payload::json("1".repeat(limits::PAYLOAD_BYTES_DEFAULT + 1)),
            ..child()
        },
    ];
    for bad in bad {
        let jobs = vec![child(), bad];
        let new = NewGroup { jobs, ..group("all", GroupStrategy::CollectAll, 0) };
        let refused = t.store.spawn(&t.me, lease_ref(&family.parent), new).await;
        let Err(WorkError::Children(error)) = refused else { panic!("{refused:?}") };
        assert!(matches!(
            *error,
            SubmitError::Invalid { index: 1, .. } | SubmitError::PayloadTooLarge { index: 1, .. }
        ));
    }
    assert_eq!(t.picture(family.id()).await, before);
}

/// Model: dependency-limits, child-groups
async fn a_child_that_waits_for_what_waits_for_its_parent_is_refused(t: &Fixture) {
    let family = family(t).await;
    let after = |id| vec![Dependency::Job(id)];
    let dependent = t.submit(NewJob { after: after(family.id()), ..child() }).await.id;
    let last = t.submit(NewJob { after_any: after(dependent), hold: true, ..child() }).await.id;
    let other = t.submit(NewJob { after_any: vec![Dependency::Job(family.id())], ..child() }).await.id;
    let free = t.submit(new_job("other")).await.id;
    let before = t.picture(family.id()).await;
    let with =
        |job: NewJob| NewGroup { jobs: vec![child(), job], ..group("all", GroupStrategy::CollectAll, 0) };
    let refuses = async |parent: &ClaimedJob, id: JobId| {
        for job in [NewJob { after: after(id), ..child() }, NewJob { after_any: after(id), ..child() }] {
            let refused = t.store.spawn(&t.me, lease_ref(parent), with(job)).await;
            let Err(WorkError::Children(error)) = refused else { panic!("{refused:?}") };
            let SubmitError::Invalid { index, invalid } = *error else { panic!("{error}") };
            assert_eq!((index, invalid.problem), (1, FieldProblem::Cycle(id.to_string())));
        }
    };
    for id in [family.id(), dependent, last, other] {
        refuses(&family.parent, id).await;
    }
    assert_eq!(t.picture(family.id()).await, before);
    // What waits for a parent of the parent, which is parked on it, counts as well.
    t.store
        .spawn(&t.me, lease_ref(&family.parent), with(NewJob { after: after(free), ..child() }))
        .await
        .unwrap();
    let grandchild = t.claim_one(family.children).await;
    for id in [family.id(), dependent, last] {
        refuses(&grandchild, id).await;
    }
    // A job that continues beside the child waits for nothing.
    let options = SpawnOptions { keeps_running: true, ..SpawnOptions::default() };
    let beside = with(NewJob { after: after(dependent), ..child() });
    t.store.spawn_with(&t.me, lease_ref(&grandchild), beside, options).await.unwrap();
}

/// Model: tenant-isolation
async fn children_belong_to_their_parents_tenant(t: &Fixture) {
    let parent = NewJob { tenant: Some(tenant("blue")), ..new_job("parent") };
    let (_, claimed) = t.running(parent).await;
    let before = t.picture(claimed.job.id).await;
    // Not even an admin's worker may spawn across tenants.
    let jobs = vec![child(), NewJob { tenant: Some(tenant("red")), ..child() }];
    let new = NewGroup { jobs, ..group("all", GroupStrategy::CollectAll, 0) };
    let refused = t.store.spawn(&t.me, lease_ref(&claimed), new).await;
    let Err(WorkError::Children(error)) = refused else { panic!("{refused:?}") };
    let SubmitError::Invalid { index, invalid } = *error else { panic!("{error}") };
    assert_eq!((index, invalid.field.as_str()), (1, "tenant"));
    assert_eq!(t.picture(claimed.job.id).await, before);
    let jobs = vec![child(), NewJob { tenant: Some(tenant("blue")), ..child() }];
    let new = NewGroup { jobs, ..group("all", GroupStrategy::CollectAll, 0) };
    let spawned = t.store.spawn(&t.me, lease_ref(&claimed), new).await.unwrap();
    assert!(spawned.children.iter().all(|child| child.lane.tenant == tenant("blue")));
}

/// Model: roles
async fn a_worker_may_spawn_though_it_may_not_submit(t: &Fixture) {
    let worker = caller("robot", Role::Worker, "blue");
    let registered = t.store.register(&worker, NewWorker::default()).await.unwrap().id;
    let parent = t.submit(NewJob { tenant: Some(tenant("blue")), ..new_job("parent") }).await;
    let claimed = t.claim_one(registered).await;
    let refused = t.store.submit(&worker, vec![new_job("child")], SubmitOptions::default()).await;
    assert!(refused.is_err());
    let spawned = t
        .store
        .spawn(&worker, lease_ref(&claimed), group("all", GroupStrategy::CollectAll, 1))
        .await
        .unwrap();
    assert_eq!((spawned.parent.id, spawned.parent.state), (parent.id, JobState::Waiting));
}
