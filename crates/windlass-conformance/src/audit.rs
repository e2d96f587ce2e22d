//! What is kept of what happened, for whom, and that it is what happened.

pub mod live;
pub mod trace;

use serde_json::{Value, json};
use windlass::audit::{AuditEvent, AuditLevel, Record, Seal};
use windlass::clock::Timestamp;
use windlass::error::ActionError;
use windlass::job::{Failure, JobState, JobType, NewJob, Priority, SuspendMode};
use windlass::limits;
use windlass::settings::{QueueSettings, TypeSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;
use windlass::store::{ActionRequest, Settings, SubmitOptions, Suspend};

use crate::fixture::{Fixture, caller, new_job, queue, secs, tenant};

tests!(
    audit, audit:
    each_queue_keeps_as_much_as_its_level_says,
    every_final_state_is_kept_once_by_default,
    a_suspension_and_a_resume_say_who_why_and_from_where,
    a_change_of_priority_says_who_and_from_what_to_what,
    a_record_names_its_actor_tenant_and_trace,
    records_are_numbered_without_gaps_and_read_in_pages,
    each_filter_finds_its_records_and_all_of_them_together_too,
    a_type_may_rename_its_success,
    the_audit_trail_is_sealed_step_by_step_and_verified,
);

async fn set_level(t: &Fixture, name: &str, audit: AuditLevel) {
    let settings = QueueSettings { audit: Some(audit), ..QueueSettings::default() };
    t.store.configure(&t.me, Settings::Queue(queue(name), settings)).await.unwrap();
}

async fn query(t: &Fixture, who: &Caller, query: RecordQuery) -> Vec<Record> {
    t.store.audit(who, RecordQuery { limit: 1000, ..query }).await.unwrap()
}

fn context(record: &Record) -> Value {
    serde_json::from_str(&record.context).unwrap()
}

/// Model: audit-trail
async fn each_queue_keeps_as_much_as_its_level_says(t: &Fixture) {
    use AuditEvent::{Claimed, Completed, Promoted, Resumed, Retried, Submitted, Suspended};
    let everything =
        vec![Submitted, Claimed, Retried, Promoted, Claimed, Suspended, Resumed, Claimed, Completed];
    let levels = [
        (AuditLevel::All, everything),
        (AuditLevel::Outcomes, vec![Suspended, Resumed, Completed]),
        (AuditLevel::Operators, vec![Suspended, Resumed]),
    ];
    for (level, expected) in levels {
        let name = format!("kept-{level:?}");
        set_level(t, &name, level).await;
        let worker = t.worker_for(&[&name], &[]).await;
        let id = t.submit(NewJob { queue: queue(&name), ..new_job("report") }).await.id;
        let claimed = t.claim_one(worker).await;
        t.fail(worker, &claimed, Failure::temporary("busy")).await;
        t.advance(secs(2));
        t.claim_one(worker).await;
        let aggressive = Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() };
        t.act(id, ActionRequest::Suspend(aggressive)).await;
        t.resume(id).await;
        let claimed = t.claim_one(worker).await;
        t.complete(worker, &claimed).await;
        assert_eq!(t.events_of(id).await, expected, "{level:?}");
    }
    assert_eq!(AuditLevel::default(), AuditLevel::Outcomes);
}

/// Model: audit-trail, exhaustion
async fn every_final_state_is_kept_once_by_default(t: &Fixture) {
    let ends = [
        (JobState::Completed, AuditEvent::Completed),
        (JobState::Failed, AuditEvent::Failed),
        (JobState::DeadLetter, AuditEvent::Exhausted),
        (JobState::Cancelled, AuditEvent::Cancelled),
    ];
    for (state, event) in ends {
        let placed = t.placed(state).await;
        assert_eq!(t.events_of(placed.id).await, [event]);
    }
}

/// Model: audit-trail
async fn a_suspension_and_a_resume_say_who_why_and_from_where(t: &Fixture) {
    let placed = t.placed(JobState::Delayed).await;
    let reason = Some("too early".to_owned());
    t.act(placed.id, ActionRequest::Suspend(Suspend { reason, ..Suspend::default() })).await;
    t.act(placed.id, ActionRequest::Resume { reason: Some("now".into()) }).await;
    t.suspend(placed.id).await;
    t.resume(placed.id).await;
    // The new state is recorded beside what the model names: without it the audit trail of a job could not be replayed
    // (Model: atomic-changes).
    let transition = |reason: Option<&str>, from: &str, to: &str| {
        let job_id = placed.id.to_string();
        let mut context = json!({"job_id": job_id, "actor_id": "local", "previous_state": from, "state": to,
            "mode": "idle_only"});
        if let Some(reason) = reason {
            context["reason"] = json!(reason);
        }
        context
    };
    let contexts: Vec<Value> = t.trail().await.iter().map(context).collect();
    let expected = [
        transition(Some("too early"), "delayed", "suspended"),
        transition(Some("now"), "suspended", "delayed"),
        transition(None, "delayed", "suspended"),
        transition(None, "suspended", "delayed"),
    ];
    assert_eq!(contexts, expected);
}

/// Model: audit-trail, changing-priority
async fn a_change_of_priority_says_who_and_from_what_to_what(t: &Fixture) {
    let job = t.submit(new_job("report")).await;
    t.act(job.id, ActionRequest::Priority(Priority::CRITICAL)).await;
    t.act(job.id, ActionRequest::Priority(Priority::CRITICAL)).await;
    let contexts: Vec<Value> = t.trail().await.iter().map(context).collect();
    let job_id = job.id.to_string();
    let expected =
        json!({"job_id": job_id, "actor_id": "local", "previous_priority": 50, "new_priority": 100});
    assert_eq!(contexts, [expected]);
}

/// Model: audit-trail
async fn a_record_names_its_actor_tenant_and_trace(t: &Fixture) {
    let olga = Caller { trace_id: Some("trace-1".into()), ..caller("olga", Role::Operator, "blue") };
    let id =
        t.store.submit(&olga, vec![new_job("report")], SubmitOptions::default()).await.unwrap()[0].job.id;
    t.store
        .act(&olga, id, ActionRequest::Suspend(Suspend { expires: Some(secs(5)), ..Suspend::default() }))
        .await
        .unwrap();
    t.advance(secs(5));
    t.tick().await;
    let worker = t.worker().await;
    let claimed = t.claim_one(worker).await;
    t.complete(worker, &claimed).await;
    let trail = t.trail().await;
    let who: Vec<(&str, &str)> =
        trail.iter().map(|record| (record.actor_type.as_str(), record.actor_id.as_str())).collect();
    assert_eq!(who, [("user", "olga"), ("system", "windlass"), ("worker", worker.to_string().as_str())]);
    assert!(trail.iter().all(|record| record.tenant == tenant("blue") && record.job == Some(id)));
    assert_eq!(trail[0].trace_id.as_deref(), Some("trace-1"));
    assert_eq!((trail[0].at, trail[1].at), (t.now().minus(secs(5)), t.now()));
}

/// Model: audit-trail
async fn records_are_numbered_without_gaps_and_read_in_pages(t: &Fixture) {
    let many = limits::PAGE_RECORDS_MAX + 5;
    let jobs = t.submit_all((0..many).map(|_| new_job("report")).collect()).await;
    let all = windlass::store::Filter::default();
    let cancel = windlass::store::BulkAction::Act(ActionRequest::Cancel { reason: None });
    t.store.bulk(&t.me, &all, cancel).await.unwrap();
    let trail = t.trail().await;
    let numbers: Vec<u64> = trail.iter().map(|record| record.seq).collect();
    assert_eq!(numbers, (1..=many as u64).collect::<Vec<_>>());
    // Each job's record is in the order in which they were done.
    let order: Vec<_> = trail.iter().filter_map(|record| record.job).collect();
    assert_eq!(order, jobs.iter().map(|receipt| receipt.job.id).collect::<Vec<_>>());
    let page = async |after, limit| {
        t.store.audit(&t.me, RecordQuery { after, limit, ..RecordQuery::default() }).await.unwrap()
    };
    assert_eq!(page(0, 10).await, trail[..10]);
    assert_eq!(page(10, 10).await, trail[10..20]);
    assert_eq!(page(0, 0).await, trail[..1], "a page has at least one record");
    assert_eq!(page(0, usize::MAX).await.len(), limits::PAGE_RECORDS_MAX);
    assert!(page(many as u64, 10).await.is_empty());
}

/// Model: audit-trail, tenant-isolation
async fn each_filter_finds_its_records_and_all_of_them_together_too(t: &Fixture) {
    let ann = caller("ann", Role::Operator, "blue");
    let bob = caller("bob", Role::Operator, "red");
    let mut jobs = Vec::new();
    for who in [&ann, &bob] {
        let id =
            t.store.submit(who, vec![new_job("report")], SubmitOptions::default()).await.unwrap()[0].job.id;
        t.store.act(who, id, ActionRequest::Suspend(Suspend::default())).await.unwrap();
        t.advance(secs(10));
        t.store.act(&t.me, id, ActionRequest::Resume { reason: None }).await.unwrap();
        jobs.push(id);
    }
    let trail = t.trail().await;
    let at = |seconds: i64| Some(Timestamp::from_millis(crate::fixture::START + seconds * 1000));
    let none = RecordQuery::default;
    let cases = [
        (none(), vec![1, 2, 3, 4]),
        (RecordQuery { job: Some(jobs[1]), ..none() }, vec![3, 4]),
        (RecordQuery { event: Some(AuditEvent::Resumed), ..none() }, vec![2, 4]),
        (RecordQuery { actor: Some("local".into()), ..none() }, vec![2, 4]),
        (RecordQuery { actor_type: Some("user".into()), ..none() }, vec![1, 2, 3, 4]),
        (RecordQuery { actor_type: Some("worker".into()), ..none() }, vec![]),
        (RecordQuery { tenant: Some(tenant("blue")), ..none() }, vec![1, 2]),
        (RecordQuery { since: at(10), ..none() }, vec![2, 3, 4]),
        (RecordQuery { until: at(10), ..none() }, vec![1]),
        (RecordQuery { after: 1, until: at(20), ..none() }, vec![2, 3]),
        (RecordQuery { job: Some(jobs[0]), after: 1, ..none() }, vec![2]),
        (RecordQuery { after: 1, before: Some(4), ..none() }, vec![2, 3]),
        (RecordQuery { job: Some(jobs[1]), before: Some(4), ..none() }, vec![3]),
        (RecordQuery { before: Some(1), ..none() }, vec![]),
        (
            RecordQuery {
                job: Some(jobs[1]),
                event: Some(AuditEvent::Suspended),
                actor: Some("bob".into()),
                tenant: Some(tenant("red")),
                since: at(10),
                until: at(11),
                ..none()
            },
            vec![3],
        ),
    ];
    for (wanted, expected) in cases {
        let found: Vec<u64> = query(t, &t.me, wanted.clone()).await.iter().map(|record| record.seq).collect();
        assert_eq!(found, expected, "{wanted:?}");
    }
    // Another tenant's records do not exist.
    assert_eq!(query(t, &ann, none()).await, trail[..2]);
    assert!(query(t, &ann, RecordQuery { tenant: Some(tenant("red")), ..none() }).await.is_empty());
    assert!(query(t, &ann, RecordQuery { job: Some(jobs[1]), ..none() }).await.is_empty());
}

/// Model: audit-trail
async fn a_type_may_rename_its_success(t: &Fixture) {
    let settings = TypeSettings { success_event: Some("EMAIL_SENT".into()), ..TypeSettings::default() };
    let job_type = JobType::new("email.send").unwrap();
    t.store.configure(&t.me, Settings::Type(job_type, settings)).await.unwrap();
    let (worker, claimed) = t.running(new_job("email.send")).await;
    t.complete(worker, &claimed).await;
    let record = t.trail().await.pop().unwrap();
    assert_eq!((record.event, record.name()), (AuditEvent::Completed, "EMAIL_SENT"));
    let (worker, claimed) = t.running(new_job("email.send")).await;
    t.fail(worker, &claimed, Failure::permanent("gone", "never")).await;
    assert_eq!(t.trail().await.pop().unwrap().name(), "job.lifecycle.failed");
    // A record must not look like one of another event.
    for name in ["", "two\nlines", "job.lifecycle.failed", "key.ops.created", "job.lifecycle.exhausted"] {
        let settings = TypeSettings { success_event: Some(name.to_owned()), ..TypeSettings::default() };
        let job_type = JobType::new("email.send").unwrap();
        let refused = t.store.configure(&t.me, Settings::Type(job_type, settings)).await.unwrap_err();
        assert!(
            matches!(&refused, ActionError::Invalid(invalid) if invalid.field == "success_event"),
            "{refused:?}"
        );
    }
}

/// Model: audit-chain
async fn the_audit_trail_is_sealed_step_by_step_and_verified(t: &Fixture) {
    assert_eq!(t.store.seal().await.unwrap().seal, Seal::origin(), "there is nothing to seal");
    let mut expected = Seal::origin();
    for _ in 0..3 {
        t.placed(JobState::Completed).await;
        t.placed(JobState::Cancelled).await;
        for record in &t.trail().await[usize::try_from(expected.through).unwrap()..] {
            expected = expected.extend(record);
        }
        let sealed = t.store.seal().await.unwrap();
        assert_eq!((sealed.seal, sealed.has_more), (expected.clone(), false));
        assert_eq!(t.store.seal().await.unwrap().seal, expected, "sealing twice is the same");
    }
    let result = t.store.verify_audit().await.unwrap();
    assert!(result.holds() && result.checked >= 6, "{result:?}");
}
