//! Commits that release the store's lock before they are on disk, and the barrier that makes them durable before
//! any caller is answered. The log is written in order: once a later, synchronous transaction is on disk, so is everything
//! that was visible to it. Until then no answer may depend on what was read.

use tokio_postgres::Row;

use crate::error::StoreError;
use crate::store::engine::EngineResult;
use crate::store::engines::postgres::connection::get;
use crate::store::engines::postgres::node_cache::{Commit, Meta};
use crate::store::engines::postgres::parameter::Parameter;
use crate::store::engines::postgres::tables::Tables;

/// A transaction that writes to the log, so that its commit waits for the disk; it changes nothing. It also shows
/// whether it sees a commit: behind a pooler the server may have crashed and come back without it.
const BARRIER: &str = "SELECT EXISTS (SELECT 1 FROM @.commits WHERE n = $1 AND nonce = $2), \
     set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' \
     ELSE current_setting('synchronous_commit') END, true), pg_logical_emit_message(true, 'windlass', '')";
/// With standbys that a commit waits for, others must not see it before they have it.
const HAS_STANDBYS: &str = "SELECT current_setting('synchronous_standby_names') <> ''";

/// What a connection knows about which commits are on disk.
#[derive(Debug, Default)]
pub(in super::super) struct Durability {
    /// The last commit that is certainly on disk.
    pub(in super::super) durable: Meta,
    /// Whether commits of this connection may release the lock before they are on disk.
    pub(in super::super) can_release_early: bool,
    /// Whether the current transaction does.
    pub(in super::super) is_early: bool,
    /// The last commit that this transaction has seen, if it may not be on disk.
    unflushed: Option<Meta>,
}

impl Durability {
    /// Records what a transaction sees.
    pub(in super::super) fn observe(&mut self, head: &Commit) {
        let is_known = (head.meta.commit, head.meta.nonce) == (self.durable.commit, self.durable.nonce);
        // A commit that cannot be seen before it is on disk is there together with everything before it.
        let is_durable = is_known || !head.is_early;
        self.unflushed = (!is_durable).then_some(head.meta);
        if is_durable {
            self.durable = head.meta;
        }
    }
}

impl Tables {
    /// Finds out whether the lock may be released before the disk has the commit: a role or a managed server may
    /// refuse what the barrier needs.
    pub(in super::super) fn try_barrier(&mut self) -> EngineResult<()> {
        let rows = self.link.fetch(HAS_STANDBYS, Vec::new())?;
        let has_standbys = rows.first().map_or(Ok(true), |row| get(row, 0))?;
        self.durability.can_release_early = !has_standbys
            && match self.link.fetch(BARRIER, barrier_values(self.meta)) {
                Ok(rows) => is_seen(&rows)?,
                Err(error @ StoreError::Database(_)) => {
                    tracing::info!(%error, "commits keep the store's lock until they are on disk");
                    false
                }
                Err(error) => return Err(error),
            };
        Ok(())
    }

    /// Prepares the barrier, so that nothing stands between a commit and it.
    pub(in super::super) fn prepare_barrier(&mut self) -> EngineResult<()> {
        self.link.prepare(BARRIER, &barrier_values(self.meta))
    }

    /// Commits so that the lock is released at once, and waits for the disk, in one message.
    pub(in super::super) fn release_and_flush(&mut self, made: Meta) -> EngineResult<()> {
        self.link.send_plain("COMMIT");
        let passed = self.link.fetch_last(BARRIER, barrier_values(made))?;
        if passed.as_ref().is_err_and(|error| matches!(error, StoreError::Database(_))) {
            self.durability.can_release_early = false;
        }
        // The commit is made, and no caller may be answered yet: its outcome is determined on another connection.
        self.check_passed(passed, made)
    }

    /// Ends a transaction that has written nothing, and waits until everything that it has seen is on disk.
    pub(in super::super) fn end_and_flush(&mut self, end: &'static str) -> EngineResult<()> {
        let Some(seen) = self.durability.unflushed else { return self.link.run(end) };
        self.link.send_plain(end);
        let passed = self.link.fetch_last(BARRIER, barrier_values(seen))?;
        self.check_passed(passed, seen)?;
        self.durability.unflushed = None;
        self.durability.durable = seen;
        Ok(())
    }

    /// Ends a snapshot. Its answers may be given only if this succeeds.
    pub(in super::super) fn end_read(&mut self) -> EngineResult<()> {
        self.clear_transaction();
        let ended = self.end_and_flush("ROLLBACK");
        if ended.is_err() {
            // What is open on it is unknown.
            self.link.mark_lost("the transaction could not be ended");
        }
        ended
    }

    fn check_passed(&mut self, passed: EngineResult<Vec<Row>>, commit: Meta) -> EngineResult<()> {
        let why = match passed.and_then(|rows| is_seen(&rows)) {
            Ok(true) => return Ok(()),
            Ok(false) => {
                format!("the database restarted without commit {}, which was not on disk", commit.commit)
            }
            Err(error) => format!("whether commit {} is on disk is not known: {error}", commit.commit),
        };
        self.link.mark_lost(&why);
        Err(StoreError::Unavailable(why))
    }
}

fn barrier_values(commit: Meta) -> Vec<Parameter> {
    vec![commit.commit.into(), commit.nonce.into()]
}

fn is_seen(rows: &[Row]) -> EngineResult<bool> {
    rows.first().map_or(Ok(false), |row| get(row, 0))
}
