//! The simulated world: one database, nodes that reach it through the network, and the clients that call them.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::Poll;
use std::time::Duration;

use windlass::clock::{Clock, Reading, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{JobState, QueueName};
use windlass::settings::QueueSettings;
use windlass::store::caller::Caller;
use windlass::store::engines::memory::MemoryEngine;
use windlass::store::{Environment, Filter, ListRequest, Order, Settings, Snapshot, Store, StoreOptions};

use super::actors::{self, Actor, Kind};
use super::history::History;
use super::network::{Connection, Fate, Link, Network};
use crate::fixture::START;
use crate::random::rng::Dice;

const NODES: usize = 3;
/// Jobs that may run at once.
const RUNNING_MAX: u64 = 3;
/// Steps between two checks of everything that is stored.
const VERIFY_EVERY: usize = 200;
/// By how much the clock of a node is wrong, in milliseconds: a few of these are never near an hour, by which the database's is.
const OFF: i64 = 1_234_567;
/// Rounds without faults in which everything must end.
const ROUNDS: usize = 400;

/// The database's clock. It can also be set back.
struct AnyClock(AtomicI64);

impl Clock for AnyClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// The clocks of a node's machine, which are not those of the database.
struct NodeClock {
    database: Arc<AnyClock>,
    /// Monotonic time, in milliseconds: it may run fast or slow, or stand still.
    elapsed: AtomicI64,
    /// What the machine's wall clock shows, in milliseconds.
    wall: AtomicI64,
    /// How fast monotonic time runs, in percent.
    rate: i64,
}

impl NodeClock {
    /// A machine that stands still finds its wall clock right afterwards.
    fn pass(&self, millis: i64, is_frozen: bool) {
        self.wall.fetch_add(millis, Ordering::SeqCst);
        if !is_frozen {
            self.elapsed.fetch_add(millis * self.rate / 100, Ordering::SeqCst);
        }
    }
}

impl Clock for NodeClock {
    fn now(&self) -> Timestamp {
        self.database.now()
    }

    fn reading(&self) -> Option<Reading> {
        let elapsed = u64::try_from(self.elapsed.load(Ordering::SeqCst)).expect("it does not go back");
        let wall = Timestamp::from_millis(self.wall.load(Ordering::SeqCst));
        let elapsed = Duration::from_millis(elapsed);
        Some(Reading { elapsed, wall, boot: None })
    }

    fn database(&self, _read: Timestamp) -> Timestamp {
        self.database.now()
    }
}

/// A process with a connection, and therefore a cache, of its own.
struct Node {
    store: Store,
    env: Arc<Environment>,
    clock: Arc<NodeClock>,
    connection: Connection,
}

pub(super) struct World {
    dice: Dice,
    seed: u64,
    clock: Arc<AnyClock>,
    /// Time that has really passed, in milliseconds.
    passed: i64,
    database: Arc<MemoryEngine>,
    /// Another connection, for what is set up and checked without faults, and its clocks, which are right.
    direct: Store,
    direct_clock: Arc<NodeClock>,
    /// A backup, with the answers until it was made.
    backup: Option<(Arc<MemoryEngine>, History)>,
    network: Network,
    nodes: Vec<Node>,
    /// Processes started so far.
    processes: u64,
    actors: Vec<Actor>,
    pairs: usize,
    starts: u64,
    pub(super) history: History,
    pub(super) story: Vec<String>,
}

impl World {
    pub(super) async fn new(seed: u64) -> World {
        let clock = Arc::new(AnyClock(AtomicI64::new(START)));
        let env = environment(clock.clone(), seed, seed);
        let database = Arc::new(MemoryEngine::new(Arc::new(env)));
        let (direct, direct_clock) = direct(&clock, 0, &database);
        let queue = QueueName::default();
        let settings = QueueSettings { max_running: Some(RUNNING_MAX), ..QueueSettings::default() };
        direct.configure(&Caller::local(), Settings::Queue(queue, settings)).await.unwrap();
        let mut actors =
            vec![Actor::new("maintenance", Kind::Maintenance), Actor::new("operator", Kind::Operator)];
        for number in 1..=2 {
            actors.push(Actor::new(&format!("client {number}"), Kind::Client { open: None }));
        }
        for number in 1..=3 {
            let kind = Kind::Worker { id: None, held: Vec::new(), unsure: None };
            actors.push(Actor::new(&format!("worker {number}"), kind));
        }
        let mut world = World {
            dice: Dice::new(seed),
            seed,
            clock,
            passed: 0,
            database,
            direct,
            direct_clock,
            backup: None,
            network: Network::default(),
            nodes: Vec::new(),
            processes: 0,
            actors,
            pairs: 0,
            starts: 0,
            history: History::default(),
            story: Vec::new(),
        };
        for _ in 0..NODES {
            let node = world.start_node();
            world.nodes.push(node);
        }
        world
    }

    /// A process that has just started.
    fn start_node(&mut self) -> Node {
        self.processes += 1;
        let elapsed = AtomicI64::new(1_000 * i64::try_from(self.processes).expect("few"));
        // A second in a hundred is more than any machine's clock drifts.
        let rate = self.dice.pick(&[100, 100, 99, 101]);
        // Never wrong in the same way as the database's clock: a jump on which both agree is believed.
        let ahead = self.dice.pick(&[0, 0, 40, -3_000, OFF, -OFF]);
        let wall = AtomicI64::new(START + self.passed + ahead);
        let clock = Arc::new(NodeClock { database: self.clock.clone(), elapsed, wall, rate });
        let mut made = None;
        let env = environment(clock.clone(), self.seed, 1_000 + self.processes);
        let store = Store::with_engine(env, |env| {
            let connection = Connection::new(self.database.connect(env.clone()));
            let network = self.network.clone();
            made = Some((env, connection.clone()));
            Ok::<_, ()>(Link { network, connection })
        });
        let (env, connection) = made.expect("a store has an engine");
        Node { store: store.expect("nothing fails"), env, clock, connection }
    }

    fn tell(&mut self, what: String) {
        self.story.push(what);
    }

    /// The step with this number, which decides what happens in it.
    pub(super) async fn step(&mut self, number: usize) -> Result<(), String> {
        // Chance of its own: a step does the same when others are left out.
        self.dice = Dice::new(self.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
        match self.dice.below(1_000) {
            0..=399 => self.ask(),
            400..=884 => self.deliver(),
            885..=944 => self.pass(),
            945..=954 => self.step_clock(),
            955..=974 => self.crash(),
            975..=984 => self.crash_node(),
            985..=991 => self.back_up(),
            992..=997 => self.restart(),
            _ => self.restore().await,
        }
        self.poll().await?;
        if (number + 1).is_multiple_of(VERIFY_EVERY) {
            self.verify().await?;
        }
        Ok(())
    }

    /// A client that waits for nothing calls a node.
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
        self.actors[at].call = Some((request.clone(), actors::call(self.nodes[node].store.clone(), request)));
    }

    fn deliver(&mut self) {
        if self.network.len() == 0 {
            return;
        }
        let at = self.dice.below(self.network.len());
        let fate = match self.dice.below(100) {
            0..=5 => Fate::Lost,
            6..=13 => Fate::Unanswered,
            14..=16 => Fate::Failed,
            _ => Fate::Answered,
        };
        match fate {
            Fate::Lost => self.history.reach.count("lost request"),
            Fate::Unanswered => self.history.reach.count("lost answer"),
            Fate::Failed => self.history.reach.count("full disk"),
            Fate::Answered if at > 0 => self.history.reach.count("late message"),
            Fate::Answered => {}
        }
        self.tell(format!("message {at} of {} is {fate:?}", self.network.len()));
        self.network.deliver(at, fate);
    }

    fn pass(&mut self) {
        let millis = match self.dice.below(20) {
            0 => 120_000,
            1..=3 => 25_000,
            _ => 1_500,
        };
        // Now and then a machine stands still.
        let frozen = self.dice.chance(10).then(|| self.dice.below(NODES));
        self.tell(format!("{millis} ms pass, for all nodes but {frozen:?}"));
        if frozen.is_some() {
            self.history.reach.count("machine that stood still");
        }
        self.let_pass(millis, frozen);
    }

    fn let_pass(&mut self, millis: i64, frozen: Option<usize>) {
        self.passed += millis;
        self.clock.0.fetch_add(millis, Ordering::SeqCst);
        self.direct_clock.pass(millis, false);
        for (at, node) in self.nodes.iter().enumerate() {
            node.clock.pass(millis, Some(at) == frozen);
        }
    }

    /// An administrator sets the database's clock, or that of a node.
    fn step_clock(&mut self) {
        let is_database = self.dice.chance(50);
        let far = if is_database { 3_600_000 } else { OFF };
        let millis = self.dice.pick(&[-60_000, -4_000, 4_000, 60_000, far, -far]);
        if is_database {
            let what = if millis < 0 { "clock set back" } else { "clock set ahead" };
            self.history.reach.count(what);
            self.tell(format!("the database's clock is set by {millis} ms"));
            self.clock.0.fetch_add(millis, Ordering::SeqCst);
        } else {
            let at = self.dice.below(NODES);
            self.tell(format!("the clock of node {at} is set by {millis} ms"));
            self.nodes[at].clock.wall.fetch_add(millis, Ordering::SeqCst);
        }
    }

    /// A node's process ends and starts again. What it has sent may still arrive; who called it gets no answer.
    fn crash_node(&mut self) {
        let at = self.dice.below(NODES);
        self.history.reach.count("crash of a node");
        self.tell(format!("node {at} crashes"));
        self.nodes[at] = self.start_node();
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
        self.network.lose_all();
        self.starts += 1;
        let env = environment(self.clock.clone(), self.starts, self.dice.next());
        self.database = Arc::new(stored.fork(Arc::new(env)));
        (self.direct, self.direct_clock) = direct(&self.clock, self.passed, &self.database);
        for node in &self.nodes {
            node.connection.replace(self.database.connect(node.env.clone()));
        }
    }

    fn back_up(&mut self) {
        self.tell("the database is backed up".to_owned());
        let env = environment(self.clock.clone(), 0, self.dice.next());
        self.backup = Some((Arc::new(self.database.fork(Arc::new(env))), self.history.clone()));
    }

    /// The database comes back as it was when it was backed up, and an operator begins a new generation.
    async fn restore(&mut self) {
        let Some((stored, answered)) = self.backup.take() else { return };
        self.history.reach.count("restore of the database");
        self.tell("the database is restored from its backup".to_owned());
        self.start_from(&stored);
        self.direct.begin_generation(&Caller::local(), "restored").await.unwrap();
        self.history = answered.restored(&self.history);
    }

    /// Lets all clients continue as far as they can.
    async fn poll(&mut self) -> Result<(), String> {
        for at in 0..self.actors.len() {
            let Some((request, mut call)) = self.actors[at].call.take() else { continue };
            let answer = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
            let Poll::Ready(response) = answer else {
                self.actors[at].call = Some((request, call));
                continue;
            };
            self.tell(format!("{} is answered: {response:?} to {request:?}", self.actors[at].name));
            self.history.answered(&request, &response, self.passed)?;
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
        let running = self.jobs(vec![JobState::Running], 500).await?.len();
        if running as u64 > RUNNING_MAX {
            return Err(format!("{running} jobs run, and {RUNNING_MAX} may"));
        }
        Ok(())
    }

    async fn jobs(&self, states: Vec<JobState>, limit: usize) -> Result<Vec<Snapshot>, String> {
        let filter = Filter { states, ..Filter::default() };
        let request = ListRequest { filter, order: Order::Oldest, cursor: None, limit };
        let page = self.direct.list(&Caller::local(), request).await.map_err(|error| error.to_string())?;
        Ok(page.jobs)
    }

    /// Adds to the story of a finding what is stored of each attempt.
    pub(super) async fn tell_attempts(&mut self) {
        let me = Caller::local();
        for job in self.history.jobs() {
            for attempt in self.direct.attempts(&me, job).await.ok().flatten().unwrap_or_default() {
                self.tell(format!("stored of {job}: {attempt:?}"));
            }
        }
    }

    /// The faults end: all clients continue, and everything ends as it was answered.
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
                self.network.deliver(0, Fate::Answered);
                self.poll().await?;
            }
            self.let_pass(2_000, None);
            let _open = actors::call(self.direct.clone(), actors::Request::Open).await;
            for found in self.jobs(vec![JobState::Suspended], 500).await? {
                let _resumed = actors::call(self.direct.clone(), actors::Request::Resume(found.job.id)).await;
            }
            let live = JobState::ALL.into_iter().filter(|state| !state.is_final());
            if self.pairs == actors::PAIRS && self.jobs(live.collect(), 1).await?.is_empty() {
                break;
            }
        }
        self.direct.config(&me).await.map_err(|error| error.to_string())?;
        self.verify().await?;
        self.history.holds(&self.jobs(Vec::new(), 500).await?)
    }
}

fn environment(clock: Arc<impl Clock>, seed: u64, place: u64) -> Environment {
    // A consequence for more than two other jobs is left to a later commit.
    let options = StoreOptions { cascade_jobs_per_commit: 2, ..StoreOptions::default() };
    Environment::new(clock, Entropy::seeded(seed.wrapping_mul(1_000_003) ^ place), options)
}

fn direct(clock: &Arc<AnyClock>, passed: i64, database: &Arc<MemoryEngine>) -> (Store, Arc<NodeClock>) {
    let (elapsed, wall) = (AtomicI64::new(passed), AtomicI64::new(START + passed));
    let clock = Arc::new(NodeClock { database: clock.clone(), elapsed, wall, rate: 100 });
    let env = environment(clock.clone(), 0, 0);
    let store = Store::with_engine(env, |env| Ok::<_, ()>(database.connect(env)));
    (store.expect("nothing fails"), clock)
}
