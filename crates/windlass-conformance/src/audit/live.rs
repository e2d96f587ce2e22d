//! Events as they are committed.

use std::sync::Arc;

use tokio::sync::broadcast::Receiver;
use windlass::audit::{AuditEvent, Record};
use windlass::job::{Failure, JobState, NewJob};
use windlass::store::caller::Role;
use windlass::store::{ActionRequest, Finish, Pause, PauseTarget, SubmitOptions, Suspend};

use crate::fixture::{Fixture, caller, new_job, queue, secs};

tests!(
    audit_live, audit::live:
    every_transition_is_shown_live_whatever_is_kept,
    what_is_kept_is_shown_with_its_number_in_the_order_of_commits,
    a_refusal_and_a_no_op_are_not_events,
    a_commit_says_whose_jobs_it_changed,
);

fn received(events: &mut Receiver<Arc<Record>>) -> Vec<Arc<Record>> {
    std::iter::from_fn(|| events.try_recv().ok()).collect()
}

/// Model: atomic-changes, audit-trail
async fn every_transition_is_shown_live_whatever_is_kept(t: &Fixture) {
    use AuditEvent::{Claimed, Completed, Promoted, Retried, Submitted};
    let mut events = t.store.live_events();
    let (worker, claimed) = t.running(new_job("report")).await;
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.advance(secs(2));
    let claimed = t.claim_one(worker).await;
    t.complete(worker, &claimed).await;
    let shown = received(&mut events);
    let names: Vec<AuditEvent> = shown.iter().map(|record| record.event).collect();
    assert_eq!(names, [Submitted, Claimed, Retried, Promoted, Claimed, Completed]);
    let numbers: Vec<u64> = shown.iter().map(|record| record.seq).collect();
    assert_eq!(numbers, [0, 0, 0, 0, 0, 1], "only the end is kept by default");
    assert_eq!(*shown[5], t.trail().await[0]);
}

/// Model: atomic-changes
async fn what_is_kept_is_shown_with_its_number_in_the_order_of_commits(t: &Fixture) {
    t.audit_all("default").await;
    let mut events = t.store.live_events();
    let before = t.trail().await.len();
    let mut submitting = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (store, me) = (t.store.clone(), t.me.clone());
        submitting.spawn(async move {
            let job = NewJob { unique_key: Some(n.to_string()), ..new_job("report") };
            let id = store.submit(&me, vec![job], SubmitOptions::default()).await.unwrap()[0].job.id;
            store.act(&me, id, ActionRequest::Suspend(Suspend::default())).await.unwrap();
            store.act(&me, id, ActionRequest::Cancel { reason: None }).await.unwrap();
        });
    }
    submitting.join_all().await;
    let shown: Vec<Record> = received(&mut events).iter().map(|record| (**record).clone()).collect();
    assert_eq!(shown.len(), 60);
    assert_eq!(shown, t.trail().await[before..], "the feed is the audit trail");
}

/// Model: refused-changes, atomic-changes
async fn a_refusal_and_a_no_op_are_not_events(t: &Fixture) {
    let placed = t.placed_as(JobState::Completed, NewJob { queue: queue("q"), ..new_job("report") }).await;
    let suspended = t.placed(JobState::Suspended).await;
    let mut events = t.store.live_events();
    assert_eq!(t.complete(placed.worker, &placed.claimed.unwrap()).await, Finish::Stale);
    t.store.act(&t.me, placed.id, ActionRequest::Cancel { reason: None }).await.unwrap_err();
    t.resume(placed.id).await;
    t.suspend(suspended.id).await;
    t.tick().await;
    assert!(received(&mut events).is_empty());
}

/// Model: atomic-changes, tenant-isolation
async fn a_commit_says_whose_jobs_it_changed(t: &Fixture) {
    let ann = caller("ann", Role::Operator, "blue");
    let bob = caller("bob", Role::Operator, "red");
    let (mut changes, before) = (t.store.changes(), t.store.changed());
    let id = t.store.submit(&ann, vec![new_job("report")], SubmitOptions::default()).await.unwrap()[0].job.id;
    let change = changes.try_recv().unwrap();
    assert_eq!((change.concerns(&ann), change.concerns(&bob), change.concerns(&t.me)), (true, false, true));
    t.store.act(&bob, id, ActionRequest::Cancel { reason: None }).await.unwrap_err();
    t.tick().await;
    assert!(changes.try_recv().is_err(), "a refusal changes nothing");
    assert_eq!(t.store.changed(), before + 1);
    t.store.pause(&t.me, PauseTarget::Gate, Pause::default()).await.unwrap();
    let change = changes.try_recv().unwrap();
    assert!(change.concerns(&ann) && change.concerns(&bob), "a pause concerns every tenant");
    drop(changes);
    t.store.act(&ann, id, ActionRequest::Cancel { reason: None }).await.unwrap();
    assert_eq!(t.store.changed(), before + 3, "it is counted also without listeners");
}
