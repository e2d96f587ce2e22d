//! Many lanes beside several nodes: a node reads missing counts and positions before it takes the lock, so that no other node waits.

use std::time::Duration;

use windlass::job::{NewJob, Priority, Tenant, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, ClaimedJob, NewWorker, Outcome, Report, Store, SubmitOptions};

use super::proxy::Proxy;
use super::{numbered, open_in_turn, submit, verify};
use crate::fixture::cluster::{Cluster, schema_at, schema_of};

/// More than a claim reads one by one, and more than one commit lists for other nodes.
const LANES: usize = 1_500;
/// What a commit may list, as text or not, and a few commits.
const LISTED_BYTES: usize = 40_000;
/// The changes of counts by others: so many bytes for each lane. Reading the lanes takes three times as many.
const COUNTED_BYTES: usize = 43 * LANES;
/// Statements and bytes of a look at the first timers, with the jobs that they name.
const TIMERS: (usize, usize) = (6, 20_000);
/// Commits after which changes of counts are added up, and how many stay separate.
const FOLD_EVERY: i64 = 64;
const SEPARATE: i64 = 256;
/// Rows of counts that are moved at once.
const FOLD_ROWS_MAX: usize = 1_024;

fn in_lane(number: usize, priority: i64) -> NewJob {
    NewJob {
        tenant: Some(Tenant::new(&format!("t{number}")).unwrap()),
        priority: Some(Priority::new(priority).unwrap()),
        ..numbered(number)
    }
}

async fn submit_all(store: &Store, jobs: impl Iterator<Item = NewJob>) {
    let (me, jobs) = (Caller::local(), jobs.collect());
    store.submit(&me, jobs, SubmitOptions::default()).await.expect("is taken");
}

async fn worker(store: &Store) -> WorkerId {
    store.register(&Caller::local(), NewWorker::default()).await.expect("is possible").id
}

async fn claim(store: &Store, worker: WorkerId) -> ClaimedJob {
    let request = ClaimRequest::new(worker, 1);
    let mut claimed =
        store.claim(&Caller::local(), &request, Duration::ZERO).await.expect("is possible").jobs;
    assert_eq!(claimed.len(), 1);
    claimed.remove(0)
}

async fn finish(store: &Store, worker: WorkerId, claimed: &ClaimedJob) {
    let report = Report::new(claimed.job.id, claimed.job.fence, Outcome::Completed { result: None });
    store.finish(&Caller::local(), worker, vec![report]).await.expect("is possible");
}

/// Two nodes, one of them through a proxy that counts, and a store with a job in each of many lanes.
struct Pair {
    cluster: Cluster,
    proxy: Proxy,
    address: String,
    here: Store,
    there: Store,
}

impl Pair {
    async fn start(lanes: usize) -> Pair {
        let cluster = Cluster::start(&["-c fsync=off"]);
        let proxy = Proxy::before(cluster.folder());
        let address = schema_at(&cluster.address());
        let there = open_in_turn(&address);
        submit_all(&there, (0..lanes).map(|number| in_lane(number, 10))).await;
        let here = open_in_turn(&address.replace(&cluster.address(), &proxy.address()));
        Pair { cluster, proxy, address, here, there }
    }

    /// The statements of a claim here under the lock and the bytes of their answers, and its job.
    async fn cost(&self, worker: WorkerId) -> ((usize, usize), ClaimedJob) {
        let costs = || (self.proxy.statements_in_turns(), self.proxy.answered_in_turns());
        let before = costs();
        let claimed = claim(&self.here, worker).await;
        let after = costs();
        ((after.0 - before.0, after.1 - before.1), claimed)
    }

    async fn end(self) {
        verify(&self.there).await;
        self.here.close();
        self.there.close();
    }
}

/// Model: claim-order. The first claim of a node asks for as little under the lock beside many lanes as beside one, and so does
/// one after another node has added to more lanes than it can list. Both take what comes first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_reads_lanes_before_its_turn() {
    let mut costs = Vec::new();
    for lanes in [1, LANES] {
        let pair = Pair::start(lanes).await;
        let worker = worker(&pair.there).await;
        submit_all(&pair.there, [in_lane(lanes / 2, 20), in_lane(lanes / 3, 30)].into_iter()).await;
        let (first, claimed) = pair.cost(worker).await;
        assert_eq!(claimed.job.effective_priority().value(), 30);
        submit_all(&pair.there, (0..LANES).map(|number| in_lane(number, 40))).await;
        // In a lane that the node does not know.
        submit_all(&pair.there, [in_lane(2 * LANES, 50)].into_iter()).await;
        let (again, claimed) = pair.cost(worker).await;
        assert_eq!(claimed.job.effective_priority().value(), 50);
        // Of few lanes, only these are listed.
        submit_all(&pair.there, [in_lane(lanes / 2, 60), in_lane(3 * LANES, 70)].into_iter()).await;
        let (listed, claimed) = pair.cost(worker).await;
        assert_eq!(claimed.job.effective_priority().value(), 70);
        costs.push([first, again, listed]);
        pair.end().await;
    }
    println!(
        "statements under the lock and bytes of answers, of a node's first claim and of later ones: {costs:?}"
    );
    let (statements, bytes) = costs[0][0];
    // Rows of the commits in between list a thousand lanes at most.
    let bytes_max = bytes + LISTED_BYTES + COUNTED_BYTES;
    let is_little = |cost: &(usize, usize)| cost.0 <= statements + 4 && cost.1 <= bytes_max;
    assert!(costs[1].iter().all(is_little), "{costs:?}");
}

/// Maintenance that finds something due on an idle node takes its turn for it, and the node still knows the lanes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_maintenance_finds_due_makes_no_claim_read_the_lanes_again() {
    let pair = Pair::start(LANES).await;
    let worker = worker(&pair.here).await;
    for _ in 0..3 {
        claim(&pair.here, worker).await;
    }
    let (looks, (usual, _)) = (pair.proxy.looks(), pair.cost(worker).await);
    assert_eq!(pair.proxy.looks(), looks, "all lanes are known");
    let soon = NewJob { delay: Some(Duration::from_millis(1)), ..in_lane(7, 90) };
    // What was idle looks first.
    for _ in 0..3 {
        pair.here.tick().await.expect("is possible");
    }
    submit_all(&pair.there, [soon].into_iter()).await;
    while pair.here.tick().await.expect("is possible").jobs == 0 {}
    let looks = pair.proxy.looks();
    let (cost, claimed) = pair.cost(worker).await;
    assert_eq!((claimed.job.effective_priority().value(), pair.proxy.looks()), (90, looks));
    let most = (usual.0 + TIMERS.0, usual.1 + TIMERS.1);
    assert!(cost.0 <= most.0 && cost.1 <= most.1, "{cost:?} instead of {usual:?}");
    pair.end().await;
}

/// Counts of many lanes are added up bit by bit, and stay the same: on a node that has followed the commits, and on one that reads them again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_of_many_lanes_are_added_up_bit_by_bit() {
    let pair = Pair::start(LANES).await;
    let (worker, schema) = (worker(&pair.there).await, schema_of(&pair.address));
    let rows = |what: &str| -> usize {
        pair.cluster.query(&format!("SELECT count(*) FROM {schema}.counts WHERE {what}")).parse().unwrap()
    };
    let last =
        || -> i64 { pair.cluster.query(&format!("SELECT max(n) FROM {schema}.commits")).parse().unwrap() };
    let until = async |number: i64| {
        while last() < number {
            let claimed = claim(&pair.there, worker).await;
            finish(&pair.there, worker, &claimed).await;
            submit(&pair.there, 0).await;
        }
    };
    until(SEPARATE + FOLD_EVERY).await;
    assert!(rows("n = 0") >= LANES, "all of the first commit were added up at once");
    // As if many commits had been made meanwhile: a new sum begins soon.
    pair.here.close();
    pair.there.close();
    let begin = 64 * FOLD_EVERY;
    pair.cluster.query(&format!("UPDATE {schema}.counts SET n = n + {begin} WHERE n > 0"));
    pair.cluster.query(&format!("UPDATE {schema}.commits SET n = n + {begin}"));
    let nodes = [open_in_turn(&pair.address), open_in_turn(&pair.address)];
    verify(&nodes[0]).await;
    let mut moved = Vec::new();
    for number in 1..=4 {
        let (before, goal) = (rows("n = 0"), last() / FOLD_EVERY * FOLD_EVERY + FOLD_EVERY);
        while last() < goal {
            let node = &nodes[usize::try_from(last() % 2).unwrap()];
            let claimed = claim(node, worker).await;
            finish(node, worker, &claimed).await;
            submit(node, number).await;
        }
        moved.push(before - rows("n = 0"));
        // One has read the counts long ago, and both have added what the other one changed.
        verify(&nodes[1]).await;
        let stats = [
            nodes[0].stats(&Caller::local()).await.unwrap(),
            nodes[1].stats(&Caller::local()).await.unwrap(),
        ];
        assert_eq!(stats[0].states, stats[1].states);
    }
    println!("rows that were moved to a new sum with each of four commits: {moved:?}");
    assert!(moved.iter().all(|rows| *rows <= FOLD_ROWS_MAX), "{moved:?}");
    assert_eq!(rows("n = 0"), 0, "all of them in the end");
    nodes.iter().for_each(Store::close);
}
