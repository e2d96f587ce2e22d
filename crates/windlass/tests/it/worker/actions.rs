//! What people do to jobs and queues in code: every verb says whether it changed anything, and names what it refuses.

use std::collections::BTreeMap;
use std::time::Duration;

use windlass::client::{ActionResult, ResultError};
use windlass::error::{ActionError, SubmitError};
use windlass::job::{Failure, JobAction, JobState, Priority, SuspendMode};
use windlass::settings::{QueueSettings, TypeSettings};
use windlass::store::{Patch, Pause, Redrive, Suspend};
use windlass::testing::TestClient;
use windlass::worker::Worker;

use super::harness::step_by_step_on_every_engine;
use super::job_types::{Greet, GreetInNumbers, greet};
use crate::fixture::secs;

step_by_step_on_every_engine!(
    suspending_and_resuming_say_whether_they_changed_anything,
    the_strict_forms_name_what_was_already_so,
    a_held_job_is_let_go_once,
    cancelling_is_final_and_repeatable,
    priority_and_labels_change_until_the_end,
    a_final_job_is_redriven_and_removed,
    a_result_is_there_or_says_why_not,
    a_result_of_another_kind_is_unreadable,
    holds_of_every_scope_are_repeatable,
    a_held_job_says_why_it_does_not_run,
    what_counts_for_a_kind_or_a_queue_is_set_once,
    a_reason_stays_with_what_was_cancelled,
    actions_on_a_version_that_is_gone_are_refused,
    the_strict_forms_of_pauses_name_what_is_in_the_way,
);

async fn echo(job: Greet) -> anyhow::Result<String> {
    Ok(job.name)
}

async fn never(_: Greet) -> Result<String, Failure> {
    Err(Failure::permanent("no", "not in a hundred years"))
}

fn echoing(t: &TestClient) -> Worker {
    Worker::new(t.client()).handle(echo)
}

/// Model: suspend-modes, repeated-actions
async fn suspending_and_resuming_say_whether_they_changed_anything(t: &TestClient) {
    let job = t.client().submit(greet("a")).await.unwrap();
    assert_eq!(job.resume().await.unwrap(), ActionResult::Unchanged);
    assert_eq!(job.suspend(Suspend::default()).await.unwrap(), ActionResult::Changed);
    assert_eq!(job.suspend(Suspend::default()).await.unwrap(), ActionResult::Unchanged);
    assert_eq!(t.run_due(echoing(t)).await, 0);
    assert_eq!(job.resume().await.unwrap(), ActionResult::Changed);
    assert_eq!(t.run_due(echoing(t)).await, 1);
    // Model: refused-changes. It is final.
    let how = Suspend { mode: SuspendMode::Graceful, ..Suspend::default() };
    let Err(ActionError::Refused(refused)) = job.suspend(how).await else { panic!("a final job is refused") };
    assert_eq!((refused.state, refused.action), (JobState::Completed, JobAction::Suspend));
}

/// Model: repeated-actions
async fn the_strict_forms_name_what_was_already_so(t: &TestClient) {
    let job = t.client().submit(greet("a")).await.unwrap();
    let id = job.id();
    assert!(matches!(job.resume_strictly().await, Err(ActionError::NotSuspended(found)) if found == id));
    job.suspend_strictly(Suspend::default()).await.unwrap();
    let again = job.suspend_strictly(Suspend::default()).await;
    assert!(matches!(again, Err(ActionError::AlreadySuspended(found)) if found == id));
    job.resume_strictly().await.unwrap();
    job.delete().await.unwrap_err();
}

/// Model: refused-changes
async fn a_held_job_is_let_go_once(t: &TestClient) {
    let job = t.client().submit(greet("a")).hold().await.unwrap();
    assert_eq!(job.state().await.unwrap(), Some(JobState::Created));
    assert_eq!(t.run_due(echoing(t)).await, 0);
    assert_eq!(job.submit().await.unwrap(), ActionResult::Changed);
    let refused = job.submit().await.unwrap_err();
    let ActionError::Refused(refused) = refused else { panic!("{refused}") };
    assert_eq!((refused.state, refused.action), (JobState::Scheduled, JobAction::Submit));
    assert_eq!(t.run_due(echoing(t)).await, 1);
}

/// Model: refused-changes, final-states
async fn cancelling_is_final_and_repeatable(t: &TestClient) {
    let job = t.client().submit(greet("a")).await.unwrap();
    assert_eq!(job.cancel().await.unwrap(), ActionResult::Changed);
    assert_eq!(job.cancel().await.unwrap(), ActionResult::Unchanged);
    let done = t.client().submit(greet("b")).await.unwrap();
    t.run_due(echoing(t)).await;
    let refused = done.cancel().await.unwrap_err();
    assert_eq!(refused.to_string(), "cannot cancel a job that is completed");
    assert!(matches!(done.suspend(Suspend::default()).await, Err(ActionError::Refused(_))));
    assert!(matches!(done.signal("s", &1).await, Err(ActionError::Refused(_))));
}

/// Model: writable-fields, changing-priority
async fn priority_and_labels_change_until_the_end(t: &TestClient) {
    let job = t.client().submit(greet("a")).tag("old", "1").await.unwrap();
    assert_eq!(job.set_priority(Priority::CRITICAL).await.unwrap(), ActionResult::Changed);
    assert_eq!(job.set_priority(Priority::CRITICAL).await.unwrap(), ActionResult::Unchanged);
    let tags = BTreeMap::from([("new".to_owned(), "2".to_owned())]);
    let patch = Patch { tags: Some(tags), ..Patch::default() };
    assert_eq!(job.patch(patch.clone()).await.unwrap(), ActionResult::Changed);
    assert_eq!(job.patch(patch.clone()).await.unwrap(), ActionResult::Unchanged);
    let found = job.snapshot().await.unwrap().unwrap();
    assert_eq!(found.spec.metadata.tags.keys().collect::<Vec<_>>(), ["new"]);
    assert_eq!(found.job.priority, Priority::CRITICAL);
    t.run_due(echoing(t)).await;
    assert!(matches!(job.set_priority(Priority::LOW).await, Err(ActionError::Refused(_))));
    assert!(matches!(job.patch(patch).await, Err(ActionError::Refused(_))));
}

/// Model: final-states
async fn a_final_job_is_redriven_and_removed(t: &TestClient) {
    let job = t.client().submit(greet("a")).await.unwrap();
    assert!(matches!(job.redrive(Redrive::default()).await, Err(ActionError::Refused(_))));
    t.run_due(Worker::new(t.client()).handle(never)).await;
    let again = job.redrive(Redrive::default()).await.unwrap();
    assert_ne!(again.id(), job.id());
    t.run_due(echoing(t)).await;
    assert_eq!(again.result_json(Duration::ZERO).await.unwrap(), br#""a""#);
    assert_eq!(t.job(job.id()).await.job.details.superseded_by, Some(again.id()));
    job.delete().await.unwrap();
    assert!(job.snapshot().await.unwrap().is_none());
    assert!(matches!(job.cancel().await, Err(ActionError::NotFound(_))));
    assert!(matches!(job.result(Duration::ZERO).await, Err(ResultError::NotFound(_))));
}

/// Model: result-cost-and-progress
async fn a_result_is_there_or_says_why_not(t: &TestClient) {
    let done = t.client().submit(greet("done")).await.unwrap();
    t.run_due(echoing(t)).await;
    assert_eq!(done.result(Duration::ZERO).await.unwrap(), "done");
    let failed = t.client().submit(greet("failed")).await.unwrap();
    let early = failed.result(Duration::ZERO).await.unwrap_err();
    assert!(matches!(early, ResultError::NotYet { state: JobState::Scheduled, .. }), "{early}");
    t.run_due(Worker::new(t.client()).handle(never)).await;
    let late = failed.result(Duration::ZERO).await.unwrap_err();
    let said = late.to_string();
    assert!(said.contains("ended failed in attempt 1") && said.contains("not in a hundred years"), "{said}");
    let ResultError::Ended { error: Some(error), .. } = late else { panic!("{late}") };
    assert_eq!(error.code.as_deref(), Some("no"));
}

/// Model: result-cost-and-progress
async fn a_result_of_another_kind_is_unreadable(t: &TestClient) {
    let job = t.client().submit(GreetInNumbers { name: "a".into() }).await.unwrap();
    t.run_due(echoing(t)).await;
    assert!(matches!(job.result(Duration::ZERO).await, Err(ResultError::Unreadable(..))));
    assert_eq!(job.result_json(Duration::ZERO).await.unwrap(), br#""a""#);
}

/// Model: repeated-actions, queue-pause, processing-on-and-off
async fn holds_of_every_scope_are_repeatable(t: &TestClient) {
    let q = t.client();
    let how = Pause::default;
    let (yes, no) = (ActionResult::Changed, ActionResult::Unchanged);
    q.submit(greet("a")).await.unwrap();
    for changed in [yes, no] {
        assert_eq!(q.pause_queue("default", how()).await.unwrap(), changed);
        assert_eq!(q.pause_type("greet", how()).await.unwrap(), changed);
        assert_eq!(q.pause_tenant("default", how()).await.unwrap(), changed);
        assert_eq!(q.pause_all(how()).await.unwrap(), changed);
    }
    for resumed in 0..4 {
        assert_eq!(t.run_due(echoing(t)).await, 0, "{resumed} of four pauses are resumed");
        let is_changed = match resumed {
            0 => q.resume_queue("default").await,
            1 => q.resume_type("greet").await,
            2 => q.resume_tenant("default").await,
            _ => q.resume_all().await,
        };
        assert_eq!(is_changed.unwrap(), yes);
    }
    assert_eq!(t.run_due(echoing(t)).await, 1);
    assert_eq!(q.resume_queue("default").await.unwrap(), no);
    assert_eq!(q.resume_all().await.unwrap(), no);
    assert!(matches!(q.pause_queue("", how()).await, Err(ActionError::Invalid(_))));
}

/// Model: pause-reason-and-expiry, explained-waiting
async fn a_held_job_says_why_it_does_not_run(t: &TestClient) {
    let job = t.client().submit(greet("a")).delay(secs(60)).await.unwrap();
    let how = Pause { reason: Some("night".into()), expires: Some(secs(100)), ..Pause::default() };
    t.client().pause_queue("default", how).await.unwrap();
    let reasons = job.explain().await.unwrap().unwrap();
    assert!(reasons.len() >= 2, "{reasons:?}");
    assert_eq!(t.job(job.id()).await.why.as_ref(), reasons.first());
    t.advance(secs(60)).await;
    assert_eq!(t.run_due(echoing(t)).await, 0);
    t.advance(secs(40)).await;
    assert_eq!(t.run_due(echoing(t)).await, 1);
}

/// Model: setting-levels, audit-trail, concurrency-limits
async fn what_counts_for_a_kind_or_a_queue_is_set_once(t: &TestClient) {
    let settings = TypeSettings { success_event: Some("GREETED".into()), ..TypeSettings::default() };
    assert_eq!(t.client().configure_type::<Greet>(settings.clone()).await.unwrap(), ActionResult::Changed);
    assert_eq!(t.client().configure_type::<Greet>(settings).await.unwrap(), ActionResult::Unchanged);
    let settings = QueueSettings { max_depth: Some(1), ..QueueSettings::default() };
    assert_eq!(t.client().configure_queue("default", settings.clone()).await.unwrap(), ActionResult::Changed);
    assert_eq!(t.client().configure_queue("default", settings).await.unwrap(), ActionResult::Unchanged);
    let job = t.client().submit(greet("a")).await.unwrap();
    assert!(matches!(t.client().submit(greet("b")).await, Err(SubmitError::TooDeep { .. })));
    t.run_due(echoing(t)).await;
    let trail = job.history().await.unwrap();
    assert!(trail.iter().any(|record| record.name() == "GREETED"), "{trail:?}");
}

/// Model: audit-trail
async fn a_reason_stays_with_what_was_cancelled(t: &TestClient) {
    let job = t.client().submit(greet("a")).await.unwrap();
    assert_eq!(job.cancel_with_reason("sold out").await.unwrap(), ActionResult::Changed);
    let error = t.job(job.id()).await.job.details.error.clone().unwrap();
    assert!(error.message.ends_with("sold out"), "{}", error.message);
    assert_eq!(job.attempts().await.unwrap(), Some(vec![]));
}

/// In a store and through a server: the snapshot has the version that was read, and actions on a newer one are refused.
async fn actions_on_a_version_that_is_gone_are_refused(t: &TestClient) {
    let job = t.client().submit(greet("a")).await.unwrap();
    let seen = job.snapshot().await.unwrap().unwrap().version();
    assert_eq!(job.if_match(seen).set_priority("HIGH").await.unwrap(), ActionResult::Changed);
    let now = job.snapshot().await.unwrap().unwrap().version();
    assert_ne!(seen, now);
    let changed = ActionError::Changed { id: job.id(), version: now };
    let old = job.if_match(seen);
    assert_eq!(old.suspend(Suspend::default()).await, Err(changed.clone()));
    assert_eq!(old.suspend_strictly(Suspend::default()).await, Err(changed.clone()));
    assert_eq!(old.cancel().await, Err(changed.clone()));
    assert_eq!(old.patch(Patch::default()).await, Err(changed.clone()));
    assert_eq!(old.delete().await, Err(changed.clone()));
    assert_eq!(old.redrive(Redrive::default()).await.map(|new| new.id()), Err(changed));
    assert_eq!(job.if_match(now).cancel().await.unwrap(), ActionResult::Changed);
    let end = job.snapshot().await.unwrap().unwrap().version();
    job.if_match(end).delete().await.unwrap();
}

/// Model: repeated-actions
async fn the_strict_forms_of_pauses_name_what_is_in_the_way(t: &TestClient) {
    let client = t.client();
    assert_eq!(client.resume_queue_strictly("mail").await, Err(ActionError::NotPaused("queue mail".into())));
    client.pause_queue_strictly("mail", Pause::aggressive()).await.unwrap();
    let again = client.pause_queue_strictly("mail", Pause::graceful()).await;
    assert_eq!(again, Err(ActionError::AlreadyPaused("queue mail".into())));
    client.resume_queue_strictly("mail").await.unwrap();
    assert_eq!(client.resume_paused_jobs("mail").await.unwrap(), 0);
}
