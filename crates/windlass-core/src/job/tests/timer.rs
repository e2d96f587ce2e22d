//! What time alone does, and which of two things that are due comes first.

use super::*;
use crate::clock::Leap;
use crate::job::{spared, timer};

fn expired() -> Timestamp {
    start().plus(LIFETIME)
}

/// The name of what time brings now.
fn action(job: &JobRecord, now: Timestamp) -> Option<JobAction> {
    timer(job, now, &Grace::default(), 0.5).map(|event| event.action())
}

/// A running job with these ends of lease, deadline and lifetime, in seconds.
fn leased(lease: u64, deadline: u64, lifetime: u64) -> JobRecord {
    with(running(), |job| {
        let times = Lease { worker: worker(), expires_at: at(lease), deadline_at: at(deadline) };
        (job.lease, job.expires_at) = (Some(times), at(lifetime));
    })
}

/// Model: timer-precision. Nothing happens before its moment, and everything at it.
#[test]
fn a_timer_fires_at_its_moment_and_not_before() {
    let delayed = with(idle(JobState::Delayed), |job| job.run_at = at(10));
    let retrying = applied(&under(running(), patient()), &fail(Category::Temporary), at(0));
    let parked = applied(&running(), &JobEvent::Park { wait: Wait::Timer { until: at(10) } }, at(1));
    for (job, expected) in [
        (delayed, JobAction::Due),
        (retrying, JobAction::Due),
        (parked, JobAction::Wake),
        (leased(10, 20, 30), JobAction::LeaseExpired),
        (leased(20, 10, 30), JobAction::Fail),
        (leased(30, 20, 10), JobAction::Expire),
    ] {
        assert_eq!(acts_at(&job), Some(at(10)), "{expected}");
        assert_eq!(
            timer(&job, at(10).minus(Duration::from_millis(1)), &Grace::default(), 0.5),
            None,
            "{expected}"
        );
        assert_eq!(action(&job, at(10)), Some(expected));
        assert_eq!(action(&job, at(15)), Some(expected));
    }
}

/// Model: execution-timeout. At the deadline the attempt fails with category timeout.
#[test]
fn a_deadline_is_a_timeout() {
    let Some(JobEvent::Fail { failure, random }) =
        timer(&leased(20, 10, 30), at(10), &Grace::default(), 0.25)
    else {
        panic!("no failure at the deadline")
    };
    assert_eq!((failure.category, random.to_bits()), (Category::Timeout, 0.25_f64.to_bits()));
}

/// Model: execution-timeout, leases-and-heartbeats, lifetime. After a standstill of the store, of all that has passed the first counts.
#[test]
fn of_lease_deadline_and_lifetime_the_first_counts_however_late_it_is_seen() {
    let late = at(1000);
    assert_eq!(action(&leased(10, 20, 30), late), Some(JobAction::LeaseExpired));
    assert_eq!(action(&leased(20, 10, 30), late), Some(JobAction::Fail));
    assert_eq!(action(&leased(20, 30, 10), late), Some(JobAction::Expire));
    assert_eq!(action(&leased(10, 30, 20), late), Some(JobAction::LeaseExpired));
    // At the same moment: the deadline before the lease, both before the lifetime.
    assert_eq!(action(&leased(10, 10, 30), late), Some(JobAction::Fail));
    assert_eq!(action(&leased(10, 10, 10), late), Some(JobAction::Fail));
    assert_eq!(action(&leased(10, 20, 10), late), Some(JobAction::LeaseExpired));
}

/// Model: lifetime. A job that could only run when its lifetime is over does not run.
#[test]
fn a_lifetime_that_ends_with_the_delay_wins() {
    let delayed = with(idle(JobState::Delayed), |job| job.run_at = expired());
    assert_eq!((acts_at(&delayed), action(&delayed, expired())), (Some(expired()), Some(JobAction::Expire)));
    let wait = Wait::Signal { name: "go".into(), step: "go".into(), until: Some(expired()) };
    let parked = applied(&running(), &JobEvent::Park { wait }, at(1));
    assert_eq!(action(&parked, expired()), Some(JobAction::Expire));
}

/// Model: lifetime. Every state but suspended and the final ones ends with the lifetime.
#[test]
fn a_lifetime_ends_every_job_that_is_not_suspended_or_final() {
    for state in JobState::ALL {
        let job = with(idle(state), |job| job.run_at = expired().plus(HOUR));
        let ends = !state.is_final() && state != JobState::Suspended;
        assert_eq!(action(&job, expired()), ends.then_some(JobAction::Expire), "{state}");
        assert_eq!(acts_at(&job), ends.then_some(expired()), "{state}");
        if ends {
            let dead = applied(&job, &JobEvent::Expire, expired());
            let code = dead.details.error.as_ref().and_then(|error| error.code.as_deref());
            assert_eq!((dead.state, code), (JobState::DeadLetter, Some("lifetime_exceeded")));
        }
    }
}

/// Model: child-groups, sleeps-and-signals. Waiting for children or for a signal without a limit ends only with the lifetime.
#[test]
fn a_wait_without_a_limit_acts_with_the_lifetime() {
    for wait in
        [Wait::Children { group: 1 }, Wait::Signal { name: "go".into(), step: "go".into(), until: None }]
    {
        let parked = applied(&running(), &JobEvent::Park { wait }, at(1));
        assert_eq!(acts_at(&parked), Some(expired()));
    }
}

/// Model: one-state-machine. Whatever time brings, the state machine takes it.
#[test]
fn what_a_timer_brings_is_always_allowed() {
    for state in JobState::ALL {
        let job = idle(state);
        let job = if state == JobState::Running { running() } else { job };
        for now in [start(), at(60), at(3600), expired(), Timestamp::MAX] {
            if let Some(event) = timer(&job, now, &Grace::default(), 0.5) {
                assert!(matches!(transition(&job, &event, now), Ok(Transition::Changed(_))), "{state}");
            }
        }
    }
}

/// A claimable job that may wait so many seconds for its first start.
fn to_start_within(seconds: u64) -> JobRecord {
    let start = Some(Duration::from_secs(seconds));
    let timeouts = Timeouts { start, ..Timeouts::default() };
    with(job(), |job| job.policy = Arc::new(Policy { timeouts, ..Policy::default() }))
}

/// A job that is not started in time fails for lack of resources, before its lifetime ends.
#[test]
fn a_job_that_is_not_started_in_time_fails() {
    let job = to_start_within(60);
    assert_eq!((acts_at(&job), job.start_by()), (Some(at(60)), Some(at(60))));
    let grace = Grace::default();
    assert_eq!(timer(&job, at(59), &grace, 0.5), None);
    let event = timer(&job, at(60), &grace, 0.5).unwrap();
    let failed = applied(&job, &event, at(61));
    let error = failed.details.error.as_ref().unwrap();
    assert_eq!((failed.state, failed.attempt, failed.failures), (JobState::Failed, 0, 0));
    assert_eq!(
        (error.category, error.code.as_deref()),
        (Category::Resource, Some("start_deadline_exceeded"))
    );
    for lifetime in [30, 60] {
        let short_lived = with(job.clone(), |job| job.expires_at = at(lifetime));
        assert_eq!(action(&short_lived, at(100)), Some(JobAction::Expire));
    }
}

/// The limit is for the first start alone, and counts from when the job can be claimed.
#[test]
fn a_start_limit_counts_from_when_a_job_can_be_claimed_until_its_first_start() {
    let job = to_start_within(60);
    let delayed = with(job.clone(), |job| {
        (job.state, job.run_at) = (JobState::Delayed, at(1_000));
        (job.eligible_at, job.scheduled_at) = (None, None);
    });
    assert_eq!(delayed.start_by(), None);
    assert_eq!(applied(&delayed, &JobEvent::Due, at(1_001)).start_by(), Some(at(1_061)));
    let held = applied(&job, &suspend(SuspendMode::IdleOnly), at(10));
    assert_eq!((held.start_by(), acts_at(&held)), (None, None));
    assert_eq!(applied(&held, &JobEvent::Resume, at(500)).start_by(), Some(at(560)));
    let running = applied(&job, &claim(), at(10));
    let retrying = applied(&running, &fail(Category::Temporary), at(20));
    let again = applied(&retrying, &JobEvent::Due, at(30));
    assert_eq!((running.start_by(), again.start_by()), (None, None));
    assert_eq!(acts_at(&again), Some(expired()));
}

/// Model: store-time, leases-and-heartbeats. A lease from before a gap ends only after its worker had the time to report; that it is lost then is not a crash.
#[test]
fn a_gap_of_the_store_keeps_leases_from_before_it() {
    let grace = Grace { served_since: at(100), ..Grace::default() };
    let job = with(leased(10, 900, 900), |job| job.started_at = Some(at(1)));
    let kept = spared(&job, at(101), &grace).expect("it is kept");
    assert_eq!(kept.lease.map(|lease| lease.expires_at), Some(grace.leases_until()));
    assert_eq!(spared(&kept, at(102), &grace), None);
    let end = grace.leases_until();
    assert_eq!(timer(&kept, end, &grace, 0.5), Some(JobEvent::LeaseExpired { random: 0.5, is_crash: false }));
    assert_eq!((spared(&kept, end, &grace), spared(&job, end, &grace)), (None, None), "once only");
    let first = with(leased(110, 900, 900), |job| job.started_at = Some(at(100)));
    assert_eq!(spared(&first, at(111), &grace), None, "it was given when the gap was over");
    let younger = with(leased(110, 900, 900), |job| job.started_at = Some(at(105)));
    assert_eq!(spared(&younger, at(111), &grace), None, "it was given after the gap");
    assert_eq!(
        timer(&younger, at(111), &grace, 0.5),
        Some(JobEvent::LeaseExpired { random: 0.5, is_crash: true })
    );
}

/// Model: crashes-and-poison, store-time. A job that is lost because its store was away is not nearer to being poison.
#[test]
fn a_loss_through_a_gap_is_not_a_crash() {
    let job = with(running(), |job| job.crashes = 2);
    let event = JobEvent::LeaseExpired { random: 0.5, is_crash: false };
    let next = applied(&job, &event, at(1));
    assert_eq!((next.state, next.crashes, next.failures), (JobState::Retrying, 2, 1));
}

/// Model: store-time, lifetime. While lifetimes wait nothing expires, and everything does afterwards.
#[test]
fn lifetimes_wait_after_a_jump() {
    let grace = Grace { lifetimes_from: at(500), ..Grace::default() };
    for state in [JobState::Created, JobState::Pending, JobState::Scheduled, JobState::Waiting] {
        let job = with(idle(state), |job| job.expires_at = at(10));
        let kept = spared(&job, at(20), &grace).expect("it is kept");
        assert_eq!((kept.expires_at, kept.state), (at(500), state));
        assert_eq!((spared(&kept, at(20), &grace), timer(&kept, at(20), &grace, 0.5)), (None, None));
        assert_eq!(timer(&kept, at(500), &grace, 0.5), Some(JobEvent::Expire));
        assert_eq!(spared(&job, at(500), &grace), None, "the wait is over");
    }
    let held = with(idle(JobState::Suspended), |job| job.expires_at = at(10));
    assert_eq!(spared(&held, at(20), &grace), None, "its lifetime stands still anyway");
}

/// Model: store-time. After a jump, a job's time to start waits as its lifetime does.
#[test]
fn a_start_limit_waits_after_a_jump() {
    let grace = Grace { lifetimes_from: at(500), ..Grace::default() };
    let job = to_start_within(60);
    assert_eq!(spared(&job, at(59), &grace), None);
    let kept = spared(&job, at(100), &grace).expect("it is kept");
    assert_eq!(kept.start_by(), Some(at(500)));
    assert_eq!((spared(&kept, at(100), &grace), timer(&kept, at(100), &grace, 0.5)), (None, None));
    assert!(timer(&kept, at(500), &grace, 0.5).is_some());
    assert_eq!(spared(&job, at(500), &grace), None, "the wait is over");
}

/// Model: store-time. Time that the store's clock skipped counts neither as running nor as waiting to be started, and is added once.
#[test]
fn time_that_was_skipped_is_added_to_deadlines_once() {
    let leap = Leap { from: at(100), to: at(7_300) };
    let grace = Grace { leap, ..Grace::default() };
    // Half an hour to run, of which 100 s had passed.
    let job = leased(100_000, 1_800, 200_000);
    assert_eq!(spared(&job, at(1_799), &grace), None, "the deadline has not come yet");
    let kept = spared(&job, at(7_300), &grace).expect("it gets what it could not use");
    assert_eq!(kept.lease.map(|lease| lease.deadline_at), Some(at(9_000)));
    assert_eq!((timer(&kept, at(8_999), &grace, 0.5), spared(&kept, at(9_000), &grace)), (None, None));
    assert!(matches!(timer(&kept, at(9_000), &grace, 0.5), Some(JobEvent::Fail { .. })));
    let later = with(job, |job| job.started_at = Some(at(7_300)));
    assert_eq!(spared(&later, at(7_400), &grace), None, "it was started after the leap");
    assert_eq!(spared(&leased(100_000, 100, 200_000), at(7_300), &grace), None, "its time was over before");

    let waiting = spared(&to_start_within(600), at(7_300), &grace).expect("it gets what could not be used");
    assert_eq!(waiting.start_by(), Some(at(7_800)));
    assert_eq!(spared(&waiting, at(7_800), &grace), None);
    assert!(timer(&waiting, at(7_800), &grace, 0.5).is_some());
    for over in [60, 100] {
        assert_eq!(spared(&to_start_within(over), at(7_300), &grace), None, "its time was over before");
    }
}

/// Model: pending-suspension. A request to suspend a running job that ends before the attempt does is lifted at its end, before anything else.
#[test]
fn a_request_that_ends_before_the_attempt_is_lifted() {
    let requested = Suspension { expires_at: Some(at(10)), ..suspension() };
    let asked = with(leased(20, 30, 40), |job| job.details_mut().suspend_requested = Some(requested));
    assert_eq!((acts_at(&asked), action(&asked, at(9))), (Some(at(10)), None));
    for late in [10, 11, 1_000] {
        assert_eq!(action(&asked, at(late)), Some(JobAction::Resume));
    }
    let lifted = applied(&asked, &JobEvent::Resume, at(10));
    assert_eq!((lifted.state, acts_at(&lifted)), (JobState::Running, Some(at(20))));
    let longer = with(asked, |job| {
        job.details_mut().suspend_requested = Some(Suspension { expires_at: Some(at(25)), ..suspension() });
    });
    assert_eq!((acts_at(&longer), action(&longer, at(20))), (Some(at(20)), Some(JobAction::LeaseExpired)));
}
