//! When workers were last heard of, as a unit of work knows and changes it. Written at once, and not undone with a command
//! that is refused: the worker has called all the same.

use super::WriteTx;
use crate::job::WorkerId;
use crate::store::documents::config::Worker;
use crate::store::documents::liveness::{self, Liveness};
use crate::store::engine::{DocumentKind, EngineResult};

impl WriteTx<'_> {
    /// When all workers were last heard of.
    pub(crate) fn liveness(&mut self) -> EngineResult<&Liveness> {
        let read = self.memo.liveness.read_all(self.db);
        read.inspect_err(|error| {
            self.trouble.get_or_insert_with(|| error.clone());
        })?;
        Ok(&self.memo.liveness)
    }

    /// A worker as last heard of.
    pub(crate) fn as_last_heard_of(&mut self, worker: Worker) -> EngineResult<Worker> {
        let found = self.memo.liveness.look_up(self.db, worker, self.now);
        found.inspect_err(|error| {
            self.trouble.get_or_insert_with(|| error.clone());
        })
    }

    /// Keeps when a worker was heard of.
    pub(crate) fn put_liveness(&mut self, worker: &Worker) -> EngineResult<()> {
        let (key, body) = (worker.id.to_string(), liveness::body(worker.seen_at));
        self.put_document(DocumentKind::Liveness, &key, Some(&body), |_| {})?;
        self.memo.liveness.learn(worker.id, Some(worker.seen_at));
        Ok(())
    }

    /// Forgets when a worker was heard of.
    pub(crate) fn drop_liveness(&mut self, worker: WorkerId) -> EngineResult<()> {
        self.put_document(DocumentKind::Liveness, &worker.to_string(), None, |_| {})?;
        self.memo.liveness.forget(worker);
        Ok(())
    }
}
