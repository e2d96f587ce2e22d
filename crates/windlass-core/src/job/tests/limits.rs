//! Every limit of a submission, at its edge and one past it: the error names the field, the value and the limit.

use super::*;
use crate::error::{FieldError, FieldProblem};
use crate::limits::{ATTEMPTS_MAX, DURATION_MAX};

const PAST: Duration = Duration::from_nanos(1);

fn new_job() -> NewJob {
    NewJob::new(JobType::new("mail.send").unwrap(), Payload::json("{}"))
}

/// The result of checking a plain job with one change.
fn check_with(change: impl FnOnce(&mut NewJob)) -> Result<(), FieldError> {
    let mut new = new_job();
    change(&mut new);
    new.check()
}

fn too_long(field: &str, length: usize, limit: usize) -> Result<(), FieldError> {
    Err(FieldError::new(field, FieldProblem::TooLong { length, limit }))
}

fn out_of_range(field: &str, value: &str, min: &str, max: &str) -> Result<(), FieldError> {
    let (value, min, max) = (value.to_owned(), min.to_owned(), max.to_owned());
    Err(FieldError::new(field, FieldProblem::OutOfRange { value, min, max }))
}

fn over_a_century(field: &str, min: &str) -> Result<(), FieldError> {
    out_of_range(field, &format!("{:?}", DURATION_MAX + PAST), min, "100 years")
}

/// Model: idempotency-key, writable-fields. Texts of a job, each with its limit in characters, not bytes.
#[test]
fn a_text_may_be_as_long_as_its_limit_and_no_longer() {
    type Set = fn(&mut NewJob, String);
    let texts: [(&str, usize, Set); 10] = [
        ("content_type", 255, |new, text| new.payload = Payload::bytes("", &text)),
        ("idempotency_key", 256, |new, text| new.idempotency_key = Some(text)),
        ("unique_key", 256, |new, text| new.unique_key = Some(text)),
        ("concurrency_key", 256, |new, text| new.concurrency_key = Some(text)),
        ("name", 255, |new, text| new.name = Some(text)),
        ("traceparent", 256, |new, text| new.traceparent = Some(text)),
        ("tracestate", 512, |new, text| new.tracestate = Some(text)),
        ("baggage", 8192, |new, text| new.baggage = Some(text)),
        ("correlation_id", 256, |new, text| new.metadata.correlation_id = Some(text)),
        ("callback_url", 2048, |new, text| new.metadata.callback_url = Some(text)),
    ];
    for (field, limit, set) in texts {
        for letter in ["x", "ü"] {
            assert_eq!(check_with(|new| set(new, letter.repeat(limit))), Ok(()), "{field}");
            let past = check_with(|new| set(new, letter.repeat(limit + 1)));
            assert_eq!(past, too_long(field, limit + 1, limit));
        }
        let nul = check_with(|new| set(new, "a\0b".into())).unwrap_err();
        assert_eq!(
            (nul.field.as_str(), nul.problem.to_string().as_str()),
            (field, "contains a NUL character")
        );
    }
}

/// It becomes a header of a request to a webhook.
#[test]
fn a_content_type_has_no_control_characters() {
    let with =
        |letter: char| check_with(|new| new.payload = Payload::bytes("", &format!("text/{letter}plain")));
    for letter in (0_u8..=0xff).map(char::from) {
        let is_taken = with(letter).is_ok();
        assert_eq!(is_taken, !matches!(letter, '\0'..='\x1f' | '\x7f'..='\u{9f}'), "{letter:?}");
    }
    let refused = with('\n').unwrap_err();
    assert_eq!(refused.to_string(), "content_type: contains a control character");
}

/// Model: writable-fields. 64 tags, names of 1 to 64 characters, values of up to 256.
#[test]
fn tags_have_three_limits() {
    let tags = |tags: Vec<(String, String)>| check_with(|new| new.metadata.tags = tags.into_iter().collect());
    let many = |count| tags((0..count).map(|n| (format!("tag{n}"), String::new())).collect());
    assert_eq!(many(64), Ok(()));
    assert_eq!(many(65), too_long("tags", 65, 64));
    let one = |name: &str, value: &str| tags(vec![(name.into(), value.into())]);
    assert_eq!(one(&"n".repeat(64), &"v".repeat(256)), Ok(()));
    assert_eq!(one(&"n".repeat(65), ""), too_long("tags", 65, 64));
    assert_eq!(one("place", &"v".repeat(257)), too_long("tags.place", 257, 256));
    assert_eq!(one("", "v"), Err(FieldError::new("tags", FieldProblem::Missing)));
    assert_eq!(one("a\0", "v").unwrap_err().field, "tags");
    assert_eq!(one("place", "\0").unwrap_err().field, "tags.place");
}

/// Model: dependency-limits. 1000 dependencies of both kinds together.
#[test]
fn a_job_may_have_a_thousand_dependencies() {
    let with = |after: usize, any: usize| {
        check_with(|new| {
            new.after = vec![Dependency::Named("a".into()); after];
            new.after_any = vec![Dependency::Named("b".into()); any];
        })
    };
    assert_eq!((with(1000, 0), with(0, 1000), with(400, 600)), (Ok(()), Ok(()), Ok(())));
    assert_eq!(with(1001, 0), too_long("after", 1001, 1000));
    assert_eq!(with(400, 601), too_long("after", 1001, 1000));
}

/// Model: setting-levels. Durations of up to 100 years, and a delay or a time, not both.
#[test]
fn delays_and_windows_end_within_a_century() {
    assert_eq!(check_with(|new| new.delay = Some(DURATION_MAX)), Ok(()));
    assert_eq!(check_with(|new| new.delay = Some(DURATION_MAX + PAST)), over_a_century("delay", "0s"));
    assert_eq!(check_with(|new| new.idempotency_window = Some(DURATION_MAX)), Ok(()));
    let past = check_with(|new| new.idempotency_window = Some(DURATION_MAX + PAST));
    assert_eq!(past, over_a_century("idempotency_window", "0s"));
    assert_eq!(check_with(|new| new.run_at = Some(Timestamp::MAX)), Ok(()));
    let both = check_with(|new| (new.delay, new.run_at) = (Some(HOUR), Some(at(60)))).unwrap_err();
    assert_eq!(both.to_string(), "run_at: use `delay` or `run_at`, not both");
}

/// Model: execution-timeout, leases-and-heartbeats, lifetime, timer-precision. The shortest lease is 1 s, the other limits 1 ms.
#[test]
fn time_limits_have_a_shortest_and_a_longest() {
    type Set = fn(&mut NewJob, Duration);
    let (milli, second) = (Duration::from_millis(1), Duration::from_secs(1));
    let times: [(&str, Duration, Duration, &str, Set); 3] = [
        ("timeouts.execution", milli, second / 1001, "1ms", |new, time| new.execution_timeout = Some(time)),
        ("timeouts.lease", second, milli * 999, "1s", |new, time| new.lease_timeout = Some(time)),
        ("timeouts.lifetime", milli, Duration::ZERO, "1ms", |new, time| new.lifetime = Some(time)),
    ];
    for (field, min, below, min_text, set) in times {
        assert_eq!(check_with(|new| set(new, min)), Ok(()), "{field}");
        let short = check_with(|new| set(new, below));
        assert_eq!(short, out_of_range(field, &format!("{below:?}"), min_text, "100 years"));
        assert_eq!(check_with(|new| set(new, DURATION_MAX)), Ok(()), "{field}");
        assert_eq!(check_with(|new| set(new, DURATION_MAX + PAST)), over_a_century(field, min_text));
    }
    assert_eq!(Timeouts::default().check(), Ok(()));
}

/// Model: retry-defaults. 1 to 100 attempts, jitter 0 to 1, multiplier 1 to 1000.
#[test]
fn a_retry_policy_has_its_limits() {
    fn of(change: impl FnOnce(&mut RetryPolicy)) -> Result<(), FieldError> {
        let mut retry = RetryPolicy::standard();
        change(&mut retry);
        check_with(|new| new.retry = Some(retry))
    }
    for (attempts, is_fine) in [(0, false), (1, true), (ATTEMPTS_MAX, true), (101, false)] {
        let past = out_of_range("retry.max_attempts", &attempts.to_string(), "1", "100");
        let wanted = if is_fine { Ok(()) } else { past };
        assert_eq!(of(|retry| retry.max_attempts = attempts), wanted, "{attempts}");
    }
    for (jitter, is_fine) in [(0.0, true), (1.0, true), (-0.01, false), (1.01, false), (f64::NAN, false)] {
        let past = out_of_range("retry.jitter", &jitter.to_string(), "0", "1");
        assert_eq!(of(|retry| retry.jitter = jitter), if is_fine { Ok(()) } else { past });
    }
    for (factor, is_fine) in [(1.0, true), (1000.0, true), (0.99, false), (1000.1, false), (f64::NAN, false)]
    {
        let past = out_of_range("retry.multiplier", &factor.to_string(), "1", "1000");
        assert_eq!(of(|retry| retry.multiplier = factor), if is_fine { Ok(()) } else { past });
    }
    assert_eq!(of(|retry| (retry.initial_delay, retry.max_delay) = (DURATION_MAX, DURATION_MAX)), Ok(()));
    let past = DURATION_MAX + PAST;
    assert_eq!(of(|retry| retry.initial_delay = past), over_a_century("retry.initial_delay", "0s"));
    assert_eq!(of(|retry| retry.max_delay = past), over_a_century("retry.max_delay", "0s"));
}

/// Model: error-categories. Only categories that may be retried can be named.
#[test]
fn what_is_never_retried_cannot_be_asked_for() {
    let of = |category| RetryPolicy { retry_on: vec![category], ..RetryPolicy::standard() }.check();
    for category in [Category::Temporary, Category::Timeout, Category::System, Category::Resource] {
        assert_eq!(of(category), Ok(()));
    }
    for category in [Category::Permanent, Category::Cancelled] {
        let refused = of(category).unwrap_err();
        assert_eq!(refused.field, "retry.retry_on");
        assert!(refused.to_string().contains(category.as_str()), "{refused}");
    }
}

/// Model: setting-levels. A job's own time limits go over the others, each by itself.
#[test]
fn own_time_limits_replace_only_what_they_name() {
    let base = Timeouts::default();
    let new = NewJob { lease_timeout: Some(HOUR), ..new_job() };
    assert_eq!(new.timeouts_over(base), Timeouts { lease: HOUR, ..base });
    assert_eq!(new_job().timeouts_over(base), base);
}

/// Model: payload. What is shown of a payload is its size.
#[test]
fn a_payload_is_never_shown() {
    let shown = format!("{:?}", Payload::json(r#"{"secret":1}"#));
    assert_eq!(shown, "Payload(12 bytes of application/json)");
}

/// A claim that finds no token waits until the time that the bucket names: there is one then, and none before.
#[test]
fn a_token_is_there_when_it_was_announced_and_not_before() {
    for count in [3, 7, 11] {
        let empty = Bucket::full(Rate::new(count, Duration::from_secs(1)), at(0)).without(count);
        let next = empty.next_at();
        let before = next.minus(Duration::from_millis(1));
        assert_eq!((empty.at(next).tokens(), empty.at(before).tokens()), (1, 0), "{count} in a second");
    }
}
