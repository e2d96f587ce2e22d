//! Retry delays: the formulas, and that no input whatever takes them out of bounds.

use proptest::prelude::{Just, any, prop_assert, prop_assert_eq, prop_compose, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;

use super::*;
use crate::limits;

const SECOND: Duration = Duration::from_secs(1);

fn policy(strategy: Strategy) -> RetryPolicy {
    RetryPolicy { strategy, jitter: 0.0, ..RetryPolicy::standard() }
}

fn delays(policy: &RetryPolicy) -> Vec<u64> {
    (1..=5).map(|failures| policy.delay(failures, 0.5).as_secs()).collect()
}

/// Model: retry-defaults, retry-presets. The presets, exactly.
#[test]
fn the_presets_are_those_of_the_model() {
    let standard = RetryPolicy {
        strategy: Strategy::Exponential,
        initial_delay: SECOND,
        max_delay: HOUR,
        multiplier: 2.0,
        jitter: 0.1,
        jitter_mode: JitterMode::Random,
        max_attempts: 3,
        retry_on: vec![Category::Timeout, Category::System],
    };
    assert_eq!(RetryPolicy::default(), standard);
    assert_eq!(RetryPolicy::preset("standard"), Ok(standard.clone()));
    let fixed = RetryPolicy::preset("fixed").unwrap();
    assert_eq!((fixed.strategy, fixed.max_retries(), delays(&fixed)), (Strategy::Constant, 3, vec![1; 5]));
    let backoff = RetryPolicy::preset("backoff").unwrap();
    assert_eq!((backoff.strategy, backoff.max_retries()), (Strategy::Exponential, 3));
    assert_eq!(delays(&backoff), [10, 20, 40, 80, 160]);
    assert!(fixed.jitter == 0.0 && backoff.jitter == 0.0);
    for preset in [standard, fixed, backoff] {
        assert_eq!(preset.check(), Ok(()));
    }
    assert_eq!(RetryPolicy::preset("never").unwrap_err().field, "retry.preset");
    let custom = RetryPolicy { strategy: Strategy::Custom, ..RetryPolicy::standard() };
    assert_eq!(RetryPolicy::custom(), custom);
    assert_eq!(RetryPolicy::custom().attempts(7), RetryPolicy { max_attempts: 7, ..custom });
}

/// Model: backoff. Constant, linear and exponential delays, capped; custom without a word from the worker is exponential.
#[test]
fn each_strategy_has_its_formula() {
    assert_eq!(delays(&policy(Strategy::Constant)), [1, 1, 1, 1, 1]);
    assert_eq!(delays(&policy(Strategy::Linear)), [1, 2, 3, 4, 5]);
    assert_eq!(delays(&policy(Strategy::Exponential)), [1, 2, 4, 8, 16]);
    assert_eq!(delays(&policy(Strategy::Custom)), [1, 2, 4, 8, 16]);
    let capped = RetryPolicy { max_delay: SECOND * 3, ..policy(Strategy::Exponential) };
    assert_eq!(delays(&capped), [1, 2, 3, 3, 3]);
    assert_eq!(policy(Strategy::Linear).delay(0, 0.5), SECOND, "the first failure is the least there is");
}

/// Model: backoff. No delay at all stays none, even where the factor has left the numbers.
#[test]
fn a_delay_of_nothing_never_grows() {
    let none = RetryPolicy { initial_delay: Duration::ZERO, ..policy(Strategy::Exponential) };
    assert_eq!([1, 100, u32::MAX].map(|failures| none.delay(failures, 0.5)), [Duration::ZERO; 3]);
}

/// Model: retry-defaults. ±10 % by default, from the random number alone.
#[test]
fn jitter_shortens_and_lengthens_by_its_share() {
    let standard = RetryPolicy::standard();
    let millis = |random| standard.delay(4, random).as_micros() / 1000;
    assert_eq!((millis(0.0), millis(0.5)), (7200, 8000));
    assert!((8799..=8800).contains(&millis(0.999_999_9)));
}

fn strategies() -> impl Generator<Value = Strategy> {
    prop_oneof![
        Just(Strategy::Constant),
        Just(Strategy::Linear),
        Just(Strategy::Exponential),
        Just(Strategy::Custom)
    ]
}

fn durations() -> impl Generator<Value = Duration> {
    let nanos = u64::try_from(limits::DURATION_MAX.as_nanos()).unwrap();
    prop_oneof![
        Just(Duration::ZERO),
        Just(limits::DURATION_MAX),
        (0..=nanos).prop_map(Duration::from_nanos),
        (0..=10_000_u64).prop_map(Duration::from_millis),
    ]
}

prop_compose! {
    /// Any policy, also with multipliers far beyond what is accepted.
    fn policies()(
        strategy in strategies(),
        initial_delay in durations(),
        max_delay in durations(),
        multiplier in prop_oneof![Just(1.0), 1.0..=1000.0, Just(f64::MAX), Just(f64::INFINITY)],
        jitter in prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0],
        max_attempts in 1..=limits::ATTEMPTS_MAX,
    ) -> RetryPolicy {
        let standard = RetryPolicy::standard();
        RetryPolicy { strategy, initial_delay, max_delay, multiplier, jitter, max_attempts, ..standard }
    }
}

fn failures() -> impl Generator<Value = u32> {
    prop_oneof![Just(0), Just(u32::MAX), 1..=100_u32, any::<u32>()]
}

proptest! {
    /// Model: backoff. Never longer than the longest, never negative, never a panic.
    #[test]
    fn a_delay_is_within_its_bounds(
        policy in policies(), failures in failures(), random in 0.0..1.0_f64,
    ) {
        let delay = policy.delay(failures, random);
        prop_assert!(delay <= policy.max_delay, "{delay:?}");
        prop_assert!(at(0).plus(delay) >= at(0));
    }

    /// Model: retry-defaults. The jitter moves a delay by at most its share.
    #[test]
    fn a_delay_is_within_its_jitter(
        policy in policies(), failures in failures(), random in 0.0..1.0_f64,
    ) {
        let plain = RetryPolicy { jitter: 0.0, ..policy.clone() }.delay(failures, random).as_secs_f64();
        let jittered = policy.delay(failures, random).as_secs_f64();
        let slack = plain * 1e-9 + 1e-8;
        prop_assert!(jittered >= plain * (1.0 - policy.jitter) - slack, "{jittered} from {plain}");
        prop_assert!(jittered <= plain * (1.0 + policy.jitter) + slack, "{jittered} from {plain}");
    }

    /// Model: backoff. Without jitter a later failure never waits for less.
    #[test]
    fn a_delay_never_shrinks_without_jitter(
        policy in policies(), failures in failures(), random in 0.0..1.0_f64,
    ) {
        let policy = RetryPolicy { jitter: 0.0, ..policy };
        prop_assert!(policy.delay(failures, random) <= policy.delay(failures.saturating_add(1), random));
    }

    /// Model: backoff, retry-after. The end of a backoff is never in the past and never after the lifetime.
    #[test]
    fn a_backoff_ends_between_now_and_the_lifetime(
        policy in policies(), failures in 0..200_u32, random in 0.0..1.0_f64, now in 0..(7 * 24 * 3600_u64),
    ) {
        let job = with(under(running(), policy), |job| job.failures = failures);
        let event = JobEvent::Fail { failure: Failure::temporary("busy"), random };
        let next = applied(&job, &event, at(now));
        if let Some(retry_at) = next.retry_at {
            prop_assert!(at(now) <= retry_at && retry_at <= job.expires_at);
        } else {
            prop_assert_eq!(next.state, JobState::DeadLetter);
        }
    }
}

/// The vectors of the documentation: SHA-256 over `JOB-ID:ATTEMPT`, its first 13 hexadecimal digits over 16^13.
#[test]
fn hashed_jitter_follows_from_the_job_and_the_attempt() {
    let hashed = RetryPolicy { jitter_mode: JitterMode::Hashed, ..RetryPolicy::standard() };
    let id: JobId = "018bcfe5-6800-4000-8000-00000000002a".parse().unwrap();
    for (attempt, digits) in [(1, 0x3_09cf_b97e_3252_u64), (2, 0xa_afc3_2614_fe64)] {
        #[allow(clippy::cast_precision_loss, reason = "52 bits fit a float")]
        let expected = digits as f64 / (1_u64 << 52) as f64;
        for random in [0.0, 0.3, 0.999] {
            assert_eq!(hashed.fraction(id, attempt, random).to_bits(), expected.to_bits(), "{attempt}");
        }
    }
    assert_eq!(RetryPolicy::standard().fraction(id, 1, 0.3).to_bits(), 0.3_f64.to_bits());
}

/// A retry time can be computed again from what a job shows: policy, id, attempt, failures and the error's time.
#[test]
fn a_hashed_retry_time_is_the_same_whatever_was_drawn() {
    let hashed = RetryPolicy { jitter: 1.0, jitter_mode: JitterMode::Hashed, ..patient() };
    let job = under(running(), hashed.clone());
    let retried = |random: f64| {
        let failure = Failure::temporary("no");
        applied(&job, &JobEvent::Fail { failure, random }, at(1)).retry_at.unwrap()
    };
    let expected = at(1).plus(hashed.delay(1, hashed.fraction(job.id, 1, 0.0)));
    assert_eq!((retried(0.0), retried(0.9)), (expected, expected));
    let lost = applied(&job, &JobEvent::LeaseExpired { random: 0.7, is_crash: true }, at(1));
    assert_eq!(lost.retry_at, Some(expected));
}
