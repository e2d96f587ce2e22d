//! Several nodes whose connections fail in every way around their commits, for shorter and longer than anybody waits: what
//! was acknowledged is there once, what was refused is not there, and what is not known is there at most once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass::error::{StoreError, SubmitError};
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::command::submit::SubmitOptions;

use super::proxy::{Cut, Proxy};
use super::{LONG, hasty, numbered, numbers, open, open_with, verify};
use crate::fixture::cluster::{Cluster, schema_at};

const NODES: usize = 3;
/// Submissions with a fault of each node by default; `WINDLASS_STORM_FAULTS` says otherwise.
const FAULTS: usize = 12;

/// What a caller was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Done,
    Refused,
    NotKnown,
}

async fn tell(store: &Store, number: usize) -> Told {
    match store.submit(&Caller::local(), vec![numbered(number)], SubmitOptions::default()).await {
        Ok(_) => Told::Done,
        Err(SubmitError::Store(StoreError::Away(why))) if why.contains("not known") => Told::NotKnown,
        Err(SubmitError::Store(StoreError::Away(_) | StoreError::Overloaded { .. })) => Told::Refused,
        Err(error) => panic!("{error}"),
    }
}

/// Each fault in turn, and each for shorter and longer than the node's patience.
fn fault(round: usize, node: usize) -> (Cut, Duration) {
    let cut = [Cut::AfterCommit, Cut::BeforeCommit, Cut::Mute, Cut::Late][(round + node) % 4];
    let patience = hasty().request_max;
    let outage = [Duration::ZERO, patience / 4, patience, 4 * patience][(round / 4 + node) % 4];
    (cut, outage)
}

/// Submits one job after another through faults; says what was told of each.
async fn weather(
    store: Store,
    proxy: Arc<Proxy>,
    node: usize,
    faults: usize,
    next: Arc<AtomicUsize>,
) -> BTreeMap<usize, Told> {
    let mut told = BTreeMap::new();
    for round in 0..faults {
        let (cut, outage) = fault(round, node);
        proxy.delay(outage);
        proxy.arm_and_shut(cut);
        let cuts = proxy.cuts();
        let back = async {
            while proxy.cuts() == cuts {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // This is the outage itself; nothing is waited for.
            tokio::time::sleep(outage).await;
            proxy.shut(false);
        };
        let number = next.fetch_add(1, Ordering::Relaxed);
        let telling = tell(&store, number);
        tokio::pin!(back, telling);
        // Whoever is refused while another node has the lock asks for no commit, and nothing is cut.
        let mut is_back = false;
        let answer = tokio::select! {
            answer = &mut telling => answer,
            () = &mut back => {
                is_back = true;
                telling.await
            }
        };
        told.insert(number, answer);
        proxy.disarm();
        if !is_back && proxy.cuts() != cuts {
            back.await;
        }
        // Until the weather is fair again.
        let calm = async {
            loop {
                // A commit that came late may just have been cut.
                proxy.shut(false);
                let number = next.fetch_add(1, Ordering::Relaxed);
                let answer = tell(&store, number).await;
                told.insert(number, answer);
                if answer == Told::Done {
                    break;
                }
            }
        };
        tokio::time::timeout(LONG, calm).await.expect("the node recovers");
    }
    told
}

/// M3, M32, M100
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_lose_their_connections_around_commits_tell_the_truth() {
    let faults = std::env::var("WINDLASS_STORM_FAULTS").ok().and_then(|value| value.parse().ok());
    let cluster = Cluster::start(&["-c fsync=off"]);
    let address = schema_at(&cluster.address());
    let calm = open(&address);
    let next = Arc::new(AtomicUsize::new(0));
    let mut nodes = Vec::new();
    for node in 0..NODES {
        let proxy = Arc::new(Proxy::before(cluster.folder()));
        let store = open_with(&address.replace(&cluster.address(), &proxy.address()), hasty());
        let work = weather(store.clone(), proxy, node, faults.unwrap_or(FAULTS), next.clone());
        nodes.push((store, tokio::spawn(work)));
    }
    let mut told = BTreeMap::new();
    for (store, work) in nodes {
        told.extend(work.await.expect("the node went through it"));
        store.close();
    }
    let mut found: BTreeMap<usize, usize> = BTreeMap::new();
    for number in numbers(&calm).await {
        *found.entry(number).or_default() += 1;
    }
    let mut counts: BTreeMap<(Told, usize), usize> = BTreeMap::new();
    for (number, answer) in &told {
        let there = found.get(number).copied().unwrap_or(0);
        let allowed = match answer {
            Told::Done => there == 1,
            Told::Refused => there == 0,
            Told::NotKnown => there <= 1,
        };
        assert!(allowed, "job {number}: told {answer:?}, and it is there {there} times");
        *counts.entry((*answer, there)).or_default() += 1;
    }
    println!("{counts:?}");
    verify(&calm).await;
    calm.close();
}
