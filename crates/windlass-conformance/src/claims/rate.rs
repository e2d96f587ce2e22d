//! Rates: a bucket of tokens per queue, type or concurrency key. Nothing starts without one, and none is wasted.

use std::time::Duration;

use windlass::job::{Failure, JobId, JobState, NewJob};
use windlass::settings::{QueueSettings, Rate, TypeSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::{ClaimRequest, Settings};

use crate::claims::concurrency::{key, submit_many};
use crate::fixture::{Fixture, ids, new_job, priority, queue, tenant};

tests!(
    claims_rate, claims::rate:
    a_queue_starts_a_burst_and_then_one_token_after_the_other,
    a_throttled_job_stays_scheduled_and_uses_no_attempt,
    a_type_has_a_rate_of_its_own,
    the_tightest_of_several_rates_counts,
    a_tenants_own_rate_counts_its_own_jobs,
    every_start_takes_a_token_also_a_retry,
    a_rate_is_kept_across_a_new_setting,
    a_rate_does_not_hold_up_other_queues,
    explain_says_until_when_a_rate_keeps_a_job_back,
    a_claim_says_how_long_it_is_throttled,
    each_key_has_a_rate_of_its_own,
    a_throttled_key_takes_its_tokens_one_after_the_other,
    a_key_that_saved_tokens_spends_them_at_once,
    a_throttled_key_still_runs_one_job_at_a_time,
    a_key_whose_rate_is_removed_waits_no_longer,
    explain_says_until_when_a_key_is_throttled,
    urgent_jobs_get_the_tokens_first,
);

fn rate(count: u64, millis: u64) -> QueueSettings {
    QueueSettings { rate: Some(of(count, millis)), ..QueueSettings::default() }
}

fn of(count: u64, millis: u64) -> Rate {
    Rate::new(count, Duration::from_millis(millis))
}

fn rate_per_key(count: u64, millis: u64, running: u64) -> QueueSettings {
    QueueSettings {
        rate_per_key: Some(of(count, millis)),
        max_running_per_key: Some(running),
        ..QueueSettings::default()
    }
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Model: rate-limits
async fn a_queue_starts_a_burst_and_then_one_token_after_the_other(t: &Fixture) {
    t.set_queue("default", rate(4, 1_000)).await;
    let worker = t.worker().await;
    let all = submit_many(t, new_job("send"), 12).await;
    assert_eq!(t.claim_ids(worker, 10).await, all[..4]);
    t.advance(millis(249));
    assert!(t.claim(worker, 10).await.is_empty());
    t.advance(millis(1));
    assert_eq!(t.claim_ids(worker, 10).await, all[4..5]);
    t.advance(millis(500));
    assert_eq!(t.claim_ids(worker, 1).await, all[5..6]);
    assert_eq!(t.claim_ids(worker, 10).await, all[6..7]);
    t.advance(Duration::from_secs(3600));
    assert_eq!(t.claim_ids(worker, 10).await, all[7..11], "it never holds more than its count");
}

/// Model: rate-limits
async fn a_throttled_job_stays_scheduled_and_uses_no_attempt(t: &Fixture) {
    t.set_queue("default", rate(1, 60_000)).await;
    let worker = t.worker().await;
    let all = submit_many(t, new_job("send"), 2).await;
    assert_eq!(t.claim(worker, 9).await.len(), 1);
    for _ in 0..3 {
        assert!(t.claim(worker, 9).await.is_empty());
    }
    let waiting = t.get(all[1]).await.job;
    assert_eq!((waiting.state, waiting.attempt, waiting.fence.0), (JobState::Scheduled, 0, 0));
}

/// Model: rate-limits
async fn a_type_has_a_rate_of_its_own(t: &Fixture) {
    t.set_type("send", TypeSettings { rate: Some(of(2, 1_000)), ..TypeSettings::default() }).await;
    let worker = t.worker().await;
    submit_many(t, new_job("send"), 3).await;
    submit_many(t, NewJob { queue: queue("mail"), ..new_job("send") }, 3).await;
    submit_many(t, new_job("other"), 3).await;
    let claimed = t.claim(worker, 100).await;
    let sent = claimed.iter().filter(|claimed| claimed.job.lane.job_type.as_str() == "send").count();
    assert_eq!((sent, claimed.len()), (2, 5));
}

/// Model: rate-limits
async fn the_tightest_of_several_rates_counts(t: &Fixture) {
    t.set_queue("default", rate(5, 1_000)).await;
    t.set_type("send", TypeSettings { rate: Some(of(2, 10_000)), ..TypeSettings::default() }).await;
    let worker = t.worker().await;
    submit_many(t, new_job("send"), 9).await;
    assert_eq!(t.claim(worker, 9).await.len(), 2);
    submit_many(t, new_job("other"), 9).await;
    assert_eq!(t.claim(worker, 9).await.len(), 3, "only what was started took tokens of the queue");
}

/// Model: tenant-isolation, rate-limits
async fn a_tenants_own_rate_counts_its_own_jobs(t: &Fixture) {
    let operator = Caller::new("ann", Role::Operator, Some(tenant("acme")));
    t.store.configure(&operator, Settings::Queue(queue("default"), rate(1, 1_000))).await.unwrap();
    let worker = t.worker().await;
    submit_many(t, NewJob { tenant: Some(tenant("acme")), ..new_job("send") }, 3).await;
    submit_many(t, new_job("send"), 3).await;
    let claimed = t.claim(worker, 9).await;
    let theirs = claimed.iter().filter(|claimed| claimed.job.lane.tenant == tenant("acme")).count();
    assert_eq!((theirs, claimed.len()), (1, 4));
}

/// Model: rate-limits
async fn every_start_takes_a_token_also_a_retry(t: &Fixture) {
    t.set_queue("default", rate(2, 100_000)).await;
    let worker = t.worker().await;
    submit_many(t, new_job("send"), 2).await;
    let first = t.claim_one(worker).await;
    t.fail(worker, &first, Failure::temporary("again")).await;
    t.advance(Duration::from_secs(2));
    assert_eq!(t.claim(worker, 9).await.len(), 1);
    assert!(t.claim(worker, 9).await.is_empty());
}

/// Model: rate-limits
async fn a_rate_is_kept_across_a_new_setting(t: &Fixture) {
    t.set_queue("default", rate(3, 10_000)).await;
    let worker = t.worker().await;
    submit_many(t, new_job("send"), 20).await;
    assert_eq!(t.claim(worker, 20).await.len(), 3);
    t.set_queue("default", rate(5, 10_000)).await;
    assert_eq!(t.claim(worker, 20).await.len(), 2, "what was taken stays taken");
    t.set_queue("default", QueueSettings::default()).await;
    assert_eq!(t.claim(worker, 20).await.len(), 15, "without a rate nothing is kept back");
}

/// Model: rate-limits
async fn a_rate_does_not_hold_up_other_queues(t: &Fixture) {
    t.set_queue("slow", rate(1, 60_000)).await;
    let worker = t.worker().await;
    let urgent = NewJob { queue: queue("slow"), priority: Some(priority(100)), ..new_job("send") };
    submit_many(t, urgent, 50).await;
    let others = submit_many(t, new_job("send"), 3).await;
    t.claim_one(worker).await;
    assert_eq!(t.claim_ids(worker, 9).await, others);
}

/// Model: explained-waiting, rate-limits
async fn explain_says_until_when_a_rate_keeps_a_job_back(t: &Fixture) {
    t.set_queue("default", rate(2, 10_000)).await;
    let worker = t.worker().await;
    let all = submit_many(t, new_job("send"), 3).await;
    assert!(t.store.explain(&t.me, all[2]).await.unwrap().unwrap().is_empty());
    t.claim(worker, 9).await;
    let reasons = t.store.explain(&t.me, all[2]).await.unwrap().unwrap();
    assert_eq!(reasons.len(), 1);
    assert_eq!(reasons[0].code, "rate_limited");
    assert_eq!(reasons[0].details["until"], t.now().plus(Duration::from_secs(5)).to_string());
    assert_eq!(reasons[0].details["scope"], "queue default");
    assert_eq!(t.get(all[2]).await.why.unwrap().code, "rate_limited");
    t.advance(Duration::from_secs(5));
    let reasons = t.store.explain(&t.me, all[2]).await.unwrap().unwrap();
    assert!(reasons.iter().all(|reason| reason.code != "rate_limited"), "{reasons:?}");
}

/// Model: timer-precision, rate-limits
async fn a_claim_says_how_long_it_is_throttled(t: &Fixture) {
    t.set_queue("default", rate(1, 400)).await;
    let worker = t.worker().await;
    submit_many(t, new_job("send"), 2).await;
    t.claim_one(worker).await;
    t.advance(millis(100));
    let request = ClaimRequest::new(worker, 1);
    let answer = t.store.claim(&t.me, &request, Duration::ZERO).await.unwrap();
    assert_eq!((answer.jobs.len(), answer.throttled_for), (0, Some(millis(300))));
}

/// The moments, in milliseconds from now, at which jobs start if a worker asks every `step`.
async fn starts(t: &Fixture, step: u64, count: u64) -> Vec<(u64, JobId)> {
    let worker = t.worker().await;
    let mut found = Vec::new();
    for round in 0..count {
        for claimed in t.claim(worker, 100).await {
            found.push((round * step, claimed.job.id));
        }
        t.advance(millis(step));
    }
    found
}

/// Model: rate-limits
async fn each_key_has_a_rate_of_its_own(t: &Fixture) {
    t.set_queue("default", rate_per_key(2, 10_000, 9)).await;
    let worker = t.worker().await;
    for name in ["a", "b"] {
        submit_many(t, key(name), 5).await;
    }
    submit_many(t, new_job("sync"), 5).await;
    let claimed = t.claim(worker, 100).await;
    let of_key =
        |name: &str| claimed.iter().filter(|c| c.spec.concurrency_key.as_deref() == Some(name)).count();
    assert_eq!((of_key("a"), of_key("b"), claimed.len()), (2, 2, 9), "a job without a key needs no token");
}

/// Model: rate-limits
async fn a_throttled_key_takes_its_tokens_one_after_the_other(t: &Fixture) {
    t.set_queue("default", rate_per_key(2, 2_000, 99)).await;
    let all = submit_many(t, key("a"), 6).await;
    let found = starts(t, 250, 20).await;
    let moments: Vec<u64> = found.iter().map(|(at, _)| *at).collect();
    assert_eq!(moments, [0, 0, 1_000, 2_000, 3_000, 4_000]);
    assert_eq!(found.iter().map(|(_, id)| *id).collect::<Vec<_>>(), all, "in the order of submission");
}

/// Model: rate-limits
async fn a_key_that_saved_tokens_spends_them_at_once(t: &Fixture) {
    t.set_queue("default", rate_per_key(40, 40_000, 100)).await;
    let worker = t.worker().await;
    submit_many(t, key("a"), 120).await;
    let mut claimed = t.claim(worker, 1_000).await.len();
    assert_eq!(claimed, 40);
    t.advance(Duration::from_secs(3600));
    loop {
        let more = t.claim(worker, 1_000).await.len();
        claimed += more;
        if more == 0 {
            break;
        }
    }
    assert_eq!(claimed, 80, "a whole bucket again, and no more");
}

/// Model: concurrency-limits, rate-limits
async fn a_throttled_key_still_runs_one_job_at_a_time(t: &Fixture) {
    t.set_queue("default", rate_per_key(2, 10_000, 1)).await;
    let worker = t.worker().await;
    submit_many(t, key("a"), 4).await;
    let first = t.claim(worker, 9).await;
    assert_eq!(first.len(), 1);
    t.advance(Duration::from_secs(20));
    assert!(t.claim(worker, 9).await.is_empty(), "the key is held");
    t.complete(worker, &first[0]).await;
    let second = t.claim_one(worker).await;
    t.complete(worker, &second).await;
    let third = t.claim_one(worker).await;
    t.complete(worker, &third).await;
    assert!(t.claim(worker, 9).await.is_empty(), "the tokens are spent");
    t.advance(Duration::from_secs(5));
    t.claim_one(worker).await;
}

/// Model: rate-limits
async fn a_key_whose_rate_is_removed_waits_no_longer(t: &Fixture) {
    t.set_queue("default", rate_per_key(1, 3_600_000, 99)).await;
    let worker = t.worker().await;
    submit_many(t, key("a"), 5).await;
    assert_eq!(t.claim(worker, 9).await.len(), 1);
    let freed = QueueSettings { max_running_per_key: Some(99), ..QueueSettings::default() };
    t.set_queue("default", freed).await;
    assert_eq!(t.claim(worker, 9).await.len(), 4);
}

/// Model: explained-waiting, rate-limits
async fn explain_says_until_when_a_key_is_throttled(t: &Fixture) {
    t.set_queue("default", rate_per_key(1, 8_000, 9)).await;
    let worker = t.worker().await;
    let all = submit_many(t, key("a"), 3).await;
    t.claim(worker, 9).await;
    for id in &all[1..] {
        let reasons = t.store.explain(&t.me, *id).await.unwrap().unwrap();
        let codes: Vec<&str> = reasons.iter().map(|reason| reason.code).collect();
        assert_eq!(codes, ["rate_limited"]);
        assert_eq!(reasons[0].details["until"], t.now().plus(Duration::from_secs(8)).to_string());
    }
}

/// Model: claim-order, rate-limits
async fn urgent_jobs_get_the_tokens_first(t: &Fixture) {
    t.set_queue("default", rate(1, 1_000)).await;
    let worker = t.worker().await;
    let late = submit_many(t, new_job("send"), 2).await;
    assert_eq!(t.claim_ids(worker, 5).await, late[..1]);
    let urgent = t.submit(NewJob { priority: Some(priority(90)), ..new_job("other") }).await.id;
    t.advance(Duration::from_secs(1));
    assert_eq!(ids(&t.claim(worker, 5).await), [urgent]);
}
