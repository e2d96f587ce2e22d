//! Jobs that require a version of their worker: who receives them, and that this delays no other job.

use std::time::Duration;

use windlass::error::{ActionError, FieldError, FieldProblem};
use windlass::job::{
    Debounce, Failure, GroupStrategy, JobId, JobRecord, JobState, NewJob, WorkerId, WorkerVersion,
};
use windlass::settings::patch::Field;
use windlass::settings::{QueueSettings, TenantSettings};
use windlass::store::{NewGroup, NewWorker, Park, Redrive};

use crate::fixture::{Fixture, lease_ref, new_job, priority, queue, secs};

tests!(
    claims_version, claims::version:
    a_job_is_received_only_by_workers_of_exactly_its_version,
    urgent_jobs_of_another_version_are_passed_over,
    jobs_of_all_versions_are_claimed_in_one_order,
    retries_and_waits_keep_the_version,
    a_redrive_takes_the_version_over_or_changes_it,
    a_redrive_for_one_more_version_keeps_to_the_limit_on_lanes,
    children_name_a_version_of_their_own,
    limits_and_pauses_count_all_versions,
    a_reason_names_the_version_and_those_that_are_live,
    debounced_submissions_for_different_versions_do_not_replace_each_other,
);

fn version(text: &str) -> WorkerVersion {
    WorkerVersion::new(text).unwrap()
}

fn requiring(text: &str) -> NewJob {
    NewJob { requires_version: Some(version(text)), ..new_job("report") }
}

async fn worker_of(t: &Fixture, version: &str) -> WorkerId {
    let new = NewWorker { version: Some(version.to_owned()), heartbeats: false, ..NewWorker::default() };
    t.store.register(&t.me, new).await.unwrap().id
}

fn required(job: &JobRecord) -> Option<&str> {
    job.lane.version.as_ref().map(WorkerVersion::as_str)
}

/// Model: worker-versions
async fn a_job_is_received_only_by_workers_of_exactly_its_version(t: &Fixture) {
    let job = t.submit(requiring("1.2.0")).await;
    assert_eq!(required(&t.get(job.id).await.job), Some("1.2.0"));
    let without = t.steady_worker().await;
    for other in
        [without, worker_of(t, "1.2").await, worker_of(t, "1.2.0-rc.1").await, worker_of(t, "").await]
    {
        assert!(t.claim(other, 10).await.is_empty());
    }
    let fitting = worker_of(t, "1.2.0").await;
    let claimed = t.claim_one(fitting).await;
    assert_eq!((claimed.job.id, required(&claimed.job)), (job.id, Some("1.2.0")));
    t.complete(fitting, &claimed).await;
    let plain = t.submit(new_job("report")).await;
    assert_eq!(
        t.claim_one(fitting).await.job.id,
        plain.id,
        "a worker with a version receives all others too"
    );
}

/// Model: worker-versions, claim-order
async fn urgent_jobs_of_another_version_are_passed_over(t: &Fixture) {
    let urgent = NewJob { priority: Some(priority(100)), ..requiring("old") };
    t.submit_all(vec![urgent; 300]).await;
    let plain = t.submit(NewJob { priority: Some(priority(0)), ..new_job("report") }).await;
    let without = t.steady_worker().await;
    assert_eq!(t.claim_ids(without, 1).await, [plain.id]);
    assert!(t.claim(without, 1000).await.is_empty());
    assert_eq!(t.claim(worker_of(t, "old").await, 1000).await.len(), 300);
}

/// Model: worker-versions, claim-order
async fn jobs_of_all_versions_are_claimed_in_one_order(t: &Fixture) {
    let job = |place: u64| match place % 3 {
        0 => requiring("v1"),
        1 => requiring("v2"),
        _ => new_job("report"),
    };
    let mut expected = Vec::new();
    for place in 0..12 {
        let submitted = t.submit(job(place)).await;
        if place % 3 != 1 {
            expected.push(submitted.id);
        }
        t.advance(secs(1));
    }
    let worker = worker_of(t, "v1").await;
    let mut claimed: Vec<JobId> = t.claim_ids(worker, 3).await;
    claimed.extend(t.claim_ids(worker, 100).await);
    assert_eq!(claimed, expected);
}

/// Model: worker-versions
async fn retries_and_waits_keep_the_version(t: &Fixture) {
    let (v1, v2) = (worker_of(t, "v1").await, worker_of(t, "v2").await);
    let id = t.submit(requiring("v1")).await.id;
    let first = t.claim_one(v1).await;
    t.fail(v1, &first, Failure::temporary("busy")).await;
    t.advance(secs(3600));
    assert!(t.claim(v2, 1).await.is_empty());
    let again = t.claim_one(v1).await;
    assert_eq!(again.job.id, id);
    t.park(v1, &again, Park::For(Duration::from_secs(60))).await;
    t.advance(secs(60));
    assert!(t.claim(v2, 1).await.is_empty());
    let woken = t.claim_one(v1).await;
    assert_eq!((woken.job.id, required(&woken.job)), (id, Some("v1")));
    t.suspend(t.submit(requiring("v2")).await.id).await;
    t.complete(v1, &woken).await;
}

/// Model: worker-versions, final-states
async fn a_redrive_takes_the_version_over_or_changes_it(t: &Fixture) {
    let old = t.submit(requiring("v1")).await.id;
    t.cancel(old).await;
    let with = |requires_version| Redrive { requires_version, ..Redrive::default() };
    for (change, expected) in
        [(Field::Keep, Some("v1")), (Field::Set(version("v2")), Some("v2")), (Field::Clear, None)]
    {
        let new = t.store.redrive(&t.me, old, with(change)).await.unwrap();
        assert_eq!(required(&new), expected);
        assert_eq!(required(&t.get(new.id).await.job), expected);
        let worker = worker_of(t, expected.unwrap_or("any")).await;
        let claimed = t.claim_one(worker).await;
        assert_eq!(claimed.job.id, new.id);
        t.complete(worker, &claimed).await;
    }
    assert_eq!(required(&t.get(old).await.job), Some("v1"), "the old job stays as it is");
}

/// Model: worker-versions, number-of-names
async fn a_redrive_for_one_more_version_keeps_to_the_limit_on_lanes(t: &Fixture) {
    t.set_tenant("default", TenantSettings { max_lanes: Some(1), ..TenantSettings::default() }).await;
    let old = t.submit(requiring("v1")).await.id;
    t.cancel(old).await;
    let other = Redrive { requires_version: Field::Set(version("v2")), ..Redrive::default() };
    let refused = t.store.redrive(&t.me, old, other).await;
    let problem = FieldProblem::LimitReached {
        name: "max_lanes",
        value: "v2".into(),
        limit: 1,
        tenant: "default".into(),
    };
    assert_eq!(refused, Err(ActionError::Invalid(FieldError::new("requires_version", problem))));
    t.store.redrive(&t.me, old, Redrive::default()).await.unwrap();
}

/// Model: worker-versions
async fn children_name_a_version_of_their_own(t: &Fixture) {
    let (v1, v2) = (worker_of(t, "v1").await, worker_of(t, "v2").await);
    t.submit(requiring("v1")).await;
    let parent = t.claim_one(v1).await;
    let jobs = vec![new_job("child"), NewJob { requires_version: Some(version("v2")), ..new_job("child") }];
    let group = NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs };
    t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap();
    let any = t.claim_one(v1).await;
    assert_eq!(required(&any.job), None, "a child does not require the version of its parent");
    let pinned = t.claim_one(v2).await;
    assert_eq!(required(&pinned.job), Some("v2"));
    t.complete(v1, &any).await;
    t.complete(v2, &pinned).await;
    assert_eq!(t.claim_one(v1).await.job.id, parent.job.id);
}

/// Model: worker-versions, concurrency-limits
async fn limits_and_pauses_count_all_versions(t: &Fixture) {
    t.set_queue("default", QueueSettings { max_running: Some(2), ..QueueSettings::default() }).await;
    t.submit_all(vec![requiring("v1"), requiring("v2"), requiring("v1"), new_job("report")]).await;
    let (v1, v2) = (worker_of(t, "v1").await, worker_of(t, "v2").await);
    assert_eq!(t.claim(v1, 1).await.len(), 1);
    assert_eq!(t.claim(v2, 10).await.len(), 1, "two run in the queue, whatever their versions");
    assert!(t.claim(v1, 10).await.is_empty());
    let found = t.store.stats(&t.me).await.unwrap();
    assert_eq!(found.queues[&queue("default")][&JobState::Running], 2);
}

/// Model: worker-versions, explained-waiting
async fn a_reason_names_the_version_and_those_that_are_live(t: &Fixture) {
    let id = t.submit(requiring("v1")).await.id;
    let why = t.get(id).await.why.unwrap();
    assert_eq!(
        (why.code, why.message.as_str()),
        ("no_worker", "no live worker of version v1 takes report from queue default")
    );
    worker_of(t, "v3").await;
    worker_of(t, "v2").await;
    t.steady_worker().await;
    let why = t.get(id).await.why.unwrap();
    let expected = "no live worker of version v1 takes report from queue default; live workers that would take it have \
                    version v2, v3";
    assert_eq!((why.code, why.message.as_str()), ("no_worker", expected));
    assert_eq!(why.details["requires_version"], "v1");
    assert_eq!(why.details["live_versions"], serde_json::json!(["v2", "v3"]));
    worker_of(t, "v1").await;
    assert_eq!(t.get(id).await.why, None);
}

/// Model: worker-versions
async fn debounced_submissions_for_different_versions_do_not_replace_each_other(t: &Fixture) {
    let debounce = Some(Debounce { key: "one".into(), delay: secs(10) });
    let job = |version: Option<&str>| NewJob {
        debounce: debounce.clone(),
        requires_version: version.map(|text| WorkerVersion::new(text).unwrap()),
        ..new_job("save")
    };
    let mut seen = Vec::new();
    for version in [None, Some("v1"), Some("v2")] {
        let first = t.submit_all(vec![job(version)]).await.remove(0);
        let second = t.submit_all(vec![job(version)]).await.remove(0);
        assert!(!first.is_debounced && second.is_debounced);
        assert_eq!(first.job.id, second.job.id);
        seen.push(first.job.id);
    }
    t.advance(secs(10));
    let worker = worker_of(t, "v2").await;
    assert_eq!(t.claim_ids(worker, 10).await, [seen[0], seen[2]]);
    assert_eq!(t.state(seen[1]).await, JobState::Scheduled);
}
