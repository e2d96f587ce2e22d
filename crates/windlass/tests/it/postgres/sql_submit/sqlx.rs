//! Submissions in transactions of `sqlx`: together with the program's own rows, or not at all.

use sqlx::{Connection, PgConnection};
use windlass::Client;
use windlass::error::SubmitError;

use super::{greet, taken_in};
use crate::fixture::cluster::{new_schema, schema_of};
use crate::postgres::{numbers_of_jobs, verify};

/// A connection of the program's own to the store's database.
async fn connection(address: &str) -> PgConnection {
    let (server, _) = address.rsplit_once("&schema=").expect("the schema comes last");
    PgConnection::connect(server).await.expect("sqlx connects")
}

/// Model: atomic-changes
#[tokio::test]
async fn a_transaction_of_sqlx_makes_its_jobs_or_none() {
    let address = new_schema();
    let jobs = Client::open(&address).await.unwrap();
    let mut own = connection(&address).await;
    let table = format!("\"{}\".orders", schema_of(&address));
    let execute = sqlx::AssertSqlSafe(format!("CREATE TABLE {table} (number int)"));
    sqlx::query(execute).execute(&mut own).await.unwrap();
    let insert = format!("INSERT INTO {table} VALUES (1)");

    let mut transaction = own.begin().await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(insert.clone())).execute(&mut *transaction).await.unwrap();
    let gone = jobs.submit(greet("a")).key("k").in_sqlx_tx(&mut transaction).await.unwrap();
    transaction.rollback().await.unwrap();

    let holder = jobs.submit(greet("b")).key("k").unique("u").await.unwrap();
    assert_ne!(holder.id(), gone.id(), "the key was never used");
    let mut transaction = own.begin().await.unwrap();
    sqlx::query(sqlx::AssertSqlSafe(insert)).execute(&mut *transaction).await.unwrap();
    let taken = jobs.submit(greet("c")).unique("u").in_sqlx_tx(&mut transaction).await.err();
    let expected = SubmitError::UniqueKeyTaken { index: 0, key: "u".into(), holder: holder.id() };
    assert_eq!(taken, Some(expected));
    let differs = jobs.submit(greet("c")).key("k").strict().in_sqlx_tx(&mut transaction).await.err();
    assert_eq!(differs, Some(SubmitError::PayloadDiffers { index: 0, existing: holder.id() }));
    let again = jobs.submit(greet("b")).key("k").in_sqlx_tx(&mut transaction).await.unwrap();
    assert_eq!(again.id(), holder.id());
    let kept = jobs.submit(greet("d")).tag("customer", "7").in_sqlx_tx(&mut transaction).await.unwrap();
    transaction.commit().await.unwrap();

    let found = taken_in(jobs.store().unwrap(), kept.id()).await;
    assert_eq!(found.spec.metadata.tags["customer"], "7");
    let count = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
    let rows: i64 = sqlx::query_scalar(count).fetch_one(&mut own).await.unwrap();
    assert_eq!((rows, numbers_of_jobs(jobs.store().unwrap()).await), (1, 2));
    verify(jobs.store().unwrap()).await;
    jobs.close();
}

/// What the database cannot be asked for is an error, and the transaction is as it was.
#[tokio::test]
async fn a_transaction_of_sqlx_that_failed_says_so() {
    let address = new_schema();
    let jobs = Client::open(&address).await.unwrap();
    let mut own = connection(&address).await;
    let mut transaction = own.begin().await.unwrap();
    sqlx::query("SELECT 1 / 0").execute(&mut *transaction).await.unwrap_err();
    let refused = jobs.submit(greet("a")).in_sqlx_tx(&mut transaction).await.err().unwrap();
    assert!(matches!(refused, SubmitError::Store(_)), "{refused}");
    transaction.rollback().await.unwrap();
    let memory = Client::open("memory:").await.unwrap();
    let mut transaction = own.begin().await.unwrap();
    let refused = memory.submit(greet("a")).in_sqlx_tx(&mut transaction).await.err().unwrap();
    assert!(refused.to_string().contains("needs a store in PostgreSQL"), "{refused}");
    jobs.close();
}
