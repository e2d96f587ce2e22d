//! Submissions that are stored without the store's lock: they wait for nobody, and everybody sees them.

use std::time::Duration;

use tokio_postgres::Client;
use windlass::job::{JobState, JobType, NewJob, Payload};
use windlass::settings::patch::{Field, QueuePatch, SettingsPatch};
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::command::claim::ClaimRequest;
use windlass::store::command::submit::SubmitOptions;
use windlass::store::command::worker::NewWorker;
use windlass::store::environment::StoreOptions;
use windlass::store::query::list::ListRequest;

use super::proxy::{Cut, Proxy};
use super::sql_submit::stranger;
use super::turns::hold;
use super::{LONG, numbered, numbers, submit, verify};
use crate::fixture::cluster::{Cluster, new_schema, schema_at};
use crate::fixture::observed::agree;

fn open(address: &str) -> Store {
    Store::open(&format!("{address}&append=on"), StoreOptions::default()).expect("the store opens")
}

/// How many times something was appended.
async fn appends(client: &Client, schema: &str) -> i64 {
    let sql = format!("SELECT last_value - (NOT is_called)::int FROM {schema}.appends_n");
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

/// How much is left to be taken in.
async fn left(client: &Client, schema: &str) -> i64 {
    client.query_one(&format!("SELECT count(*) FROM {schema}.appends"), &[]).await.unwrap().get(0)
}

/// Submits until a node appends: it has to know the lane. Returns how many jobs there are.
async fn warm_up(store: &Store, client: &Client, schema: &str, mut number: usize) -> usize {
    let before = appends(client, schema).await;
    while appends(client, schema).await == before {
        submit(store, number).await;
        number += 1;
    }
    number
}

/// Model: answer-time. A submission is answered while another node has its turn, and every node shows it once it can look.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_waits_for_no_turn() {
    let address = new_schema();
    let nodes = [open(&address), open(&address)];
    let (client, schema) = stranger(&address).await;
    let mut next = warm_up(&nodes[0], &client, &schema, 0).await;
    next = warm_up(&nodes[1], &client, &schema, next).await;
    hold(&client, &schema, true).await;
    for node in nodes.iter().cycle().take(10) {
        tokio::time::timeout(LONG, submit(node, next)).await.expect("it waits for nobody");
        next += 1;
    }
    assert!(left(&client, &schema).await >= 10);
    hold(&client, &schema, false).await;
    agree(&nodes, &(0..next).collect::<Vec<_>>()).await;
    assert_eq!(left(&client, &schema).await, 0);
    nodes.iter().for_each(Store::close);
}

/// Model: claim-order. Jobs that were submitted one after the other on different nodes are claimed in that order, by any node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appended_jobs_are_claimed_in_the_order_of_their_answers() {
    let address = new_schema();
    let nodes = [open(&address), open(&address), open(&address)];
    let (client, schema) = stranger(&address).await;
    let mut next = 0;
    for node in &nodes {
        next = warm_up(node, &client, &schema, next).await;
    }
    let me = Caller::local();
    let keyed = |number: usize| NewJob { unique_key: Some(number.to_string()), ..numbered(number) };
    for number in next..next + 60 {
        // Now and then one that needs its turn.
        let job = if number % 7 == 0 { keyed(number) } else { numbered(number) };
        nodes[number % 3].submit(&me, vec![job], SubmitOptions::default()).await.expect("is taken");
    }
    next += 60;
    let worker = nodes[1].register(&me, NewWorker::default()).await.unwrap().id;
    let mut claimed = Vec::new();
    while claimed.len() < next {
        let request = ClaimRequest::new(worker, 25);
        let jobs = nodes[1].claim(&me, &request, Duration::ZERO).await.unwrap().jobs;
        assert!(!jobs.is_empty(), "{} of {next}", claimed.len());
        claimed.extend(
            jobs.iter()
                .map(|job| std::str::from_utf8(&job.spec.payload.bytes).unwrap().parse::<usize>().unwrap()),
        );
    }
    assert_eq!(claimed, (0..next).collect::<Vec<_>>());
    verify(&nodes[2]).await;
    nodes.iter().for_each(Store::close);
}

/// Model: wake-ups. A claim that waits on one node is woken by a submission that another appended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_appended_job_wakes_the_claims_of_other_nodes() {
    let address = new_schema();
    let (here, there) = (open(&address), open(&address));
    let (client, schema) = stranger(&address).await;
    let count = warm_up(&here, &client, &schema, 0).await;
    let me = Caller::local();
    let worker = there.register(&me, NewWorker::default()).await.unwrap().id;
    let request = ClaimRequest::new(worker, 1);
    for _ in 0..count {
        there.claim(&me, &request, Duration::ZERO).await.unwrap();
    }
    // The registration has changed the configuration.
    let mut next = warm_up(&here, &client, &schema, count).await;
    for _ in count..next {
        there.claim(&me, &request, Duration::ZERO).await.unwrap();
    }
    for _ in 0..5 {
        let (node, me, request) = (there.clone(), me.clone(), request.clone());
        let waiting = tokio::spawn(async move { node.claim(&me, &request, Duration::from_secs(30)).await });
        submit(&here, next).await;
        next += 1;
        let claimed = tokio::time::timeout(LONG, waiting).await.expect("in time").unwrap().unwrap();
        assert_eq!(claimed.jobs.len(), 1);
    }
    [here, there].iter().for_each(Store::close);
}

/// Model: atomic-changes. An append that nobody answered for is looked up, and done again only if it did not happen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_whose_answer_is_lost_is_made_once() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&cluster.address());
    let node =
        open(&format!("{}&statement_cache=off", address.replace(&cluster.address(), &proxy.address())));
    let other = open(&address);
    let (client, schema) = stranger(&address).await;
    let mut next = warm_up(&node, &client, &schema, 0).await;
    for round in 0..20 {
        for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
            next = warm_up(&node, &client, &schema, next).await;
            if round % 3 == 0 {
                // So that the commits of others lie between.
                submit(&other, next).await;
                next += 1;
            }
            proxy.arm(cut);
            submit(&node, next).await;
            next += 1;
        }
    }
    assert_eq!(proxy.cuts(), 40);
    proxy.disarm();
    agree(&[node.clone(), other.clone()], &(0..next).collect::<Vec<_>>()).await;
    [node, other].iter().for_each(Store::close);
}

/// Model: setting-levels. A change of settings comes after everything that was submitted before, and applies to everything after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_apply_to_all_later_submissions_of_every_node() {
    let address = new_schema();
    let nodes = [open(&address), open(&address)];
    let (client, schema) = stranger(&address).await;
    let me = Caller::local();
    let mut next = 0;
    for depth in 1..=8 {
        for node in &nodes {
            next = warm_up(node, &client, &schema, next).await;
        }
        let limit = |max_depth| {
            let patch = QueuePatch { max_depth, ..QueuePatch::default() };
            SettingsPatch::Queue(windlass::job::QueueName::default(), patch)
        };
        nodes[depth % 2].configure(&me, limit(Field::Set(1))).await.expect("is allowed");
        for node in &nodes {
            let refused = node.submit(&me, vec![numbered(next)], SubmitOptions::default()).await;
            assert!(refused.is_err(), "the queue is full");
        }
        nodes[depth % 2].configure(&me, limit(Field::Clear)).await.expect("is allowed");
    }
    agree(&nodes, &(0..next).collect::<Vec<_>>()).await;
    nodes.iter().for_each(Store::close);
}

/// What cannot be read is kept aside, and found; everything else goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_append_stops_nobody() {
    let address = new_schema();
    let store = open(&address);
    let (client, schema) = stranger(&address).await;
    let next = warm_up(&store, &client, &schema, 0).await;
    numbers(&store).await;
    hold(&client, &schema, true).await;
    submit(&store, next).await;
    let spoil = format!("UPDATE {schema}.appends SET body = '\\x00'");
    assert_eq!(client.execute(&spoil, &[]).await.unwrap(), 1);
    hold(&client, &schema, false).await;
    assert_eq!(numbers(&store).await, (0..next).collect::<Vec<_>>());
    submit(&store, next + 1).await;
    assert_eq!(numbers(&store).await.len(), next + 1);
    let found = store.verify().await.unwrap();
    assert!(format!("{found:?}").contains("appends"), "{found:?}");
    store.close();
}

/// A lane that is new, and a job with a key, take their turn; so does everything on a node that does not append.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_needs_a_decision_takes_its_turn() {
    let address = new_schema();
    let (store, in_turn) = (open(&address), super::open(&address));
    let (client, schema) = stranger(&address).await;
    let next = warm_up(&store, &client, &schema, 0).await;
    let me = Caller::local();
    let before = appends(&client, &schema).await;
    submit(&in_turn, next).await;
    let keyed = NewJob { idempotency_key: Some("a".to_owned()), ..numbered(next + 1) };
    let new = NewJob::new(JobType::new("new").unwrap(), Payload::json((next + 2).to_string()));
    for job in [keyed, new] {
        store.submit(&me, vec![job], SubmitOptions::default()).await.expect("is taken");
    }
    assert_eq!(appends(&client, &schema).await, before);
    let listed = store.list(&me, ListRequest::default()).await.unwrap().jobs.len();
    assert_eq!(listed, next + 3);
    [store, in_turn].iter().for_each(Store::close);
}

/// A submission in SQL may depend on a job that was appended a moment ago.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_in_sql_finds_an_appended_job() {
    let address = new_schema();
    let store = open(&address);
    let (client, schema) = stranger(&address).await;
    let next = warm_up(&store, &client, &schema, 0).await;
    numbers(&store).await;
    hold(&client, &schema, true).await;
    let me = Caller::local();
    let first = store.submit(&me, vec![numbered(next)], SubmitOptions::default()).await.unwrap();
    let id = first[0].job.id;
    assert_eq!(left(&client, &schema).await, 1);
    let after = |id: &str| {
        format!("SELECT {schema}.submit('count', '{}'::json, '{{\"after\": [\"{id}\"]}}')::text", next + 1)
    };
    let unknown = client.query_one(&after("01234567-89ab-7def-8123-456789abcdef"), &[]).await;
    assert!(unknown.is_err(), "there is no such job");
    let second: String = client.query_one(&after(&id.to_string()), &[]).await.unwrap().get(0);
    hold(&client, &schema, false).await;
    let is_there = async {
        while store.get(&me, second.parse().unwrap()).await.unwrap().is_none() {
            store.tick().await.unwrap();
        }
    };
    tokio::time::timeout(LONG, is_there).await.expect("it becomes a job");
    let second = store.get(&me, second.parse().unwrap()).await.unwrap().unwrap();
    assert_eq!((second.job.state, second.spec.after), (JobState::Pending, vec![id]));
    store.close();
}
