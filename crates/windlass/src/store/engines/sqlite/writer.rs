//! The writer: takes all waiting tasks, runs them in one transaction, and answers after the fsync. Requests that arrive
//! meanwhile form the next group, so no request waits for a group to fill.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::busy;
use super::change_listener::OwnCommits;
use super::checkpoint;
use super::damage;
use super::disk_reserve::Reserve;
use super::head_marker::Marker;
use super::log_length::LogLength;
use super::open::{self, Identity};
use super::soundness::Soundness;
use super::tables::Tables;
use crate::clock::Stopwatch;
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::{EngineResult, ReadTask, WriteTask};
use crate::store::engines::sql::task_queue::TaskQueue;
use crate::store::engines::sql::thread::{catch_panic, panicked};
use crate::store::environment::Environment;
use crate::store::tx::cache::ConnectionCache;
use crate::store::tx::group_commit;
use crate::store::tx::write_tx::Effects;

/// Requests that share a commit.
type Group = Vec<Box<dyn WriteTask>>;

/// The writer.
pub(super) struct Writer {
    pub(super) tables: Tables,
    pub(super) env: Arc<Environment>,
    pub(super) identity: Identity,
    pub(super) log: LogLength,
    pub(super) marker: Marker,
    pub(super) reserve: Reserve,
    pub(super) own: Arc<OwnCommits>,
    pub(super) cache: ConnectionCache,
    pub(super) soundness: Arc<Soundness>,
}

impl Writer {
    /// Runs write tasks until the queue is closed and empty, or until storage fails.
    pub(super) fn serve(
        mut self,
        writes: &TaskQueue<Box<dyn WriteTask>>,
        reads: &TaskQueue<Box<dyn ReadTask>>,
    ) {
        if let Err(error) = self.serve_all(writes) {
            tracing::error!(%error, "the store stops");
            // Readers first: a caller that learns from the writer that the store has stopped finds the readers stopped
            // too.
            for task in reads.stop(&error) {
                catch_panic("refusing a read", || task.done(Err(error.clone())));
            }
            group_refuse(writes.stop(&error), &error);
            // Whatever went wrong, checkpointing the log now could make it worse.
            if let Err(error) = open::leave_log(self.tables.connection()) {
                tracing::error!(%error, "failed to disable the WAL checkpoint on close");
            }
        }
    }

    fn serve_all(&mut self, writes: &TaskQueue<Box<dyn WriteTask>>) -> EngineResult<()> {
        loop {
            let tasks = writes.take(limits::WRITES_PER_GROUP_MAX);
            if !tasks.is_empty() {
                self.commit(tasks)?;
                continue;
            }
            self.cut_long_log()?;
            if !writes.wait() {
                return self.finish_group(checkpoint::cut(self.tables.connection()));
            }
        }
    }

    /// Runs a group's tasks and answers all of them. Returns an error only if nothing may be acknowledged any more.
    pub(super) fn commit(&mut self, mut tasks: Group) -> EngineResult<()> {
        tasks.retain(|task| !task.is_withdrawn());
        let adds_jobs = tasks.iter().any(|task| task.adds_jobs());
        if adds_jobs && !self.has_space()? {
            tasks = refuse_new_jobs(tasks);
        }
        if tasks.is_empty() {
            return Ok(());
        }
        let mut outcome = self.attempt(&mut tasks);
        if outcome.as_ref().is_err_and(|error| *error == StoreError::Full) {
            self.make_room()?;
            tasks = refuse_new_jobs(tasks);
            outcome = self.attempt(&mut tasks);
        }
        match outcome {
            Ok(effects) => {
                let (env, cache) = (self.env.clone(), &mut self.cache);
                catch_panic("answering a write", || group_commit::answer(&env, cache, effects, tasks));
                let moved = checkpoint::after_commit(self.tables.connection());
                self.finish_group(moved)
            }
            // One of them causes the error, and fails alone: the others are run again without it.
            Err(StoreError::Damaged(_) | StoreError::Database(_)) if tasks.len() > 1 => {
                tasks.into_iter().try_for_each(|task| self.commit(vec![task]))
            }
            Err(error) => {
                group_refuse(tasks, &error);
                if matches!(error, StoreError::Stopped(_)) { Err(error) } else { Ok(()) }
            }
        }
    }

    fn attempt(&mut self, tasks: &mut Group) -> EngineResult<Effects> {
        if tasks.is_empty() {
            return Ok(Effects::default());
        }
        let work = catch_unwind(AssertUnwindSafe(|| self.transact(tasks)));
        let outcome = work.unwrap_or_else(|payload| Err(panicked(payload.as_ref())));
        if outcome.is_err() {
            self.tables.rollback();
            self.cache.clear();
            for task in tasks.iter_mut() {
                task.undone();
            }
        }
        // A later commit could be lost with the damaged pages.
        outcome.map_err(|error| match error {
            StoreError::Damaged(what) if damage::is_of_file(&what) => damage::stopped(&what),
            error => error,
        })
    }

    fn transact(&mut self, tasks: &mut Group) -> EngineResult<Effects> {
        self.identity.check()?;
        self.soundness.check()?;
        self.log.check(self.tables.connection())?;
        let tables = &mut self.tables;
        let changes = tables.connection().total_changes();
        let until = tasks.iter().map(|task| task.deadline()).max().flatten();
        busy::retry_while_locked(until, || tables.begin_write())?;
        // Read after the lock is held, so that later commits do not have earlier times.
        let now = self.env.clock.commit(self.tables.meta.stamp.at);
        self.tables.meta.stamp = self.env.clock.stamp(now);
        let effects = group_commit::run(&mut self.tables, &mut self.cache, &self.env, now, tasks)?;
        let tables = &mut self.tables;
        let env = &self.env;
        let number = self.own.make(|| {
            let watch = Stopwatch::start();
            let number = tables.commit()?;
            env.metrics.committed(tasks.len(), watch.elapsed());
            Ok((number, tables.connection().total_changes() != changes))
        })?;
        // Checked again, because the commit went to the file that is open: it counts only if it can be found under its
        // name.
        self.identity.check()?;
        self.soundness.check()?;
        self.log.note();
        self.marker.advance(number);
        Ok(effects)
    }

    /// Whether there is space for new jobs in addition to what running work needs to finish.
    fn has_space(&mut self) -> EngineResult<bool> {
        let connection = self.tables.connection();
        let mut moved = Ok(());
        let is_held = self.reserve.is_held(self.env.clock.now(), || {
            moved = checkpoint::cut(connection);
            checkpoint::free_bytes(connection).unwrap_or(0)
        });
        let is_full = matches!(moved, Err(StoreError::Full));
        self.finish_group(moved)?;
        Ok(is_held && !is_full)
    }

    /// Lets running work finish on a full disk.
    fn make_room(&mut self) -> EngineResult<()> {
        tracing::error!("the disk is full: running jobs can finish, but submissions are refused");
        self.reserve.release(self.env.clock.now());
        // With its pages moved the log restarts from its beginning, and needs no more space for a while.
        let moved = checkpoint::move_now(self.tables.connection());
        self.finish_group(moved)
    }

    fn cut_long_log(&mut self) -> EngineResult<()> {
        if self.log.bytes() > limits::LOG_BYTES_MAX {
            let outcome = checkpoint::cut(self.tables.connection());
            return self.finish_group(outcome);
        }
        Ok(())
    }

    /// An error during a checkpoint belongs to no request; only a failed fsync and damage concern all.
    pub(super) fn finish_group(&mut self, moved: EngineResult<()>) -> EngineResult<()> {
        match moved {
            Err(error @ StoreError::Stopped(_)) => return Err(error),
            Err(StoreError::Damaged(what)) if damage::is_of_file(&what) => {
                return Err(damage::stopped(&what));
            }
            Err(StoreError::Full) => self.reserve.release(self.env.clock.now()),
            Err(error) => tracing::warn!(%error, "WAL checkpoint failed"),
            Ok(()) => {}
        }
        Ok(())
    }
}

/// Refuses submissions because the disk is full; returns the other tasks.
fn refuse_new_jobs(tasks: Group) -> Group {
    let (refused, others) = tasks.into_iter().partition(|task| task.adds_jobs());
    group_refuse(refused, &StoreError::Full);
    others
}

fn group_refuse(tasks: Group, error: &StoreError) {
    catch_panic("refusing a write", || group_commit::refuse(tasks, error));
}
