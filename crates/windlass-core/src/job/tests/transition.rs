//! What single events do beside moving the job: counters, fences, times, errors.

use super::*;

/// Model: counters-and-fences. `attempt` counts starts, `failures` retryable failures, `fence` claims.
#[test]
fn each_claim_is_a_new_attempt_with_a_new_fence() {
    let first = running();
    assert_eq!((first.attempt, first.failures, first.fence), (1, 0, fence(1)));
    let failed = applied(&first, &fail(Category::Temporary), at(1));
    assert_eq!((failed.attempt, failed.failures, failed.retry_count()), (1, 1, 1));
    let second = applied(&applied(&failed, &JobEvent::Due, at(2)), &claim(), at(3));
    assert_eq!((second.attempt, second.failures, second.fence), (2, 1, fence(2)));
    assert_eq!((second.first_started_at, second.started_at), (Some(start()), Some(at(3))));
    assert!(second.is_held_with(fence(2)) && !second.is_held_with(fence(1)));
}

/// Model: counters-and-fences. 0 after a permanent first failure, 3 when three retries are spent.
#[test]
fn the_retry_count_is_the_retries_granted() {
    let permanent = applied(&running(), &fail(Category::Permanent), at(1));
    assert_eq!((permanent.state, permanent.failures, permanent.retry_count()), (JobState::Failed, 0, 0));
    let mut job = under(job(), RetryPolicy::fixed());
    for _ in 0..3 {
        job = applied(&applied(&job, &claim(), at(1)), &fail(Category::Temporary), at(2));
        assert_eq!(job.state, JobState::Retrying);
        job = applied(&job, &JobEvent::Due, at(3));
    }
    let spent = applied(&applied(&job, &claim(), at(4)), &fail(Category::Temporary), at(5));
    assert_eq!((spent.state, spent.attempt, spent.failures), (JobState::DeadLetter, 4, 4));
    assert_eq!(spent.retry_count(), 3);
}

/// Model: counters-and-fences. The fence grows when a running job is suspended or cancelled, and only then beside claims.
#[test]
fn the_fence_grows_when_a_running_job_is_taken_from_its_worker() {
    for event in [suspend(SuspendMode::Aggressive), cancel()] {
        assert_eq!(applied(&running(), &event, at(1)).fence, fence(2), "{event:?}");
        assert_eq!(applied(&job(), &event, at(1)).fence, Fence(0), "{event:?}");
    }
    for event in [suspend(SuspendMode::Graceful), JobEvent::Succeed, JobEvent::Release, JobEvent::Expire] {
        assert_eq!(applied(&running(), &event, at(1)).fence, fence(1), "{event:?}");
    }
    let cancelled = applied(&running(), &cancel(), at(1));
    assert!(!cancelled.is_held_with(fence(1)) && !cancelled.is_held_with(fence(2)));
}

/// Model: crashes-and-poison. Three crashes are poison, whatever the retry budget.
#[test]
fn a_job_that_crashes_three_times_is_poison() {
    let mut job = under(job(), patient());
    for crash in 1..=3 {
        let running = applied(&job, &claim(), at(1));
        let event = if crash == 2 {
            fail(Category::System)
        } else {
            JobEvent::LeaseExpired { random: 0.0, is_crash: true }
        };
        let next = applied(&running, &event, at(2));
        assert_eq!((next.crashes, next.failures), (crash, crash));
        job = if crash < 3 { applied(&next, &JobEvent::Due, at(3)) } else { next };
    }
    assert_eq!(job.state, JobState::DeadLetter);
    let error = job.details.error.as_ref().unwrap();
    assert_eq!((error.code.as_deref(), error.category), (Some("poison"), Category::System));
}

/// Model: counters-and-fences, crashes-and-poison. A job that was lost before it started is charged with nothing, but its next claim counts as a start at once. So does
/// that of a job that crashed.
#[test]
fn a_job_that_may_have_brought_its_worker_down_is_not_claimed_ahead_again() {
    let ahead = || {
        let JobEvent::Claim { worker, generation, random } = claim() else { unreachable!() };
        JobEvent::ClaimAhead { worker, generation, random }
    };
    let lost = |is_crash| JobEvent::LeaseExpired { random: 0.0, is_crash };
    let held = applied(&job(), &ahead(), at(1));
    assert!(job().may_be_claimed_ahead() && held.has.claim_ahead && held.attempt == 0);
    for (event, may_be) in [(JobEvent::Release, true), (lost(false), true), (lost(true), false)] {
        let Change { job: back, attempt } = change(&held, &event, at(2));
        assert_eq!(attempt, None, "none has started: {event:?}");
        assert_eq!((back.state, back.attempt, back.failures, back.crashes), (JobState::Scheduled, 0, 0, 0));
        assert_eq!((back.has.claim_ahead, back.may_be_claimed_ahead()), (false, may_be), "{event:?}");
    }
    for event in [suspend(SuspendMode::Aggressive), cancel(), JobEvent::Expire] {
        assert_eq!(change(&held, &event, at(2)).attempt, None, "none has started: {event:?}");
        assert!(change(&running(), &event, at(2)).attempt.is_some(), "one has: {event:?}");
    }
    assert!(!applied(&running(), &lost(true), at(2)).may_be_claimed_ahead());
}

/// Model: crashes-and-poison. A crash that may not be retried fails the job, but the third is still poison.
#[test]
fn crashes_count_when_they_are_not_retried() {
    let policy = RetryPolicy { retry_on: vec![], ..patient() };
    let failed = applied(
        &under(running(), policy.clone()),
        &JobEvent::LeaseExpired { random: 0.0, is_crash: true },
        at(1),
    );
    assert_eq!((failed.state, failed.crashes, failed.failures), (JobState::Failed, 1, 0));
    let third = with(under(running(), policy), |job| job.crashes = 2);
    assert_eq!(applied(&third, &fail(Category::System), at(1)).state, JobState::DeadLetter);
}

/// Model: crashes-and-poison. Suspension, drain and parking are no failures; other failures are no crashes.
#[test]
fn what_is_no_failure_counts_as_none() {
    let wait = Wait::Timer { until: at(60) };
    for event in [suspend(SuspendMode::Aggressive), JobEvent::Release, JobEvent::Park { wait }] {
        let next = applied(&running(), &event, at(1));
        assert_eq!((next.attempt, next.failures, next.crashes), (1, 0, 0), "{event:?}");
        assert!(next.details.error.is_none(), "{event:?}");
    }
    for category in [Category::Temporary, Category::Timeout, Category::Permanent, Category::Cancelled] {
        assert_eq!(applied(&running(), &fail(category), at(1)).crashes, 0, "{category}");
    }
}

/// Model: error-categories. Temporary, timeout and system are retried by default, permanent and cancelled never.
#[test]
fn the_category_decides_whether_a_failure_is_retried() {
    let after = |category, retry_on: &[Category]| {
        let policy = RetryPolicy { retry_on: retry_on.to_vec(), ..patient() };
        applied(&under(running(), policy), &fail(category), at(1)).state
    };
    for category in [Category::Temporary, Category::Timeout, Category::System] {
        assert_eq!(after(category, &RetryPolicy::standard().retry_on), JobState::Retrying, "{category}");
    }
    for category in [Category::Permanent, Category::Cancelled] {
        assert_eq!(after(category, &Category::ALL), JobState::Failed, "{category}");
    }
    for category in [Category::Timeout, Category::System] {
        assert_eq!(after(category, &[]), JobState::Failed, "{category}");
    }
    assert_eq!(after(Category::Temporary, &[]), JobState::Retrying);
}

/// Model: retry-after. `retry_after` replaces the backoff, and nothing is put off beyond the lifetime.
#[test]
fn a_worker_may_ask_for_its_own_delay_within_the_lifetime() {
    let ask = |delay| {
        let failure = Failure::temporary("busy").with_retry_after(delay);
        applied(&running(), &JobEvent::Fail { failure, random: 0.5 }, at(1))
    };
    let later = ask(HOUR);
    assert_eq!((later.state, later.retry_at), (JobState::Retrying, Some(at(1).plus(HOUR))));
    assert_eq!(later.details.error.as_ref().unwrap().retry_after, Some(HOUR));
    assert_eq!(ask(Duration::ZERO).retry_at, Some(at(1)));
    let capped = ask(Duration::MAX);
    assert_eq!(capped.retry_at, Some(capped.expires_at));
    let backoff = applied(&running(), &fail(Category::Temporary), at(1));
    assert_eq!(backoff.retry_at, Some(at(2)));
}

/// Model: error-record. The error tells when and in which attempt, stays through the next attempt, and is cleared on success.
#[test]
fn an_error_is_kept_until_a_success() {
    let failed = applied(&running(), &fail(Category::Timeout), at(1));
    let error = failed.details.error.clone().unwrap();
    assert_eq!((error.category, error.at, error.attempt), (Category::Timeout, at(1), 1));
    assert_eq!((error.message.as_str(), error.error_type()), ("it broke", "RETRYABLE"));
    let again = applied(&applied(&failed, &JobEvent::Due, at(2)), &claim(), at(3));
    assert_eq!(again.details.error.as_ref(), Some(&error));
    assert_eq!(applied(&again, &JobEvent::Succeed, at(4)).details.error, None);
    let ended = applied(&again, &fail(Category::Permanent), at(4));
    assert_eq!(ended.details.error.as_ref().map(ErrorRecord::error_type), Some("TERMINAL"));
}

/// Model: attempt-records. Each way an attempt can end has its own name.
#[test]
fn the_end_of_an_attempt_is_named() {
    let wait = Wait::Children { group: 1 };
    for (event, outcome) in [
        (JobEvent::Succeed, AttemptOutcome::Completed),
        (fail(Category::Temporary), AttemptOutcome::Failed),
        (fail(Category::Timeout), AttemptOutcome::TimedOut),
        (JobEvent::LeaseExpired { random: 0.0, is_crash: true }, AttemptOutcome::Lost),
        (JobEvent::Release, AttemptOutcome::Released),
        (JobEvent::Park { wait }, AttemptOutcome::Parked),
        (suspend(SuspendMode::Aggressive), AttemptOutcome::Suspended),
        (cancel(), AttemptOutcome::Cancelled),
        (JobEvent::Expire, AttemptOutcome::Expired),
    ] {
        assert_eq!(change(&running(), &event, at(1)).attempt, Some(outcome), "{event:?}");
    }
}

/// Model: claim-order. The place in the order is that of the first time the job could have been claimed.
#[test]
fn a_job_keeps_the_place_of_the_first_time_it_was_eligible() {
    let delayed = with(idle(JobState::Delayed), |job| job.run_at = at(10));
    // Promoted late: it has been eligible since it was due.
    let due = applied(&delayed, &JobEvent::Due, at(15));
    assert_eq!((due.eligible_at, due.scheduled_at), (Some(at(10)), Some(at(15))));
    let failed = applied(&applied(&due, &claim(), at(20)), &fail(Category::Temporary), at(30));
    let again = applied(&failed, &JobEvent::Due, at(40));
    assert_eq!((again.eligible_at, again.scheduled_at), (Some(at(10)), Some(at(40))));
    let held = applied(&again, &suspend(SuspendMode::IdleOnly), at(50));
    assert_eq!(applied(&held, &JobEvent::Resume, at(60)).eligible_at, Some(at(10)));
}

/// Model: execution-timeout, leases-and-heartbeats. A claim grants a lease and a deadline of its own.
#[test]
fn a_claim_grants_lease_and_deadline() {
    let lease = running().lease.unwrap();
    assert_eq!(lease.worker, worker());
    assert_eq!((lease.expires_at, lease.deadline_at), (start().plus(MINUTE * 5), start().plus(MINUTE * 30)));
}

/// Model: result-cost-and-progress. Progress is that of the running attempt.
#[test]
fn a_new_attempt_starts_without_progress() {
    let scheduled = with(job(), |job| {
        job.details_mut().progress = Some(Progress { percent: 90.0, message: None });
    });
    assert_eq!(applied(&scheduled, &claim(), at(1)).details.progress, None);
}

/// Model: dependencies. `after` waits for all, `after_any` for one that ended well or badly, and both must be met.
#[test]
fn a_pending_job_continues_when_all_its_needs_are_met() {
    let ended = |need, state| JobEvent::DependencyEnded { need, state };
    let pending = with(idle(JobState::Pending), |job| (job.after_unmet, job.any_unmet) = (2, true));
    let one = applied(&pending, &ended(Need::After, JobState::Completed), at(1));
    let any = applied(&one, &ended(Need::AfterAny, JobState::Failed), at(2));
    assert_eq!((one.state, any.state, any.after_unmet), (JobState::Pending, JobState::Pending, 1));
    let met = applied(&any, &ended(Need::After, JobState::Completed), at(3));
    assert_eq!((met.state, met.eligible_at), (JobState::Scheduled, Some(at(3))));
    let later = with(any, |job| job.run_at = at(60));
    assert_eq!(applied(&later, &ended(Need::After, JobState::Completed), at(3)).state, JobState::Delayed);
}

/// Model: failed-dependencies. A dependency that ends badly ends its dependents the same way.
#[test]
fn a_dependent_ends_as_its_dependency_did() {
    for state in [JobState::Failed, JobState::DeadLetter, JobState::Cancelled] {
        for waiting in [JobState::Pending, JobState::Created, JobState::Suspended] {
            let dependent = with(idle(waiting), |job| job.after_unmet = 1);
            let event = JobEvent::DependencyEnded { need: Need::After, state };
            let ended = applied(&dependent, &event, at(1));
            assert_eq!((ended.state, ended.completed_at), (state, Some(at(1))), "{waiting}");
            assert_eq!(ended.details.error.as_ref().unwrap().code.as_deref(), Some("dependency_failed"));
        }
    }
}

/// Model: tickets. A job that must not run fails with the reason given, without an attempt.
#[test]
fn a_refused_job_fails_without_having_run() {
    let event = JobEvent::Refuse { failure: Failure::permanent("ticket_expired", "too old") };
    let failed = applied(&job(), &event, at(1));
    assert_eq!((failed.state, failed.attempt), (JobState::Failed, 0));
    assert_eq!(failed.details.error.as_ref().unwrap().code.as_deref(), Some("ticket_expired"));
}

/// Model: inherited-priority. A job is as urgent as the most urgent one it waits for.
#[test]
fn the_effective_priority_is_the_higher_of_own_and_inherited() {
    let urgent = with(job(), |job| job.inherited = Priority::HIGH);
    assert_eq!((job().effective_priority(), urgent.effective_priority()), (Priority::NORMAL, Priority::HIGH));
}

/// Model: dependencies. A job whose time has come with its last dependency is ready, not put off.
#[test]
fn a_job_is_ready_at_its_time_and_not_a_moment_later() {
    let completed = JobEvent::DependencyEnded { need: Need::After, state: JobState::Completed };
    for (run_at, expected) in [(9, JobState::Scheduled), (10, JobState::Scheduled), (11, JobState::Delayed)] {
        let pending = with(idle(JobState::Pending), |job| (job.after_unmet, job.run_at) = (1, at(run_at)));
        assert_eq!(applied(&pending, &completed, at(10)).state, expected, "{run_at}");
    }
}

/// Model: failed-dependencies, error-categories. A dependent ends as its dependency did, and its error says so.
#[test]
fn a_dependent_fails_in_the_category_of_its_dependency() {
    for (state, category) in [
        (JobState::Failed, Category::Permanent),
        (JobState::DeadLetter, Category::Permanent),
        (JobState::Cancelled, Category::Cancelled),
    ] {
        let pending = with(idle(JobState::Pending), |job| job.after_unmet = 1);
        let ended = applied(&pending, &JobEvent::DependencyEnded { need: Need::After, state }, at(1));
        let error = ended.details.error.as_ref().unwrap();
        assert_eq!((ended.state, error.category), (state, category));
        assert_eq!(error.code.as_deref(), Some("dependency_failed"));
    }
}

/// Model: final-states. Whatever a job waited for or was asked to do is over with it.
#[test]
fn a_job_that_has_ended_keeps_nothing_of_what_was_left() {
    let leftovers: [fn(&mut RareFields); 5] = [
        |details| details.wait = Some(Wait::Children { group: 1 }),
        |details| details.suspension = Some(suspension()),
        |details| details.suspend_requested = Some(suspension()),
        |details| details.is_held = true,
        |_| (),
    ];
    for leave in leftovers {
        let job = with(running(), |job| leave(job.details_mut()));
        let ended = applied(&job, &JobEvent::Succeed, at(1));
        assert_eq!((ended.state, &*ended.details), (JobState::Completed, &RareFields::default()));
    }
}
