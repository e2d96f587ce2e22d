//! Sleeping without holding a slot.

use windlass::clock::Timestamp;
use windlass::job::{AttemptOutcome, JobState, Wait};
use windlass::store::{Finish, Park};

use crate::fixture::{Fixture, MOMENT, just_under, new_job, secs};

tests!(
    jobs_steps_timer, jobs::steps::timer:
    a_parked_job_frees_its_slot_and_wakes_at_its_time,
    a_moment_that_has_passed_wakes_at_once,
    a_deadline_fixed_on_the_first_run_holds_across_crashes,
    a_suspended_sleeper_wakes_when_resumed_or_at_its_time,
);

/// Model: sleeps-and-signals, crashes-and-poison
async fn a_parked_job_frees_its_slot_and_wakes_at_its_time(t: &Fixture) {
    let worker = t.steady_worker().await;
    for by_duration in [true, false] {
        let job = t.submit(new_job("sleeper")).await;
        let claimed = t.claim_one(worker).await;
        let until = t.now().plus(secs(3600));
        let park = if by_duration { Park::For(secs(3600)) } else { Park::Until(until) };
        assert_eq!(t.park(worker, &claimed, park).await, Finish::Applied(JobState::Waiting));
        let parked = t.get(job.id).await.job;
        assert_eq!((parked.lease, parked.failures), (None, 0));
        assert_eq!(parked.details.wait, Some(Wait::Timer { until }));
        assert_eq!(t.attempts(job.id).await[0].record.as_ref().unwrap().outcome, AttemptOutcome::Parked);
        t.advance(just_under(secs(3600)));
        assert!(t.claim(worker, 1).await.is_empty());
        t.advance(MOMENT);
        t.tick().await;
        assert_eq!(t.state(job.id).await, JobState::Scheduled);
        let again = t.claim_one(worker).await;
        assert_eq!((again.job.id, again.job.attempt, again.job.details.wait.clone()), (job.id, 2, None));
        t.complete(worker, &again).await;
    }
}

/// Model: sleeps-and-signals
async fn a_moment_that_has_passed_wakes_at_once(t: &Fixture) {
    for until in [t.now(), Timestamp::MIN] {
        let (worker, claimed) = t.running(new_job("sleeper")).await;
        assert_eq!(t.park(worker, &claimed, Park::Until(until)).await, Finish::Applied(JobState::Scheduled));
        let again = t.claim_one(worker).await;
        assert_eq!(again.job.attempt, 2);
        t.complete(worker, &again).await;
    }
}

/// Model: sleeps-and-signals, checkpoints
async fn a_deadline_fixed_on_the_first_run_holds_across_crashes(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("sleeper")).await;
    let id = claimed.job.id;
    let until = t.now().plus(secs(60));
    t.checkpoint(&claimed, "sleep", &until.as_millis().to_string()).await;
    // The worker dies between saving the deadline and parking.
    t.advance(secs(31));
    t.tick().await;
    t.advance(secs(2));
    let worker_after = t.worker().await;
    let claimed = t.claim_one(worker_after).await;
    let saved: i64 = std::str::from_utf8(&claimed.checkpoints[0].value).unwrap().parse().unwrap();
    t.park(worker_after, &claimed, Park::Until(Timestamp::from_millis(saved))).await;
    t.advance(until.since(t.now()));
    t.tick().await;
    assert_eq!(t.state(id).await, JobState::Scheduled);
    assert_ne!(worker, worker_after);
}

/// Model: sleeps-and-signals, resume
async fn a_suspended_sleeper_wakes_when_resumed_or_at_its_time(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("sleeper")).await;
    let id = claimed.job.id;
    t.park(worker, &claimed, Park::For(secs(60))).await;
    t.suspend(id).await;
    t.advance(secs(30));
    t.tick().await;
    assert_eq!(t.resume(id).await.job.state, JobState::Waiting, "its time has not come");
    t.suspend(id).await;
    t.advance(secs(30));
    t.tick().await;
    assert_eq!(t.state(id).await, JobState::Suspended);
    assert_eq!(t.resume(id).await.job.state, JobState::Scheduled, "its time came meanwhile");
}
