//! Jobs submitted inside the caller's own SQLite transaction.

use std::time::Duration;

use windlass::client::Client;
use windlass::error::{StoreError, SubmitError};
use windlass::rusqlite::{Connection, TransactionBehavior};
use windlass::worker::Worker;

use crate::worker::follow::verify;
use crate::worker::job_types::{Greet, greet};

const LONG: Duration = Duration::from_secs(20);

async fn hello(job: Greet) -> anyhow::Result<String> {
    Ok(format!("hello, {}", job.name))
}

struct Place {
    client: Client,
    own: Connection,
    _files: tempfile::TempDir,
}

async fn place() -> Place {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("app.db");
    let client = Client::open(&format!("sqlite:{}", path.display())).await.unwrap();
    let own = Connection::open(&path).unwrap();
    own.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
    Place { client, own, _files: files }
}

fn orders(own: &Connection) -> i64 {
    own.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
}

/// Model: atomic-changes. The job is there if and only if the caller's own row is, and a waiting worker is woken by the commit.
#[tokio::test]
async fn a_committed_transaction_makes_its_job_visible_and_wakes_a_worker() {
    let Place { client, mut own, _files } = place().await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(&client).handle(hello);
    let running = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
    let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    transaction.execute("INSERT INTO orders VALUES (1)", []).unwrap();
    let handle = client.submit_in_tx(&transaction, greet("a")).unwrap();
    assert_eq!(handle.state().await.unwrap(), None, "it is not visible before the commit");
    transaction.commit().unwrap();
    assert_eq!(handle.result(LONG).await.unwrap(), "hello, a");
    assert_eq!(orders(&own), 1);
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    verify(&client).await;
}

/// Model: atomic-changes
#[tokio::test]
async fn a_rolled_back_transaction_leaves_nothing() {
    let Place { client, mut own, _files } = place().await;
    let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    transaction.execute("INSERT INTO orders VALUES (1)", []).unwrap();
    let handle = client.submit_in_tx(&transaction, greet("a")).unwrap();
    transaction.rollback().unwrap();
    assert_eq!(handle.state().await.unwrap(), None);
    let next = client.submit(greet("b")).await.unwrap();
    assert_ne!(next.id(), handle.id());
    assert_eq!(orders(&own), 0);
    verify(&client).await;
}

/// Model: refused-changes
#[tokio::test]
async fn a_refused_submission_leaves_the_rest_of_the_transaction() {
    let Place { client, mut own, _files } = place().await;
    let holder = client.submit(greet("a")).unique("one").await.unwrap();
    let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    transaction.execute("INSERT INTO orders VALUES (1)", []).unwrap();
    let taken =
        client.submit_in_tx(&transaction, windlass::client::JobBuilder::new(&greet("b")).unique("one"));
    let expected = SubmitError::UniqueKeyTaken { index: 0, key: "one".into(), holder: holder.id() };
    assert_eq!(taken.err(), Some(expected));
    client.submit_in_tx(&transaction, greet("c")).unwrap();
    transaction.commit().unwrap();
    assert_eq!(orders(&own), 1);
    let stats = client.api().stats(client.caller()).await.unwrap();
    assert_eq!(stats.states[&windlass::job::JobState::Scheduled], 2);
}

#[tokio::test]
async fn a_transaction_on_another_file_is_refused() {
    let (here, mut other) = (place().await, place().await);
    let transaction = other.own.transaction().unwrap();
    let refused = here.client.submit_in_tx(&transaction, greet("a")).err();
    assert!(matches!(refused, Some(SubmitError::Store(StoreError::Database(_)))), "{refused:?}");
}
