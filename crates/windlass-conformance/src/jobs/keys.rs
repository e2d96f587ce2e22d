//! Keys: the same idempotency key is the same job (Model: idempotency-key); a unique key belongs to one unfinished job at a time (Model: unique-key).

pub mod removed;

use std::time::Duration;

use windlass::error::{ActionError, FieldProblem, SubmitError};
use windlass::job::{Category, Failure, JobId, JobState, NewJob, Payload, RetryPolicy};
use windlass::store::{Outcome, Park, Receipt, Redrive, StoreOptions, SubmitOptions};

use crate::fixture::{Fixture, after, after_any, just_before, named, new_job, tenant};

tests!(
    jobs_keys, jobs::keys:
    the_same_key_is_the_same_job,
    a_final_job_still_answers_for_its_key,
    after_the_window_the_key_is_new,
    the_window_can_be_set_for_a_job_and_for_the_store,
    a_key_counts_within_its_tenant_and_type,
    another_payload_under_the_same_key_is_reported,
    strictness_refuses_another_payload,
    a_duplicate_within_one_batch_is_one_job,
    a_duplicate_may_be_waited_for,
    a_duplicate_cannot_hide_a_cycle,
    sixty_four_callers_at_once_get_one_job,
    a_key_outlives_the_job_that_had_it_before,
    an_earlier_job_may_outlive_the_latest_with_its_key,
    a_redriven_job_leaves_the_idempotency_key_behind,
    keys_have_a_longest_length,
    every_unfinished_state_holds_the_unique_key,
    every_final_state_frees_the_unique_key,
    a_unique_key_counts_within_its_tenant_and_type,
    a_unique_key_appears_once_in_a_batch,
    a_lifetime_that_is_over_frees_the_unique_key_at_once,
    a_job_that_ends_at_once_frees_its_unique_key,
    a_redrive_needs_its_unique_key,
    deleting_an_earlier_holder_leaves_the_unique_key_alone,
    an_idempotent_duplicate_does_not_conflict_with_its_own_unique_key,
);

const DAY: Duration = Duration::from_secs(24 * 3600);

fn keyed(key: &str) -> NewJob {
    NewJob { idempotency_key: Some(key.to_owned()), ..new_job("charge") }
}

fn unique(key: &str) -> NewJob {
    NewJob { unique_key: Some(key.to_owned()), ..new_job("sync") }
}

async fn receipt(t: &Fixture, job: NewJob) -> Receipt {
    t.submit_all(vec![job]).await.remove(0)
}

/// Model: idempotency-key
async fn the_same_key_is_the_same_job(t: &Fixture) {
    let first = receipt(t, keyed("order-1")).await;
    assert!(!first.is_duplicate);
    let before = t.everything().await;
    let second = receipt(t, keyed("order-1")).await;
    assert!(second.is_duplicate && !second.payload_differs);
    assert_eq!(second.job, first.job);
    assert_eq!(t.everything().await, before, "asking twice leaves no trace");
    assert_eq!(t.get(first.job.id).await.spec.idempotency_key.as_deref(), Some("order-1"));
}

/// Model: idempotency-key
async fn a_final_job_still_answers_for_its_key(t: &Fixture) {
    let (worker, claimed) = t.running(keyed("order-1")).await;
    t.complete(worker, &claimed).await;
    let again = receipt(t, keyed("order-1")).await;
    assert!(again.is_duplicate);
    assert_eq!((again.job.id, again.job.state), (claimed.job.id, JobState::Completed));
}

/// Model: idempotency-key
async fn after_the_window_the_key_is_new(t: &Fixture) {
    let first = receipt(t, keyed("order-1")).await;
    t.advance(just_before(DAY));
    assert!(
        receipt(t, keyed("order-1")).await.is_duplicate,
        "a duplicate does not begin a window of its own"
    );
    t.advance(Duration::from_millis(1));
    let second = receipt(t, keyed("order-1")).await;
    assert!(!second.is_duplicate);
    assert_ne!(second.job.id, first.job.id);
    t.advance(just_before(DAY));
    let third = receipt(t, keyed("order-1")).await;
    assert_eq!((third.is_duplicate, third.job.id), (true, second.job.id));
}

/// Model: idempotency-key
async fn the_window_can_be_set_for_a_job_and_for_the_store(t: &Fixture) {
    let hour = Duration::from_secs(3600);
    let t = t.another(StoreOptions { idempotency_window: hour * 2, ..StoreOptions::default() });
    let brief = NewJob { idempotency_window: Some(hour), ..keyed("brief") };
    t.submit_all(vec![brief, keyed("usual")]).await;
    t.advance(hour);
    assert!(!receipt(&t, keyed("brief")).await.is_duplicate);
    assert!(receipt(&t, keyed("usual")).await.is_duplicate);
    t.advance(hour);
    assert!(!receipt(&t, keyed("usual")).await.is_duplicate);
    t.verify().await;
}

/// Model: idempotency-key, tenant-isolation
async fn a_key_counts_within_its_tenant_and_type(t: &Fixture) {
    let first = receipt(t, keyed("order-1")).await;
    let other_type = NewJob { job_type: crate::fixture::job_type("refund"), ..keyed("order-1") };
    let other_tenant = NewJob { tenant: Some(tenant("acme")), ..keyed("order-1") };
    let other_queue = NewJob { queue: crate::fixture::queue("fast"), ..keyed("order-1") };
    assert!(!receipt(t, other_type).await.is_duplicate);
    assert!(!receipt(t, other_tenant).await.is_duplicate);
    let same = receipt(t, other_queue).await;
    assert_eq!((same.is_duplicate, same.job.id), (true, first.job.id), "the queue does not count");
}

/// Model: idempotency-key
async fn another_payload_under_the_same_key_is_reported(t: &Fixture) {
    let first = receipt(t, keyed("order-1")).await;
    let other = NewJob { payload: Payload::json("{}"), ..keyed("order-1") };
    let answer = receipt(t, other).await;
    assert!(answer.is_duplicate && answer.payload_differs);
    let kept = t.get(first.job.id).await.spec.payload;
    assert_eq!(kept, keyed("order-1").payload, "the first payload stays");
}

/// Model: idempotency-key
async fn strictness_refuses_another_payload(t: &Fixture) {
    let first = receipt(t, keyed("order-1")).await;
    let strict = SubmitOptions { strict: true };
    let same = t.store.submit(&t.me, vec![keyed("order-1")], strict).await.unwrap().remove(0);
    assert!(same.is_duplicate, "the same payload is not a conflict");
    let before = t.everything().await;
    let other = NewJob { payload: Payload::json("{}"), ..keyed("order-1") };
    let error = t.store.submit(&t.me, vec![new_job("charge"), other], strict).await.unwrap_err();
    assert_eq!(error, SubmitError::PayloadDiffers { index: 1, existing: first.job.id });
    assert_eq!(t.everything().await, before);
}

/// Model: idempotency-key, batches
async fn a_duplicate_within_one_batch_is_one_job(t: &Fixture) {
    let other = NewJob { payload: Payload::json("{}"), ..keyed("a") };
    let receipts = t.submit_all(vec![keyed("a"), keyed("b"), keyed("a"), other]).await;
    let flags: Vec<_> =
        receipts.iter().map(|receipt| (receipt.is_duplicate, receipt.payload_differs)).collect();
    assert_eq!(flags, [(false, false), (false, false), (true, false), (true, true)]);
    assert_eq!(receipts[2].job.id, receipts[0].job.id);
    assert_eq!(receipts[3].job.id, receipts[0].job.id);
    assert_eq!(t.everything().await.jobs.len(), 2);
}

/// Model: idempotency-key, dependency-limits, batches
async fn a_duplicate_may_be_waited_for(t: &Fixture) {
    // The chain is as deep as allowed, so that a job that waits for its end must be refused, by id or by name.
    let mut last = t.submit(new_job("step")).await.id;
    for _ in 2..100 {
        last = t.submit(after(&[last])).await.id;
    }
    let end = NewJob { idempotency_key: Some("end".into()), ..after(&[last]) };
    let end = t.submit(end).await;
    assert_eq!(end.depth, 100);
    let again = NewJob { idempotency_key: Some("end".into()), ..named("end", &[]) };
    t.refused(vec![again.clone(), named("next", &["end"])]).await;
    let other = NewJob { idempotency_key: Some("other".into()), ..named("other", &[]) };
    let twin = NewJob { name: Some("twin".into()), ..other.clone() };
    let receipts = t.submit_all(vec![again, named("last", &["twin"]), twin, other]).await;
    assert_eq!((receipts[0].job.id, receipts[3].job.id), (end.id, receipts[2].job.id));
    assert_eq!(t.get(receipts[1].job.id).await.spec.after, [receipts[2].job.id]);
}

/// Model: idempotency-key, dependency-limits
async fn a_duplicate_cannot_hide_a_cycle(t: &Fixture) {
    let first = NewJob { idempotency_key: Some("first".into()), ..named("first", &["second"]) };
    let twin = NewJob { idempotency_key: Some("first".into()), ..named("twin", &[]) };
    let error = t.refused(vec![first, twin, named("second", &["twin"])]).await;
    let SubmitError::Invalid { invalid, .. } = error else { panic!("{error}") };
    assert!(matches!(invalid.problem, FieldProblem::Cycle(_)), "{invalid}");
}

/// Model: idempotency-key
async fn sixty_four_callers_at_once_get_one_job(t: &Fixture) {
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let (store, me) = (t.store.clone(), t.me.clone());
            tokio::spawn(
                async move { store.submit(&me, vec![keyed("order-1")], SubmitOptions::default()).await },
            )
        })
        .collect();
    let mut receipts = Vec::new();
    for caller in callers {
        receipts.extend(caller.await.unwrap().unwrap());
    }
    assert_eq!(receipts.iter().filter(|receipt| !receipt.is_duplicate).count(), 1);
    assert!(receipts.iter().all(|receipt| receipt.job.id == receipts[0].job.id));
    assert_eq!(t.everything().await.jobs.len(), 1);
}

/// Model: idempotency-key, retention
async fn a_key_outlives_the_job_that_had_it_before(t: &Fixture) {
    let first = receipt(t, keyed("order-1")).await.job.id;
    t.cancel(first).await;
    t.advance(DAY);
    let second = receipt(t, keyed("order-1")).await.job.id;
    t.store.delete(&t.me, first).await.unwrap();
    let third = receipt(t, keyed("order-1")).await;
    assert_eq!(
        (third.is_duplicate, third.job.id),
        (true, second),
        "the first one took only its own key along"
    );
    t.cancel(second).await;
    t.store.delete(&t.me, second).await.unwrap();
    let fourth = receipt(t, keyed("order-1")).await;
    assert_eq!((fourth.is_duplicate, fourth.is_deleted, fourth.job.id), (true, true, second));
}

/// Model: idempotency-key, retention
async fn an_earlier_job_may_outlive_the_latest_with_its_key(t: &Fixture) {
    let first = receipt(t, keyed("order-1")).await.job.id;
    t.advance(DAY);
    let second = receipt(t, keyed("order-1")).await.job.id;
    t.cancel(second).await;
    t.store.delete(&t.me, second).await.unwrap();
    assert_eq!(t.state(first).await, JobState::Scheduled, "an earlier job may stay, and all is sound");
}

/// Model: final-states, idempotency-key
async fn a_redriven_job_leaves_the_idempotency_key_behind(t: &Fixture) {
    let first = receipt(t, keyed("order-1")).await.job.id;
    t.cancel(first).await;
    let again = t.store.redrive(&t.me, first, Redrive::default()).await.unwrap();
    assert_eq!(t.get(again.id).await.spec.idempotency_key, None);
    assert_eq!(receipt(t, keyed("order-1")).await.job.id, first);
}

/// Model: idempotency-key, unique-key
async fn keys_have_a_longest_length(t: &Fixture) {
    let (fits, too_long) = ("ü".repeat(256), "k".repeat(257));
    t.submit_all(vec![keyed(&fits), unique(&fits)]).await;
    assert!(receipt(t, keyed(&fits)).await.is_duplicate);
    for job in [keyed(&too_long), unique(&too_long), keyed("n\0l"), unique("n\0l")] {
        let error = t.refused(vec![job]).await;
        assert!(matches!(error, SubmitError::Invalid { index: 0, .. }), "{error}");
    }
}

async fn holder_of(t: &Fixture, key: &str) -> JobId {
    let error = t.refused(vec![new_job("sync"), unique(key)]).await;
    let SubmitError::UniqueKeyTaken { index: 1, key: taken, holder } = error else { panic!("{error}") };
    assert_eq!(taken, key);
    holder
}

/// Model: unique-key
async fn every_unfinished_state_holds_the_unique_key(t: &Fixture) {
    let worker = t.worker_for(&[], &["sync"]).await;
    let dependency = t.submit(new_job("other")).await.id;
    let created = t.submit(NewJob { hold: true, ..unique("created") }).await.id;
    let pending = t
        .submit(NewJob {
            unique_key: Some("pending".into()),
            job_type: crate::fixture::job_type("sync"),
            ..after(&[dependency])
        })
        .await
        .id;
    let delayed = t.submit(NewJob { delay: Some(DAY), ..unique("delayed") }).await.id;
    let suspended = t.submit(unique("suspended")).await.id;
    t.suspend(suspended).await;
    let retrying = t.submit(unique("retrying")).await.id;
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::temporary("again").with_retry_after(DAY)).await;
    let waiting = t.submit(unique("waiting")).await.id;
    let claimed = t.claim_one(worker).await;
    t.finish(worker, waiting, claimed.job.fence, Outcome::Parked(Park::For(DAY))).await;
    let running = t.submit(unique("running")).await.id;
    t.claim_one(worker).await;
    let scheduled = t.submit(unique("scheduled")).await.id;
    let holders = [created, pending, delayed, scheduled, running, waiting, retrying, suspended];
    for (state, id) in JobState::ALL.into_iter().zip(holders) {
        assert_eq!(t.state(id).await, state);
        assert_eq!(holder_of(t, state.as_str()).await, id);
    }
}

/// Model: unique-key
async fn every_final_state_frees_the_unique_key(t: &Fixture) {
    let worker = t.worker().await;
    let endings = [
        (JobState::Completed, Outcome::Completed { result: None }),
        (JobState::Failed, Outcome::Failed(Failure::permanent("gone", "no such account"))),
        (JobState::DeadLetter, Outcome::Failed(Failure::new(Category::Temporary, "again"))),
    ];
    for (state, outcome) in endings {
        let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
        let job = t.submit(NewJob { retry, ..unique("k") }).await;
        let claimed = t.claim_one(worker).await;
        t.finish(worker, job.id, claimed.job.fence, outcome).await;
        assert_eq!(t.state(job.id).await, state);
    }
    let job = t.submit(unique("k")).await;
    t.cancel(job.id).await;
    // The key itself is gone with the end, and not only disregarded.
    t.verify().await;
    t.submit(unique("k")).await;
}

/// Model: unique-key, tenant-isolation
async fn a_unique_key_counts_within_its_tenant_and_type(t: &Fixture) {
    let holder = t.submit(unique("k")).await.id;
    t.submit(NewJob { tenant: Some(tenant("acme")), ..unique("k") }).await;
    t.submit(NewJob { unique_key: Some("k".into()), ..new_job("other") }).await;
    t.submit(NewJob { idempotency_key: Some("k".into()), ..new_job("sync") }).await;
    let other_queue = NewJob { queue: crate::fixture::queue("fast"), ..unique("k") };
    let error = t.refused(vec![other_queue]).await;
    assert_eq!(error, SubmitError::UniqueKeyTaken { index: 0, key: "k".into(), holder });
}

/// Model: unique-key, batches
async fn a_unique_key_appears_once_in_a_batch(t: &Fixture) {
    let error = t.refused(vec![unique("k"), new_job("sync"), unique("k")]).await;
    let SubmitError::Invalid { index, invalid } = error else { panic!("{error}") };
    assert_eq!((index, invalid.field.as_str()), (2, "unique_key"));
    assert!(matches!(invalid.problem, FieldProblem::Contradiction(_)));
}

/// Model: unique-key, lifetime
async fn a_lifetime_that_is_over_frees_the_unique_key_at_once(t: &Fixture) {
    let old = t.submit(NewJob { lifetime: Some(DAY), ..unique("k") }).await;
    t.advance(DAY);
    // No maintenance has run: the submission itself finds that the holder's time is over.
    t.submit(unique("k")).await;
    assert_eq!(t.state(old.id).await, JobState::DeadLetter);
}

/// Model: unique-key, dependency-limits
async fn a_job_that_ends_at_once_frees_its_unique_key(t: &Fixture) {
    let dependency = t.submit(new_job("sync")).await.id;
    t.cancel(dependency).await;
    let ended = t.submit(NewJob { unique_key: Some("k".into()), ..after(&[dependency]) }).await;
    assert_eq!(ended.state, JobState::Cancelled);
    let next = t.submit(NewJob { unique_key: Some("k".into()), ..after_any(&[dependency]) }).await;
    assert_eq!(next.state, JobState::Scheduled);
}

/// Model: final-states, unique-key
async fn a_redrive_needs_its_unique_key(t: &Fixture) {
    let old = t.submit(unique("k")).await.id;
    t.cancel(old).await;
    let holder = t.submit(unique("k")).await.id;
    let before = t.everything().await;
    let error = t.store.redrive(&t.me, old, Redrive::default()).await.unwrap_err();
    assert_eq!(error, ActionError::UniqueKeyTaken { key: "k".into(), holder });
    assert_eq!(t.everything().await, before);
    t.cancel(holder).await;
    let again = t.store.redrive(&t.me, old, Redrive::default()).await.unwrap();
    assert_eq!(holder_of(t, "k").await, again.id);
}

/// Model: unique-key
async fn deleting_an_earlier_holder_leaves_the_unique_key_alone(t: &Fixture) {
    let first = t.submit(unique("k")).await.id;
    t.cancel(first).await;
    let second = t.submit(unique("k")).await.id;
    t.store.delete(&t.me, first).await.unwrap();
    assert_eq!(holder_of(t, "k").await, second);
}

/// Model: idempotency-key, unique-key
async fn an_idempotent_duplicate_does_not_conflict_with_its_own_unique_key(t: &Fixture) {
    let job = NewJob { idempotency_key: Some("once".into()), ..unique("k") };
    let receipts = t.submit_all(vec![job.clone(), job.clone()]).await;
    assert_eq!(receipts[0].job.id, receipts[1].job.id);
    let again = receipt(t, job).await;
    assert_eq!((again.is_duplicate, again.job.id), (true, receipts[0].job.id));
}
