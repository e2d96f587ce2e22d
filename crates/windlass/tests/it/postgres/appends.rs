//! Submissions that are stored without the store's lock: they wait for no other node, and every node sees them.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Client;
use windlass::clock::{ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{JobRecord, JobState, JobType, NewJob, Payload};
use windlass::settings::patch::{Field, QueuePatch, SettingsPatch};
use windlass::store::caller::Caller;
use windlass::store::{
    ActionOptions, ActionRequest, ClaimRequest, Environment, IfMatch, ListRequest, NewWorker, Patch, Store,
    StoreOptions, SubmitOptions,
};

use super::proxy::{Cut, Proxy};
use super::sql_submit::stranger;
use super::turns::{hold, waiting};
use super::{LONG, numbered, numbers, open, open_in_turn, submit, verify};
use crate::fixture::cluster::{Cluster, new_schema, schema_at};
use crate::fixture::observed::agree;

/// Claims whose round trips are counted.
const CLAIMS: usize = 3;

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
        tokio::time::timeout(LONG, submit(node, next)).await.expect("it waits for no other node");
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

/// Model: atomic-changes. An append without an answer is looked up, and done again only if it did not happen.
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

/// Model: atomic-changes. An append that reaches the server only after a node has tried to do it again without effect: its jobs are there once,
/// and the caller is not given the ids of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_that_is_made_after_an_attempt_to_repeat_it_is_not_answered_with_other_ids() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&cluster.address());
    let node =
        open(&format!("{}&statement_cache=off", address.replace(&cluster.address(), &proxy.address())));
    let (client, schema) = stranger(&address).await;
    let next = warm_up(&node, &client, &schema, 0).await;
    let made = appends(&client, &schema).await;
    hold(&client, &schema, true).await;
    proxy.arm(Cut::Held);
    let (store, me) = (node.clone(), Caller::local());
    let submitting =
        tokio::spawn(async move { store.submit(&me, vec![numbered(next)], SubmitOptions::default()).await });
    while proxy.cuts() == 0 {
        tokio::task::yield_now().await;
    }
    // The writer waits for its turn, to do it again.
    waiting(&client, &schema, 1).await;
    proxy.arm_and_shut(Cut::BeforeCommit);
    hold(&client, &schema, false).await;
    while proxy.cuts() == 1 {
        tokio::task::yield_now().await;
    }
    proxy.let_go();
    while appends(&client, &schema).await == made {
        tokio::task::yield_now().await;
    }
    proxy.shut(false);
    let answer = tokio::time::timeout(LONG, submitting).await.expect("in time").unwrap();
    let error = answer.expect_err("the ids of its jobs are lost").to_string();
    assert!(error.contains("not known"), "{error}");
    agree(std::slice::from_ref(&node), &(0..=next).collect::<Vec<_>>()).await;
    node.close();
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

/// Model: store-time. A node whose clock is behind takes in a job that another has answered: it is the job that was answered, and time does
/// not go back behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_appended_job_is_the_one_that_was_answered() {
    let address = new_schema();
    let at = |millis: i64| {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_800_000_000_000 + millis)));
        let env = Environment::new(clock, Entropy::from_system(), StoreOptions::default());
        Store::open_in(&address, env).expect("the store opens")
    };
    let (ahead, behind) = (at(5_000), at(0));
    let (client, schema) = stranger(&address).await;
    let me = Caller::local();
    let submit = async |number| {
        let receipts = ahead.submit(&me, vec![numbered(number)], SubmitOptions::default()).await;
        receipts.expect("is taken").remove(0).job
    };
    submit(0).await;
    let made = appends(&client, &schema).await;
    let answered = submit(1).await;
    assert_eq!(appends(&client, &schema).await, made + 1);
    let found = behind.get(&me, answered.id).await.unwrap().expect("it is there").job;
    assert_eq!(JobRecord { seq: answered.seq, ..found }, answered);
    let worker = behind.register(&me, NewWorker::default()).await.unwrap().id;
    let claimed = behind.claim(&me, &ClaimRequest::new(worker, 2), Duration::ZERO).await.unwrap().jobs;
    assert!(claimed.iter().all(|claimed| claimed.job.started_at >= Some(answered.created_at)));
    [ahead, behind].iter().for_each(Store::close);
}

/// Model: writable-fields. Changes by another node, in the commit that takes an appended job in, are answered as they are stored.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_an_appended_job_is_answered_as_it_is_stored() {
    let address = new_schema();
    let (here, there) = (open(&address), open(&address));
    let (client, schema) = stranger(&address).await;
    let next = warm_up(&here, &client, &schema, 0).await;
    let me = Caller::local();
    let receipt = here.submit(&me, vec![numbered(next)], SubmitOptions::default()).await.expect("is taken");
    let id = receipt[0].job.id;
    let patch = Patch { correlation_id: Some(Some("a".to_owned())), ..Patch::default() };
    let act = |act, if_match| {
        there.act_and_read(&me, id, act, ActionOptions { if_match, ..ActionOptions::default() })
    };
    let answered = act(ActionRequest::Patch(patch), IfMatch::any()).await.unwrap().job;
    assert_eq!(answered.spec.metadata.correlation_id.as_deref(), Some("a"));
    let found = there.get(&me, id).await.unwrap().expect("it is there");
    assert_eq!((&found.spec, found.version()), (&answered.spec, answered.version()));
    act(ActionRequest::Cancel { reason: None }, answered.version().into()).await.unwrap();
    [here, there].iter().for_each(Store::close);
}

/// What cannot be read is kept aside, and found; everything else continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_append_stops_no_other() {
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
    let (store, in_turn) = (open(&address), open_in_turn(&address));
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

/// How a node comes to look for its answered submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notices {
    /// By its next submission.
    Submission,
    /// By any other change, on the same connection.
    Write,
    /// By any other change, on a new connection.
    Reconnect,
}

/// Returns why the node stopped.
async fn stops(store: &Store, how: Notices, number: usize) -> String {
    let me = Caller::local();
    let stops = async {
        loop {
            let error = if how == Notices::Submission {
                let again = store.submit(&me, vec![numbered(number)], SubmitOptions::default()).await;
                again.err().map(|error| error.to_string())
            } else {
                store.register(&me, NewWorker::default()).await.err().map(|error| error.to_string())
            };
            if let Some(error) = error.filter(|error| error.contains("lost commit")) {
                return error;
            }
        }
    };
    tokio::time::timeout(LONG, stops).await.expect("it stops")
}

/// The store's generation as it is stored.
async fn generation(client: &Client, schema: &str) -> i64 {
    let sql = format!("SELECT generation FROM {schema}.commits ORDER BY n DESC LIMIT 1");
    client.query_one(&sql, &[]).await.unwrap().get(0)
}

/// Submits a job that is answered, and removes it behind the store's back.
async fn lose_a_submission(store: &Store, client: &Client, schema: &str, number: usize) {
    // Takes in all others.
    numbers(store).await;
    hold(client, schema, true).await;
    submit(store, number).await;
    let lose = format!("DELETE FROM {schema}.appends");
    assert_eq!(client.execute(&lose, &[]).await.unwrap(), 1);
    hold(client, schema, false).await;
}

/// Model: store-generation. Answered submissions that a failover or a restore has lost stop the node, as lost commits do; it notices with
/// its next submission, and with any other change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answered_submissions_that_are_lost_stop_the_node() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    for how in [Notices::Submission, Notices::Write, Notices::Reconnect] {
        let address = schema_at(&cluster.address());
        let store = open(&address);
        let (client, schema) = stranger(&address).await;
        let next = warm_up(&store, &client, &schema, 0).await;
        lose_a_submission(&store, &client, &schema, next).await;
        let before = generation(&client, &schema).await;
        if how == Notices::Reconnect {
            let cut =
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'windlass'";
            client.execute(cut, &[]).await.unwrap();
        }
        let error = stops(&store, how, next + 1).await;
        assert!(error.contains("submissions after it"), "{how:?}: {error}");
        let after = generation(&client, &schema).await;
        assert_eq!(after, before + 1, "{how:?}: workers from before are fenced off");
        store.close();
        let other = open(&address);
        submit(&other, next + 2).await;
        verify(&other).await;
        other.close();
    }
}

/// Model: store-generation. A new generation begins for submissions that are lost after another node began one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_that_are_lost_in_a_later_generation_begin_another() {
    let address = new_schema();
    let (store, other) = (open(&address), open(&address));
    let (client, schema) = stranger(&address).await;
    let next = warm_up(&store, &client, &schema, 0).await;
    let begun = other.begin_generation(&Caller::local(), "the database was restored").await.unwrap();
    let next = warm_up(&store, &client, &schema, next).await;
    lose_a_submission(&store, &client, &schema, next).await;
    stops(&store, Notices::Write, next + 1).await;
    assert_eq!(generation(&client, &schema).await.unsigned_abs(), begun.number + 1);
    [store, other].iter().for_each(Store::close);
}

/// Model: store-generation. Files that are put back take commits and submissions of a node at once: a new generation begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_are_lost_together_with_submissions_begin_a_new_generation() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let address = schema_at(&cluster.address());
    let store = open(&address);
    let (client, schema) = stranger(&address).await;
    let next = warm_up(&store, &client, &schema, 0).await;
    cluster.keep_copy("backup");
    store.register(&Caller::local(), NewWorker::default()).await.unwrap();
    let (client, schema) = (stranger(&address).await.0, schema);
    let next = warm_up(&store, &client, &schema, next).await;
    hold(&client, &schema, true).await;
    // No commit of the node contains it.
    submit(&store, next).await;
    cluster.put_back("backup");
    stops(&store, Notices::Write, next + 1).await;
    let (client, schema) = stranger(&address).await;
    assert_eq!(generation(&client, &schema).await, 2, "workers from before are fenced off");
    store.close();
}

/// A job that was appended is claimed by the commit that takes it in, and is not read back for that: the lock is held over one
/// round trip.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_in_is_claimed_without_another_round_trip() {
    let cluster = Cluster::start(&[]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&cluster.address());
    let (here, there) =
        (open_in_turn(&address.replace(&cluster.address(), &proxy.address())), open(&address));
    let me = Caller::local();
    let worker = here.register(&me, NewWorker::default()).await.expect("is possible").id;
    let (client, schema) = stranger(&address).await;
    let mut claimed = 0;
    let mut next = warm_up(&there, &client, &schema, 0).await;
    let mut counted = Vec::new();
    while counted.len() < CLAIMS {
        submit(&there, next).await;
        next += 1;
        let is_left = left(&client, &schema).await == 1;
        proxy.count_round_trips(true);
        let request = ClaimRequest::new(worker, 1);
        claimed += here.claim(&me, &request, Duration::ZERO).await.expect("is possible").jobs.len();
        let count = proxy.count_round_trips(false);
        // Before that it does not know where it begins to read.
        if is_left && claimed > CLAIMS {
            counted.push(count);
        }
    }
    let found = there.stats(&me).await.expect("is possible").states;
    assert_eq!(found.get(&JobState::Running), Some(&(claimed as u64)), "each is claimed once");
    // On a busy machine a message may arrive in two parts.
    assert_eq!(counted.iter().min(), Some(&2), "{counted:?}");
    verify(&there).await;
    [here, there].iter().for_each(Store::close);
}
