//! A look at the store: a snapshot, the configuration in force, and the time. Reads are written over it once for all
//! engines.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::engine::{EngineResult, Read};
use super::environment::Environment;
use super::memo::Memo;
use crate::clock::Timestamp;
use crate::error::StoreError;

/// A snapshot of the store.
pub struct View<'a> {
    /// The engine.
    pub db: &'a mut dyn Read,
    memo: &'a mut Memo,
    /// What the store was given.
    pub env: &'a Environment,
    /// The time of the look.
    pub now: Timestamp,
    /// Cancelled once nobody waits for the answer any more.
    asker: Option<CancellationToken>,
}

impl<'a> View<'a> {
    /// A look at the time of a commit.
    pub(crate) fn within(
        db: &'a mut dyn Read,
        memo: &'a mut Memo,
        env: &'a Environment,
        now: Timestamp,
    ) -> View<'a> {
        View { db, memo, env, now, asker: None }
    }

    /// Refuses to look at a store whose content is elsewhere.
    pub(crate) fn admit(&mut self) -> EngineResult<()> {
        self.memo.admit(self.db, self.env)
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

    /// The configuration in force.
    pub fn config(&mut self) -> EngineResult<Arc<Config>> {
        self.memo.config(self.db)
    }
}
