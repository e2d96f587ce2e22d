//! A look at the store: a snapshot, the configuration in force, and the time. Reads are written over it once for all
//! engines.

use std::sync::Arc;

use super::config::Config;
use super::engine::{EngineResult, Read};
use super::environment::Environment;
use super::memo::Memo;
use crate::clock::Timestamp;

/// A snapshot of the store.
pub struct View<'a> {
    /// The engine.
    pub db: &'a mut dyn Read,
    memo: &'a mut Memo,
    /// What the store was given.
    pub env: &'a Environment,
    /// The time of the look.
    pub now: Timestamp,
}

impl<'a> View<'a> {
    /// A look from now.
    pub fn new(db: &'a mut dyn Read, memo: &'a mut Memo, env: &'a Environment) -> View<'a> {
        View { now: env.clock.now(), db, memo, env }
    }

    /// A look at the time of a commit.
    pub(crate) fn within(
        db: &'a mut dyn Read,
        memo: &'a mut Memo,
        env: &'a Environment,
        now: Timestamp,
    ) -> View<'a> {
        View { db, memo, env, now }
    }

    /// Refuses to look at a store whose content is elsewhere.
    pub(crate) fn admit(&mut self) -> EngineResult<()> {
        self.memo.admit(self.db, self.env)
    }

    /// The configuration in force.
    pub fn config(&mut self) -> EngineResult<Arc<Config>> {
        self.memo.config(self.db)
    }
}
