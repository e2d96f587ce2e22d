//! Preconditions: an action on the version of a job that the caller has seen, and on no other.

use std::time::Duration;

use windlass::error::ActionError;
use windlass::job::{Failure, JobMetadata, JobState, NewJob, Priority, Progress, SuspendMode, Version};
use windlass::store::engine::RecordQuery;
use windlass::store::{
    ActionOptions, ActionRequest, HeartbeatItem, IfMatch, Outcome, Patch, Redrive, Suspend,
};

use crate::fixture::{Fixture, new_job};

tests!(
    jobs_precondition, jobs::precondition:
    an_action_on_a_version_that_is_gone_is_refused_and_changes_nothing,
    every_change_of_a_job_gives_it_another_version,
    a_running_attempt_that_reports_changes_no_version,
    redriving_and_deleting_look_at_the_version_too,
    of_many_who_act_on_one_version_one_succeeds,
);

fn only(version: Version) -> ActionOptions {
    ActionOptions { strict: false, if_match: version.into() }
}

fn priority(value: i64) -> ActionRequest {
    ActionRequest::Priority(Priority::new(value).unwrap())
}

fn tagged(value: &str) -> ActionRequest {
    let tags = [("k".to_owned(), value.to_owned())].into();
    ActionRequest::Patch(Patch { tags: Some(tags), ..Patch::default() })
}

async fn an_action_on_a_version_that_is_gone_is_refused_and_changes_nothing(t: &Fixture) {
    let id = t.submit(new_job("email.send")).await.id;
    let seen = t.get(id).await.version();
    t.store.act_with(&t.me, id, priority(7), only(seen)).await.unwrap();
    let now = t.get(id).await;
    assert_ne!(now.version(), seen);
    let records = t.records(RecordQuery::default()).await.len();
    for act in [
        priority(9),
        tagged("x"),
        ActionRequest::Suspend(Suspend::default()),
        ActionRequest::Resume { reason: None },
        ActionRequest::Cancel { reason: None },
        ActionRequest::Submit,
    ] {
        let refused = t.store.act_with(&t.me, id, act, only(seen)).await;
        assert_eq!(refused, Err(ActionError::Changed { id, version: now.version() }));
    }
    let refused = t.store.signal_if(&t.me, id, "go", b"1".to_vec(), seen.into()).await;
    assert_eq!(refused, Err(ActionError::Changed { id, version: now.version() }));
    assert_eq!(t.get(id).await, now);
    assert_eq!(t.records(RecordQuery::default()).await.len(), records);
    let either =
        ActionOptions { if_match: IfMatch::one_of([seen, now.version()]), ..ActionOptions::default() };
    assert!(t.store.act_with(&t.me, id, tagged("y"), either).await.unwrap().is_changed);
    let none = ActionOptions { if_match: IfMatch::one_of([]), ..ActionOptions::default() };
    t.store.act_with(&t.me, id, tagged("z"), none).await.unwrap_err();
    assert!(t.store.act_with(&t.me, id, tagged("z"), ActionOptions::default()).await.unwrap().is_changed);
}

/// Whatever happens to a job, also twice within one millisecond.
async fn every_change_of_a_job_gives_it_another_version(t: &Fixture) {
    let mut versions = Vec::new();
    let job = NewJob { hold: true, metadata: JobMetadata::default(), ..new_job("email.send") };
    let id = t.submit(job).await.id;
    let worker = t.worker().await;
    versions.push(t.get(id).await.version());
    for act in [
        tagged("a"),
        tagged("b"),
        priority(3),
        priority(4),
        ActionRequest::Submit,
        ActionRequest::Suspend(Suspend::default()),
    ] {
        assert!(t.act(id, act).await.is_changed);
        versions.push(t.get(id).await.version());
    }
    t.resume(id).await;
    versions.push(t.get(id).await.version());
    let claimed = t.claim_one(worker).await;
    versions.push(t.get(id).await.version());
    let failed = Outcome::Failed(Failure::temporary("no").with_retry_after(Duration::from_secs(1)));
    t.finish(worker, id, claimed.job.fence, failed).await;
    versions.push(t.get(id).await.version());
    t.advance(Duration::from_secs(2));
    t.tick().await;
    versions.push(t.get(id).await.version());
    let claimed = t.claim_one(worker).await;
    versions.push(t.get(id).await.version());
    t.complete(worker, &claimed).await;
    versions.push(t.get(id).await.version());
    t.store.redrive(&t.me, id, Redrive::default()).await.unwrap();
    versions.push(t.get(id).await.version());
    let count = versions.len();
    versions.sort_unstable();
    versions.dedup();
    assert_eq!(versions.len(), count);
}

/// Otherwise no precondition on a running job could hold for longer than a heartbeat.
async fn a_running_attempt_that_reports_changes_no_version(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let id = claimed.job.id;
    let seen = t.get(id).await;
    t.advance(Duration::from_secs(20));
    let beat = HeartbeatItem {
        progress: Some(Progress { percent: 50.0, message: None }),
        logs: vec!["half".into()],
        ..HeartbeatItem::new(id, claimed.job.fence)
    };
    t.store.heartbeat(&t.me, worker, vec![beat]).await.unwrap();
    let now = t.get(id).await;
    assert_ne!(now.job.lease, seen.job.lease);
    assert_eq!(now.version(), seen.version());
    let suspend = ActionRequest::Suspend(Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() });
    assert!(t.store.act_with(&t.me, id, suspend, only(seen.version())).await.unwrap().is_changed);
}

async fn redriving_and_deleting_look_at_the_version_too(t: &Fixture) {
    let id = t.submit(new_job("email.send")).await.id;
    let seen = t.get(id).await.version();
    t.cancel(id).await;
    let now = t.get(id).await.version();
    let changed = ActionError::Changed { id, version: now };
    let redriven = t.store.redrive_if(&t.me, id, Redrive::default(), seen.into()).await;
    assert_eq!(redriven, Err(changed.clone()));
    assert_eq!(t.store.delete_if(&t.me, id, seen.into()).await, Err(changed));
    assert_eq!(t.state(id).await, JobState::Cancelled);
    t.store.delete_if(&t.me, id, now.into()).await.unwrap();
    assert_eq!(t.store.delete_if(&t.me, id, now.into()).await, Err(ActionError::NotFound(id)));
}

/// The version is compared in the commit that changes the job, so no other commit comes in between.
async fn of_many_who_act_on_one_version_one_succeeds(t: &Fixture) {
    let id = t.submit(new_job("email.send")).await.id;
    let seen = t.get(id).await.version();
    let acts = (1..=20).map(|value| {
        let (store, me) = (t.store.clone(), t.me.clone());
        tokio::spawn(async move { store.act_with(&me, id, priority(value), only(seen)).await })
    });
    let mut changed = 0;
    for act in acts.collect::<Vec<_>>() {
        match act.await.unwrap() {
            Ok(acted) => changed += u32::from(acted.is_changed),
            Err(error) => assert!(matches!(error, ActionError::Changed { .. }), "{error}"),
        }
    }
    assert_eq!(changed, 1);
}
