//! Debouncing: of submissions that come close together only the last counts.

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::error::SubmitError;
use windlass::job::{Debounce, JobId, JobState, NewJob, Payload};
use windlass::store::SubmitOptions;
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;

use crate::fixture::{Fixture, new_job, secs, tenant};

tests!(
    jobs_debounce, jobs::debounce:
    the_last_of_several_submissions_runs_after_its_delay,
    a_job_that_started_is_not_replaced,
    a_job_whose_delay_is_over_runs_with_the_last_payload,
    a_key_counts_within_its_tenant_and_type,
    each_replacement_is_in_the_audit_trail,
    a_shorter_delay_runs_it_sooner,
    a_contradiction_is_refused,
    a_job_is_replaced_only_by_callers_who_may_manage_it,
    a_debounced_submission_does_not_make_the_queue_deeper,
);

fn save(version: u32, delay: u64) -> NewJob {
    let payload = Payload::json(version.to_string());
    let debounce = Some(Debounce { key: "document 7".into(), delay: secs(delay) });
    NewJob { payload, debounce, ..new_job("save") }
}

async fn submit(t: &Fixture, job: NewJob) -> (JobId, bool) {
    let receipt = t.submit_all(vec![job]).await.remove(0);
    assert!(!receipt.is_duplicate);
    (receipt.job.id, receipt.is_debounced)
}

async fn payload(t: &Fixture, id: JobId) -> String {
    String::from_utf8(t.get(id).await.spec.payload.bytes.to_vec()).unwrap()
}

async fn the_last_of_several_submissions_runs_after_its_delay(t: &Fixture) {
    let worker = t.worker().await;
    let (first, is_debounced) = submit(t, save(1, 10)).await;
    assert!(!is_debounced);
    for version in 2..=5 {
        t.advance(secs(6));
        assert_eq!(submit(t, save(version, 10)).await, (first, true));
    }
    t.advance(secs(9));
    assert!(t.claim(worker, 9).await.is_empty());
    t.advance(secs(1));
    let claimed = t.claim_one(worker).await;
    assert_eq!((claimed.job.id, &*claimed.spec.payload.bytes), (first, b"5".as_slice()));
    assert_eq!(t.everything().await.jobs.len(), 1);
}

async fn a_job_that_started_is_not_replaced(t: &Fixture) {
    let worker = t.worker().await;
    let (first, _) = submit(t, save(1, 0)).await;
    let claimed = t.claim_one(worker).await;
    let (second, is_debounced) = submit(t, save(2, 0)).await;
    assert!(!is_debounced && second != first);
    assert_eq!(submit(t, save(3, 0)).await, (second, true), "the key is the second one's now");
    t.complete(worker, &claimed).await;
    assert_eq!((payload(t, first).await, payload(t, second).await), ("1".into(), "3".into()));
    t.cancel(second).await;
    assert!(!submit(t, save(4, 0)).await.1, "a job that ended is not replaced either");
}

async fn a_job_whose_delay_is_over_runs_with_the_last_payload(t: &Fixture) {
    let worker = t.worker().await;
    let (first, _) = submit(t, save(1, 5)).await;
    t.advance(secs(5));
    t.tick().await;
    assert_eq!(t.state(first).await, JobState::Scheduled);
    assert_eq!(submit(t, save(2, 5)).await, (first, true));
    let claimed = t.claim_one(worker).await;
    assert_eq!(&*claimed.spec.payload.bytes, b"2");
}

async fn a_key_counts_within_its_tenant_and_type(t: &Fixture) {
    let (first, _) = submit(t, save(1, 5)).await;
    let other = NewJob { tenant: Some(tenant("acme")), ..save(2, 5) };
    assert!(!submit(t, other).await.1);
    let other = NewJob { debounce: save(3, 5).debounce, ..new_job("render") };
    assert!(!submit(t, other).await.1);
    assert_eq!(payload(t, first).await, "1");
}

/// Model: payload, audit-trail
async fn each_replacement_is_in_the_audit_trail(t: &Fixture) {
    let (first, _) = submit(t, save(1, 60)).await;
    t.advance(secs(30));
    submit(t, save(2, 60)).await;
    let event = Some(AuditEvent::Debounced);
    let records = t.records(RecordQuery { job: Some(first), event, ..RecordQuery::default() }).await;
    assert_eq!(records.len(), 1);
    assert!(records[0].context.contains(&t.now().plus(secs(60)).to_string()));
    assert!(!records[0].context.contains("payload"), "what was submitted is not recorded");
}

async fn a_shorter_delay_runs_it_sooner(t: &Fixture) {
    let worker = t.worker().await;
    submit(t, save(1, 3_600)).await;
    submit(t, save(2, 0)).await;
    assert_eq!(&*t.claim_one(worker).await.spec.payload.bytes, b"2");
}

async fn a_contradiction_is_refused(t: &Fixture) {
    let field = async |jobs: Vec<NewJob>| match t.refused(jobs).await {
        SubmitError::Invalid { invalid, .. } => invalid.field,
        other => panic!("{other}"),
    };
    assert_eq!(field(vec![NewJob { delay: Some(secs(1)), ..save(1, 1) }]).await, "debounce");
    assert_eq!(field(vec![save(1, 1), save(2, 1)]).await, "debounce.key");
    let empty = Some(Debounce { key: String::new(), delay: secs(1) });
    assert_eq!(field(vec![NewJob { debounce: empty, ..save(1, 1) }]).await, "debounce.key");
    let long = Some(Debounce { key: "k".into(), delay: Duration::MAX });
    assert_eq!(field(vec![NewJob { debounce: long, ..save(1, 1) }]).await, "debounce.delay");
}

/// Model: roles
async fn a_job_is_replaced_only_by_callers_who_may_manage_it(t: &Fixture) {
    let submitter = |name: &str| Caller::new(name, Role::Submitter, Some(tenant("default")));
    let (ann, bob) = (submitter("ann"), submitter("bob"));
    let options = SubmitOptions::default();
    let first = t.store.submit(&ann, vec![save(1, 60)], options).await.unwrap().remove(0).job.id;
    let refused = t.store.submit(&bob, vec![save(2, 60)], options).await;
    assert!(matches!(refused, Err(SubmitError::Forbidden(_))), "{refused:?}");
    assert_eq!(payload(t, first).await, "1");
    assert!(t.store.submit(&ann, vec![save(3, 60)], options).await.unwrap()[0].is_debounced);
}

/// Model: backpressure
async fn a_debounced_submission_does_not_make_the_queue_deeper(t: &Fixture) {
    let one = windlass::settings::QueueSettings { max_depth: Some(1), ..Default::default() };
    t.set_queue("default", one).await;
    submit(t, save(1, 60)).await;
    assert!(submit(t, save(2, 60)).await.1);
}
