//! One action on all jobs that fit a filter.

use std::collections::BTreeMap;

use windlass::audit::AuditEvent;
use windlass::error::ActionError;
use windlass::job::{JobState, NewJob, Priority};
use windlass::limits;
use windlass::store::caller::Role;
use windlass::store::{
    ActionRequest, BulkAction, BulkCursor, BulkReport, Filter, Patch, Redrive, SubmitOptions, Suspend,
};

use crate::fixture::{Fixture, caller, new_job, queue};

tests!(
    actions_bulk, actions::bulk:
    each_action_counts_what_it_matched_and_what_it_changed,
    a_dry_run_counts_and_changes_nothing,
    more_jobs_than_one_commit_takes_are_all_done,
    a_bulk_action_can_be_done_in_parts,
    a_bulk_redrive_leaves_alone_what_it_submitted,
    a_bulk_action_never_leaves_the_callers_tenant_or_own_jobs,
    a_role_that_may_not_manage_jobs_does_nothing_in_bulk,
);

fn cancel() -> BulkAction {
    BulkAction::Act(ActionRequest::Cancel { reason: None })
}

async fn bulk(t: &Fixture, filter: &Filter, action: BulkAction) -> (u64, u64) {
    let BulkReport { matched, changed, .. } = t.store.bulk(&t.me, filter, action).await.unwrap();
    (matched, changed)
}

async fn count(t: &Fixture, state: JobState) -> u64 {
    t.store.stats(&t.me).await.unwrap().states.get(&state).copied().unwrap_or(0)
}

async fn a_bulk_action_can_be_done_in_parts(t: &Fixture) {
    t.submit_all((0..7).map(|_| new_job("report")).collect()).await;
    let all = Filter::default();
    assert_eq!(bulk(t, &all, cancel()).await, (7, 7));
    let (mut from, mut parts) = (None, Vec::new());
    loop {
        let redrive = BulkAction::Redrive(Redrive::default());
        let (done, next) = t.store.bulk_some(&t.me, &all, redrive, from, 3).await.unwrap();
        parts.push((done.matched, done.changed));
        let Some(next) = next else { break };
        // It goes out and comes back as text.
        from = Some(next.to_string().parse::<BulkCursor>().unwrap());
    }
    assert_eq!(parts, [(3, 3), (3, 3), (1, 1)], "and none of the jobs that it submitted itself");
    assert_eq!(count(t, JobState::Scheduled).await, 7);
    assert!("nonsense".parse::<BulkCursor>().is_err());
}

/// Model: refused-changes
async fn each_action_counts_what_it_matched_and_what_it_changed(t: &Fixture) {
    let in_queue = |name: &str| Filter { queue: Some(queue(name)), ..Filter::default() };
    let job = |hold| NewJob { queue: queue("mine"), hold, ..new_job("report") };
    t.submit_all(vec![job(true), job(false), job(false)]).await;
    t.submit_all(vec![NewJob { queue: queue("other"), ..new_job("report") }]).await;
    let mine = in_queue("mine");
    assert_eq!(bulk(t, &mine, BulkAction::Act(ActionRequest::Submit)).await, (3, 1));
    assert_eq!(bulk(t, &mine, BulkAction::Act(ActionRequest::Priority(Priority::HIGH))).await, (3, 3));
    assert_eq!(bulk(t, &mine, BulkAction::Act(ActionRequest::Priority(Priority::HIGH))).await, (3, 0));
    let tags = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
    let patch = ActionRequest::Patch(Patch { tags: Some(tags), ..Patch::default() });
    assert_eq!(bulk(t, &mine, BulkAction::Act(patch)).await, (3, 3));
    let tagged = Filter { tag: Some(("team".into(), "red".into())), ..Filter::default() };
    assert_eq!(bulk(t, &tagged, BulkAction::Act(ActionRequest::Suspend(Suspend::default()))).await, (3, 3));
    assert_eq!(bulk(t, &mine, BulkAction::Act(ActionRequest::Resume { reason: None })).await, (3, 3));
    assert_eq!(bulk(t, &mine, BulkAction::Delete).await, (3, 0), "none is final");
    assert_eq!(bulk(t, &mine, cancel()).await, (3, 3));
    assert_eq!(bulk(t, &mine, cancel()).await, (3, 0));
    assert_eq!(bulk(t, &mine, BulkAction::Redrive(Redrive::default())).await, (3, 3));
    let ended = Filter { states: vec![JobState::Cancelled], ..in_queue("mine") };
    assert_eq!(bulk(t, &ended, BulkAction::Delete).await, (3, 3));
    assert_eq!((count(t, JobState::Cancelled).await, count(t, JobState::Scheduled).await), (0, 4));
    assert_eq!(bulk(t, &in_queue("nowhere"), cancel()).await, (0, 0));
}

/// Model: refused-changes
async fn a_dry_run_counts_and_changes_nothing(t: &Fixture) {
    let id = t.submit(new_job("report")).await.id;
    t.submit(NewJob { queue: queue("other"), ..new_job("report") }).await;
    let before = t.picture(id).await;
    assert_eq!(t.store.bulk_dry_run(&t.me, &Filter::default()).await.unwrap(), 2);
    let other = Filter { queue: Some(queue("other")), ..Filter::default() };
    assert_eq!(t.store.bulk_dry_run(&t.me, &other).await.unwrap(), 1);
    assert_eq!(t.picture(id).await, before);
}

/// Model: atomic-changes
async fn more_jobs_than_one_commit_takes_are_all_done(t: &Fixture) {
    let many = limits::BULK_JOBS_PER_COMMIT * 2 + 1;
    t.submit_all((0..many).map(|_| new_job("report")).collect()).await;
    // The action takes each job out of the filter that finds them.
    let scheduled = Filter { states: vec![JobState::Scheduled], ..Filter::default() };
    let expected = (many as u64, many as u64);
    assert_eq!(bulk(t, &scheduled, cancel()).await, expected);
    assert_eq!((count(t, JobState::Cancelled).await, count(t, JobState::Scheduled).await), (many as u64, 0));
    let events = t.trail().await;
    assert_eq!(events.len(), many);
    assert!(events.iter().all(|record| record.event == AuditEvent::Cancelled));
    assert_eq!(bulk(t, &Filter::default(), BulkAction::Delete).await, expected);
    assert_eq!(count(t, JobState::Cancelled).await, 0);
}

/// Model: final-states
async fn a_bulk_redrive_leaves_alone_what_it_submitted(t: &Fixture) {
    let many = limits::BULK_JOBS_PER_COMMIT + 1;
    t.submit_all((0..many).map(|_| new_job("report")).collect()).await;
    bulk(t, &Filter::default(), cancel()).await;
    let expected = (many as u64, many as u64);
    assert_eq!(bulk(t, &Filter::default(), BulkAction::Redrive(Redrive::default())).await, expected);
    assert_eq!(count(t, JobState::Scheduled).await, many as u64);
}

/// Model: tenant-isolation, roles
async fn a_bulk_action_never_leaves_the_callers_tenant_or_own_jobs(t: &Fixture) {
    let ann = caller("ann", Role::Submitter, "blue");
    let bob = caller("bob", Role::Submitter, "blue");
    let eve = caller("eve", Role::Operator, "red");
    for who in [&ann, &bob, &eve] {
        t.store.submit(who, vec![new_job("report")], SubmitOptions::default()).await.unwrap();
    }
    let high = BulkAction::Act(ActionRequest::Priority(Priority::HIGH));
    for (who, expected) in [(&ann, 1), (&eve, 1)] {
        assert_eq!(t.store.bulk_dry_run(who, &Filter::default()).await.unwrap(), expected);
        let done = t.store.bulk(who, &Filter::default(), high.clone()).await.unwrap();
        assert_eq!(done, BulkReport { matched: expected, changed: expected, skipped: 0 });
    }
    let blue = Filter { tenant: Some(crate::fixture::tenant("blue")), ..Filter::default() };
    assert_eq!(t.store.bulk_dry_run(&eve, &blue).await.unwrap(), 0, "as if it did not exist");
    assert_eq!(t.store.bulk(&eve, &blue, cancel()).await.unwrap(), BulkReport::default());
    let of_bob = Filter { owner: Some("bob".into()), ..Filter::default() };
    let done = t.store.bulk(&ann, &of_bob, cancel()).await.unwrap();
    assert_eq!(done.changed, 0, "asking for another's jobs gives no right to them");
    assert_eq!(count(t, JobState::Cancelled).await, 0);
    let operator = caller("olga", Role::Operator, "blue");
    assert_eq!(t.store.bulk(&operator, &Filter::default(), cancel()).await.unwrap().changed, 2);
}

/// Model: roles
async fn a_role_that_may_not_manage_jobs_does_nothing_in_bulk(t: &Fixture) {
    let id = t.submit(new_job("report")).await.id;
    let before = t.picture(id).await;
    for role in [Role::Worker, Role::Viewer] {
        let who = caller("who", role, "default");
        let refused = t.store.bulk(&who, &Filter::default(), cancel()).await;
        assert!(matches!(refused, Err(ActionError::Forbidden(_))), "{refused:?}");
        let refused = t.store.bulk_dry_run(&who, &Filter::default()).await;
        assert!(matches!(refused, Err(ActionError::Forbidden(_))), "{refused:?}");
    }
    assert_eq!(t.picture(id).await, before);
}
