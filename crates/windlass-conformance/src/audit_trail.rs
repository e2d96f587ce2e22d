//! Searching the audit trail: by queue and type, and in bounded pages.

use windlass::audit::{AuditEvent, Seal};
use windlass::job::{Failure, JobType, NewJob};
use windlass::settings::TypeSettings;
use windlass::store::engine::RecordQuery;
use windlass::store::{Pause, PauseTarget, RecordPage, Settings};

use crate::fixture::{Fixture, new_job, queue, secs};

tests!(
    audit_trail, audit_trail:
    records_are_found_by_queue_and_type_also_after_the_job_is_gone,
    a_search_for_something_rare_scans_a_bounded_part_of_the_audit_trail,
    a_search_by_time_begins_where_the_time_begins,
    a_type_may_rename_its_spent_retries,
);

fn kind(name: &str) -> JobType {
    JobType::new(name).unwrap()
}

async fn numbers(t: &Fixture, query: RecordQuery) -> Vec<u64> {
    t.records(query).await.iter().map(|record| record.seq).collect()
}

/// Model: audit-trail
async fn records_are_found_by_queue_and_type_also_after_the_job_is_gone(t: &Fixture) {
    let mut jobs = Vec::new();
    for (job_type, name) in [("email", "slow"), ("email", "fast"), ("report", "slow")] {
        let job = NewJob { queue: queue(name), ..new_job(job_type) };
        let id = t.submit(job).await.id;
        t.cancel(id).await;
        jobs.push(id);
    }
    let pause = Pause::graceful();
    t.store.pause(&t.me, PauseTarget::Queue(queue("slow")), pause.clone()).await.unwrap();
    t.store.pause(&t.me, PauseTarget::Type(kind("email")), pause.clone()).await.unwrap();
    t.store.pause(&t.me, PauseTarget::Gate, pause).await.unwrap();
    let settings = Settings::Type(kind("report"), TypeSettings::default());
    t.store.configure(&t.me, settings).await.unwrap();
    t.store.delete(&t.me, jobs[0]).await.unwrap();
    let trail = t.records(RecordQuery::default()).await;
    let about = |of: &dyn Fn(&windlass::audit::Record) -> bool| -> Vec<u64> {
        trail.iter().filter(|record| of(record)).map(|record| record.seq).collect()
    };
    let none = RecordQuery::default;
    let slow = RecordQuery { queue: Some(queue("slow")), ..none() };
    let found = numbers(t, slow.clone()).await;
    assert_eq!(found, about(&|record| record.queue == Some(queue("slow"))));
    // Two ends, a deletion and a pause.
    assert_eq!(found.len(), 4);
    let email = RecordQuery { job_type: Some(kind("email")), ..none() };
    let found = numbers(t, email.clone()).await;
    assert_eq!(found, about(&|record| record.job_type == Some(kind("email"))));
    assert_eq!(found.len(), 4);
    let both = RecordQuery { job_type: email.job_type, ..slow };
    assert_eq!(numbers(t, both.clone()).await.len(), 2, "an end and a deletion");
    let deleted = RecordQuery { event: Some(AuditEvent::Deleted), ..both.clone() };
    assert_eq!(numbers(t, deleted).await.len(), 1);
    assert_eq!(numbers(t, RecordQuery { job: Some(jobs[0]), ..both.clone() }).await.len(), 2);
    assert!(numbers(t, RecordQuery { job: Some(jobs[1]), ..both }).await.is_empty());
    assert!(numbers(t, RecordQuery { queue: Some(queue("none")), ..none() }).await.is_empty());
    let gate =
        trail.iter().find(|record| record.event == AuditEvent::GateClosed && record.job_type.is_none());
    assert_eq!(gate.unwrap().queue, None);
    // The chain covers what the records are about.
    let seal = trail.iter().fold(Seal::origin(), |seal, record| seal.extend(record));
    let mut edited = trail.clone();
    edited[0].queue = Some(queue("other"));
    assert_ne!(edited.iter().fold(Seal::origin(), |seal, record| seal.extend(record)), seal);
    t.store.seal().await.unwrap();
    assert!(t.store.verify_audit().await.unwrap().holds());
}

/// A page may be short, and still say where to continue.
async fn a_search_for_something_rare_scans_a_bounded_part_of_the_audit_trail(t: &Fixture) {
    let mut first = None;
    for number in 0..30 {
        let name = if number % 29 == 0 { "rare" } else { "common" };
        let id = t.submit(NewJob { queue: queue(name), ..new_job("a") }).await.id;
        t.cancel(id).await;
        first.get_or_insert(id);
    }
    let rare =
        RecordQuery { queue: Some(queue("rare")), limit: 10, reach: Some(10), ..RecordQuery::default() };
    let mut pages = Vec::new();
    let mut query = rare.clone();
    loop {
        let page = t.store.audit_page(&t.me, query.clone()).await.unwrap();
        let found: Vec<u64> = page.records.iter().map(|record| record.seq).collect();
        pages.push((found, page.next));
        match page.next {
            Some(next) => query.after = next,
            None => break,
        }
    }
    assert_eq!(pages, [(vec![1], Some(10)), (vec![], Some(20)), (vec![30], None)]);
    assert_eq!(numbers(t, rare.clone()).await, [1, 30], "all of them in the end");
    // A full page continues after its last record.
    let one = RecordQuery { limit: 1, ..rare.clone() };
    assert_eq!(t.store.audit_page(&t.me, one).await.unwrap().next, Some(1));
    // A query that ends before the audit trail does has no page after that.
    let early = RecordQuery { after: 1, before: Some(9), ..rare.clone() };
    let page = t.store.audit_page(&t.me, early).await.unwrap();
    assert_eq!((page.records, page.next), (vec![], None));
    // The records of a job are found by an index.
    let job = RecordQuery { job: first, limit: 10, reach: Some(1), ..RecordQuery::default() };
    let page = t.store.audit_page(&t.me, job).await.unwrap();
    assert_eq!((page.records.len(), page.next), (1, None));
}

async fn a_search_by_time_begins_where_the_time_begins(t: &Fixture) {
    for _ in 0..25 {
        let id = t.submit(new_job("a")).await.id;
        t.cancel(id).await;
        t.advance(secs(1));
    }
    let at = |seconds: i64| Some(windlass::Timestamp::from_millis(crate::fixture::START + seconds * 1000));
    let late = RecordQuery { since: at(20), limit: 100, reach: Some(10), ..RecordQuery::default() };
    let page = t.store.audit_page(&t.me, late.clone()).await.unwrap();
    assert_eq!(page.records.iter().map(|record| record.seq).collect::<Vec<_>>(), [21, 22, 23, 24, 25]);
    assert_eq!(page.next, None);
    let some = RecordQuery { until: at(22), ..late };
    let page = t.store.audit_page(&t.me, some).await.unwrap();
    assert_eq!((page.records.len(), page.next), (2, None));
    let never = RecordQuery { since: at(1000), limit: 100, ..RecordQuery::default() };
    assert_eq!(t.store.audit_page(&t.me, never).await.unwrap(), RecordPage::default());
    let before = RecordQuery { until: at(-1000), limit: 100, ..RecordQuery::default() };
    assert_eq!(t.store.audit_page(&t.me, before).await.unwrap(), RecordPage::default());
}

/// Model: audit-trail, exhaustion
async fn a_type_may_rename_its_spent_retries(t: &Fixture) {
    let settings = TypeSettings { exhausted_event: Some("EMAIL_LOST".into()), ..TypeSettings::default() };
    t.store.configure(&t.me, Settings::Type(kind("email"), settings)).await.unwrap();
    let retry = windlass::RetryPolicy { max_attempts: 1, ..windlass::RetryPolicy::default() };
    let job = NewJob { retry: Some(retry), ..new_job("email") };
    let (worker, claimed) = t.running(job).await;
    t.fail(worker, &claimed, Failure::temporary("busy")).await;
    let record = t.records(RecordQuery::default()).await.pop().unwrap();
    assert_eq!((record.event, record.name()), (AuditEvent::Exhausted, "EMAIL_LOST"));
    let (worker, claimed) = t.running(new_job("email")).await;
    t.complete(worker, &claimed).await;
    let record = t.records(RecordQuery::default()).await.pop().unwrap();
    assert_eq!(record.name(), "job.lifecycle.completed");
}
