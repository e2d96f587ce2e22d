//! What a job carries: identity, names, payload, metadata, and the facts that are shown beside it.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use windlass::error::{ActionError, InvalidTransition, SubmitError};
use windlass::job::{Failure, JobAction, JobMetadata, JobState, NewJob, Payload, SuspendMode};
use windlass::store::{ActionRequest, Patch, Redrive, StoreOptions, Suspend};
use windlass::webhook_url::TargetPolicy;

use crate::fixture::{Fixture, job_type, new_job, queue, tenant};

tests!(
    jobs_metadata, jobs::metadata:
    ids_are_random_uuids_that_the_system_assigns,
    the_longest_names_are_kept,
    a_payload_reads_back_byte_for_byte,
    a_payload_at_the_limit_is_taken_and_one_past_it_is_not,
    the_limit_of_payloads_can_be_set,
    labels_are_kept_up_to_their_limits,
    labels_past_their_limits_are_refused,
    a_patch_changes_what_it_names_and_nothing_else,
    a_patch_past_the_limits_changes_nothing,
    a_callback_to_a_literal_private_address_is_refused,
    a_callback_to_an_allowed_network_is_taken,
    a_final_job_cannot_be_patched,
    facts_tell_the_life_of_a_job,
    a_redrive_is_recorded_by_both_jobs,
);

/// Model: identity
async fn ids_are_random_uuids_that_the_system_assigns(t: &Fixture) {
    let receipts = t.submit_all(vec![new_job("email.send"); 100]).await;
    let ids: HashSet<String> = receipts.iter().map(|receipt| receipt.job.id.to_string()).collect();
    assert_eq!(ids.len(), 100);
    for id in ids {
        assert_eq!(id.len(), 36, "{id}");
        assert_eq!(&id[14..15], "4", "the version of {id}");
        assert!("89ab".contains(&id[19..20]), "the variant of {id}");
    }
}

/// Model: type-and-queue-names
async fn the_longest_names_are_kept(t: &Fixture) {
    let long = format!("n{}", "_.:-9Zz".repeat(40)).chars().take(255).collect::<String>();
    let job = NewJob { queue: queue(&long), tenant: Some(tenant(&long)), ..new_job(&long) };
    let job = t.submit(job).await;
    let found = t.get(job.id).await.job;
    assert_eq!(found.lane.job_type, job_type(&long));
    assert_eq!((found.lane.queue.as_str(), found.lane.tenant.as_str()), (long.as_str(), long.as_str()));
    let worker = t.worker_for(&[&long], &[&long]).await;
    assert_eq!(t.claim_one(worker).await.job.id, job.id);
}

/// Model: payload
async fn a_payload_reads_back_byte_for_byte(t: &Fixture) {
    let nested = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    let all_bytes: Vec<u8> = (0..=255).collect();
    let payloads = [
        Payload::json(r#"{ "b" : 1,"a":2 , "a":3.0, "n":1e400, "big":123456789012345678901234567890 }"#),
        Payload::json(r#""\u0000 \ud83d\ude00 ü""#),
        Payload::json("null"),
        Payload::json(nested),
        Payload::json(""),
        Payload::bytes(all_bytes, "application/octet-stream"),
        Payload::bytes(b"\0\0\xff\xfe", "x/y; charset=utf-16"),
    ];
    let worker = t.worker().await;
    for payload in payloads {
        let job = t.submit(NewJob { payload: payload.clone(), ..new_job("email.send") }).await;
        assert_eq!(t.get(job.id).await.spec.payload, payload);
        let claimed = t.claim_one(worker).await;
        assert_eq!(claimed.spec.payload, payload, "as the worker gets it");
        t.fail(worker, &claimed, Failure::temporary("again")).await;
        t.advance(Duration::from_secs(2));
        let claimed = t.claim_one(worker).await;
        assert_eq!(claimed.spec.payload, payload, "and on the second attempt");
        t.complete(worker, &claimed).await;
        let again = t.store.redrive(&t.me, job.id, Redrive::default()).await.unwrap();
        assert_eq!(t.get(again.id).await.spec.payload, payload, "and when submitted again");
        t.cancel(again.id).await;
    }
}

fn bytes(size: usize) -> NewJob {
    NewJob { payload: Payload::bytes(vec![b'x'; size], "text/plain"), ..new_job("email.send") }
}

/// Model: payload
async fn a_payload_at_the_limit_is_taken_and_one_past_it_is_not(t: &Fixture) {
    let limit = 1 << 20;
    let job = t.submit(bytes(limit)).await;
    assert_eq!(t.get(job.id).await.spec.payload.bytes.len(), limit);
    let error = t.refused(vec![new_job("email.send"), bytes(limit + 1)]).await;
    assert_eq!(error, SubmitError::PayloadTooLarge { index: 1, size: limit + 1, limit });
}

/// Model: payload
async fn the_limit_of_payloads_can_be_set(t: &Fixture) {
    let t = t.another(StoreOptions { payload_bytes_max: 16 << 20, ..StoreOptions::default() });
    let job = t.submit(bytes(16 << 20)).await;
    assert_eq!(t.get(job.id).await.spec.payload.bytes.len(), 16 << 20);
    let error = t.refused(vec![bytes((16 << 20) + 1)]).await;
    assert!(matches!(error, SubmitError::PayloadTooLarge { limit, .. } if limit == 16 << 20), "{error}");
}

/// Labels as large as allowed; the letter is two bytes long, since limits count characters.
fn largest() -> JobMetadata {
    let tags = (0..64).map(|n| (format!("{n:0>2}{}", "ü".repeat(62)), "ü".repeat(256))).collect();
    let callback_url = Some(format!("https://example.com/{}", "x".repeat(2048 - 20)));
    JobMetadata { tags, correlation_id: Some("ü".repeat(256)), callback_url }
}

/// Each limit exceeded by one, with the field that is to blame.
fn too_large() -> Vec<(&'static str, JobMetadata)> {
    let one = |name: String, value: String| BTreeMap::from([(name, value)]);
    let many: BTreeMap<String, String> = (0..65).map(|n| (n.to_string(), String::new())).collect();
    vec![
        ("tags", JobMetadata { tags: many, ..JobMetadata::default() }),
        ("tags", JobMetadata { tags: one("n".repeat(65), String::new()), ..JobMetadata::default() }),
        ("tags", JobMetadata { tags: one(String::new(), "v".into()), ..JobMetadata::default() }),
        ("tags.n", JobMetadata { tags: one("n".into(), "v".repeat(257)), ..JobMetadata::default() }),
        ("correlation_id", JobMetadata { correlation_id: Some("c".repeat(257)), ..JobMetadata::default() }),
        ("callback_url", JobMetadata { callback_url: Some("u".repeat(2049)), ..JobMetadata::default() }),
    ]
}

/// Model: writable-fields
async fn labels_are_kept_up_to_their_limits(t: &Fixture) {
    let job = t.submit(NewJob { metadata: largest(), ..new_job("email.send") }).await;
    assert_eq!(t.get(job.id).await.spec.metadata, largest());
    let plain = t.submit(new_job("email.send")).await;
    let JobMetadata { tags, correlation_id, callback_url } = largest();
    let patch = Patch {
        tags: Some(tags),
        correlation_id: Some(correlation_id),
        callback_url: Some(callback_url),
        ..Patch::default()
    };
    assert!(t.act(plain.id, ActionRequest::Patch(patch)).await.is_changed);
    assert_eq!(t.get(plain.id).await.spec.metadata, largest());
}

/// Model: writable-fields
async fn labels_past_their_limits_are_refused(t: &Fixture) {
    for (field, metadata) in too_large() {
        let error =
            t.refused(vec![new_job("email.send"), NewJob { metadata, ..new_job("email.send") }]).await;
        let SubmitError::Invalid { index, invalid } = error else { panic!("{error}") };
        assert_eq!((index, invalid.field.as_str()), (1, field));
    }
}

/// Model: writable-fields, changing-priority
async fn a_patch_changes_what_it_names_and_nothing_else(t: &Fixture) {
    let tags = BTreeMap::from([("team".to_owned(), "blue".to_owned())]);
    let metadata = JobMetadata { tags, correlation_id: Some("order-7".into()), callback_url: None };
    let job = t.submit(NewJob { metadata: metadata.clone(), ..new_job("email.send") }).await;
    t.advance(Duration::from_secs(1));
    let same = Patch { tags: Some(metadata.tags.clone()), priority: Some(job.priority), ..Patch::default() };
    let before = t.everything().await;
    assert!(
        !t.act(job.id, ActionRequest::Patch(same)).await.is_changed,
        "a value that is there already is not a change"
    );
    assert_eq!(t.everything().await, before);
    let patch = Patch { correlation_id: Some(None), ..Patch::default() };
    let acted = t.act(job.id, ActionRequest::Patch(patch)).await;
    assert!(acted.is_changed);
    assert_eq!(acted.job.updated_at, t.now());
    assert_eq!(t.get(job.id).await.spec.metadata, JobMetadata { correlation_id: None, ..metadata });
    assert_eq!(t.get(job.id).await.spec.payload, new_job("email.send").payload);
}

/// Model: callbacks
async fn a_callback_to_a_literal_private_address_is_refused(t: &Fixture) {
    let job = t.submit(new_job("email.send")).await;
    let before = t.everything().await;
    for url in
        ["http://127.0.0.1/", "https://[::ffff:10.0.0.1]/", "https://2852039166/", "ftp://a.b/", "hook"]
    {
        let metadata = JobMetadata { callback_url: Some(url.into()), ..JobMetadata::default() };
        let error = t.refused(vec![NewJob { metadata, ..new_job("email.send") }]).await;
        let SubmitError::Invalid { invalid, .. } = error else { panic!("{error}") };
        assert_eq!(invalid.field, "callback_url", "{url}");
        let patch = Patch { callback_url: Some(Some(url.into())), ..Patch::default() };
        let error = t.store.act(&t.me, job.id, ActionRequest::Patch(patch)).await.unwrap_err();
        assert!(
            matches!(&error, ActionError::Invalid(invalid) if invalid.field == "callback_url"),
            "{error}"
        );
    }
    assert_eq!(t.everything().await, before);
    // Where a name leads is not known before it is resolved, at delivery.
    let metadata = JobMetadata { callback_url: Some("https://localhost/".into()), ..JobMetadata::default() };
    t.submit(NewJob { metadata, ..new_job("email.send") }).await;
}

/// Model: callbacks
async fn a_callback_to_an_allowed_network_is_taken(t: &Fixture) {
    let networks = vec!["127.0.0.0/8".parse().unwrap()];
    let targets = TargetPolicy { networks, allows_http: true, ports: None };
    let t = t.another(StoreOptions { targets, ..StoreOptions::default() });
    let to = |url: &str| JobMetadata { callback_url: Some(url.into()), ..JobMetadata::default() };
    t.submit(NewJob { metadata: to("http://127.0.0.1:1234/hook"), ..new_job("email.send") }).await;
    t.refused(vec![NewJob { metadata: to("http://10.0.0.1/"), ..new_job("email.send") }]).await;
}

/// Model: refused-changes, writable-fields
async fn a_patch_past_the_limits_changes_nothing(t: &Fixture) {
    let job = t.submit(new_job("email.send")).await;
    let before = t.everything().await;
    for (field, JobMetadata { tags, correlation_id, callback_url }) in too_large() {
        let patch = Patch {
            priority: Some(crate::fixture::priority(99)),
            tags: Some(tags),
            correlation_id: Some(correlation_id),
            callback_url: Some(callback_url),
        };
        let error = t.store.act(&t.me, job.id, ActionRequest::Patch(patch)).await.unwrap_err();
        let ActionError::Invalid(invalid) = error else { panic!("{error}") };
        assert_eq!(invalid.field, field);
        assert_eq!(t.everything().await, before, "not even the priority");
    }
}

/// Model: refused-changes, writable-fields
async fn a_final_job_cannot_be_patched(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    t.complete(worker, &claimed).await;
    let before = t.everything().await;
    let patch = Patch { correlation_id: Some(Some("late".into())), ..Patch::default() };
    let error = t.store.act(&t.me, claimed.job.id, ActionRequest::Patch(patch)).await.unwrap_err();
    assert_eq!(
        error,
        ActionError::Refused(InvalidTransition { state: JobState::Completed, action: JobAction::Patch })
    );
    assert_eq!(t.everything().await, before);
}

/// Model: counters-and-fences, read-only-fields
async fn facts_tell_the_life_of_a_job(t: &Fixture) {
    let second = Duration::from_secs(1);
    let start = t.now();
    let job = t.submit(NewJob { delay: Some(second), ..new_job("email.send") }).await;
    let worker = t.worker().await;
    t.advance(second);
    let first = t.claim_one(worker).await;
    t.advance(second);
    t.fail(worker, &first, Failure::temporary("no route to host")).await;
    let failed = t.get(job.id).await.job;
    assert_eq!((failed.attempt, failed.failures, failed.retry_count()), (1, 1, 1));
    assert_eq!((failed.policy.retry.max_attempts, failed.policy.retry.max_retries()), (3, 2));
    assert_eq!(failed.details.error.as_ref().unwrap().message, "no route to host");
    t.act(job.id, ActionRequest::Suspend(Suspend { mode: SuspendMode::IdleOnly, ..Suspend::default() }))
        .await;
    t.advance(second);
    t.resume(job.id).await;
    t.act(job.id, ActionRequest::Priority(crate::fixture::priority(70))).await;
    let claimed = t.claim_one(worker).await;
    t.advance(second);
    t.complete(worker, &claimed).await;
    let job = t.get(job.id).await.job;
    let at = |seconds: u32| Some(start.plus(second * seconds));
    assert_eq!((job.created_at, job.run_at), (start, start.plus(second)));
    assert_eq!((job.first_started_at, job.started_at), (at(1), at(3)));
    assert_eq!((job.scheduled_at, job.completed_at), (at(3), at(4)));
    assert_eq!(job.updated_at, start.plus(second * 4));
    assert_eq!((job.details.suspended_at, job.details.resumed_at), (at(2), at(3)));
    assert_eq!(job.details.suspended_by.as_deref(), Some("local"));
    assert_eq!(job.details.priority_updated_at, at(3));
    assert_eq!((job.attempt, job.failures), (2, 1));
    assert_eq!(job.details.error, None, "a success clears the error");
}

/// Model: final-states, read-only-fields
async fn a_redrive_is_recorded_by_both_jobs(t: &Fixture) {
    let (worker, claimed) = t.running(new_job("email.send")).await;
    t.complete(worker, &claimed).await;
    let old = claimed.job.id;
    let first = t.store.redrive(&t.me, old, Redrive::default()).await.unwrap();
    let second = t.store.redrive(&t.me, old, Redrive::default()).await.unwrap();
    assert_eq!(first.details.retry_of, Some(old));
    assert_eq!(t.get(second.id).await.job.details.retry_of, Some(old));
    let old = t.get(old).await.job;
    assert_eq!(old.details.superseded_by, Some(second.id), "the latest");
    assert_eq!(old.state, JobState::Completed);
}
