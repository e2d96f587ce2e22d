//! Fences: a worker that does not hold a job any more, or never did, changes nothing by any call.

use std::collections::HashSet;
use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::error::{ActionError, WorkError};
use windlass::job::{
    Failure, Fence, GroupStrategy, JobId, JobState, NewJob, Progress, SuspendMode, WorkerId,
};
use windlass::store::caller::{Caller, Role};
use windlass::store::{
    ActionRequest, AttemptWrite, ClaimedJob, Directive, Finish, HeartbeatItem, LeaseRef, NewGroup, NewWorker,
    Outcome, Park, Report, Suspend,
};

use crate::fixture::{Fixture, lease_ref, new_job, tenant};

tests!(
    claims_fence, claims::fence:
    a_stale_fence_changes_nothing,
    another_workers_fence_changes_nothing,
    a_fence_not_given_out_changes_nothing,
    a_fence_grows_and_is_never_used_again,
    every_loss_of_a_lease_makes_the_fence_stale,
    a_returning_worker_writes_nothing,
    one_stale_report_does_not_touch_the_others,
    another_tenants_worker_writes_nothing,
    a_write_is_all_or_nothing,
    fences_carry_the_generation_and_random_bits,
    a_new_generation_fences_off_every_lease,
    a_new_generation_is_an_administrators_business,
);

const MINUTE: Duration = Duration::from_secs(60);

fn progress() -> Progress {
    Progress { percent: 50.0, message: Some("half".into()) }
}

fn notes() -> Vec<AttemptWrite> {
    vec![
        AttemptWrite::Checkpoint { step: "charge".into(), value: b"1".to_vec() },
        AttemptWrite::Progress(progress()),
        AttemptWrite::Logs(vec!["hello".into()]),
        AttemptWrite::Stream { offset: None, chunks: vec![b"1".to_vec()] },
    ]
}

fn group() -> NewGroup {
    NewGroup { name: "children".into(), strategy: GroupStrategy::CollectAll, jobs: vec![new_job("child")] }
}

fn outcomes() -> Vec<Outcome> {
    vec![
        Outcome::Completed { result: Some(b"1".to_vec()) },
        Outcome::Failed(Failure::temporary("again")),
        Outcome::Failed(Failure::permanent("bad", "bad")),
        Outcome::Released,
        Outcome::Parked(Park::For(MINUTE)),
    ]
}

/// Tries every call that writes for a job with this worker and fence, and makes sure that nothing changes.
async fn nothing_is_written(t: &Fixture, worker: WorkerId, job: JobId, fence: Fence) {
    let before = t.everything().await;
    for outcome in outcomes() {
        let report = Report { cost_cents: 5, ..Report::new(job, fence, outcome) };
        let answer = t.store.finish(&t.me, worker, vec![report]).await.unwrap();
        assert_eq!(answer, [Finish::Stale]);
    }
    let beat = HeartbeatItem {
        progress: Some(progress()),
        logs: vec!["hello".into()],
        timeout: Some(Duration::from_millis(1)),
        ..HeartbeatItem::new(job, fence)
    };
    let reply = t.store.heartbeat(&t.me, worker, vec![beat]).await.unwrap();
    assert_ne!(reply.directives[0].1, Directive::Continue);
    let lease = LeaseRef { job, fence, worker: Some(worker) };
    for note in notes() {
        assert_eq!(t.store.record(&t.me, lease, vec![note]).await.unwrap_err(), WorkError::Stale(job));
    }
    assert_eq!(t.store.spawn(&t.me, lease, group()).await.unwrap_err(), WorkError::Stale(job));
    assert_eq!(t.everything().await, before);
    assert!(t.store.checkpoints(&t.me, job).await.unwrap().unwrap().is_empty());
    assert!(t.store.logs(&t.me, job, 0).await.unwrap().unwrap().is_empty());
    assert_eq!(t.store.result(&t.me, job).await.unwrap().unwrap().0, None);
    assert!(t.store.stats(&t.me).await.unwrap().costs.is_empty());
}

/// Model: counters-and-fences, one-lease-at-a-time
async fn a_stale_fence_changes_nothing(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let (job, old) = (claimed.job.id, claimed.job.fence);
    t.fail(worker, &claimed, Failure::temporary("again")).await;
    nothing_is_written(t, worker, job, old).await;
    t.advance(Duration::from_secs(2));
    let again = t.claim_one(worker).await;
    assert!(again.job.fence > old);
    nothing_is_written(t, worker, job, old).await;
    assert_eq!(t.complete(worker, &again).await, Finish::Applied(JobState::Completed));
    nothing_is_written(t, worker, job, again.job.fence).await;
}

/// Model: counters-and-fences, one-lease-at-a-time
async fn another_workers_fence_changes_nothing(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let other = t.worker().await;
    nothing_is_written(t, other, claimed.job.id, claimed.job.fence).await;
    assert_eq!(t.complete(worker, &claimed).await, Finish::Applied(JobState::Completed));
}

/// Model: counters-and-fences
async fn a_fence_not_given_out_changes_nothing(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    for fence in [Fence(0), claimed.job.fence.next(), Fence(u64::MAX)] {
        nothing_is_written(t, worker, claimed.job.id, fence).await;
    }
    let waiting = t.submit(new_job("email.send")).await;
    nothing_is_written(t, worker, waiting.id, waiting.fence).await;
}

/// Model: counters-and-fences
async fn a_fence_grows_and_is_never_used_again(t: &Fixture) {
    let worker = t.worker().await;
    let job = t.submit(new_job("email.send")).await.id;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let claimed = t.claim_one(worker).await;
        seen.push(claimed.job.fence);
        t.act(job, ActionRequest::Suspend(Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() }))
            .await;
        seen.push(t.get(job).await.job.fence);
        t.resume(job).await;
    }
    t.claim_one(worker).await;
    seen.push(t.get(job).await.job.fence);
    t.cancel(job).await;
    seen.push(t.get(job).await.job.fence);
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
}

/// Model: counters-and-fences, interrupted-writes, one-lease-at-a-time
async fn every_loss_of_a_lease_makes_the_fence_stale(t: &Fixture) {
    for way in ["lease", "timeout", "lifetime", "suspend", "cancel"] {
        let limit = |name: &str| (way == name).then_some(Duration::from_secs(5));
        let job = NewJob {
            lease_timeout: limit("lease"),
            execution_timeout: limit("timeout"),
            lifetime: limit("lifetime"),
            ..new_job("email.send")
        };
        let (worker, claimed) = t.running(job).await;
        let id = claimed.job.id;
        match way {
            "suspend" => {
                let how = Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() };
                t.act(id, ActionRequest::Suspend(how)).await;
            }
            "cancel" => {
                t.cancel(id).await;
            }
            _ => {
                t.advance(Duration::from_secs(5));
                t.tick().await;
            }
        }
        nothing_is_written(t, worker, id, claimed.job.fence).await;
        if !t.state(id).await.is_final() {
            t.cancel(id).await;
        }
    }
}

/// Model: counters-and-fences, leases-and-heartbeats, one-lease-at-a-time
async fn a_returning_worker_writes_nothing(t: &Fixture) {
    type Call = for<'a> fn(&'a Fixture, ClaimedJob) -> futures::Call<'a>;
    let calls: [Call; 2] = [futures::note, futures::spawn];
    for call in calls {
        let (_, claimed) = t.running(new_job("email.send")).await;
        t.advance(Duration::from_secs(31));
        // Maintenance has not run: its leases end with the call, and the call is refused.
        for _ in 0..2 {
            assert_eq!(call(t, claimed.clone()).await, Some(WorkError::Stale(claimed.job.id)));
        }
        let job = t.get(claimed.job.id).await.job;
        assert_eq!((job.state, job.crashes), (JobState::Retrying, 1));
        t.cancel(claimed.job.id).await;
    }
}

/// The calls of a worker that are refused as a whole, as values.
mod futures {
    use std::future::Future;
    use std::pin::Pin;

    use super::{ClaimedJob, Fixture, WorkError, group, lease_ref, notes};

    pub(super) type Call<'a> = Pin<Box<dyn Future<Output = Option<WorkError>> + 'a>>;

    pub(super) fn note(t: &Fixture, claimed: ClaimedJob) -> Call<'_> {
        Box::pin(async move { t.store.record(&t.me, lease_ref(&claimed), notes()).await.err() })
    }

    pub(super) fn spawn(t: &Fixture, claimed: ClaimedJob) -> Call<'_> {
        Box::pin(async move { t.store.spawn(&t.me, lease_ref(&claimed), group()).await.err() })
    }
}

/// Model: counters-and-fences
async fn one_stale_report_does_not_touch_the_others(t: &Fixture) {
    let worker = t.worker().await;
    t.submit_all(vec![new_job("email.send"); 3]).await;
    let claimed = t.claim(worker, 3).await;
    t.cancel(claimed[1].job.id).await;
    let done = |n: usize| {
        let ClaimedJob { job, .. } = &claimed[n];
        Report::new(job.id, job.fence, Outcome::Completed { result: None })
    };
    let unknown = Report::new(JobId::new(t.now(), 7), Fence(1), Outcome::Released);
    let bad = Report { cost_cents: -1, ..done(2) };
    let answers =
        t.store.finish(&t.me, worker, vec![done(0), done(1), unknown, bad, done(2), done(2)]).await.unwrap();
    assert_eq!(answers[0], Finish::Applied(JobState::Completed));
    assert_eq!((&answers[1], &answers[2]), (&Finish::Stale, &Finish::Stale));
    assert!(matches!(answers[3], Finish::Rejected(_)));
    assert_eq!((&answers[4], &answers[5]), (&Finish::Applied(JobState::Completed), &Finish::Stale));
}

/// Model: counters-and-fences, tenant-isolation
async fn another_tenants_worker_writes_nothing(t: &Fixture) {
    let (_, claimed) = t.running(new_job("email.send")).await;
    let acme = Caller::new("acme-worker", Role::Worker, Some(tenant("acme")));
    let theirs = t.store.register(&acme, NewWorker::default()).await.unwrap().id;
    let (id, fence) = (claimed.job.id, claimed.job.fence);
    let before = t.everything().await;
    let report = Report::new(id, fence, Outcome::Completed { result: None });
    assert_eq!(t.store.finish(&acme, theirs, vec![report]).await.unwrap(), [Finish::Stale]);
    let reply = t.store.heartbeat(&acme, theirs, vec![HeartbeatItem::new(id, fence)]).await.unwrap();
    assert_eq!(reply.directives, [(id, Directive::Lost)]);
    for worker in [None, Some(theirs)] {
        let lease = LeaseRef { job: id, fence, worker };
        assert_eq!(t.store.record(&acme, lease, notes()).await.unwrap_err(), WorkError::NoSuchJob(id));
        assert_eq!(t.store.spawn(&acme, lease, group()).await.unwrap_err(), WorkError::NoSuchJob(id));
    }
    assert_eq!(t.everything().await, before);
}

/// Model: counters-and-fences, checkpoints
async fn a_write_is_all_or_nothing(t: &Fixture) {
    let (_, claimed) = t.running(new_job("email.send")).await;
    let mut bad = notes();
    bad.push(AttemptWrite::Progress(Progress { percent: 101.0, message: None }));
    let before = t.everything().await;
    let error = t.store.record(&t.me, lease_ref(&claimed), bad).await.unwrap_err();
    assert!(matches!(error, WorkError::Invalid(_)), "{error}");
    assert_eq!(t.everything().await, before);
    let unknown = LeaseRef { worker: None, ..lease_ref(&claimed) };
    t.store.record(&t.me, unknown, notes()).await.unwrap();
    let job = t.get(claimed.job.id).await.job;
    assert_eq!(job.details.progress, Some(progress()));
    let checkpoints = t.store.checkpoints(&t.me, job.id).await.unwrap().unwrap();
    assert_eq!((checkpoints[0].step.as_str(), &checkpoints[0].value[..]), ("charge", &b"1"[..]));
    assert_eq!(t.store.logs(&t.me, job.id, 0).await.unwrap().unwrap()[0].1.text, "hello");
}

/// Model: counters-and-fences, store-generation. A fence is below 2^53, carries the generation, and does not follow from the ones before.
async fn fences_carry_the_generation_and_random_bits(t: &Fixture) {
    let worker = t.worker().await;
    let count = t.submit_all(vec![new_job("email.send"); 20]).await.len();
    let mut first = HashSet::new();
    for generation in 1..=3 {
        assert_eq!(t.store.generation().await.unwrap(), generation);
        for claimed in t.claim(worker, count).await {
            let fence = claimed.job.fence;
            assert_eq!(fence.generation(), generation);
            assert!(fence.0 < 1 << 53);
            assert!(first.insert(fence), "another job was given {fence:?}");
        }
        t.store.begin_generation(&t.me, "a test").await.unwrap();
    }
    let within_first: Vec<u64> =
        first.iter().filter(|fence| fence.generation() == 1).map(|fence| fence.0).collect();
    let span = within_first.iter().max().unwrap() - within_first.iter().min().unwrap();
    assert!(span > 1 << 20, "fences lie within {span} of each other");
}

/// Model: store-generation, one-lease-at-a-time. A worker that held a job before the generation changed writes nothing any more, and the job runs again without a
/// failure being counted.
async fn a_new_generation_fences_off_every_lease(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let begun = t.store.begin_generation(&t.me, "the database was put back").await.unwrap();
    assert_eq!((begun.number, begun.released), (2, 1));
    t.tick().await;
    nothing_is_written(t, worker, claimed.job.id, claimed.job.fence).await;
    let again = t.claim_one(worker).await;
    assert_eq!(
        (again.job.id, again.job.attempt, again.job.failures, again.job.crashes),
        (claimed.job.id, 2, 0, 0)
    );
    nothing_is_written(t, worker, claimed.job.id, claimed.job.fence).await;
    assert_eq!(t.complete(worker, &again).await, Finish::Applied(JobState::Completed));
    let records = t.trail().await;
    let record =
        records.iter().find(|record| record.event == AuditEvent::GenerationChanged).expect("recorded");
    let context: serde_json::Value = serde_json::from_str(&record.context).unwrap();
    assert_eq!(
        context,
        serde_json::json!({
            "generation": 2, "previous_generation": 1, "reason": "the database was put back",
        })
    );
}

/// Model: roles
async fn a_new_generation_is_an_administrators_business(t: &Fixture) {
    for role in Role::ALL.into_iter().filter(|role| *role != Role::Admin) {
        let caller = Caller::new("ann", role, Some(tenant("default")));
        let refused = t.store.begin_generation(&caller, "mine").await;
        assert!(matches!(refused, Err(ActionError::Forbidden(_))), "{role:?}: {refused:?}");
    }
    assert_eq!(t.store.generation().await.unwrap(), 1);
}
