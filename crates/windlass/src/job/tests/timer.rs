//! What time alone does, and which of two things that are due comes first.

use super::*;
use crate::job::timer;

fn expired() -> Timestamp {
    start().plus(LIFETIME)
}

/// The name of what time brings now.
fn action(job: &Job, now: Timestamp) -> Option<Action> {
    timer(job, now, 0.5).map(|event| event.action())
}

/// A running job with these ends of lease, deadline and lifetime, in seconds.
fn leased(lease: u64, deadline: u64, lifetime: u64) -> Job {
    with(running(), |job| {
        let times = Lease { worker: worker(), expires_at: at(lease), deadline_at: at(deadline) };
        (job.lease, job.expires_at) = (Some(times), at(lifetime));
    })
}

/// M35: nothing happens before its moment, and everything at it.
#[test]
fn a_timer_fires_at_its_moment_and_not_before() {
    let delayed = with(idle(State::Delayed), |job| job.run_at = at(10));
    let retrying = applied(&under(running(), patient()), &fail(Category::Temporary), at(0));
    let parked = applied(&running(), &Event::Park { wait: Wait::Timer { until: at(10) } }, at(1));
    for (job, expected) in [
        (delayed, Action::Due),
        (retrying, Action::Due),
        (parked, Action::Wake),
        (leased(10, 20, 30), Action::LeaseExpired),
        (leased(20, 10, 30), Action::Fail),
        (leased(30, 20, 10), Action::Expire),
    ] {
        assert_eq!(acts_at(&job), Some(at(10)), "{expected}");
        assert_eq!(timer(&job, at(10).minus(Duration::from_millis(1)), 0.5), None, "{expected}");
        assert_eq!(action(&job, at(10)), Some(expected));
        assert_eq!(action(&job, at(15)), Some(expected));
    }
}

/// M30: at the deadline the attempt fails with category timeout.
#[test]
fn a_deadline_is_a_timeout() {
    let Some(Event::Fail { failure, random }) = timer(&leased(20, 10, 30), at(10), 0.25) else {
        panic!("no failure at the deadline")
    };
    assert_eq!((failure.category, random.to_bits()), (Category::Timeout, 0.25_f64.to_bits()));
}

/// M30, M31, M33: after a standstill of the store, of all that has passed the first counts.
#[test]
fn of_lease_deadline_and_lifetime_the_first_counts_however_late_it_is_seen() {
    let late = at(1000);
    assert_eq!(action(&leased(10, 20, 30), late), Some(Action::LeaseExpired));
    assert_eq!(action(&leased(20, 10, 30), late), Some(Action::Fail));
    assert_eq!(action(&leased(20, 30, 10), late), Some(Action::Expire));
    assert_eq!(action(&leased(10, 30, 20), late), Some(Action::LeaseExpired));
    // At the same moment: the deadline before the lease, both before the lifetime.
    assert_eq!(action(&leased(10, 10, 30), late), Some(Action::Fail));
    assert_eq!(action(&leased(10, 10, 10), late), Some(Action::Fail));
    assert_eq!(action(&leased(10, 20, 10), late), Some(Action::LeaseExpired));
}

/// M33: a job that could only run when its lifetime is over does not run.
#[test]
fn a_lifetime_that_ends_with_the_delay_wins() {
    let delayed = with(idle(State::Delayed), |job| job.run_at = expired());
    assert_eq!((acts_at(&delayed), action(&delayed, expired())), (Some(expired()), Some(Action::Expire)));
    let wait = Wait::Signal { name: "go".into(), step: "go".into(), until: Some(expired()) };
    let parked = applied(&running(), &Event::Park { wait }, at(1));
    assert_eq!(action(&parked, expired()), Some(Action::Expire));
}

/// M33: every state but suspended and the final ones ends with the lifetime.
#[test]
fn a_lifetime_ends_every_job_that_is_not_suspended_or_final() {
    for state in State::ALL {
        let job = with(idle(state), |job| job.run_at = expired().plus(HOUR));
        let ends = !state.is_final() && state != State::Suspended;
        assert_eq!(action(&job, expired()), ends.then_some(Action::Expire), "{state}");
        assert_eq!(acts_at(&job), ends.then_some(expired()), "{state}");
        if ends {
            let dead = applied(&job, &Event::Expire, expired());
            let code = dead.details.error.as_ref().and_then(|error| error.code.as_deref());
            assert_eq!((dead.state, code), (State::DeadLetter, Some("lifetime_exceeded")));
        }
    }
}

/// M64, M72: waiting for children or for a signal without a limit ends only with the lifetime.
#[test]
fn a_wait_without_a_limit_acts_with_the_lifetime() {
    for wait in
        [Wait::Children { group: 1 }, Wait::Signal { name: "go".into(), step: "go".into(), until: None }]
    {
        let parked = applied(&running(), &Event::Park { wait }, at(1));
        assert_eq!(acts_at(&parked), Some(expired()));
    }
}

/// M4: whatever time brings, the state machine takes it.
#[test]
fn what_a_timer_brings_is_always_allowed() {
    for state in State::ALL {
        let job = idle(state);
        let job = if state == State::Running { running() } else { job };
        for now in [start(), at(60), at(3600), expired(), Timestamp::MAX] {
            if let Some(event) = timer(&job, now, 0.5) {
                assert!(matches!(transition(&job, &event, now), Ok(Transition::Changed(_))), "{state}");
            }
        }
    }
}
