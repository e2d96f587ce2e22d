//! Holding a job and letting go of it.

use windlass::audit::AuditEvent;
use windlass::error::{ActionError, WorkError};
use windlass::job::{
    AttemptOutcome, Dependency, Failure, JobAction, JobState, NewJob, RetryPolicy, SuspendMode,
};
use windlass::store::{
    ActionOptions, ActionRequest, AttemptWrite, Directive, Finish, HeartbeatItem, Outcome, Park, Suspend,
};

use super::{is_refused, is_unchanged};
use crate::fixture::{Fixture, MOMENT, just_under, lease_ref, new_job, secs};

tests!(
    actions_suspend, actions::suspend:
    an_idle_job_is_suspended_from_every_state_in_every_mode,
    a_running_job_is_not_suspended_when_only_idle_ones_may_be,
    a_graceful_suspension_lets_the_attempt_end_by_itself,
    a_graceful_suspension_can_be_withdrawn,
    an_aggressive_suspension_cuts_the_attempt_off,
    suspending_twice_and_resuming_in_vain_change_nothing,
    the_strict_form_names_what_was_found,
    a_final_job_is_refused_in_every_mode,
    a_resumed_job_goes_where_its_facts_say,
    a_resume_drops_the_backoff_but_not_the_users_delay,
    dependencies_that_end_during_a_suspension_are_counted,
    a_suspension_ends_automatically,
    a_checkpoint_and_an_aggressive_suspension_do_not_mix,
);

const MODES: [SuspendMode; 3] = [SuspendMode::IdleOnly, SuspendMode::Graceful, SuspendMode::Aggressive];
const IDLE: [JobState; 6] = [
    JobState::Created,
    JobState::Pending,
    JobState::Delayed,
    JobState::Scheduled,
    JobState::Retrying,
    JobState::Waiting,
];

fn suspend(mode: SuspendMode) -> ActionRequest {
    ActionRequest::Suspend(Suspend { mode, reason: Some("wait".into()), expires: None })
}

fn resume() -> ActionRequest {
    ActionRequest::Resume { reason: None }
}

/// Model: suspend-modes
async fn an_idle_job_is_suspended_from_every_state_in_every_mode(t: &Fixture) {
    for (state, mode) in IDLE.into_iter().flat_map(|state| MODES.map(|mode| (state, mode))) {
        let placed = t.placed(state).await;
        let failures = t.get(placed.id).await.job.failures;
        let acted = t.act(placed.id, suspend(mode)).await;
        assert!(acted.is_changed && acted.job.state == JobState::Suspended, "{state} {mode:?}");
        let details = &acted.job.details;
        assert_eq!((details.suspended_at, details.suspended_by.as_deref()), (Some(t.now()), Some("local")));
        assert_eq!(details.suspension.as_ref().unwrap().reason.as_deref(), Some("wait"));
        assert_eq!(acted.job.failures, failures, "it is not a failure");
        assert!(t.claim(placed.worker, 1).await.is_empty());
        assert_eq!(t.events_of(placed.id).await, [AuditEvent::Suspended]);
    }
}

/// Model: suspend-modes, refused-changes
async fn a_running_job_is_not_suspended_when_only_idle_ones_may_be(t: &Fixture) {
    let placed = t.placed(JobState::Running).await;
    is_refused(t, placed.id, suspend(SuspendMode::IdleOnly), JobAction::Suspend).await;
    assert_eq!(
        t.complete(placed.worker, &placed.claimed.unwrap()).await,
        Finish::Applied(JobState::Completed)
    );
}

/// Model: suspend-modes
async fn a_graceful_suspension_lets_the_attempt_end_by_itself(t: &Fixture) {
    let ends = [
        (Outcome::Completed { result: None }, JobState::Completed),
        (Outcome::Failed(Failure::temporary("busy")), JobState::Suspended),
        (Outcome::Failed(Failure::permanent("gone", "never")), JobState::Failed),
        (Outcome::Released, JobState::Suspended),
        (Outcome::Parked(Park::For(secs(60))), JobState::Suspended),
    ];
    for (outcome, state) in ends {
        let placed = t.placed(JobState::Running).await;
        let claimed = placed.claimed.unwrap();
        let acted = t.act(placed.id, suspend(SuspendMode::Graceful)).await;
        assert!(acted.is_changed && acted.job.state == JobState::Running);
        is_unchanged(t, placed.id, suspend(SuspendMode::Graceful)).await;
        // The worker continues undisturbed.
        let beat = HeartbeatItem::new(placed.id, claimed.job.fence);
        let reply = t.store.heartbeat(&t.me, placed.worker, vec![beat]).await.unwrap();
        assert_eq!(reply.directives, [(placed.id, Directive::Continue)]);
        let answer = t.finish(placed.worker, placed.id, claimed.job.fence, outcome.clone()).await;
        assert_eq!(answer, Finish::Applied(state), "{outcome:?}");
        let details = t.get(placed.id).await.job.details.clone();
        assert_eq!(details.suspend_requested, None);
        assert_eq!(details.suspension.is_some(), state == JobState::Suspended);
    }
    // The last retryable failure is the end nevertheless.
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() };
    let placed = t.placed_as(JobState::Running, NewJob { retry: Some(retry), ..new_job("report") }).await;
    t.act(placed.id, suspend(SuspendMode::Graceful)).await;
    let answer = t.fail(placed.worker, &placed.claimed.unwrap(), Failure::temporary("busy")).await;
    assert_eq!(answer, Finish::Applied(JobState::DeadLetter));
}

/// Model: suspend-modes, repeated-actions
async fn a_graceful_suspension_can_be_withdrawn(t: &Fixture) {
    let placed = t.placed(JobState::Running).await;
    t.act(placed.id, suspend(SuspendMode::Graceful)).await;
    let acted = t.act(placed.id, resume()).await;
    assert!(acted.is_changed && acted.job.state == JobState::Running);
    is_unchanged(t, placed.id, resume()).await;
    let answer = t.fail(placed.worker, &placed.claimed.unwrap(), Failure::temporary("busy")).await;
    assert_eq!(answer, Finish::Applied(JobState::Retrying));
}

/// Model: suspend-modes, counters-and-fences, crashes-and-poison
async fn an_aggressive_suspension_cuts_the_attempt_off(t: &Fixture) {
    let placed = t.placed(JobState::Running).await;
    let claimed = placed.claimed.unwrap();
    let job = t.act(placed.id, suspend(SuspendMode::Aggressive)).await.job;
    assert_eq!((job.state, job.lease), (JobState::Suspended, None));
    assert!(job.fence > claimed.job.fence);
    assert_eq!((job.failures, job.crashes, job.attempt), (0, 0, 1));
    assert_eq!(t.complete(placed.worker, &claimed).await, Finish::Stale);
    let reply = t
        .store
        .heartbeat(&t.me, placed.worker, vec![HeartbeatItem::new(placed.id, claimed.job.fence)])
        .await
        .unwrap();
    assert_eq!(reply.directives, [(placed.id, Directive::Suspend)]);
    let attempt = t.attempts(placed.id).await.remove(0).record.unwrap();
    assert_eq!((attempt.outcome, attempt.error), (AttemptOutcome::Suspended, None));
    t.resume(placed.id).await;
    assert_eq!(t.claim_one(placed.worker).await.job.attempt, 2);
}

/// Model: repeated-actions
async fn suspending_twice_and_resuming_in_vain_change_nothing(t: &Fixture) {
    for mode in MODES {
        let placed = t.placed(JobState::Suspended).await;
        is_unchanged(t, placed.id, suspend(mode)).await;
    }
    for state in JobState::ALL.into_iter().filter(|state| *state != JobState::Suspended) {
        is_unchanged(t, t.placed(state).await.id, resume()).await;
    }
}

/// Model: repeated-actions
async fn the_strict_form_names_what_was_found(t: &Fixture) {
    let suspended = t.placed(JobState::Suspended).await.id;
    let scheduled = t.placed(JobState::Scheduled).await.id;
    let before = [t.picture(suspended).await, t.picture(scheduled).await];
    let refused =
        t.store.act_with(&t.me, suspended, suspend(SuspendMode::IdleOnly), ActionOptions::strict()).await;
    assert_eq!(refused, Err(ActionError::AlreadySuspended(suspended)));
    let refused = t.store.act_with(&t.me, scheduled, resume(), ActionOptions::strict()).await;
    assert_eq!(refused, Err(ActionError::NotSuspended(scheduled)));
    assert_eq!([t.picture(suspended).await, t.picture(scheduled).await], before);
    assert!(t.store.act_with(&t.me, suspended, resume(), ActionOptions::strict()).await.unwrap().is_changed);
    assert!(
        t.store
            .act_with(&t.me, scheduled, suspend(SuspendMode::IdleOnly), ActionOptions::strict())
            .await
            .unwrap()
            .is_changed
    );
}

/// Model: refused-changes, pending-suspension
async fn a_final_job_is_refused_in_every_mode(t: &Fixture) {
    for state in JobState::FINAL {
        let placed = t.placed(state).await;
        for mode in MODES {
            is_refused(t, placed.id, suspend(mode), JobAction::Suspend).await;
        }
    }
    // One that wins the race after the request was accepted is a success: no outcome is refused any more.
    let placed = t.placed(JobState::Running).await;
    assert!(t.act(placed.id, suspend(SuspendMode::Graceful)).await.is_changed);
    assert_eq!(
        t.complete(placed.worker, &placed.claimed.unwrap()).await,
        Finish::Applied(JobState::Completed)
    );
}

/// Model: resume
async fn a_resumed_job_goes_where_its_facts_say(t: &Fixture) {
    for state in IDLE {
        let placed = t.placed(state).await;
        t.act(placed.id, suspend(SuspendMode::IdleOnly)).await;
        t.advance(secs(1));
        let acted = t.act(placed.id, resume()).await;
        let expected = if state == JobState::Retrying { JobState::Scheduled } else { state };
        assert!(acted.is_changed);
        assert_eq!((acted.job.state, acted.job.details.suspension.clone()), (expected, None), "was {state}");
        assert_eq!(acted.job.details.resumed_at, Some(t.now()));
        assert_eq!(t.events_of(placed.id).await, [AuditEvent::Suspended, AuditEvent::Resumed]);
    }
}

/// Model: resume
async fn a_resume_drops_the_backoff_but_not_the_users_delay(t: &Fixture) {
    let placed = t.placed(JobState::Retrying).await;
    t.act(placed.id, suspend(SuspendMode::IdleOnly)).await;
    let job = t.act(placed.id, resume()).await.job;
    assert_eq!((job.state, job.retry_at, job.failures), (JobState::Scheduled, None, 1));
    let delayed = t.placed(JobState::Delayed).await;
    t.act(delayed.id, suspend(SuspendMode::IdleOnly)).await;
    assert_eq!(t.act(delayed.id, resume()).await.job.state, JobState::Delayed);
    t.act(delayed.id, suspend(SuspendMode::IdleOnly)).await;
    t.advance(secs(3600));
    t.tick().await;
    assert_eq!(t.state(delayed.id).await, JobState::Suspended);
    assert_eq!(t.act(delayed.id, resume()).await.job.state, JobState::Scheduled, "its time came meanwhile");
}

/// Model: resume, failed-dependencies
async fn dependencies_that_end_during_a_suspension_are_counted(t: &Fixture) {
    let worker = t.worker().await;
    for (ends_well, after) in [(true, JobState::Scheduled), (false, JobState::Failed)] {
        let first = t.submit(new_job("first")).await;
        let second = NewJob { after: vec![Dependency::Job(first.id)], ..new_job("second") };
        let second = t.submit(second).await.id;
        t.act(second, suspend(SuspendMode::IdleOnly)).await;
        let claimed = t.claim_one(worker).await;
        if ends_well {
            t.complete(worker, &claimed).await;
            assert_eq!(t.state(second).await, JobState::Suspended);
        } else {
            t.fail(worker, &claimed, Failure::permanent("gone", "never")).await;
        }
        t.act(second, resume()).await;
        assert_eq!(t.state(second).await, after);
        t.store.act(&t.me, second, super::cancel()).await.ok();
    }
}

/// Model: pause-reason-and-expiry
async fn a_suspension_ends_automatically(t: &Fixture) {
    let placed = t.placed(JobState::Scheduled).await;
    let expires = Some(secs(60));
    t.act(placed.id, ActionRequest::Suspend(Suspend { expires, ..Suspend::default() })).await;
    t.advance(just_under(secs(60)));
    assert!(t.claim(placed.worker, 1).await.is_empty());
    t.advance(MOMENT);
    // The claim itself sees that it is over, without maintenance.
    assert_eq!(t.claim_one(placed.worker).await.job.id, placed.id);
    assert_eq!(t.events_of(placed.id).await, [AuditEvent::Suspended, AuditEvent::Resumed]);
    assert_eq!(t.trail().await.last().unwrap().actor_type, "system");
    // The same of one that was asked for while the job ran.
    let placed = t.placed(JobState::Running).await;
    let graceful = Suspend { mode: SuspendMode::Graceful, expires, ..Suspend::default() };
    t.act(placed.id, ActionRequest::Suspend(graceful)).await;
    t.fail(placed.worker, &placed.claimed.unwrap(), Failure::temporary("busy")).await;
    t.advance(secs(60));
    t.tick().await;
    assert_eq!(t.state(placed.id).await, JobState::Scheduled);
}

/// Model: interrupted-writes
async fn a_checkpoint_and_an_aggressive_suspension_do_not_mix(t: &Fixture) {
    for round in 0..20 {
        let placed = t.placed(JobState::Running).await;
        let claimed = placed.claimed.unwrap();
        let note = vec![AttemptWrite::Checkpoint { step: "one".into(), value: b"1".to_vec() }];
        let write = t.store.record(&t.me, lease_ref(&claimed), note);
        let cut = t.store.act(&t.me, placed.id, suspend(SuspendMode::Aggressive));
        let written = if round % 2 == 0 {
            let (written, cut) = tokio::join!(write, cut);
            cut.unwrap();
            written
        } else {
            let (cut, written) = tokio::join!(cut, write);
            cut.unwrap();
            written
        };
        let kept = t.checkpoints(placed.id).await.len();
        match written {
            Ok(()) => assert_eq!(kept, 1, "what was acknowledged is there"),
            Err(WorkError::Stale(_)) => assert_eq!(kept, 0, "what was refused is not"),
            Err(other) => panic!("{other}"),
        }
        assert_eq!(t.state(placed.id).await, JobState::Suspended);
    }
}
