//! A job that continues beside its children, parks on their groups later or never, and reads their results in pages.

use windlass::job::{GroupDecision, GroupStrategy, JobState, Wait};
use windlass::limits;
use windlass::store::{ChildQuery, ClaimedJob, Finish, Outcome, Park, Report, SpawnOptions, StoreOptions};

use super::{Family, family, group, groups};
use crate::fixture::{Fixture, lease_ref, secs};

tests!(
    jobs_children_beside, jobs::children::beside:
    a_job_that_continues_beside_its_children_parks_on_any_of_their_groups,
    a_group_that_was_decided_before_wakes_at_once,
    a_job_can_end_before_the_children_it_does_not_wait_for,
    a_group_that_does_not_exist_is_not_waited_for,
    children_are_read_in_pages,
    results_of_children_that_are_read_together_have_a_total_size,
    decided_groups_come_with_the_claim,
);

async fn spawn_background(t: &Fixture, family: &Family, name: &str, count: usize) {
    let options = SpawnOptions { keeps_running: true, ..SpawnOptions::default() };
    let group = group(name, GroupStrategy::CollectAll, count);
    let spawned = t.store.spawn_with(&t.me, lease_ref(&family.parent), group, options).await.unwrap();
    assert_eq!((spawned.parent.state, spawned.children.len()), (JobState::Running, count));
}

async fn report(t: &Fixture, family: &Family, outcome: Outcome) -> Finish {
    let ClaimedJob { job, .. } = &family.parent;
    let report = Report::new(job.id, job.fence, outcome);
    t.store.finish(&t.me, family.worker, vec![report]).await.unwrap().remove(0)
}

fn of_group(name: &str) -> Park {
    Park::Group { name: name.into() }
}

/// Model: child-groups
async fn a_job_that_continues_beside_its_children_parks_on_any_of_their_groups(t: &Fixture) {
    let family = family(t).await;
    spawn_background(t, &family, "a", 1).await;
    spawn_background(t, &family, "b", 1).await;
    // A repeated request finds the group.
    spawn_background(t, &family, "a", 1).await;
    let park = Park::Any(vec![of_group("a"), of_group("b"), Park::For(secs(60))]);
    assert_eq!(report(t, &family, Outcome::Parked(park)).await, Finish::Applied(JobState::Waiting));
    let found = t.store.get(&t.me, family.id()).await.unwrap().unwrap();
    let wait = found.job.details.wait.clone().unwrap();
    assert_eq!(wait.each()[..2], [Wait::Children { group: 1 }, Wait::Children { group: 2 }]);
    let claimed = family.claim_children(t).await;
    assert_eq!(claimed.len(), 2);
    t.complete(family.children, &claimed[1]).await;
    assert_eq!(t.state(family.id()).await, JobState::Scheduled);
    let decided: Vec<_> = groups(t, family.id()).await.iter().map(|group| group.group.decided).collect();
    assert_eq!(decided, [None, Some(GroupDecision::Well)]);
}

/// Model: child-groups
async fn a_group_that_was_decided_before_wakes_at_once(t: &Fixture) {
    let family = family(t).await;
    spawn_background(t, &family, "a", 1).await;
    let claimed = family.claim_children(t).await;
    t.complete(family.children, &claimed[0]).await;
    assert_eq!(t.state(family.id()).await, JobState::Running);
    let parked = report(t, &family, Outcome::Parked(of_group("a"))).await;
    assert_eq!(parked, Finish::Applied(JobState::Scheduled));
}

/// Model: child-groups
async fn a_job_can_end_before_the_children_it_does_not_wait_for(t: &Fixture) {
    let family = family(t).await;
    spawn_background(t, &family, "a", 2).await;
    t.complete(family.worker, &family.parent).await;
    let claimed = family.claim_children(t).await;
    for child in &claimed {
        assert_eq!(child.job.parent.map(|parent| parent.id), Some(family.id()));
        t.complete(family.children, child).await;
    }
    assert_eq!(t.state(family.id()).await, JobState::Completed);
    assert_eq!(groups(t, family.id()).await[0].group.decided, Some(GroupDecision::Well));
}

/// Model: child-groups
async fn a_group_that_does_not_exist_is_not_waited_for(t: &Fixture) {
    let family = family(t).await;
    spawn_background(t, &family, "a", 1).await;
    for park in [of_group("b"), Park::Any(vec![of_group("a"), of_group("b")]), of_group("")] {
        let finish = report(t, &family, Outcome::Parked(park)).await;
        assert!(matches!(finish, Finish::Rejected(_)), "{finish:?}");
    }
    let options =
        |keeps_running| SpawnOptions { keeps_running, parks: vec![of_group("b")], ..<_>::default() };
    for keeps_running in [false, true] {
        let group = group("c", GroupStrategy::CollectAll, 1);
        let lease = lease_ref(&family.parent);
        t.store.spawn_with(&t.me, lease, group, options(keeps_running)).await.unwrap_err();
    }
    assert_eq!(groups(t, family.id()).await.len(), 1);
    assert_eq!(t.state(family.id()).await, JobState::Running);
}

/// Model: child-groups, bounded-commits
async fn children_are_read_in_pages(t: &Fixture) {
    let family = family(t).await;
    spawn_background(t, &family, "a", 3).await;
    spawn_background(t, &family, "b", 2).await;
    for child in family.claim_children(t).await {
        let outcome = Outcome::Completed { result: Some(b"12345".to_vec()) };
        t.finish(family.children, child.job.id, child.job.fence, outcome).await;
    }
    let read = async |name: Option<&str>, limit, bytes| {
        let (mut after, mut pages) = (None, Vec::new());
        loop {
            let query = ChildQuery { name: name.map(Into::into), after, limit, bytes };
            let page = t.store.child_page(&t.me, family.id(), query).await.unwrap().unwrap();
            let children = page.groups.iter().flat_map(|group| &group.children);
            let shown = children.map(|(child, result)| {
                let parent = child.parent.unwrap();
                assert_eq!(result.as_deref(), Some(&b"12345"[..]));
                (parent.group, parent.index)
            });
            pages.push(shown.collect::<Vec<_>>());
            after = page.next;
            if after.is_none() {
                return pages;
            }
        }
    };
    let all = [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)];
    assert_eq!(read(None, 100, 100).await, [all.to_vec()]);
    for (limit, bytes) in [(2, 100), (100, 10), (1, 1), (100, 1), (5, 100)] {
        let pages = read(None, limit, bytes).await;
        assert_eq!(pages.concat(), all, "{limit} {bytes}");
        let most = limit.min((bytes / 5).max(1));
        assert!(pages.iter().all(|page| page.len() <= most), "{pages:?}");
    }
    assert_eq!(read(Some("b"), 2, 100).await.concat(), all[3..]);
    assert_eq!(read(Some("c"), 2, 100).await.concat(), []);
}

/// Model: child-groups
async fn decided_groups_come_with_the_claim(t: &Fixture) {
    let family = family(t).await;
    spawn_background(t, &family, "open", 1).await;
    spawn_background(t, &family, "done", 2).await;
    let claimed = family.claim_children(t).await;
    for child in &claimed[1..] {
        let outcome = Outcome::Completed { result: Some(b"7".to_vec()) };
        t.finish(family.children, child.job.id, child.job.fence, outcome).await;
    }
    let parked = report(t, &family, Outcome::Parked(of_group("done"))).await;
    assert_eq!(parked, Finish::Applied(JobState::Scheduled));
    let mut again = vec![t.claim_one(family.worker).await];
    t.store.add_decided_groups(&t.me, &mut again).await.unwrap();
    let [decided] = &again[0].groups[..] else { panic!("{:?}", again[0].groups) };
    assert_eq!((decided.group.group.name.as_str(), decided.next), ("done", None));
    let results: Vec<_> = decided.group.children.iter().map(|(_, result)| result.as_deref()).collect();
    assert_eq!(results, [Some(&b"7"[..]); 2]);
}

/// Model: child-groups, bounded-commits. What is left out is named, and can be read in pages.
async fn results_of_children_that_are_read_together_have_a_total_size(t: &Fixture) {
    let largest = limits::PAYLOAD_BYTES_MAX;
    let t = t.another(StoreOptions { payload_bytes_max: largest, ..StoreOptions::default() });
    let family = family(&t).await;
    let count = limits::CHILD_RESULTS_BYTES_MAX / largest + 1;
    spawn_background(&t, &family, "a", count).await;
    let claimed = family.claim_children(&t).await;
    assert_eq!(claimed.len(), count);
    for child in &claimed {
        let outcome = Outcome::Completed { result: Some(vec![b'1'; largest]) };
        let finish = t.finish(family.children, child.job.id, child.job.fence, outcome).await;
        assert_eq!(finish, Finish::Applied(JobState::Completed));
    }
    let group = groups(&t, family.id()).await.remove(0);
    let last = claimed[count - 1].job.id;
    assert_eq!(group.omitted.iter().collect::<Vec<_>>(), [&last]);
    let read = group.children.iter().filter(|(_, result)| result.is_some());
    assert_eq!(
        read.map(|(child, _)| child.id).collect::<Vec<_>>(),
        claimed[..count - 1].iter().map(|child| child.job.id).collect::<Vec<_>>()
    );
    let (mut after, mut found) = (None, 0);
    loop {
        let query =
            ChildQuery { after, limit: 100, bytes: limits::CHILD_PAGE_BYTES, ..ChildQuery::default() };
        let page = t.store.child_page(&t.me, family.id(), query).await.unwrap().unwrap();
        found += page
            .groups
            .iter()
            .flat_map(|group| &group.children)
            .filter(|(_, result)| result.is_some())
            .count();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found, count);
}
