//! A read transaction: a snapshot, the current configuration, and the time. Queries are written over it once for all
//! engines.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tokio_util::sync::CancellationToken;

use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::job::{Lane, WorkerId};
use crate::store::documents::config::{Config, Worker};
use crate::store::documents::liveness::Liveness;
use crate::store::engine::{EngineResult, Read};
use crate::store::environment::Environment;
use crate::store::query::explain::Reason;
use crate::store::tx::cache::ConnectionCache;

/// A snapshot of the store.
pub struct ReadTx<'a> {
    /// The engine.
    pub db: &'a mut dyn Read,
    cache: &'a mut ConnectionCache,
    /// The store's clock, randomness and options.
    pub env: &'a Environment,
    /// The time of the snapshot.
    pub now: Timestamp,
    /// Cancelled once no caller waits for the answer.
    cancellation: Option<CancellationToken>,
    /// When workers were last seen, as far as this transaction has read it.
    liveness: Liveness,
    /// Whether all slots of the workers of a lane are taken, as far as this transaction has counted them.
    pub(in crate::store) full_lanes: FxHashMap<Arc<Lane>, Option<Reason>>,
    /// Whether all slots of a worker are taken, of those that were counted: lanes share workers.
    pub(in crate::store) full_workers: FxHashMap<WorkerId, bool>,
    /// Whether this reads within a commit, which must not wait until the running jobs of many workers are counted.
    pub(in crate::store) is_in_commit: bool,
}

impl<'a> ReadTx<'a> {
    /// A read transaction on a snapshot, with the time at which it was taken: [`StoreClock::now_after`] the last commit.
    ///
    /// [`StoreClock::now_after`]: crate::clock::StoreClock::now_after
    pub fn within(
        db: &'a mut dyn Read,
        cache: &'a mut ConnectionCache,
        env: &'a Environment,
        now: Timestamp,
    ) -> ReadTx<'a> {
        ReadTx {
            db,
            cache,
            env,
            now,
            cancellation: None,
            liveness: Liveness::default(),
            full_lanes: FxHashMap::default(),
            full_workers: FxHashMap::default(),
            is_in_commit: false,
        }
    }

    /// Refuses to read a store whose content was moved.
    pub(crate) fn check_not_moved(&mut self) -> EngineResult<()> {
        self.cache.check_not_moved(self.db, self.env)
    }

    /// Sets the token that is cancelled when the caller stops waiting.
    pub(crate) fn ask_for(&mut self, cancellation: CancellationToken) {
        self.cancellation = Some(cancellation);
    }

    /// Returns an error if no caller waits for the answer. Long reads check this between two pages, so that a caller
    /// that disconnects does not keep a reader busy; engines also cancel the running statement.
    pub(crate) fn is_wanted(&self) -> EngineResult<()> {
        match &self.cancellation {
            Some(cancellation) if cancellation.is_cancelled() => {
                Err(StoreError::Database("the caller no longer waits for the answer".to_owned()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a worker counts as alive. Reads its heartbeats only if they matter.
    pub(crate) fn is_live(&mut self, worker: &Worker) -> EngineResult<bool> {
        if worker.is_lost || !worker.is_silent(self.now) {
            return Ok(!worker.is_lost);
        }
        let worker = self.liveness.look_up(self.db, worker.clone(), self.now)?;
        Ok(!worker.is_silent(self.now))
    }

    /// The current configuration, including when its workers were last seen.
    pub(crate) fn config_with_liveness(&mut self) -> EngineResult<Config> {
        let mut config = (*self.config()?).clone();
        self.liveness.read_all(self.db)?;
        self.liveness.apply(&mut config);
        Ok(config)
    }

    /// The current configuration.
    pub fn config(&mut self) -> EngineResult<Arc<Config>> {
        self.cache.config(self.db)
    }
}
