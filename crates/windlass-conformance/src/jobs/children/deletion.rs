//! A finished child stays until its parent has ended: the parent may read its result at any time before.

use windlass::error::ActionError;
use windlass::job::{GroupDecision, GroupStrategy, JobId, JobState, NeededBy};
use windlass::store::{BulkAction, BulkReport, ClaimedJob, Filter, Outcome};

use super::{Family, family, groups};
use crate::fixture::Fixture;

tests!(
    jobs_children_deletion, jobs::children::deletion:
    a_finished_child_is_not_deleted_before_its_parent_has_ended,
    a_bulk_deletion_skips_children_that_their_parent_needs,
    a_child_is_needed_also_while_its_parent_runs_again,
);

async fn complete(t: &Fixture, family: &Family, child: &ClaimedJob, result: &str) {
    let outcome = Outcome::Completed { result: Some(result.into()) };
    t.finish(family.children, child.job.id, child.job.fence, outcome).await;
}

async fn results(t: &Fixture, family: &Family) -> Vec<Option<Vec<u8>>> {
    let group = groups(t, family.id()).await.remove(0);
    let slots = group.into_slots().into_iter();
    slots.map(|slot| slot.and_then(|(_, result)| result.map(|bytes| bytes.to_vec()))).collect()
}

fn needed(family: &Family, id: JobId) -> ActionError {
    ActionError::Needed { id, state: JobState::Completed, by: NeededBy::Parent(family.id()) }
}

/// Model: child-groups
async fn a_finished_child_is_not_deleted_before_its_parent_has_ended(t: &Fixture) {
    let family = family(t).await;
    family.spawn(t, GroupStrategy::CollectAll, 2).await;
    let claimed = family.claim_children(t).await;
    let first = claimed[0].job.id;
    complete(t, &family, &claimed[0], "0").await;
    let refused = t.store.delete(&t.me, first).await.unwrap_err();
    assert_eq!(refused, needed(&family, first));
    let said = refused.to_string();
    assert!(said.contains(&family.id().to_string()) && said.contains("parent"), "{said}");
    assert_eq!(t.state(first).await, JobState::Completed, "nothing changed");
    complete(t, &family, &claimed[1], "1").await;
    let parent = t.claim_one(family.worker).await;
    assert_eq!(results(t, &family).await, [Some(b"0".to_vec()), Some(b"1".to_vec())]);
    t.complete(family.worker, &parent).await;
    t.store.delete(&t.me, first).await.expect("its parent has ended");
    assert!(t.store.get(&t.me, first).await.unwrap().is_none());
}

/// Model: child-groups. An operator clears everything that completed while a parent waits for its last child.
async fn a_bulk_deletion_skips_children_that_their_parent_needs(t: &Fixture) {
    let family = family(t).await;
    family.spawn(t, GroupStrategy::CollectAll, 3).await;
    let claimed = family.claim_children(t).await;
    complete(t, &family, &claimed[0], "0").await;
    complete(t, &family, &claimed[1], "1").await;
    let completed = Filter { states: vec![JobState::Completed], ..Filter::default() };
    let done = t.store.bulk(&t.me, &completed, BulkAction::Delete).await.unwrap();
    assert_eq!(done, BulkReport { matched: 2, changed: 0, skipped: 2 });
    complete(t, &family, &claimed[2], "2").await;
    assert_eq!(t.state(family.id()).await, JobState::Scheduled);
    let group = groups(t, family.id()).await.remove(0);
    assert_eq!((group.group.decided, group.children.len()), (Some(GroupDecision::Well), 3));
    assert_eq!(results(t, &family).await, [b"0", b"1", b"2"].map(|result| Some(result.to_vec())));
    let parent = t.claim_one(family.worker).await;
    t.complete(family.worker, &parent).await;
    let done = t.store.bulk(&t.me, &completed, BulkAction::Delete).await.unwrap();
    assert_eq!(done, BulkReport { matched: 4, changed: 4, skipped: 0 }, "the parent, and then its children");
}

/// Model: child-groups. A parent that was woken reads its group once more in every later attempt.
async fn a_child_is_needed_also_while_its_parent_runs_again(t: &Fixture) {
    let family = family(t).await;
    family.spawn(t, GroupStrategy::CollectAll, 1).await;
    let claimed = family.claim_children(t).await;
    complete(t, &family, &claimed[0], "0").await;
    let parent = t.claim_one(family.worker).await;
    let child = claimed[0].job.id;
    assert_eq!(t.store.delete(&t.me, child).await, Err(needed(&family, child)));
    t.finish(family.worker, parent.job.id, parent.job.fence, Outcome::Released).await;
    assert_eq!(t.store.delete(&t.me, child).await, Err(needed(&family, child)));
    t.cancel(family.id()).await;
    t.store.delete(&t.me, child).await.expect("its parent has ended");
}
