//! Limits on running jobs: per queue, type, tenant and concurrency key; never exceeded, never leaked, no job starved.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass::job::{Failure, GroupStrategy, JobId, JobState, NewJob, SuspendMode, WorkerId};
use windlass::settings::{QueueSettings, TenantSettings, TypeSettings};
use windlass::store::{
    ActionRequest, ClaimedJob, NewGroup, Outcome, Park, Pause, PauseMode, PauseTarget, Suspend,
};

use crate::fixture::{Fixture, lease_ref, new_job, priority, queue, tenant};

tests!(
    claims_concurrency, claims::concurrency:
    a_queue_runs_at_most_its_limit,
    a_type_runs_at_most_its_limit,
    a_tenant_runs_at_most_its_limit,
    the_tightest_of_several_limits_counts,
    a_key_runs_one_job_at_a_time,
    a_key_counts_within_its_tenant,
    a_key_counts_across_queues,
    a_queue_may_allow_more_jobs_with_one_key,
    more_in_one_queue_does_not_exceed_less_in_another,
    a_limit_is_freed_by_every_way_to_stop_running,
    a_key_is_freed_by_every_way_to_stop_running,
    a_raised_limit_counts_at_the_next_claim,
    a_job_set_aside_says_who_has_its_key,
    an_urgent_job_set_aside_is_the_next_to_run,
    a_paused_queue_does_not_keep_a_key_from_others,
    many_set_aside_in_a_paused_queue_do_not_keep_a_key_from_others,
    a_candidate_that_goes_away_leaves_its_turn_to_the_next,
);

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn key(name: &str) -> NewJob {
    NewJob { concurrency_key: Some(name.to_owned()), ..new_job("sync") }
}

pub(crate) fn at_most(limit: u64) -> QueueSettings {
    QueueSettings { max_running: Some(limit), ..QueueSettings::default() }
}

fn per_key(limit: u64) -> QueueSettings {
    QueueSettings { max_running_per_key: Some(limit), ..QueueSettings::default() }
}

pub(crate) async fn submit_many(t: &Fixture, job: NewJob, count: usize) -> Vec<JobId> {
    t.submit_all(vec![job; count]).await.iter().map(|receipt| receipt.job.id).collect()
}

/// Model: concurrency-limits
async fn a_queue_runs_at_most_its_limit(t: &Fixture) {
    t.set_queue("mail", at_most(3)).await;
    let mail = NewJob { queue: queue("mail"), ..new_job("send") };
    let held = submit_many(t, mail.clone(), 2).await;
    submit_many(t, NewJob { tenant: Some(tenant("acme")), ..mail.clone() }, 2).await;
    submit_many(t, NewJob { job_type: crate::fixture::job_type("other"), ..mail }, 2).await;
    let free = submit_many(t, new_job("send"), 2).await;
    let (one, two) = (t.worker().await, t.worker().await);
    let claimed = t.claim(one, 100).await;
    assert_eq!(claimed.len(), 5, "three of the queue, two of another");
    assert!(free.iter().all(|id| claimed.iter().any(|claimed| claimed.job.id == *id)));
    assert!(t.claim(two, 100).await.is_empty(), "the limit is the whole fleet's");
    let waiting =
        t.everything().await.jobs.into_iter().find(|found| found.job.state == JobState::Scheduled).unwrap();
    assert_eq!(waiting.why.expect("it says why").code, "max_running");
    let done = claimed.iter().find(|claimed| claimed.job.id == held[0]).unwrap();
    t.complete(one, done).await;
    assert_eq!(t.claim(two, 100).await.len(), 1);
}

/// Model: concurrency-limits
async fn a_type_runs_at_most_its_limit(t: &Fixture) {
    t.set_type("report", TypeSettings { max_running: Some(2), ..TypeSettings::default() }).await;
    for name in ["a", "b", "c"] {
        submit_many(t, NewJob { queue: queue(name), ..new_job("report") }, 2).await;
    }
    submit_many(t, new_job("other"), 1).await;
    let worker = t.worker().await;
    assert_eq!(t.claim(worker, 100).await.len(), 3);
    assert!(t.claim(worker, 100).await.is_empty());
}

/// Model: concurrency-limits
async fn a_tenant_runs_at_most_its_limit(t: &Fixture) {
    t.set_tenant("acme", TenantSettings { max_running: Some(2), ..TenantSettings::default() }).await;
    for name in ["a", "b", "c"] {
        submit_many(t, NewJob { queue: queue(name), tenant: Some(tenant("acme")), ..new_job(name) }, 2).await;
    }
    submit_many(t, new_job("other"), 1).await;
    let worker = t.worker().await;
    assert_eq!(t.claim(worker, 100).await.len(), 3);
    assert!(t.claim(worker, 100).await.is_empty());
}

/// Model: concurrency-limits
async fn the_tightest_of_several_limits_counts(t: &Fixture) {
    t.set_queue("default", at_most(5)).await;
    t.set_type("report", TypeSettings { max_running: Some(3), ..TypeSettings::default() }).await;
    t.set_tenant("acme", TenantSettings { max_running: Some(1), ..TenantSettings::default() }).await;
    submit_many(t, NewJob { tenant: Some(tenant("acme")), ..new_job("report") }, 4).await;
    submit_many(t, new_job("report"), 4).await;
    submit_many(t, new_job("send"), 4).await;
    let worker = t.worker().await;
    let mut by: BTreeMap<(String, String), usize> = BTreeMap::new();
    for claimed in t.claim(worker, 100).await {
        let lane = &claimed.job.lane;
        *by.entry((lane.tenant.to_string(), lane.job_type.to_string())).or_default() += 1;
    }
    let found: Vec<_> = by.iter().map(|((tenant, kind), n)| (tenant.as_str(), kind.as_str(), *n)).collect();
    assert_eq!(found, [("acme", "report", 1), ("default", "report", 2), ("default", "send", 2)]);
    t.set_queue("default", at_most(0)).await;
    assert!(t.claim(worker, 100).await.is_empty(), "a lower limit ends nothing and starts nothing");
}

/// Model: concurrency-limits
async fn a_key_runs_one_job_at_a_time(t: &Fixture) {
    let same = submit_many(t, key("account-1"), 3).await;
    let other = submit_many(t, key("account-2"), 1).await;
    let worker = t.worker().await;
    let mut running = t.claim(worker, 100).await;
    assert_eq!(crate::fixture::ids(&running), [same[0], other[0]]);
    for next in &same[1..] {
        assert!(t.claim(worker, 100).await.is_empty());
        t.complete(worker, &running[0]).await;
        running = t.claim(worker, 100).await;
        assert_eq!(crate::fixture::ids(&running), [*next]);
    }
}

/// Model: tenant-isolation, concurrency-limits
async fn a_key_counts_within_its_tenant(t: &Fixture) {
    submit_many(t, key("k"), 2).await;
    submit_many(t, NewJob { tenant: Some(tenant("acme")), ..key("k") }, 2).await;
    let worker = t.worker().await;
    assert_eq!(t.claim(worker, 100).await.len(), 2);
}

/// Model: concurrency-limits
async fn a_key_counts_across_queues(t: &Fixture) {
    for name in ["a", "b", "c"] {
        submit_many(t, NewJob { queue: queue(name), ..key("k") }, 1).await;
    }
    let worker = t.worker().await;
    assert_eq!(t.claim(worker, 100).await.len(), 1);
}

/// Model: concurrency-limits
async fn a_queue_may_allow_more_jobs_with_one_key(t: &Fixture) {
    t.set_queue("default", per_key(3)).await;
    submit_many(t, key("k"), 5).await;
    let worker = t.worker().await;
    assert_eq!(t.claim(worker, 2).await.len(), 2);
    assert_eq!(t.claim(worker, 100).await.len(), 1);
    assert!(t.claim(worker, 100).await.is_empty());
}

/// Model: concurrency-limits
async fn more_in_one_queue_does_not_exceed_less_in_another(t: &Fixture) {
    t.set_queue("wide", per_key(3)).await;
    let wide = NewJob { queue: queue("wide"), ..key("k") };
    submit_many(t, wide.clone(), 3).await;
    let worker = t.worker().await;
    assert_eq!(t.claim(worker, 100).await.len(), 3);
    // The narrow queue's job is looked at first and finds one holder enough; the wide one must count them all.
    submit_many(t, NewJob { priority: Some(priority(90)), ..key("k") }, 1).await;
    submit_many(t, wide, 2).await;
    assert!(t.claim(worker, 100).await.is_empty());
}

/// Every way in which a job can stop running.
const WAYS: [&str; 13] = [
    "complete", "retry", "fail", "release", "park", "spawn", "suspend", "cancel", "queue", "lease",
    "timeout", "lifetime", "leave",
];

pub(crate) async fn stop(t: &Fixture, way: &str, worker: WorkerId, claimed: &ClaimedJob) {
    let id = claimed.job.id;
    let outcome = match way {
        "complete" => Outcome::Completed { result: None },
        "retry" => Outcome::Failed(Failure::temporary("again").with_retry_after(HOUR)),
        "fail" => Outcome::Failed(Failure::permanent("bad", "bad")),
        "release" => Outcome::Released,
        "park" => Outcome::Parked(Park::For(HOUR)),
        other => return stop_from_outside(t, other, worker, claimed).await,
    };
    t.finish(worker, id, claimed.job.fence, outcome).await;
    if way == "release" {
        // It is the next in line again; it must not be in the way of the others here.
        t.suspend(id).await;
    }
}

async fn stop_from_outside(t: &Fixture, way: &str, worker: WorkerId, claimed: &ClaimedJob) {
    let id = claimed.job.id;
    match way {
        "spawn" => {
            let jobs = vec![NewJob { delay: Some(HOUR), ..new_job("child") }];
            let group = NewGroup { name: "g".into(), strategy: GroupStrategy::CollectAll, jobs };
            t.store.spawn(&t.me, lease_ref(claimed), group).await.unwrap();
        }
        "suspend" => {
            let how = Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() };
            t.act(id, ActionRequest::Suspend(how)).await;
        }
        "cancel" => {
            t.cancel(id).await;
        }
        "queue" => {
            let target = PauseTarget::Queue(queue("default"));
            let how = Pause { mode: PauseMode::Aggressive, ..Pause::default() };
            t.store.pause(&t.me, target.clone(), how).await.unwrap();
            t.store.resume(&t.me, target, None).await.unwrap();
        }
        "lease" => t.advance(Duration::from_secs(10)),
        "timeout" => t.advance(Duration::from_secs(5)),
        "lifetime" => t.advance(Duration::from_secs(7)),
        "leave" => {
            t.store.deregister(&t.me, worker).await.unwrap();
            t.suspend(id).await;
        }
        other => panic!("{other}"),
    }
}

/// Ends a running job in every way and sees that each time the next one may start, and only one.
async fn every_way_frees(t: &Fixture, job: &NewJob) {
    for way in WAYS {
        let second = Duration::from_secs(1);
        let job = NewJob {
            execution_timeout: (way == "timeout").then_some(second * 5),
            lease_timeout: (way == "lease").then_some(second * 10),
            lifetime: (way == "lifetime").then_some(second * 7),
            retry: Some(windlass::job::RetryPolicy { initial_delay: HOUR, ..Default::default() }),
            ..job.clone()
        };
        let worker = t.worker().await;
        submit_many(t, job.clone(), 1).await;
        let claimed = t.claim_one(worker).await;
        let rest = submit_many(t, NewJob { lifetime: None, ..job }, 3).await;
        let other = t.worker().await;
        assert!(t.claim(other, 10).await.is_empty(), "{way}: the limit is reached");
        stop(t, way, worker, &claimed).await;
        assert_eq!(t.claim_ids(other, 10).await, [rest[0]], "{way} frees one place");
        assert_ne!(t.state(claimed.job.id).await, JobState::Running, "{way}");
        for id in rest.into_iter().chain([claimed.job.id]) {
            if !t.state(id).await.is_final() {
                t.cancel(id).await;
            }
        }
    }
}

/// Model: crashes-and-poison, concurrency-limits
async fn a_limit_is_freed_by_every_way_to_stop_running(t: &Fixture) {
    t.set_queue("default", at_most(1)).await;
    every_way_frees(t, &new_job("sync")).await;
}

/// Model: crashes-and-poison, concurrency-limits
async fn a_key_is_freed_by_every_way_to_stop_running(t: &Fixture) {
    every_way_frees(t, &key("k")).await;
}

/// Model: concurrency-limits
async fn a_raised_limit_counts_at_the_next_claim(t: &Fixture) {
    let worker = t.worker().await;
    let job = NewJob { tenant: Some(tenant("acme")), ..key("k") };
    submit_many(t, job, 6).await;
    let kind = |limit| TypeSettings { max_running: Some(limit), ..TypeSettings::default() };
    let owner = |limit| TenantSettings { max_running: Some(limit), ..TenantSettings::default() };
    let both = |limit, each| QueueSettings { max_running: Some(limit), ..per_key(each) };
    t.set_queue("default", both(1, 1)).await;
    t.set_type("sync", kind(1)).await;
    t.set_tenant("acme", owner(1)).await;
    assert_eq!(t.claim(worker, 10).await.len(), 1);
    t.set_queue("default", both(1, 9)).await;
    t.set_type("sync", kind(9)).await;
    t.set_tenant("acme", owner(9)).await;
    assert!(t.claim(worker, 10).await.is_empty());
    t.set_queue("default", both(2, 9)).await;
    assert_eq!(t.claim(worker, 10).await.len(), 1, "the queue's was the last one in the way");
    t.set_queue("default", both(9, 2)).await;
    assert!(t.claim(worker, 10).await.is_empty());
    t.set_queue("default", both(9, 3)).await;
    assert_eq!(t.claim(worker, 10).await.len(), 1, "those set aside for the key get their chance");
    t.set_queue("default", both(9, 9)).await;
    t.set_type("sync", kind(4)).await;
    assert_eq!(t.claim(worker, 10).await.len(), 1);
    t.set_type("sync", kind(9)).await;
    t.set_tenant("acme", owner(5)).await;
    assert_eq!(t.claim(worker, 10).await.len(), 1);
}

/// Model: explained-waiting, concurrency-limits
async fn a_job_set_aside_says_who_has_its_key(t: &Fixture) {
    let jobs = submit_many(t, key("k"), 2).await;
    let worker = t.worker().await;
    t.claim(worker, 10).await;
    let why = t.get(jobs[1]).await.why.expect("it says why");
    assert_eq!((why.code, &why.details["jobs"][0]), ("concurrency_key_held", &jobs[0].to_string().into()));
}

/// Model: claim-order, changing-priority, concurrency-limits
async fn an_urgent_job_set_aside_is_the_next_to_run(t: &Fixture) {
    let jobs = submit_many(t, key("k"), 4).await;
    let worker = t.worker().await;
    let first = t.claim(worker, 10).await;
    t.act(jobs[3], ActionRequest::Priority(priority(90))).await;
    assert!(t.claim(worker, 10).await.is_empty());
    t.complete(worker, &first[0]).await;
    assert_eq!(t.claim_ids(worker, 10).await, [jobs[3]]);
}

/// Model: pause-reason-and-expiry, concurrency-limits
async fn a_paused_queue_does_not_keep_a_key_from_others(t: &Fixture) {
    many_set_aside(t, 2).await;
}

/// Model: pause-reason-and-expiry, concurrency-limits
async fn many_set_aside_in_a_paused_queue_do_not_keep_a_key_from_others(t: &Fixture) {
    many_set_aside(t, 600).await;
}

async fn many_set_aside(t: &Fixture, count: usize) {
    let slow = submit_many(t, NewJob { queue: queue("slow"), ..key("k") }, count).await;
    let other = submit_many(t, key("k"), 1).await;
    let worker = t.worker().await;
    let first = t.claim(worker, 1_000).await;
    assert_eq!(crate::fixture::ids(&first), [slow[0]]);
    t.store.pause(&t.me, PauseTarget::Queue(queue("slow")), Pause::default()).await.unwrap();
    t.complete(worker, &first[0]).await;
    assert_eq!(t.claim_ids(worker, 10).await, other);
}

/// Model: concurrency-limits
async fn a_candidate_that_goes_away_leaves_its_turn_to_the_next(t: &Fixture) {
    let jobs = submit_many(t, key("k"), 5).await;
    let worker = t.worker().await;
    let first = t.claim(worker, 10).await;
    t.complete(worker, &first[0]).await;
    t.suspend(jobs[1]).await;
    t.cancel(jobs[2]).await;
    assert_eq!(t.claim_ids(worker, 10).await, [jobs[3]]);
    t.resume(jobs[1]).await;
    assert!(t.claim(worker, 10).await.is_empty());
}
