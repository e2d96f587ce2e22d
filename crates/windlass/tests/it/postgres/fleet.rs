//! Several nodes on one database, each behind a proxy of its own, so that a fault can hit one of them or all.

use tokio::sync::watch;
use windlass::internal::Timing;
use windlass::store::{Environment, Store, StoreOptions};

use super::in_turn;
use super::proxy::Proxy;
use crate::fixture::cluster::{Cluster, schema_at};
use crate::fixture::observed::agree;

/// How many nodes a fault test has.
pub(crate) const NODES: usize = 3;

/// Nodes, and what is between them and their database.
pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Store>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) cluster: Cluster,
}

impl Fleet {
    /// Nodes that go by the machine's clock. Without `is_appending` every submission takes its turn.
    pub(crate) fn start(timing: Timing, is_appending: bool) -> Fleet {
        Fleet::start_with(is_appending, || {
            let mut env = Environment::system(StoreOptions::default());
            env.timing = timing;
            env
        })
    }

    /// Nodes of which every submission takes its turn, with what `environment` gives each of them.
    pub(crate) fn start_in(environment: impl Fn() -> Environment) -> Fleet {
        Fleet::start_with(false, environment)
    }

    /// The same; with `is_appending` submissions that can do without wait for no turn.
    pub(crate) fn start_with(is_appending: bool, environment: impl Fn() -> Environment) -> Fleet {
        let options = |address: &str| if is_appending { address.to_owned() } else { in_turn(address) };
        let cluster = Cluster::start(&["-c fsync=off"]);
        let address = schema_at(&cluster.address());
        let proxies: Vec<Proxy> = (0..NODES).map(|_| Proxy::before(cluster.folder())).collect();
        let open = |proxy: &Proxy| {
            let address = address.replace(&cluster.address(), &proxy.address());
            Store::open_in(&options(&address), environment()).expect("the store opens")
        };
        Fleet { nodes: proxies.iter().map(open).collect(), proxies, cluster }
    }

    /// All nodes show exactly these jobs, and find nothing wrong; then they are closed.
    pub(crate) async fn agree_and_close(&self, expected: &[usize]) {
        agree(&self.nodes, expected).await;
        self.nodes.iter().for_each(Store::close);
    }
}

/// How often something has happened at each node, for those who wait until it has happened more often.
#[derive(Debug, Default)]
pub(crate) struct Counts(watch::Sender<[usize; NODES]>);

impl Counts {
    /// It has happened once more at this node.
    pub(crate) fn add(&self, node: usize) {
        self.0.send_modify(|counts| counts[node] += 1);
    }

    /// Waits until it has happened so many more times at every node.
    pub(crate) async fn grow(&self, more: usize) {
        self.grow_until(more, || true).await;
    }

    /// The same, until this is true as well, which is asked again whenever it happens.
    pub(crate) async fn grow_until(&self, more: usize, is_enough: impl Fn() -> bool) {
        let before = *self.0.borrow();
        let has_grown =
            |counts: &[usize; NODES]| counts.iter().zip(before).all(|(now, before)| *now >= before + more);
        let mut counts = self.0.subscribe();
        counts.wait_for(|counts| has_grown(counts) && is_enough()).await.expect("the sender is here");
    }
}
