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
use windlass::store::Store;
use windlass::store::environment::{Environment, StoreOptions};

use super::invariants::Steps;
use super::operation::{Answer, Operation};
use crate::fixture::{On, START};

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
}

impl Pair {
    pub(super) fn new(on: On, seed: u64) -> Pair {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(START)));
        // No power is cut here: where there is a disk in memory, a walk need not wait for a real one.
        let files = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let files = files.expect("a directory for the test");
        let address = match on {
            On::Sqlite => format!("sqlite:{}", files.path().join("jobs.db").display()),
            On::Memory | On::Postgres => on.address().1,
        };
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
        };
        // Listeners make a store build records it would not keep; both ways must do the same.
        if seed % 2 == 1 {
            pair.listen();
        }
        pair
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
        let memory = operation.apply(&self.memory).await;
        let durable = operation.apply(&self.durable).await;
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

    /// Closes the store and opens it again, as after a restart; chance goes on where it was.
    pub(super) fn reopen(&mut self) {
        self.durable.close();
        self.open_durable();
    }

    /// Moves the durable store to a new place, on the other engine, and goes on there.
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
    // In most walks nearly every consequence is left to a later commit.
    let cascade_jobs_per_commit =
        [limits::CASCADE_JOBS_PER_COMMIT, 1, 2, 5][usize::try_from(seed % 4).unwrap()];
    let options = StoreOptions { payload_bytes_max: 64, cascade_jobs_per_commit, ..StoreOptions::default() };
    Store::open_in(address, Environment::new(clock.clone(), entropy, options)).expect("the store opens")
}
