//! Taking turns with other nodes: whoever arrives while a node waits for its turn is served by it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::Client;
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::command::submit::SubmitOptions;

use super::door::stranger;
use super::{LONG, numbered, open, submit, verify};
use crate::fixture::cluster::new_schema;

const LATE: usize = 5;

/// The commits so far.
async fn commits(client: &Client, schema: &str) -> i64 {
    client.query_one(&format!("SELECT max(n) FROM {schema}.commits"), &[]).await.unwrap().get(0)
}

/// The lock that nodes take turns with, as a number.
fn turn(schema: &str) -> String {
    format!("('x' || left(encode(sha256('windlass {schema} write'), 'hex'), 16))::bit(64)::bigint")
}

/// Asks once: what is asked waits for its turn from then on.
async fn ask<F: Future + ?Sized>(future: &mut Pin<Box<F>>) {
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(_) => panic!("it is answered out of turn"),
        Poll::Pending => Poll::Ready(()),
    })
    .await;
}

/// Returns when somebody waits for this lock.
async fn somebody_waits(client: &Client, schema: &str) {
    let sql = format!(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
         AND (classid::bigint << 32 | objid::bigint) = {}",
        turn(schema)
    );
    while client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
}

/// M5: what arrives at a node that waits for others is part of its next commit, and is not left for the one after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_arrives_during_the_wait_shares_the_commit() {
    let address = new_schema();
    let (here, there) = (open(&address), open(&address));
    let (client, schema) = stranger(&address).await;
    // Each learns that it is not alone.
    for node in [&here, &there, &here] {
        submit(node, 0).await;
    }
    client.batch_execute(&format!("SELECT pg_advisory_lock({})", turn(&schema))).await.unwrap();
    let before = commits(&client, &schema).await;
    let me = Caller::local();
    let one = |number| here.submit(&me, vec![numbered(number)], SubmitOptions::default());
    let mut first = Box::pin(one(1));
    ask(&mut first).await;
    somebody_waits(&client, &schema).await;
    let mut late: Vec<_> = (0..LATE).map(|number| Box::pin(one(2 + number))).collect();
    for one in &mut late {
        ask(one).await;
    }
    client.batch_execute(&format!("SELECT pg_advisory_unlock({})", turn(&schema))).await.unwrap();
    tokio::time::timeout(LONG, first).await.expect("in time").expect("it is taken");
    for one in late {
        tokio::time::timeout(LONG, one).await.expect("in time").expect("it is taken");
    }
    assert_eq!(commits(&client, &schema).await, before + 1);
    verify(&there).await;
    [here, there].iter().for_each(Store::close);
}
