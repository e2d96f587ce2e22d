//! Consequences for more jobs than one commit may change: each commit changes a bounded number, the rest is continued from a
//! cursor by maintenance, and nothing is processed twice or forgotten, whatever happens in between.

pub mod pause;

use std::time::Duration;

use windlass::job::{JobId, JobState, NewJob};
use windlass::store::{ActionRequest, NewGroup, Outcome, Patch, Reason, StoreOptions};

use crate::fixture::{Fixture, after, after_any, lease_ref, new_job, priority};

tests!(
    jobs_cascade, jobs::cascade:
    a_commit_notifies_a_bounded_number_of_dependents,
    a_small_cascade_is_one_commit,
    a_priority_is_passed_on_in_bounded_commits,
    a_priority_that_is_overtaken_by_another_ends_at_the_last_one,
    levels_are_notified_one_after_the_other,
    a_dependent_submitted_meanwhile_is_notified_once,
    a_dependent_that_leaves_meanwhile_stays_as_it_is,
    a_dependent_of_several_cascades_waits_for_all_of_them,
    children_are_cancelled_in_bounded_commits,
    the_root_stays_until_its_cascade_has_ended,
    a_waiting_dependent_says_that_consequences_are_being_applied,
    silent_workers_lose_their_leases_in_bounded_commits,
    a_worker_that_comes_back_keeps_what_it_claims_then,
    a_worker_with_many_jobs_leaves_in_bounded_commits,
);

/// Jobs that one commit may change here.
const BOUND: usize = 4;

fn bounded(t: &Fixture) -> Fixture {
    t.another(StoreOptions { cascade_jobs_per_commit: BOUND, ..StoreOptions::default() })
}

/// Submits so many dependents of a job.
async fn dependents(t: &Fixture, of: JobId, count: usize) -> Vec<JobId> {
    let jobs = (0..count).map(|_| after(&[of])).collect();
    t.submit_all(jobs).await.into_iter().map(|receipt| receipt.job.id).collect()
}

async fn count_in(t: &Fixture, jobs: &[JobId], state: JobState) -> usize {
    let mut found = 0;
    for id in jobs {
        found += usize::from(t.state(*id).await == state);
    }
    found
}

/// Ticks once and says whether there is more to do.
async fn tick_once(t: &Fixture) -> bool {
    t.store.tick().await.unwrap().has_more
}

/// Model: bounded-commits, failed-dependencies. Neither the commit that ends a job nor any that continues changes more jobs than the bound.
async fn a_commit_notifies_a_bounded_number_of_dependents(t: &Fixture) {
    let t = bounded(t);
    let root = t.submit(new_job("root")).await.id;
    let waiting = dependents(&t, root, 3 * BOUND + 1).await;
    t.cancel(root).await;
    let mut processed = count_in(&t, &waiting, JobState::Cancelled).await;
    assert_eq!(processed, BOUND);
    loop {
        let has_more = tick_once(&t).await;
        let now = count_in(&t, &waiting, JobState::Cancelled).await;
        assert!(now - processed <= BOUND, "{now} after {processed}");
        assert_eq!(has_more, now < waiting.len());
        processed = now;
        if !has_more {
            break;
        }
    }
    assert_eq!(processed, waiting.len());
    t.verify().await;
}

/// Model: failed-dependencies. Up to the bound everything happens in the same commit, and nothing is left to do.
async fn a_small_cascade_is_one_commit(t: &Fixture) {
    let root = t.submit(new_job("root")).await.id;
    let waiting = dependents(t, root, 50).await;
    t.cancel(root).await;
    assert_eq!(count_in(t, &waiting, JobState::Cancelled).await, waiting.len());
    assert!(!tick_once(t).await);
}

async fn raised(t: &Fixture, jobs: &[JobId], to: i64) -> usize {
    let mut found = 0;
    for id in jobs {
        found += usize::from(t.get(*id).await.job.inherited == priority(to));
    }
    found
}

/// Model: bounded-commits, inherited-priority
async fn a_priority_is_passed_on_in_bounded_commits(t: &Fixture) {
    let t = bounded(t);
    let root = t.submit(NewJob { hold: true, ..new_job("root") }).await.id;
    let waiting = dependents(&t, root, 2 * BOUND + 1).await;
    let below = dependents(&t, waiting[0], BOUND + 1).await;
    t.act(root, ActionRequest::Priority(priority(90))).await;
    assert_eq!(raised(&t, &waiting, 90).await + raised(&t, &below, 90).await, BOUND);
    let (mut before, mut commits) = (BOUND, 1);
    while tick_once(&t).await {
        let now = raised(&t, &waiting, 90).await + raised(&t, &below, 90).await;
        assert!(now - before <= BOUND, "{now} after {before}");
        (before, commits) = (now, commits + 1);
    }
    assert!(commits >= 3, "{commits}");
    assert_eq!(raised(&t, &waiting, 90).await, waiting.len());
    assert_eq!(raised(&t, &below, 90).await, below.len());
    t.verify().await;
}

/// Model: inherited-priority. What counts is the priority when it is passed on, and a second change begins from the first dependent.
async fn a_priority_that_is_overtaken_by_another_ends_at_the_last_one(t: &Fixture) {
    let t = bounded(t);
    let root = t.submit(NewJob { hold: true, ..new_job("root") }).await.id;
    let other = t.submit(NewJob { hold: true, priority: Some(priority(70)), ..new_job("other") }).await.id;
    let waiting = dependents(&t, root, 3 * BOUND).await;
    let both = t.submit(after(&[root, other])).await.id;
    t.act(root, ActionRequest::Priority(priority(90))).await;
    tick_once(&t).await;
    let patch = Patch { priority: Some(priority(20)), ..Patch::default() };
    t.act(root, ActionRequest::Patch(patch)).await;
    t.tick().await;
    assert_eq!(raised(&t, &waiting, 20).await, waiting.len());
    assert_eq!(t.get(both).await.job.inherited, priority(70));
    t.verify().await;
}

/// Model: failed-dependencies. All jobs of one level are processed before those that wait for them.
async fn levels_are_notified_one_after_the_other(t: &Fixture) {
    let t = bounded(t);
    let root = t.submit(new_job("root")).await.id;
    let first = dependents(&t, root, 2 * BOUND).await;
    let mut second = Vec::new();
    for id in &first {
        second.extend(dependents(&t, *id, 1).await);
    }
    t.cancel(root).await;
    loop {
        let has_more = tick_once(&t).await;
        let (upper, lower) = (
            count_in(&t, &first, JobState::Cancelled).await,
            count_in(&t, &second, JobState::Cancelled).await,
        );
        assert!(lower == 0 || upper == first.len(), "{upper} of the first level, {lower} of the second");
        if !has_more {
            break;
        }
    }
    assert_eq!(count_in(&t, &second, JobState::Cancelled).await, second.len());
    t.verify().await;
}

/// Model: dependency-limits, failed-dependencies. A job that is submitted after the end knows of it, and is not processed again by the cursor.
async fn a_dependent_submitted_meanwhile_is_notified_once(t: &Fixture) {
    let t = bounded(t);
    let (worker, root) = t.running(new_job("root")).await;
    let open = t.submit(NewJob { hold: true, ..new_job("open") }).await.id;
    let waiting = dependents(&t, root.job.id, 2 * BOUND).await;
    t.complete(worker, &root).await;
    let late = t.submit(after(&[root.job.id, open])).await.id;
    let late_any = t.submit(after_any(&[root.job.id])).await.id;
    assert_eq!(t.get(late).await.job.after_unmet, 1);
    assert_eq!(t.state(late_any).await, JobState::Scheduled);
    t.tick().await;
    // Notified twice, it would run without waiting for the other one.
    assert_eq!(t.get(late).await.job.after_unmet, 1);
    assert_eq!(t.state(late).await, JobState::Pending);
    assert_eq!(count_in(&t, &waiting, JobState::Scheduled).await, waiting.len());
    t.verify().await;
}

/// Model: refused-changes. A dependent that was cancelled or suspended before its turn came follows the same rules.
async fn a_dependent_that_leaves_meanwhile_stays_as_it_is(t: &Fixture) {
    let t = bounded(t);
    let (worker, root) = t.running(new_job("root")).await;
    let waiting = dependents(&t, root.job.id, 3 * BOUND).await;
    t.complete(worker, &root).await;
    let (cancelled, suspended) = (waiting[2 * BOUND], waiting[2 * BOUND + 1]);
    t.cancel(cancelled).await;
    t.suspend(suspended).await;
    t.tick().await;
    assert_eq!(t.state(cancelled).await, JobState::Cancelled);
    assert_eq!(t.state(suspended).await, JobState::Suspended);
    t.resume(suspended).await;
    assert_eq!(t.state(suspended).await, JobState::Scheduled);
    assert_eq!(count_in(&t, &waiting, JobState::Scheduled).await, waiting.len() - 1);
    t.verify().await;
}

/// Model: dependencies. Two ends whose cascades are under way at once count once each.
async fn a_dependent_of_several_cascades_waits_for_all_of_them(t: &Fixture) {
    let t = bounded(t);
    let worker = t.worker().await;
    t.submit_all(vec![new_job("root"), new_job("root")]).await;
    let roots = t.claim(worker, 2).await;
    let [one, two] = [roots[0].job.id, roots[1].job.id];
    dependents(&t, one, 2 * BOUND).await;
    dependents(&t, two, 2 * BOUND).await;
    let held = t.submit(NewJob { hold: true, ..new_job("held") }).await.id;
    let last = t.submit(after(&[one, two, held])).await.id;
    for root in &roots {
        t.complete(worker, root).await;
    }
    assert_eq!(t.get(last).await.job.after_unmet, 3);
    t.tick().await;
    assert_eq!(t.get(last).await.job.after_unmet, 1);
    t.verify().await;
}

/// Model: bounded-commits, child-groups
async fn children_are_cancelled_in_bounded_commits(t: &Fixture) {
    let t = bounded(t);
    let (_, parent) = t.running(new_job("parent")).await;
    let group = NewGroup {
        name: "parts".into(),
        strategy: windlass::job::GroupStrategy::CollectAll,
        jobs: (0..3 * BOUND).map(|_| new_job("part")).collect(),
    };
    let spawned = t.store.spawn(&t.me, lease_ref(&parent), group).await.expect("the job is held");
    let children: Vec<JobId> = spawned.children.iter().map(|child| child.id).collect();
    t.cancel(parent.job.id).await;
    assert_eq!(count_in(&t, &children, JobState::Cancelled).await, BOUND);
    assert!(tick_once(&t).await);
    assert_eq!(count_in(&t, &children, JobState::Cancelled).await, 2 * BOUND);
    t.tick().await;
    assert_eq!(count_in(&t, &children, JobState::Cancelled).await, children.len());
    t.verify().await;
}

/// Model: retention. A job whose end has not been passed on to all dependents is kept.
async fn the_root_stays_until_its_cascade_has_ended(t: &Fixture) {
    let retention = Duration::from_secs(3600);
    let cascade_jobs_per_commit = BOUND;
    let t = t.another(StoreOptions { cascade_jobs_per_commit, retention, ..StoreOptions::default() });
    let (worker, root) = t.running(new_job("root")).await;
    let waiting = dependents(&t, root.job.id, 2 * BOUND).await;
    t.complete(worker, &root).await;
    t.store.delete(&t.me, root.job.id).await.expect_err("jobs still wait for its end");
    t.advance(retention * 2);
    t.store.prune().await.unwrap();
    assert!(t.store.get(&t.me, root.job.id).await.unwrap().is_some());
    t.tick().await;
    assert_eq!(count_in(&t, &waiting, JobState::Scheduled).await, waiting.len());
    t.verify().await;
}

async fn explained(t: &Fixture, id: JobId) -> Vec<Reason> {
    t.store.explain(&t.me, id).await.unwrap().expect("the job is there")
}

/// Model: bounded-commits, explained-waiting
async fn a_waiting_dependent_says_that_consequences_are_being_applied(t: &Fixture) {
    let t = bounded(t);
    let (worker, root) = t.running(new_job("root")).await;
    let waiting = dependents(&t, root.job.id, 2 * BOUND).await;
    let last = *waiting.last().unwrap();
    assert!(explained(&t, last).await[0].details.get("cascade").is_none());
    t.complete(worker, &root).await;
    let reason = explained(&t, last).await.remove(0);
    assert_eq!(reason.code, "dependencies_unmet");
    assert!(reason.message.contains(&root.job.id.to_string()), "{}", reason.message);
    assert_eq!(reason.details["cascade"], true);
    assert_eq!(reason.details["ended"][0]["id"], root.job.id.to_string());
    assert_eq!(t.store.stats(&t.me).await.unwrap().cascades, 1);
    t.tick().await;
    assert!(explained(&t, last).await.iter().all(|reason| reason.code != "dependencies_unmet"));
    assert_eq!(t.store.stats(&t.me).await.unwrap().cascades, 0);
    t.verify().await;
}

async fn running_of(t: &Fixture, jobs: &[JobId]) -> usize {
    count_in(t, jobs, JobState::Running).await
}

/// Model: bounded-commits, leases-and-heartbeats. Workers that fall silent together are many leases, but no commit ends more of them than the bound.
async fn silent_workers_lose_their_leases_in_bounded_commits(t: &Fixture) {
    let t = bounded(t);
    let mut jobs = Vec::new();
    for _ in 0..3 {
        let worker = t.worker().await;
        t.submit_all((0..3).map(|_| new_job("work")).collect()).await;
        jobs.extend(t.claim(worker, 3).await.into_iter().map(|claimed| claimed.job.id));
    }
    t.advance(windlass::limits::WORKER_SILENCE_MAX);
    let mut before = running_of(&t, &jobs).await;
    assert_eq!(before, 9);
    while {
        let ticked = t.store.tick().await.unwrap();
        let now = running_of(&t, &jobs).await;
        // A new commit's own consequences and those of earlier ones have a budget each.
        assert!(before - now <= 2 * BOUND, "{now} of {before}");
        before = now;
        ticked.has_more
    } {}
    assert_eq!(before, 0);
    t.verify().await;
}

/// Model: leases-and-heartbeats. Only what it held when it fell silent is taken from it.
async fn a_worker_that_comes_back_keeps_what_it_claims_then(t: &Fixture) {
    let t = bounded(t);
    let worker = t.worker().await;
    t.submit_all((0..3 * BOUND).map(|_| new_job("work")).collect()).await;
    let lost = t.claim(worker, 3 * BOUND).await;
    t.advance(windlass::limits::WORKER_SILENCE_MAX);
    let fresh = t.submit(NewJob { priority: Some(priority(100)), ..new_job("fresh") }).await.id;
    let claimed = t.claim(worker, 1).await.remove(0);
    assert_eq!(claimed.job.id, fresh);
    t.tick().await;
    assert_eq!(t.state(fresh).await, JobState::Running);
    let lost: Vec<JobId> = lost.iter().map(|claimed| claimed.job.id).collect();
    assert_eq!(running_of(&t, &lost).await, 0);
    let end = Outcome::Completed { result: None };
    t.finish(worker, fresh, claimed.job.fence, end).await;
    assert_eq!(t.state(fresh).await, JobState::Completed);
    t.verify().await;
}

/// Model: lifetime. A job that a worker releases when it leaves does not count as a failure, also when it is done by later commits.
async fn a_worker_with_many_jobs_leaves_in_bounded_commits(t: &Fixture) {
    let t = bounded(t);
    let worker = t.worker().await;
    t.submit_all((0..3 * BOUND).map(|_| new_job("work")).collect()).await;
    let held: Vec<JobId> = t.claim(worker, 3 * BOUND).await.iter().map(|claimed| claimed.job.id).collect();
    let released = t.store.deregister(&t.me, worker).await.unwrap();
    assert_eq!(released, BOUND);
    assert_eq!(running_of(&t, &held).await, 2 * BOUND);
    t.tick().await;
    assert_eq!(running_of(&t, &held).await, 0);
    for id in &held {
        let job = t.get(*id).await.job;
        assert_eq!((job.failures, job.crashes), (0, 0));
    }
    t.verify().await;
}
