//! What people do to one job: cancel, change, delete, submit again.

pub mod bulk;
pub mod pending;
pub mod redrive;
pub mod suspend;

use std::collections::BTreeMap;

use windlass::audit::AuditEvent;
use windlass::error::{ActionError, InvalidTransition};
use windlass::job::{AttemptOutcome, JobAction, JobId, JobState, NewJob, Priority};
use windlass::limits;
use windlass::store::caller::Role;
use windlass::store::{
    ActionRequest, Directive, Filter, Finish, HeartbeatItem, ListRequest, Patch, Redrive, SubmitOptions,
    Suspend,
};

use crate::fixture::{Fixture, caller, new_job, secs, tenant};

tests!(
    actions, actions:
    cancelling_ends_a_job_in_every_state_that_is_not_final,
    cancelling_twice_changes_nothing_and_other_ends_are_refused,
    cancelling_a_running_job_fences_its_worker_off,
    a_held_job_is_submitted_once,
    a_priority_counts_for_the_next_claim_and_the_same_one_is_no_change,
    labels_can_be_changed_until_the_end,
    labels_beyond_their_limits_change_nothing,
    only_a_final_job_is_deleted_and_its_audit_stays,
    of_many_deletions_of_one_job_one_succeeds,
    an_unknown_job_is_not_found_by_any_action,
    a_submitter_manages_its_own_jobs_only,
);

fn cancel() -> ActionRequest {
    ActionRequest::Cancel { reason: Some("not needed".into()) }
}

/// Asserts that an action is refused by the state machine and leaves no trace.
async fn is_refused(t: &Fixture, id: JobId, act: ActionRequest, action: JobAction) {
    let before = t.picture(id).await;
    let state = t.state(id).await;
    let refused = t.store.act(&t.me, id, act).await;
    assert_eq!(refused, Err(ActionError::Refused(InvalidTransition { state, action })));
    assert_eq!(refused.unwrap_err().to_string(), format!("cannot {} a job that is {state}", action.verb()));
    assert_eq!(t.picture(id).await, before);
}

/// Asserts that an action finds the job as asked and leaves no trace.
async fn is_unchanged(t: &Fixture, id: JobId, act: ActionRequest) {
    let before = t.picture(id).await;
    assert!(!t.act(id, act.clone()).await.is_changed, "{act:?}");
    assert_eq!(t.picture(id).await, before);
}

/// Model: refused-changes
async fn cancelling_ends_a_job_in_every_state_that_is_not_final(t: &Fixture) {
    for state in JobState::ALL.into_iter().filter(|state| !state.is_final()) {
        let placed = t.placed(state).await;
        let acted = t.act(placed.id, cancel()).await;
        assert!(acted.is_changed && acted.job.state == JobState::Cancelled, "{state}");
        assert_eq!((acted.job.completed_at, acted.job.lease), (Some(t.now()), None));
        let error = acted.job.details.error.clone().unwrap();
        assert_eq!(error.message, "cancelled by local: not needed");
        let events = t.events_of(placed.id).await;
        assert_eq!(events.last(), Some(&AuditEvent::Cancelled));
        t.advance(secs(7200));
        t.tick().await;
        assert_eq!(t.state(placed.id).await, JobState::Cancelled, "nothing brings it back");
    }
}

/// Model: refused-changes
async fn cancelling_twice_changes_nothing_and_other_ends_are_refused(t: &Fixture) {
    let cancelled = t.placed(JobState::Cancelled).await.id;
    is_unchanged(t, cancelled, cancel()).await;
    for state in [JobState::Completed, JobState::Failed, JobState::DeadLetter] {
        is_refused(t, t.placed(state).await.id, cancel(), JobAction::Cancel).await;
    }
}

/// Model: counters-and-fences
async fn cancelling_a_running_job_fences_its_worker_off(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("report")).await;
    let id = claimed.job.id;
    let job = t.act(id, cancel()).await.job;
    assert!(job.fence > claimed.job.fence);
    assert_eq!(t.complete(worker, &claimed).await, Finish::Stale);
    let reply =
        t.store.heartbeat(&t.me, worker, vec![HeartbeatItem::new(id, claimed.job.fence)]).await.unwrap();
    assert_eq!(reply.directives, [(id, Directive::Cancel)]);
    assert_eq!(t.attempts(id).await[0].record.as_ref().unwrap().outcome, AttemptOutcome::Cancelled);
}

/// Model: refused-changes
async fn a_held_job_is_submitted_once(t: &Fixture) {
    let placed = t.placed(JobState::Created).await;
    assert!(t.claim(placed.worker, 1).await.is_empty());
    assert_eq!(t.act(placed.id, ActionRequest::Submit).await.job.state, JobState::Scheduled);
    is_refused(t, placed.id, ActionRequest::Submit, JobAction::Submit).await;
    assert_eq!(t.claim_one(placed.worker).await.job.id, placed.id);
    let delayed = t.submit(NewJob { hold: true, delay: Some(secs(60)), ..new_job("report") }).await;
    assert_eq!(t.act(delayed.id, ActionRequest::Submit).await.job.state, JobState::Delayed);
}

/// Model: changing-priority
async fn a_priority_counts_for_the_next_claim_and_the_same_one_is_no_change(t: &Fixture) {
    let jobs = t.submit_all(vec![new_job("report"), new_job("report")]).await;
    let second = jobs[1].job.id;
    let acted = t.act(second, ActionRequest::Priority(Priority::HIGH)).await;
    assert!(acted.is_changed);
    assert_eq!(acted.job.details.priority_updated_at, Some(t.now()));
    is_unchanged(t, second, ActionRequest::Priority(Priority::HIGH)).await;
    assert_eq!(t.events_of(second).await, [AuditEvent::PriorityUpdated]);
    let worker = t.worker().await;
    assert_eq!(t.claim_one(worker).await.job.id, second);
    for state in JobState::ALL {
        let placed = t.placed(state).await;
        let act = ActionRequest::Priority(Priority::CRITICAL);
        if state.is_final() {
            is_refused(t, placed.id, act, JobAction::Priority).await;
        } else {
            let acted = t.act(placed.id, act).await;
            assert_eq!((acted.job.priority, acted.job.state), (Priority::CRITICAL, state));
        }
    }
}

/// Model: writable-fields
async fn labels_can_be_changed_until_the_end(t: &Fixture) {
    let mut job = new_job("report");
    job.metadata.tags.insert("team".into(), "blue".into());
    let id = t.submit(job).await.id;
    let tags = BTreeMap::from([("team".to_owned(), "red".to_owned())]);
    let patch = Patch {
        priority: Some(Priority::LOW),
        tags: Some(tags.clone()),
        correlation_id: Some(Some("order-7".into())),
        callback_url: Some(Some("https://example.com/done".into())),
    };
    assert!(t.act(id, ActionRequest::Patch(patch.clone())).await.is_changed);
    let found = t.get(id).await;
    assert_eq!((found.spec.metadata.tags, found.job.priority), (tags, Priority::LOW));
    assert_eq!(found.spec.metadata.correlation_id.as_deref(), Some("order-7"));
    assert!(found.job.has.callback);
    assert_eq!(t.events_of(id).await, [AuditEvent::Patched, AuditEvent::PriorityUpdated]);
    is_unchanged(t, id, ActionRequest::Patch(patch.clone())).await;
    is_unchanged(t, id, ActionRequest::Patch(Patch::default())).await;
    // What is not named stays; what is named as nothing is cleared.
    t.act(id, ActionRequest::Patch(Patch { callback_url: Some(None), ..Patch::default() })).await;
    let metadata = t.get(id).await.spec.metadata;
    assert_eq!((metadata.callback_url, metadata.correlation_id.as_deref()), (None, Some("order-7")));
    let with_tag = async |value: &str| {
        let filter = Filter { tag: Some(("team".into(), value.into())), ..Filter::default() };
        t.store.list(&t.me, ListRequest { filter, ..ListRequest::default() }).await.unwrap().jobs.len()
    };
    assert_eq!((with_tag("blue").await, with_tag("red").await), (0, 1));
    for state in JobState::FINAL {
        is_refused(t, t.placed(state).await.id, ActionRequest::Patch(patch.clone()), JobAction::Patch).await;
    }
}

/// Model: writable-fields
async fn labels_beyond_their_limits_change_nothing(t: &Fixture) {
    let id = t.submit(new_job("report")).await.id;
    let before = t.picture(id).await;
    let tag = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let many = (0..=limits::TAGS_MAX).map(|n| (n.to_string(), String::new())).collect();
    let long = |count: usize| "x".repeat(count + 1);
    let tags = |tags| Patch { tags: Some(tags), priority: Some(Priority::HIGH), ..Patch::default() };
    let bad = [
        tags(many),
        tags(tag("", "x")),
        tags(tag(&long(limits::TAG_NAME_CHARS_MAX), "x")),
        tags(tag("x", &long(limits::TAG_VALUE_CHARS_MAX))),
        Patch { correlation_id: Some(Some(long(limits::CORRELATION_CHARS_MAX))), ..Patch::default() },
        Patch { callback_url: Some(Some(long(limits::CALLBACK_URL_CHARS_MAX))), ..Patch::default() },
    ];
    for patch in bad {
        let refused = t.store.act(&t.me, id, ActionRequest::Patch(patch)).await;
        assert!(matches!(refused, Err(ActionError::Invalid(_))), "{refused:?}");
    }
    for act in [
        ActionRequest::Cancel { reason: Some(long(limits::REASON_CHARS_MAX)) },
        ActionRequest::Suspend(Suspend {
            reason: Some(long(limits::REASON_CHARS_MAX)),
            ..Suspend::default()
        }),
    ] {
        assert!(matches!(t.store.act(&t.me, id, act).await, Err(ActionError::Invalid(_))));
    }
    assert_eq!(t.picture(id).await, before);
}

/// Model: audit-trail, refused-changes
async fn only_a_final_job_is_deleted_and_its_audit_stays(t: &Fixture) {
    for state in JobState::ALL {
        let placed = t.placed(state).await;
        let before = t.picture(placed.id).await;
        let deleted = t.store.delete(&t.me, placed.id).await;
        if !state.is_final() {
            assert_eq!(
                deleted,
                Err(ActionError::Refused(InvalidTransition { state, action: JobAction::Delete }))
            );
            assert_eq!(t.picture(placed.id).await, before);
            continue;
        }
        deleted.unwrap();
        assert_eq!(t.store.get(&t.me, placed.id).await.unwrap(), None);
        assert_eq!(t.store.attempts(&t.me, placed.id).await.unwrap(), None);
        let events = t.events_of(placed.id).await;
        assert_eq!((events.len(), events.last()), (2, Some(&AuditEvent::Deleted)), "{events:?}");
        assert_eq!(t.store.delete(&t.me, placed.id).await, Err(ActionError::NotFound(placed.id)));
    }
}

/// Model: atomic-changes
async fn of_many_deletions_of_one_job_one_succeeds(t: &Fixture) {
    let id = t.placed(JobState::Completed).await.id;
    let mut deleting = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, me) = (t.store.clone(), t.me.clone());
        deleting.spawn(async move { store.delete(&me, id).await });
    }
    let answers = deleting.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    assert_eq!(t.events_of(id).await, [AuditEvent::Completed, AuditEvent::Deleted]);
}

/// Model: refused-changes
async fn an_unknown_job_is_not_found_by_any_action(t: &Fixture) {
    let unknown = JobId::from_bytes([7; 16]);
    let acts = [
        ActionRequest::Submit,
        ActionRequest::Suspend(Suspend::default()),
        ActionRequest::Resume { reason: None },
        cancel(),
        ActionRequest::Priority(Priority::HIGH),
        ActionRequest::Patch(Patch::default()),
    ];
    for act in acts {
        assert_eq!(t.store.act(&t.me, unknown, act).await, Err(ActionError::NotFound(unknown)));
    }
    assert_eq!(
        t.store.redrive(&t.me, unknown, Redrive::default()).await,
        Err(ActionError::NotFound(unknown))
    );
    assert!(t.trail().await.is_empty());
}

/// Model: roles
async fn a_submitter_manages_its_own_jobs_only(t: &Fixture) {
    let ann = caller("ann", Role::Submitter, "blue");
    let bob = caller("bob", Role::Submitter, "blue");
    let submitted = t.store.submit(&ann, vec![new_job("report")], SubmitOptions::default()).await.unwrap();
    let id = submitted[0].job.id;
    assert_eq!(submitted[0].job.lane.tenant, tenant("blue"));
    let before = t.picture(id).await;
    for act in [cancel(), ActionRequest::Suspend(Suspend::default()), ActionRequest::Priority(Priority::HIGH)]
    {
        let refused = t.store.act(&bob, id, act).await;
        assert!(matches!(refused, Err(ActionError::Forbidden(_))), "{refused:?}");
    }
    assert!(matches!(t.store.signal(&bob, id, "go", b"1".to_vec()).await, Err(ActionError::Forbidden(_))));
    assert_eq!(t.picture(id).await, before);
    assert!(t.store.act(&ann, id, ActionRequest::Priority(Priority::HIGH)).await.unwrap().is_changed);
    t.store.act(&ann, id, cancel()).await.unwrap();
    assert!(matches!(t.store.delete(&bob, id).await, Err(ActionError::Forbidden(_))));
    assert!(matches!(t.store.redrive(&bob, id, Redrive::default()).await, Err(ActionError::Forbidden(_))));
    t.store.redrive(&ann, id, Redrive::default()).await.unwrap();
    t.store.delete(&ann, id).await.unwrap();
}
