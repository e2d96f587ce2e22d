//! From submission to a final state within the lifetime, whatever the job is doing.

use windlass::audit::AuditEvent;
use windlass::job::{AttemptOutcome, JobState, NewJob};
use windlass::store::{ActionRequest, Finish, Suspend};

use crate::fixture::{Fixture, new_job, secs};

tests!(
    jobs_finish_lifetime, jobs::finish::lifetime:
    a_lifetime_ends_a_job_in_every_state_but_suspended,
    a_running_attempt_is_cut_off_by_the_lifetime,
    the_lifetime_stands_still_while_suspended,
    a_call_that_meets_an_expired_job_finds_it_ended,
);

fn short_lived() -> NewJob {
    NewJob { lifetime: Some(secs(60)), ..new_job("report") }
}

/// Model: lifetime
async fn a_lifetime_ends_a_job_in_every_state_but_suspended(t: &Fixture) {
    let live = JobState::ALL.into_iter().filter(|state| !state.is_final());
    for state in live {
        let placed = t.placed_as(state, short_lived()).await;
        t.advance(secs(59));
        t.tick().await;
        assert_eq!(t.state(placed.id).await, state, "one second is left");
        t.advance(secs(1));
        t.tick().await;
        let job = t.get(placed.id).await.job;
        if state == JobState::Suspended {
            assert_eq!(job.state, JobState::Suspended);
            continue;
        }
        assert_eq!((job.state, job.completed_at), (JobState::DeadLetter, Some(t.now())), "was {state}");
        assert_eq!(job.details.error.as_ref().unwrap().code.as_deref(), Some("lifetime_exceeded"));
        assert_eq!(t.events_of(placed.id).await, [AuditEvent::Expired]);
    }
}

/// Model: lifetime, counters-and-fences
async fn a_running_attempt_is_cut_off_by_the_lifetime(t: &Fixture) {
    let placed = t.placed_as(JobState::Running, short_lived()).await;
    let claimed = placed.claimed.unwrap();
    t.advance(secs(60));
    // No maintenance ran: the report itself meets the end.
    assert_eq!(t.complete(placed.worker, &claimed).await, Finish::Stale);
    let job = t.get(placed.id).await.job;
    assert_eq!((job.state, job.failures), (JobState::DeadLetter, 0));
    let attempt = t.attempts(placed.id).await.remove(0).record.unwrap();
    assert_eq!(attempt.outcome, AttemptOutcome::Expired);
}

/// Model: lifetime
async fn the_lifetime_stands_still_while_suspended(t: &Fixture) {
    let placed = t.placed_as(JobState::Scheduled, short_lived()).await;
    t.advance(secs(30));
    t.suspend(placed.id).await;
    t.advance(secs(1000));
    t.tick().await;
    t.resume(placed.id).await;
    t.advance(secs(10));
    // A second suspension that ends automatically counts the same.
    let suspend = Suspend { expires: Some(secs(100)), ..Suspend::default() };
    t.act(placed.id, ActionRequest::Suspend(suspend)).await;
    t.advance(secs(100));
    t.tick().await;
    t.advance(secs(19));
    t.tick().await;
    assert_eq!(t.state(placed.id).await, JobState::Scheduled);
    t.advance(secs(1));
    t.tick().await;
    assert_eq!(t.state(placed.id).await, JobState::DeadLetter);
}

/// Model: lifetime, refused-changes
async fn a_call_that_meets_an_expired_job_finds_it_ended(t: &Fixture) {
    let placed = t.placed_as(JobState::Scheduled, short_lived()).await;
    t.advance(secs(60));
    let refused = t.store.act(&t.me, placed.id, ActionRequest::Cancel { reason: None }).await.unwrap_err();
    assert_eq!(refused.to_string(), "cannot cancel a job that is dead_letter");
    assert_eq!(t.events_of(placed.id).await, [AuditEvent::Expired]);
    assert!(t.claim(placed.worker, 1).await.is_empty());
}
