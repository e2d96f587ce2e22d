//! Who reads payloads, results, checkpoints and logs: one rule, whichever way is asked.

use std::time::Duration;

use windlass::error::StoreError;
use windlass::job::{GroupStrategy, JobId, JobMetadata, NewJob, Payload};
use windlass::key::KeyId;
use windlass::store::caller::{Caller, Role};
use windlass::store::{
    AttemptWrite, ClaimRequest, LeaseRef, ListRequest, NewGroup, NewWorker, Outcome, Report, SubmitOptions,
};

use crate::fixture::{Fixture, new_job, tenant};

tests!(
    jobs_payload, jobs::payload:
    payloads_are_for_operators_owners_and_the_worker_that_runs_the_job,
    a_duplicate_shows_another_owner_nothing_of_the_job,
    results_of_children_are_for_those_who_read_the_parent,
);

const MARK: &str = "confidential";

fn bearer(digit: char, role: Role) -> Caller {
    let key: KeyId = digit.to_string().repeat(16).parse().unwrap();
    let within = (role != Role::Admin).then(|| tenant("default"));
    Caller { key: Some(key), ..Caller::new(format!("bearer-{digit}"), role, within) }
}

fn secret_job() -> NewJob {
    let url = format!("https://example.com/hook?token={MARK}#{MARK}");
    let metadata = JobMetadata { callback_url: Some(url), ..JobMetadata::default() };
    NewJob {
        payload: Payload::json(format!("{MARK:?}")),
        metadata,
        idempotency_key: Some("order-1".into()),
        ..new_job("email.send")
    }
}

async fn submitted(t: &Fixture, owner: &Caller, job: NewJob) -> JobId {
    t.store.submit(owner, vec![job], SubmitOptions::default()).await.unwrap()[0].job.id
}

/// What a caller gets to see of a job, in every way there is; each must agree with the others.
async fn reads(t: &Fixture, caller: &Caller, id: JobId) -> bool {
    let looked = t.store.get(caller, id).await.unwrap().unwrap();
    let listed = t.store.list(caller, ListRequest::default()).await.unwrap().jobs;
    let listed = listed.into_iter().find(|snapshot| snapshot.job.id == id).unwrap();
    let waited = t.store.wait(caller, id, Duration::ZERO).await.unwrap().unwrap();
    let is_shown = !looked.is_redacted;
    for snapshot in [looked, listed, waited] {
        let text = String::from_utf8_lossy(&snapshot.spec.payload.bytes).into_owned();
        let url = snapshot.spec.metadata.callback_url.clone().unwrap();
        assert_eq!(snapshot.is_redacted, !is_shown);
        assert_eq!((text.contains(MARK), url.contains(MARK)), (is_shown, is_shown), "{text} {url}");
        assert!(url.starts_with("https://example.com/hook"));
        assert_eq!(snapshot.version(), t.get(id).await.version(), "the version is the same for every caller");
    }
    let denied = |error: StoreError| assert!(matches!(error, StoreError::Forbidden(_)), "{error}");
    let parts = [
        t.store.result(caller, id).await.map(drop),
        t.store.checkpoints(caller, id).await.map(drop),
        t.store.first_checkpoints(caller, id, 1).await.map(drop),
        t.store.step_times(caller, id, 1).await.map(drop),
        t.store.logs(caller, id, 0).await.map(drop),
        t.store.stream(caller, id, 0, 1, Duration::ZERO).await.map(drop),
    ];
    for part in parts {
        assert_eq!(part.is_ok(), is_shown);
        part.err().into_iter().for_each(denied);
    }
    is_shown
}

async fn payloads_are_for_operators_owners_and_the_worker_that_runs_the_job(t: &Fixture) {
    let (owner, worker) = (bearer('a', Role::Submitter), bearer('b', Role::Worker));
    let id = submitted(t, &owner, secret_job()).await;
    let others = [bearer('c', Role::Submitter), bearer('d', Role::Worker), bearer('e', Role::Viewer)];
    let readers = [owner, bearer('f', Role::Operator), bearer('0', Role::Admin)];
    let works = t.store.register(&worker, NewWorker::default()).await.unwrap().id;
    assert!(!reads(t, &worker, id).await, "before it has the lease");
    let request = ClaimRequest::new(works, 1);
    let claimed = t.store.claim(&worker, &request, Duration::ZERO).await.unwrap().jobs.remove(0);
    let (lease, value) = (LeaseRef::new(id, claimed.job.fence, works), format!("{MARK:?}").into_bytes());
    let notes =
        vec![AttemptWrite::Checkpoint { step: "s".into(), value }, AttemptWrite::Logs(vec![MARK.into()])];
    t.store.record(&worker, lease, notes).await.unwrap();
    assert!(reads(t, &worker, id).await, "while it has the lease");
    for other in &others {
        assert!(!reads(t, other, id).await, "{other:?}");
    }
    let result = Some(format!("{MARK:?}").into_bytes());
    let done = vec![Report::new(id, claimed.job.fence, Outcome::Completed { result })];
    t.store.finish(&worker, works, done).await.unwrap();
    assert!(!reads(t, &worker, id).await, "after it gave the lease back");
    for reader in &readers {
        assert!(reads(t, reader, id).await, "{reader:?}");
    }
    for other in &others {
        assert!(!reads(t, other, id).await, "{other:?}");
    }
}

async fn a_duplicate_shows_another_owner_nothing_of_the_job(t: &Fixture) {
    let (owner, other) = (bearer('a', Role::Submitter), bearer('c', Role::Submitter));
    let id = submitted(t, &owner, secret_job()).await;
    let again = NewJob { payload: Payload::json("1"), ..secret_job() };
    for (caller, is_redacted) in [(&other, true), (&owner, false)] {
        let repeat = t.store.submit_and_read(caller, vec![again.clone()], SubmitOptions::default()).await;
        let receipt = repeat.unwrap().remove(0);
        assert!(receipt.is_duplicate && receipt.job.job.id == id);
        assert_eq!(receipt.job.is_redacted, is_redacted);
        let text = format!("{:?}", receipt.job.spec.metadata.callback_url);
        assert_eq!(text.contains(MARK), !is_redacted);
    }
}

async fn results_of_children_are_for_those_who_read_the_parent(t: &Fixture) {
    let (owner, worker) = (bearer('a', Role::Submitter), bearer('b', Role::Worker));
    let parent = submitted(t, &owner, new_job("parent")).await;
    let works = t.store.register(&worker, NewWorker::default()).await.unwrap().id;
    let claim = async || {
        let request = ClaimRequest::new(works, 1);
        t.store.claim(&worker, &request, Duration::ZERO).await.unwrap().jobs.remove(0)
    };
    let claimed = claim().await;
    let group =
        NewGroup { name: "all".into(), strategy: GroupStrategy::CollectAll, jobs: vec![new_job("child")] };
    let lease = LeaseRef::new(parent, claimed.job.fence, works);
    let child = t.store.spawn(&worker, lease, group).await.unwrap().children[0].id;
    let claimed = claim().await;
    let result = Some(format!("{MARK:?}").into_bytes());
    let done = vec![Report::new(child, claimed.job.fence, Outcome::Completed { result })];
    t.store.finish(&worker, works, done).await.unwrap();
    let sees = async |caller: &Caller| {
        let groups = t.store.groups(caller, parent).await.unwrap().unwrap();
        let is_shown = groups[0].children[0].1.is_some();
        assert_eq!(groups[0].redacted.contains(&child), !is_shown);
        assert_eq!(t.store.result(caller, child).await.is_ok(), is_shown);
        is_shown
    };
    assert!(!sees(&worker).await, "it holds neither lease");
    claim().await;
    assert!(sees(&worker).await, "the parent runs again and needs them");
    assert!(sees(&owner).await);
    for (other, is_shown) in [
        (bearer('c', Role::Submitter), false),
        (bearer('d', Role::Worker), false),
        (bearer('e', Role::Viewer), false),
        (bearer('f', Role::Operator), true),
    ] {
        assert_eq!(sees(&other).await, is_shown, "{other:?}");
    }
}
