//! Several nodes whose connections fail in every way around their commits, for shorter and longer than callers wait: what
//! was acknowledged is there once, what was refused is not there, and what is not known is there at most once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass::store::Store;

use crate::fixture::observed::{Reply, agree_with, reply_to};
use crate::postgres::fleet::Fleet;
use crate::postgres::proxy::{Cut, Proxy};
use crate::postgres::{LONG, hasty, numbered};

/// Submissions with a fault of each node by default; `WINDLASS_STORM_FAULTS` says otherwise.
const FAULTS: usize = 12;

/// Each fault in turn, and each for shorter and longer than the node's wait limit.
fn fault(round: usize, node: usize) -> (Cut, Duration) {
    let cut = [Cut::AfterCommit, Cut::BeforeCommit, Cut::Mute, Cut::Late][(round + node) % 4];
    let wait_limit = hasty().request_max;
    let outage = [Duration::ZERO, wait_limit / 4, wait_limit, 4 * wait_limit][(round / 4 + node) % 4];
    (cut, outage)
}

/// Submits one job after another through faults. Returns the reply for each.
async fn weather(
    store: Store,
    proxy: Arc<Proxy>,
    node: usize,
    faults: usize,
    next: Arc<AtomicUsize>,
) -> (BTreeMap<usize, Reply>, Arc<Proxy>) {
    let mut reply = BTreeMap::new();
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
        let signalling = reply_to(&store, numbered(number));
        tokio::pin!(back, signalling);
        // A caller that is refused while another node has the lock asks for no commit, and nothing is cut.
        let mut is_back = false;
        let answer = tokio::select! {
            answer = &mut signalling => answer,
            () = &mut back => {
                is_back = true;
                signalling.await
            }
        };
        reply.insert(number, answer);
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
                let answer = reply_to(&store, numbered(number)).await;
                reply.insert(number, answer);
                if answer == Reply::Done {
                    break;
                }
            }
        };
        tokio::time::timeout(LONG, calm).await.expect("the node recovers");
    }
    (reply, proxy)
}

/// Model: atomic-changes, answer-time, at-least-once
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_lose_their_connections_around_commits_tell_the_truth() {
    storm(false).await;
}

/// The same for submissions that wait for no turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_lose_their_connections_around_appends_tell_the_truth() {
    storm(true).await;
}

async fn storm(is_appending: bool) {
    let faults = std::env::var("WINDLASS_STORM_FAULTS").ok().and_then(|value| value.parse().ok());
    let Fleet { nodes, proxies, cluster: _cluster } = Fleet::start(hasty(), is_appending);
    let next = Arc::new(AtomicUsize::new(0));
    let mut storms = Vec::new();
    for (number, (node, proxy)) in nodes.iter().zip(proxies).enumerate() {
        let work = weather(node.clone(), Arc::new(proxy), number, faults.unwrap_or(FAULTS), next.clone());
        storms.push(tokio::spawn(work));
    }
    let (mut reply, mut proxies) = (BTreeMap::new(), Vec::new());
    for storm in storms {
        let (replies, proxy) = storm.await.expect("the node went through it");
        reply.extend(replies);
        proxies.push(proxy);
    }
    println!("{:?}", agree_with(&nodes, &reply).await);
    nodes.iter().for_each(Store::close);
}
