//! When workers were last seen, as read and changed by a write transaction. Written immediately, and not undone
//! with a refused command: the worker did call.

use super::WriteTx;
use crate::job::WorkerId;
use crate::store::documents::config::Worker;
use crate::store::documents::liveness::{self, Liveness};
use crate::store::engine::{DocumentKind, EngineResult};

impl WriteTx<'_> {
    /// When all workers were last seen.
    pub(crate) fn liveness(&mut self) -> EngineResult<&Liveness> {
        let read = self.cache.liveness.read_all(self.db);
        read.inspect_err(|error| {
            self.error.get_or_insert_with(|| error.clone());
        })?;
        Ok(&self.cache.liveness)
    }

    /// A worker with its latest heartbeat time.
    pub(crate) fn with_liveness(&mut self, worker: Worker) -> EngineResult<Worker> {
        let found = self.cache.liveness.look_up(self.db, worker, self.now);
        found.inspect_err(|error| {
            self.error.get_or_insert_with(|| error.clone());
        })
    }

    /// Stores when a worker was seen.
    pub(crate) fn put_liveness(&mut self, worker: &Worker) -> EngineResult<()> {
        let (key, body) = (worker.id.to_string(), liveness::body(worker.seen_at));
        self.put_document(DocumentKind::Liveness, &key, Some(&body), |_| {})?;
        self.cache.liveness.insert(worker.id, Some(worker.seen_at));
        Ok(())
    }

    /// Removes the heartbeat time of a worker.
    pub(crate) fn drop_liveness(&mut self, worker: WorkerId) -> EngineResult<()> {
        self.put_document(DocumentKind::Liveness, &worker.to_string(), None, |_| {})?;
        self.cache.liveness.remove(worker);
        Ok(())
    }
}
