//! Appenders: threads that store submissions which depend on nothing stored, without the store's lock. Whatever cannot be
//! appended is passed on to the writer, and so is the question whether an append whose answer was lost was made.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::clock::{Deadline, Stopwatch, Timestamp};
use crate::entropy::Entropy;
use crate::error::StoreError;
use crate::limits;
use crate::store::documents::minute_stats::Rates;
use crate::store::engine::{AppendedJobs, EngineResult, WriteTask};
use crate::store::engines::postgres::appends::backlog::{Answered, Backlog, Group, Unanswered};
use crate::store::engines::postgres::appends::gathering::Gathering;
use crate::store::engines::postgres::appends::{AppendState, KnownCommit, encode};
use crate::store::engines::postgres::connection::address::Address;
use crate::store::engines::postgres::connection::waits::{Closing, Waits};
use crate::store::engines::postgres::notifications::Notifications;
use crate::store::engines::postgres::tables::{Access, Tables};
use crate::store::engines::postgres::writer;
use crate::store::engines::sql::task_queue::TaskQueue;
use crate::store::engines::sql::thread::{catch_panic, panicked};
use crate::store::environment::Environment;
use crate::store::tx::cache::ConnectionCache;
use crate::store::tx::group_commit::{self, NotAppended};
use crate::store::tx::write_tx::Effects;

/// What the statement of an append would otherwise set for its transaction, each time. Only for connections that are not shared.
const SETTINGS: &str = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET jit = off";

/// An appender.
pub(in super::super) struct Appender {
    /// Which of the node's appenders it is.
    place: usize,
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
    unavailable: Option<Stopwatch>,
    /// Whether submissions cannot be decided about with what is cached.
    is_outdated: bool,
    /// Since that was read.
    looked: Stopwatch,
    /// The commits of this node before that.
    seen_commits: usize,
}

/// The result of an append.
enum Appended {
    Made {
        effects: Effects,
        jobs: usize,
        /// Whether other nodes were notified with it.
        is_announced: bool,
    },
    /// Nothing was appended: it is the writer's turn.
    Not,
    /// The connection broke; whether it was made is not known.
    Unknown { nonce: i64, since: i64, jobs: usize },
}

impl Appender {
    /// An appender that is not connected yet.
    pub(in super::super) fn new(
        place: usize,
        address: Address,
        env: Arc<Environment>,
        closing: Closing,
        (notifications, backlog): (Arc<Notifications>, Arc<Backlog>),
    ) -> Appender {
        Appender {
            place,
            tables: None,
            known: KnownCommit::default(),
            address,
            cache: ConnectionCache::default(),
            env,
            closing,
            notifications,
            backlog,
            nonces: Entropy::from_system(),
            unavailable: None,
            is_outdated: false,
            looked: Stopwatch::start(),
            seen_commits: 0,
        }
    }

    /// Appends submissions until the queue is closed and empty.
    pub(in super::super) fn serve(mut self, queue: &TaskQueue<Box<dyn WriteTask>>, gathering: &Gathering) {
        while let Some(mut tasks) = gathering.next(self.place, queue) {
            tasks.retain(|task| !task.is_withdrawn());
            let watch = Stopwatch::start();
            let appended = if tasks.is_empty() { Appended::Not } else { self.append(&mut tasks) };
            // Those that are passed on come back after the turn of the writer.
            let answered = if matches!(appended, Appended::Made { .. }) { tasks.len() } else { 0 };
            gathering.ended(self.place, queue, answered, watch.elapsed());
            match appended {
                Appended::Made { effects, jobs, is_announced } => {
                    self.env.metrics.committed(tasks.len(), watch.elapsed());
                    self.backlog.added(jobs);
                    if !is_announced {
                        self.notifications.committed(&effects, 0);
                    }
                    let (env, cache) = (self.env.clone(), &mut self.cache);
                    catch_panic("answering an append", || group_commit::answer(&env, cache, effects, tasks));
                }
                Appended::Not => {
                    for mut task in tasks {
                        task.undone();
                        self.forward(task);
                    }
                }
                Appended::Unknown { nonce, since, jobs } => {
                    self.forward(Box::new(Unanswered::new(tasks, nonce, since, jobs)));
                }
            }
        }
    }

    fn forward(&self, task: Box<dyn WriteTask>) {
        if let Err((task, refusal)) = self.backlog.forward(task) {
            catch_panic("refusing a submission", || task.done(Err(refusal)));
        }
    }

    fn append(&mut self, tasks: &mut Group) -> Appended {
        // Live readers of this process get the event of a submission with its answer, and its number comes with the turn.
        let has_live_readers = self.env.feed.has_listeners();
        if self.backlog.is_full() || self.backlog.is_closed() || has_live_readers {
            return Appended::Not;
        }
        // Before anything that can fail: numbers of an earlier append must not come again.
        self.env.entropy.mark();
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
        match &mut self.tables {
            Some(tables) => tables.link.waits.until = until,
            None => self.connect(until)?,
        }
        if self.is_outdated {
            self.refresh()?;
        }
        let ran = self.run(tasks).or_else(|refusal| {
            let may_differ_now =
                if refusal.is_lane_unknown { self.may_know_more() } else { self.is_look_old() };
            if may_differ_now { self.run_again(tasks) } else { Err(refusal) }
        });
        if let Some(appended) = self.store(ran)? {
            return Ok(appended);
        }
        let again = self.run_again(tasks);
        if let Some(appended) = self.store(again)? {
            return Ok(appended);
        }
        self.is_outdated = true;
        self.env.entropy.back_to_mark();
        Ok(Appended::Not)
    }

    /// Runs tasks of which nothing was stored, with what is stored now.
    fn run_again(&mut self, tasks: &mut Group) -> Result<(AppendedJobs, Effects), NotAppended> {
        self.env.entropy.back_to_mark();
        for task in tasks.iter_mut() {
            task.undone();
        }
        self.refresh()?;
        self.run(tasks)
    }

    /// Stores what the tasks have added. Returns `None` if the database refuses it, because the configuration has changed
    /// or because it is another database.
    fn store(&mut self, ran: Result<(AppendedJobs, Effects), NotAppended>) -> EngineResult<Option<Appended>> {
        let (jobs, effects) = ran.map_err(|refusal| refusal.error)?;
        let count = jobs.rows.len();
        if count == 0 {
            // All of them are refused, perhaps by a configuration that has changed since it was read.
            return Err(StoreError::Database("a refusal needs the current configuration".to_owned()));
        }
        let Some(tables) = &mut self.tables else { return Ok(Some(Appended::Not)) };
        let nonce = self.nonces.next_u64().cast_signed();
        let known = self.known.max(self.backlog.known());
        let last = self.backlog.answered(self.place);
        let message = self.notifications.along_with(&effects);
        let is_announced = message.is_some();
        let notification = message.map(|message| (self.address.channel(), message));
        let body = encode(&jobs);
        match tables.append(known, last, nonce, (body.as_slice(), notification)) {
            Ok(Some((head, number))) => {
                self.known = head;
                let generation = tables.meta.generation;
                self.backlog.answer(self.place, Answered { number, nonce, since: known, generation });
                Ok(Some(Appended::Made { effects, jobs: count, is_announced }))
            }
            Ok(None) => Ok(None),
            Err(error) if tables.link.lost().is_some() => {
                tracing::debug!(%error, "an append was not answered");
                self.tables = None;
                self.cache.clear();
                Ok(Some(Appended::Unknown { nonce, since: known.number, jobs: count }))
            }
            Err(error) => Err(error),
        }
    }

    /// Runs the tasks without asking the database anything.
    fn run(&mut self, tasks: &mut Group) -> Result<(AppendedJobs, Effects), NotAppended> {
        let now = self.env.clock.now_after(Timestamp::from_millis(self.known.at));
        let Some(tables) = &mut self.tables else {
            return Err(StoreError::Unavailable("there is no connection".to_owned()).into());
        };
        let meta = tables.meta;
        // They are counted when they are taken in.
        self.cache.rates = Rates::default();
        tables.link.is_silent = true;
        let ran = group_commit::append(tables, &mut self.cache, &self.env, now, tasks);
        tables.link.is_silent = false;
        tables.meta = meta;
        ran
    }

    fn connect(&mut self, until: Option<Deadline>) -> EngineResult<()> {
        if self.unavailable.as_ref().is_some_and(|since| since.elapsed() < limits::APPENDER_PAUSE) {
            return Err(StoreError::Unavailable("there was no connection a moment ago".to_owned()));
        }
        let waits = Waits {
            until,
            call_max: Some(self.env.timing.call_max),
            closing: self.closing.clone(),
            ..Waits::default()
        };
        let connected = writer::connect(&self.address, waits).and_then(|mut link| {
            if self.address.keeps_statements {
                link.run(SETTINGS)?;
            }
            let mut tables = Tables::new(link, Access::Read);
            tables.appends = AppendState::behind(self.address.append_gate());
            self.tables = Some(tables);
            Ok(())
        });
        self.unavailable = connected.is_err().then(Stopwatch::start);
        connected?;
        self.refresh()
    }

    /// Whether lanes may have been added since they were read, by this node or, some time later, by another.
    fn may_know_more(&self) -> bool {
        self.seen_commits != self.backlog.commits() || self.is_look_old()
    }

    /// Whether settings because of which nothing can be appended may have changed since they were read.
    fn is_look_old(&self) -> bool {
        self.looked.elapsed() >= limits::APPENDER_LOOKS_AFTER
    }

    /// Reads what submissions are decided with.
    fn refresh(&mut self) -> EngineResult<()> {
        let Some(tables) = &mut self.tables else { return Ok(()) };
        (self.looked, self.is_outdated) = (Stopwatch::start(), false);
        self.seen_commits = self.backlog.commits();
        // Before the snapshot, which must have them; also those of other connections of this node.
        tables.expect(self.backlog.all_answered());
        let read = tables.begin_read(false).and_then(|_| {
            tables.counts = None;
            tables.load_counts()?;
            self.cache.config(tables)?;
            self.cache.check_not_moved(tables, &self.env)?;
            tables.has_commit(self.backlog.known())
        });
        let ended = tables.end_read();
        let has_known = read.and_then(|has_known| ended.map(|()| has_known));
        let meta = tables.meta;
        // What was cached is of no use without it.
        self.is_outdated = !matches!(has_known, Ok(true));
        if matches!(has_known, Ok(false) | Err(StoreError::Stopped(_))) {
            // The writer stops the store if the database is another one.
            self.backlog.check_for_losses();
        }
        if has_known? {
            self.known = KnownCommit::from(meta);
            return Ok(());
        }
        Err(StoreError::Unavailable(
            "the database lacks a commit of this node, or has forgotten it".to_owned(),
        ))
    }
}
