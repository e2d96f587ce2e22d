//! Commits that give the store's lock away before they are on disk, and the barrier that makes them durable before
//! anybody is answered. The log is written in order: once a later, synchronous transaction is on disk, so is everything
//! that was visible before it. Until then no answer may depend on what was read.

use std::time::Duration;

use super::connection::get;
use super::node_cache::{Commit, Meta};
use super::parameter::Parameter;
use super::tables::Tables;
use crate::clock::Deadline;
use crate::error::StoreError;
use crate::store::engine::EngineResult;

/// A transaction that writes to the log, so that its commit waits for the disk; it changes nothing.
const BARRIER: &str = "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' \
     THEN 'on' ELSE current_setting('synchronous_commit') END, true), pg_logical_emit_message(true, 'windlass', '')";
const FLUSHED: &str = "SELECT pg_is_in_recovery() OR (pg_current_wal_flush_lsn() - '0/0')::bigint >= $1";
/// With standbys that a commit waits for, others must not see it before they have it.
const HAS_STANDBYS: &str = "SELECT current_setting('synchronous_standby_names') <> ''";

/// How often the log is asked for if the role may not use the barrier.
const FLUSH_POLL_EVERY: Duration = Duration::from_millis(5);

/// What a connection knows about which commits are on disk.
#[derive(Debug, Default)]
pub(super) struct Durability {
    /// The last commit that is certainly on disk.
    pub(super) durable: Meta,
    /// Whether commits of this connection may give the lock away before they are on disk.
    pub(super) can_release_early: bool,
    /// Whether the current transaction does.
    pub(super) is_early: bool,
    /// The position up to which the log must be on disk before anything that this transaction has read is shown; `None`
    /// if it was when the transaction began.
    unflushed: Option<i64>,
}

impl Durability {
    /// Records what a transaction sees.
    pub(super) fn look(&mut self, head: &Commit) {
        let is_known = (head.meta.commit, head.meta.nonce) == (self.durable.commit, self.durable.nonce);
        // The log is on disk up to the last commit that cannot be seen before.
        let is_flushed = is_known || !head.is_early || head.flushed_to >= head.written_to;
        self.unflushed = (!is_flushed).then_some(head.written_to);
        if is_flushed {
            self.durable = head.meta;
        }
    }
}

impl Tables {
    /// Finds out whether the lock may be given away before the disk has the commit.
    pub(super) fn try_barrier(&mut self) -> EngineResult<()> {
        let rows = self.link.fetch(HAS_STANDBYS, Vec::new())?;
        let has_standbys = rows.first().map_or(Ok(true), |row| get(row, 0))?;
        self.durability.can_release_early = !has_standbys && self.pass_barrier()?;
        Ok(())
    }

    /// Commits so that the lock is given away at once, and waits for the disk, in one message.
    pub(super) fn release_and_flush(&mut self) -> EngineResult<()> {
        self.link.send_plain("COMMIT");
        if let Err(error) = self.link.fetch_last(BARRIER, Vec::new())? {
            // The commit is made, and nobody may hear of it yet: its outcome is determined on another connection.
            self.link.mark_lost(&format!("whether a commit is on disk is not known: {error}"));
            return Err(StoreError::Away("the connection broke during a commit".to_owned()));
        }
        Ok(())
    }

    /// Ends a transaction that has written nothing, and waits until everything that it has seen is on disk.
    pub(super) fn end_and_flush(&mut self, end: &'static str) -> EngineResult<()> {
        let Some(position) = self.durability.unflushed else { return self.link.run(end) };
        self.link.send_plain(end);
        if !self.is_flushed_to(position)? && !self.pass_barrier()? {
            // The server writes it soon without being asked.
            while !self.is_flushed_to(position)? {
                if self.link.waits.until.is_some_and(Deadline::is_over) {
                    return Err(StoreError::Away("the log is not written to disk".to_owned()));
                }
                std::thread::sleep(FLUSH_POLL_EVERY);
            }
        }
        self.durability.unflushed = None;
        self.durability.durable = self.meta;
        Ok(())
    }

    /// Ends a snapshot. Its answers may be given only if this succeeds.
    pub(super) fn end_read(&mut self) -> EngineResult<()> {
        self.clear_transaction();
        let ended = self.end_and_flush("ROLLBACK");
        if ended.is_err() {
            // What is open on it is unknown.
            self.link.mark_lost("the transaction could not be ended");
        }
        ended
    }

    fn is_flushed_to(&mut self, position: i64) -> EngineResult<bool> {
        let rows = self.link.fetch(FLUSHED, vec![Parameter::from(position)])?;
        rows.first().map_or(Ok(false), |row| get(row, 0))
    }

    /// Waits until everything before is on disk; false if the role may not ask for that.
    fn pass_barrier(&mut self) -> EngineResult<bool> {
        match self.link.fetch(BARRIER, Vec::new()) {
            Ok(_) => Ok(true),
            Err(error @ StoreError::Database(_)) => {
                tracing::info!(%error, "commits keep the store's lock until they are on disk");
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}
