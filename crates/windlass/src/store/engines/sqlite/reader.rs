//! Readers: threads with read-only connections. Each read is a short transaction of its own, so that no snapshot keeps
//! the log from restarting at its beginning.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::InterruptHandle;
use tokio_util::sync::CancellationToken;

use super::busy;
use super::damage;
use super::soundness::Soundness;
use super::tables::{Tables, store_error};
use crate::clock::Deadline;
use crate::store::engine::{EngineResult, ReadTask};
use crate::store::engines::sql::task_queue::TaskQueue;
use crate::store::engines::sql::thread::{catch_panic, panicked};
use crate::store::environment::Environment;
use crate::store::tx::cache::ConnectionCache;
use crate::store::tx::read_tx::ReadTx;

/// Steps of SQLite's virtual machine between two checks whether the answer is still wanted: some tenths of a
/// millisecond.
const STEPS_BETWEEN_CHECKS: i32 = 10_000;

/// The current read of a reader: odd while it reads, even between two reads.
pub(super) struct Turn {
    number: AtomicU64,
    handle: InterruptHandle,
}

impl Turn {
    /// The number of the current read or of the pause before it.
    pub(super) fn current(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }

    /// Whether the number is that of a read.
    pub(super) fn is_read(number: u64) -> bool {
        number % 2 == 1
    }

    /// Interrupts the running statement.
    pub(super) fn interrupt(&self) {
        self.handle.interrupt();
    }

    fn next(&self) {
        self.number.fetch_add(1, Ordering::Relaxed);
    }
}

/// A reader.
pub(super) struct Reader {
    tables: Tables,
    cache: ConnectionCache,
    env: Arc<Environment>,
    turn: Arc<Turn>,
    soundness: Arc<Soundness>,
}

impl Reader {
    /// A reader on its own connection.
    pub(super) fn new(tables: Tables, env: Arc<Environment>, soundness: Arc<Soundness>) -> Reader {
        let handle = tables.connection().get_interrupt_handle();
        let turn = Arc::new(Turn { number: AtomicU64::new(0), handle });
        Reader { tables, cache: ConnectionCache::default(), env, turn, soundness }
    }

    /// The counter of its reads.
    pub(super) fn turn(&self) -> Arc<Turn> {
        self.turn.clone()
    }

    /// Serves reads until the queue is closed and empty.
    pub(super) fn serve(mut self, inbox: &TaskQueue<Box<dyn ReadTask>>) {
        while inbox.wait() {
            // One at a time: another reader may be free for the next.
            for task in inbox.take(1) {
                self.read(task);
            }
        }
    }

    /// Serves only urgent reads until the queue is closed and empty.
    pub(super) fn serve_urgent(mut self, inbox: &TaskQueue<Box<dyn ReadTask>>) {
        while let Some(task) = inbox.next_urgent() {
            self.read(task);
        }
    }

    /// A read that never ends, to be interrupted.
    #[cfg(test)]
    pub(super) fn read_forever(&self) -> EngineResult<i64> {
        let endless =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        self.turn.next();
        self.tables.connection().query_row(endless, [], |row| row.get(0)).map_err(store_error)
    }

    fn read(&mut self, mut task: Box<dyn ReadTask>) {
        if task.is_withdrawn() {
            return;
        }
        // A read that is meant to be long is not shown, so that the change listener does not end it.
        let is_long = task.is_long();
        if !is_long {
            self.turn.next();
        }
        let mut outcome = self.soundness.check().and_then(|()| self.run_task(task.as_mut()));
        if !is_long {
            self.turn.next();
        }
        // Before the answer, so that nothing is acknowledged after it.
        if let Some(what) = damage::take() {
            outcome = Err(damage::stopped(&what));
            self.soundness.found(what);
        }
        catch_panic("answering a read", || task.done(outcome));
    }

    /// Ends statements once no caller waits for their answer, or its deadline has passed.
    pub(super) fn set_interrupt(
        &self,
        cancellation: CancellationToken,
        deadline: Option<Deadline>,
    ) -> EngineResult<()> {
        let is_over = move || cancellation.is_cancelled() || deadline.is_some_and(Deadline::is_over);
        let set = self.tables.connection().progress_handler(STEPS_BETWEEN_CHECKS, Some(is_over));
        set.map_err(store_error)
    }

    /// Lets statements run to their end again.
    fn clear_interrupt(&self) -> EngineResult<()> {
        self.tables.connection().progress_handler(0, None::<fn() -> bool>).map_err(store_error)
    }

    fn run_task(&mut self, task: &mut dyn ReadTask) -> EngineResult<()> {
        self.set_interrupt(task.cancellation(), task.deadline())?;
        let outcome = self.read_cancellable(task);
        // Before the snapshot is released, which must not be interrupted.
        let cleared = self.clear_interrupt();
        self.tables.end_read();
        outcome.and(cleared)
    }

    fn read_cancellable(&mut self, task: &mut dyn ReadTask) -> EngineResult<()> {
        let tables = &mut self.tables;
        busy::retry_while_locked(task.deadline(), || tables.begin_read())?;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let now = self.env.clock.now_after(self.tables.meta.stamp.at);
            task.run(&mut ReadTx::within(&mut self.tables, &mut self.cache, &self.env, now));
        }));
        outcome.map_err(|payload| {
            self.cache.clear();
            panicked(payload.as_ref())
        })
    }
}
