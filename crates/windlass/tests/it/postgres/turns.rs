//! Taking turns with other nodes: a request that arrives while a node waits for its turn is served by it.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio_postgres::Client;
use windlass::clock::Stopwatch;
use windlass::job::{JobMetadata, JobRecord, JobState, NewJob, Payload};
use windlass::limits;
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, Finish, NewWorker, Outcome, Report, Store, SubmitOptions};

use super::proxy::{Cut, Proxy};
use super::sql_submit::stranger;
use super::{LONG, numbered, numbers, open, open_in_turn, submit, verify};
use crate::fixture::cluster::{Cluster, new_schema, schema_at};
use crate::fixture::observed::agree;

const LATE: usize = 4;
const ROUNDS: usize = 3;
/// Jobs whose payloads are larger together than what a connection holds.
const LARGE: usize = 60;

/// The commits so far.
pub(super) async fn commits(client: &Client, schema: &str) -> i64 {
    client.query_one(&format!("SELECT max(n) FROM {schema}.commits"), &[]).await.unwrap().get(0)
}

/// The lock that nodes take turns with, as a number.
pub(super) fn turn(schema: &str) -> String {
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

/// Returns when so many wait for their turn, with what the server calls them.
pub(super) async fn waiting(client: &Client, schema: &str, count: usize) -> Vec<i32> {
    let sql = format!(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted \
         AND (classid::bigint << 32 | objid::bigint) = {}",
        turn(schema)
    );
    loop {
        let rows = client.query(&sql, &[]).await.unwrap();
        if rows.len() >= count {
            return rows.iter().map(|row| row.get(0)).collect();
        }
        tokio::task::yield_now().await;
    }
}

/// Takes the turn that all wait for, or gives it back.
pub(super) async fn hold(client: &Client, schema: &str, is_held: bool) {
    let verb = if is_held { "lock" } else { "unlock" };
    client.batch_execute(&format!("SELECT pg_advisory_{verb}({})", turn(schema))).await.unwrap();
}

/// What arrives at a node that waits for others is part of its next commit, and is not left for the one after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_arrives_during_the_wait_shares_the_commit() {
    let address = new_schema();
    let (here, there) = (open_in_turn(&address), open_in_turn(&address));
    let (client, schema) = stranger(&address).await;
    // Each learns that it is not alone.
    for node in [&here, &there, &here] {
        submit(node, 0).await;
    }
    hold(&client, &schema, true).await;
    let before = commits(&client, &schema).await;
    let me = Caller::local();
    let one = |number| here.submit(&me, vec![numbered(number)], SubmitOptions::default());
    let mut first = Box::pin(one(1));
    ask(&mut first).await;
    waiting(&client, &schema, 1).await;
    let mut late: Vec<_> = (0..LATE).map(|number| Box::pin(one(2 + number))).collect();
    for one in &mut late {
        ask(one).await;
    }
    hold(&client, &schema, false).await;
    tokio::time::timeout(LONG, first).await.expect("in time").expect("it is taken");
    for one in late {
        tokio::time::timeout(LONG, one).await.expect("in time").expect("it is taken");
    }
    assert_eq!(commits(&client, &schema).await, before + 1);
    verify(&there).await;
    [here, there].iter().for_each(Store::close);
}

/// What is read for a request that arrives during the wait is asked for before the node has its turn: the lock is held over one
/// round trip, although others have committed since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_arrive_during_the_wait_cost_no_round_trip_under_the_lock() {
    let cluster = Cluster::start(&[]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&cluster.address());
    let here = open_in_turn(&address.replace(&cluster.address(), &proxy.address()));
    let there = open_in_turn(&address);
    let (client, schema) = stranger(&address).await;
    let (me, none) = (Caller::local(), Duration::ZERO);
    let worker = here.register(&me, NewWorker::default()).await.expect("is possible").id;
    let finish = |job: &JobRecord| {
        let report = Report::new(job.id, job.fence, Outcome::Completed { result: None });
        here.finish(&me, worker, vec![report])
    };
    let mut least = usize::MAX;
    for _ in 0..ROUNDS {
        for number in 0..=LATE {
            submit(&there, number).await;
        }
        let request = ClaimRequest::new(worker, LATE);
        let claimed = here.claim(&me, &request, none).await.expect("is possible").jobs;
        submit(&there, 0).await;
        hold(&client, &schema, true).await;
        let mut first = Box::pin(finish(&claimed[0].job));
        ask(&mut first).await;
        waiting(&client, &schema, 1).await;
        let mut late: Vec<_> = claimed[1..].iter().map(|claimed| Box::pin(finish(&claimed.job))).collect();
        for one in &mut late {
            let before = proxy.statements_in_turns();
            ask(one).await;
            // The server has been asked.
            while proxy.statements_in_turns() == before {
                tokio::task::yield_now().await;
            }
        }
        let before = commits(&client, &schema).await;
        proxy.count_round_trips(true);
        hold(&client, &schema, false).await;
        for one in std::iter::once(first).chain(late) {
            let answer = tokio::time::timeout(LONG, one).await.expect("in time").expect("is possible");
            assert_eq!(answer, [Finish::Applied(JobState::Completed)]);
        }
        assert_eq!(commits(&client, &schema).await, before + 1);
        // The least of all: statements are prepared, and on a busy machine a message may arrive in two parts.
        least = least.min(proxy.count_round_trips(false));
    }
    assert_eq!(least, 2);
    verify(&there).await;
    [here, there].iter().for_each(Store::close);
}

/// Model: answer-time. An answer that is larger than what a connection holds is taken in while something else is asked for behind
/// it: the statement of a request that arrives during the wait, which this connection has to prepare first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_answer_does_not_hold_up_what_is_asked_for_behind_it() {
    let cluster = Cluster::start(&[]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&cluster.address());
    let here = open_in_turn(&address.replace(&cluster.address(), &proxy.address()));
    let there = open_in_turn(&address);
    let (client, schema) = stranger(&address).await;
    let (me, none) = (Caller::local(), Duration::ZERO);
    let worker = here.register(&me, NewWorker::default()).await.expect("is possible").id;
    let large = || NewJob { payload: Payload::json(format!("\"{}\"", "x".repeat(8_000))), ..numbered(0) };
    let jobs = (0..LARGE + 3).map(|_| large()).collect();
    there.submit(&me, jobs, SubmitOptions::default()).await.expect("is taken");
    let claim = async |store: &Store, worker, count| {
        store.claim(&me, &ClaimRequest::new(worker, count), none).await.expect("is possible").jobs
    };
    let other = there.register(&me, NewWorker::default()).await.expect("is possible").id;
    let running = claim(&there, other, 1).await.remove(0).job;
    // From the second claim on, what will be claimed is read with the beginning.
    for _ in 0..2 {
        assert_eq!(claim(&here, worker, 1).await.len(), 1);
        submit(&there, 0).await;
    }
    hold(&client, &schema, true).await;
    let mut first = Box::pin(claim(&here, worker, LARGE));
    ask(&mut first).await;
    waiting(&client, &schema, 1).await;
    let before = proxy.statements_in_turns();
    let report = Report::new(running.id, running.fence, Outcome::Completed { result: None });
    let mut late = Box::pin(here.finish(&me, other, vec![report]));
    ask(&mut late).await;
    // The server has been asked.
    while proxy.statements_in_turns() == before {
        tokio::task::yield_now().await;
    }
    hold(&client, &schema, false).await;
    assert_eq!(first.await.len(), LARGE);
    assert_eq!(late.await.expect("is possible"), [Finish::Applied(JobState::Completed)]);
    verify(&there).await;
    [here, there].iter().for_each(Store::close);
}

/// Model: atomic-changes. As long as it is unknown whether a commit was made, no caller is answered that it was not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_cannot_be_looked_up_yet_is_not_called_off() {
    let cluster = Cluster::start(&[]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&proxy.address());
    let store = open(&address);
    let ((first, schema), (next, _)) = (stranger(&address).await, stranger(&address).await);
    hold(&first, &schema, true).await;
    let submitting = tokio::spawn({
        let store = store.clone();
        async move { submit(&store, 1).await }
    });
    waiting(&first, &schema, 1).await;
    // The next node has its turn as soon as the commit is made, before it can be looked up.
    let queued = tokio::spawn({
        let schema = schema.clone();
        async move {
            hold(&next, &schema, true).await;
            next
        }
    });
    waiting(&first, &schema, 2).await;
    proxy.arm(Cut::AfterCommit);
    hold(&first, &schema, false).await;
    let next = tokio::time::timeout(LONG, queued).await.expect("in time").unwrap();
    for looking in waiting(&first, &schema, 1).await {
        first.query_one("SELECT pg_cancel_backend($1)", &[&looking]).await.unwrap();
    }
    hold(&next, &schema, false).await;
    tokio::time::timeout(LONG, submitting).await.expect("in time").expect("it is taken");
    assert_eq!((proxy.cuts(), numbers(&store).await), (1, vec![1]));
    store.close();
}

/// Model: answer-time. An administrator cancels the statement with which a node waits for its turn; its callers do not notice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_wait_begins_again() {
    let address = new_schema();
    let nodes = [open_in_turn(&address), open_in_turn(&address)];
    submit(&nodes[0], 0).await;
    let (client, schema) = stranger(&address).await;
    hold(&client, &schema, true).await;
    let submitting = nodes.clone().map(|node| tokio::spawn(async move { submit(&node, 1).await }));
    let first = waiting(&client, &schema, 2).await;
    for pid in &first {
        client.execute("SELECT pg_cancel_backend($1)", &[pid]).await.unwrap();
    }
    // By other connections.
    let again = async { while waiting(&client, &schema, 2).await.iter().any(|pid| first.contains(pid)) {} };
    tokio::time::timeout(LONG, again).await.expect("they wait again");
    hold(&client, &schema, false).await;
    for submitting in submitting {
        submitting.await.expect("it had its turn");
    }
    agree(&nodes, &[0, 1, 1]).await;
    nodes.iter().for_each(Store::close);
}

/// Maintenance that finds nothing to do takes no turn, however many nodes do it; what is due is done in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_maintenance_takes_no_turn() {
    let address = new_schema();
    let nodes = [open(&address), open(&address)];
    let (client, schema) = stranger(&address).await;
    let later = NewJob { delay: Some(Duration::from_secs(3_600)), ..numbered(0) };
    nodes[0].submit(&Caller::local(), vec![later], SubmitOptions::default()).await.expect("is taken");
    // The first round of each may have something to tidy up.
    for node in nodes.iter().chain(&nodes) {
        node.tick().await.expect("is possible");
    }
    hold(&client, &schema, true).await;
    for node in nodes.iter().chain(&nodes) {
        let idle = tokio::time::timeout(LONG, node.tick()).await.expect("it waits for no other node");
        assert_eq!(idle.expect("is possible").jobs, 0);
    }
    hold(&client, &schema, false).await;
    let due = NewJob { delay: Some(Duration::from_millis(1)), ..numbered(1) };
    nodes[1].submit(&Caller::local(), vec![due], SubmitOptions::default()).await.expect("is taken");
    let promoted = async { while nodes[0].tick().await.expect("is possible").jobs == 0 {} };
    tokio::time::timeout(LONG, promoted).await.expect("it is done when it is due");
    verify(&nodes[1]).await;
    nodes.iter().for_each(Store::close);
}

/// Maintenance that ends a job may have to add names, such as those of the job that calls its address; it does that under
/// the lock, on the connection that it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_that_finds_something_to_add_takes_its_turn() {
    let cluster = Cluster::start(&[]);
    let proxy = Proxy::before(cluster.folder());
    let store = open_in_turn(&schema_at(&proxy.address()));
    let metadata =
        JobMetadata { callback_url: Some("https://example.com/".into()), ..JobMetadata::default() };
    let lifetime = Some(Duration::from_secs(1));
    let short = NewJob { lifetime, metadata, ..numbered(0) };
    store.submit(&Caller::local(), vec![short], SubmitOptions::default()).await.expect("is taken");
    // The writer's and the listener's.
    while proxy.connections() < 2 {
        tokio::task::yield_now().await;
    }
    let ended = async { while store.tick().await.expect("is possible").jobs == 0 {} };
    tokio::time::timeout(LONG, ended).await.expect("it ends with its lifetime");
    assert_eq!(proxy.connections(), 2, "none was lost");
    verify(&store).await;
    store.close();
}

/// A node that is frozen while others wait for it loses its turn, long before its own callers give up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_node_loses_its_turn() {
    let cluster = Cluster::start(&[]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&cluster.address());
    let here = open_in_turn(&address.replace(&cluster.address(), &proxy.address()));
    let there = open_in_turn(&address);
    submit(&here, 0).await;
    submit(&there, 1).await;
    proxy.delay(LONG);
    proxy.arm(Cut::Late);
    let frozen = tokio::spawn({
        let here = here.clone();
        async move { submit(&here, 2).await }
    });
    while proxy.cuts() == 0 {
        tokio::task::yield_now().await;
    }
    let stalled = Stopwatch::start();
    submit(&there, 3).await;
    let stalled = stalled.elapsed();
    assert!(stalled < limits::TRANSACTION_IDLE_MAX / 4, "others were stopped for {stalled:?}");
    tokio::time::timeout(LONG, frozen).await.expect("in time").expect("it tries again");
    agree(&[here.clone(), there.clone()], &[0, 1, 2, 3]).await;
    verify(&there).await;
    [here, there].iter().for_each(Store::close);
}
