//! Final jobs are removed when they have been kept long enough, with all that hangs on them.

use windlass::clock::Timestamp;
use windlass::job::{Dependency, JobId, Labels, NewJob, State};
use windlass::limits;
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::command::finish::{Finish, Outcome};

use crate::fixture::{Fixture, MOMENT, On, START, just_under, new_job, on_every_engine, secs};

on_every_engine!(
    each_final_state_is_kept_for_its_time,
    a_job_that_others_still_wait_with_is_kept,
    more_jobs_than_one_commit_takes_are_all_removed,
    what_hangs_on_a_job_goes_with_it_and_the_audit_stays,
);

const DAY: u64 = 24 * 3600;

async fn is_there(store: &Store, me: &Caller, id: JobId) -> bool {
    store.get(me, id).await.unwrap().is_some()
}

/// M96
async fn each_final_state_is_kept_for_its_time(t: &Fixture) {
    let mut placed = Vec::new();
    for state in State::FINAL {
        placed.push((t.placed(state).await.id, if state == State::DeadLetter { 30 } else { 7 }));
    }
    // Neither is removed, however old: they have not ended.
    let live = [t.placed(State::Suspended).await.id, t.placed(State::Running).await.id];
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

/// M96
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

/// M96
async fn more_jobs_than_one_commit_takes_are_all_removed(t: &Fixture) {
    let many = limits::BULK_JOBS_PER_COMMIT + 1;
    let jobs = t.submit_all((0..many).map(|_| new_job("report")).collect()).await;
    let worker = t.worker().await;
    for _ in 0..2 {
        let claimed = t.claim(worker, limits::BULK_JOBS_PER_COMMIT).await;
        for claimed in &claimed {
            assert_eq!(t.complete(worker, claimed).await, Finish::Applied(State::Completed));
        }
    }
    t.advance(secs(7 * DAY));
    assert_eq!(t.store.prune().await.unwrap(), jobs.len());
    assert_eq!(t.store.prune().await.unwrap(), 0);
    assert_eq!(t.store.stats(&t.me).await.unwrap().states.values().sum::<u64>(), 0);
}

/// A completed job that has everything a job can have.
async fn rich(t: &Fixture) -> JobId {
    let labels = Labels { correlation_id: Some("order-7".into()), ..Labels::default() };
    let mut job = NewJob {
        idempotency_key: Some("once".into()),
        unique_key: Some("only".into()),
        concurrency_key: Some("one".into()),
        labels,
        ..new_job("report")
    };
    job.labels.tags.insert("team".into(), "red".into());
    let (worker, claimed) = t.running(job).await;
    t.checkpoint(&claimed, "one", "1").await;
    t.store.signal(&t.me, claimed.job.id, "go", b"1".to_vec()).await.unwrap();
    let outcome = Outcome::Completed { result: Some(b"1".to_vec()) };
    t.finish(worker, claimed.job.id, claimed.job.fence, outcome).await;
    claimed.job.id
}

/// M96 M13
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

/// M96
#[tokio::test]
async fn no_row_of_a_removed_job_is_left_in_the_file() {
    let t = Fixture::new(On::Sqlite);
    rich(&t).await;
    let first = t.submit(new_job("first")).await.id;
    t.submit(NewJob { after: vec![Dependency::Job(first)], ..new_job("second") }).await;
    t.cancel(first).await;
    t.advance(secs(7 * DAY));
    assert_eq!(t.store.prune().await.unwrap(), 3);
    t.store.close();
    let file = rusqlite::Connection::open(t.address.strip_prefix("sqlite:").unwrap()).unwrap();
    for table in ["jobs", "hot", "tags", "keys", "edges", "facets"] {
        let rows: i64 =
            file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}
