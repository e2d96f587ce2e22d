//! Several nodes on one database, each behind a proxy of its own, so that a fault can hit one of them or all.

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
