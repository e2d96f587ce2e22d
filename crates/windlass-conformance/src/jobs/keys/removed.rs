//! An idempotency key answers for its job until the end of its window, also after the job was pruned or deleted.

use windlass::error::SubmitError;
use windlass::job::{Dependency, JobId, JobState, NewJob, Payload};
use windlass::store::SubmitOptions;

use super::{DAY, keyed, receipt};
use crate::fixture::{Fixture, named, new_job};

tests!(
    jobs_keys_removed, jobs::keys::removed:
    a_window_longer_than_retention_is_honoured,
    a_deleted_job_answers_for_its_key_until_the_end_of_the_window,
    another_payload_is_noticed_after_the_job_was_deleted,
    a_deleted_duplicate_is_waited_for_as_it_ended,
);

/// A job whose idempotency key is kept for this long.
pub fn for_days(key: &str, days: u32) -> NewJob {
    NewJob { idempotency_window: Some(DAY * days), ..keyed(key) }
}

/// A job with this key that ended in this state and was deleted.
async fn deleted(t: &Fixture, key: &str, state: JobState) -> JobId {
    let id = if state == JobState::Completed {
        let (worker, claimed) = t.running(for_days(key, 30)).await;
        t.complete(worker, &claimed).await;
        claimed.job.id
    } else {
        let id = receipt(t, for_days(key, 30)).await.job.id;
        t.cancel(id).await;
        id
    };
    assert_eq!(t.state(id).await, state);
    t.store.delete(&t.me, id).await.unwrap();
    id
}

/// Model: idempotency-key, retention
async fn a_window_longer_than_retention_is_honoured(t: &Fixture) {
    let (worker, claimed) = t.running(for_days("order-1", 30)).await;
    t.complete(worker, &claimed).await;
    t.advance(DAY * 8);
    assert_eq!(t.store.prune().await.unwrap(), 1);
    assert!(t.store.get(&t.me, claimed.job.id).await.unwrap().is_none());
    let before = t.everything().await;
    let again = receipt(t, for_days("order-1", 30)).await;
    assert_eq!((again.is_duplicate, again.is_deleted, again.payload_differs), (true, true, false));
    assert_eq!((again.job.id, again.job.state), (claimed.job.id, JobState::Completed));
    assert_eq!(again.job.lane, claimed.job.lane);
    assert_eq!(again.job.created_at, claimed.job.created_at);
    assert_eq!(t.everything().await, before, "nothing was made");
    // Pruning again does not take the key before its time.
    t.advance(DAY * 21);
    t.store.prune().await.unwrap();
    assert_eq!(receipt(t, for_days("order-1", 30)).await.job.id, claimed.job.id);
    t.advance(DAY);
    let new = receipt(t, for_days("order-1", 30)).await;
    assert!(!new.is_duplicate && new.job.id != claimed.job.id, "the window is over");
}

/// Model: idempotency-key
async fn a_deleted_job_answers_for_its_key_until_the_end_of_the_window(t: &Fixture) {
    let first = deleted(t, "order-1", JobState::Cancelled).await;
    for _ in 0..2 {
        let again = receipt(t, keyed("order-1")).await;
        assert_eq!((again.is_duplicate, again.is_deleted), (true, true));
        assert_eq!((again.job.id, again.job.state), (first, JobState::Cancelled));
    }
    t.advance(DAY * 30);
    let second = receipt(t, keyed("order-1")).await;
    assert!(!second.is_duplicate && !second.is_deleted);
    t.store.prune().await.unwrap();
    let third = receipt(t, keyed("order-1")).await;
    assert_eq!((third.job.id, third.is_deleted), (second.job.id, false), "the new holder keeps the key");
}

/// Model: idempotency-key
async fn another_payload_is_noticed_after_the_job_was_deleted(t: &Fixture) {
    let first = deleted(t, "order-1", JobState::Cancelled).await;
    let other = NewJob { payload: Payload::json("{}"), ..keyed("order-1") };
    let again = receipt(t, other.clone()).await;
    assert_eq!((again.job.id, again.is_deleted, again.payload_differs), (first, true, true));
    let strict = SubmitOptions { strict: true };
    let refused = t.store.submit(&t.me, vec![other], strict).await;
    assert_eq!(refused, Err(SubmitError::PayloadDiffers { index: 0, existing: first }));
    let same = t.store.submit(&t.me, vec![keyed("order-1")], strict).await.unwrap().remove(0);
    assert_eq!((same.job.id, same.payload_differs), (first, false));
    let as_bytes = Payload::bytes(keyed("order-1").payload.bytes, "application/octet-stream");
    assert!(receipt(t, NewJob { payload: as_bytes, ..keyed("order-1") }).await.payload_differs);
}

/// Model: idempotency-key, dependency-limits
async fn a_deleted_duplicate_is_waited_for_as_it_ended(t: &Fixture) {
    deleted(t, "good", JobState::Completed).await;
    deleted(t, "bad", JobState::Cancelled).await;
    let again = |key: &str| NewJob { name: Some(key.to_owned()), ..keyed(key) };
    let any = NewJob { after_any: vec![Dependency::Named("bad".into())], ..new_job("step") };
    let batch = vec![again("good"), again("bad"), named("one", &["good"]), named("two", &["bad"]), any];
    let receipts = t.submit_all(batch).await;
    let states: Vec<JobState> = receipts[2..].iter().map(|receipt| receipt.job.state).collect();
    assert_eq!(states, [JobState::Scheduled, JobState::Cancelled, JobState::Scheduled]);
}
