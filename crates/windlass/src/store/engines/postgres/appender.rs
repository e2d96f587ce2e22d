//! Appenders: threads that store submissions which depend on nothing stored, without the store's lock. Whatever cannot be
//! appended is passed on to the writer, and so is the question whether an append whose answer was lost was made.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

use super::address::Address;
use super::appends::{AppendState, KnownCommit, encode};
use super::notifications::Notifications;
use super::tables::{Access, Tables};
use super::waits::{Closing, Waits};
use super::writer;
use crate::clock::{Deadline, Stopwatch, Timestamp};
use crate::entropy::Entropy;
use crate::error::StoreError;
use crate::job::JobId;
use crate::limits;
use crate::store::documents::minute_stats::Rates;
use crate::store::engine::{AppendedJobs, EngineResult, WriteTask};
use crate::store::engines::sql::panic::{catch_panic, panicked};
use crate::store::engines::sql::task_queue::TaskQueue;
use crate::store::environment::Environment;
use crate::store::tx::cache::ConnectionCache;
use crate::store::tx::group_commit::{self, NotAppended};
use crate::store::tx::write_tx::{Effects, WriteTx};

/// Submissions that share an append.
type Group = Vec<Box<dyn WriteTask>>;

/// What appenders, readers and the writer of a node share about appended jobs.
pub(super) struct Backlog {
    writes: Arc<TaskQueue<Box<dyn WriteTask>>>,
    /// Jobs that this node has appended since its writer last took everything in.
    jobs: AtomicUsize,
    /// Whether the writer was told to.
    is_called: AtomicBool,
    /// Commits of this node, each of which may have added lanes.
    commits: AtomicUsize,
}

impl Backlog {
    pub(super) fn new(writes: Arc<TaskQueue<Box<dyn WriteTask>>>) -> Backlog {
        Backlog {
            writes,
            jobs: AtomicUsize::new(0),
            is_called: AtomicBool::new(false),
            commits: AtomicUsize::new(0),
        }
    }

    /// Whether so much was appended that more must wait for its turn.
    pub(super) fn is_full(&self) -> bool {
        self.jobs.load(Ordering::Relaxed) >= limits::APPENDED_AHEAD_MAX
    }

    /// Records that a commit of this node has taken in everything.
    pub(super) fn taken_in(&self) {
        self.jobs.store(0, Ordering::Relaxed);
        self.is_called.store(false, Ordering::Relaxed);
        self.commits.fetch_add(1, Ordering::AcqRel);
    }

    fn added(&self, jobs: usize) {
        let before = self.jobs.fetch_add(jobs, Ordering::Relaxed);
        if before + jobs >= limits::APPENDED_TAKEN_IN_AFTER && !self.is_called.swap(true, Ordering::Relaxed) {
            // If the queue is full, there are commits enough.
            let _refused = self.writes.put(Box::new(TakeIn { until: None, done: None }), false);
        }
    }

    /// Has the writer take in what was appended so far, and waits for it.
    pub(super) fn take_in(&self, until: Option<Deadline>) -> EngineResult<()> {
        let (done, wait) = mpsc::sync_channel(1);
        let task = TakeIn { until, done: Some(done) };
        if let Err((_, refusal)) = self.writes.put(Box::new(task), true) {
            return Err(refusal);
        }
        let most = until.map_or(limits::LOCK_WAIT_MAX, Deadline::left);
        wait.recv_timeout(most).unwrap_or_else(|_| {
            Err(StoreError::TooSlow("submissions before it were not processed in time".to_owned()))
        })
    }
}

/// Makes a commit, which takes in what was appended.
struct TakeIn {
    until: Option<Deadline>,
    done: Option<mpsc::SyncSender<EngineResult<()>>>,
}

impl WriteTask for TakeIn {
    fn run(&mut self, _: &mut WriteTx<'_>) {}

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        if let Some(done) = self.done {
            // The reader may have stopped waiting.
            let _ = done.send(outcome);
        }
    }

    fn adds_jobs(&self) -> bool {
        false
    }

    fn is_urgent(&self) -> bool {
        self.done.is_some()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.until
    }
}

/// Submissions whose append was not answered: they are submitted again unless it was made.
struct Unanswered {
    tasks: Group,
    nonce: i64,
    since: i64,
    jobs: usize,
}

impl Unanswered {
    fn repeat(&mut self, tx: &mut WriteTx<'_>) -> EngineResult<()> {
        let made = tx.raw(|db| {
            let appends = db.appends().expect("PostgreSQL appends");
            appends.was_appended(self.nonce, self.since)
        })?;
        match made {
            Some(true) => Ok(()),
            Some(false) => {
                for task in &mut self.tasks {
                    task.undone();
                    task.run(tx);
                }
                Ok(())
            }
            None => Err(StoreError::Away("whether the last change was made is not known".to_owned())),
        }
    }
}

impl WriteTask for Unanswered {
    fn run(&mut self, tx: &mut WriteTx<'_>) {
        if let Err(error) = self.repeat(tx) {
            tx.abort(&error);
        }
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        // Whatever kept it from being looked up: it may have been made.
        let outcome = outcome.map_err(|error| writer::not_known(StoreError::Away(error.to_string())));
        self.tasks.into_iter().for_each(|task| task.done(outcome.clone()));
    }

    fn adds_jobs(&self) -> bool {
        true
    }

    fn is_urgent(&self) -> bool {
        false
    }

    fn weight(&self) -> usize {
        self.jobs
    }

    fn names(&self) -> &[JobId] {
        &[]
    }

    fn deadline(&self) -> Option<Deadline> {
        self.tasks.iter().map(|task| task.deadline()).max().flatten()
    }
}

/// An appender.
pub(super) struct Appender {
    tables: Option<Tables>,
    known: KnownCommit,
    address: Address,
    cache: ConnectionCache,
    env: Arc<Environment>,
    closing: Closing,
    notifications: Arc<Notifications>,
    backlog: Arc<Backlog>,
    /// Separate from the store's entropy, whose output must not depend on the engine.
    nonces: Entropy,
    /// Since it could not connect.
    away: Option<Stopwatch>,
    /// Whether submissions cannot be decided about with what is cached.
    is_outdated: bool,
    /// Since that was read.
    looked: Stopwatch,
    /// The commits of this node before that.
    seen_commits: usize,
}

/// What became of an append.
enum Appended {
    Made(Effects, usize),
    /// Nothing was appended: it is the writer's turn.
    Not,
    /// The connection broke; whether it was made is not known.
    Unknown {
        nonce: i64,
        since: i64,
        jobs: usize,
    },
}

impl Appender {
    /// An appender that is not connected yet.
    pub(super) fn new(
        address: Address,
        env: Arc<Environment>,
        closing: Closing,
        notifications: Arc<Notifications>,
        backlog: Arc<Backlog>,
    ) -> Appender {
        Appender {
            tables: None,
            known: KnownCommit { number: -1, nonce: 0, at: 0 },
            address,
            cache: ConnectionCache::default(),
            env,
            closing,
            notifications,
            backlog,
            nonces: Entropy::from_system(),
            away: None,
            is_outdated: false,
            looked: Stopwatch::start(),
            seen_commits: 0,
        }
    }

    /// Appends submissions until the queue is closed and empty.
    pub(super) fn serve(mut self, queue: &TaskQueue<Box<dyn WriteTask>>) {
        while queue.wait() {
            let mut tasks = queue.take(limits::APPENDS_PER_GROUP_MAX);
            tasks.retain(|task| !task.is_withdrawn());
            if tasks.is_empty() {
                continue;
            }
            let watch = Stopwatch::start();
            match self.append(&mut tasks) {
                Appended::Made(effects, jobs) => {
                    self.env.metrics.committed(tasks.len(), watch.elapsed());
                    self.backlog.added(jobs);
                    self.notifications.committed(&effects, 0);
                    let (env, cache) = (self.env.clone(), &mut self.cache);
                    catch_panic("answering an append", || group_commit::answer(&env, cache, effects, tasks));
                }
                Appended::Not => {
                    for mut task in tasks {
                        task.undone();
                        self.pass_on(task);
                    }
                }
                Appended::Unknown { nonce, since, jobs } => {
                    self.pass_on(Box::new(Unanswered { tasks, nonce, since, jobs }));
                }
            }
        }
    }

    fn pass_on(&self, task: Box<dyn WriteTask>) {
        if let Err((task, refusal)) = self.backlog.writes.put(task, false) {
            catch_panic("refusing a submission", || task.done(Err(refusal)));
        }
    }

    fn append(&mut self, tasks: &mut Group) -> Appended {
        // Live readers of this process get the event of a submission with its answer, and its number comes with the turn.
        let has_live_readers = self.env.feed.has_listeners();
        if self.backlog.is_full() || self.backlog.writes.is_closed() || has_live_readers {
            return Appended::Not;
        }
        let appended = catch_unwind(AssertUnwindSafe(|| self.try_append(tasks)));
        let appended = appended.unwrap_or_else(|payload| Err(panicked(payload.as_ref())));
        appended.unwrap_or_else(|error| {
            tracing::debug!(%error, "a submission is not appended");
            self.env.entropy.back_to_mark();
            if self.tables.as_ref().is_some_and(|tables| tables.link.lost().is_some()) {
                self.tables = None;
            }
            Appended::Not
        })
    }

    fn try_append(&mut self, tasks: &mut Group) -> EngineResult<Appended> {
        let until = tasks.iter().map(|task| task.deadline()).max().flatten();
        if self.tables.is_none() {
            self.connect(until)?;
        }
        if self.is_outdated {
            self.refresh()?;
        }
        let ran = self.run(tasks).or_else(|refusal| {
            if !refusal.is_lane_unknown || !self.may_know_more() {
                return Err(refusal);
            }
            self.env.entropy.back_to_mark();
            for task in tasks.iter_mut() {
                task.undone();
            }
            self.refresh()?;
            self.run(tasks)
        });
        let (jobs, effects) = ran.map_err(|refusal| refusal.error)?;
        let count = jobs.rows.len();
        if count == 0 {
            return Ok(Appended::Made(effects, 0));
        }
        let Some(tables) = &mut self.tables else { return Ok(Appended::Not) };
        let nonce = self.nonces.next_u64().cast_signed();
        match tables.append(self.known, nonce, &encode(&jobs)) {
            Ok(Some(head)) => {
                self.known = head;
                Ok(Appended::Made(effects, count))
            }
            // The writer finds out what has changed; it stops the store if the database is another one.
            Ok(None) => {
                self.is_outdated = true;
                self.env.entropy.back_to_mark();
                Ok(Appended::Not)
            }
            Err(error) if tables.link.lost().is_some() => {
                tracing::debug!(%error, "an append was not answered");
                self.tables = None;
                self.cache.clear();
                Ok(Appended::Unknown { nonce, since: self.known.number, jobs: count })
            }
            Err(error) => Err(error),
        }
    }

    /// Runs the tasks without asking the database anything.
    fn run(&mut self, tasks: &mut Group) -> Result<(AppendedJobs, Effects), NotAppended> {
        let now = self.env.clock.now_after(Timestamp::from_millis(self.known.at));
        let Some(tables) = &mut self.tables else {
            return Err(StoreError::Away("there is no connection".to_owned()).into());
        };
        let meta = tables.meta;
        // They are counted when they are taken in.
        self.cache.rates = Rates::default();
        self.env.entropy.mark();
        tables.link.is_silent = true;
        let ran = group_commit::append(tables, &mut self.cache, &self.env, now, tasks);
        tables.link.is_silent = false;
        tables.meta = meta;
        ran
    }

    fn connect(&mut self, until: Option<Deadline>) -> EngineResult<()> {
        if self.away.as_ref().is_some_and(|away| away.elapsed() < limits::APPENDER_PAUSE) {
            return Err(StoreError::Away("there was no connection a moment ago".to_owned()));
        }
        let waits = Waits {
            until,
            call_max: Some(self.env.timing.call_max),
            closing: self.closing.clone(),
            ..Waits::default()
        };
        let connected = writer::connect(&self.address, waits).map(|link| {
            let mut tables = Tables::new(link, Access::Read);
            tables.appends = AppendState::behind(self.address.append_gate());
            self.tables = Some(tables);
        });
        self.away = connected.is_err().then(Stopwatch::start);
        connected?;
        self.refresh()
    }

    /// Whether lanes may have been added since they were read, by this node or, some time later, by another.
    fn may_know_more(&self) -> bool {
        self.seen_commits != self.backlog.commits.load(Ordering::Acquire)
            || self.looked.elapsed() >= limits::APPENDER_LOOKS_AFTER
    }

    /// Reads what submissions are decided with.
    fn refresh(&mut self) -> EngineResult<()> {
        let Some(tables) = &mut self.tables else { return Ok(()) };
        (self.looked, self.is_outdated) = (Stopwatch::start(), false);
        self.seen_commits = self.backlog.commits.load(Ordering::Acquire);
        let read = tables.begin_read(false).and_then(|_| {
            tables.counts = None;
            tables.load_counts()?;
            self.cache.config(tables)?;
            self.cache.check_not_moved(tables, &self.env)
        });
        let ended = tables.end_read();
        read.and(ended)?;
        let meta = tables.meta;
        self.known = KnownCommit { number: meta.commit, nonce: meta.nonce, at: meta.at };
        Ok(())
    }
}
