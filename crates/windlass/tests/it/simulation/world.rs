//! The simulated world: one database, nodes that reach it through the network, and everybody who calls them.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;

use windlass::clock::{Clock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{JobState, QueueName};
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::command::settings::Settings;
use windlass::store::documents::config::QueueSettings;
use windlass::store::engine::{Engine, ReadTask, WriteTask};
use windlass::store::engines::memory::MemoryEngine;
use windlass::store::environment::{Environment, StoreOptions};
use windlass::store::filter::{Filter, Order};
use windlass::store::query::list::ListRequest;
use windlass::store::query::snapshot::Snapshot;

use super::actors::{self, Actor, Kind};
use super::history::History;
use super::network::{Fate, Link, Network};
use crate::fixture::START;
use crate::random::rng::Dice;

const NODES: usize = 3;
/// Jobs that may run at once.
const RUNNING_MAX: u64 = 3;
/// Steps between two checks of everything that is stored.
const VERIFY_EVERY: usize = 60;
/// Rounds without faults in which everything must end.
const ROUNDS: usize = 400;

/// A clock that can also be set back.
struct AnyClock(AtomicI64);

impl Clock for AnyClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// The database itself, for what is set up and checked without faults.
struct Direct(Arc<MemoryEngine>);

impl Engine for Direct {
    fn write(&self, task: Box<dyn WriteTask>) {
        self.0.write(task);
    }

    fn read(&self, task: Box<dyn ReadTask>) {
        self.0.read(task);
    }

    fn close(&self) {}
}

pub(super) struct World {
    dice: Dice,
    clock: Arc<AnyClock>,
    database: Arc<MemoryEngine>,
    direct: Store,
    /// A backup, with what had been told when it was made.
    backup: Option<(Arc<MemoryEngine>, History)>,
    network: Network,
    nodes: Vec<Store>,
    actors: Vec<Actor>,
    pairs: usize,
    taken: usize,
    starts: u64,
    pub(super) history: History,
    pub(super) story: Vec<String>,
}

impl World {
    pub(super) async fn new(seed: u64) -> World {
        let clock = Arc::new(AnyClock(AtomicI64::new(START)));
        let env = environment(&clock, seed, seed);
        let database = Arc::new(MemoryEngine::new(Arc::new(env)));
        let direct = direct(&clock, &database);
        let queue = QueueName::default();
        let settings = QueueSettings { max_running: Some(RUNNING_MAX), ..QueueSettings::default() };
        direct.configure(&Caller::local(), Settings::Queue(queue, settings)).await.unwrap();
        let network = Network::default();
        let node = |number: usize| {
            let env = environment(&clock, seed, 1_000 + number as u64);
            Store::with_engine(env, |_| Ok::<_, ()>(Link(network.clone()))).unwrap()
        };
        let mut actors =
            vec![Actor::new("maintenance", Kind::Maintenance), Actor::new("operator", Kind::Operator)];
        for number in 1..=2 {
            actors.push(Actor::new(&format!("client {number}"), Kind::Client { open: None }));
        }
        for number in 1..=3 {
            let kind = Kind::Worker { id: None, held: Vec::new(), unsure: None };
            actors.push(Actor::new(&format!("worker {number}"), kind));
        }
        let nodes = (0..NODES).map(node).collect();
        World {
            dice: Dice::new(seed),
            clock,
            database,
            direct,
            backup: None,
            network,
            nodes,
            actors,
            pairs: 0,
            taken: 0,
            starts: 0,
            history: History::default(),
            story: Vec::new(),
        }
    }

    fn tell(&mut self, what: String) {
        self.story.push(what);
    }

    pub(super) async fn step(&mut self) -> Result<(), String> {
        self.taken += 1;
        match self.dice.below(1_000) {
            0..=399 => self.ask(),
            400..=899 => self.deliver(),
            900..=959 => self.pass(),
            960..=984 => self.crash(),
            985..=991 => self.back_up(),
            992..=997 => self.restart(),
            _ => self.restore().await,
        }
        self.poll().await?;
        if self.taken.is_multiple_of(VERIFY_EVERY) {
            self.verify().await?;
        }
        Ok(())
    }

    /// Somebody who waits for nothing calls a node.
    fn ask(&mut self) {
        let idle: Vec<usize> = (0..self.actors.len()).filter(|at| self.actors[*at].call.is_none()).collect();
        if idle.is_empty() {
            return;
        }
        let (at, node) = (self.dice.pick(&idle), self.dice.below(NODES));
        self.ask_as(at, node);
    }

    fn ask_as(&mut self, at: usize, node: usize) {
        let jobs = self.history.jobs();
        let Some(request) = self.actors[at].next(&mut self.dice, &mut self.pairs, &jobs) else { return };
        self.tell(format!("{} asks node {node}: {request:?}", self.actors[at].name));
        self.history.asked(&request);
        self.actors[at].call = Some((request.clone(), actors::call(self.nodes[node].clone(), request)));
    }

    fn deliver(&mut self) {
        if self.network.len() == 0 {
            return;
        }
        let at = self.dice.below(self.network.len());
        let fate = match self.dice.below(100) {
            0..=5 => Fate::Lost,
            6..=13 => Fate::Unanswered,
            _ => Fate::Answered,
        };
        match fate {
            Fate::Lost => self.history.reach.count("lost request"),
            Fate::Unanswered => self.history.reach.count("lost answer"),
            Fate::Answered if at > 0 => self.history.reach.count("late message"),
            Fate::Answered => {}
        }
        self.tell(format!("message {at} of {} is {fate:?}", self.network.len()));
        self.network.deliver(at, &self.database, fate);
    }

    fn pass(&mut self) {
        let millis = match self.dice.below(20) {
            0 => 120_000,
            1..=3 => 25_000,
            4 => -60_000,
            _ => 1_500,
        };
        if millis < 0 {
            self.history.reach.count("clock set back");
        }
        self.tell(format!("the clock moves by {millis} ms"));
        self.clock.0.fetch_add(millis, Ordering::SeqCst);
    }

    fn crash(&mut self) {
        let at = self.dice.below(self.actors.len());
        self.history.reach.count("crash");
        self.tell(format!("{} crashes", self.actors[at].name));
        self.actors[at].crash();
    }

    /// The database's process starts again: connections are lost, and so is everything that was cached.
    fn restart(&mut self) {
        self.history.reach.count("restart of the database");
        self.tell("the database restarts".to_owned());
        let stored = self.database.clone();
        self.start_from(&stored);
    }

    fn start_from(&mut self, stored: &MemoryEngine) {
        self.network.lose_all(&self.database);
        self.starts += 1;
        let env = environment(&self.clock, self.starts, self.dice.next());
        self.database = Arc::new(stored.fork(Arc::new(env)));
        self.direct = direct(&self.clock, &self.database);
    }

    fn back_up(&mut self) {
        self.tell("the database is backed up".to_owned());
        let env = environment(&self.clock, 0, self.dice.next());
        self.backup = Some((Arc::new(self.database.fork(Arc::new(env))), self.history.clone()));
    }

    /// The database comes back as it was when it was backed up, and an operator begins a new generation.
    async fn restore(&mut self) {
        let Some((stored, told)) = self.backup.take() else { return };
        self.history.reach.count("restore of the database");
        self.tell("the database is restored from its backup".to_owned());
        self.start_from(&stored);
        self.direct.begin_generation(&Caller::local(), "restored").await.unwrap();
        self.history = told.restored(&self.history);
    }

    /// Lets everybody go on as far as they can.
    async fn poll(&mut self) -> Result<(), String> {
        for at in 0..self.actors.len() {
            let Some((request, mut call)) = self.actors[at].call.take() else { continue };
            let answer = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
            let Poll::Ready(response) = answer else {
                self.actors[at].call = Some((request, call));
                continue;
            };
            self.tell(format!("{} is told: {response:?} to {request:?}", self.actors[at].name));
            self.history.answered(&request, &response)?;
            self.actors[at].learn(&request, &response);
        }
        Ok(())
    }

    async fn verify(&self) -> Result<(), String> {
        for report in self.direct.verify().await.map_err(|error| error.to_string())? {
            // Maintenance comes when the dice say so.
            if !report.holds() && report.code != "lifetimes" {
                return Err(format!("{}: {}: {:?}", report.code, report.promise, report.findings));
            }
        }
        let running = self.jobs(vec![JobState::Running]).await?.len();
        if running as u64 > RUNNING_MAX {
            return Err(format!("{running} jobs run, and {RUNNING_MAX} may"));
        }
        Ok(())
    }

    async fn jobs(&self, states: Vec<JobState>) -> Result<Vec<Snapshot>, String> {
        let filter = Filter { states, ..Filter::default() };
        let request = ListRequest { filter, order: Order::Oldest, cursor: None, limit: 500 };
        let page = self.direct.list(&Caller::local(), request).await.map_err(|error| error.to_string())?;
        Ok(page.jobs)
    }

    /// The faults end: everybody goes on, and everything ends as it was told.
    pub(super) async fn end(&mut self) -> Result<(), String> {
        self.tell("the faults end".to_owned());
        self.actors.retain(|actor| !matches!(actor.kind, Kind::Operator));
        let me = Caller::local();
        for _ in 0..ROUNDS {
            for at in 0..self.actors.len() {
                if self.actors[at].call.is_none() {
                    self.ask_as(at, at % NODES);
                }
            }
            self.poll().await?;
            while self.network.len() > 0 {
                self.network.deliver(0, &self.database, Fate::Answered);
                self.poll().await?;
            }
            self.clock.0.fetch_add(2_000, Ordering::SeqCst);
            let _open = actors::call(self.direct.clone(), actors::Request::Open).await;
            for found in self.jobs(vec![JobState::Suspended]).await? {
                let _resumed = actors::call(self.direct.clone(), actors::Request::Resume(found.job.id)).await;
            }
            if self.pairs == actors::PAIRS
                && self.jobs(Vec::new()).await?.iter().all(|found| found.job.state.is_final())
            {
                break;
            }
        }
        self.direct.config(&me).await.map_err(|error| error.to_string())?;
        self.verify().await?;
        self.history.holds(&self.jobs(Vec::new()).await?)
    }
}

fn environment(clock: &Arc<AnyClock>, seed: u64, place: u64) -> Environment {
    // A consequence for more than two other jobs is left to a later commit.
    let options = StoreOptions { cascade_jobs_per_commit: 2, ..StoreOptions::default() };
    Environment::new(clock.clone(), Entropy::seeded(seed.wrapping_mul(1_000_003) ^ place), options)
}

fn direct(clock: &Arc<AnyClock>, database: &Arc<MemoryEngine>) -> Store {
    Store::with_engine(environment(clock, 0, 0), |_| Ok::<_, ()>(Direct(database.clone()))).unwrap()
}
