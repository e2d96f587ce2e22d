//! A database server whose clock jumps at random, by minutes and by days, under load of several nodes, one of which is started
//! again meanwhile: no lease ends, no job expires, nothing is pruned, and every worker continues.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::interval;
use windlass::clock::Stopwatch;
use windlass::job::JobState;
use windlass::store::caller::Caller;
use windlass::store::{
    ClaimRequest, ClaimedJob, Directive, Finish, HeartbeatItem, NewWorker, Outcome, Report, Store,
    SubmitOptions,
};

use super::super::fleet::{Counts, NODES};
use super::{DAY, LONG, MINUTE, clocked, numbered, open};
use crate::fixture::cluster::schema_at;
use crate::fixture::faketime;
use crate::fixture::observed::agree;

const SEED: u64 = 0x5EED_0052;
/// Jumps by default; `WINDLASS_CLOCK_JUMPS` says otherwise.
const JUMPS: usize = 8;
/// Turns that each worker takes between two changes of the clock.
const TURNS: usize = 5;
/// Jobs that a worker holds from one turn to another.
const IN_HAND: usize = 4;

/// What those who load the store share.
struct Load {
    stop: AtomicBool,
    /// The number of the next job.
    next: AtomicUsize,
    turns: Counts,
    completed: AtomicUsize,
}

/// Submits, claims, beats and completes at one node until it is stopped; every lease is held all along.
async fn work(node: Store, number: usize, load: Arc<Load>) {
    let (me, mut dice) = (Caller::local(), StdRng::seed_from_u64(SEED + number as u64));
    let worker = node.register(&me, NewWorker::default()).await.unwrap().id;
    let mut held: Vec<ClaimedJob> = Vec::new();
    while !load.stop.load(Ordering::SeqCst) || !held.is_empty() {
        let mut job = numbered(load.next.fetch_add(1, Ordering::SeqCst));
        job.delay = dice.random_bool(0.3).then_some(Duration::from_millis(300));
        node.submit(&me, vec![job], SubmitOptions::default()).await.unwrap();
        let is_ending = load.stop.load(Ordering::SeqCst);
        let room = if is_ending { 0 } else { IN_HAND.saturating_sub(held.len()) };
        if room > 0 {
            held.extend(
                node.claim(&me, &ClaimRequest::new(worker, room), Duration::ZERO).await.unwrap().jobs,
            );
        }
        let beats = held.iter().map(|held| HeartbeatItem::new(held.job.id, held.job.fence)).collect();
        let reply = node.heartbeat(&me, worker, beats).await.unwrap();
        let is_held = reply.directives.iter().all(|(_, directive)| *directive == Directive::Continue);
        assert!(is_held, "leases are lost: {:?}", reply.directives);
        while is_ending && !held.is_empty() || held.len() > IN_HAND / 2 {
            let done = held.remove(0);
            assert_eq!((done.job.attempt, done.job.crashes), (1, 0), "no lease was lost before");
            let report = Report::new(done.job.id, done.job.fence, Outcome::Completed { result: None });
            let answer = node.finish(&me, worker, vec![report]).await.unwrap().remove(0);
            assert_eq!(answer, Finish::Applied(JobState::Completed));
            load.completed.fetch_add(1, Ordering::SeqCst);
        }
        load.turns.add(number);
    }
}

/// What a server does besides: time acts, and old jobs would be removed.
async fn keep(node: Store, load: Arc<Load>) {
    let mut rounds = interval(Duration::from_millis(50));
    while !load.stop.load(Ordering::SeqCst) {
        rounds.tick().await;
        node.tick().await.unwrap();
        assert_eq!(node.prune().await.unwrap(), 0, "nothing is old");
    }
}

/// Every worker has taken some more turns, and all nodes believe the database's clock or do not.
async fn continues(nodes: &[Store], load: &Load, is_believed: bool) {
    let are_agreed = || nodes.iter().all(|node| node.clock().is_believed == is_believed);
    let going = load.turns.grow_until(TURNS, are_agreed);
    let in_time = tokio::time::timeout(LONG, going).await;
    let clocks: Vec<_> = nodes.iter().map(Store::clock).collect();
    in_time.unwrap_or_else(|_| panic!("work continues: {clocks:?}"));
}

async fn jump(nodes: &[Store], load: &Load, clock: &Path, address: &str, dice: &mut StdRng) {
    let seconds = match dice.random_range(0..3) {
        0 => dice.random_range(2 * MINUTE..30 * MINUTE),
        1 => dice.random_range(-30 * MINUTE..-2 * MINUTE),
        _ => dice.random_range(DAY..20 * DAY) * if dice.random_bool(0.7) { 1 } else { -1 },
    };
    let (before, watch) = (nodes[0].clock().now, Stopwatch::start());
    faketime::set(clock, seconds);
    continues(nodes, load, false).await;
    if dice.random_bool(0.5) {
        // Its own clock is right, so it does not believe the database's either.
        let started = open(address);
        while started.tick().await.unwrap().has_more {}
        assert!(!started.clock().is_believed, "{:?}", started.clock());
        assert_eq!(started.prune().await.unwrap(), 0);
        started.close();
    }
    let (now, passed) = (nodes[0].clock().now, watch.elapsed());
    assert!(now.since(before) <= passed * 2 + Duration::from_secs(1), "{seconds} s: {before} to {now}");
    faketime::set(clock, 0);
    continues(nodes, load, true).await;
}

/// Model: store-time, leases-and-heartbeats, lifetime, retention
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_clock_that_jumps_at_random_under_load_destroys_nothing() {
    let jumps = std::env::var("WINDLASS_CLOCK_JUMPS").ok().and_then(|value| value.parse().ok());
    let (cluster, clock) = clocked(&[]);
    let address = schema_at(&cluster.address());
    let nodes: Vec<Store> = (0..NODES).map(|_| open(&address)).collect();
    let load = Arc::new(Load {
        stop: AtomicBool::new(false),
        next: AtomicUsize::new(0),
        turns: Counts::default(),
        completed: AtomicUsize::new(0),
    });
    let mut working = JoinSet::new();
    for (number, node) in nodes.iter().enumerate() {
        working.spawn(work(node.clone(), number, load.clone()));
        working.spawn(keep(node.clone(), load.clone()));
    }
    let mut dice = StdRng::seed_from_u64(SEED);
    for _ in 0..jumps.unwrap_or(JUMPS) {
        jump(&nodes, &load, &clock, &address, &mut dice).await;
    }
    load.stop.store(true, Ordering::SeqCst);
    working.join_all().await;
    let submitted = load.next.load(Ordering::SeqCst);
    println!("{submitted} jobs, {:?}", load.completed);
    agree(&nodes, &(0..submitted).collect::<Vec<_>>()).await;
    let states = nodes[1].stats(&Caller::local()).await.unwrap().states;
    assert_eq!(states.get(&JobState::DeadLetter).copied().unwrap_or(0), 0, "{states:?}");
    let completed = states.get(&JobState::Completed).copied().unwrap_or(0);
    assert_eq!(completed, load.completed.load(Ordering::SeqCst) as u64);
    nodes.iter().for_each(Store::close);
}
