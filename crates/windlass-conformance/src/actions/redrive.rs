//! Submitting a final job again.

use windlass::audit::AuditEvent;
use windlass::error::{ActionError, InvalidTransition};
use windlass::job::{Failure, JobAction, JobMetadata, JobState, NewJob, Payload, Priority, RetryPolicy};
use windlass::limits;
use windlass::store::Redrive;

use crate::fixture::{Fixture, new_job, secs};

tests!(
    actions_redrive, actions::redrive:
    any_final_job_is_redriven_as_often_as_wanted,
    a_job_that_is_not_final_is_not_redriven,
    a_redriven_job_is_the_same_work_with_a_new_life,
    the_idempotency_key_stays_with_the_old_job,
    the_unique_key_goes_along_and_is_respected,
    of_many_redrives_with_a_unique_key_one_succeeds,
    a_redrive_may_bring_a_payload_of_its_own,
    a_payload_is_refused_that_could_not_be_submitted,
);

/// Model: final-states
async fn any_final_job_is_redriven_as_often_as_wanted(t: &Fixture) {
    for state in JobState::FINAL {
        let placed = t.placed(state).await;
        let old = t.get(placed.id).await.job;
        let attempts = t.attempts(placed.id).await;
        for _ in 0..3 {
            let new = t.store.redrive(&t.me, placed.id, Redrive::default()).await.unwrap();
            assert_eq!((new.state, new.details.retry_of), (JobState::Scheduled, Some(placed.id)));
            let mut now = t.get(placed.id).await.job;
            assert_eq!(now.details.superseded_by, Some(new.id), "the latest is named");
            now.details_mut().superseded_by = None;
            assert_eq!(now, old, "nothing else of a final job changes");
        }
        assert_eq!(t.attempts(placed.id).await, attempts);
        let events = t.events_of(placed.id).await;
        assert_eq!(events[1..], [AuditEvent::Redriven; 3]);
    }
}

/// Model: final-states, refused-changes
async fn a_job_that_is_not_final_is_not_redriven(t: &Fixture) {
    for state in JobState::ALL.into_iter().filter(|state| !state.is_final()) {
        let placed = t.placed(state).await;
        let before = t.picture(placed.id).await;
        let refused = t.store.redrive(&t.me, placed.id, Redrive::default()).await;
        assert_eq!(
            refused,
            Err(ActionError::Refused(InvalidTransition { state, action: JobAction::Redrive }))
        );
        assert_eq!(t.picture(placed.id).await, before);
    }
}

/// Model: final-states
async fn a_redriven_job_is_the_same_work_with_a_new_life(t: &Fixture) {
    let metadata = JobMetadata { correlation_id: Some("order-7".into()), ..JobMetadata::default() };
    let job = NewJob {
        priority: Some(Priority::HIGH),
        retry: Some(RetryPolicy::fixed()),
        lifetime: Some(secs(600)),
        delay: Some(secs(5)),
        concurrency_key: Some("one".into()),
        metadata,
        ..new_job("report")
    };
    let old = t.submit(job).await;
    let worker = t.worker().await;
    t.advance(secs(5));
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::permanent("gone", "never")).await;
    t.advance(secs(10));
    let new = t.store.redrive(&t.me, old.id, Redrive::default()).await.unwrap();
    assert_eq!((&new.lane, &new.policy, new.priority), (&old.lane, &old.policy, old.priority));
    assert_eq!((new.attempt, new.failures, new.details.error.clone()), (0, 0, None));
    assert_eq!((new.created_at, new.expires_at), (t.now(), t.now().plus(secs(600))));
    assert_eq!(new.concurrency, old.concurrency);
    let (before, after) = (t.get(old.id).await.spec, t.get(new.id).await.spec);
    assert_eq!(before, after, "payload, metadata and owner are the same");
    assert_eq!(t.claim_one(worker).await.job.id, new.id);
}

/// Model: final-states, idempotency-key
async fn the_idempotency_key_stays_with_the_old_job(t: &Fixture) {
    let job = NewJob { idempotency_key: Some("once".into()), ..new_job("report") };
    let old = t.submit(job.clone()).await;
    t.cancel(old.id).await;
    let new = t.store.redrive(&t.me, old.id, Redrive::default()).await.unwrap();
    assert_eq!(t.get(new.id).await.spec.idempotency_key, None);
    let again = t.submit_all(vec![job]).await.remove(0);
    assert!(again.is_duplicate);
    assert_eq!(again.job.id, old.id);
}

/// Model: final-states, unique-key
async fn the_unique_key_goes_along_and_is_respected(t: &Fixture) {
    let job = NewJob { unique_key: Some("only".into()), ..new_job("report") };
    let old = t.submit(job).await.id;
    t.cancel(old).await;
    let new = t.store.redrive(&t.me, old, Redrive::default()).await.unwrap().id;
    let before = t.picture(old).await;
    let refused = t.store.redrive(&t.me, old, Redrive::default()).await;
    assert_eq!(refused, Err(ActionError::UniqueKeyTaken { key: "only".into(), holder: new }));
    assert_eq!(t.picture(old).await, before);
    t.cancel(new).await;
    t.store.redrive(&t.me, old, Redrive::default()).await.unwrap();
}

/// Model: unique-key, atomic-changes
async fn of_many_redrives_with_a_unique_key_one_succeeds(t: &Fixture) {
    let old = t.submit(NewJob { unique_key: Some("only".into()), ..new_job("report") }).await.id;
    t.cancel(old).await;
    let mut redriving = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (store, me) = (t.store.clone(), t.me.clone());
        redriving.spawn(async move { store.redrive(&me, old, Redrive::default()).await });
    }
    let answers = redriving.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    assert_eq!(t.store.stats(&t.me).await.unwrap().states[&JobState::Scheduled], 1);
}

/// Model: final-states. What failed because of its payload is repaired without giving up its policy, keys and history.
async fn a_redrive_may_bring_a_payload_of_its_own(t: &Fixture) {
    let job =
        NewJob { payload: Payload::json(r#"{"to":""}"#), unique_key: Some("one".into()), ..new_job("mail") };
    let old = t.submit(job).await;
    let worker = t.worker().await;
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::permanent("no_address", "to is empty")).await;
    let payload = Payload::json(r#"{"to":"ada@example.com"}"#);
    let how = Redrive { payload: Some(payload.clone()), ..Redrive::default() };
    let new = t.store.redrive(&t.me, old.id, how).await.unwrap();
    let (old, new) = (t.get(old.id).await, t.get(new.id).await);
    assert_eq!(new.spec.payload, payload);
    assert_eq!(&*old.spec.payload.bytes, br#"{"to":""}"#, "a final job never changes");
    assert_eq!(new.spec.unique_key, old.spec.unique_key);
    assert_eq!(new.job.details.retry_of, Some(old.job.id));
    assert_eq!(&*t.claim_one(worker).await.spec.payload.bytes, &*payload.bytes);
    let records = t.trail().await;
    let redriven = records.iter().find(|record| record.event == AuditEvent::Redriven).unwrap();
    assert!(redriven.context.contains(r#""payload_changed":true"#), "{}", redriven.context);
}

/// Model: refused-changes
async fn a_payload_is_refused_that_could_not_be_submitted(t: &Fixture) {
    let placed = t.placed(JobState::Failed).await;
    let before = t.picture(placed.id).await;
    let with = |payload| Redrive { payload: Some(payload), ..Redrive::default() };
    let large = Payload::json("1".repeat(limits::PAYLOAD_BYTES_DEFAULT + 1));
    let strange = Payload::bytes(b"x", "text/plain\n");
    for payload in [large, strange] {
        let refused = t.store.redrive(&t.me, placed.id, with(payload)).await;
        assert!(matches!(refused, Err(ActionError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(t.picture(placed.id).await, before);
}
