//! Commands and queries on their way through an engine: typed outside, boxed inside, answered once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::clock::{Deadline, Stopwatch};
use crate::error::{ActionError, AlertError, ScheduleError, StoreError, SubmitError, WorkError};
use crate::job::JobId;
use crate::limits;
use crate::store::engine::{ReadTask, WriteTask};
use crate::store::read_source::ReadSource;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::write_tx::WriteTx;

/// An error type that may contain an engine error.
pub(crate) trait IsStoreError: From<StoreError> {
    /// The engine error, if it is one and not a refusal.
    fn store_error(&self) -> Option<&StoreError>;
}

impl IsStoreError for StoreError {
    fn store_error(&self) -> Option<&StoreError> {
        Some(self)
    }
}

macro_rules! is_store_error {
    ($($error:ident),*) => {$(
        impl IsStoreError for $error {
            fn store_error(&self) -> Option<&StoreError> {
                if let $error::Store(error) = self { Some(error) } else { None }
            }
        }
    )*};
}

is_store_error!(SubmitError, ActionError, WorkError, ScheduleError, AlertError);

/// The kind of a task, for the engine that queues it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Adds jobs; refused when the disk is full.
    Submission,
    /// Adds this many jobs.
    Batch(usize),
    /// Adds this many jobs that depend on nothing stored.
    Independent(usize),
    /// Changes up to this many jobs.
    Bulk(usize),
    /// Changes up to this many jobs, and most often none.
    Maintenance(usize),
    /// Must not wait behind bulk work.
    Urgent,
    /// Must not wait behind bulk work, and names these jobs.
    UrgentAbout(Vec<JobId>),
    /// Claims up to this many jobs.
    Claim(usize),
    /// The same again because nothing arrived for a while: most often there are none.
    IdleClaim(usize),
    /// Names these jobs, so that the engine can read them ahead.
    About(Vec<JobId>),
    /// Anything else.
    Ordinary,
}

/// The progress of a command, shared by its caller and the engine.
#[derive(Debug, Default)]
struct Progress(AtomicU8);

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Progress {
    fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Marks it as about to run; returns false if it was withdrawn.
    fn begin(&self) -> bool {
        self.change(WAITING, BEGUN) || self.0.load(Ordering::Acquire) == BEGUN
    }

    /// Withdraws it; returns false if it may already have run.
    fn withdraw(&self) -> bool {
        self.change(WAITING, WITHDRAWN)
    }
}

/// The pending answer to a command or a query.
pub(crate) struct PendingReply<T, E> {
    reply: oneshot::Receiver<Result<T, E>>,
    deadline: Option<Deadline>,
    progress: Arc<Progress>,
    /// Whether it belongs to a command and not to a query, which changes nothing.
    is_command: bool,
}

impl<T, E: From<StoreError>> PendingReply<T, E> {
    /// Waits for the answer. The caller gets an answer by its deadline regardless of the engine; it may be that the
    /// result of the change is unknown.
    pub(crate) async fn wait(mut self) -> Result<T, E> {
        let gone = || Err(StoreError::Closed.into());
        tokio::select! {
            biased;
            answer = &mut self.reply => answer.unwrap_or_else(|_| gone()),
            () = passed(self.deadline) => {
                let is_withdrawn = self.progress.withdraw();
                if let Ok(answer) = self.reply.try_recv() {
                    return answer;
                }
                if is_withdrawn && !self.is_command {
                    // The database did not receive the query: other queries took too long.
                    return Err(StoreError::TooSlow("it was not started in time".to_owned()).into());
                }
                let why = if is_withdrawn || !self.is_command {
                    "no answer in time; nothing was changed"
                } else {
                    "no answer in time; whether the change was made is not known"
                };
                Err(StoreError::Unavailable(why.to_owned()).into())
            }
        }
    }
}

/// Returns when the deadline has passed.
async fn passed(deadline: Option<Deadline>) {
    match deadline {
        Some(deadline) => deadline.plus(limits::ANSWER_MARGIN).passed().await,
        None => std::future::pending().await,
    }
}

/// A command on its way to a commit.
pub(crate) struct Command<F, T, E> {
    work: F,
    kind: Kind,
    deadline: Deadline,
    /// Since it was submitted; `None` once it has begun.
    waiting: Option<Stopwatch>,
    progress: Arc<Progress>,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Command<F, T, E>
where
    F: FnMut(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: IsStoreError + Send + 'static,
{
    /// The command, and a receiver for its answer.
    pub(crate) fn with_answer(
        kind: Kind,
        deadline: Deadline,
        work: F,
    ) -> (Box<dyn WriteTask>, PendingReply<T, E>) {
        let (reply, answer) = oneshot::channel();
        let progress: Arc<Progress> = Arc::default();
        let answer = PendingReply {
            reply: answer,
            deadline: Some(deadline),
            progress: progress.clone(),
            is_command: true,
        };
        let waiting = Some(Stopwatch::start());
        (Box::new(Command { work, kind, deadline, waiting, progress, result: None, reply }), answer)
    }
}

impl<F, T, E> WriteTask for Command<F, T, E>
where
    F: FnMut(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: IsStoreError + Send + 'static,
{
    fn run(&mut self, tx: &mut WriteTx<'_>) {
        if !self.progress.begin() {
            return;
        }
        if let Some(waiting) = self.waiting.take() {
            tx.env.metrics.waited(waiting.elapsed());
        }
        tx.begin();
        tx.call_trace = None;
        let result = (self.work)(tx);
        if let Err(error) = &result {
            // The engine may have applied half of the writes, or SQLite may have ended the transaction: after an engine
            // error nothing of this group may be committed.
            match error.store_error() {
                Some(store_error) => tx.abort(store_error),
                None => tx.undo(),
            }
        }
        self.result = Some(result);
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        let answer = match outcome {
            Ok(()) => self.result.unwrap_or_else(|| Err(StoreError::Database("was not run".into()).into())),
            // The caller gets the error of the commit, even if the command itself had been refused.
            Err(error) => Err(error.into()),
        };
        // The caller may have stopped waiting; the commit stands.
        let _ = self.reply.send(answer);
    }

    fn adds_jobs(&self) -> bool {
        matches!(self.kind, Kind::Submission | Kind::Batch(_) | Kind::Independent(_))
    }

    fn is_urgent(&self) -> bool {
        matches!(self.kind, Kind::Urgent | Kind::UrgentAbout(_))
    }

    fn is_independent(&self) -> bool {
        matches!(self.kind, Kind::Independent(_))
    }

    fn is_often_idle(&self) -> bool {
        matches!(self.kind, Kind::Maintenance(_) | Kind::IdleClaim(_))
    }

    fn weight(&self) -> usize {
        match &self.kind {
            Kind::Submission | Kind::Ordinary | Kind::Urgent | Kind::UrgentAbout(_) => 1,
            Kind::Batch(jobs) | Kind::Independent(jobs) | Kind::Bulk(jobs) | Kind::Maintenance(jobs) => *jobs,
            // Most claims that request many jobs find few.
            Kind::Claim(wanted) | Kind::IdleClaim(wanted) => 1 + wanted / limits::CLAIM_WEIGHT_SHARE,
            Kind::About(jobs) => jobs.len(),
        }
    }

    fn claims(&self) -> usize {
        if let Kind::Claim(wanted) | Kind::IdleClaim(wanted) = self.kind { wanted } else { 0 }
    }

    fn names(&self) -> &[JobId] {
        if let Kind::About(jobs) | Kind::UrgentAbout(jobs) = &self.kind { jobs } else { &[] }
    }

    fn deadline(&self) -> Option<Deadline> {
        Some(self.deadline)
    }

    fn is_withdrawn(&self) -> bool {
        self.progress.0.load(Ordering::Acquire) == WITHDRAWN
    }

    fn undone(&mut self) {
        self.progress.change(BEGUN, WAITING);
    }
}

/// A query on its way to a snapshot.
pub(crate) struct Query<F, T, E> {
    work: F,
    /// `None` if there is no time limit.
    deadline: Option<Deadline>,
    /// Cancelled once no caller waits for the answer.
    cancellation: CancellationToken,
    /// The source of the read.
    made_for: Option<ReadSource>,
    progress: Arc<Progress>,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Query<F, T, E>
where
    F: FnMut(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    /// The query, and a receiver for its answer. It ends early once `cancellation` is cancelled.
    pub(crate) fn with_answer(
        deadline: Option<Deadline>,
        cancellation: CancellationToken,
        made_for: Option<ReadSource>,
        work: F,
    ) -> (Box<dyn ReadTask>, PendingReply<T, E>) {
        let (reply, answer) = oneshot::channel();
        let progress: Arc<Progress> = Arc::default();
        let answer = PendingReply { reply: answer, deadline, progress: progress.clone(), is_command: false };
        (Box::new(Query { work, deadline, cancellation, made_for, progress, result: None, reply }), answer)
    }
}

impl<F, T, E> ReadTask for Query<F, T, E>
where
    F: FnMut(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    fn run(&mut self, tx: &mut ReadTx<'_>) {
        self.progress.begin();
        tx.ask_for(self.cancellation.clone());
        let admitted = tx.is_wanted().and_then(|()| tx.check_not_moved());
        self.result = Some(admitted.map_err(E::from).and_then(|()| (self.work)(tx)));
    }

    fn is_long(&self) -> bool {
        self.deadline.is_none()
    }

    fn cancellation(&self) -> CancellationToken {
        self.cancellation.clone()
    }

    fn made_for(&self) -> Option<&ReadSource> {
        self.made_for.as_ref()
    }

    fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        let is_over = self.deadline.is_some_and(Deadline::is_over);
        let answer = match outcome {
            // Engines interrupt queries that take too long; that is not a database error.
            Ok(()) if is_over && matches!(self.result, Some(Err(_))) => {
                Err(StoreError::TooSlow("the read was ended".to_owned()).into())
            }
            Ok(()) => self.result.unwrap_or_else(|| Err(StoreError::Database("was not run".into()).into())),
            Err(error) => Err(error.into()),
        };
        let _ = self.reply.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::Store;
    use crate::store::environment::{Environment, StoreOptions};

    async fn interrupted(request_max: Duration) -> StoreError {
        let mut env = Environment::system(StoreOptions::default());
        env.timing.request_max = request_max;
        let store = Store::open_in("memory:", env).unwrap();
        let work = |_: &mut ReadTx<'_>| Err::<(), _>(StoreError::Database("interrupted".to_owned()));
        store.read("look", work).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_read_that_its_deadline_ended_is_not_a_database_error() {
        assert!(matches!(interrupted(Duration::ZERO).await, StoreError::TooSlow(_)));
        assert!(matches!(interrupted(limits::REQUEST_MAX).await, StoreError::Database(_)));
    }

    #[tokio::test]
    async fn a_read_that_was_not_started_is_not_a_database_error() {
        let long_ago = Deadline::after(Duration::ZERO).minus(limits::ANSWER_MARGIN);
        let work = |_: &mut ReadTx<'_>| Ok::<(), StoreError>(());
        let (task, answer) = Query::with_answer(Some(long_ago), CancellationToken::new(), None, work);
        assert!(matches!(answer.wait().await, Err(StoreError::TooSlow(_))));
        drop(task);
    }
}
