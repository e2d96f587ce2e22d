//! Claiming: in which order, by whom, how many, and never before the time.

use std::collections::HashSet;
use std::time::Duration;

use windlass::entropy::Entropy;
use windlass::error::{ActionError, InvalidTransition, WorkError};
use windlass::job::{Failure, JobAction, JobId, JobState, NewJob, Payload, WorkerId};
use windlass::limits;
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;
use windlass::store::{ActionRequest, AttemptWrite, ClaimRequest, NewWorker, Outcome, Park, StoreOptions};

use crate::fixture::{Fixture, ids, job_type, just_before, lease_ref, new_job, priority, queue, tenant};

tests!(
    claims_claim, claims::claim:
    a_claim_ends_before_it_holds_too_many_bytes,
    a_claim_ends_before_it_holds_too_many_checkpoints,
    the_most_urgent_then_the_first_eligible_comes_first,
    a_retried_job_keeps_its_place,
    a_woken_job_keeps_its_place,
    a_delayed_job_counts_from_its_due_time,
    a_changed_priority_is_obeyed_by_the_next_claim,
    the_same_priority_again_changes_nothing,
    a_final_job_keeps_its_priority,
    a_worker_takes_from_its_queues_only,
    a_worker_takes_its_types_only,
    a_request_narrows_what_was_registered,
    a_job_of_an_unknown_type_waits_and_says_so,
    a_claim_takes_at_most_what_it_asks_for,
    a_claim_takes_at_most_a_thousand,
    a_job_is_never_claimed_before_its_time,
    a_claim_promotes_what_is_due,
    no_job_is_given_to_two_workers,
    a_tenants_worker_takes_that_tenants_jobs_only,
    only_a_known_worker_claims,
    a_waiting_claim_is_woken_by_a_submission,
);

const MINUTE: Duration = Duration::from_secs(60);

/// Model: claim-order
async fn the_most_urgent_then_the_first_eligible_comes_first(t: &Fixture) {
    let random = Entropy::seeded(7);
    let pick = |n: usize| usize::try_from(random.bits() % n as u128).unwrap();
    let mut expected = Vec::new();
    for round in 0..6 {
        let batch: Vec<NewJob> = (0..40)
            .map(|_| NewJob {
                priority: Some(priority([0, 10, 50, 50, 99, 100][pick(6)])),
                queue: queue(["default", "mail", "slow"][pick(3)]),
                tenant: Some(tenant(["default", "acme"][pick(2)])),
                ..new_job(["a", "b", "c"][pick(3)])
            })
            .collect();
        for (place, receipt) in t.submit_all(batch).await.into_iter().enumerate() {
            expected.push((100 - receipt.job.priority.value(), round, place, receipt.job.id));
        }
        t.advance(Duration::from_millis(1));
    }
    expected.sort();
    let expected: Vec<JobId> = expected.into_iter().map(|(.., id)| id).collect();
    let worker = t.worker().await;
    let mut claimed = Vec::new();
    for limit in [1, 2, 17, 100, 3, 1_000] {
        claimed.extend(t.claim_ids(worker, limit).await);
    }
    assert_eq!(claimed, expected);
}

/// Model: claim-order
async fn a_retried_job_keeps_its_place(t: &Fixture) {
    let (worker, first) = t.running(new_job("email.send")).await;
    t.advance(Duration::from_secs(1));
    let second = t.submit(new_job("email.send")).await.id;
    t.fail(worker, &first, Failure::temporary("again")).await;
    t.advance(MINUTE);
    assert_eq!(t.claim_ids(worker, 2).await, [first.job.id, second]);
}

/// Model: claim-order, sleeps-and-signals
async fn a_woken_job_keeps_its_place(t: &Fixture) {
    let (worker, first) = t.running(new_job("email.send")).await;
    t.advance(Duration::from_secs(1));
    let second = t.submit(new_job("email.send")).await.id;
    t.finish(worker, first.job.id, first.job.fence, Outcome::Parked(Park::For(MINUTE))).await;
    t.advance(MINUTE);
    assert_eq!(t.claim_ids(worker, 2).await, [first.job.id, second]);
}

/// Model: claim-order
async fn a_delayed_job_counts_from_its_due_time(t: &Fixture) {
    let second = Duration::from_secs(1);
    let delayed = t.submit(NewJob { delay: Some(second * 10), ..new_job("email.send") }).await.id;
    t.advance(second * 5);
    let early = t.submit(new_job("email.send")).await.id;
    t.advance(second * 10);
    let late = t.submit(new_job("email.send")).await.id;
    t.advance(second * 5);
    let worker = t.worker().await;
    // The promotion is late, since nothing ran in between; that does not cost the job its place.
    assert_eq!(t.claim_ids(worker, 3).await, [early, delayed, late]);
}

/// Model: changing-priority
async fn a_changed_priority_is_obeyed_by_the_next_claim(t: &Fixture) {
    let worker = t.worker().await;
    let receipts = t.submit_all(vec![new_job("email.send"); 4]).await;
    let all: Vec<JobId> = receipts.iter().map(|receipt| receipt.job.id).collect();
    let acted = t.act(all[2], ActionRequest::Priority(priority(51))).await;
    assert!(acted.is_changed);
    assert_eq!(acted.job.details.priority_updated_at, Some(t.now()));
    t.act(all[0], ActionRequest::Priority(priority(49))).await;
    assert_eq!(t.claim_ids(worker, 2).await, [all[2], all[1]]);
    t.act(all[0], ActionRequest::Priority(priority(50))).await;
    assert_eq!(t.claim_ids(worker, 2).await, [all[0], all[3]], "back in its old place");
}

/// Model: refused-changes, changing-priority
async fn the_same_priority_again_changes_nothing(t: &Fixture) {
    let job = t.submit(new_job("email.send")).await.id;
    t.act(job, ActionRequest::Priority(priority(70))).await;
    let before = t.everything().await;
    assert!(!t.act(job, ActionRequest::Priority(priority(70))).await.is_changed);
    assert_eq!(t.everything().await, before);
    let records = t.records(RecordQuery { job: Some(job), ..RecordQuery::default() }).await;
    let context: serde_json::Value = serde_json::from_str(&records[0].context).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!((&context["previous_priority"], &context["new_priority"]), (&50.into(), &70.into()));
}

/// Model: refused-changes, changing-priority
async fn a_final_job_keeps_its_priority(t: &Fixture) {
    let job = t.submit(new_job("email.send")).await.id;
    t.cancel(job).await;
    let before = t.everything().await;
    let error = t.store.act(&t.me, job, ActionRequest::Priority(priority(70))).await.unwrap_err();
    assert_eq!(
        error,
        ActionError::Refused(InvalidTransition { state: JobState::Cancelled, action: JobAction::Priority })
    );
    assert_eq!(t.everything().await, before);
}

/// Model: leases-and-heartbeats
async fn a_worker_takes_from_its_queues_only(t: &Fixture) {
    let mut all = Vec::new();
    for name in ["mail", "slow", "default"] {
        all.push(t.submit(NewJob { queue: queue(name), ..new_job("email.send") }).await.id);
    }
    let worker = t.worker_for(&["mail", "default"], &[]).await;
    assert_eq!(t.claim_ids(worker, 10).await, [all[0], all[2]]);
}

/// Model: unknown-types
async fn a_worker_takes_its_types_only(t: &Fixture) {
    let receipts = t.submit_all(vec![new_job("a"), new_job("b"), new_job("c")]).await;
    let worker = t.worker_for(&[], &["c", "a"]).await;
    assert_eq!(t.claim_ids(worker, 10).await, [receipts[0].job.id, receipts[2].job.id]);
}

/// Model: unknown-types
async fn a_request_narrows_what_was_registered(t: &Fixture) {
    let receipts = t.submit_all(vec![new_job("a"), new_job("b"), new_job("c")]).await;
    let worker = t.worker_for(&["default"], &["a", "b"]).await;
    let mut request = ClaimRequest::new(worker, 10);
    request.types = Some(vec![job_type("b"), job_type("c")]);
    let answer = t.store.claim(&t.me, &request, Duration::ZERO).await.unwrap();
    assert_eq!(ids(&answer.jobs), [receipts[1].job.id], "what it did not register for it does not get");
    let other_queue = ClaimRequest { queues: Some(vec![queue("mail")]), types: None, ..request };
    assert!(t.store.claim(&t.me, &other_queue, Duration::ZERO).await.unwrap().jobs.is_empty());
}

/// Model: explained-waiting, unknown-types
async fn a_job_of_an_unknown_type_waits_and_says_so(t: &Fixture) {
    let worker = t.worker_for(&[], &["a"]).await;
    let job = t.submit(new_job("un.known")).await.id;
    assert!(t.claim(worker, 10).await.is_empty());
    t.advance(MINUTE);
    t.tick().await;
    let snapshot = t.get(job).await;
    assert_eq!(snapshot.job.state, JobState::Scheduled);
    assert_eq!(snapshot.why.expect("it says why").code, "no_worker");
    let knowing = t.worker_for(&[], &["un.known"]).await;
    assert_eq!(t.get(job).await.why, None);
    assert_eq!(t.claim_one(knowing).await.job.id, job);
}

/// Model: claim-order
async fn a_claim_takes_at_most_what_it_asks_for(t: &Fixture) {
    t.submit_all(vec![new_job("email.send"); 20]).await;
    let worker = t.worker().await;
    let before = t.everything().await;
    assert!(t.claim(worker, 0).await.is_empty());
    assert_eq!(t.everything().await, before);
    for limit in [1, 7, 12] {
        assert_eq!(t.claim(worker, limit).await.len(), limit);
    }
    assert!(t.claim(worker, 1).await.is_empty());
}

/// Model: claim-order
async fn a_claim_takes_at_most_a_thousand(t: &Fixture) {
    t.submit_all(vec![new_job("email.send"); 1_002]).await;
    let worker = t.worker().await;
    assert_eq!(t.claim(worker, 1_001).await.len(), 1_000);
    assert_eq!(t.claim(worker, 1_000).await.len(), 2);
}

/// Model: backoff, resume
async fn a_job_is_never_claimed_before_its_time(t: &Fixture) {
    let worker = t.worker().await;
    let (delayed, at) = (Duration::from_secs(5), t.now().plus(Duration::from_secs(7)));
    let first = t.submit(NewJob { delay: Some(delayed), ..new_job("email.send") }).await;
    let second = t.submit(NewJob { run_at: Some(at), ..new_job("email.send") }).await;
    let past = t.submit(NewJob { run_at: Some(t.now().minus(MINUTE)), ..new_job("email.send") }).await;
    assert_eq!((first.state, past.state), (JobState::Delayed, JobState::Scheduled));
    assert_eq!(t.claim_ids(worker, 10).await, [past.id]);
    for (wait, expected) in [(4_999, vec![]), (1, vec![first.id]), (1_999, vec![]), (1, vec![second.id])] {
        t.advance(Duration::from_millis(wait));
        t.tick().await;
        assert_eq!(t.claim_ids(worker, 10).await, expected);
    }
}

/// Model: claim-order, timer-precision
async fn a_claim_promotes_what_is_due(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    t.fail(worker, &claimed, Failure::temporary("again").with_retry_after(MINUTE)).await;
    let delayed = t.submit(NewJob { delay: Some(MINUTE), ..new_job("email.send") }).await.id;
    t.advance(just_before(MINUTE));
    assert!(t.claim(worker, 10).await.is_empty());
    t.advance(Duration::from_millis(1));
    assert_eq!(t.claim_ids(worker, 10).await, [claimed.job.id, delayed], "without any maintenance");
}

/// Model: one-lease-at-a-time
async fn no_job_is_given_to_two_workers(t: &Fixture) {
    t.submit_all(vec![new_job("email.send"); 200]).await;
    let mut claims = Vec::new();
    for _ in 0..8 {
        let worker = t.worker().await;
        let (store, me) = (t.store.clone(), t.me.clone());
        claims.push(tokio::spawn(async move {
            let mut found = Vec::new();
            loop {
                let answer = store.claim(&me, &ClaimRequest::new(worker, 7), Duration::ZERO).await.unwrap();
                if answer.jobs.is_empty() {
                    return found;
                }
                found.extend(ids(&answer.jobs));
            }
        }));
    }
    let mut all = Vec::new();
    for claim in claims {
        all.extend(claim.await.unwrap());
    }
    assert_eq!(all.len(), 200);
    assert_eq!(all.into_iter().collect::<HashSet<_>>().len(), 200);
}

/// Model: tenant-isolation
async fn a_tenants_worker_takes_that_tenants_jobs_only(t: &Fixture) {
    let theirs = t.submit(NewJob { tenant: Some(tenant("acme")), ..new_job("email.send") }).await.id;
    t.submit(NewJob { tenant: Some(tenant("umbrella")), ..new_job("email.send") }).await;
    let acme = Caller::new("acme-worker", Role::Worker, Some(tenant("acme")));
    let worker = t.store.register(&acme, NewWorker::default()).await.unwrap().id;
    let request = ClaimRequest::new(worker, 10);
    let answer = t.store.claim(&acme, &request, Duration::ZERO).await.unwrap();
    assert_eq!(ids(&answer.jobs), [theirs]);
    let umbrella = Caller::new("umbrella-worker", Role::Worker, Some(tenant("umbrella")));
    let error = t.store.claim(&umbrella, &request, Duration::ZERO).await.unwrap_err();
    assert_eq!(error, WorkError::NoSuchWorker(worker), "nor is another tenant's worker there for them");
}

/// Model: leases-and-heartbeats, roles
async fn only_a_known_worker_claims(t: &Fixture) {
    t.submit(new_job("email.send")).await;
    let before = t.everything().await;
    let unknown = WorkerId::new(7);
    let error = t.store.claim(&t.me, &ClaimRequest::new(unknown, 1), Duration::ZERO).await.unwrap_err();
    assert_eq!(error, WorkError::NoSuchWorker(unknown));
    for role in [Role::Viewer, Role::Submitter] {
        let caller = Caller::new("another", role, None);
        let error = t.store.register(&caller, NewWorker::default()).await.unwrap_err();
        assert!(matches!(error, WorkError::Forbidden(_)), "{error}");
    }
    assert_eq!(t.everything().await, before);
}

/// Model: wake-ups
async fn a_waiting_claim_is_woken_by_a_submission(t: &Fixture) {
    let worker = t.worker().await;
    let (store, me) = (t.store.clone(), t.me.clone());
    let claim = tokio::spawn(async move { store.claim(&me, &ClaimRequest::new(worker, 1), MINUTE).await });
    let payload = Payload::json("1");
    let job = t.submit(NewJob { payload: payload.clone(), ..new_job("email.send") }).await;
    let answer = claim.await.unwrap().unwrap();
    assert_eq!(ids(&answer.jobs), [job.id]);
    assert_eq!(answer.jobs[0].spec.payload, payload);
}

/// Model: bounded-commits, claim-order. Jobs with large payloads are handed out a few at a time, and all of them in the end.
async fn a_claim_ends_before_it_holds_too_many_bytes(t: &Fixture) {
    let t =
        t.another(StoreOptions { payload_bytes_max: limits::PAYLOAD_BYTES_MAX, ..StoreOptions::default() });
    let large = format!("\"{}\"", "x".repeat(limits::CLAIM_BYTES_MAX * 3 / 8));
    t.submit_all(vec![NewJob { payload: Payload::json(&large), ..new_job("large") }; 4]).await;
    let worker = t.worker().await;
    let first = t.claim(worker, 10).await;
    assert_eq!(first.len(), 3, "two are below the bound, and the third goes beyond it");
    for claimed in &first {
        t.complete(worker, claimed).await;
    }
    assert_eq!(t.claim(worker, 10).await.len(), 1);
}

/// Model: bounded-commits, claim-order. The same for jobs with large checkpoints.
async fn a_claim_ends_before_it_holds_too_many_checkpoints(t: &Fixture) {
    let t =
        t.another(StoreOptions { payload_bytes_max: limits::PAYLOAD_BYTES_MAX, ..StoreOptions::default() });
    let large = vec![b'1'; limits::CLAIM_BYTES_MAX * 3 / 8];
    t.submit_all(vec![new_job("large"); 4]).await;
    let worker = t.worker().await;
    for claimed in t.claim(worker, 10).await {
        let write = AttemptWrite::Checkpoint { step: "large".to_owned(), value: large.clone() };
        t.store.record(&t.me, lease_ref(&claimed), vec![write]).await.unwrap();
        t.finish(worker, claimed.job.id, claimed.job.fence, Outcome::Released).await;
    }
    t.advance(MINUTE);
    let worker = t.worker().await;
    let first = t.claim(worker, 10).await;
    assert_eq!(first.len(), 3, "two are below the bound, and the third goes beyond it");
    assert!(first.iter().all(|claimed| claimed.checkpoints[0].value.len() == large.len()));
    for claimed in &first {
        t.complete(worker, claimed).await;
    }
    assert_eq!(t.claim(worker, 10).await.len(), 1);
}
