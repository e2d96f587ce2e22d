//! Suspending and resuming: the three modes, what resumes to what, and that the lifetime stands still.

use super::*;
use crate::error::InvalidTransition;

/// Model: suspend-modes. Idle only refuses a running job.
#[test]
fn an_idle_only_suspension_leaves_a_running_job_alone() {
    let refused = transition(&running(), &suspend(SuspendMode::IdleOnly), at(1)).unwrap_err();
    assert_eq!((refused.state, refused.action), (JobState::Running, JobAction::Suspend));
    assert_eq!(applied(&job(), &suspend(SuspendMode::IdleOnly), at(1)).state, JobState::Suspended);
}

/// Model: suspend-modes. Graceful lets the attempt end: success completes, a retryable failure suspends, a permanent one fails.
#[test]
fn a_graceful_suspension_waits_for_the_attempt() {
    let asked = applied(&running(), &suspend(SuspendMode::Graceful), at(1));
    assert_eq!((asked.state, asked.fence), (JobState::Running, fence(1)));
    assert!(asked.lease.is_some() && asked.details.suspend_requested.is_some());
    let after = |event: &JobEvent| applied(&asked, event, at(2));
    assert_eq!(after(&JobEvent::Succeed).state, JobState::Completed);
    assert_eq!(after(&fail(Category::Permanent)).state, JobState::Failed);
    let wait = Wait::Timer { until: at(60) };
    for event in [fail(Category::Temporary), JobEvent::Release, JobEvent::Park { wait }] {
        let held = after(&event);
        assert_eq!((held.state, held.details.suspended_at), (JobState::Suspended, Some(at(2))), "{event:?}");
        let graceful = Suspension { mode: SuspendMode::Graceful, ..suspension() };
        assert_eq!(held.details.suspension, Some(graceful), "{event:?}");
    }
    let spent = with(asked.clone(), |job| job.failures = 2);
    assert_eq!(applied(&spent, &fail(Category::Temporary), at(2)).state, JobState::DeadLetter);
}

/// Model: suspend-modes. Aggressive cuts the lease now, also when a graceful one was asked for before.
#[test]
fn an_aggressive_suspension_cuts_the_lease() {
    let asked = applied(&running(), &suspend(SuspendMode::Graceful), at(1));
    for job in [running(), asked] {
        let held = applied(&job, &suspend(SuspendMode::Aggressive), at(2));
        assert_eq!((held.state, held.lease, held.fence), (JobState::Suspended, None, fence(2)));
        assert_eq!((held.failures, held.details.suspended_by.as_deref()), (0, Some("ann")));
        assert_eq!(held.details.suspend_requested, None);
    }
}

/// Model: repeated-actions. A graceful suspension that has not happened yet is withdrawn by a resume.
#[test]
fn a_resume_withdraws_a_suspension_that_was_only_asked_for() {
    let asked = applied(&running(), &suspend(SuspendMode::Graceful), at(1));
    let withdrawn = applied(&asked, &JobEvent::Resume, at(2));
    assert_eq!((withdrawn.state, &withdrawn.details.suspend_requested), (JobState::Running, &None));
    assert_eq!(applied(&withdrawn, &fail(Category::Temporary), at(3)).state, JobState::Retrying);
}

/// Model: repeated-actions. Suspending what is suspended and resuming what is not are no-ops.
#[test]
fn suspending_twice_and_resuming_twice_change_nothing() {
    let held = applied(&job(), &suspend(SuspendMode::IdleOnly), at(1));
    for mode in [SuspendMode::IdleOnly, SuspendMode::Graceful, SuspendMode::Aggressive] {
        assert_eq!(transition(&held, &suspend(mode), at(2)), Ok(Transition::Unchanged), "{mode:?}");
    }
    let resumed = applied(&held, &JobEvent::Resume, at(3));
    assert_eq!(resumed.details.resumed_at, Some(at(3)));
    assert_eq!(transition(&resumed, &JobEvent::Resume, at(4)), Ok(Transition::Unchanged));
}

/// Model: refused-changes. A final job is refused in every mode, whether or not it ever ran.
#[test]
fn suspending_a_final_job_is_refused_in_every_mode() {
    let done = applied(&running(), &JobEvent::Succeed, at(1));
    let never_ran = applied(&job(), &cancel(), at(1));
    for mode in [SuspendMode::IdleOnly, SuspendMode::Graceful, SuspendMode::Aggressive] {
        for job in [&done, &never_ran] {
            let refused = InvalidTransition { state: job.state, action: JobAction::Suspend };
            assert_eq!(transition(job, &suspend(mode), at(2)), Err(refused), "{mode:?}");
        }
    }
}

/// Model: pending-suspension. A request that was accepted is dropped without a trace when the attempt completes the job.
#[test]
fn an_attempt_that_completes_its_job_overtakes_the_suspension() {
    let asked = applied(&running(), &suspend(SuspendMode::Graceful), at(1));
    let requested = asked.details.suspend_requested.as_ref().unwrap();
    assert_eq!((requested.mode, requested.at, &*requested.by), (SuspendMode::Graceful, start(), "ann"));
    let done = applied(&asked, &JobEvent::Succeed, at(2));
    assert_eq!((done.state, &done.details.suspend_requested), (JobState::Completed, &None));
}

/// Model: resume. A resume drops a retry's backoff.
#[test]
fn a_resume_drops_the_backoff() {
    let retrying = applied(&under(running(), patient()), &fail(Category::Temporary), at(1));
    assert_eq!(retrying.retry_at, Some(at(11)));
    let held = applied(&retrying, &suspend(SuspendMode::IdleOnly), at(2));
    let resumed = applied(&held, &JobEvent::Resume, at(3));
    assert_eq!((resumed.state, resumed.retry_at), (JobState::Scheduled, None));
}

/// Model: resume. A resume never drops the submitter's own delay; each job goes where its facts say.
#[test]
fn a_resume_puts_a_job_where_its_facts_say() {
    let waiting = applied(&running(), &JobEvent::Park { wait: Wait::Timer { until: at(60) } }, at(1));
    let delayed = with(idle(JobState::Delayed), |job| job.run_at = at(3600));
    let cases = [
        (with(idle(JobState::Created), |job| job.details_mut().is_held = true), JobState::Created),
        (with(idle(JobState::Pending), |job| job.after_unmet = 1), JobState::Pending),
        (with(delayed.clone(), |job| job.any_unmet = true), JobState::Pending),
        (waiting, JobState::Waiting),
        (delayed, JobState::Delayed),
        (job(), JobState::Scheduled),
    ];
    for (job, state) in cases {
        let held = applied(&job, &suspend(SuspendMode::IdleOnly), at(2));
        let resumed = applied(&held, &JobEvent::Resume, at(3));
        assert_eq!((resumed.state, resumed.run_at), (state, job.run_at));
    }
    let due_meanwhile = applied(&idle(JobState::Delayed), &suspend(SuspendMode::IdleOnly), at(2));
    assert_eq!(applied(&due_meanwhile, &JobEvent::Resume, at(3)).state, JobState::Scheduled);
}

/// Model: resume. The wake of a suspended job is remembered, once.
#[test]
fn a_wake_during_a_suspension_is_remembered() {
    let parked = applied(&running(), &JobEvent::Park { wait: Wait::Children { group: 1 } }, at(1));
    let held = applied(&parked, &suspend(SuspendMode::IdleOnly), at(2));
    let woken = applied(&held, &JobEvent::Wake, at(3));
    assert_eq!((woken.state, &woken.details.wait), (JobState::Suspended, &None));
    assert!(transition(&woken, &JobEvent::Wake, at(4)).is_err());
    assert_eq!(applied(&woken, &JobEvent::Resume, at(5)).state, JobState::Scheduled);
}

/// Model: lifetime. The lifetime's clock stands still while the job is suspended.
#[test]
fn the_lifetime_stands_still_while_suspended() {
    let held = applied(&job(), &suspend(SuspendMode::IdleOnly), at(10));
    let much_later = at(10).plus(LIFETIME * 3);
    assert_eq!(
        (acts_at(&held), super::super::timer(&held, much_later, &Grace::default(), 0.5)),
        (None, None)
    );
    assert!(transition(&held, &JobEvent::Expire, much_later).is_err());
    let resumed = applied(&held, &JobEvent::Resume, much_later);
    assert_eq!(resumed.expires_at, start().plus(LIFETIME * 4));
    let again = applied(&resumed, &suspend(SuspendMode::IdleOnly), much_later.plus(HOUR));
    let back = applied(&again, &JobEvent::Resume, much_later.plus(HOUR * 2));
    assert_eq!(back.expires_at, start().plus(LIFETIME * 4).plus(HOUR));
}

/// Model: pause-reason-and-expiry. A suspension may end automatically.
#[test]
fn a_suspension_with_an_end_resumes_the_job() {
    let how = Suspension { expires_at: Some(at(60)), ..suspension() };
    let held = applied(&job(), &JobEvent::Suspend { suspension: how }, at(1));
    assert_eq!(acts_at(&held), Some(at(60)));
    assert_eq!(super::super::timer(&held, at(59), &Grace::default(), 0.5), None);
    assert_eq!(super::super::timer(&held, at(60), &Grace::default(), 0.5), Some(JobEvent::Resume));
}
