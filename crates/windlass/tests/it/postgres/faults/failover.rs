//! Promotions in a loop: a primary and its synchronous standby change roles again and again under three nodes that submit
//! and work. What was answered survives, nothing is done twice, and an old primary accepts nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;
use windlass::job::{JobId, JobState};
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, ClaimedJob, Finish, NewWorker, Outcome, Report, Store};

use crate::fixture::cluster::Cluster;
use crate::fixture::observed::agree;
use crate::postgres::fleet::{Counts, NODES};
use crate::postgres::{LONG, open, submit};

/// Promotions by default; `WINDLASS_FAILOVERS` says otherwise, as `scripts/failover` does.
const PROMOTIONS: usize = 10;
/// Answers that every node gets between two promotions.
const ANSWERS: usize = 10;
/// Jobs that one claim takes.
const CLAIMED: usize = 4;

/// What the nodes were answered.
#[derive(Default)]
struct Ledger {
    is_over: AtomicBool,
    /// The number of the next job.
    next: AtomicUsize,
    /// Submissions that each node was answered.
    answered: Counts,
    /// How often the end of each job was accepted.
    ended: Mutex<HashMap<JobId, usize>>,
}

impl Ledger {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Every node is answered a few more times.
    async fn continues(&self) {
        tokio::time::timeout(LONG, self.answered.grow(ANSWERS)).await.expect("work continues everywhere");
    }
}

async fn submits(node: Store, place: usize, ledger: Arc<Ledger>) {
    while !ledger.is_over() {
        submit(&node, ledger.next.fetch_add(1, Ordering::SeqCst)).await;
        ledger.answered.add(place);
    }
}

/// Claims and completes; what a promotion takes away from it ends by itself.
async fn works(node: Store, ledger: Arc<Ledger>) {
    let me = Caller::local();
    let worker = node.register(&me, NewWorker::default()).await.expect("any caller may register").id;
    while !ledger.is_over() {
        let request = ClaimRequest::new(worker, CLAIMED);
        let Ok(claimed) = node.claim(&me, &request, Duration::ZERO).await else { continue };
        let report =
            |one: &ClaimedJob| Report::new(one.job.id, one.job.fence, Outcome::Completed { result: None });
        let reports: Vec<Report> = claimed.jobs.iter().map(report).collect();
        let Ok(answers) = node.finish(&me, worker, reports).await else { continue };
        let mut ended = ledger.ended.lock().expect("no thread panicked");
        for (one, answer) in claimed.jobs.iter().zip(answers) {
            if matches!(answer, Finish::Applied(_)) {
                *ended.entry(one.job.id).or_default() += 1;
            }
        }
    }
}

/// Lets the standby take over, and makes the old primary its standby.
fn promote(old: &Cluster, new: &Cluster, is_split: bool) {
    if is_split {
        // The old one still runs, and does not know: without a standby it can commit nothing that a caller is answered.
        new.promote();
        old.wait_until_nothing_is_committed();
        old.crash();
    } else {
        old.crash();
        new.promote();
    }
    old.follow(new);
    // Only a setting that changes from one name to another applies at once.
    new.wait_for_a_missing_standby();
    new.set("synchronous_standby_names", "*");
}

/// Model: at-least-once, atomic-changes, one-lease-at-a-time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promotions_in_a_loop_lose_nothing_and_do_nothing_twice() {
    let rounds = std::env::var("WINDLASS_FAILOVERS").ok().and_then(|value| value.parse().ok());
    let (primary, standby, address) = Cluster::pair();
    let servers = [Arc::new(primary), Arc::new(standby)];
    let nodes: Vec<Store> = (0..NODES).map(|_| open(&address)).collect();
    let ledger = Arc::new(Ledger::default());
    let mut running = JoinSet::new();
    for (place, node) in nodes.iter().enumerate() {
        running.spawn(submits(node.clone(), place, ledger.clone()));
        running.spawn(works(node.clone(), ledger.clone()));
    }
    for round in 0..rounds.unwrap_or(PROMOTIONS) {
        ledger.continues().await;
        let (old, new) = (servers[round % 2].clone(), servers[(round + 1) % 2].clone());
        tokio::task::spawn_blocking(move || promote(&old, &new, round % 3 == 2))
            .await
            .expect("it takes over");
        println!("promotion {round}: {} jobs", ledger.next.load(Ordering::SeqCst));
    }
    ledger.continues().await;
    ledger.is_over.store(true, Ordering::SeqCst);
    while let Some(ended) = running.join_next().await {
        ended.expect("it is answered all the time");
    }
    agree(&nodes, &(0..ledger.next.load(Ordering::SeqCst)).collect::<Vec<_>>()).await;
    let ended = ledger.ended.lock().expect("no thread panicked").clone();
    assert!(ended.values().all(|times| *times == 1), "an end was accepted twice");
    for job in ended.keys() {
        let found = nodes[0].get(&Caller::local(), *job).await.expect("can be read").expect("is there");
        assert_eq!(found.job.state, JobState::Completed, "what was accepted stays");
    }
    nodes.iter().for_each(Store::close);
}
