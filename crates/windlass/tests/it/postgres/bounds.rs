//! What one request costs beside much that is stored: statements are counted on their way to the server, since time depends on
//! the machine.

use windlass::job::{Dependency, JobId, NewJob, Priority, Tenant};
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::command::act::Act;
use windlass::store::command::claim::ClaimRequest;
use windlass::store::command::submit::SubmitOptions;
use windlass::store::command::worker::NewWorker;

use super::proxy::Proxy;
use super::{numbered, open, verify};
use crate::fixture::cluster::{Cluster, schema_at};

const LANES: usize = 20_000;
const DEPENDENTS: usize = 600;

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

/// M9, M24: a change reaches hundreds of dependents with a number of statements that does not grow with them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_with_many_dependents_takes_few_statements() {
    let (_cluster, proxy, address) = counted();
    let store = open(&address);
    let me = Caller::local();
    let root = submit_all(&store, vec![NewJob { hold: true, ..numbered(0) }]).await[0];
    let after = |number| NewJob { after: vec![Dependency::Job(root)], ..numbered(number) };
    let dependents = submit_all(&store, (1..=DEPENDENTS).map(after).collect()).await;
    let before = proxy.statements();
    store.act(&me, root, Act::Priority(Priority::new(90).unwrap())).await.expect("is allowed");
    let raised = proxy.statements();
    store.act(&me, root, Act::Priority(Priority::new(10).unwrap())).await.expect("is allowed");
    let lowered = proxy.statements();
    store.act(&me, root, Act::Cancel { reason: None }).await.expect("is allowed");
    let cancelled = proxy.statements();
    let costs = [raised - before, lowered - raised, cancelled - lowered];
    println!("statements: raise {}, lower {}, cancel {}", costs[0], costs[1], costs[2]);
    // A page of 500 dependents each, and for lowering a look at 20 dependents at a time.
    assert!(costs[0] <= 60 && costs[1] <= 200 && costs[2] <= 60, "{costs:?}");
    let last = store.get(&me, dependents[DEPENDENTS - 1]).await.unwrap().unwrap();
    assert!(last.job.state.is_final());
    verify(&store).await;
    store.close();
}

/// M21: with more lanes than fit into a small memory, neither a batch nor a claim asks for them one by one.
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
    let worker = other.register(&me, NewWorker::default()).await.expect("anybody may register").id;
    for round in 0..3 {
        let before = proxy.statements();
        let request = ClaimRequest::new(worker, 1);
        let claimed =
            other.claim(&me, &request, std::time::Duration::ZERO).await.expect("the worker is known");
        assert_eq!(claimed.jobs.len(), 1);
        let cost = proxy.statements() - before;
        println!("statements of a claim beside {LANES} lanes, round {round}: {cost}");
        assert!(cost <= 200, "{cost}");
    }
    other.close();
    store.close();
}
