//! Two stores that are given the same: one clock, the same numbers by chance, the same steps. Whatever one of them
//! answers or shows, the other must too.

use std::sync::Arc;

use tempfile::TempDir;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use windlass::audit::Record;
use windlass::clock::{Clock, ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::limits;
use windlass::store::{Config, Environment, Store, StoreOptions};

use super::invariants::Steps;
use super::operation::{Answer, Operation};
use super::rng::Dice;
use crate::fixture::{On, START, store_folder};
use crate::postgres::fleet::{Fleet, NODES};
use crate::postgres::proxy::{Boundary, COMMIT, Proxy};

/// How many steps in a hundred are taken through a node whose connection breaks.
const BREAKS: usize = 15;
/// More messages than most transactions have.
const MESSAGES: usize = 30;

/// The two stores.
pub(super) struct Pair {
    pub(super) memory: Store,
    pub(super) durable: Store,
    pub(super) clock: Arc<ManualClock>,
    seed: u64,
    address: String,
    events: Option<[Receiver<Arc<Record>>; 2]>,
    steps: Steps,
    moves: usize,
    files: TempDir,
    /// The nodes of which `durable` is one, if there are several.
    fleet: Option<Fleet>,
}

impl Pair {
    pub(super) fn new(on: On, seed: u64) -> Pair {
        let files = store_folder();
        let address = match on {
            On::Sqlite => format!("sqlite:{}", files.path().join("jobs.db").display()),
            On::Memory | On::Postgres => on.address().1,
        };
        Pair::at(address, files, seed)
    }

    /// With a new store at this address; what it is moved to is in the folder.
    pub(super) fn at(address: String, files: TempDir, seed: u64) -> Pair {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
        let memory = open("memory:", &clock, Entropy::seeded(seed), seed);
        let durable = open(&address, &clock, Entropy::seeded(seed), seed);
        let mut pair = Pair {
            memory,
            durable,
            clock,
            seed,
            address,
            events: None,
            steps: Steps::default(),
            moves: 0,
            files,
            fleet: None,
        };
        // Listeners make a store build records it would not keep; both ways must do the same.
        if seed % 2 == 1 {
            pair.listen();
        }
        pair
    }

    /// With several nodes on one database. On every other one submissions wait for no turn.
    pub(super) fn of_nodes(seed: u64) -> Pair {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
        let memory = open("memory:", &clock, Entropy::seeded(seed), seed);
        let fleet = Fleet::start_with(seed.is_multiple_of(2), || {
            environment(&clock, Entropy::seeded(seed), seed, false)
        });
        Pair {
            memory,
            durable: fleet.nodes[0].clone(),
            clock,
            seed,
            address: String::new(),
            events: None,
            steps: Steps::default(),
            moves: 0,
            files: store_folder(),
            fleet: Some(fleet),
        }
    }

    /// Continues at any node, whose connection may break at any message of its next transaction. Chance continues where it was.
    pub(super) fn turn_to_any_node(&mut self, dice: &mut Dice) {
        let Some(fleet) = &self.fleet else { return };
        let at = dice.below(NODES);
        self.durable = fleet.nodes[at].clone();
        let place = self.memory.environment().entropy.bits();
        let entropy = &self.durable.environment().entropy;
        while entropy.bits() != place {}
        fleet.proxies.iter().for_each(Proxy::disarm);
        if dice.chance(BREAKS) {
            let message = if dice.chance(50) { COMMIT } else { dice.below(MESSAGES) };
            fleet.proxies[at].arm_at(Boundary { message, is_passed_on: dice.chance(50) });
        }
    }

    /// A node that does not know that another one has just recorded a sign of life records one, too: with several nodes it
    /// may be a later one.
    pub(super) fn forget_signs_of_life(&self, configs: [&mut Config; 2]) {
        if self.fleet.is_some() {
            for worker in configs.into_iter().flat_map(|config| config.workers.values_mut()) {
                worker.seen_at = Timestamp::from_millis(START);
            }
        }
    }

    /// Closes all nodes.
    pub(super) fn close(&self) {
        self.durable.close();
        self.fleet.iter().flat_map(|fleet| &fleet.nodes).for_each(Store::close);
    }

    fn listen(&mut self) {
        self.events = Some([self.memory.live_events(), self.durable.live_events()]);
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Does a step to both and compares what they say.
    pub(super) async fn step(&mut self, operation: &Operation) -> Result<Answer, String> {
        if let Operation::Pass(time) = operation {
            self.clock.advance(*time);
        }
        let mut memory = operation.apply(&self.memory).await;
        let mut durable = operation.apply(&self.durable).await;
        if let (Answer::Config(Ok(one)), Answer::Config(Ok(other))) = (&mut memory, &mut durable) {
            self.forget_signs_of_life([one, other]);
        }
        if memory != durable {
            return Err(format!("the answers differ\n  memory: {memory:?}\n  durable: {durable:?}"));
        }
        if let Some(store_error) = memory.store_error() {
            return Err(format!("store error: {store_error}"));
        }
        self.compare_events()?;
        Ok(memory)
    }

    fn compare_events(&mut self) -> Result<(), String> {
        let Some([memory, durable]) = &mut self.events else { return Ok(()) };
        loop {
            let both = (memory.try_recv(), durable.try_recv());
            match both {
                (Ok(one), Ok(other)) if one == other => self.steps.take(&one)?,
                (Err(TryRecvError::Empty), Err(TryRecvError::Empty)) => return Ok(()),
                (one, other) => {
                    return Err(format!("the live events differ\n  memory: {one:?}\n  durable: {other:?}"));
                }
            }
        }
    }

    /// Closes the store and opens it again, as after a restart; chance continues where it was.
    pub(super) fn reopen(&mut self) {
        self.durable.close();
        self.open_durable();
    }

    /// Moves the durable store to a new place, on the other engine, and continues there.
    pub(super) async fn move_on(&mut self) -> Result<(), String> {
        self.durable.close();
        self.moves += 1;
        let next = match On::of(&self.address) {
            On::Sqlite => On::Postgres.address().1,
            On::Memory | On::Postgres => {
                format!("sqlite:{}", self.files.path().join(format!("jobs{}.db", self.moves)).display())
            }
        };
        // Small pages, so that there are many.
        let report = crate::move_store::moved(&self.address, &next, self.clock.clone(), 7).await;
        report.map_err(|error| format!("cannot move to {next}: {error}"))?;
        self.address = next;
        self.open_durable();
        Ok(())
    }

    fn open_durable(&mut self) {
        let had_listeners = self.events.take().is_some();
        // A new stream of the same seed, moved to where the other store's is by now.
        let (entropy, place) = (Entropy::seeded(self.seed), self.memory.environment().entropy.bits());
        while entropy.bits() != place {}
        // Opening draws the name of the node.
        self.memory.environment().entropy.bits();
        self.durable = open(&self.address, &self.clock, entropy, self.seed);
        if had_listeners {
            self.listen();
        }
    }
}

fn open(address: &str, clock: &Arc<ManualClock>, entropy: Entropy, seed: u64) -> Store {
    Store::open_in(address, environment(clock, entropy, seed, address == "memory:")).expect("the store opens")
}

fn environment(clock: &Arc<ManualClock>, entropy: Entropy, seed: u64, is_memory: bool) -> Environment {
    // In most walks nearly every consequence is left to a later commit.
    let cascade_jobs_per_commit =
        [limits::CASCADE_JOBS_PER_COMMIT, 1, 2, 5][usize::try_from(seed % 4).unwrap()];
    let options = StoreOptions { payload_bytes_max: 64, cascade_jobs_per_commit, ..StoreOptions::default() };
    // In most walks a database reads as few lanes as it can, and memory always reads all of them.
    let lanes_read_at_once = if is_memory || seed.is_multiple_of(3) { options.lanes_read_at_once } else { 1 };
    let options = StoreOptions { lanes_read_at_once, ..options };
    Environment::new(clock.clone(), entropy, options)
}
