//! A look at the store: a snapshot, the configuration in force, and the time. Reads are written over it once for all
//! engines.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::store::documents::config::{Config, Worker};
use crate::store::documents::liveness::Liveness;
use crate::store::engine::{EngineResult, Read};
use crate::store::environment::Environment;
use crate::store::tx::cache::ConnectionCache;

/// A snapshot of the store.
pub struct ReadTx<'a> {
    /// The engine.
    pub db: &'a mut dyn Read,
    memo: &'a mut ConnectionCache,
    /// What the store was given.
    pub env: &'a Environment,
    /// The time of the look.
    pub now: Timestamp,
    /// Cancelled once nobody waits for the answer any more.
    asker: Option<CancellationToken>,
    /// When workers were last heard of, as far as this look has asked.
    liveness: Liveness,
}

impl<'a> ReadTx<'a> {
    /// A look at the time of a commit.
    pub(crate) fn within(
        db: &'a mut dyn Read,
        memo: &'a mut ConnectionCache,
        env: &'a Environment,
        now: Timestamp,
    ) -> ReadTx<'a> {
        ReadTx { db, memo, env, now, asker: None, liveness: Liveness::default() }
    }

    /// Refuses to look at a store whose content is elsewhere.
    pub(crate) fn check_not_moved(&mut self) -> EngineResult<()> {
        self.memo.check_not_moved(self.db, self.env)
    }

    /// Notes who waits for the answer.
    pub(crate) fn ask_for(&mut self, asker: CancellationToken) {
        self.asker = Some(asker);
    }

    /// Fails if nobody waits for the answer any more. Long looks ask between two pages, so that a caller who leaves does
    /// not keep a reader busy; engines end the statement that is running too.
    pub(crate) fn is_wanted(&self) -> EngineResult<()> {
        match &self.asker {
            Some(asker) if asker.is_cancelled() => {
                Err(StoreError::Database("nobody waits for the answer any more".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a worker counts as alive. Asks for its heartbeats only if it was not heard of otherwise.
    pub(crate) fn is_live(&mut self, worker: &Worker) -> EngineResult<bool> {
        if worker.is_lost || !worker.is_silent(self.now) {
            return Ok(!worker.is_lost);
        }
        let worker = self.liveness.look_up(self.db, worker.clone(), self.now)?;
        Ok(!worker.is_silent(self.now))
    }

    /// The configuration in force, with when its workers were last heard of.
    pub(crate) fn config_with_liveness(&mut self) -> EngineResult<Config> {
        let mut config = (*self.config()?).clone();
        self.liveness.read_all(self.db)?;
        self.liveness.apply(&mut config);
        Ok(config)
    }

    /// The configuration in force.
    pub fn config(&mut self) -> EngineResult<Arc<Config>> {
        self.memo.config(self.db)
    }
}
