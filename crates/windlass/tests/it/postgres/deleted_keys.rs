//! `submit` in SQL honours idempotency keys whose jobs were deleted.

use std::time::Duration;

use windlass::Client;
use windlass::error::SubmitError;

use super::sql_submit::stranger;
use super::verify;
use crate::fixture::cluster::new_schema;
use crate::worker::job_types::greet;

/// Model: idempotency-key
#[tokio::test]
async fn a_deleted_job_answers_for_its_key_in_sql() {
    let address = new_schema();
    let jobs = Client::open(&address).await.unwrap();
    let (mut client, _) = stranger(&address).await;
    let month = Duration::from_secs(30 * 86_400);
    let first = jobs.submit(greet("a")).key("k").key_window(month).await.unwrap();
    first.cancel().await.unwrap();
    jobs.store().unwrap().delete(jobs.caller(), first.id()).await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let again = jobs.submit(greet("a")).key("k").in_postgres_tx(&transaction).await.unwrap();
    assert_eq!(again.id(), first.id());
    let again = jobs.submit(greet("a")).key("k").strict().in_postgres_tx(&transaction).await.unwrap();
    assert_eq!(again.id(), first.id(), "the payload is the same");
    let differs = jobs.submit(greet("b")).key("k").strict().in_postgres_tx(&transaction).await.err();
    assert_eq!(differs, Some(SubmitError::PayloadDiffers { index: 0, existing: first.id() }));
    transaction.commit().await.unwrap();
    assert_eq!(super::numbers_of_jobs(jobs.store().unwrap()).await, 0, "nothing was submitted");
    verify(jobs.store().unwrap()).await;
    jobs.close();
}
