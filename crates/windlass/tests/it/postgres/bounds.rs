//! What one request costs beside much that is stored: statements are counted on their way to the server, since time depends on
//! the machine.

use std::sync::Arc;
use std::time::Duration;

use windlass::clock::{Clock, ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{Dependency, JobId, JobState, NewJob, Priority, QueueName, Tenant};
use windlass::limits;
use windlass::settings::QueueSettings;
use windlass::store::caller::Caller;
use windlass::store::{
    ActionRequest, ClaimRequest, ClaimedJob, Environment, Filter, ListRequest, NewWorker, Outcome, Redrive,
    Report, Settings, Store, StoreOptions, SubmitOptions,
};

use super::proxy::Proxy;
use super::{numbered, open, verify};
use crate::fixture::START;
use crate::fixture::cluster::{Cluster, schema_at};

const LANES: usize = 20_000;
const DEPENDENTS: usize = 600;
const ROUNDS: usize = 10;

/// A server, a proxy before it that counts, and the address of a store through it.
fn counted() -> (Cluster, Proxy, String) {
    let cluster = Cluster::start(&[]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&proxy.address());
    (cluster, proxy, address)
}

async fn submit_all(store: &Store, jobs: Vec<NewJob>) -> Vec<JobId> {
    let receipts = store.submit(&Caller::local(), jobs, SubmitOptions::default()).await.expect("is taken");
    receipts.into_iter().map(|receipt| receipt.job.id).collect()
}

/// Does what did not fit into the commit of a change.
async fn continue_changes(store: &Store) {
    while store.tick().await.expect("the store is there").has_more {}
}

/// Model: bounded-commits, inherited-priority. A change reaches hundreds of dependents with a number of statements that does not grow with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_with_many_dependents_takes_few_statements() {
    let (_cluster, proxy, address) = counted();
    let store = open(&address);
    let me = Caller::local();
    let root = submit_all(&store, vec![NewJob { hold: true, ..numbered(0) }]).await[0];
    let after = |number| NewJob { after: vec![Dependency::Job(root)], ..numbered(number) };
    let dependents = submit_all(&store, (1..=DEPENDENTS).map(after).collect()).await;
    let before = proxy.statements();
    store.act(&me, root, ActionRequest::Priority(Priority::new(90).unwrap())).await.expect("is allowed");
    let raised = proxy.statements();
    store.act(&me, root, ActionRequest::Priority(Priority::new(10).unwrap())).await.expect("is allowed");
    let lowered = proxy.statements();
    store.act(&me, root, ActionRequest::Cancel { reason: None }).await.expect("is allowed");
    let cancelled = proxy.statements();
    let costs = [raised - before, lowered - raised, cancelled - lowered];
    println!("statements: raise {}, lower {}, cancel {}", costs[0], costs[1], costs[2]);
    // A page of 500 dependents each, and for lowering a look at 20 dependents at a time.
    assert!(costs[0] <= 60 && costs[1] <= 200 && costs[2] <= 60, "{costs:?}");
    continue_changes(&store).await;
    let last = store.get(&me, dependents[DEPENDENTS - 1]).await.unwrap().unwrap();
    assert!(last.job.state.is_final());
    verify(&store).await;
    store.close();
}

/// Model: claim-order. With more lanes than fit into a small memory, neither a batch nor a claim asks for them one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_lanes_are_not_asked_for_one_by_one() {
    let (_cluster, proxy, address) = counted();
    let store = open(&address);
    let me = Caller::local();
    let in_lane = |number: usize| NewJob {
        tenant: Some(Tenant::new(&format!("t{number}")).unwrap()),
        ..numbered(number)
    };
    for half in [0..LANES / 2, LANES / 2..LANES] {
        let before = proxy.statements();
        submit_all(&store, half.map(in_lane).collect()).await;
        let cost = proxy.statements() - before;
        println!("statements of a batch in {} new lanes: {cost}", LANES / 2);
        // Before its statements are prepared a connection needs one more for each.
        assert!(cost <= 200, "{cost}");
    }
    // Another node knows no lane yet.
    let other = open(&address);
    let worker = other.register(&me, NewWorker::default()).await.expect("any caller may register").id;
    for round in 0..3 {
        let before = proxy.statements();
        let request = ClaimRequest::new(worker, 1);
        let claimed = other.claim(&me, &request, Duration::ZERO).await.expect("the worker is known");
        assert_eq!(claimed.jobs.len(), 1);
        let cost = proxy.statements() - before;
        println!("statements of a claim beside {LANES} lanes, round {round}: {cost}");
        assert!(cost <= 200, "{cost}");
    }
    other.close();
    store.close();
}

/// Model: aging. Where jobs age, a claim asks for the first jobs of all priorities of all lanes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_asks_once_for_all_priorities_that_age() {
    let (_cluster, proxy, address) = counted();
    let store = open(&address);
    let me = Caller::local();
    let settings =
        QueueSettings { aging: Some(std::time::Duration::from_secs(60)), ..QueueSettings::default() };
    store.configure(&me, Settings::Queue(QueueName::default(), settings)).await.expect("is allowed");
    let job = |number: usize| NewJob {
        tenant: Some(Tenant::new(&format!("t{}", number % 40)).unwrap()),
        priority: Some(Priority::new(i64::try_from(number / 40).unwrap()).unwrap()),
        ..numbered(number)
    };
    submit_all(&store, (0..40 * 60).map(job).collect()).await;
    let worker = store.register(&me, NewWorker::default()).await.expect("any caller may register").id;
    for round in 0..3 {
        let before = proxy.statements();
        let request = ClaimRequest::new(worker, 10);
        let claimed = store.claim(&me, &request, Duration::ZERO).await.expect("the worker is known");
        assert_eq!(claimed.jobs.len(), 10);
        let cost = proxy.statements() - before;
        println!("statements of a claim beside 40 lanes of 60 priorities, round {round}: {cost}");
        // The first time statements are prepared.
        assert!(round == 0 || cost <= 30, "{cost}");
    }
    store.close();
}

/// Model: claim-order. A large claim from several lanes asks as little as a small one: jobs and what was submitted are read at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_of_hundreds_asks_as_little_as_one_of_a_few() {
    let (_cluster, proxy, address) = counted();
    let store = open(&address);
    let me = Caller::local();
    let job = |number: usize| NewJob {
        tenant: Some(Tenant::new(&format!("t{}", number % 10)).unwrap()),
        ..numbered(number)
    };
    submit_all(&store, (0..4_000).map(job).collect()).await;
    let worker = store.register(&me, NewWorker::default()).await.expect("any caller may register").id;
    let mut costs = Vec::new();
    for limit in [20, 20, 20, 500, 500, 500] {
        let before = proxy.statements();
        let request = ClaimRequest::new(worker, limit);
        let claimed = store.claim(&me, &request, Duration::ZERO).await.expect("the worker is known");
        assert_eq!(claimed.jobs.len(), limit);
        costs.push(proxy.statements() - before);
    }
    println!("statements of claims of 20 and of 500 jobs in 10 lanes: {costs:?}");
    assert!(costs[5] <= costs[2] + 5, "{costs:?}");
    store.close();
}

/// Model: tenant-isolation. The few jobs that were redriven are found among many that were not with as many statements as an empty list takes,
/// and so is the reverse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_what_was_redriven_does_not_walk_over_what_was_not() {
    let (_cluster, proxy, address) = counted();
    let store = open(&address);
    let me = Caller::local();
    let root = submit_all(&store, vec![NewJob { hold: true, ..numbered(0) }]).await[0];
    let after = |number| NewJob { after: vec![Dependency::Job(root)], ..numbered(number) };
    let jobs = submit_all(&store, (1..=DEPENDENTS).map(after).collect()).await;
    store.act(&me, root, ActionRequest::Cancel { reason: None }).await.expect("is allowed");
    continue_changes(&store).await;
    let list = |is_redriven| ListRequest {
        filter: Filter { states: vec![JobState::Cancelled], is_redriven, ..Filter::default() },
        limit: 10,
        ..ListRequest::default()
    };
    store.redrive(&me, jobs[0], Redrive::default()).await.expect("is allowed");
    let before = proxy.statements();
    let page = store.list(&me, list(Some(true))).await.unwrap();
    let one_of_many = proxy.statements() - before;
    assert_eq!((page.jobs.len(), page.next.is_some()), (1, false));
    assert_eq!(page.jobs[0].job.id, jobs[0]);
    for id in &jobs[1..] {
        store.redrive(&me, *id, Redrive::default()).await.expect("is allowed");
    }
    let before = proxy.statements();
    let page = store.list(&me, list(Some(false))).await.unwrap();
    let reverse = proxy.statements() - before;
    assert_eq!((page.jobs.len(), page.next.is_some()), (1, false));
    assert_eq!(page.jobs[0].job.id, root);
    println!("statements: {one_of_many} and {reverse}");
    assert!(one_of_many <= 20 && reverse <= 20, "{one_of_many} and {reverse}");
    verify(&store).await;
    store.close();
}

/// Model: bounded-commits. The results of a page of jobs are read with as many statements as those of a few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_results_of_many_jobs_take_as_many_statements_as_those_of_few() {
    let (_cluster, proxy, address) = counted();
    let store = open(&address);
    let me = Caller::local();
    let jobs = submit_all(&store, (0..400).map(numbered).collect()).await;
    let worker = store.register(&me, NewWorker::default()).await.expect("any caller may register").id;
    let claimed = store.claim(&me, &ClaimRequest::new(worker, 400), Duration::ZERO).await.expect("is known");
    let done = |claimed: &ClaimedJob| {
        let outcome = Outcome::Completed { result: Some(b"1".to_vec()) };
        Report::new(claimed.job.id, claimed.job.fence, outcome)
    };
    store.finish(&me, worker, claimed.jobs.iter().map(done).collect()).await.expect("the worker is known");
    let mut costs = Vec::new();
    for count in [4, 4, 400, 400] {
        let before = proxy.statements();
        let found = store.results(&me, jobs[..count].to_vec(), limits::PAYLOAD_BYTES_MAX).await.unwrap();
        assert_eq!(found.len(), count);
        costs.push(proxy.statements() - before);
    }
    println!("statements of the results of 4 and of 400 jobs: {costs:?}");
    let rounds = 400_usize.div_ceil(limits::RESULTS_AT_ONCE);
    assert!(costs[3] <= costs[1] * rounds, "{costs:?}");
    store.close();
}

/// A node with a clock of the test's.
fn node(address: &str, clock: &Arc<ManualClock>, seed: u64) -> Store {
    let env = Environment::new(clock.clone(), Entropy::seeded(seed), StoreOptions::default());
    Store::open_in(address, env).expect("the store opens")
}

/// Model: leases-and-heartbeats. Neither a heartbeat nor a claim changes the configuration, which other nodes would have to read again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_heartbeat_makes_no_node_read_the_configuration_again() {
    let (_cluster, proxy, address) = counted();
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
    let (store, other) = (node(&address, &clock, 1), node(&address, &clock, 2));
    let me = Caller::local();
    let job = submit_all(&store, vec![numbered(0)]).await[0];
    let worker = store.register(&me, NewWorker::default()).await.expect("any caller may register").id;
    let look = async || {
        other.get(&me, job).await.unwrap().expect("the job is there");
    };
    // The statements are prepared, and the configuration is known.
    for _ in 0..5 {
        look().await;
    }
    // The least of all rounds: in some of them a reader prepares its statements, or nodes poll for changes.
    let mut costs = [usize::MAX; 3];
    for _ in 0..ROUNDS {
        let start = proxy.statements();
        look().await;
        let quiet = proxy.statements();
        clock.advance(limits::HEARTBEAT_EVERY);
        store.heartbeat(&me, worker, Vec::new()).await.expect("the worker is known");
        let beaten = proxy.statements();
        look().await;
        let looked = proxy.statements();
        submit_all(&store, vec![numbered(1)]).await;
        let claimed =
            store.claim(&me, &ClaimRequest::new(worker, 1), Duration::ZERO).await.expect("is known");
        assert_eq!(claimed.jobs.len(), 1);
        let taken = proxy.statements();
        look().await;
        costs[0] = costs[0].min(quiet - start);
        costs[1] = costs[1].min(looked - beaten);
        costs[2] = costs[2].min(proxy.statements() - taken);
    }
    println!("statements of a look with nothing changed, after a heartbeat, and after a claim: {costs:?}");
    assert!(costs[1] <= costs[0] + 1 && costs[2] <= costs[0] + 1, "{costs:?}");
    // Both know that the worker is alive: what one received the other sees, and neither marks it as lost.
    other.tick().await.unwrap();
    let known = other.config(&me).await.unwrap().workers[&worker].clone();
    assert_eq!((known.seen_at, known.is_lost), (clock.now(), false));
    clock.advance(limits::WORKER_SILENCE_MAX);
    other.tick().await.unwrap();
    assert!(store.config(&me).await.unwrap().workers[&worker].is_lost);
    store.heartbeat(&me, worker, Vec::new()).await.expect("it has come back");
    assert!(!other.config(&me).await.unwrap().workers[&worker].is_lost);
    other.close();
    store.close();
}
