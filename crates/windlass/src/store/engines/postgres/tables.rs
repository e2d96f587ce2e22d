//! One connection to the database: its transactions, its caches, and the engine's contract; each method is implemented
//! in the module named for it. It contains no rules.

pub(super) mod advance;
pub(super) mod audit;
mod chapters;
pub(super) mod claim;
mod derive;
pub(super) mod document;
pub(super) mod insert;
pub(super) mod integrity;
pub(super) mod intern;
pub(super) mod job_data;
pub(super) mod key_counts;
pub(super) mod keys;
pub(super) mod prune;
pub(super) mod query;
pub(super) mod row;
pub(super) mod timer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use self::row::ColumnIndexes;
use self::timer::Timers;
use super::appends::AppendState;
use super::connection::Connection;
use super::connection::cluster::Identity;
use super::node_cache::{ClaimBounds, Meta, RunningChanges};
use super::prefetch::Prefetch;
use super::sql_submit::InboxState;
use super::transaction::durability::Durability;
use crate::error::StoreError;
use crate::job::{JobState, Lane, Seq};
use crate::limits;
use crate::store::engine::{Counts, EngineResult};
use crate::store::engines::sql::interner::Interner;

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// It reads; no cleanup is done in passing.
    Read,
    /// This transaction is a snapshot of the writer, which shows whether there is anything to write.
    WriterSnapshot,
    Write,
}

impl Access {
    fn of_next_transaction(self) -> Access {
        if self == Access::Read { Access::Read } else { Access::Write }
    }
}

/// A connection and its caches.
pub(super) struct Tables {
    pub(super) link: Connection,
    pub(super) interned: Interner,
    pub(super) meta: Meta,
    /// How often another node's commit was found.
    pub(super) generation: u64,
    /// Whether other nodes had committed when this transaction began, and so probably will have when the next does.
    pub(super) is_shared: bool,
    /// Whether a snapshot before the lock has seen commits of other nodes, which the transaction then does not meet.
    pub(super) has_looked_past_others: bool,
    /// `None` until first used, and again after another node may have changed them.
    pub(super) counts: Option<Counts>,
    /// Changes of counts in this transaction.
    pub(super) moved: BTreeMap<(Arc<Lane>, JobState), i64>,
    pub(super) floors: ClaimBounds,
    pub(super) running: RunningChanges,
    pub(super) timers: Timers,
    pub(super) ahead: Prefetch,
    /// The index entries of jobs that this transaction has read.
    pub(super) met: FxHashMap<Seq, ColumnIndexes>,
    pub(super) access: Access,
    pub(super) has_written: bool,
    /// The number and nonce of the commit that was sent in this transaction, if there was anything to write.
    pub(super) tried: Option<(i64, i64)>,
    /// How long this connection's transactions may be idle.
    pub(super) idle_max: Duration,
    /// Rows of `commits` below this number were removed.
    pub(super) forgotten_to: i64,
    /// What this transaction has found about the SQL inbox.
    pub(super) inbox_state: InboxState,
    /// What this transaction has found about appended jobs.
    pub(super) appends: AppendState,
    /// The time of this transaction, for the order of timers.
    pub(super) now: i64,
    /// What was found about the identity of the database.
    pub(super) identity: Identity,
    /// What is known to be on disk.
    pub(super) durability: Durability,
}

impl Tables {
    /// Takes over a connection to a schema with the current version.
    pub(super) fn new(link: Connection, access: Access) -> Tables {
        Tables {
            link,
            interned: Interner::default(),
            meta: Meta::default(),
            generation: 0,
            is_shared: false,
            has_looked_past_others: false,
            counts: None,
            moved: BTreeMap::new(),
            floors: ClaimBounds::default(),
            running: RunningChanges::default(),
            timers: Timers::default(),
            ahead: Prefetch::default(),
            met: FxHashMap::default(),
            access,
            has_written: false,
            tried: None,
            idle_max: limits::TRANSACTION_IDLE_MIN,
            forgotten_to: -1,
            inbox_state: InboxState::default(),
            appends: AppendState::default(),
            now: 0,
            identity: Identity::default(),
            durability: Durability::default(),
        }
    }

    /// Replaces a lost connection. What is on disk stays known; the server may have crashed without the rest.
    pub(super) fn relink(&mut self, link: Connection) {
        let durability = std::mem::take(&mut self.durability);
        let (meta, forgotten_to, generation) = (durability.durable, self.forgotten_to, self.generation + 1);
        *self = Tables {
            meta,
            generation,
            forgotten_to,
            // Nothing is known of other nodes.
            is_shared: true,
            appends: AppendState::behind(self.appends.gate),
            durability,
            ..Tables::new(link, self.access.of_next_transaction())
        };
    }

    /// The number of lanes whose counts are known.
    pub(super) fn lanes_known(&self) -> usize {
        self.counts.as_ref().map_or(0, |counts| counts.lanes.len())
    }

    /// Clears what was cached in a transaction that was not committed.
    pub(super) fn clear_caches(&mut self) {
        self.interned.clear();
        self.counts = None;
        self.floors.clear();
        self.running.forget();
        self.timers.clear();
        self.clear_transaction();
    }

    /// Clears what is not certain after a snapshot in which something was to be written. What was read stays known.
    pub(super) fn clear_writer_snapshot(&mut self) {
        if let Some(counts) = &mut self.counts {
            self.moved.iter().for_each(|((lane, state), by)| counts.add(lane, *state, -by));
        }
        self.floors.clear_own();
        self.running.forget();
        self.timers.clear();
        self.clear_transaction();
    }

    /// Clears the state of one transaction.
    pub(super) fn clear_transaction(&mut self) {
        self.moved.clear();
        self.running.clear_own();
        self.met.clear();
        self.ahead.begin();
        self.access = self.access.of_next_transaction();
        self.has_written = false;
        self.tried = None;
        self.appends.clear_transaction();
        self.link.abandon();
    }

    /// Whether this connection writes.
    pub(super) fn is_writer(&self) -> bool {
        self.access != Access::Read
    }

    /// To be called before every change.
    pub(super) fn begin_to_write(&mut self) -> EngineResult<()> {
        self.has_written = true;
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(StoreError::Database("a connection for reading was asked to write".into())),
            Access::WriterSnapshot => Err(StoreError::Database("a change needs the store's lock".into())),
        }
    }

    /// Sends a write of this transaction.
    pub(super) fn write(
        &mut self,
        sql: &str,
        values: Vec<super::parameter::Parameter>,
        expected: Option<(u64, &'static str)>,
    ) -> EngineResult<()> {
        self.begin_to_write()?;
        self.link.send(sql, values, expected)
    }
}
