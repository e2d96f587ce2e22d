//! A file that another program has locked for 0 to 120 seconds around each kind of commit, with two processes' stores on it. The
//! length is that of clocks moved by hand; really it lasts until the callers have been answered, or not that long.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use windlass::clock::{ManualClocks, Timestamp};
use windlass::entropy::Entropy;
use windlass::internal::Timing;
use windlass::store::{Environment, Store, StoreOptions};

use crate::fixture::observed::Reply;
use crate::fixture::workers::{Call, TestWorkers};
use crate::fixture::{On, START};

/// How long callers wait for a file that is locked.
const PATIENCE: Duration = Duration::from_secs(25);
/// The same here, really.
const PATIENCE_HERE: Duration = Duration::from_millis(400);
const LENGTHS: [u64; 8] = [0, 1, 9, 11, 24, 29, 60, 120];

fn open(address: &str, clocks: &Arc<ManualClocks>, timing: Timing) -> Store {
    let mut env = Environment::new(clocks.clone(), Entropy::from_system(), StoreOptions::default());
    env.timing = timing;
    Store::open_in(address, env).unwrap()
}

/// Each node does what time asks for, and receives calls of the worker.
async fn breathe(nodes: &[Store], workers: &TestWorkers) {
    for node in nodes {
        while !node.tick().await.is_ok_and(|ticked| !ticked.has_more) {}
        while workers.beat(node).await != Reply::Done {}
    }
}

/// Model: atomic-changes, store-time, leases-and-heartbeats, answer-time, at-least-once
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_locked_around_any_commit_loses_no_lease_and_does_nothing_twice() {
    let (_files, address) = On::Sqlite.address();
    let clocks = Arc::new(ManualClocks::new(Timestamp::from_millis(START)));
    let impatient = Timing { request_max: PATIENCE_HERE, ..Timing::default() };
    let nodes = [open(&address, &clocks, impatient), open(&address, &clocks, impatient)];
    let patient = open(&address, &clocks, Timing::default());
    let mut workers = TestWorkers::new(&patient).await;
    let other = Connection::open(address.strip_prefix("sqlite:").unwrap()).unwrap();
    other.busy_timeout(PATIENCE).unwrap();
    for (round, length) in LENGTHS.into_iter().cycle().take(LENGTHS.len() * Call::ALL.len()).enumerate() {
        let (call, length) = (Call::ALL[round % Call::ALL.len()], Duration::from_secs(length));
        let node = &nodes[round % 2];
        clocks.pass(Duration::from_secs(1));
        breathe(&nodes, &workers).await;
        workers.prepare(&patient, call).await;
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let reply = if length > PATIENCE {
            let reply = workers.call(node, call).await;
            assert_eq!(reply, Reply::Refused, "{call:?}: the file is locked");
            clocks.pass(length);
            other.execute_batch("ROLLBACK").unwrap();
            reply
        } else {
            let calling = workers.call(node, call);
            let release = async {
                tokio::task::yield_now().await;
                clocks.pass(length);
                other.execute_batch("ROLLBACK").unwrap();
            };
            tokio::join!(calling, release).0
        };
        breathe(&nodes, &workers).await;
        if call == Call::Finish {
            workers.finish_again(&patient, reply).await;
        }
    }
    breathe(&nodes, &workers).await;
    nodes.iter().for_each(Store::close);
    workers.check(&[open(&address, &clocks, Timing::default()), patient]).await;
}
