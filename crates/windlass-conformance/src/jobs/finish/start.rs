//! Limits on when a first attempt starts, and on how long any attempt may be allowed to take (Model: execution-timeout, setting-levels).

use windlass::audit::AuditEvent;
use windlass::job::{Category, Failure, JobState, NewJob};
use windlass::settings::{PartialTimeouts, QueueSettings, TypeSettings};
use windlass::store::{Finish, Pause, PauseTarget};

use crate::fixture::{Fixture, MOMENT, after, just_under, new_job, queue, secs};

tests!(
    jobs_finish_start, jobs::finish::start:
    a_job_that_is_not_started_in_time_fails,
    a_start_limit_counts_from_when_the_job_can_be_claimed,
    a_job_that_started_in_time_has_no_start_limit_any_more,
    a_claim_does_not_take_a_job_whose_time_to_start_is_over,
    a_longer_execution_timeout_than_allowed_is_cut,
);

fn within(seconds: u64) -> NewJob {
    NewJob { start_timeout: Some(secs(seconds)), ..new_job("report") }
}

async fn a_job_that_is_not_started_in_time_fails(t: &Fixture) {
    let id = t.submit(within(60)).await.id;
    let blocked = t.submit(NewJob { concurrency_key: Some("k".into()), ..within(60) }).await.id;
    let waiting = t.submit(after(&[id])).await.id;
    // A pause does not stop the clock.
    t.store.pause(&t.me, PauseTarget::Gate, Pause::graceful()).await.unwrap();
    t.advance(just_under(secs(60)));
    t.tick().await;
    assert_eq!(t.state(id).await, JobState::Scheduled);
    t.advance(MOMENT);
    t.tick().await;
    for id in [id, blocked] {
        let job = t.get(id).await.job;
        let error = job.details.error.clone().unwrap();
        assert_eq!((job.state, job.attempt, job.completed_at), (JobState::Failed, 0, Some(t.now())));
        assert_eq!(
            (error.category, error.code.as_deref()),
            (Category::Resource, Some("start_deadline_exceeded"))
        );
        assert_eq!(t.events_of(id).await, [AuditEvent::Failed]);
    }
    assert_eq!(t.state(waiting).await, JobState::Failed, "it ends as what it waits for");
}

async fn a_start_limit_counts_from_when_the_job_can_be_claimed(t: &Fixture) {
    let worker = t.steady_worker().await;
    let delayed = t.submit(NewJob { delay: Some(secs(200)), ..within(60) }).await.id;
    let first = t.submit(new_job("first")).await.id;
    let second = t.submit(NewJob { start_timeout: Some(secs(60)), ..after(&[first]) }).await.id;
    let claimed = t.claim_one(worker).await;
    t.advance(secs(200));
    t.tick().await;
    assert_eq!(t.complete(worker, &claimed).await, Finish::Applied(JobState::Completed));
    let held = t.submit(within(60)).await.id;
    t.suspend(held).await;
    t.advance(secs(60));
    t.tick().await;
    assert_eq!([t.state(delayed).await, t.state(second).await], [JobState::Failed; 2]);
    assert_eq!(t.state(held).await, JobState::Suspended);
    t.resume(held).await;
    t.advance(just_under(secs(60)));
    t.tick().await;
    assert_eq!(t.state(held).await, JobState::Scheduled);
    t.advance(MOMENT);
    t.tick().await;
    assert_eq!(t.state(held).await, JobState::Failed);
}

async fn a_job_that_started_in_time_has_no_start_limit_any_more(t: &Fixture) {
    let worker = t.steady_worker().await;
    let id = t.submit(within(60)).await.id;
    t.advance(just_under(secs(60)));
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.advance(secs(1_000));
    t.tick().await;
    assert_eq!(t.state(id).await, JobState::Scheduled);
    t.advance(secs(1_000));
    t.tick().await;
    let claimed = t.claim_one(worker).await;
    assert_eq!(t.complete(worker, &claimed).await, Finish::Applied(JobState::Completed));
}

async fn a_claim_does_not_take_a_job_whose_time_to_start_is_over(t: &Fixture) {
    let worker = t.steady_worker().await;
    let id = t.submit(within(60)).await.id;
    t.advance(secs(60));
    // Without maintenance: the claim itself sees it.
    assert!(t.claim(worker, 1).await.is_empty());
    assert_eq!(t.state(id).await, JobState::Failed);
}

fn capped(seconds: u64) -> PartialTimeouts {
    PartialTimeouts { max_execution: Some(secs(seconds)), ..PartialTimeouts::default() }
}

/// Model: execution-timeout, setting-levels
async fn a_longer_execution_timeout_than_allowed_is_cut(t: &Fixture) {
    t.set_queue("short", QueueSettings { timeouts: capped(600), ..QueueSettings::default() }).await;
    t.set_type("brief", TypeSettings { timeouts: capped(60), ..TypeSettings::default() }).await;
    let asking = |job_type: &str, name: &str, seconds: Option<u64>| NewJob {
        queue: queue(name),
        execution_timeout: seconds.map(secs),
        ..new_job(job_type)
    };
    let cases = [
        (asking("report", "default", Some(7_200)), 7_200),
        (asking("report", "short", Some(7_200)), 600),
        // The default is cut as well.
        (asking("report", "short", None), 600),
        (asking("report", "short", Some(30)), 30),
        (asking("brief", "short", Some(7_200)), 60),
        (asking("brief", "default", None), 60),
    ];
    for (new, seconds) in cases {
        let job = t.submit(new).await;
        assert_eq!(job.policy.timeouts.execution, secs(seconds));
        assert_eq!(t.get(job.id).await.job.policy.timeouts.execution, secs(seconds));
    }
}
