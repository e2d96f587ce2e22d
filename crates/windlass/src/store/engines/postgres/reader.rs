//! Readers: threads with read-only connections. Each read is a short transaction of its own, on one snapshot, so that
//! it does not keep the database from cleaning up. The connection is made on first use.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::appends::backlog::Backlog;
use super::connection::Connection;
use super::connection::address::Address;
use super::connection::waits::{Closing, Waits};
use super::tables::{Access, Tables};
use crate::clock::{Deadline, Timestamp};
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::{EngineResult, ReadTask};
use crate::store::engines::sql::task_queue::TaskQueue;
use crate::store::engines::sql::thread::{catch_panic, panicked};
use crate::store::environment::{Environment, Timing};
use crate::store::tx::cache::ConnectionCache;
use crate::store::tx::read_tx::ReadTx;

/// A reader.
pub(super) struct Reader {
    tables: Option<Tables>,
    address: Address,
    cache: ConnectionCache,
    env: Arc<Environment>,
    closing: Closing,
    backlog: Arc<Backlog>,
}

impl Reader {
    /// A reader that is not connected yet.
    pub(super) fn new(
        address: Address,
        env: Arc<Environment>,
        closing: Closing,
        backlog: Arc<Backlog>,
    ) -> Reader {
        Reader { tables: None, address, cache: ConnectionCache::default(), env, closing, backlog }
    }

    /// Serves reads until the queue is closed and empty.
    pub(super) fn serve(mut self, inbox: &TaskQueue<Box<dyn ReadTask>>) {
        while inbox.wait() {
            // One at a time: another reader may be free for the next.
            for mut task in inbox.take(1) {
                let outcome = self.read(task.as_mut());
                catch_panic("answering a read", || task.done(outcome));
            }
        }
    }

    /// Serves only urgent reads until the queue is closed and empty.
    pub(super) fn serve_urgent(mut self, inbox: &TaskQueue<Box<dyn ReadTask>>) {
        while let Some(mut task) = inbox.next_urgent() {
            let outcome = self.read(task.as_mut());
            catch_panic("answering a read", || task.done(outcome));
        }
    }

    /// Reads until it is done, or the database has been unreachable for too long.
    fn read(&mut self, task: &mut dyn ReadTask) -> EngineResult<()> {
        let Timing { request_max, outage_max, .. } = self.env.timing;
        // Counted from when the request arrived, not from when it was dequeued.
        let asked = task.deadline().map(|until| until.minus(request_max.saturating_sub(outage_max)));
        let wait_limit = asked.unwrap_or_else(|| Deadline::after(outage_max));
        let mut pause = limits::RECONNECT_EVERY_MIN;
        loop {
            if task.is_withdrawn() {
                return Ok(());
            }
            let outcome = self.run_task(task);
            let is_lost = self.tables.as_ref().is_none_or(|tables| tables.link.lost().is_some());
            if !is_lost {
                return outcome;
            }
            self.tables = None;
            self.cache.clear();
            if task.is_withdrawn() {
                return Ok(());
            }
            if wait_limit.is_over() || self.closing.deadline().is_some_and(Deadline::is_over) {
                return Err(outcome
                    .err()
                    .unwrap_or_else(|| StoreError::Unavailable("the connection broke".to_owned())));
            }
            std::thread::sleep(pause.min(wait_limit.left()));
            pause = (pause * 2).min(limits::RECONNECT_EVERY_MAX);
        }
    }

    fn run_task(&mut self, task: &mut dyn ReadTask) -> EngineResult<()> {
        let waits = Waits {
            until: task.deadline(),
            call_max: Some(self.env.timing.call_max),
            closing: self.closing.clone(),
            cancellation: task.cancellation(),
        };
        let tables = match &mut self.tables {
            Some(tables) => {
                tables.link.waits = waits;
                tables
            }
            none => none.insert(Tables::new(Connection::connect_within(&self.address, waits)?, Access::Read)),
        };
        if let Err(error) = begin(tables, task, &self.backlog) {
            // Otherwise the transaction stays open, and every later one on this connection fails.
            tables.rollback();
            return Err(error);
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let now = self.env.clock.now_after(Timestamp::from_millis(tables.meta.at));
            task.run(&mut ReadTx::within(tables, &mut self.cache, &self.env, now));
        }));
        let ended = tables.end_read();
        outcome.map_err(|payload| {
            self.cache.clear();
            panicked(payload.as_ref())
        })?;
        ended
    }
}

/// Begins a snapshot that has every job that was appended before the read.
fn begin(tables: &mut Tables, task: &dyn ReadTask, backlog: &Backlog) -> EngineResult<()> {
    tables.begin_read(task.is_long())?;
    if tables.appends.is_any_missing()? {
        tables.end_read()?;
        backlog.take_in(task.deadline())?;
        // What has been appended since then was not answered before the read began.
        tables.begin_read(task.is_long())?;
    }
    Ok(())
}
