//! Which trace a record belongs to: the request's, the job's own, or one that is made for the call (Model: audit-trail).

use windlass::audit::{AuditEvent, AuditLevel, Record};
use windlass::job::{Failure, GroupStrategy, JobId, JobState, NewJob, RetryPolicy, ScheduleName};
use windlass::schedule::ScheduleSpec;
use windlass::settings::QueueSettings;
use windlass::store::caller::{Caller, Role};
use windlass::store::{ActionRequest, NewGroup, NewSchedule, Pause, PauseTarget, Redrive, Suspend};

use crate::fixture::{Fixture, after, lease_ref, new_job, queue, secs};

tests!(
    audit_trace, audit::trace:
    what_happens_in_a_jobs_life_carries_the_jobs_trace,
    what_an_operator_does_carries_the_trace_of_the_request,
    jobs_that_are_taken_from_a_worker_carry_the_trace_of_the_request,
    a_triggered_run_carries_the_trace_of_the_request,
    a_call_without_any_trace_has_one_made_for_it,
    children_and_redrives_stay_in_the_trace,
    children_get_baggage_without_a_trace,
);

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn traced(job_type: &str) -> NewJob {
    NewJob { traceparent: Some(format!("00-{TRACE}-00f067aa0ba902b7-01")), ..new_job(job_type) }
}

async fn keep_all(t: &Fixture) {
    let audit = Some(AuditLevel::All);
    t.set_queue("default", QueueSettings { audit, ..QueueSettings::default() }).await;
}

async fn records_of(t: &Fixture, id: JobId) -> Vec<Record> {
    t.trail().await.into_iter().filter(|record| record.job == Some(id)).collect()
}

fn is_trace(id: Option<&str>) -> bool {
    id.is_some_and(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()) && id != "0".repeat(32))
}

async fn what_happens_in_a_jobs_life_carries_the_jobs_trace(t: &Fixture) {
    keep_all(t).await;
    let worker = t.worker().await;
    let id = t.submit(NewJob { delay: Some(secs(5)), ..traced("report") }).await.id;
    t.advance(secs(5));
    t.tick().await;
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.advance(secs(2));
    t.claim_one(worker).await;
    t.advance(secs(31));
    t.tick().await;
    t.advance(secs(5));
    let again = t.worker().await;
    let claimed = t.claim_one(again).await;
    t.complete(again, &claimed).await;
    let records = records_of(t, id).await;
    let events: Vec<AuditEvent> = records.iter().map(|record| record.event).collect();
    assert!(events.contains(&AuditEvent::Reaped) && events.contains(&AuditEvent::Promoted), "{events:?}");
    for record in &records {
        assert_eq!(record.trace_id.as_deref(), Some(TRACE), "{}", record.event);
    }
    assert_eq!(t.get(id).await.job.trace.unwrap().to_string(), TRACE);
}

async fn what_an_operator_does_carries_the_trace_of_the_request(t: &Fixture) {
    keep_all(t).await;
    let olga = Caller { trace_id: Some("aa".repeat(16)), ..Caller::new("olga", Role::Admin, None) };
    let id = t.submit(traced("report")).await.id;
    let dependent = t.submit(after(&[id])).await.id;
    t.store.act(&olga, id, ActionRequest::Suspend(Suspend::default())).await.unwrap();
    t.store.act(&olga, id, ActionRequest::Cancel { reason: None }).await.unwrap();
    let traces: Vec<(AuditEvent, Option<String>)> =
        records_of(t, id).await.into_iter().map(|record| (record.event, record.trace_id)).collect();
    let theirs = || Some("aa".repeat(16));
    let expected = [
        (AuditEvent::Submitted, Some(TRACE.to_owned())),
        (AuditEvent::Suspended, theirs()),
        (AuditEvent::Cancelled, theirs()),
    ];
    assert_eq!(traces, expected);
    // What follows from the request for a job without a trace of its own belongs to the request as well.
    let ended = records_of(t, dependent).await.pop().unwrap();
    assert_eq!((ended.event, ended.trace_id), (AuditEvent::Cancelled, theirs()));
    t.store.pause(&olga, PauseTarget::Queue(queue("other")), Pause::graceful()).await.unwrap();
    assert_eq!(t.trail().await.pop().unwrap().trace_id, theirs());
}

/// Model: audit-trail. A worker is removed, or paused so that its jobs go back.
async fn jobs_that_are_taken_from_a_worker_carry_the_trace_of_the_request(t: &Fixture) {
    keep_all(t).await;
    let olga = Caller { trace_id: Some("aa".repeat(16)), ..Caller::new("olga", Role::Admin, None) };
    let (first, second) = (t.worker().await, t.worker().await);
    let ids = [t.submit(traced("report")).await.id, t.submit(new_job("report")).await.id];
    assert_eq!(t.claim_ids(first, 2).await, ids);
    t.store.deregister(&olga, first).await.unwrap();
    t.claim(second, 2).await;
    t.store.pause(&olga, PauseTarget::Worker(second), Pause::aggressive()).await.unwrap();
    for id in ids {
        let records = records_of(t, id).await;
        let released: Vec<&Record> =
            records.iter().filter(|record| record.event == AuditEvent::Released).collect();
        assert_eq!(released.len(), 2);
        for record in released {
            assert_eq!(record.trace_id, olga.trace_id);
        }
    }
}

/// Model: audit-trail
async fn a_triggered_run_carries_the_trace_of_the_request(t: &Fixture) {
    keep_all(t).await;
    let olga = Caller { trace_id: Some("aa".repeat(16)), ..Caller::new("olga", Role::Admin, None) };
    let nightly = ScheduleName::new("nightly").unwrap();
    let new = NewSchedule::new(ScheduleSpec::Every(secs(3600)), new_job("report"));
    t.store.put_schedule(&t.me, nightly.clone(), new).await.unwrap();
    let job = t.store.trigger_schedule(&olga, nightly).await.unwrap();
    let submitted = records_of(t, job.id).await.remove(0);
    assert_eq!((submitted.event, submitted.trace_id), (AuditEvent::Submitted, olga.trace_id));
}

async fn a_call_without_any_trace_has_one_made_for_it(t: &Fixture) {
    keep_all(t).await;
    let worker = t.worker().await;
    let retry = Some(RetryPolicy::standard().attempts(1));
    let ids: Vec<JobId> = t
        .submit_all(vec![new_job("report"), new_job("report"), NewJob { retry, ..new_job("report") }])
        .await
        .into_iter()
        .map(|receipt| receipt.job.id)
        .collect();
    let submitted: Vec<Option<String>> = t
        .trail()
        .await
        .into_iter()
        .filter(|record| record.job.is_some())
        .map(|record| record.trace_id)
        .collect();
    assert!(is_trace(submitted[0].as_deref()), "{submitted:?}");
    assert!(submitted.iter().all(|trace| *trace == submitted[0]), "one call, one trace: {submitted:?}");
    t.suspend(ids[0]).await;
    let claimed = t.claim_one(worker).await;
    t.complete(worker, &claimed).await;
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    t.store.pause(&t.me, PauseTarget::Gate, Pause::graceful()).await.unwrap();
    let mut made: Vec<String> = Vec::new();
    for record in t.trail().await {
        assert!(is_trace(record.trace_id.as_deref()), "{}: {:?}", record.event, record.trace_id);
        made.extend(record.trace_id);
    }
    made.dedup();
    let distinct: std::collections::BTreeSet<&String> = made.iter().collect();
    assert_eq!(distinct.len(), made.len(), "every call has its own");
    // Time alone asks for nothing.
    t.store.resume(&t.me, PauseTarget::Gate, None).await.unwrap();
    let delayed = t.submit(NewJob { delay: Some(secs(5)), ..new_job("report") }).await.id;
    t.advance(secs(5));
    t.tick().await;
    let promoted = records_of(t, delayed).await.pop().unwrap();
    assert_eq!((promoted.event, promoted.trace_id), (AuditEvent::Promoted, None));
}

async fn children_and_redrives_stay_in_the_trace(t: &Fixture) {
    let context = (Some("vendor=1,other=2".to_owned()), Some("user=7,plan=a%20b".to_owned()));
    let (tracestate, baggage) = context.clone();
    let (worker, parent) = t.running(NewJob { tracestate, baggage, ..traced("parent") }).await;
    assert_eq!((parent.spec.tracestate.clone(), parent.spec.baggage.clone()), context);
    let own =
        NewJob { traceparent: Some(format!("00-{}-00f067aa0ba902b7-01", "bb".repeat(16))), ..new_job("own") };
    let group = NewGroup {
        name: "children".into(),
        strategy: GroupStrategy::CollectAll,
        jobs: vec![new_job("child"), own],
    };
    let spawned = t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap();
    let traces: Vec<String> = spawned.children.iter().map(|child| child.trace.unwrap().to_string()).collect();
    assert_eq!(traces, [TRACE.to_owned(), "bb".repeat(16)]);
    let spec = t.get(spawned.children[0].id).await.spec;
    assert_eq!(spec.traceparent, parent.spec.traceparent);
    assert_eq!((spec.tracestate, spec.baggage), context);
    // A child with a trace of its own gets nothing of the parent's.
    let spec = t.get(spawned.children[1].id).await.spec;
    assert_eq!((spec.tracestate, spec.baggage), (None, None));
    let claimed = t.claim_one(worker).await;
    t.fail(worker, &claimed, Failure::permanent("no", "no")).await;
    let again = t.store.redrive(&t.me, claimed.job.id, Redrive::default()).await.unwrap();
    assert_eq!((again.state, again.trace), (JobState::Scheduled, claimed.job.trace));
}

/// An empty header is none, and baggage needs no trace.
async fn children_get_baggage_without_a_trace(t: &Fixture) {
    let (traceparent, baggage) = (Some(String::new()), Some("user=7".to_owned()));
    let (_, parent) = t.running(NewJob { traceparent, baggage, ..new_job("parent") }).await;
    assert_eq!((parent.job.trace, parent.spec.traceparent.as_deref()), (None, None));
    let strategy = GroupStrategy::CollectAll;
    let group = NewGroup { name: "children".into(), strategy, jobs: vec![new_job("child")] };
    let spawned = t.store.spawn(&t.me, lease_ref(&parent), group).await.unwrap();
    assert_eq!(t.get(spawned.children[0].id).await.spec.baggage.as_deref(), Some("user=7"));
}
