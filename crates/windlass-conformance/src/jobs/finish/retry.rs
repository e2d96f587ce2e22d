//! When and how often a failed job runs again.

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::job::{
    AttemptOutcome, Category, Failure, JitterMode, JobState, JobType, NewJob, RetryPolicy, Strategy,
};
use windlass::settings::{QueueSettings, TypeSettings};
use windlass::store::{Finish, Settings, SubmitOptions};

use crate::fixture::{Fixture, MOMENT, just_under, new_job, queue, secs};

tests!(
    jobs_finish_retry, jobs::finish::retry:
    each_category_is_retried_or_not_as_its_policy_says,
    a_policy_that_retries_what_is_never_retried_is_refused,
    each_preset_waits_as_it_says_and_then_gives_up,
    each_strategy_grows_as_it_says_up_to_its_cap,
    jitter_stays_within_its_share,
    a_hashed_retry_time_can_be_computed_again,
    a_type_or_queue_may_name_its_preset,
    retry_after_replaces_the_backoff_but_not_the_lifetime,
    exhaustion_is_audited_exactly_once,
    three_crashes_are_poison_whatever_the_budget,
);

fn with_policy(retry: RetryPolicy) -> NewJob {
    NewJob { retry: Some(retry), ..new_job("report") }
}

/// Model: error-categories
async fn each_category_is_retried_or_not_as_its_policy_says(t: &Fixture) {
    let defaults = vec![Category::Timeout, Category::System];
    let choices =
        [defaults, vec![Category::Timeout], vec![Category::System], vec![Category::Resource], Vec::new()];
    for retry_on in choices {
        for category in Category::ALL {
            let job = with_policy(RetryPolicy { retry_on: retry_on.clone(), ..RetryPolicy::standard() });
            let (worker, claimed) = t.running(job).await;
            let is_retried = match category {
                Category::Temporary => true,
                Category::Permanent | Category::Cancelled => false,
                Category::Timeout | Category::System | Category::Resource => retry_on.contains(&category),
            };
            let expected = if is_retried { JobState::Retrying } else { JobState::Failed };
            let answer = t.fail(worker, &claimed, Failure::new(category, "as requested")).await;
            assert_eq!(answer, Finish::Applied(expected), "{category} with {retry_on:?}");
            let job = t.get(claimed.job.id).await.job;
            assert_eq!(
                (job.failures, job.crashes),
                (u32::from(is_retried), u32::from(category == Category::System))
            );
            let error = job.details.error.as_ref().unwrap();
            assert_eq!((error.category, error.retryable), (category, is_retried));
            let is_timeout = category == Category::Timeout;
            let outcome = if is_timeout { AttemptOutcome::TimedOut } else { AttemptOutcome::Failed };
            assert_eq!(t.attempts(job.id).await[0].record.as_ref().unwrap().outcome, outcome);
            t.store.act(&t.me, job.id, cancelling()).await.ok();
        }
    }
}

fn cancelling() -> windlass::store::ActionRequest {
    windlass::store::ActionRequest::Cancel { reason: None }
}

/// Model: error-categories
async fn a_policy_that_retries_what_is_never_retried_is_refused(t: &Fixture) {
    for category in [Category::Permanent, Category::Cancelled] {
        let job = with_policy(RetryPolicy { retry_on: vec![category], ..RetryPolicy::standard() });
        let refused = t.store.submit(&t.me, vec![job], SubmitOptions::default()).await.unwrap_err();
        assert!(refused.to_string().contains("retry_on"), "{refused}");
    }
    assert!(t.store.stats(&t.me).await.unwrap().states.is_empty());
}

/// Fails a job until it is final; says how long it waited before each retry.
async fn delays_of(t: &Fixture, retry: RetryPolicy) -> Vec<Duration> {
    let (worker, mut claimed) = t.running(with_policy(retry.clone())).await;
    let mut delays = Vec::new();
    loop {
        t.fail(worker, &claimed, Failure::temporary("busy")).await;
        let job = t.get(claimed.job.id).await.job;
        if job.state == JobState::DeadLetter {
            assert_eq!(job.failures, retry.max_attempts);
            assert_eq!(job.retry_count(), retry.max_attempts - 1);
            return delays;
        }
        let delay = job.retry_at.unwrap().since(t.now());
        t.advance(just_under(delay));
        assert!(t.claim(worker, 1).await.is_empty(), "not before its time");
        t.advance(MOMENT);
        delays.push(delay);
        // Long delays make the worker silent; the next claim registers a new one.
        claimed = t.claim_one(worker).await;
    }
}

/// Model: retry-defaults, retry-presets
async fn each_preset_waits_as_it_says_and_then_gives_up(t: &Fixture) {
    assert_eq!(delays_of(t, RetryPolicy::preset("fixed").unwrap()).await, [secs(1); 3]);
    assert_eq!(delays_of(t, RetryPolicy::preset("backoff").unwrap()).await, [10, 20, 40].map(secs));
    let standard = RetryPolicy::preset("standard").unwrap();
    assert_eq!(standard, RetryPolicy::default());
    let delays = delays_of(t, standard).await;
    assert_eq!(delays.len(), 2);
    for (delay, middle) in delays.into_iter().zip([1000, 2000]) {
        let (low, high) = (Duration::from_millis(middle * 9 / 10), Duration::from_millis(middle * 11 / 10));
        assert!((low..=high).contains(&delay), "{delay:?}");
    }
    assert!(RetryPolicy::preset("hasty").is_err());
}

/// Model: backoff
async fn each_strategy_grows_as_it_says_up_to_its_cap(t: &Fixture) {
    let policy = |strategy| RetryPolicy {
        strategy,
        initial_delay: secs(2),
        max_delay: secs(12),
        multiplier: 3.0,
        jitter: 0.0,
        max_attempts: 8,
        ..RetryPolicy::standard()
    };
    assert_eq!(delays_of(t, policy(Strategy::Constant)).await, [2; 7].map(secs));
    assert_eq!(delays_of(t, policy(Strategy::Linear)).await, [2, 4, 6, 8, 10, 12, 12].map(secs));
    assert_eq!(delays_of(t, policy(Strategy::Exponential)).await, [2, 6, 12, 12, 12, 12, 12].map(secs));
}

/// Model: retry-defaults
async fn jitter_stays_within_its_share(t: &Fixture) {
    let retry = RetryPolicy { jitter: 0.5, max_attempts: 100, ..RetryPolicy::fixed() };
    let delays = delays_of(t, retry).await;
    assert_eq!(delays.len(), 99);
    let (low, high) = (Duration::from_millis(500), secs(1));
    // The longest delay caps the jitter as well; only the lower half is left of a constant at its cap.
    assert!(delays.iter().all(|delay| (low..=high * 3 / 2).contains(delay)), "{delays:?}");
    assert!(
        delays.iter().any(|delay| *delay < high) && delays.iter().any(|delay| *delay > high),
        "{delays:?}"
    );
}

/// Model: setting-levels, retry-presets
async fn a_type_or_queue_may_name_its_preset(t: &Fixture) {
    let of_queue = QueueSettings { retry: Some(RetryPolicy::backoff()), ..QueueSettings::default() };
    t.store.configure(&t.me, Settings::Queue(queue("slow"), of_queue)).await.unwrap();
    let of_type = TypeSettings { retry: Some(RetryPolicy::fixed()), ..TypeSettings::default() };
    let name = JobType::new("quick").unwrap();
    t.store.configure(&t.me, Settings::Type(name, of_type)).await.unwrap();
    let policy_of = async |job_type: &str, queue_name: &str, own: Option<RetryPolicy>| {
        let job = NewJob { queue: queue(queue_name), retry: own, ..new_job(job_type) };
        t.submit(job).await.policy.retry.clone()
    };
    assert_eq!(policy_of("report", "slow", None).await, RetryPolicy::backoff());
    assert_eq!(policy_of("quick", "slow", None).await, RetryPolicy::fixed(), "a type is more specific");
    let own = RetryPolicy { max_attempts: 9, ..RetryPolicy::standard() };
    assert_eq!(policy_of("quick", "slow", Some(own.clone())).await, own);
    assert_eq!(policy_of("report", "other", None).await, RetryPolicy::standard());
}

/// Model: retry-after
async fn retry_after_replaces_the_backoff_but_not_the_lifetime(t: &Fixture) {
    let (worker, claimed) = t.running(NewJob { lifetime: Some(secs(60)), ..new_job("report") }).await;
    let end = t.now().plus(secs(60));
    t.fail(worker, &claimed, Failure::temporary("busy").with_retry_after(secs(20))).await;
    assert_eq!(t.get(claimed.job.id).await.job.retry_at, Some(t.now().plus(secs(20))));
    t.advance(secs(20));
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::temporary("busy").with_retry_after(secs(7200))).await;
    assert_eq!(t.get(claimed.job.id).await.job.retry_at, Some(end));
    t.advance(secs(40));
    t.tick().await;
    let job = t.get(claimed.job.id).await.job;
    assert_eq!((job.state, job.attempt), (JobState::DeadLetter, 2));
    assert_eq!(job.details.error.as_ref().unwrap().code.as_deref(), Some("lifetime_exceeded"));
}

/// Model: exhaustion
async fn exhaustion_is_audited_exactly_once(t: &Fixture) {
    let (worker, mut claimed) = t.running(with_policy(RetryPolicy::fixed())).await;
    for _ in 0..3 {
        t.fail(worker, &claimed, Failure::temporary("busy")).await;
        t.advance(secs(1));
        claimed = t.claim_one(worker).await;
    }
    assert_eq!(
        t.fail(worker, &claimed, Failure::temporary("busy")).await,
        Finish::Applied(JobState::DeadLetter)
    );
    assert_eq!(t.fail(worker, &claimed, Failure::temporary("busy")).await, Finish::Stale);
    t.advance(secs(3600));
    t.tick().await;
    assert_eq!(t.events_of(claimed.job.id).await, [AuditEvent::Exhausted]);
    let job = t.get(claimed.job.id).await.job;
    assert_eq!((job.attempt, job.failures, job.retry_count()), (4, 4, 3));
}

/// Model: crashes-and-poison, exhaustion
async fn three_crashes_are_poison_whatever_the_budget(t: &Fixture) {
    let retry = RetryPolicy { max_attempts: 100, ..RetryPolicy::fixed() };
    let job = t.submit(with_policy(retry)).await;
    for crash in 1..=3 {
        let worker = t.worker().await;
        t.claim_one(worker).await;
        // The worker is not seen again.
        t.advance(secs(31));
        t.tick().await;
        t.advance(secs(1));
        assert_eq!(t.get(job.id).await.job.crashes, crash);
    }
    let job = t.get(job.id).await.job;
    assert_eq!((job.state, job.attempt), (JobState::DeadLetter, 3));
    assert_eq!(job.details.error.as_ref().unwrap().code.as_deref(), Some("poison"));
    assert_eq!(t.events_of(job.id).await, [AuditEvent::Exhausted]);
}

/// Model: retry-defaults. From what the job shows of itself, on every engine and with every seed.
async fn a_hashed_retry_time_can_be_computed_again(t: &Fixture) {
    let retry = RetryPolicy { jitter: 1.0, jitter_mode: JitterMode::Hashed, ..RetryPolicy::backoff() };
    let (worker, mut claimed) = t.running(with_policy(retry.clone())).await;
    for attempt in 1..=3 {
        t.fail(worker, &claimed, Failure::temporary("busy")).await;
        let job = t.get(claimed.job.id).await.job;
        let at = job.details.error.as_ref().unwrap().at;
        let expected = at.plus(retry.delay(job.failures, retry.fraction(job.id, attempt, f64::NAN)));
        assert_eq!(job.retry_at, Some(expected), "attempt {attempt}");
        t.advance(expected.since(t.now()));
        claimed = t.claim_one(worker).await;
    }
}
