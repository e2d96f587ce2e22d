//! Deadlines: whatever keeps a node from working, callers are answered in time, and with the truth. The limits are shortened,
//! which changes nothing but the numbers.

use std::sync::Arc;
use std::time::Duration;

use windlass::clock::Stopwatch;
use windlass::error::{StoreError, SubmitError};
use windlass::internal::Timing;
use windlass::limits;
use windlass::store::caller::Caller;
use windlass::store::{ListRequest, Store, SubmitOptions};

use crate::fixture::cluster::{Cluster, new_schema, schema_at};
use crate::fixture::observed::agree;
use crate::postgres::sql_submit::stranger;
use crate::postgres::turns::hold;
use crate::postgres::{LONG, hasty, in_turn, numbered, numbers, open, open_with, submit};

/// By when a caller is answered, on a machine that is busy with other things.
fn in_time() -> Duration {
    hasty().request_max + limits::ANSWER_MARGIN + Duration::from_secs(3)
}

async fn try_submit(store: &Store, number: usize) -> Result<(), StoreError> {
    let submitted = store.submit(&Caller::local(), vec![numbered(number)], SubmitOptions::default()).await;
    match submitted {
        Ok(_) => Ok(()),
        Err(SubmitError::Store(error)) => Err(error),
        Err(error) => panic!("{error}"),
    }
}

/// Model: answer-time. A caller that waits for another node's turn is refused in time, and what was refused is not done later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_that_another_node_keeps_is_waited_for_until_the_deadline() {
    let address = in_turn(&new_schema());
    let nodes = [open_with(&address, hasty()), open_with(&address, hasty())];
    submit(&nodes[0], 0).await;
    let (client, schema) = stranger(&address).await;
    hold(&client, &schema, true).await;
    let watch = Stopwatch::start();
    // The second is in the queue behind the first.
    let second = async {
        tokio::task::yield_now().await;
        try_submit(&nodes[0], 2).await
    };
    let (first, second, third) = tokio::join!(try_submit(&nodes[0], 1), second, try_submit(&nodes[1], 4));
    assert!(watch.elapsed() < in_time(), "{:?}", watch.elapsed());
    for refused in [first, second, third] {
        let error = refused.expect_err("no call had a turn");
        assert!(!error.to_string().contains("not known"), "{error}");
    }
    hold(&client, &schema, false).await;
    submit(&nodes[0], 3).await;
    // What was refused is not done.
    agree(&nodes, &[0, 3]).await;
    nodes.iter().for_each(Store::close);
}

/// Model: answer-time. A commit that waits for a standby is not waited for; its caller is answered that the outcome is unknown, and it is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_a_standby_keeps_waiting_is_answered_as_not_known_in_time() {
    let cluster = Cluster::start(&[]);
    let address = schema_at(&cluster.address());
    let (here, there) = (open_with(&address, hasty()), open_with(&address, hasty()));
    submit(&here, 0).await;
    submit(&there, 1).await;
    cluster.wait_for_a_missing_standby();
    let watch = Stopwatch::start();
    let error = try_submit(&here, 2).await.expect_err("the standby does not answer");
    assert!(error.to_string().contains("not known"), "{error}");
    assert!(watch.elapsed() < in_time(), "{:?}", watch.elapsed());
    // The next ones wait for the lock that the commit holds, or for the standby, on either node.
    let watch = Stopwatch::start();
    let (third, fourth) = tokio::join!(try_submit(&here, 3), try_submit(&there, 4));
    assert!(watch.elapsed() < in_time(), "{:?}", watch.elapsed());
    let refused =
        [(3, third), (4, fourth)].map(|(number, answer)| (number, answer.expect_err("no standby answers")));
    cluster.set("synchronous_standby_names", "");
    let there_again = async { while try_submit(&there, 5).await.is_err() {} };
    tokio::time::timeout(LONG, there_again).await.expect("work continues");
    let here_again = async { while try_submit(&here, 6).await.is_err() {} };
    tokio::time::timeout(LONG, here_again).await.expect("work continues");
    let found = numbers(&there).await;
    assert_eq!(found.iter().filter(|number| **number == 2).count(), 1, "it was made, once: {found:?}");
    for (number, error) in refused {
        let times = found.iter().filter(|found| **found == number).count();
        let most = usize::from(error.to_string().contains("not known"));
        assert!(times <= most, "what was refused is not done: {number} in {found:?}, {error}");
    }
    let nodes = [here, there];
    agree(&nodes, &found).await;
    nodes.iter().for_each(Store::close);
}

/// Model: answer-time. While the database is unavailable each caller waits for their own time only, whatever waits before them; and a store that is
/// closed meanwhile is closed at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_unavailable_database_is_reported_to_every_caller_in_time() {
    let cluster = Cluster::start(&[]);
    let address = schema_at(&cluster.address());
    let nodes = [open_with(&address, hasty()), open_with(&address, hasty())];
    submit(&nodes[0], 0).await;
    for node in &nodes {
        numbers(node).await;
    }
    cluster.crash();
    let watch = Stopwatch::start();
    let mut asked = Vec::new();
    for number in 0..12 {
        let node = nodes[number % 2].clone();
        asked.push(tokio::spawn(async move {
            node.list(&Caller::local(), ListRequest::default()).await.err().is_some()
        }));
    }
    for number in 1..7 {
        let node = nodes[number % 2].clone();
        asked.push(tokio::spawn(async move { try_submit(&node, number).await.is_err() }));
    }
    for asked in asked {
        assert!(asked.await.unwrap(), "there is no database");
    }
    assert!(watch.elapsed() < in_time(), "{:?}", watch.elapsed());
    // A caller still waits when the store is closed.
    let waiting = nodes.clone().map(|node| tokio::spawn(async move { try_submit(&node, 9).await }));
    let watch = Stopwatch::start();
    tokio::task::spawn_blocking(move || nodes.iter().for_each(Store::close)).await.unwrap();
    assert!(watch.elapsed() < Duration::from_secs(6), "{:?}", watch.elapsed());
    for waiting in waiting {
        assert!(waiting.await.unwrap().is_err());
    }
}

/// The same with the usual limits: closing does not wait until an outage is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_is_closed_while_its_database_is_away() {
    let cluster = Cluster::start(&[]);
    let store = open(&schema_at(&cluster.address()));
    submit(&store, 0).await;
    cluster.crash();
    let store = Arc::new(store);
    let waiting: Vec<_> = (0..4)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let me = Caller::local();
                let listed = store.list(&me, ListRequest::default());
                let (listed, submitted) = tokio::join!(listed, try_submit(&store, number));
                listed.is_err() && submitted.is_err()
            })
        })
        .collect();
    // All of them have met the outage.
    tokio::task::yield_now().await;
    let watch = Stopwatch::start();
    tokio::task::spawn_blocking(move || store.close()).await.unwrap();
    assert!(watch.elapsed() < Duration::from_secs(6), "{:?}", watch.elapsed());
    for waiting in waiting {
        assert!(waiting.await.unwrap());
    }
}

/// A look whose first statement fails leaves its connection fit for the next look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looks_that_failed_at_their_beginning_do_not_spoil_those_after_them() {
    let address = new_schema();
    let store = open_with(&address, hasty());
    submit(&store, 1).await;
    numbers(&store).await;
    let (mut client, schema) = stranger(&address).await;
    let transaction = client.transaction().await.unwrap();
    let lock = format!("LOCK TABLE {schema}.commits IN ACCESS EXCLUSIVE MODE");
    transaction.batch_execute(&lock).await.unwrap();
    looks_fail(&store).await;
    transaction.rollback().await.unwrap();
    looks_are_answered(&store).await;
    // A statement that is refused at once leaves the connection as it is; one that is late may end it.
    client.batch_execute(&format!("ALTER TABLE {schema}.commits RENAME TO hidden")).await.unwrap();
    looks_fail(&store).await;
    client.batch_execute(&format!("ALTER TABLE {schema}.hidden RENAME TO commits")).await.unwrap();
    looks_are_answered(&store).await;
    store.close();
}

/// More looks than there are readers, none of which is answered.
async fn looks_fail(store: &Store) {
    let looks = (0..2 * limits::READERS).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.stats(&Caller::local()).await.is_err() })
    });
    for look in looks.collect::<Vec<_>>() {
        assert!(look.await.unwrap(), "the table is not there");
    }
}

async fn looks_are_answered(store: &Store) {
    for _ in 0..4 * limits::READERS {
        assert_eq!(numbers(store).await, [1]);
    }
}

/// Model: answer-time. Reads behind many others learn, in the time that they have, that the database is unavailable, and not that they were slow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_behind_others_learn_that_the_database_is_unavailable() {
    let cluster = Cluster::start(&[]);
    let timing = Timing { request_max: Duration::from_secs(3), ..hasty() };
    let store = open_with(&schema_at(&cluster.address()), timing);
    submit(&store, 0).await;
    numbers(&store).await;
    cluster.crash();
    // If each of them waited from its turn on, it would be 6 s.
    let asked = (0..12 * limits::READERS).map(|_| {
        let store = store.clone();
        tokio::spawn(async move { store.list(&Caller::local(), ListRequest::default()).await })
    });
    for asked in asked.collect::<Vec<_>>() {
        let error = asked.await.unwrap().expect_err("there is no database");
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    }
    store.close();
}
