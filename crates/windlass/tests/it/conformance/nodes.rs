//! Many nodes on one database, nodes that are down, and clocks that jump: the runs are those the policy names, each once.

use std::collections::BTreeSet;
use std::sync::Arc;

use windlass::clock::{ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::limits;
use windlass::schedule::CatchUp;
use windlass::store::{Environment, ListRequest, NewSchedule, Store, StoreOptions};

use windlass_conformance::schedule::{cron, every, get, jobs, named, put};

use crate::fixture::{Fixture, On, secs};

/// Databases that several nodes can share.
const SHARED: [On; 2] = [On::Sqlite, On::Postgres];

/// A node: a store of its own on the same database, with a clock of its own. In memory it is the one that there is.
struct Node {
    store: Store,
    clock: Arc<ManualClock>,
}

impl Node {
    fn on(t: &Fixture, seed: u64) -> Node {
        if t.address.is_empty() {
            return Node { store: t.store.clone(), clock: t.clock.clone() };
        }
        let clock = Arc::new(ManualClock::new(t.now()));
        let env = Environment::new(clock.clone(), Entropy::seeded(seed), StoreOptions::default());
        Node { store: Store::open_in(&t.address, env).unwrap(), clock }
    }
}

/// Lets time act on all nodes at once.
async fn tick_all(nodes: &[Node]) -> usize {
    let ticking: Vec<_> = nodes
        .iter()
        .map(|node| {
            let store = node.store.clone();
            tokio::spawn(async move {
                let mut submitted = 0;
                loop {
                    let ticked = store.tick().await.unwrap();
                    submitted += ticked.scheduled;
                    if !ticked.has_more {
                        return submitted;
                    }
                }
            })
        })
        .collect();
    let mut submitted = 0;
    for node in ticking {
        submitted += node.await.unwrap();
    }
    submitted
}

async fn runs(t: &Fixture) -> Vec<Timestamp> {
    let runs: Vec<Timestamp> = jobs(t).await.iter().map(|job| job.run_at).collect();
    let once: BTreeSet<Timestamp> = runs.iter().copied().collect();
    assert_eq!(runs.len(), once.len(), "each run once");
    runs
}

/// Model: schedule-runs. The nodes' clocks differ, and each of them is the first now and then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_nodes_submit_one_job_per_run() {
    for on in [On::Memory, On::Sqlite, On::Postgres] {
        five_nodes_on(on).await;
    }
}

async fn five_nodes_on(on: On) {
    let t = Fixture::new(on);
    let start = t.now();
    let nodes: Vec<Node> = (10..15).map(|seed| Node::on(&t, seed)).collect();
    put(&t, "often", NewSchedule { missed: CatchUp::All, ..every(10) }).await;
    let mut submitted = 0;
    for round in 0..60_u64 {
        for (at, node) in nodes.iter().enumerate() {
            // Some go ahead, some lag behind; all arrive at the same time in the end.
            let step = if (round + at as u64).is_multiple_of(3) { 12 } else { 4 };
            node.clock.advance(secs(if round < 57 { step } else { 0 }));
        }
        submitted += tick_all(&nodes).await;
    }
    let furthest = nodes.iter().map(|node| windlass::clock::Clock::now(&*node.clock)).max().unwrap();
    let expected: Vec<Timestamp> =
        (1..1_000).map(|n| start.plus(secs(10 * n))).filter(|run| *run <= furthest).collect();
    assert_eq!(runs(&t).await, expected);
    assert_eq!(submitted, expected.len());
    t.advance(furthest.since(t.now()));
    t.verify().await;
    for node in &nodes {
        node.store.close();
    }
    t.store.close();
}

/// Model: schedule-runs. All nodes are down for a while; then the first that comes back does what the policy says, alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_downtime_the_runs_are_those_the_policy_names() {
    for on in SHARED {
        downtime_on(on).await;
    }
}

async fn downtime_on(on: On) {
    for (missed, made_up) in [(CatchUp::Skip, 0), (CatchUp::Once, 1), (CatchUp::All, 30)] {
        let t = Fixture::new(on);
        let start = t.now();
        put(&t, "hourly", NewSchedule { missed, ..cron("0 * * * *", "America/New_York") }).await;
        let first = start.as_millis().div_euclid(3_600_000) + 1;
        let first = Timestamp::from_millis(first * 3_600_000);
        let nodes: Vec<Node> = (20..25).map(|seed| Node::on(&t, seed)).collect();
        for node in &nodes {
            node.clock.advance(first.since(start));
        }
        assert_eq!(tick_all(&nodes).await, 1);
        // Thirty runs and a half hour.
        for node in &nodes {
            node.clock.advance(secs(30 * 3600 + 1800));
        }
        let count = tick_all(&nodes).await;
        assert_eq!(count, made_up, "{missed:?}");
        let later: Vec<Timestamp> = runs(&t).await.into_iter().skip(1).collect();
        let last = (30 - count as u64 + 1..=30).map(|n| first.plus(secs(3600 * n)));
        assert_eq!(later, last.collect::<Vec<_>>(), "{missed:?}");
        for node in &nodes {
            node.store.close();
        }
        t.store.close();
    }
}

/// Model: schedule-runs. A clock that was set back runs nothing again, one that was set ahead is downtime.
#[tokio::test]
async fn a_clock_that_jumps_runs_nothing_twice() {
    for on in SHARED {
        jumping_on(on).await;
    }
}

async fn jumping_on(on: On) {
    let t = Fixture::new(on);
    let start = t.now();
    put(&t, "often", NewSchedule { missed: CatchUp::All, ..every(60) }).await;
    let node = Node::on(&t, 30);
    node.clock.advance(secs(180));
    node.store.tick().await.unwrap();
    node.store.close();
    assert_eq!(runs(&t).await.len(), 3);
    // This node's clock stands where the first one began.
    let behind = Node::on(&t, 31);
    for _ in 0..3 {
        behind.clock.advance(secs(60));
        behind.store.tick().await.unwrap();
    }
    assert_eq!(runs(&t).await.len(), 3, "all of these runs have been");
    behind.clock.advance(secs(60));
    behind.store.tick().await.unwrap();
    assert_eq!(runs(&t).await.last(), Some(&start.plus(secs(240))));
    behind.clock.advance(secs(60 * 100_000));
    behind.store.tick().await.unwrap();
    assert_eq!(runs(&t).await.len(), 4 + limits::SCHEDULE_MISSED_MAX);
    behind.store.close();
    t.store.close();
}

/// Model: schedule-runs, at-least-once. A schedule is where it was when the store is opened again.
#[tokio::test]
async fn a_schedule_survives_a_restart() {
    for on in SHARED {
        restart_on(on).await;
    }
}

async fn restart_on(on: On) {
    let t = Fixture::new(on);
    put(&t, "often", every(60)).await;
    t.advance(secs(60));
    t.tick().await;
    let before = get(&t, "often").await;
    t.store.close();
    let node = Node::on(&t, 40);
    let found = node.store.schedule(&t.me, named("often")).await.unwrap();
    assert_eq!(found, Some(before));
    node.store.tick().await.unwrap();
    assert_eq!(node.store.list(&t.me, ListRequest::default()).await.unwrap().jobs.len(), 1);
    node.store.close();
}
