//! A job whose row was changed behind the store's back does not run, and keeps no other job from running.

use std::sync::Arc;
use std::time::Duration;

use windlass::clock::ManualClock;
use windlass::entropy::Entropy;
use windlass::error::StoreError;
use windlass::job::{JobId, JobState, NewJob};
use windlass::store::{
    ActionOptions, ActionRequest, ClaimRequest, Environment, ListRequest, NewWorker, Store, StoreOptions,
    SubmitOptions, TicketOptions,
};
use windlass::ticket::TicketKey;

use super::file_of;
use crate::fixture::{Fixture, On, new_job, secs};

const TAMPERED: &str = "UPDATE @jobs SET payload = 'X' WHERE seq = 1";
const OTHER_OWNER: &str = "UPDATE @jobs SET owner = owner || 'x' WHERE seq = 1";
const LOST: &str = "DELETE FROM @jobs WHERE seq = 1";

pub(super) fn options(has_tickets: bool) -> StoreOptions {
    let tickets = has_tickets.then(|| TicketOptions::new(TicketKey::new([7, 1])));
    StoreOptions { tickets, ..StoreOptions::default() }
}

/// The store, opened once more after `sql` was executed on its tables, which are named with `@`.
pub(super) async fn after(t: &Fixture, options: StoreOptions, sql: &str) -> Store {
    t.store.close();
    if t.address.starts_with("sqlite:") {
        assert_eq!(file_of(t).execute(&sql.replace('@', ""), []).unwrap(), 1);
    } else {
        let (server, schema) = t.address.rsplit_once("&schema=").unwrap();
        let (client, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let schema = schema.split('&').next().unwrap();
        client.batch_execute(&sql.replace('@', &format!("{schema}."))).await.unwrap();
    }
    let clock: Arc<ManualClock> = t.clock.clone();
    let env = Environment::new(clock, Entropy::seeded(2), options);
    Store::open_in(&t.address, env).expect("the store opens")
}

/// Three jobs of one lane, of which the first has what can go wrong at its end: a unique key and a callback.
async fn three(t: &Fixture) -> [JobId; 3] {
    let mut first = NewJob { unique_key: Some("only".into()), ..new_job("report") };
    first.metadata.callback_url = Some("https://example.com/done".into());
    let first = t.submit(first).await.id;
    [first, t.submit(new_job("report")).await.id, t.submit(new_job("report")).await.id]
}

pub(super) async fn claimed(t: &Fixture, store: &Store, limit: usize) -> Vec<JobId> {
    let worker = store.register(&t.me, NewWorker::default()).await.unwrap().id;
    let request = ClaimRequest::new(worker, limit);
    let answer = store.claim(&t.me, &request, Duration::ZERO).await.unwrap();
    answer.jobs.into_iter().map(|claimed| claimed.job.id).collect()
}

async fn code_of(t: &Fixture, store: &Store, id: JobId) -> String {
    let job = store.job(&t.me, id).await.unwrap().expect("its record is whole");
    assert_eq!(job.state, JobState::Failed);
    job.details.error.as_ref().unwrap().code.clone().unwrap()
}

/// Model: tickets, payload. With tickets as the ticket says, without them as damaged.
#[tokio::test]
async fn a_changed_submission_ends_its_job_and_the_others_run() {
    for (on, has_tickets, sql, expected) in [
        (On::Sqlite, true, TAMPERED, "payload_mismatch"),
        (On::Sqlite, false, TAMPERED, "damaged"),
        (On::Sqlite, true, OTHER_OWNER, "ticket_invalid"),
        (On::Sqlite, false, OTHER_OWNER, "damaged"),
        (On::Sqlite, true, LOST, "damaged"),
        (On::Sqlite, false, LOST, "damaged"),
        (On::Postgres, true, TAMPERED, "payload_mismatch"),
        (On::Postgres, false, TAMPERED, "damaged"),
        (On::Postgres, false, LOST, "damaged"),
    ] {
        for limit in [1, 10] {
            let t = Fixture::with(on, options(has_tickets), 1);
            let [first, second, third] = three(&t).await;
            let store = after(&t, options(has_tickets), sql).await;
            let shown = store.explain(&t.me, first).await.unwrap().unwrap();
            assert_eq!(shown[0].code, "damaged", "{sql}");
            let expected_jobs = if limit == 1 { vec![second] } else { vec![second, third] };
            assert_eq!(claimed(&t, &store, limit).await, expected_jobs, "{on:?} {sql}");
            assert_eq!(code_of(&t, &store, first).await, expected, "{on:?} {sql}");
            let reports = store.verify().await.unwrap();
            let payloads = reports.iter().find(|report| report.code == "payloads").unwrap();
            assert_eq!(payloads.broken, 1, "the damage is still found");
            store.close();
        }
    }
}

/// Model: payload. A list shows the others, and marks the damaged one; alone it is a clear error.
#[tokio::test]
async fn a_changed_submission_hides_no_other_job() {
    for on in [On::Sqlite, On::Postgres] {
        let t = Fixture::new(on);
        let [first, second, third] = three(&t).await;
        let store = after(&t, options(false), TAMPERED).await;
        let listed = store.list(&t.me, ListRequest::default()).await.unwrap().jobs;
        let shown: Vec<(JobId, Option<&str>)> =
            listed.iter().map(|job| (job.job.id, job.why.as_ref().map(|why| why.code))).collect();
        let why = |id: JobId| shown.iter().find(|(shown, _)| *shown == id).unwrap().1;
        assert_eq!((shown.len(), why(first)), (3, Some("damaged")), "{shown:?}");
        assert!(why(second) != Some("damaged") && why(third) != Some("damaged"), "{shown:?}");
        let damaged = listed.iter().find(|job| job.job.id == first).unwrap();
        assert_eq!(&*damaged.spec.payload.bytes, b"null", "what was changed is not served");
        let refused = store.get(&t.me, first).await;
        let message = refused.as_ref().unwrap_err().to_string();
        assert!(matches!(refused, Err(StoreError::Damaged(_))) && message.contains(&first.to_string()));
        let cancel = ActionRequest::Cancel { reason: None };
        assert!(store.act_and_read(&t.me, first, cancel, ActionOptions::default()).await.unwrap().is_changed);
        assert_eq!(store.job(&t.me, first).await.unwrap().unwrap().state, JobState::Cancelled);
        let again = NewJob { unique_key: Some("only".into()), ..new_job("report") };
        store
            .submit(&t.me, vec![again], SubmitOptions::default())
            .await
            .expect("its unique key is free again");
        store.close();
    }
}

/// Model: payload. A row that cannot even be read as a job is left out of claims.
#[tokio::test]
async fn a_record_that_cannot_be_read_stops_no_other_job() {
    for (on, sql) in [
        (On::Sqlite, "UPDATE hot SET record = CAST(substr(record, 1, 5) || x'07' AS BLOB) WHERE seq = 1"),
        (On::Postgres, "UPDATE @hot SET record = '\\x07' WHERE seq = 1"),
    ] {
        for limit in [1, 10] {
            let t = Fixture::new(on);
            let [_, second, third] = three(&t).await;
            let store = after(&t, options(false), sql).await;
            let expected = if limit == 1 { vec![second] } else { vec![second, third] };
            assert_eq!(claimed(&t, &store, limit).await, expected, "{on:?}");
            assert!(matches!(store.verify().await, Err(StoreError::Damaged(_))), "it is not hidden");
            store.close();
        }
    }
}

/// Model: store-time. While no process serves a store, nothing in it can be overdue.
#[tokio::test]
async fn a_store_that_was_not_served_is_not_broken() {
    for on in [On::Sqlite, On::Postgres] {
        let t = Fixture::new(on);
        t.submit(NewJob { delay: Some(secs(5)), ..new_job("report") }).await;
        t.running(new_job("other")).await;
        t.store.close();
        t.advance(secs(3_600));
        let clock: Arc<ManualClock> = t.clock.clone();
        let env = Environment::new(clock, Entropy::seeded(2), StoreOptions::default());
        let store = Store::open_in(&t.address, env).unwrap();
        let broken: Vec<_> =
            store.verify().await.unwrap().into_iter().filter(|found| !found.holds()).collect();
        assert!(broken.is_empty(), "{on:?}: {broken:?}");
        store.close();
    }
}
