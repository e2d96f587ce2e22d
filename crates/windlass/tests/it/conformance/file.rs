//! What the suite promises of every engine, looked up in the rows of a SQLite file.

use std::time::Duration;

use rusqlite::Connection;
use windlass::job::{Dependency, NewJob};
use windlass::limits;
use windlass::store::{ActionRequest, BulkAction, Filter};
use windlass_conformance::claims::lease::beat;
use windlass_conformance::jobs::keys::removed::for_days;
use windlass_conformance::reads::retention::rich;

use crate::fixture::{Fixture, On, new_job};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Model: idempotency-key, retention. The keys of removed jobs go at their own end, many in bounded rounds.
#[tokio::test]
async fn keys_whose_end_has_come_leave_no_row() {
    let t = Fixture::new(On::Sqlite);
    let many = limits::BULK_JOBS_PER_COMMIT + 1;
    t.submit_all((0..many).map(|number| for_days(&format!("k{number}"), 10)).collect()).await;
    let cancel = BulkAction::Act(ActionRequest::Cancel { reason: None });
    t.store.bulk(&t.me, &Filter::default(), cancel).await.unwrap();
    let rows = |t: &Fixture| {
        let file = Connection::open(t.address.strip_prefix("sqlite:").unwrap()).unwrap();
        let count: i64 = file.query_row("SELECT count(*) FROM keys", [], |row| row.get(0)).unwrap();
        usize::try_from(count).unwrap()
    };
    t.advance(DAY * 8);
    assert_eq!((t.store.prune().await.unwrap(), rows(&t)), (many, many));
    t.advance((DAY * 2).saturating_sub(Duration::from_millis(1)));
    assert_eq!((t.store.prune().await.unwrap(), rows(&t)), (0, many), "one millisecond too early");
    t.advance(Duration::from_millis(1));
    assert_eq!((t.store.prune().await.unwrap(), rows(&t)), (0, 0));
}

/// Model: wake-ups. What changes nothing is not committed, so that no other process is woken by it.
#[tokio::test]
async fn a_repeated_sign_of_life_is_not_written() {
    let t = Fixture::new(On::Sqlite);
    let (worker, claimed) = t.running(new_job("email.send")).await;
    let file = Connection::open(t.address.trim_start_matches("sqlite:")).unwrap();
    let commits = || file.query_row("SELECT commits FROM meta", [], |row| row.get::<_, i64>(0)).unwrap();
    t.advance(SECOND);
    beat(&t, worker, &claimed).await;
    let before = commits();
    t.advance(SECOND / 2);
    beat(&t, worker, &claimed).await;
    assert!(t.claim(worker, 1).await.is_empty());
    assert_eq!(commits(), before);
}

/// Model: retention
#[tokio::test]
async fn no_row_of_a_removed_job_is_left_in_the_file() {
    let t = Fixture::new(On::Sqlite);
    rich(&t).await;
    let first = t.submit(new_job("first")).await.id;
    t.submit(NewJob { after: vec![Dependency::Job(first)], ..new_job("second") }).await;
    t.cancel(first).await;
    t.advance(DAY * 7);
    assert_eq!(t.store.prune().await.unwrap(), 3);
    t.store.close();
    let file = Connection::open(t.address.strip_prefix("sqlite:").unwrap()).unwrap();
    for table in ["jobs", "hot", "tags", "keys", "edges", "facets"] {
        let rows: i64 =
            file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}
