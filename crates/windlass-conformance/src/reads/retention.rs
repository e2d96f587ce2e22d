//! Final jobs are removed when they have been kept long enough, with all their data.

use windlass::audit::AuditEvent;
use windlass::clock::Timestamp;
use windlass::error::ActionError;
use windlass::job::{Dependency, Failure, JobId, JobMetadata, JobState, NeededBy, NewJob};
use windlass::limits;
use windlass::settings::patch::{Field, RetentionPatch};
use windlass::settings::{QueueSettings, Retention, TypeSettings};
use windlass::store::caller::{Caller, Role};
use windlass::store::engine::RecordQuery;
use windlass::store::{BulkAction, BulkReport, Filter, Finish, Outcome, Store, StoreOptions};

use crate::fixture::{Fixture, MOMENT, START, just_under, new_job, queue, secs};

tests!(
    reads_retention, reads::retention:
    each_final_state_is_kept_for_its_time,
    a_job_that_others_still_wait_with_is_kept,
    a_dependency_is_not_deleted_before_its_dependents_have_ended,
    more_jobs_than_one_commit_takes_are_all_removed,
    what_hangs_on_a_job_goes_with_it_and_the_audit_stays,
    each_type_queue_and_state_has_its_own_time,
    a_change_of_retention_counts_for_jobs_that_ended_before,
    a_job_that_ends_among_kept_ones_is_removed_at_its_time,
    the_retention_of_a_store_can_be_changed,
    the_first_retention_of_a_store_is_recorded,
);

const DAY: u64 = 24 * 3600;

/// Whether the store still has a job.
pub async fn is_there(store: &Store, me: &Caller, id: JobId) -> bool {
    store.get(me, id).await.unwrap().is_some()
}

/// Model: retention
async fn each_final_state_is_kept_for_its_time(t: &Fixture) {
    let mut placed = Vec::new();
    for state in JobState::FINAL {
        placed.push((t.placed(state).await.id, if state == JobState::DeadLetter { 30 } else { 7 }));
    }
    // Neither is removed, however old: they have not ended.
    let live = [t.placed(JobState::Suspended).await.id, t.placed(JobState::Running).await.id];
    for (day, removed) in [(7, 3), (30, 1)] {
        let until = Timestamp::from_millis(START).plus(secs(day * DAY));
        t.advance(just_under(until.since(t.now())));
        assert_eq!(t.store.prune().await.unwrap(), 0, "one millisecond too early");
        t.advance(MOMENT);
        assert_eq!(t.store.prune().await.unwrap(), removed);
        for (id, kept) in &placed {
            assert_eq!(is_there(&t.store, &t.me, *id).await, *kept > day);
        }
    }
    for id in live {
        assert!(is_there(&t.store, &t.me, id).await);
    }
}

/// Model: retention. It counts at once, is recorded, and is an administrator's to change.
async fn the_retention_of_a_store_can_be_changed(t: &Fixture) {
    let (failed, cancelled) = (t.placed(JobState::Failed).await.id, t.placed(JobState::Cancelled).await.id);
    let before = t.store.retention(&t.me).await.unwrap();
    assert_eq!((before.failed, before.dead_letter), (Some(secs(7 * DAY)), Some(secs(30 * DAY))));
    let day = RetentionPatch { failed: Field::Set(secs(DAY)), ..RetentionPatch::default() };
    for role in [Role::Viewer, Role::Operator] {
        let refused = t.store.set_retention(&Caller::new("ann", role, None), day).await;
        assert!(matches!(refused, Err(ActionError::Forbidden(_))), "{refused:?}");
    }
    let set = t.store.set_retention(&t.me, day).await.unwrap();
    assert_eq!((set.retention, set.is_changed), (Retention { failed: Some(secs(DAY)), ..before }, true));
    assert!(!t.store.set_retention(&t.me, day).await.unwrap().is_changed);
    t.advance(secs(2 * DAY));
    assert_eq!(t.store.prune().await.unwrap(), 1);
    assert!(!is_there(&t.store, &t.me, failed).await);
    assert!(is_there(&t.store, &t.me, cancelled).await);
    let long = RetentionPatch { failed: Field::Set(limits::DURATION_MAX * 2), ..RetentionPatch::default() };
    let refused = t.store.set_retention(&t.me, long).await;
    assert!(matches!(refused, Err(ActionError::Invalid(_))), "{refused:?}");
    let clear = RetentionPatch { failed: Field::Clear, ..RetentionPatch::default() };
    assert_eq!(t.store.set_retention(&t.me, clear).await.unwrap().retention, before);
    let query =
        RecordQuery { event: Some(AuditEvent::RetentionConfigured), limit: 10, ..RecordQuery::default() };
    assert_eq!(t.records(query).await.len(), 2);
}

/// Model: audit-trail, retention. What the first process was started with becomes the store's, in one commit with its record;
/// the defaults need none.
async fn the_first_retention_of_a_store_is_recorded(t: &Fixture) {
    let query =
        RecordQuery { event: Some(AuditEvent::RetentionConfigured), limit: 10, ..RecordQuery::default() };
    t.store.prune().await.unwrap();
    assert_eq!(t.records(query.clone()).await, []);
    let t = t.another(StoreOptions { retention: secs(30 * DAY), ..StoreOptions::default() });
    for _ in 0..2 {
        t.store.prune().await.unwrap();
        let records = t.records(query.clone()).await;
        assert_eq!(records.len(), 1, "once");
        assert_eq!((&*records[0].actor_type, &*records[0].actor_id), ("system", "windlass"));
        let context: serde_json::Value = serde_json::from_str(&records[0].context).unwrap();
        for state in ["completed", "failed", "cancelled", "dead_letter"] {
            assert_eq!(context["retention"][state], "30d");
        }
    }
}

/// Model: retention
async fn a_job_that_others_still_wait_with_is_kept(t: &Fixture) {
    let worker = t.steady_worker().await;
    let first = t.submit(new_job("first")).await.id;
    let claimed = t.claim_one(worker).await;
    let after = vec![Dependency::Job(first)];
    let lifetime = Some(secs(100 * DAY));
    let second = t.submit(NewJob { after, lifetime, ..new_job("second") }).await.id;
    t.complete(worker, &claimed).await;
    t.advance(secs(8 * DAY));
    assert_eq!(t.store.prune().await.unwrap(), 0);
    assert!(is_there(&t.store, &t.me, first).await);
    t.cancel(second).await;
    assert_eq!(t.store.prune().await.unwrap(), 1);
    assert!(!is_there(&t.store, &t.me, first).await);
}

/// Model: dependencies. Deleting follows the same rule as pruning.
async fn a_dependency_is_not_deleted_before_its_dependents_have_ended(t: &Fixture) {
    let worker = t.steady_worker().await;
    let first = t.submit(new_job("first")).await.id;
    let claimed = t.claim_one(worker).await;
    let after = vec![Dependency::Job(first)];
    let second = t.submit(NewJob { after, ..new_job("second") }).await.id;
    t.complete(worker, &claimed).await;
    let needed =
        ActionError::Needed { id: first, state: JobState::Completed, by: NeededBy::Dependent(second) };
    assert_eq!(t.store.delete(&t.me, first).await, Err(needed));
    let completed = Filter { states: vec![JobState::Completed], ..Filter::default() };
    let done = t.store.bulk(&t.me, &completed, BulkAction::Delete).await.unwrap();
    assert_eq!(done, BulkReport { matched: 1, changed: 0, skipped: 1 });
    assert!(is_there(&t.store, &t.me, first).await);
    t.cancel(second).await;
    t.store.delete(&t.me, first).await.expect("no job needs it any more");
    assert!(!is_there(&t.store, &t.me, first).await);
}

/// Model: retention
async fn more_jobs_than_one_commit_takes_are_all_removed(t: &Fixture) {
    let many = limits::BULK_JOBS_PER_COMMIT + 1;
    let jobs = t.submit_all((0..many).map(|_| new_job("report")).collect()).await;
    let worker = t.worker().await;
    for _ in 0..2 {
        let claimed = t.claim(worker, limits::BULK_JOBS_PER_COMMIT).await;
        for claimed in &claimed {
            assert_eq!(t.complete(worker, claimed).await, Finish::Applied(JobState::Completed));
        }
    }
    t.advance(secs(7 * DAY));
    assert_eq!(t.store.prune().await.unwrap(), jobs.len());
    assert_eq!(t.store.prune().await.unwrap(), 0);
    assert_eq!(t.store.stats(&t.me).await.unwrap().states.values().sum::<u64>(), 0);
}

/// A completed job that has everything a job can have.
pub async fn rich(t: &Fixture) -> JobId {
    let metadata = JobMetadata { correlation_id: Some("order-7".into()), ..JobMetadata::default() };
    let mut job = NewJob {
        idempotency_key: Some("once".into()),
        unique_key: Some("only".into()),
        concurrency_key: Some("one".into()),
        metadata,
        ..new_job("report")
    };
    job.metadata.tags.insert("team".into(), "red".into());
    let (worker, claimed) = t.running(job).await;
    t.checkpoint(&claimed, "one", "1").await;
    t.store.signal(&t.me, claimed.job.id, "go", b"1".to_vec()).await.unwrap();
    let outcome = Outcome::Completed { result: Some(b"1".to_vec()) };
    t.finish(worker, claimed.job.id, claimed.job.fence, outcome).await;
    claimed.job.id
}

/// Model: retention, idempotency-key
async fn what_hangs_on_a_job_goes_with_it_and_the_audit_stays(t: &Fixture) {
    let id = rich(t).await;
    let events = t.events_of(id).await;
    t.advance(secs(7 * DAY));
    assert_eq!(t.store.prune().await.unwrap(), 1);
    assert_eq!(t.store.attempts(&t.me, id).await.unwrap(), None);
    assert_eq!(t.store.checkpoints(&t.me, id).await.unwrap(), None);
    assert_eq!(t.store.result(&t.me, id).await.unwrap(), None);
    assert_eq!(t.events_of(id).await, events);
    // Both keys are free again.
    let again =
        NewJob { idempotency_key: Some("once".into()), unique_key: Some("only".into()), ..new_job("report") };
    assert_ne!(t.submit(again).await.id, id);
}

fn keep(completed: u64, failed: Option<u64>) -> Retention {
    let days = |days: u64| secs(days * DAY);
    Retention { completed: Some(days(completed)), failed: failed.map(days), ..Retention::default() }
}

/// Ends a new job of this type in this queue well or badly.
async fn ended(t: &Fixture, job_type: &str, name: &str, is_well: bool) -> JobId {
    let worker = t.steady_worker_for(&[name]).await;
    let id = t.submit(NewJob { queue: queue(name), ..new_job(job_type) }).await.id;
    let claimed = t.claim_one(worker).await;
    if is_well {
        t.complete(worker, &claimed).await;
    } else {
        t.fail(worker, &claimed, Failure::permanent("no", "no")).await;
    }
    id
}

/// Model: retention. The type's before the queue's before the server's, for each state by itself.
async fn each_type_queue_and_state_has_its_own_time(t: &Fixture) {
    t.set_queue("short", QueueSettings { retention: keep(1, None), ..QueueSettings::default() }).await;
    t.set_queue("long", QueueSettings { retention: keep(90, Some(60)), ..QueueSettings::default() }).await;
    t.set_type("brief", TypeSettings { retention: keep(2, None), ..TypeSettings::default() }).await;
    let mut kept = Vec::new();
    for (job_type, name, is_well, days) in [
        ("report", "default", true, 7),
        ("report", "long", true, 90),
        ("report", "short", true, 1),
        ("report", "short", false, 7),
        ("brief", "long", true, 2),
        ("brief", "long", false, 60),
        ("brief", "short", true, 2),
    ] {
        kept.push((ended(t, job_type, name, is_well).await, days));
    }
    let mut days: Vec<u64> = kept.iter().map(|(_, days)| *days).collect();
    days.sort_unstable();
    days.dedup();
    for day in days {
        let until = Timestamp::from_millis(START).plus(secs(day * DAY));
        t.advance(just_under(until.since(t.now())));
        assert_eq!(t.store.prune().await.unwrap(), 0, "day {day}: one millisecond too early");
        t.advance(MOMENT);
        let due = kept.iter().filter(|(_, days)| *days == day).count();
        assert_eq!(t.store.prune().await.unwrap(), due, "day {day}");
        for (id, days) in &kept {
            assert_eq!(is_there(&t.store, &t.me, *id).await, *days > day, "day {day}");
        }
    }
}

/// Model: retention
async fn a_change_of_retention_counts_for_jobs_that_ended_before(t: &Fixture) {
    let id = ended(t, "report", "mail", true).await;
    t.advance(secs(DAY));
    assert_eq!(t.store.prune().await.unwrap(), 0);
    t.set_queue("mail", QueueSettings { retention: keep(90, None), ..QueueSettings::default() }).await;
    t.advance(secs(10 * DAY));
    assert_eq!(t.store.prune().await.unwrap(), 0);
    t.set_type("report", TypeSettings { retention: keep(0, None), ..TypeSettings::default() }).await;
    assert_eq!(t.store.prune().await.unwrap(), 1);
    assert!(!is_there(&t.store, &t.me, id).await);
}

/// Model: retention. What was walked over once is looked at again when a job ends in its midst, and not otherwise.
async fn a_job_that_ends_among_kept_ones_is_removed_at_its_time(t: &Fixture) {
    t.set_queue("long", QueueSettings { retention: keep(365, None), ..QueueSettings::default() }).await;
    t.set_queue("gone", QueueSettings { retention: keep(0, None), ..QueueSettings::default() }).await;
    ended(t, "report", "long", true).await;
    let late = t
        .submit(NewJob { queue: queue("gone"), lifetime: Some(secs(99 * DAY)), ..new_job("report") })
        .await
        .id;
    for _ in 0..3 {
        ended(t, "report", "long", true).await;
    }
    t.advance(secs(20 * DAY));
    assert_eq!(t.store.prune().await.unwrap(), 0);
    let worker = t.steady_worker_for(&["gone"]).await;
    let claimed = t.claim_one(worker).await;
    assert_eq!(claimed.job.id, late);
    t.complete(worker, &claimed).await;
    assert_eq!(t.store.prune().await.unwrap(), 1);
    assert!(!is_there(&t.store, &t.me, late).await);
    assert_eq!(t.store.stats(&t.me).await.unwrap().states.values().sum::<u64>(), 4);
}
