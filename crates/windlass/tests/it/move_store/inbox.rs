//! The inbox of a store that is moved: its entries are moved as jobs, and nothing is accepted afterwards.

use std::sync::Arc;

use tokio_postgres::{Client, NoTls};
use windlass::clock::SystemClock;
use windlass::error::MoveError;
use windlass::store::caller::Caller;
use windlass::store::move_store::Move;
use windlass::store::{Store, StoreOptions};

use super::{end, moved};
use crate::fixture::On;

async fn stranger(address: &str) -> (Client, String) {
    let (server, schema) = address.rsplit_once("&schema=").expect("the schema comes last");
    let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    (client, schema.to_owned())
}

#[tokio::test]
async fn inbox_entries_are_moved_as_jobs_and_the_inbox_is_closed() {
    let ((_, from), (_files, to)) = (On::Postgres.address(), On::Sqlite.address());
    Store::open(&from, StoreOptions::default()).unwrap().close();
    let (client, schema) = stranger(&from).await;
    let submit = format!("SELECT {schema}.submit('greet', '{{}}') FROM generate_series(1, 3)");
    client.batch_execute(&submit).await.unwrap();
    let report = moved(&from, &to, Arc::new(SystemClock::new()), 100).await.unwrap();
    assert_eq!(report.parts[2].rows, 3);
    let refused = client.batch_execute(&submit).await.unwrap_err();
    let message = refused.as_db_error().unwrap().message();
    assert!(message.contains("is being moved, or was"), "{message}");
    let arrived = Store::open(&to, StoreOptions::default()).unwrap();
    assert_eq!(arrived.stats(&Caller::local()).await.unwrap().states.values().sum::<u64>(), 3);
    arrived.close();
    // Taken back, it is open again.
    Move::undo(&end(&from), Some(&end(&to)), true).await.unwrap();
    client.batch_execute(&submit).await.unwrap();
}

#[tokio::test]
async fn the_inbox_of_a_target_opens_when_everything_has_arrived() {
    let ((_files, from), (_, to)) = (On::Sqlite.address(), On::Postgres.address());
    Store::open(&from, StoreOptions::default()).unwrap().close();
    moved(&from, &to, Arc::new(SystemClock::new()), 100).await.unwrap();
    let (client, schema) = stranger(&to).await;
    client.batch_execute(&format!("SELECT {schema}.submit('greet', '{{}}')")).await.unwrap();
}

#[tokio::test]
async fn a_submission_that_was_set_aside_is_not_left_behind() {
    let ((_, from), (_files, to)) = (On::Postgres.address(), On::Sqlite.address());
    Store::open(&from, StoreOptions::default()).unwrap().close();
    let (client, schema) = stranger(&from).await;
    let spoil =
        format!("SELECT {schema}.submit('greet', '{{}}'); UPDATE {schema}.inbox SET refusal = 'it is odd'");
    client.batch_execute(&spoil).await.unwrap();
    let refused = moved(&from, &to, Arc::new(SystemClock::new()), 100).await;
    assert_eq!(refused, Err(MoveError::InboxSetAside(1)));
    Store::open(&from, StoreOptions::default()).expect("nothing was shut").close();
}
