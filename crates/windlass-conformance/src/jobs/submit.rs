//! Submitting: one job, batches, whole graphs, held jobs, and where the settings of a job come from.

use std::time::Duration;

use windlass::clock::Clock;
use windlass::error::{ActionError, FieldProblem, InvalidTransition, SubmitError};
use windlass::job::{Dependency, JobAction, JobState, NewJob, Policy, Priority, RetryPolicy, Timeouts};
use windlass::settings::{PartialTimeouts, QueueSettings, TypeSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::{ActionRequest, Settings, StoreOptions, SubmitOptions};

use crate::fixture::{Fixture, after, job_type, named, new_job, priority, queue, tenant};

tests!(
    jobs_submit, jobs::submit:
    a_job_without_wishes_gets_the_defaults,
    a_batch_keeps_its_order,
    an_empty_batch_is_answered_with_nothing,
    one_bad_job_in_the_middle_refuses_the_whole_batch,
    ten_thousand_jobs_are_one_batch,
    one_job_more_than_ten_thousand_is_refused,
    a_whole_graph_is_one_call,
    a_graph_may_name_what_comes_later,
    a_name_stands_for_one_job_of_its_batch,
    a_name_does_not_outlive_its_batch,
    a_held_job_waits_until_it_is_submitted,
    a_held_job_goes_where_its_facts_say,
    only_a_held_job_can_be_submitted_by_name,
    delay_and_run_at_exclude_each_other,
    the_most_specific_setting_wins,
    a_tenants_own_queue_settings_win_over_everybodys,
    settings_count_from_the_next_submission_on,
    a_job_belongs_to_its_callers_tenant,
    submitting_for_another_tenant_is_refused,
);

/// Model: type-and-queue-names, read-only-fields, priority-values, execution-timeout, leases-and-heartbeats, lifetime, retry-defaults
async fn a_job_without_wishes_gets_the_defaults(t: &Fixture) {
    let job = t.submit(new_job("email.send")).await;
    assert_eq!(job.state, JobState::Scheduled);
    assert_eq!((job.lane.tenant.as_str(), job.lane.queue.as_str()), ("default", "default"));
    assert_eq!(job.priority, Priority::NORMAL);
    assert_eq!(*job.policy, Policy::default());
    assert_eq!(job.policy.timeouts.execution, Duration::from_secs(30 * 60));
    assert_eq!(job.policy.timeouts.lease, Duration::from_secs(5 * 60));
    assert_eq!(job.expires_at, t.now().plus(Duration::from_secs(7 * 24 * 3600)));
    assert_eq!((job.attempt, job.failures, job.crashes), (0, 0, 0));
    assert_eq!(t.get(job.id).await.job, job, "what was answered is what is stored");
}

/// Model: claim-order, batches
async fn a_batch_keeps_its_order(t: &Fixture) {
    let types: Vec<String> = (0..50).map(|n| format!("type.{}", (n * 7) % 50)).collect();
    let receipts = t.submit_all(types.iter().map(|name| new_job(name)).collect()).await;
    let answered: Vec<&str> = receipts.iter().map(|receipt| receipt.job.lane.job_type.as_str()).collect();
    assert_eq!(answered, types, "receipts are in the jobs' order");
    let expected: Vec<_> = receipts.iter().map(|receipt| receipt.job.id).collect();
    let worker = t.worker().await;
    assert_eq!(t.claim_ids(worker, 50).await, expected, "submission order decides among equals");
}

/// Model: batches
async fn an_empty_batch_is_answered_with_nothing(t: &Fixture) {
    assert!(t.submit_all(Vec::new()).await.is_empty());
    assert!(t.everything().await.jobs.is_empty());
}

/// Model: batches
async fn one_bad_job_in_the_middle_refuses_the_whole_batch(t: &Fixture) {
    let unknown = Dependency::Named("unknown".into());
    let bad = [
        NewJob { idempotency_key: Some("k".repeat(257)), ..new_job("bad") },
        NewJob { unique_key: Some("k".repeat(257)), ..new_job("bad") },
        NewJob {
            retry: Some(RetryPolicy { max_attempts: 101, ..RetryPolicy::standard() }),
            ..new_job("bad")
        },
        NewJob { lease_timeout: Some(Duration::from_millis(999)), ..new_job("bad") },
        NewJob { lifetime: Some(Duration::ZERO), ..new_job("bad") },
        NewJob { after: vec![unknown], ..new_job("bad") },
    ];
    t.submit(NewJob { idempotency_key: Some("known".into()), ..new_job("good") }).await;
    for bad in bad {
        let duplicate = NewJob { idempotency_key: Some("known".into()), ..new_job("good") };
        let error = t.refused(vec![new_job("good"), duplicate, bad, new_job("good")]).await;
        assert!(matches!(error, SubmitError::Invalid { index: 2, .. }), "{error}");
    }
}

/// Model: batches
async fn ten_thousand_jobs_are_one_batch(t: &Fixture) {
    let receipts = t.submit_all(vec![new_job("email.send"); 10_000]).await;
    assert_eq!(receipts.len(), 10_000);
    assert!(receipts.is_sorted_by_key(|receipt| receipt.job.seq));
    let stats = t.store.stats(&t.me).await.unwrap();
    assert_eq!(stats.states[&JobState::Scheduled], 10_000);
}

/// Model: batches
async fn one_job_more_than_ten_thousand_is_refused(t: &Fixture) {
    let error = t.refused(vec![new_job("email.send"); 10_001]).await;
    let SubmitError::Invalid { invalid, .. } = error else { panic!("{error}") };
    assert_eq!(invalid.problem, FieldProblem::TooLong { length: 10_001, limit: 10_000 });
}

/// Model: dependencies, batches
async fn a_whole_graph_is_one_call(t: &Fixture) {
    let batch = vec![
        named("fetch", &[]),
        named("left", &["fetch"]),
        named("right", &["fetch"]),
        named("join", &["left", "right"]),
    ];
    let receipts = t.submit_all(batch).await;
    let jobs: Vec<_> = receipts.iter().map(|receipt| &receipt.job).collect();
    let states: Vec<JobState> = jobs.iter().map(|job| job.state).collect();
    assert_eq!(states, [JobState::Scheduled, JobState::Pending, JobState::Pending, JobState::Pending]);
    assert_eq!(jobs.iter().map(|job| job.depth).collect::<Vec<_>>(), [1, 2, 2, 3]);
    let join = t.get(jobs[3].id).await;
    assert_eq!(join.spec.after, [jobs[1].id, jobs[2].id], "names became ids");
    let worker = t.worker().await;
    for level in [vec![jobs[0].id], vec![jobs[1].id, jobs[2].id], vec![jobs[3].id]] {
        let claimed = t.claim(worker, 10).await;
        assert_eq!(crate::fixture::ids(&claimed), level);
        for claimed in &claimed {
            t.complete(worker, claimed).await;
        }
    }
    assert_eq!(t.state(jobs[3].id).await, JobState::Completed);
}

/// Model: claim-order, batches
async fn a_graph_may_name_what_comes_later(t: &Fixture) {
    let receipts = t
        .submit_all(vec![named("last", &["middle"]), named("middle", &["first"]), named("first", &[])])
        .await;
    let depths: Vec<u32> = receipts.iter().map(|receipt| receipt.job.depth).collect();
    assert_eq!(depths, [3, 2, 1]);
    assert!(
        receipts.is_sorted_by_key(|receipt| receipt.job.seq),
        "submission order is the batch's, not the graph's"
    );
    let worker = t.worker().await;
    for receipt in receipts.iter().rev() {
        let claimed = t.claim_one(worker).await;
        assert_eq!(claimed.job.id, receipt.job.id);
        t.complete(worker, &claimed).await;
    }
}

/// Model: batches
async fn a_name_stands_for_one_job_of_its_batch(t: &Fixture) {
    let error = t.refused(vec![named("twin", &[]), named("twin", &[])]).await;
    let SubmitError::Invalid { index, invalid } = error else { panic!("{error}") };
    assert_eq!((index, invalid.problem), (1, FieldProblem::NameTwice("twin".into())));
}

/// Model: dependencies, dependency-limits
async fn a_name_does_not_outlive_its_batch(t: &Fixture) {
    t.submit(named("first", &[])).await;
    let error = t.refused(vec![named("second", &["first"])]).await;
    let SubmitError::Invalid { invalid, .. } = error else { panic!("{error}") };
    assert_eq!(invalid.problem, FieldProblem::NoSuchJob("@first".into()));
}

/// Model: refused-changes
async fn a_held_job_waits_until_it_is_submitted(t: &Fixture) {
    let worker = t.worker().await;
    let job = t.submit(NewJob { hold: true, ..new_job("email.send") }).await;
    assert_eq!(job.state, JobState::Created);
    assert_eq!(t.get(job.id).await.why.expect("it says why it waits").code, "held");
    assert!(t.claim(worker, 1).await.is_empty());
    t.advance(Duration::from_secs(60));
    let acted = t.act(job.id, ActionRequest::Submit).await;
    assert!(acted.is_changed);
    assert_eq!((acted.job.state, acted.job.eligible_at), (JobState::Scheduled, Some(t.now())));
    assert_eq!(t.claim_one(worker).await.job.id, job.id);
}

/// Model: refused-changes, dependencies
async fn a_held_job_goes_where_its_facts_say(t: &Fixture) {
    let other = t.submit(new_job("email.send")).await;
    let pending = t.submit(NewJob { hold: true, ..after(&[other.id]) }).await;
    let delay = Some(Duration::from_secs(60));
    let delayed = t.submit(NewJob { hold: true, delay, ..new_job("email.send") }).await;
    assert_eq!(t.act(pending.id, ActionRequest::Submit).await.job.state, JobState::Pending);
    assert_eq!(t.act(delayed.id, ActionRequest::Submit).await.job.state, JobState::Delayed);
}

/// Model: refused-changes
async fn only_a_held_job_can_be_submitted_by_name(t: &Fixture) {
    let job = t.submit(new_job("email.send")).await;
    let before = t.everything().await;
    let error = t.store.act(&t.me, job.id, ActionRequest::Submit).await.unwrap_err();
    assert_eq!(
        error,
        ActionError::Refused(InvalidTransition { state: JobState::Scheduled, action: JobAction::Submit })
    );
    assert_eq!(t.everything().await, before);
}

/// Model: refused-changes
async fn delay_and_run_at_exclude_each_other(t: &Fixture) {
    let both = NewJob {
        delay: Some(Duration::from_secs(1)),
        run_at: Some(t.clock.now().plus(Duration::from_secs(1))),
        ..new_job("email.send")
    };
    let error = t.refused(vec![both]).await;
    assert!(matches!(error, SubmitError::Invalid { index: 0, .. }), "{error}");
}

fn limits(seconds: u64) -> PartialTimeouts {
    let limit = Some(Duration::from_secs(seconds));
    PartialTimeouts { execution: limit, lease: limit, lifetime: limit, start: limit, max_execution: None }
}

fn attempts(max_attempts: u32) -> RetryPolicy {
    RetryPolicy { max_attempts, ..RetryPolicy::standard() }
}

/// Model: setting-levels
async fn the_most_specific_setting_wins(t: &Fixture) {
    let timeouts = limits(1_000).applied_to(Timeouts::default());
    let policy = Policy { retry: attempts(10), timeouts, crashes_max: 7 };
    let t = t.another(StoreOptions { policy, ..StoreOptions::default() });
    let queue_settings = QueueSettings {
        retry: Some(attempts(20)),
        timeouts: limits(2_000),
        priority: Some(priority(20)),
        ..QueueSettings::default()
    };
    let type_settings = TypeSettings {
        retry: Some(attempts(30)),
        timeouts: limits(3_000),
        priority: Some(priority(30)),
        ..TypeSettings::default()
    };
    t.set_queue("slow", queue_settings).await;
    t.set_type("report", type_settings).await;
    let plain = new_job("email.send");
    let in_queue = NewJob { queue: queue("slow"), ..plain.clone() };
    let of_type = NewJob { queue: queue("slow"), ..new_job("report") };
    let own = NewJob {
        retry: Some(attempts(40)),
        execution_timeout: Some(Duration::from_secs(4_000)),
        lease_timeout: Some(Duration::from_secs(4_000)),
        lifetime: Some(Duration::from_secs(4_000)),
        start_timeout: Some(Duration::from_secs(4_000)),
        priority: Some(priority(40)),
        ..of_type.clone()
    };
    for (level, job) in [(10, plain), (20, in_queue), (30, of_type), (40, own)] {
        let job = t.submit(job).await;
        let limit = Duration::from_secs(u64::from(level) * 100);
        assert_eq!(job.policy.retry.max_attempts, level);
        let start = Some(limit);
        assert_eq!(job.policy.timeouts, Timeouts { execution: limit, lease: limit, lifetime: limit, start });
        assert_eq!(job.expires_at, t.now().plus(limit));
        assert_eq!(job.policy.crashes_max, 7);
        let expected = if level == 10 { Priority::NORMAL } else { priority(i64::from(level)) };
        assert_eq!(job.priority, expected);
    }
    t.verify().await;
}

/// Model: setting-levels, tenant-isolation
async fn a_tenants_own_queue_settings_win_over_everybodys(t: &Fixture) {
    let operator = Caller::new("ops", Role::Operator, Some(tenant("acme")));
    let own =
        QueueSettings { priority: Some(priority(90)), timeouts: limits(90), ..QueueSettings::default() };
    t.set_queue(
        "mail",
        QueueSettings { retry: Some(attempts(5)), timeouts: limits(50), ..QueueSettings::default() },
    )
    .await;
    t.store.configure(&operator, Settings::Queue(queue("mail"), own)).await.unwrap();
    let job = NewJob { queue: queue("mail"), ..new_job("email.send") };
    let theirs = t.submit(NewJob { tenant: Some(tenant("acme")), ..job.clone() }).await;
    assert_eq!((theirs.priority, theirs.policy.timeouts.lease), (priority(90), Duration::from_secs(90)));
    assert_eq!(theirs.policy.retry.max_attempts, 5, "what they did not set is that of all tenants");
    let others = t.submit(job).await;
    assert_eq!((others.priority, others.policy.timeouts.lease), (Priority::NORMAL, Duration::from_secs(50)));
}

/// Model: setting-levels
async fn settings_count_from_the_next_submission_on(t: &Fixture) {
    let before = t.submit(new_job("report")).await;
    t.set_type("report", TypeSettings { retry: Some(attempts(9)), ..TypeSettings::default() }).await;
    let later = t.submit(new_job("report")).await;
    assert_eq!(t.get(before.id).await.job.policy.retry.max_attempts, 3);
    assert_eq!(later.policy.retry.max_attempts, 9);
}

/// Model: tenant-isolation
async fn a_job_belongs_to_its_callers_tenant(t: &Fixture) {
    let acme = Caller::new("acme-app", Role::Submitter, Some(tenant("acme")));
    let umbrella = Caller::new("umbrella-app", Role::Submitter, Some(tenant("umbrella")));
    let jobs = vec![new_job("email.send")];
    let receipt = t.store.submit(&acme, jobs, SubmitOptions::default()).await.unwrap().remove(0);
    assert_eq!(receipt.job.lane.tenant, tenant("acme"));
    let snapshot = t.store.get(&acme, receipt.job.id).await.unwrap().expect("it is theirs");
    assert_eq!(snapshot.spec.owner, "acme-app");
    assert!(t.store.get(&umbrella, receipt.job.id).await.unwrap().is_none(), "for others it does not exist");
}

/// Model: tenant-isolation, roles
async fn submitting_for_another_tenant_is_refused(t: &Fixture) {
    let before = t.everything().await;
    let own = new_job("email.send");
    let foreign = NewJob { tenant: Some(tenant("umbrella")), ..new_job("email.send") };
    for role in [Role::Submitter, Role::Operator] {
        let caller = Caller::new("acme-app", role, Some(tenant("acme")));
        let jobs = vec![own.clone(), foreign.clone()];
        let error = t.store.submit(&caller, jobs, SubmitOptions::default()).await.unwrap_err();
        assert!(matches!(error, SubmitError::Forbidden(_)), "{error}");
    }
    for role in [Role::Viewer, Role::Worker] {
        let caller = Caller::new("looker", role, None);
        let error = t.store.submit(&caller, vec![own.clone()], SubmitOptions::default()).await.unwrap_err();
        assert!(matches!(error, SubmitError::Forbidden(_)), "{error}");
    }
    assert_eq!(t.everything().await, before);
    assert_eq!(t.submit(foreign).await.lane.job_type, job_type("email.send"), "an admin may");
}
