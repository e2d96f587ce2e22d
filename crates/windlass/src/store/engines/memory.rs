//! The memory engine: the executable specification of the contract, for tests, simulations and programs that need no
//! durability. It is simple rather than fast, and nothing in it survives the process.

mod read;
mod tables;
#[cfg(test)]
mod tests;
mod transfer;
mod write;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::store::engine::{Engine, ReadTask, WriteTask};
use crate::store::environment::Environment;
use crate::store::tx::cache::ConnectionCache;
use crate::store::tx::group_commit;
use crate::store::tx::read_tx::ReadTx;
use tables::Tables;

/// A database in memory, as one connection to it. Other connections are other nodes: each has its own cache, clock and
/// settings.
pub struct MemoryEngine {
    env: Arc<Environment>,
    shared: Arc<Mutex<Shared>>,
    own: Mutex<Own>,
}

/// What all connections share: the database.
struct Shared {
    tables: Tables,
    /// The latest time any task has seen.
    last: Timestamp,
    /// The number of commits by all connections.
    commits: u64,
    /// The next commit fails with this error after its tasks have run.
    fails: Option<StoreError>,
}

/// What belongs to one connection.
#[derive(Default)]
struct Own {
    cache: ConnectionCache,
    /// The number of commits when this connection last committed.
    seen: u64,
    /// Moves when another connection has committed since: see [`Caches::cache_generation`].
    ///
    /// [`Caches::cache_generation`]: crate::store::engine::Caches::cache_generation
    generation: u64,
    /// Whether the database's clock may differ from that of this machine.
    is_remote: bool,
    is_closed: bool,
}

impl MemoryEngine {
    /// An empty database.
    pub fn new(env: Arc<Environment>) -> MemoryEngine {
        let shared = Shared { tables: Tables::default(), last: Timestamp::MIN, commits: 0, fails: None };
        MemoryEngine { env, shared: Arc::new(Mutex::new(shared)), own: Mutex::default() }
    }

    /// Another connection to the same database, as another machine has it: the database's clock decides, with what this
    /// machine's clocks say about it. It has cached nothing yet.
    #[must_use]
    pub fn connect(&self, env: Arc<Environment>) -> MemoryEngine {
        env.clock.open_near(self.lock().last);
        let own = Own { is_remote: true, ..Own::default() };
        MemoryEngine { env, shared: self.shared.clone(), own: Mutex::new(own) }
    }

    /// A database with the same content, which changes separately from now on: for tests that try every continuation
    /// of a state. It has cached nothing yet, like a process that has just started.
    #[must_use]
    pub fn fork(&self, env: Arc<Environment>) -> MemoryEngine {
        let shared = self.lock();
        let (tables, last, commits) = (shared.tables.clone(), shared.last, shared.commits);
        let forked = Shared { tables, last, commits, fails: None };
        let own = Own { is_closed: self.own().is_closed, ..Own::default() };
        MemoryEngine { env, shared: Arc::new(Mutex::new(forked)), own: Mutex::new(own) }
    }

    /// Lets the next commit of any connection run its tasks and then fail, as on a full disk: for tests.
    pub fn fail_next_commit(&self, error: StoreError) {
        self.lock().fails = Some(error);
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A panic inside a task is caught before it reaches the lock, and its changes have been undone.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one task as a group of one, and announces it while the lock still keeps commits in order.
    fn commit(&self, task: &mut Box<dyn WriteTask>) -> Result<(), StoreError> {
        let mut shared = self.lock();
        let mut own = self.own();
        own.check_open()?;
        // Never earlier than that of an earlier task, whatever the clock does.
        let clock = &self.env.clock;
        let now = if own.is_remote { clock.commit_near(shared.last) } else { clock.commit(shared.last) };
        shared.last = now;
        if own.seen != shared.commits {
            own.generation += 1;
        }
        let (Shared { tables, commits, fails, .. }, Own { cache, seen, generation, .. }) =
            (&mut *shared, &mut *own);
        tables.cache_generation = *generation;
        let tasks = std::slice::from_mut(task);
        let work = AssertUnwindSafe(|| group_commit::run(tables, cache, &self.env, now, tasks));
        let result = catch_unwind(work).unwrap_or_else(|_| {
            cache.clear();
            Err(panicked())
        });
        let result = match fails.take() {
            Some(error) if result.is_ok() => {
                cache.clear();
                Err(error)
            }
            _ => result,
        };
        match result {
            Ok(effects) => {
                tables.commit(now);
                *commits += 1;
                *seen = *commits;
                group_commit::answer(&self.env, cache, effects, Vec::new());
                Ok(())
            }
            Err(error) => {
                tables.roll_back();
                Err(error)
            }
        }
    }

    fn run_read(&self, task: &mut dyn ReadTask) -> Result<(), StoreError> {
        let mut shared = self.lock();
        let mut own = self.own();
        own.check_open()?;
        let now = self.env.clock.now_after(shared.last);
        shared.last = now;
        let (tables, cache) = (&mut shared.tables, &mut own.cache);
        catch_unwind(AssertUnwindSafe(|| {
            task.run(&mut ReadTx::within(tables, cache, &self.env, now));
        }))
        .map_err(|_| panicked())
    }
}

impl Own {
    fn check_open(&self) -> Result<(), StoreError> {
        if self.is_closed { Err(StoreError::Closed) } else { Ok(()) }
    }
}

fn panicked() -> StoreError {
    StoreError::Database("the work panicked and was undone".into())
}

impl Engine for MemoryEngine {
    fn write(&self, mut task: Box<dyn WriteTask>) {
        // Answered after the lock is released: the caller may immediately send the next task.
        let outcome = self.commit(&mut task);
        task.done(outcome);
    }

    fn read(&self, mut task: Box<dyn ReadTask>) {
        let outcome = self.run_read(&mut *task);
        task.done(outcome);
    }

    fn close(&self) {
        // Tasks run under the lock, so an accepted task has ended by now.
        let _none_runs = self.lock();
        self.own().is_closed = true;
    }
}
