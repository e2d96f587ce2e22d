//! The nodes that are tortured: servers of one store, each behind its proxy, and what happens to them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::process::Command;
use windlass_testkit::{ServerProcess, faketime, windlass};

use super::fault::Fault;
use super::history::{History, Micros};
use super::place::Place;
use super::proxy::{Partition, Proxy, Target};

/// How long a fault lasts, at most, and how much happens meanwhile.
const FAULT: Duration = Duration::from_millis(1_800);
const CALLS_IN_A_FAULT: usize = 60;
/// By how many seconds a clock may be off. The store believes only the second one.
const OFFSETS: [i64; 4] = [-3_600, -40, 600, 7_200];

struct Node {
    /// None while it is down.
    process: Option<ServerProcess>,
    proxy: Proxy,
    /// Before its database.
    database: Option<Proxy>,
    clock: PathBuf,
}

pub(super) struct Nodes {
    place: Place,
    all: Vec<Node>,
    rng: StdRng,
    /// Faults that come before any comes again.
    next: Vec<Fault>,
    /// How long it took from the end of a fault to the next answer of each node.
    pub(super) recoveries: Vec<Micros>,
    pub(super) faults: Vec<Fault>,
}

impl Nodes {
    pub(super) async fn start(place: Place, count: usize, seed: u64) -> Nodes {
        let mut nodes = Nodes {
            place,
            all: Vec::new(),
            rng: StdRng::seed_from_u64(seed),
            next: Vec::new(),
            recoveries: Vec::new(),
            faults: Vec::new(),
        };
        for number in 0..count {
            let clock = nodes.place.folder().join(format!("clock{number}"));
            faketime::set(&clock, 0);
            let database = match nodes.place.database_target() {
                Some(target) => Some(Proxy::before(target).await),
                None => None,
            };
            let process = nodes.serve(&clock, database.as_ref()).await;
            let proxy = Proxy::before(Target::Server(process.address)).await;
            nodes.all.push(Node { process: Some(process), proxy, database, clock });
        }
        nodes
    }

    async fn serve(&self, clock: &Path, database: Option<&Proxy>) -> ServerProcess {
        let store = match database {
            Some(proxy) => {
                let (address, schema) = (proxy.address, self.place.schema());
                format!("postgres://windlass@{address}/postgres?schema={schema}")
            }
            None => self.place.store.clone(),
        };
        let mut command = windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store]);
        match database {
            Some(_) => command.envs(faketime::by_file(clock)),
            // With a file, the store's time is that of the machine; its disk is what goes wrong.
            None => command.envs(super::fault::disk(self.place.folder())),
        };
        ServerProcess::start(command).await
    }

    /// The address of the store.
    pub(super) fn store(&self) -> &str {
        &self.place.store
    }

    pub(super) fn proxies(&self) -> Vec<SocketAddr> {
        self.all.iter().map(|node| node.proxy.address).collect()
    }

    /// Whether every fault that there is at this place has come.
    pub(super) fn have_seen_all(&self) -> bool {
        Fault::all_at(&self.place).all(|fault| self.faults.contains(&fault))
    }

    /// One fault, from its beginning to its end, and what it takes until every node answers again.
    pub(super) async fn fault(&mut self, history: &History) {
        if self.next.is_empty() {
            self.next = Fault::all_at(&self.place).collect();
            self.next.shuffle(&mut self.rng);
        }
        let fault = self.next.pop().expect("there are faults at every place");
        let at = self.rng.random_range(0..self.all.len());
        self.happens(fault, at, history).await;
        let ended = history.now();
        for node in &self.all {
            node.answers().await;
        }
        self.recoveries.push(history.now() - ended);
        self.faults.push(fault);
    }

    async fn happens(&mut self, fault: Fault, at: usize, history: &History) {
        match fault {
            Fault::NodeKilled => self.kill(at, history).await,
            Fault::AllNodesKilled => {
                for at in 0..self.all.len() {
                    self.kill(at, history).await;
                }
            }
            Fault::NodeFrozen => self.freeze(at, history).await,
            Fault::RequestsLost => lose(&self.all[at].proxy, Partition::Requests, history).await,
            Fault::AnswersLost => lose(&self.all[at].proxy, Partition::Answers, history).await,
            Fault::NodeCutOff => lose(&self.all[at].proxy, Partition::Both, history).await,
            Fault::DatabaseCutOff => {
                let partitions = [Partition::Requests, Partition::Answers, Partition::Both];
                let partition = partitions[self.rng.random_range(0..partitions.len())];
                lose(self.all[at].database.as_ref().expect("it has a database"), partition, history).await;
            }
            Fault::DatabaseCrashed => self.place.cluster().restart("immediate"),
            Fault::DatabaseFailedOver => self.fail_over(history).await,
            Fault::NodeClockSet => {
                let seconds = self.offset();
                faketime::set(&self.all[at].clock, seconds);
            }
            Fault::DatabaseClockSet => {
                let seconds = self.offset();
                faketime::set(&self.place.clock(), seconds);
                history.grows(CALLS_IN_A_FAULT, FAULT).await;
                faketime::set(&self.place.clock(), 0);
            }
            Fault::DiskSlow | Fault::DiskFull => {
                super::fault::begin_disk(&self.place, fault);
                history.grows(CALLS_IN_A_FAULT, FAULT).await;
                super::fault::end_disk(&self.place);
            }
        }
    }

    fn offset(&mut self) -> i64 {
        OFFSETS[self.rng.random_range(0..OFFSETS.len())]
    }

    /// A synchronous standby takes over from the database.
    async fn fail_over(&mut self, history: &History) {
        let standby = self.place.start_standby().await;
        history.grows(CALLS_IN_A_FAULT / 2, FAULT / 2).await;
        let is_split = self.rng.random_range(0..2) == 0;
        self.place.fail_over(standby, is_split).await;
        let target = self.place.database_target().expect("it has a database");
        for node in &self.all {
            node.database.as_ref().expect("it has a database").point_to(target.clone());
        }
    }

    /// Killed, and started again after a while.
    async fn kill(&mut self, at: usize, history: &History) {
        if let Some(process) = self.all[at].process.take() {
            process.kill().await;
        }
        history.grows(CALLS_IN_A_FAULT / 2, FAULT / 2).await;
        let process = self.serve(&self.all[at].clock, self.all[at].database.as_ref()).await;
        self.all[at].proxy.point_to(Target::Server(process.address));
        self.all[at].process = Some(process);
    }

    async fn freeze(&mut self, at: usize, history: &History) {
        let process = self.all[at].process.as_ref().expect("it runs").process().to_string();
        Command::new("kill").args(["-STOP", &process]).status().await.unwrap();
        history.grows(CALLS_IN_A_FAULT, FAULT).await;
        Command::new("kill").args(["-CONT", &process]).status().await.unwrap();
    }

    /// Stops all nodes; the store stays for `verify`.
    pub(super) async fn stop(&mut self) {
        for node in &mut self.all {
            node.process.take().expect("it runs").stop().await;
        }
    }
}

async fn lose(proxy: &Proxy, partition: Partition, history: &History) {
    proxy.lose(partition);
    history.grows(CALLS_IN_A_FAULT, FAULT).await;
    proxy.lose(Partition::None);
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
