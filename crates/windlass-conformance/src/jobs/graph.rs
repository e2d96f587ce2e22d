//! Dependencies: what waits for what, how far and how wide, what a bad end takes with it.

use std::time::Duration;

use windlass::error::{FieldProblem, SubmitError};
use windlass::job::{Dependency, Failure, JobId, JobRecord, JobState, NewJob};
use windlass::store::caller::{Caller, Role};
use windlass::store::{ActionRequest, Outcome, SubmitOptions};

use crate::fixture::{Fixture, after, after_any, named, new_job, priority, tenant};

tests!(
    jobs_graph, jobs::graph:
    a_job_waits_until_all_it_comes_after_are_completed,
    a_job_waits_until_any_one_has_ended,
    a_bad_end_is_an_end_for_after_any,
    both_kinds_of_dependency_must_be_met,
    one_job_may_be_named_for_both_kinds,
    a_dependency_named_twice_counts_once,
    a_dependent_keeps_its_own_delay,
    a_dependency_that_ended_well_is_met_at_once,
    a_dependency_that_ended_badly_ends_the_dependent_at_once,
    a_bad_end_reaches_all_dependents_in_the_same_commit,
    a_bad_end_reaches_held_and_suspended_dependents,
    an_end_is_remembered_by_a_suspended_dependent,
    a_dependent_that_was_cancelled_does_not_listen_any_more,
    a_chain_is_at_most_a_hundred_jobs_deep,
    a_chain_in_one_batch_is_at_most_a_hundred_jobs_deep,
    a_job_waits_for_at_most_a_thousand,
    jobs_that_would_wait_for_themselves_are_refused,
    an_unknown_id_is_refused,
    another_tenants_job_looks_like_an_unknown_one,
    a_name_of_another_tenants_job_looks_like_an_unknown_one,
    a_dependent_is_as_urgent_as_what_it_waits_for,
    raising_a_dependency_raises_all_that_wait_for_it,
    lowering_a_dependency_lowers_what_it_had_raised,
);

/// Ends a job in this state, by a worker or an operator.
async fn end(t: &Fixture, id: JobId, state: JobState) {
    let outcome = match state {
        JobState::Completed => Outcome::Completed { result: None },
        JobState::Failed => Outcome::Failed(Failure::permanent("bad", "bad")),
        JobState::DeadLetter => Outcome::Failed(Failure::temporary("spent")),
        JobState::Cancelled => {
            t.cancel(id).await;
            return;
        }
        other => panic!("{other} is not final"),
    };
    t.act(id, ActionRequest::Priority(priority(100))).await;
    let worker = t.worker().await;
    let claimed = t.claim_one(worker).await;
    assert_eq!(claimed.job.id, id);
    t.finish(worker, id, claimed.job.fence, outcome).await;
    assert_eq!(t.state(id).await, state);
}

/// A job that its first failure ends.
fn once() -> NewJob {
    NewJob {
        retry: Some(windlass::job::RetryPolicy { max_attempts: 1, ..Default::default() }),
        ..new_job("step")
    }
}

async fn effective(t: &Fixture, id: JobId) -> i64 {
    i64::from(t.get(id).await.job.effective_priority())
}

/// Model: dependencies
async fn a_job_waits_until_all_it_comes_after_are_completed(t: &Fixture) {
    let (a, b) = (t.submit(once()).await.id, t.submit(once()).await.id);
    let job = t.submit(after(&[a, b])).await;
    assert_eq!(job.state, JobState::Pending);
    assert_eq!(t.get(job.id).await.why.unwrap().code, "dependencies_unmet");
    end(t, a, JobState::Completed).await;
    assert_eq!(t.state(job.id).await, JobState::Pending);
    t.advance(Duration::from_secs(5));
    end(t, b, JobState::Completed).await;
    let job = t.get(job.id).await.job;
    assert_eq!((job.state, job.eligible_at), (JobState::Scheduled, Some(t.now())));
}

/// Model: dependencies
async fn a_job_waits_until_any_one_has_ended(t: &Fixture) {
    let (a, b) = (t.submit(once()).await.id, t.submit(once()).await.id);
    let job = t.submit(after_any(&[a, b])).await.id;
    assert_eq!(t.state(job).await, JobState::Pending);
    end(t, b, JobState::Completed).await;
    assert_eq!(t.state(job).await, JobState::Scheduled);
    let before = t.get(job).await.job;
    end(t, a, JobState::Cancelled).await;
    assert_eq!(t.get(job).await.job, before, "the others do not matter any more");
}

/// Model: dependencies, failed-dependencies
async fn a_bad_end_is_an_end_for_after_any(t: &Fixture) {
    for state in [JobState::Failed, JobState::DeadLetter, JobState::Cancelled] {
        let (a, b) = (t.submit(once()).await.id, t.submit(once()).await.id);
        let job = t.submit(after_any(&[a, b])).await.id;
        end(t, a, state).await;
        assert_eq!(t.state(job).await, JobState::Scheduled);
        t.cancel(job).await;
        t.cancel(b).await;
    }
}

/// Model: dependencies
async fn both_kinds_of_dependency_must_be_met(t: &Fixture) {
    for any_first in [true, false] {
        let (all, any) = (t.submit(once()).await.id, t.submit(once()).await.id);
        let job = t.submit(NewJob { after_any: vec![Dependency::Job(any)], ..after(&[all]) }).await.id;
        let (first, second) = if any_first { (any, all) } else { (all, any) };
        end(t, first, JobState::Completed).await;
        assert_eq!(t.state(job).await, JobState::Pending);
        end(t, second, JobState::Completed).await;
        assert_eq!(t.state(job).await, JobState::Scheduled);
        t.cancel(job).await;
    }
}

/// Model: dependencies
async fn one_job_may_be_named_for_both_kinds(t: &Fixture) {
    for (state, expected) in
        [(JobState::Completed, JobState::Scheduled), (JobState::Failed, JobState::Failed)]
    {
        let dependency = t.submit(once()).await.id;
        let both = NewJob { after_any: vec![Dependency::Job(dependency)], ..after(&[dependency]) };
        let job = t.submit(both).await.id;
        end(t, dependency, state).await;
        assert_eq!(t.state(job).await, expected);
        if expected == JobState::Scheduled {
            t.cancel(job).await;
        }
    }
}

/// Model: dependencies
async fn a_dependency_named_twice_counts_once(t: &Fixture) {
    let dependency = t.submit(once()).await.id;
    let job = t.submit(after(&[dependency, dependency])).await;
    assert_eq!(job.after_unmet, 1);
    end(t, dependency, JobState::Completed).await;
    assert_eq!(t.state(job.id).await, JobState::Scheduled);
}

/// Model: dependencies
async fn a_dependent_keeps_its_own_delay(t: &Fixture) {
    let dependency = t.submit(once()).await.id;
    let minute = Duration::from_secs(60);
    let job = t.submit(NewJob { delay: Some(minute), ..after(&[dependency]) }).await.id;
    end(t, dependency, JobState::Completed).await;
    assert_eq!(t.state(job).await, JobState::Delayed);
    t.advance(minute);
    t.tick().await;
    assert_eq!(t.state(job).await, JobState::Scheduled);
}

/// Model: dependency-limits
async fn a_dependency_that_ended_well_is_met_at_once(t: &Fixture) {
    let dependency = t.submit(once()).await.id;
    end(t, dependency, JobState::Completed).await;
    assert_eq!(t.submit(after(&[dependency])).await.state, JobState::Scheduled);
    assert_eq!(t.submit(after_any(&[dependency])).await.state, JobState::Scheduled);
}

/// Model: dependency-limits, failed-dependencies
async fn a_dependency_that_ended_badly_ends_the_dependent_at_once(t: &Fixture) {
    for state in [JobState::Failed, JobState::DeadLetter, JobState::Cancelled] {
        let dependency = t.submit(once()).await.id;
        end(t, dependency, state).await;
        let first = NewJob { name: Some("first".into()), ..after(&[dependency]) };
        let held = NewJob { hold: true, ..after(&[dependency]) };
        let receipts = t.submit_all(vec![named("second", &["first"]), first, held]).await;
        for receipt in receipts {
            assert_eq!(receipt.job.state, state, "accepted, and ended like what it waits for");
            let error = receipt.job.details.error.clone().expect("it says why");
            assert_eq!(error.code.as_deref(), Some("dependency_failed"));
        }
        assert_eq!(t.submit(after_any(&[dependency])).await.state, JobState::Scheduled);
        for job in t.everything().await.jobs.iter().filter(|found| !found.job.state.is_final()) {
            t.cancel(job.job.id).await;
        }
    }
}

/// Model: atomic-changes, failed-dependencies
async fn a_bad_end_reaches_all_dependents_in_the_same_commit(t: &Fixture) {
    for state in [JobState::Failed, JobState::DeadLetter, JobState::Cancelled] {
        let root = t.submit(once()).await.id;
        let middle = t.submit_all((0..3).map(|_| after(&[root])).collect()).await;
        let middle: Vec<JobId> = middle.iter().map(|receipt| receipt.job.id).collect();
        let leaf = t.submit(after(&middle)).await.id;
        let any = t.submit(after_any(&[leaf])).await.id;
        t.advance(Duration::from_secs(1));
        end(t, root, state).await;
        for id in middle.into_iter().chain([leaf]) {
            let job = t.get(id).await.job;
            assert_eq!((job.state, job.completed_at), (state, Some(t.now())));
        }
        assert_eq!(t.state(any).await, JobState::Scheduled, "it asked only for an end");
        t.cancel(any).await;
    }
}

/// Model: failed-dependencies
async fn a_bad_end_reaches_held_and_suspended_dependents(t: &Fixture) {
    let root = t.submit(once()).await.id;
    let held = t.submit(NewJob { hold: true, ..after(&[root]) }).await.id;
    let suspended = t.submit(after(&[root])).await.id;
    t.suspend(suspended).await;
    end(t, root, JobState::Failed).await;
    assert_eq!((t.state(held).await, t.state(suspended).await), (JobState::Failed, JobState::Failed));
}

/// Model: resume, dependencies
async fn an_end_is_remembered_by_a_suspended_dependent(t: &Fixture) {
    let (a, b) = (t.submit(once()).await.id, t.submit(once()).await.id);
    let both = t.submit(after(&[a, b])).await.id;
    let any = t.submit(after_any(&[a, b])).await.id;
    let held = t.submit(NewJob { hold: true, ..after(&[a]) }).await.id;
    for id in [both, any] {
        t.suspend(id).await;
    }
    end(t, a, JobState::Completed).await;
    assert_eq!((t.state(both).await, t.state(any).await), (JobState::Suspended, JobState::Suspended));
    assert_eq!(t.state(held).await, JobState::Created);
    assert_eq!(t.resume(both).await.job.state, JobState::Pending, "one is still open");
    assert_eq!(t.resume(any).await.job.state, JobState::Scheduled);
    assert_eq!(t.act(held, ActionRequest::Submit).await.job.state, JobState::Scheduled);
}

/// Model: final-states, failed-dependencies
async fn a_dependent_that_was_cancelled_does_not_listen_any_more(t: &Fixture) {
    let root = t.submit(once()).await.id;
    let job = t.submit(after(&[root])).await.id;
    let cancelled = t.cancel(job).await.job;
    end(t, root, JobState::Failed).await;
    assert_eq!(t.get(job).await.job, cancelled);
}

/// Model: dependency-limits
async fn a_chain_is_at_most_a_hundred_jobs_deep(t: &Fixture) {
    let mut last: JobRecord = t.submit(once()).await;
    for depth in 2..=100 {
        last = t.submit(if depth % 2 == 0 { after(&[last.id]) } else { after_any(&[last.id]) }).await;
        assert_eq!(last.depth, depth);
    }
    for (job, field) in [(after(&[last.id]), "after"), (after_any(&[last.id]), "after_any")] {
        let error = t.refused(vec![once(), job]).await;
        let SubmitError::Invalid { index, invalid } = error else { panic!("{error}") };
        assert_eq!((index, invalid.field.as_str()), (1, field));
    }
}

/// Model: dependency-limits, batches
async fn a_chain_in_one_batch_is_at_most_a_hundred_jobs_deep(t: &Fixture) {
    let chain = |length: usize| -> Vec<NewJob> {
        (0..length)
            .map(|n| match n {
                0 => named("0", &[]),
                n => named(&n.to_string(), &[&(n - 1).to_string()]),
            })
            .collect()
    };
    let error = t.refused(chain(101)).await;
    assert!(matches!(error, SubmitError::Invalid { index: 100, .. }), "{error}");
    let receipts = t.submit_all(chain(100)).await;
    assert_eq!(receipts.last().unwrap().job.depth, 100);
    end(t, receipts[0].job.id, JobState::Cancelled).await;
    for receipt in receipts {
        assert_eq!(t.state(receipt.job.id).await, JobState::Cancelled);
    }
}

/// Model: dependency-limits
async fn a_job_waits_for_at_most_a_thousand(t: &Fixture) {
    let receipts = t.submit_all(vec![once(); 1_001]).await;
    let all: Vec<JobId> = receipts.iter().map(|receipt| receipt.job.id).collect();
    let job = t.submit(after(&all[..1_000])).await;
    assert_eq!(job.after_unmet, 1_000);
    let split = NewJob { after_any: after_any(&all[500..]).after_any, ..after(&all[..500]) };
    for job in [after(&all), after_any(&all), split] {
        let error = t.refused(vec![job]).await;
        let SubmitError::Invalid { invalid, .. } = error else { panic!("{error}") };
        assert_eq!(invalid.problem, FieldProblem::TooLong { length: 1_001, limit: 1_000 });
    }
    end(t, all[1_000], JobState::Completed).await;
    end(t, all[0], JobState::Cancelled).await;
    assert_eq!(t.state(job.id).await, JobState::Cancelled);
}

/// Model: dependency-limits
async fn jobs_that_would_wait_for_themselves_are_refused(t: &Fixture) {
    let any =
        |name: &str, of: &str| NewJob { after_any: vec![Dependency::Named(of.into())], ..named(name, &[]) };
    let cycles = [
        vec![named("a", &["a"])],
        vec![named("a", &["b"]), named("b", &["a"])],
        vec![named("x", &[]), named("a", &["x", "c"]), named("b", &["a"]), named("c", &["b"])],
        vec![any("a", "b"), named("b", &["a"])],
    ];
    for cycle in cycles {
        let error = t.refused(cycle).await;
        let SubmitError::Invalid { invalid, .. } = error else { panic!("{error}") };
        assert!(matches!(invalid.problem, FieldProblem::Cycle(_)), "{invalid}");
    }
}

/// Model: dependencies, dependency-limits
async fn an_unknown_id_is_refused(t: &Fixture) {
    let known = t.submit(once()).await.id;
    let unknown = JobId::new(t.now(), 7);
    for (job, field) in [(after(&[known, unknown]), "after.1"), (after_any(&[unknown]), "after_any.0")] {
        let error = t.refused(vec![job]).await;
        let SubmitError::Invalid { index: 0, invalid } = error else { panic!("{error}") };
        assert_eq!(
            (invalid.field.as_str(), invalid.problem),
            (field, FieldProblem::NoSuchJob(unknown.to_string()))
        );
    }
}

/// Model: dependency-limits, tenant-isolation
async fn another_tenants_job_looks_like_an_unknown_one(t: &Fixture) {
    let theirs = t.submit(NewJob { tenant: Some(tenant("umbrella")), ..once() }).await.id;
    let unknown = JobId::new(t.now(), 7);
    let acme = Caller::new("acme-app", Role::Submitter, Some(tenant("acme")));
    let before = t.everything().await;
    let mut answers = Vec::new();
    for id in [theirs, unknown] {
        let error = t.store.submit(&acme, vec![after(&[id])], SubmitOptions::default()).await.unwrap_err();
        answers.push(error.to_string().replace(&id.to_string(), "ID"));
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(t.everything().await, before);
}

/// Model: dependency-limits, batches, tenant-isolation
async fn a_name_of_another_tenants_job_looks_like_an_unknown_one(t: &Fixture) {
    let theirs = NewJob { tenant: Some(tenant("umbrella")), ..named("first", &[]) };
    let error = t.refused(vec![theirs, named("second", &["first"])]).await;
    let SubmitError::Invalid { index, invalid } = error else { panic!("{error}") };
    assert_eq!((index, invalid.problem), (1, FieldProblem::NoSuchJob("@first".into())));
}

/// Model: inherited-priority
async fn a_dependent_is_as_urgent_as_what_it_waits_for(t: &Fixture) {
    let root = t.submit(NewJob { priority: Some(priority(90)), ..once() }).await.id;
    let low = t.submit(NewJob { priority: Some(priority(10)), ..after(&[root]) }).await;
    assert_eq!((low.priority, low.effective_priority()), (priority(10), priority(90)));
    let leaf = t.submit(after(&[low.id])).await.id;
    assert_eq!(effective(t, leaf).await, 90);
    let urgent = t.submit(NewJob { priority: Some(priority(95)), ..after(&[root]) }).await.id;
    assert_eq!(effective(t, urgent).await, 95, "its own is higher");
    let other = t.submit(NewJob { priority: Some(priority(60)), ..once() }).await.id;
    let worker = t.worker().await;
    let claimed = t.claim_one(worker).await;
    assert_eq!(claimed.job.id, root);
    t.complete(worker, &claimed).await;
    assert_eq!(t.claim_ids(worker, 3).await, [urgent, low.id, other]);
}

/// Model: atomic-changes, changing-priority, inherited-priority
async fn raising_a_dependency_raises_all_that_wait_for_it(t: &Fixture) {
    let root = t.submit(NewJob { priority: Some(priority(10)), ..once() }).await.id;
    let low = |job: NewJob| NewJob { priority: Some(priority(20)), ..job };
    let left = t.submit(low(after(&[root]))).await.id;
    let right = t.submit(low(after_any(&[root]))).await.id;
    let held = t.submit(NewJob { hold: true, ..low(after(&[root])) }).await.id;
    let suspended = t.submit(low(after(&[root]))).await.id;
    t.suspend(suspended).await;
    let join = t.submit(low(after(&[left, right]))).await.id;
    t.act(root, ActionRequest::Priority(priority(80))).await;
    for id in [left, right, held, suspended, join] {
        assert_eq!(effective(t, id).await, 80);
        assert_eq!(t.get(id).await.job.priority, priority(20), "its own stays");
    }
}

/// Model: inherited-priority
async fn lowering_a_dependency_lowers_what_it_had_raised(t: &Fixture) {
    let root = t.submit(NewJob { priority: Some(priority(90)), ..once() }).await.id;
    let other = t.submit(NewJob { priority: Some(priority(70)), ..once() }).await.id;
    let job = t.submit(NewJob { priority: Some(priority(50)), ..after(&[root, other]) }).await.id;
    let leaf = t.submit(NewJob { priority: Some(priority(10)), ..after(&[job]) }).await.id;
    t.act(root, ActionRequest::Priority(priority(5))).await;
    assert_eq!((effective(t, job).await, effective(t, leaf).await), (70, 70), "the other one still counts");
    t.act(other, ActionRequest::Priority(priority(5))).await;
    assert_eq!((effective(t, job).await, effective(t, leaf).await), (50, 50));
    t.act(job, ActionRequest::Priority(priority(0))).await;
    assert_eq!((effective(t, job).await, effective(t, leaf).await), (5, 10));
}
