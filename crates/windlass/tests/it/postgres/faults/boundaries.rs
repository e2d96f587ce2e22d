//! Outages of 0 to 120 seconds that begin at each message of each kind of write transaction, for one node or for all of them. The
//! length is that of clocks moved by hand; really they last until the caller has been answered, or not that long.

use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use windlass::clock::{ManualClocks, Timestamp};
use windlass::entropy::Entropy;
use windlass::internal::Timing;
use windlass::store::{Environment, Store, StoreOptions};

use crate::fixture::START;
use crate::fixture::observed::Reply;
use crate::fixture::workers::{Call, TestWorkers};
use crate::postgres::LONG;
use crate::postgres::fleet::{Fleet, NODES};
use crate::postgres::proxy::{Boundary, COMMIT};

const SEED: u64 = 0x5EED_0051;
/// By default every so many-th message is cut at; `WINDLASS_BOUNDARIES=all` cuts at each of them.
const STRIDE: usize = 5;
/// Between two looks of a node that works.
const OFTEN: Duration = Duration::from_secs(8);
/// Up to here callers wait; after longer ones they have been answered.
const PATIENCE: Duration = Duration::from_secs(20);

/// Callers get an error soon if the database is unavailable.
fn impatient() -> Timing {
    Timing { outage_max: Duration::from_millis(250), ..Timing::default() }
}

struct Outages {
    fleet: Fleet,
    clocks: Arc<ManualClocks>,
    workers: TestWorkers,
    dice: StdRng,
}

impl Outages {
    async fn new() -> Outages {
        let clocks = Arc::new(ManualClocks::new(Timestamp::from_millis(START)));
        let fleet = Fleet::start_in(|| {
            let mut env = Environment::new(clocks.clone(), Entropy::from_system(), StoreOptions::default());
            env.timing = impatient();
            env
        });
        let workers = TestWorkers::new(&fleet.nodes[0]).await;
        Outages { fleet, clocks, workers, dice: StdRng::seed_from_u64(SEED) }
    }

    /// Time passes, and each of these nodes does what it asks for and receives calls of the worker.
    async fn pass(&self, time: Duration, nodes: &[Store]) {
        self.clocks.pass(time);
        for node in nodes {
            calmly(async || {
                let ticked = node.tick().await;
                let is_done = ticked.as_ref().is_ok_and(|ticked| !ticked.has_more);
                let reply = ticked.map_or_else(|error| Reply::by(&error), |_| Reply::Done);
                is_done && reply == Reply::Done && self.workers.beat(node).await == Reply::Done
            })
            .await;
        }
    }

    /// One call through a node that is cut at this message, if its transaction has so many. Says whether it was.
    async fn cut(&mut self, call: Call, boundary: Boundary) -> bool {
        let outage = Outage::random(&mut self.dice);
        let node = self.fleet.nodes[outage.node].clone();
        self.pass(Duration::from_secs(1), &self.fleet.nodes).await;
        self.workers.prepare(&node, call).await;
        let proxies = &self.fleet.proxies;
        let (proxy, cuts) = (&proxies[outage.node], proxies[outage.node].cuts());
        proxy.arm_at_and_shut(boundary);
        let reply = {
            let calling = self.workers.call(&node, call);
            tokio::pin!(calling);
            let mut reply = None;
            // Until the fault has come, or the call is over without it.
            while reply.is_none() && proxy.cuts() == cuts {
                reply = tokio::select! {
                    reply = &mut calling => Some(reply),
                    () = tokio::task::yield_now() => None,
                };
            }
            if proxy.cuts() != cuts {
                outage.struck().for_each(|number| proxies[number].sever());
                if !outage.is_longer_than_patience() {
                    self.clocks.pass(outage.length);
                    outage.struck().for_each(|number| proxies[number].shut(false));
                }
            }
            match reply {
                Some(reply) => reply,
                None => calling.await,
            }
        };
        proxy.disarm();
        let is_cut = proxy.cuts() != cuts;
        if is_cut && outage.is_longer_than_patience() {
            let others: Vec<Store> = outage.spared().map(|number| self.fleet.nodes[number].clone()).collect();
            let mut left = outage.length;
            while !others.is_empty() && left > OFTEN {
                self.pass(OFTEN, &others).await;
                left -= OFTEN;
            }
            self.clocks.pass(left);
            outage.struck().for_each(|number| self.fleet.proxies[number].shut(false));
        }
        self.pass(Duration::ZERO, &self.fleet.nodes).await;
        if call == Call::Finish {
            self.workers.finish_again(&node, reply).await;
        }
        is_cut
    }
}

/// The database is away for one node or for all.
#[derive(Debug)]
struct Outage {
    node: usize,
    is_everywhere: bool,
    length: Duration,
}

impl Outage {
    fn random(dice: &mut StdRng) -> Outage {
        let length = match dice.random_range(0..3) {
            0 => dice.random_range(0..=PATIENCE.as_secs()),
            1 => dice.random_range(PATIENCE.as_secs() + 1..=60),
            _ => dice.random_range(61..=120),
        };
        Outage {
            node: dice.random_range(0..NODES),
            is_everywhere: dice.random_bool(0.5),
            length: Duration::from_secs(length),
        }
    }

    fn is_longer_than_patience(&self) -> bool {
        self.length > PATIENCE
    }

    fn struck(&self) -> impl Iterator<Item = usize> {
        (0..NODES).filter(|number| self.is_everywhere || *number == self.node)
    }

    fn spared(&self) -> impl Iterator<Item = usize> {
        (0..NODES).filter(|number| !self.is_everywhere && *number != self.node)
    }
}

/// Tries until it works; a node that has just got its database back may need a moment.
async fn calmly(attempt: impl AsyncFn() -> bool) {
    let trying = async { while !attempt().await {} };
    tokio::time::timeout(LONG, trying).await.expect("the node recovers");
}

/// Model: atomic-changes, store-time, leases-and-heartbeats, at-least-once
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_at_any_message_of_a_commit_loses_no_lease_and_does_nothing_twice() {
    let stride =
        if std::env::var("WINDLASS_BOUNDARIES").is_ok_and(|asked| asked == "all") { 1 } else { STRIDE };
    let mut outages = Outages::new().await;
    for (place, call) in Call::ALL.into_iter().enumerate() {
        let mut cuts = 0;
        for step in 0.. {
            let (message, is_passed_on) = (place % stride + step / 2 * stride, step % 2 == 1);
            if !outages.cut(call, Boundary { message, is_passed_on }).await {
                break;
            }
            cuts += 1;
        }
        println!("{call:?}: cut {cuts} times");
        assert!(cuts > 0, "{call:?} is cut");
        // The worst moment of all.
        for is_passed_on in [false, true, true, true] {
            assert!(outages.cut(call, Boundary { message: COMMIT, is_passed_on }).await, "{call:?} commits");
        }
    }
    outages.workers.check(&outages.fleet.nodes).await;
    outages.fleet.nodes.iter().for_each(Store::close);
}
