//! What appenders, readers and the writer of a node share about appended jobs, and the tasks that they pass to the
//! writer: to take in what was appended, and to find out whether an append was made.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use crate::clock::Deadline;
use crate::error::StoreError;
use crate::job::JobId;
use crate::limits;
use crate::store::engine::{EngineResult, WriteTask};
use crate::store::engines::postgres::appends::KnownCommit;
use crate::store::engines::postgres::writer;
use crate::store::engines::sql::task_queue::TaskQueue;
use crate::store::tx::write_tx::WriteTx;

/// Submissions that share an append.
pub(in super::super) type Group = Vec<Box<dyn WriteTask>>;

/// What appenders, readers and the writer of a node share about appended jobs.
pub(in super::super) struct Backlog {
    writes: Arc<TaskQueue<Box<dyn WriteTask>>>,
    /// Jobs that this node has appended since its writer last took everything in.
    jobs: AtomicUsize,
    /// Whether the writer was asked to.
    is_called: AtomicBool,
    /// Commits of this node, each of which may have added lanes.
    commits: AtomicUsize,
    /// The last commit that the writer knows to be on disk: a database without it is another one.
    known: Mutex<KnownCommit>,
    /// The last append of each appender that was answered, until a commit that the writer knows to be on disk is known to
    /// contain it. From then on the loss of that commit shows its loss.
    answered: [Mutex<Option<Answered>>; limits::APPENDERS],
}

/// An append that was answered.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Answered {
    pub(in super::super) number: i64,
    pub(in super::super) nonce: i64,
    /// A commit before it.
    pub(in super::super) since: KnownCommit,
    /// The generation of the store then.
    pub(in super::super) generation: i64,
}

impl Backlog {
    pub(in super::super) fn new(writes: Arc<TaskQueue<Box<dyn WriteTask>>>) -> Backlog {
        Backlog {
            writes,
            jobs: AtomicUsize::new(0),
            is_called: AtomicBool::new(false),
            commits: AtomicUsize::new(0),
            known: Mutex::default(),
            answered: Default::default(),
        }
    }

    /// Whether so much was appended that more must wait for its turn.
    pub(in super::super) fn is_full(&self) -> bool {
        self.jobs.load(Ordering::Relaxed) >= limits::APPENDED_AHEAD_MAX
    }

    /// Records that a commit of this node has taken in everything.
    pub(in super::super) fn taken_in(&self) {
        self.jobs.store(0, Ordering::Relaxed);
        self.is_called.store(false, Ordering::Relaxed);
        self.commits.fetch_add(1, Ordering::AcqRel);
    }

    /// How many commits this node has made.
    pub(in super::super) fn commits(&self) -> usize {
        self.commits.load(Ordering::Acquire)
    }

    /// Records the last commit that the writer knows to be on disk.
    pub(in super::super) fn know(&self, commit: KnownCommit) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = commit;
    }

    pub(in super::super) fn known(&self) -> KnownCommit {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an append, before it is answered.
    pub(in super::super) fn answer(&self, appender: usize, answered: Answered) {
        *self.answered[appender].lock().unwrap_or_else(PoisonError::into_inner) = Some(answered);
    }

    /// The last answered append of one appender, unless a commit that the writer knows contains it.
    pub(in super::super) fn answered(&self, appender: usize) -> Option<Answered> {
        *self.answered[appender].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last answered append of each appender: if it is there, so is everything that was answered before. Without
    /// those that a commit which the writer knows contains.
    pub(in super::super) fn all_answered(&self) -> Vec<Answered> {
        (0..limits::APPENDERS).filter_map(|appender| self.answered(appender)).collect()
    }

    /// Forgets answered appends: the last commit that the writer knows to be on disk contains them.
    pub(in super::super) fn remove_contained(&self, appends: &[Answered]) {
        for answered in &self.answered {
            let mut answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
            if answered.is_some_and(|last| appends.iter().any(|append| append.nonce == last.nonce)) {
                *answered = None;
            }
        }
    }

    /// Has the writer make a commit, before which it looks for answered appends and commits: it stops the store if any
    /// is lost.
    pub(in super::super) fn check_for_losses(&self) {
        // If the queue is full, there are commits enough.
        let _refused = self.writes.put(Box::new(TakeIn { until: None, done: None }), false);
    }

    /// Passes a task to the writer.
    pub(in super::super) fn forward(
        &self,
        task: Box<dyn WriteTask>,
    ) -> Result<(), (Box<dyn WriteTask>, StoreError)> {
        self.writes.put(task, false)
    }

    /// Whether the node is being closed.
    pub(in super::super) fn is_closed(&self) -> bool {
        self.writes.is_closed()
    }

    /// Records jobs that were appended.
    pub(in super::super) fn added(&self, jobs: usize) {
        let before = self.jobs.fetch_add(jobs, Ordering::Relaxed);
        if before + jobs >= limits::APPENDED_TAKEN_IN_AFTER && !self.is_called.swap(true, Ordering::Relaxed) {
            // If the queue is full, there are commits enough.
            let _refused = self.writes.put(Box::new(TakeIn { until: None, done: None }), false);
        }
    }

    /// Has the writer take in what was appended so far, and waits for it.
    pub(in super::super) fn take_in(&self, until: Option<Deadline>) -> EngineResult<()> {
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
pub(in super::super) struct Unanswered {
    tasks: Group,
    nonce: i64,
    since: i64,
    jobs: usize,
    /// Whether they were run again in a transaction, after which they have other ids.
    is_repeated: bool,
    /// Whether it cannot be found out whether they were made.
    is_unknown: bool,
}

impl Unanswered {
    /// Submissions whose append with this nonce was not answered; `since` is a commit before it.
    pub(in super::super) fn new(tasks: Group, nonce: i64, since: i64, jobs: usize) -> Unanswered {
        Unanswered { tasks, nonce, since, jobs, is_repeated: false, is_unknown: false }
    }

    fn repeat(&mut self, tx: &mut WriteTx<'_>) -> EngineResult<()> {
        let made = tx.raw(|db| {
            let appends = db.appends().expect("PostgreSQL appends");
            appends.was_appended(self.nonce, self.since)
        })?;
        // If it was made after a transaction that was not committed, the ids of its jobs are not known.
        self.is_unknown = made.is_none_or(|is_made| is_made && self.is_repeated);
        if made == Some(false) {
            // Until this is committed, the append may still be made: no caller is answered that nothing was done.
            self.is_repeated = true;
            self.tasks.iter_mut().for_each(|task| task.run(tx));
        }
        Ok(())
    }
}

impl WriteTask for Unanswered {
    fn run(&mut self, tx: &mut WriteTx<'_>) {
        if let Err(error) = self.repeat(tx) {
            tx.abort(&error);
        }
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        let is_known = if self.is_unknown {
            Err(StoreError::Unavailable("its answer was lost".to_owned()))
        } else {
            Ok(())
        };
        let outcome = outcome.and(is_known).map_err(|error| match error {
            error @ StoreError::Stopped(_) => error,
            // Whatever kept it from being looked up: it may have been made.
            error => writer::not_known(StoreError::Unavailable(error.to_string())),
        });
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
