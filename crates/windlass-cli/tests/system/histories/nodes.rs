//! The nodes that are tortured: servers of one store, each behind its proxy, and what happens to them.

use std::path::PathBuf;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;
use tokio::process::Command;
use windlass_testkit::cluster::{Cluster, schema_at};
use windlass_testkit::{ServerProcess, faketime, store_in, windlass};

use super::history::{History, Micros};
use super::proxy::{Partition, Proxy};

/// How long a fault lasts, at most, and how much happens meanwhile.
const FAULT: Duration = Duration::from_millis(1_800);
const CALLS_IN_A_FAULT: usize = 60;

/// The store, with what keeps it.
pub(super) enum Place {
    File(TempDir),
    Database(Box<Cluster>),
}

impl Place {
    pub(super) fn file() -> Place {
        Place::File(tempfile::tempdir().unwrap())
    }

    pub(super) fn database() -> Place {
        Place::Database(Box::new(Cluster::start(&["-c max_connections=100"])))
    }
}

struct Node {
    /// None while it is down.
    process: Option<ServerProcess>,
    proxy: Proxy,
    clock: PathBuf,
}

pub(super) struct Nodes {
    place: Place,
    pub(super) store: String,
    all: Vec<Node>,
    rng: StdRng,
    clocks: TempDir,
    /// How long it took from the end of a fault to the next answer of each node.
    pub(super) recoveries: Vec<Micros>,
    pub(super) faults: Vec<String>,
}

impl Nodes {
    pub(super) async fn start(place: Place, count: usize, seed: u64) -> Nodes {
        let store = match &place {
            Place::File(folder) => store_in(folder.path()),
            Place::Database(cluster) => schema_at(&cluster.address()),
        };
        let clocks = tempfile::tempdir().unwrap();
        let mut nodes = Nodes {
            place,
            store,
            all: Vec::new(),
            rng: StdRng::seed_from_u64(seed),
            recoveries: Vec::new(),
            faults: Vec::new(),
            clocks,
        };
        for number in 0..count {
            let clock = nodes.clocks.path().join(format!("clock{number}"));
            faketime::set(&clock, 0);
            let process = nodes.serve(&clock).await;
            let proxy = Proxy::before(process.address).await;
            nodes.all.push(Node { process: Some(process), proxy, clock });
        }
        nodes
    }

    async fn serve(&self, clock: &std::path::Path) -> ServerProcess {
        let mut command = windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &self.store]);
        // With a file, the store's time is that of the machine, and a clock that is set is a fault of another kind.
        if matches!(self.place, Place::Database(_)) {
            command.envs(faketime::by_file(clock));
        }
        ServerProcess::start(command).await
    }

    pub(super) fn proxies(&self) -> Vec<std::net::SocketAddr> {
        self.all.iter().map(|node| node.proxy.address).collect()
    }

    /// One fault, from its beginning to its end, and what it takes until every node answers again.
    pub(super) async fn fault(&mut self, history: &History) {
        let at = self.rng.random_range(0..self.all.len());
        let name = match (self.rng.random_range(0..8), &self.place) {
            (0 | 1, _) => self.kill(at, history).await,
            (2, _) => self.freeze(at, history).await,
            (3, Place::Database(cluster)) => {
                cluster.restart("immediate");
                "database crashed".to_owned()
            }
            (4, Place::Database(_)) => {
                let seconds = [-3_600, -40, 40, 7_200][self.rng.random_range(0..4)];
                faketime::set(&self.all[at].clock, seconds);
                "clock of a node set".to_owned()
            }
            (5, _) => {
                let all: Vec<usize> = (0..self.all.len()).collect();
                for at in all {
                    self.kill(at, history).await;
                }
                "all nodes killed".to_owned()
            }
            (choice, _) => {
                let partition = [Partition::Requests, Partition::Answers, Partition::Both][choice % 3];
                self.all[at].proxy.lose(partition);
                history.grows(CALLS_IN_A_FAULT, FAULT).await;
                self.all[at].proxy.lose(Partition::None);
                format!("{partition:?} lost")
            }
        };
        let ended = history.now();
        for node in &self.all {
            node.answers().await;
        }
        self.recoveries.push(history.now() - ended);
        self.faults.push(name);
    }

    /// Killed, and started again after a while.
    async fn kill(&mut self, at: usize, history: &History) -> String {
        if let Some(process) = self.all[at].process.take() {
            process.kill().await;
        }
        history.grows(CALLS_IN_A_FAULT / 2, FAULT / 2).await;
        let process = self.serve(&self.all[at].clock).await;
        self.all[at].proxy.point_to(process.address);
        self.all[at].process = Some(process);
        "node killed".to_owned()
    }

    async fn freeze(&mut self, at: usize, history: &History) -> String {
        let process = self.all[at].process.as_ref().expect("it runs").process().to_string();
        Command::new("kill").args(["-STOP", &process]).status().await.unwrap();
        history.grows(CALLS_IN_A_FAULT, FAULT).await;
        Command::new("kill").args(["-CONT", &process]).status().await.unwrap();
        "node frozen".to_owned()
    }

    /// Stops all nodes; the store stays for `verify`.
    pub(super) async fn stop(&mut self) {
        for node in &mut self.all {
            node.process.take().expect("it runs").stop().await;
        }
    }
}

impl Node {
    /// Waits until the node can reach its store.
    async fn answers(&self) {
        let limit = windlass_testkit::PATIENCE;
        let ready = async {
            loop {
                let once = crate::operating::load::ask(
                    self.proxy.address,
                    "GET",
                    "/queues/plain",
                    &serde_json::Value::Null,
                );
                let answer = tokio::time::timeout(Duration::from_secs(2), once).await;
                if answer.is_ok_and(|answer| answer.is_some_and(|answer| answer.status < 500)) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(limit, ready).await.expect("the node answers again");
    }
}
