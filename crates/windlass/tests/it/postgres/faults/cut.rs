//! Connections that are cut while a commit is under way, of one node or of all, beside the commits of the others: whatever was
//! answered is there once, and nothing is there twice.

use std::collections::HashSet;
use std::time::Duration;

use tokio::task::JoinSet;
use windlass::internal::Timing;
use windlass::job::{JobId, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, Finish, NewWorker, Outcome, Report};

use crate::fixture::cluster::{Cluster, schema_at};
use crate::postgres::fleet::{Fleet, NODES};
use crate::postgres::proxy::{Boundary, Cut, Proxy};
use crate::postgres::{LONG, open, submit};

/// Rounds in which connections are cut in each of the two ways.
const ROUNDS: usize = 40;
/// Jobs that one claim takes.
const CLAIMED: usize = 6;

/// The nodes that are cut in a round: one after the other, and now and then all.
fn struck(round: usize) -> Vec<usize> {
    if round % 4 == 3 { (0..NODES).collect() } else { vec![round % NODES] }
}

/// Claims and finishes on a node whose connection is cut at both commits, if at all.
async fn work(fleet: &Fleet, node: usize, worker: WorkerId, cut: Option<Cut>) -> Vec<JobId> {
    let (me, proxy, node) = (Caller::local(), &fleet.proxies[node], &fleet.nodes[node]);
    let arm = || cut.into_iter().for_each(|cut| proxy.arm(cut));
    arm();
    let request = ClaimRequest::new(worker, CLAIMED);
    let claimed = node.claim(&me, &request, Duration::ZERO).await.unwrap().jobs;
    assert!(claimed.iter().all(|claimed| claimed.job.attempt == 1), "no job was claimed twice");
    let outcome = || Outcome::Completed { result: None };
    let reports = claimed.iter().map(|claimed| Report::new(claimed.job.id, claimed.job.fence, outcome()));
    arm();
    let answers = node.finish(&me, worker, reports.collect()).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, Finish::Applied(_))), "{answers:?}");
    claimed.iter().map(|claimed| claimed.job.id).collect()
}

/// Model: atomic-changes, at-least-once. A commit without an answer is looked up, and done again only if it did not happen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_at_the_commit_loses_nothing_and_does_nothing_twice() {
    cut_at_every_commit(false).await;
}

/// The same if submissions wait for no turn: some are cut at their append, the others when they are taken in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_at_an_append_loses_nothing_and_does_nothing_twice() {
    cut_at_every_commit(true).await;
}

async fn cut_at_every_commit(is_appending: bool) {
    let fleet = Fleet::start(Timing::default(), is_appending);
    let (mut cuts, mut submitted) = (0, 0);
    for round in 0..ROUNDS {
        for cut in [Cut::BeforeCommit, Cut::AfterCommit] {
            for node in struck(round) {
                fleet.proxies[node].arm(cut);
                cuts += 1;
            }
            let mut submitting = JoinSet::new();
            for node in fleet.nodes.clone() {
                let number = submitted;
                submitting.spawn(async move { submit(&node, number).await });
                submitted += 1;
            }
            submitting.join_all().await;
        }
    }
    let made = |fleet: &Fleet| fleet.proxies.iter().map(Proxy::cuts).sum::<usize>();
    assert_eq!(made(&fleet), cuts, "every commit was cut once");
    let mut workers = Vec::new();
    for node in &fleet.nodes {
        workers.push(node.register(&Caller::local(), NewWorker::default()).await.unwrap().id);
    }
    let (mut finished, mut taken) = (HashSet::new(), 0);
    for round in 0.. {
        let (struck, cut) = (struck(round), [Cut::BeforeCommit, Cut::AfterCommit][round % 2]);
        let work = |node: usize| work(&fleet, node, workers[node], struck.contains(&node).then_some(cut));
        let (first, second, third) = tokio::join!(work(0), work(1), work(2));
        let claimed = [first, second, third].concat();
        if claimed.is_empty() {
            break;
        }
        taken += claimed.len();
        finished.extend(claimed);
    }
    assert_eq!((taken, finished.len()), (submitted, submitted), "each job was claimed, and by one");
    fleet.agree_and_close(&(0..submitted).collect::<Vec<_>>()).await;
}

/// Statistics count every job once, whatever happened to the connection; they are written a second later at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_breaks_takes_no_statistics_with_it() {
    let cluster = Cluster::start(&[]);
    let proxy = Proxy::before(cluster.folder());
    let store = open(&schema_at(&proxy.address()));
    let cuts = [Cut::BeforeCommit, Cut::AfterCommit].into_iter().cycle().take(8);
    for (number, cut) in cuts.enumerate() {
        proxy.arm(cut);
        submit(&store, number).await;
    }
    let counted = async || {
        store.tick().await.expect("is possible");
        let minutes = store.stats(&Caller::local()).await.expect("can be read").minutes;
        minutes.values().map(|minute| minute.submitted).sum::<u64>()
    };
    let all = async { while counted().await != 8 {} };
    tokio::time::timeout(LONG, all).await.expect("each is counted once");
    store.close();
}

/// Model: answer-time. A store opens whichever message of its first transaction is lost, the one that ends it among them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_opens_if_its_connection_is_cut_at_any_message() {
    let cluster = Cluster::start(&["-c fsync=off"]);
    let proxy = Proxy::before(cluster.folder());
    let address = schema_at(&cluster.address());
    open(&address).close();
    let through = address.replace(&cluster.address(), &proxy.address());
    let mut messages = 0;
    loop {
        let cuts = proxy.cuts();
        proxy.arm_at(Boundary { message: messages, is_passed_on: false });
        open(&through).close();
        proxy.disarm();
        if proxy.cuts() == cuts {
            break;
        }
        messages += 1;
    }
    assert!(messages > 5, "{messages} messages");
}
