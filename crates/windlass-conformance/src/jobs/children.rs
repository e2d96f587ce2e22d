//! A job that spawns others: it parks until their group is decided, and resumes exactly once.

pub mod beside;
pub mod deletion;
pub mod ending;
pub mod refusal;

use std::sync::Arc;

use windlass::job::{Failure, GroupDecision, GroupStrategy, JobId, JobState, NewJob, Wait, WorkerId};
use windlass::store::{ClaimedJob, Finish, Group, NewGroup, Outcome, SpawnReport};

use crate::fixture::{Fixture, lease_ref, new_job, queue};

tests!(
    jobs_children, jobs::children:
    collect_all_waits_for_every_child_and_keeps_input_order_with_an_error_per_child,
    fail_fast_is_decided_by_the_first_bad_end_and_cancels_the_rest,
    fail_fast_succeeds_when_all_complete,
    a_threshold_is_decided_when_reached_and_cancels_the_rest,
    a_threshold_is_decided_when_it_can_no_longer_be_reached,
    an_empty_group_is_decided_at_once,
    a_child_that_ends_at_once_counts_like_any_other,
    a_parked_parent_holds_no_slot,
    groups_nest_and_each_wakes_its_own_parent,
    a_replay_finds_the_group_it_has_and_continues,
);

/// A running parent, and workers for it and for its children.
struct Family {
    worker: WorkerId,
    children: WorkerId,
    parent: ClaimedJob,
}

async fn family(t: &Fixture) -> Family {
    let (worker, children) =
        (t.steady_worker_for(&["default"]).await, t.steady_worker_for(&["children"]).await);
    t.submit(new_job("parent")).await;
    Family { worker, children, parent: t.claim_one(worker).await }
}

fn child() -> NewJob {
    NewJob { queue: queue("children"), ..new_job("child") }
}

fn group(name: &str, strategy: GroupStrategy, count: usize) -> NewGroup {
    NewGroup { name: name.into(), strategy, jobs: vec![child(); count] }
}

impl Family {
    fn id(&self) -> JobId {
        self.parent.job.id
    }

    async fn spawn(&self, t: &Fixture, strategy: GroupStrategy, count: usize) -> SpawnReport {
        spawn(t, &self.parent, group("all", strategy, count)).await
    }

    async fn claim_children(&self, t: &Fixture) -> Vec<ClaimedJob> {
        t.claim(self.children, 100).await
    }
}

async fn spawn(t: &Fixture, parent: &ClaimedJob, group: NewGroup) -> SpawnReport {
    t.store.spawn(&t.me, lease_ref(parent), group).await.expect("the lease is held")
}

async fn groups(t: &Fixture, parent: JobId) -> Vec<Group> {
    t.store.groups(&t.me, parent).await.unwrap().expect("the parent is there")
}

fn states(group: &Group) -> Vec<JobState> {
    group.children.iter().map(|(child, _)| child.state).collect()
}

/// Model: child-groups
async fn collect_all_waits_for_every_child_and_keeps_input_order_with_an_error_per_child(t: &Fixture) {
    let family = family(t).await;
    let spawned = family.spawn(t, GroupStrategy::CollectAll, 3).await;
    assert_eq!((spawned.group, spawned.is_known, spawned.children.len()), (1, false, 3));
    assert_eq!(spawned.parent.state, JobState::Waiting);
    assert_eq!(spawned.parent.details.wait, Some(Wait::Children { group: 1 }));
    let claimed = family.claim_children(t).await;
    // They end in another order than they were spawned in.
    for (at, result) in [(2, Some("2")), (0, Some("0"))] {
        assert_eq!(t.state(family.id()).await, JobState::Waiting);
        let outcome = Outcome::Completed { result: result.map(Into::into) };
        t.finish(family.children, claimed[at].job.id, claimed[at].job.fence, outcome).await;
    }
    t.fail(family.children, &claimed[1], Failure::permanent("gone", "no such thing")).await;
    assert_eq!(t.state(family.id()).await, JobState::Scheduled);
    let group = groups(t, family.id()).await.remove(0);
    assert_eq!((group.group.decided, group.group.completed), (Some(GroupDecision::Badly), 2));
    let ids: Vec<JobId> = group.children.iter().map(|(child, _)| child.id).collect();
    assert_eq!(ids, spawned.children.iter().map(|child| child.id).collect::<Vec<_>>());
    let results: Vec<Option<&[u8]>> = group.children.iter().map(|(_, result)| result.as_deref()).collect();
    assert_eq!(results, [Some(b"0".as_slice()), None, Some(b"2")]);
    let errors: Vec<Option<String>> = group
        .children
        .iter()
        .map(|(child, _)| child.details.error.as_ref().and_then(|error| error.code.clone()))
        .collect();
    assert_eq!(errors, [None, Some("gone".to_owned()), None]);
}

/// Model: child-groups, counters-and-fences
async fn fail_fast_is_decided_by_the_first_bad_end_and_cancels_the_rest(t: &Fixture) {
    let family = family(t).await;
    family.spawn(t, GroupStrategy::FailFast, 4).await;
    let claimed = t.claim(family.children, 3).await;
    t.complete(family.children, &claimed[0]).await;
    t.fail(family.children, &claimed[1], Failure::permanent("gone", "never")).await;
    let group = groups(t, family.id()).await.remove(0);
    assert_eq!(group.group.decided, Some(GroupDecision::Badly));
    assert_eq!(
        states(&group),
        [JobState::Completed, JobState::Failed, JobState::Cancelled, JobState::Cancelled]
    );
    assert_eq!((group.group.open, t.state(family.id()).await), (0, JobState::Scheduled));
    // The one that was still running is fenced off.
    assert_eq!(t.complete(family.children, &claimed[2]).await, Finish::Stale);
}

/// Model: child-groups
async fn fail_fast_succeeds_when_all_complete(t: &Fixture) {
    let family = family(t).await;
    family.spawn(t, GroupStrategy::FailFast, 2).await;
    for claimed in family.claim_children(t).await {
        assert_eq!(t.state(family.id()).await, JobState::Waiting);
        t.complete(family.children, &claimed).await;
    }
    assert_eq!(groups(t, family.id()).await[0].group.decided, Some(GroupDecision::Well));
    assert_eq!(t.state(family.id()).await, JobState::Scheduled);
}

/// Model: child-groups
async fn a_threshold_is_decided_when_reached_and_cancels_the_rest(t: &Fixture) {
    let family = family(t).await;
    family.spawn(t, GroupStrategy::Threshold(2), 4).await;
    let claimed = family.claim_children(t).await;
    t.fail(family.children, &claimed[0], Failure::permanent("gone", "never")).await;
    t.complete(family.children, &claimed[1]).await;
    assert_eq!(t.state(family.id()).await, JobState::Waiting);
    t.complete(family.children, &claimed[2]).await;
    let group = groups(t, family.id()).await.remove(0);
    assert_eq!(group.group.decided, Some(GroupDecision::Well));
    assert_eq!(
        states(&group),
        [JobState::Failed, JobState::Completed, JobState::Completed, JobState::Cancelled]
    );
    assert_eq!(t.state(family.id()).await, JobState::Scheduled);
}

/// Model: child-groups
async fn a_threshold_is_decided_when_it_can_no_longer_be_reached(t: &Fixture) {
    let family = family(t).await;
    family.spawn(t, GroupStrategy::Threshold(3), 4).await;
    let claimed = family.claim_children(t).await;
    t.fail(family.children, &claimed[0], Failure::permanent("gone", "never")).await;
    assert_eq!(t.state(family.id()).await, JobState::Waiting, "three can still complete");
    t.fail(family.children, &claimed[1], Failure::permanent("gone", "never")).await;
    let group = groups(t, family.id()).await.remove(0);
    assert_eq!(group.group.decided, Some(GroupDecision::Badly));
    assert_eq!(states(&group)[2..], [JobState::Cancelled, JobState::Cancelled]);
    assert_eq!(t.state(family.id()).await, JobState::Scheduled);
}

/// Model: child-groups
async fn an_empty_group_is_decided_at_once(t: &Fixture) {
    for strategy in [GroupStrategy::FailFast, GroupStrategy::CollectAll] {
        let family = family(t).await;
        let spawned = family.spawn(t, strategy, 0).await;
        assert_eq!((spawned.children.len(), spawned.parent.state), (0, JobState::Scheduled));
        let again = t.claim_one(family.worker).await;
        assert_eq!(again.job.attempt, 2);
        assert_eq!(groups(t, family.id()).await[0].group.decided, Some(GroupDecision::Well));
        t.complete(family.worker, &again).await;
    }
}

/// Model: child-groups, dependency-limits
async fn a_child_that_ends_at_once_counts_like_any_other(t: &Fixture) {
    let gone = t.placed(JobState::Failed).await.id;
    for strategy in [GroupStrategy::FailFast, GroupStrategy::Threshold(2), GroupStrategy::CollectAll] {
        let family = family(t).await;
        let mut group = group("all", strategy, 2);
        group.jobs[0].after.push(windlass::job::Dependency::Job(gone));
        let spawned = spawn(t, &family.parent, group).await;
        assert_eq!(spawned.children[0].state, JobState::Failed);
        let is_decided = strategy != GroupStrategy::CollectAll;
        let (child, parent) = if is_decided {
            (JobState::Cancelled, JobState::Scheduled)
        } else {
            (JobState::Scheduled, JobState::Waiting)
        };
        assert_eq!(t.state(spawned.children[1].id).await, child, "{strategy:?}");
        assert_eq!(t.state(family.id()).await, parent, "{strategy:?}");
        t.cancel(family.id()).await;
    }
}

/// Model: child-groups, concurrency-limits
async fn a_parked_parent_holds_no_slot(t: &Fixture) {
    use windlass::settings::QueueSettings;
    use windlass::store::Settings;
    let one = QueueSettings { max_running: Some(1), ..QueueSettings::default() };
    t.store.configure(&t.me, Settings::Queue(queue("default"), one)).await.unwrap();
    let family = family(t).await;
    let other = t.submit(new_job("parent")).await;
    assert!(t.claim(family.worker, 1).await.is_empty(), "the parent has the only slot");
    family.spawn(t, GroupStrategy::CollectAll, 1).await;
    assert_eq!(t.claim_one(family.worker).await.job.id, other.id);
}

/// Model: child-groups
async fn groups_nest_and_each_wakes_its_own_parent(t: &Fixture) {
    let family = family(t).await;
    family.spawn(t, GroupStrategy::CollectAll, 1).await;
    let middle = t.claim_one(family.children).await;
    spawn(t, &middle, group("inner", GroupStrategy::CollectAll, 2)).await;
    for grandchild in family.claim_children(t).await {
        assert_eq!(grandchild.job.parent.unwrap().id, middle.job.id);
        t.complete(family.children, &grandchild).await;
    }
    assert_eq!(t.state(middle.job.id).await, JobState::Scheduled);
    assert_eq!(t.state(family.id()).await, JobState::Waiting);
    let middle = t.claim_one(family.children).await;
    t.complete(family.children, &middle).await;
    assert_eq!(t.state(family.id()).await, JobState::Scheduled);
}

/// Model: child-groups
async fn a_replay_finds_the_group_it_has_and_continues(t: &Fixture) {
    let family = family(t).await;
    let spawned = family.spawn(t, GroupStrategy::CollectAll, 2).await;
    for claimed in family.claim_children(t).await {
        t.complete(family.children, &claimed).await;
    }
    // The second attempt asks again, crashes, and the third asks once more.
    let mut parent = t.claim_one(family.worker).await;
    for _ in 0..2 {
        let counts = t.store.stats(&t.me).await.unwrap().states;
        let again = spawn(t, &parent, group("all", GroupStrategy::CollectAll, 2)).await;
        assert_eq!((again.group, again.is_known, again.parent.state), (1, true, JobState::Running));
        let ids =
            |children: &[windlass::job::JobRecord]| children.iter().map(|child| child.id).collect::<Vec<_>>();
        assert_eq!(ids(&again.children), ids(&spawned.children));
        assert_eq!(t.store.stats(&t.me).await.unwrap().states, counts, "nothing was added");
        t.advance(parent.job.policy.timeouts.lease);
        t.tick().await;
        t.advance(crate::fixture::secs(5));
        parent = t.claim_one(family.worker).await;
    }
    // Another name is another group.
    let next = spawn(t, &parent, group("more", GroupStrategy::CollectAll, 1)).await;
    assert_eq!((next.group, next.is_known, next.parent.state), (2, false, JobState::Waiting));
    let result: Option<Arc<[u8]>> = groups(t, family.id()).await[1].children[0].1.clone();
    assert_eq!(result, None);
}
