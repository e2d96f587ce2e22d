//! A worker belongs to the API key that registered it: no other key claims, reports or writes for it.

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::error::WorkError;
use windlass::job::{GroupStrategy, JobState, WorkerId};
use windlass::key::KeyId;
use windlass::store::caller::{Caller, Role};
use windlass::store::{
    AttemptWrite, ClaimRequest, ClaimedJob, Finish, HeartbeatItem, LeaseRef, NewGroup, NewWorker, Outcome,
    Pause, PauseTarget, Report,
};

use crate::fixture::{Fixture, new_job, tenant};

tests!(
    claims_worker_key, claims::worker_key:
    only_the_key_that_registered_a_worker_acts_for_it,
    people_who_pause_workers_remove_them,
    the_audit_trail_names_the_key_of_a_worker,
);

/// A caller with an API key in the default tenant.
fn bearer(digit: char, role: Role) -> Caller {
    let key: KeyId = digit.to_string().repeat(16).parse().unwrap();
    let within = (role != Role::Admin).then(|| tenant("default"));
    Caller { key: Some(key), ..Caller::new(format!("bearer-{digit}"), role, within) }
}

/// A worker of this caller's, and a job that it has claimed.
async fn claimed_by(t: &Fixture, caller: &Caller) -> (WorkerId, ClaimedJob) {
    t.submit(new_job("email.send")).await;
    let worker = t.store.register(caller, NewWorker::default()).await.unwrap().id;
    let request = ClaimRequest::new(worker, 1);
    (worker, t.store.claim(caller, &request, Duration::ZERO).await.unwrap().jobs.remove(0))
}

/// Model: roles
async fn only_the_key_that_registered_a_worker_acts_for_it(t: &Fixture) {
    let owner = bearer('a', Role::Worker);
    let (worker, claimed) = claimed_by(t, &owner).await;
    let (id, fence) = (claimed.job.id, claimed.job.fence);
    let done = || vec![Report::new(id, fence, Outcome::Completed { result: None })];
    let note = || vec![AttemptWrite::Checkpoint { step: "charge".into(), value: b"1".to_vec() }];
    let group =
        || NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs: vec![new_job("child")] };
    let before = t.everything().await;
    let strangers = [bearer('b', Role::Worker), bearer('c', Role::Operator), bearer('d', Role::Admin)];
    for stranger in strangers.iter().chain([&Caller::local()]) {
        let unknown = Some(WorkError::NoSuchWorker(worker));
        let request = ClaimRequest::new(worker, 1);
        assert_eq!(t.store.claim(stranger, &request, Duration::ZERO).await.err(), unknown);
        assert_eq!(
            t.store.heartbeat(stranger, worker, vec![HeartbeatItem::new(id, fence)]).await.err(),
            unknown
        );
        assert_eq!(t.store.finish(stranger, worker, done()).await.err(), unknown);
        let named = LeaseRef::new(id, fence, worker);
        assert_eq!(t.store.record(stranger, named, note()).await.err(), unknown);
        assert_eq!(t.store.spawn(stranger, named, group()).await.err(), unknown);
        // With the right fence, and without naming the worker.
        let nameless = LeaseRef { worker: None, ..named };
        assert_eq!(t.store.record(stranger, nameless, note()).await.err(), Some(WorkError::Stale(id)));
        assert_eq!(t.store.spawn(stranger, nameless, group()).await.err(), Some(WorkError::Stale(id)));
        // As a worker of its own.
        let own = t.store.register(stranger, NewWorker::default()).await.unwrap().id;
        assert_eq!(t.store.finish(stranger, own, done()).await.unwrap(), [Finish::Stale]);
        let refused = t.store.record(stranger, LeaseRef::new(id, fence, own), note()).await;
        assert_eq!(refused, Err(WorkError::Stale(id)));
        t.store.deregister(stranger, own).await.unwrap();
    }
    let refused = t.store.deregister(&strangers[0], worker).await;
    assert_eq!(refused, Err(WorkError::NoSuchWorker(worker)), "another worker's key does not remove it");
    assert_eq!(t.everything().await, before);
    t.store.record(&owner, LeaseRef { job: id, fence, worker: None }, note()).await.unwrap();
    assert_eq!(t.store.finish(&owner, worker, done()).await.unwrap(), [Finish::Applied(JobState::Completed)]);
}

/// Model: worker-pause, roles. A caller that may pause a worker may also remove it; its jobs are released.
async fn people_who_pause_workers_remove_them(t: &Fixture) {
    for person in [bearer('c', Role::Operator), bearer('d', Role::Admin), Caller::local()] {
        let (worker, claimed) = claimed_by(t, &bearer('a', Role::Worker)).await;
        t.store.pause(&person, PauseTarget::Worker(worker), Pause::default()).await.unwrap();
        assert_eq!(t.store.deregister(&person, worker).await.unwrap(), 1);
        assert_eq!(t.state(claimed.job.id).await, JobState::Retrying);
        t.cancel(claimed.job.id).await;
    }
}

/// Model: audit-trail. The actor is the worker, and the context has its key.
async fn the_audit_trail_names_the_key_of_a_worker(t: &Fixture) {
    let owner = bearer('a', Role::Worker);
    let (worker, claimed) = claimed_by(t, &owner).await;
    let outcome = Outcome::Completed { result: None };
    t.store
        .finish(&owner, worker, vec![Report::new(claimed.job.id, claimed.job.fence, outcome)])
        .await
        .unwrap();
    let records = t.trail().await;
    let record = records.iter().find(|record| record.event == AuditEvent::Completed).expect("recorded");
    assert_eq!((record.actor_type.as_str(), &record.actor_id), ("worker", &worker.to_string()));
    let context: serde_json::Value = serde_json::from_str(&record.context).unwrap();
    assert_eq!(context["key"], "a".repeat(16));
    assert_eq!(context["state"], "completed");
    // A worker of a program with a local store has no key.
    let (worker, claimed) = t.running(new_job("email.send")).await;
    t.complete(worker, &claimed).await;
    let records = t.trail().await;
    let last = records.iter().rfind(|record| record.event == AuditEvent::Completed).expect("recorded");
    assert!(!last.context.contains("key"), "{}", last.context);
}
