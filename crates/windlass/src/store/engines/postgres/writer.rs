//! The writer of this node: takes all waiting tasks, runs them in one transaction, and answers after the commit. A
//! broken connection is replaced; the outcome of a commit whose answer was lost is determined before anything is
//! repeated.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

mod read_ahead;

use super::appends::backlog::Backlog;
use super::connection::Connection;
use super::connection::address::Address;
use super::connection::waits::{Closing, Waits};
use super::idle_limit::IdleLimit;
use super::migrate;
use super::node_cache::Meta;
use super::notifications::{EVERYTHING, Notifications};
use super::prefetch::PrefetchHints;
use super::sql_submit::{Inbox, InboxStatus};
use super::tables::Tables;
use super::transaction::CommitFate;
use crate::clock::{Deadline, Stopwatch, Timestamp};
use crate::entropy::Entropy;
use crate::error::StoreError;
use crate::limits;
use crate::store::engine::{EngineResult, ReadTask, WriteTask};
use crate::store::engines::sql::task_queue::TaskQueue;
use crate::store::engines::sql::thread::{catch_panic, panicked};
use crate::store::environment::{Environment, Timing};
use crate::store::tx::cache::ConnectionCache;
use crate::store::tx::group_commit;
use crate::store::tx::write_tx::Effects;

/// Requests that share a commit.
type Group = Vec<Box<dyn WriteTask>>;
/// Requests that wait for the next commit.
type Arrivals = TaskQueue<Box<dyn WriteTask>>;

/// The writer.
pub(super) struct Writer {
    pub(super) tables: Tables,
    pub(super) address: Address,
    pub(super) env: Arc<Environment>,
    pub(super) cache: ConnectionCache,
    pub(super) notifications: Arc<Notifications>,
    inbox: Arc<Inbox>,
    backlog: Arc<Backlog>,
    /// Nonces of commits, so that one can be recognised after its answer was lost. Separate from the store's entropy,
    /// whose output must not depend on the engine.
    nonces: Entropy,
    /// The number of this node; the upper half of its nonces.
    node: i32,
    lock: i64,
    closing: Closing,
    /// Whether a commit with an unknown outcome was given up: no waiter was woken for it.
    has_unknown: bool,
    /// Whether the last group found nothing to write but signs of life: maintenance and claims that have waited then look
    /// before they take the lock.
    was_idle: bool,
    /// Whether claims were made here, or none could have been yet: then what they read first is read before the lock is taken.
    serves_claims: bool,
    /// How long a transaction may be idle.
    idle: IdleLimit,
}

/// A commit whose answer was lost.
struct Unknown {
    /// Its number and nonce.
    tried: (i64, i64),
    effects: Effects,
}

/// The result of an attempt to commit.
enum Attempt {
    /// It is on disk, under this number if there was anything to write.
    Committed(Effects, Option<i64>),
    /// Nothing was committed.
    Refused(StoreError),
    /// The connection broke before the commit was sent: nothing was committed.
    Lost(StoreError),
    /// The connection broke while the commit was in progress.
    Unknown(Unknown),
}

impl Writer {
    /// A writer on its own connection.
    pub(super) fn new(
        tables: Tables,
        address: Address,
        env: Arc<Environment>,
        notifications: Arc<Notifications>,
        (inbox, backlog): (Arc<Inbox>, Arc<Backlog>),
        closing: Closing,
    ) -> Writer {
        let lock = address.lock_key("write");
        let nonces = Entropy::from_system();
        let node = low_half(nonces.bits());
        let (cache, has_unknown) = (ConnectionCache::default(), false);
        let mut writer = Writer {
            tables,
            address,
            env,
            cache,
            notifications,
            inbox,
            backlog,
            nonces,
            node,
            lock,
            closing,
            has_unknown,
            was_idle: false,
            serves_claims: true,
            idle: IdleLimit::default(),
        };
        writer.tables.link.waits = writer.waits(None);
        writer.tables.appends.gate = writer.address.append_gate();
        writer.backlog.know(writer.tables.durability.durable.into());
        writer
    }

    /// The number of this node.
    pub(super) fn node(&self) -> i32 {
        self.node
    }

    /// Runs write tasks until the queue is closed and empty, or until the store must stop.
    pub(super) fn serve(mut self, writes: &Arrivals, reads: &TaskQueue<Box<dyn ReadTask>>) {
        while writes.wait() {
            let tasks = writes.take(limits::WRITES_PER_GROUP_MAX);
            if let Err(error) = self.commit(tasks, Some(writes)) {
                tracing::error!(%error, "the store stops");
                // Readers first: a caller that learns from the writer that the store has stopped finds the readers
                // stopped too.
                for task in reads.stop(&error) {
                    catch_panic("refusing a read", || task.done(Err(error.clone())));
                }
                group_refuse(writes.stop(&error), &error);
            }
        }
    }

    /// Runs a group's tasks and answers all of them; tasks that arrive while it waits for the lock join it. Returns an
    /// error only if nothing may be acknowledged any more.
    fn commit(&mut self, mut tasks: Group, arriving: Option<&Arrivals>) -> EngineResult<()> {
        if tasks.is_empty() {
            return Ok(());
        }
        let mut outcome = self.persist(&mut tasks, arriving);
        if outcome.is_err() && self.tables.inbox_state.is_unread {
            // A key is used by an inbox entry: that one came first, and is processed first.
            self.commit(vec![Box::new(InboxStatus::new(self.inbox.clone()))], None)?;
            outcome = self.persist(&mut tasks, None);
        }
        if outcome.is_err() && self.tables.appends.is_behind {
            // Jobs were appended before the configuration changes: they are taken in first, in the same commit.
            outcome = self.persist(&mut tasks, None);
        }
        self.tables.appends.is_behind = false;
        match outcome {
            Ok((effects, number)) => {
                self.backlog.know(self.tables.durability.durable.into());
                if let Some(number) = number {
                    self.backlog.taken_in();
                    self.notifications.committed(&effects, number);
                }
                let (env, cache) = (self.env.clone(), &mut self.cache);
                catch_panic("answering a write", || group_commit::answer(&env, cache, effects, tasks));
                Ok(())
            }
            // One of them causes the error, and fails alone: the others are run again without it.
            Err(StoreError::Damaged(_) | StoreError::Database(_)) if tasks.len() > 1 => {
                self.commit_halves(tasks)
            }
            Err(StoreError::Overloaded { .. })
                if tasks.len() > 1 && self.tables.inbox_state.is_in_the_way() =>
            {
                self.commit_halves(tasks)
            }
            Err(StoreError::Full) if tasks.len() > 1 && tasks.iter().any(|task| task.adds_jobs()) => {
                let (refused, others) = tasks.into_iter().partition(|task| task.adds_jobs());
                group_refuse(refused, &StoreError::Full);
                self.commit(others, None)
            }
            Err(error) => {
                group_refuse(tasks, &error);
                if matches!(error, StoreError::Stopped(_)) { Err(error) } else { Ok(()) }
            }
        }
    }

    /// In halves rather than one by one: most tasks of a large group wait for a few more commits, not for a thousand.
    fn commit_halves(&mut self, mut tasks: Group) -> EngineResult<()> {
        let others = tasks.split_off(tasks.len() / 2);
        self.commit(tasks, None)?;
        self.commit(others, None)
    }

    /// Tries until it is known whether the group's changes are on disk, or the time limit is reached. Returns the
    /// effects, and the commit's number if there was one.
    fn persist(
        &mut self,
        tasks: &mut Group,
        arriving: Option<&Arrivals>,
    ) -> EngineResult<(Effects, Option<i64>)> {
        let mut unknown: Option<Unknown> = None;
        let no_caller_waits = Deadline::after(self.env.timing.outage_max);
        loop {
            if unknown.is_none() {
                tasks.retain(|task| !task.is_withdrawn());
                if tasks.is_empty() {
                    return Ok((Effects::default(), None));
                }
            }
            // Requests with earlier deadlines are answered earlier; no request waits for the group beyond this.
            let until = tasks.iter().map(|task| task.deadline()).max().flatten();
            self.tables.link.waits = self.waits(until);
            self.tables.idle_max = self.idle.begin(self.tables.link.round_trip());
            let error = match self.attempt_again(tasks, arriving, &mut unknown) {
                Attempt::Committed(effects, number) => {
                    self.was_idle = number.is_none() || self.was_idle && effects.is_quiet();
                    self.idle.committed();
                    return Ok((effects, number));
                }
                Attempt::Refused(error) if self.is_early(&error, until) => continue,
                Attempt::Refused(error) => return Err(error),
                Attempt::Lost(error) => error,
                Attempt::Unknown(lost) => {
                    unknown = Some(lost);
                    StoreError::Unavailable("the connection broke during a commit".to_owned())
                }
            };
            self.idle.lost();
            let Timing { request_max, outage_max, .. } = self.env.timing;
            let outage =
                until.map_or(no_caller_waits, |until| until.minus(request_max.saturating_sub(outage_max)));
            let is_given_up = outage.is_over() && unknown.is_some();
            let lost = if is_given_up { Err(error.clone()) } else { self.reconnect(outage, until) };
            if let Err(error) = lost {
                self.has_unknown |= unknown.is_some();
                return Err(if unknown.is_some() { not_known(error) } else { error });
            }
            self.was_idle = false;
            tracing::info!(%error, "reconnected to the database");
        }
    }

    /// Whether the server gave up the wait for the lock too early: it uses its wall clock, which may have jumped.
    fn is_early(&self, error: &StoreError, until: Option<Deadline>) -> bool {
        let is_lock =
            matches!(error, StoreError::Overloaded { .. }) && !self.tables.inbox_state.is_in_the_way();
        is_lock && until.is_some_and(|until| !until.is_over())
    }

    fn waits(&self, until: Option<Deadline>) -> Waits {
        Waits {
            until,
            call_max: Some(self.env.timing.call_max),
            closing: self.closing.clone(),
            ..Waits::default()
        }
    }

    fn attempt_again(
        &mut self,
        tasks: &mut Group,
        arriving: Option<&Arrivals>,
        unknown: &mut Option<Unknown>,
    ) -> Attempt {
        if let Some(lost) = unknown.take() {
            let found = self
                .tables
                .begin_write(self.lock, None, PrefetchHints::default)
                .and_then(|_| self.tables.fate(lost.tried))
                .and_then(|fate| self.tables.end_and_flush("ROLLBACK").map(|()| fate));
            if found.is_err() {
                self.tables.rollback();
            }
            match found {
                Ok(CommitFate::Made) => {
                    self.cache.clear();
                    return Attempt::Committed(lost.effects, Some(lost.tried.0));
                }
                Ok(CommitFate::NotMade) => self.undo(tasks),
                // Repeating it might apply it twice.
                Ok(CommitFate::Forgotten) => {
                    self.has_unknown = true;
                    let why =
                        "the connection broke during a commit, and the commits of that time were removed";
                    return Attempt::Refused(not_known(StoreError::Unavailable(why.to_owned())));
                }
                Err(error @ StoreError::Stopped(_)) => return self.refused(error),
                // It must not be reported as not done: the old connection may hold the lock because its commit waits
                // for a standby.
                Err(error) => {
                    tracing::warn!(%error, "the outcome of a commit is not known yet");
                    return Attempt::Unknown(lost);
                }
            }
        }
        self.attempt(tasks, arriving)
    }

    fn attempt(&mut self, tasks: &mut Group, arriving: Option<&Arrivals>) -> Attempt {
        // Before anything that can fail: numbers of an earlier commit must not come again.
        self.env.entropy.mark();
        let work = catch_unwind(AssertUnwindSafe(|| self.transact(tasks, arriving)));
        let outcome = work.unwrap_or_else(|payload| Err(panicked(payload.as_ref())));
        let error = match outcome {
            Ok(done) => return done,
            Err(error) => error,
        };
        self.roll_back(tasks);
        if self.tables.link.lost().is_some() && !matches!(error, StoreError::Stopped(_)) {
            return Attempt::Lost(error);
        }
        self.refused(error)
    }

    /// Nothing was committed. If that is because acknowledged commits are missing, their claims are fenced first.
    fn refused(&mut self, error: StoreError) -> Attempt {
        if self.tables.identity.loss.is_some()
            && let Err(error) = self.fence_off_loss()
        {
            tracing::error!(%error, "run `windlass restore` on the database: its generation could not be raised");
        }
        Attempt::Refused(error)
    }

    /// Acknowledged commits are missing, and this node stops. Before that, a new generation begins in the current
    /// database: workers from before the loss must not write to jobs that other nodes assign from here on.
    fn fence_off_loss(&mut self) -> EngineResult<()> {
        self.tables.meta = Meta::default();
        // Nothing may be appended meanwhile: this is not repeated.
        self.tables.appends.is_behind = true;
        let fenced = self.transact(&mut Vec::new(), None);
        self.tables.appends.is_behind = false;
        self.tables.rollback();
        self.tables.clear_caches();
        self.cache.clear();
        fenced.map(drop)
    }

    /// Undoes an attempt that was not committed.
    fn roll_back(&mut self, tasks: &mut Group) {
        self.tables.rollback();
        self.tables.clear_caches();
        self.cache.clear();
        self.undo(tasks);
    }

    /// Prepares the tasks to be run again.
    fn undo(&mut self, tasks: &mut Group) {
        self.env.entropy.back_to_mark();
        for task in tasks {
            task.undone();
        }
    }

    /// Runs all tasks in the current transaction, which the database began at `now`; returns their effects, and the
    /// store's time.
    fn run(&mut self, tasks: &mut Group, now: i64, asked: Duration) -> EngineResult<(Effects, Timestamp)> {
        let now = self.begin_tasks(now, asked)?;
        let effects = group_commit::run(&mut self.tables, &mut self.cache, &self.env, now, tasks)?;
        Ok((effects, now))
    }

    fn begin_tasks(&mut self, now: i64, asked: Duration) -> EngineResult<Timestamp> {
        let last = self.tables.read_appends()?;
        let now = self.env.clock.commit_by(last, Timestamp::from_millis(now), asked);
        self.tables.now = now.as_millis();
        Ok(now)
    }

    /// Takes the lock, with the first reads of these tasks and of those that arrive meanwhile; returns the database's time and
    /// when it was asked for.
    fn begin_turn(
        &mut self,
        tasks: &mut Group,
        arriving: Option<&Arrivals>,
    ) -> EngineResult<(i64, Duration)> {
        let asked = self.env.clock.elapsed();
        self.tables.expect(self.backlog.all_answered());
        let cache = &self.cache;
        let now = self.tables.begin_write(self.lock, arriving, || {
            let weight: usize = tasks.iter().map(|task| task.weight()).sum();
            if let Some(arriving) = arriving.filter(|_| weight < limits::GROUP_JOBS_MAX) {
                tasks.extend(arriving.take(limits::WRITES_PER_GROUP_MAX.saturating_sub(tasks.len())));
            }
            PrefetchHints::new(tasks, cache)
        })?;
        Ok((now, asked))
    }

    fn transact(&mut self, tasks: &mut Group, arriving: Option<&Arrivals>) -> EngineResult<Attempt> {
        let is_probably_idle = self.was_idle && !self.has_unknown && !tasks.is_empty();
        if is_probably_idle
            && tasks.iter().all(|task| task.is_often_idle())
            && let Some(idle) = self.run_idle(tasks)?
        {
            return Ok(idle);
        }
        self.read_ahead(tasks)?;
        let known = self.tables.lanes_known();
        let (mut now, mut asked) = self.begin_turn(tasks, arriving)?;
        if self.has_lost_lanes(known, tasks) {
            // The lock is released: other nodes do not wait while they are read.
            self.tables.has_looked_past_others = true;
            self.tables.rollback();
            self.read_ahead(tasks)?;
            (now, asked) = self.begin_turn(tasks, arriving)?;
        }
        if std::mem::take(&mut self.has_unknown) {
            // A commit that was given up may have succeeded: no waiter was woken for it.
            self.env.wakeups.changed_by_others();
            self.notifications.add(EVERYTHING);
        }
        let (effects, now) = self.run(tasks, now, asked)?;
        // Any error of the writes is reported before the commit is sent, or by it.
        let nonce = (i64::from(self.node) << 32) | i64::from(low_half(self.nonces.bits()).cast_unsigned());
        let watch = Stopwatch::start();
        let before = self.tables.meta.commit;
        match self.tables.commit(nonce, now.as_millis()) {
            Ok(()) => {
                self.env.metrics.committed(tasks.len(), watch.elapsed());
                self.backlog.remove_contained(&self.tables.appends.expected);
                let number = self.tables.meta.commit;
                Ok(Attempt::Committed(effects, (number != before).then_some(number)))
            }
            Err(error) => match self.tables.tried {
                Some(tried) if self.tables.link.lost().is_some() => {
                    self.tables.clear_caches();
                    self.cache.clear();
                    Ok(Attempt::Unknown(Unknown { tried, effects }))
                }
                // The database refused it, or it was not sent: nothing was committed.
                _ => Err(error),
            },
        }
    }

    /// Replaces the connection, trying until `wait_limit` ends.
    fn reconnect(&mut self, wait_limit: Deadline, until: Option<Deadline>) -> EngineResult<()> {
        self.cache.clear();
        let mut pause = limits::RECONNECT_EVERY_MIN;
        loop {
            if self.closing.deadline().is_some_and(Deadline::is_over) {
                return Err(StoreError::Unavailable("the store is being closed".to_owned()));
            }
            let error = match connect(&self.address, self.waits(until)) {
                Ok(link) => {
                    self.tables.relink(link);
                    return Ok(());
                }
                Err(error) => error,
            };
            if wait_limit.is_over() {
                return Err(error);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(limits::RECONNECT_EVERY_MAX);
        }
    }
}

/// The same error for callers whose change has an unknown outcome.
pub(super) fn not_known(error: StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(why) => {
            StoreError::Unavailable(format!("{why}; whether the last change was made is not known"))
        }
        error => error,
    }
}

/// A connection to a writable server.
pub(super) fn connect(address: &Address, waits: Waits) -> EngineResult<Connection> {
    let mut link = Connection::connect_within(address, waits)?;
    migrate::refuse_standby(&mut link)?;
    Ok(link)
}

/// 32 of the random bits.
fn low_half(bits: u128) -> i32 {
    let [.., a, b, c, d] = bits.to_be_bytes();
    i32::from_be_bytes([a, b, c, d])
}

fn group_refuse(tasks: Group, error: &StoreError) {
    catch_panic("refusing a write", || group_commit::refuse(tasks, error));
}
