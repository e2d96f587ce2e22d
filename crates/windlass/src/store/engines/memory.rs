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

/// A database in memory.
pub struct MemoryEngine {
    env: Arc<Environment>,
    inner: Mutex<Inner>,
}

struct Inner {
    tables: Tables,
    cache: ConnectionCache,
    /// The latest time any task has seen.
    last: Timestamp,
    is_closed: bool,
}

impl MemoryEngine {
    /// An empty database.
    pub fn new(env: Arc<Environment>) -> MemoryEngine {
        let inner = Inner {
            tables: Tables::default(),
            cache: ConnectionCache::default(),
            last: Timestamp::MIN,
            is_closed: false,
        };
        MemoryEngine { env, inner: Mutex::new(inner) }
    }

    /// A database with the same content, which changes separately from now on: for tests that try every continuation
    /// of a state. It has cached nothing yet, like a process that has just started.
    #[must_use]
    pub fn fork(&self, env: Arc<Environment>) -> MemoryEngine {
        let inner = self.lock();
        let forked = Inner {
            tables: inner.tables.clone(),
            cache: ConnectionCache::default(),
            last: inner.last,
            is_closed: inner.is_closed,
        };
        MemoryEngine { env, inner: Mutex::new(forked) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic inside a task is caught before it reaches the lock, and its changes have been undone.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one task as a group of one, and announces it while the lock still keeps commits in order.
    fn commit(&self, task: &mut Box<dyn WriteTask>) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let now = inner.begin(&self.env)?;
        let Inner { tables, cache, .. } = &mut *inner;
        let tasks = std::slice::from_mut(task);
        let work = AssertUnwindSafe(|| group_commit::run(tables, cache, &self.env, now, tasks));
        let result = catch_unwind(work).unwrap_or_else(|_| {
            cache.clear();
            Err(panicked())
        });
        match result {
            Ok(effects) => {
                tables.commit(now);
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
        let mut inner = self.lock();
        inner.check_open()?;
        let now = self.env.clock.now_after(inner.last);
        inner.last = now;
        let Inner { tables, cache, .. } = &mut *inner;
        catch_unwind(AssertUnwindSafe(|| {
            task.run(&mut ReadTx::within(tables, cache, &self.env, now));
        }))
        .map_err(|_| panicked())
    }
}

impl Inner {
    /// The time of the next task, never earlier than that of an earlier one, whatever the clock does.
    fn begin(&mut self, env: &Environment) -> Result<Timestamp, StoreError> {
        self.check_open()?;
        self.last = env.clock.commit(self.last);
        Ok(self.last)
    }

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
        self.lock().is_closed = true;
    }
}
