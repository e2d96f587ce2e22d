//! The smallest engine that passes the conformance suite, written with the public interface of `windlass` alone. All data
//! is in standard collections that are copied on write: a commit works on a copy and puts it in place at the end, so
//! rolling back is dropping the copy, and a snapshot is a copy that is kept. It has almost no indexes and writes no file:
//! it is the second example of `docs/design/engines.md`, not a product.

mod read;
mod tables;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use windlass::clock::Timestamp;
use windlass::error::StoreError;
use windlass::store::Environment;
use windlass::store::engine::{ConnectionCache, Engine, ReadTask, ReadTx, WriteTask, group_commit};

use tables::Tables;

/// A database of standard collections.
pub struct ToyEngine {
    env: Arc<Environment>,
    inner: Mutex<Inner>,
}

struct Inner {
    /// Everything, as of the last commit.
    tables: Tables,
    /// What the store remembers between the commits of the one connection that there is.
    cache: ConnectionCache,
    /// The latest time that any task has seen.
    last: Timestamp,
    is_closed: bool,
}

impl ToyEngine {
    /// An empty database.
    pub fn new(env: Arc<Environment>) -> ToyEngine {
        let (tables, cache) = (Tables::default(), ConnectionCache::default());
        ToyEngine { env, inner: Mutex::new(Inner { tables, cache, last: Timestamp::MIN, is_closed: false }) }
    }

    /// The lock makes its holder the one writer.
    fn lock(&self) -> Result<MutexGuard<'_, Inner>, StoreError> {
        // After a panic in a task the data is as before it: the copy it has worked on is gone.
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.is_closed { Err(StoreError::Stopped("it was closed".into())) } else { Ok(inner) }
    }

    fn commit(&self, task: &mut Box<dyn WriteTask>) -> Result<(), StoreError> {
        let mut inner = self.lock()?;
        let now = self.env.clock.commit(inner.last);
        inner.last = now;
        let mut tables = inner.tables.clone();
        let tasks = std::slice::from_mut(task);
        let effects = group_commit::run(&mut tables, &mut inner.cache, &self.env, now, tasks)?;
        tables.committed_at = now;
        // A real engine makes it durable here.
        inner.tables = tables;
        // Still under the lock: commits are announced in their order.
        group_commit::answer(&self.env, &mut inner.cache, effects, Vec::new());
        Ok(())
    }

    fn look(&self, task: &mut dyn ReadTask) -> Result<(), StoreError> {
        let (mut tables, now) = {
            let mut inner = self.lock()?;
            inner.last = self.env.clock.now_after(inner.last);
            (inner.tables.clone(), inner.last)
        };
        // Without the lock: commits continue meanwhile, and the snapshot does not change.
        let mut cache = ConnectionCache::default();
        task.run(&mut ReadTx::within(&mut tables, &mut cache, &self.env, now));
        Ok(())
    }
}

impl Engine for ToyEngine {
    fn write(&self, mut task: Box<dyn WriteTask>) {
        let outcome = self.commit(&mut task);
        task.done(outcome);
    }

    fn read(&self, mut task: Box<dyn ReadTask>) {
        let outcome = self.look(&mut *task);
        task.done(outcome);
    }

    fn close(&self) {
        if let Ok(mut inner) = self.lock() {
            inner.is_closed = true;
        }
    }
}
