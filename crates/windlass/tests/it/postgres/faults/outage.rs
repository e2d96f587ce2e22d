//! Servers that restart, crash, and are replaced by their standby, under several nodes. Callers wait; what was answered stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use windlass::clock::Stopwatch;
use windlass::error::OpenError;
use windlass::store::{Store, StoreOptions};

use crate::fixture::cluster::{Cluster, schema_at};
use crate::fixture::observed::agree;
use crate::postgres::fleet::{Counts, NODES};
use crate::postgres::{LONG, open, submit};

/// Restarts under load.
const RESTARTS: usize = 20;

/// Nodes that submit numbered jobs until they are asked to stop.
struct Load {
    nodes: Vec<Store>,
    stop: Arc<AtomicBool>,
    /// The number of the next job.
    next: Arc<AtomicUsize>,
    /// How many each node has been answered.
    answered: Arc<Counts>,
    submitting: JoinSet<()>,
}

impl Load {
    fn start(address: &str) -> Load {
        let nodes: Vec<Store> = (0..NODES).map(|_| open(address)).collect();
        let (stop, next, answered): (Arc<AtomicBool>, Arc<AtomicUsize>, Arc<Counts>) = Default::default();
        let mut submitting = JoinSet::new();
        for (place, node) in nodes.iter().enumerate() {
            let (node, answered) = (node.clone(), answered.clone());
            let (stop, next) = (stop.clone(), next.clone());
            submitting.spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    submit(&node, next.fetch_add(1, Ordering::SeqCst)).await;
                    answered.add(place);
                }
            });
        }
        Load { nodes, stop, next, answered, submitting }
    }

    /// Every node is answered so many more times.
    async fn continues(&self, more: usize) {
        tokio::time::timeout(LONG, self.answered.grow(more)).await.expect("work continues everywhere");
    }

    /// Every submission was answered, and all nodes show what was.
    async fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.submitting.join_all().await;
        agree(&self.nodes, &(0..self.next.load(Ordering::SeqCst)).collect::<Vec<_>>()).await;
        self.nodes.iter().for_each(Store::close);
    }
}

/// Model: at-least-once. A caller that submits during a restart waits for it, on any node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_under_load_loses_nothing_and_fails_no_call() {
    let cluster = Arc::new(Cluster::start(&[]));
    let load = Load::start(&schema_at(&cluster.address()));
    for restart in 0..RESTARTS {
        let (cluster, how) = (cluster.clone(), if restart % 2 == 0 { "fast" } else { "immediate" });
        tokio::task::spawn_blocking(move || cluster.restart(how)).await.unwrap();
        load.continues(1).await;
    }
    load.end().await;
}

/// Model: at-least-once. With a synchronous standby, what was answered survives the loss of the primary.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_takes_over_has_everything_that_was_answered() {
    let (primary, standby, address) = Cluster::pair();
    let load = Load::start(&address);
    let alone = schema_at(&standby.address());
    let refused = Store::open(&alone, StoreOptions::default()).err();
    assert_eq!(refused, Some(OpenError::Standby), "nothing is claimed on a standby");
    load.continues(20).await;
    let clusters = tokio::task::spawn_blocking(move || {
        primary.crash();
        standby.promote();
        (primary, standby)
    });
    let clusters = clusters.await.unwrap();
    // Promoted just now; every node continues soon, with work that waits for an answer.
    let promoted = Stopwatch::start();
    load.continues(1).await;
    let away = promoted.elapsed();
    println!("every node was connected {away:?} after the promotion");
    assert!(away < Duration::from_secs(5), "{away:?}");
    load.continues(10).await;
    load.end().await;
    drop(clusters);
}
