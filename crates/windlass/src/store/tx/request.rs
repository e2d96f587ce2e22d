//! Commands and queries on their way through an engine.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::clock::{Deadline, Stopwatch};
use crate::error::StoreError;
use crate::job::JobId;
use crate::limits;
use crate::store::engine::{ReadTask, WriteTask};
use crate::store::read_source::ReadSource;
use crate::store::tx::read_tx::ReadTx;
use crate::store::tx::work::{IsStoreError, PendingEnd, PendingReply, ReadWork, Work, WriteWork};
use crate::store::tx::write_tx::WriteTx;

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

/// The result of a task that was not run.
fn was_not_run() -> StoreError {
    StoreError::Database("was not run".into())
}

/// A command on its way to a commit.
pub(crate) struct Command {
    work: Arc<dyn WriteWork>,
    kind: Kind,
    deadline: Deadline,
    /// Since it was submitted; `None` once it has begun.
    waiting: Option<Stopwatch>,
    end: oneshot::Sender<()>,
}

impl Command {
    /// The command, and a receiver for its answer.
    pub(crate) fn with_answer<T, E>(
        kind: Kind,
        deadline: Deadline,
        work: impl FnMut(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> (Box<dyn WriteTask>, PendingReply<T, E>)
    where
        T: Send + 'static,
        E: IsStoreError + Send + 'static,
    {
        let work = Work::new(work);
        let (task, end) = Command::with_end(kind, deadline, work.clone());
        (task, PendingReply { end, work })
    }

    fn with_end(
        kind: Kind,
        deadline: Deadline,
        work: Arc<dyn WriteWork>,
    ) -> (Box<dyn WriteTask>, PendingEnd) {
        let (sender, end) = oneshot::channel();
        let end = PendingEnd { end, deadline: Some(deadline), work: work.clone(), is_command: true };
        let waiting = Some(Stopwatch::start());
        (Box::new(Command { work, kind, deadline, waiting, end: sender }), end)
    }
}

impl WriteTask for Command {
    fn run(&mut self, tx: &mut WriteTx<'_>) {
        if !self.work.progress().begin() {
            return;
        }
        if let Some(waiting) = self.waiting.take() {
            tx.env.metrics.waited(waiting.elapsed());
        }
        tx.begin();
        tx.call_trace = None;
        self.work.run(tx);
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        match outcome {
            Ok(()) if self.work.is_ok().is_some() => {}
            Ok(()) => self.work.fail(was_not_run()),
            // The caller gets the error of the commit, even if the command itself had been refused.
            Err(error) => self.work.fail(error),
        }
        // The caller may have stopped waiting; the commit stands.
        let _ = self.end.send(());
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
        self.work.progress().is_withdrawn()
    }

    fn undone(&mut self) {
        self.work.progress().undo();
    }
}

/// A query on its way to a snapshot.
pub(crate) struct Query {
    work: Arc<dyn ReadWork>,
    /// `None` if there is no time limit.
    deadline: Option<Deadline>,
    /// Cancelled once no caller waits for the answer.
    cancellation: CancellationToken,
    /// The source of the read.
    made_for: Option<ReadSource>,
    end: oneshot::Sender<()>,
}

impl Query {
    /// The query, and a receiver for its answer. It ends early once `cancellation` is cancelled.
    pub(crate) fn with_answer<T, E>(
        deadline: Option<Deadline>,
        cancellation: CancellationToken,
        made_for: Option<ReadSource>,
        work: impl FnMut(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
    ) -> (Box<dyn ReadTask>, PendingReply<T, E>)
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let work = Work::new(work);
        let (task, end) = Query::with_end(deadline, cancellation, made_for, work.clone());
        (task, PendingReply { end, work })
    }

    fn with_end(
        deadline: Option<Deadline>,
        cancellation: CancellationToken,
        made_for: Option<ReadSource>,
        work: Arc<dyn ReadWork>,
    ) -> (Box<dyn ReadTask>, PendingEnd) {
        let (sender, end) = oneshot::channel();
        let end = PendingEnd { end, deadline, work: work.clone(), is_command: false };
        (Box::new(Query { work, deadline, cancellation, made_for, end: sender }), end)
    }
}

impl ReadTask for Query {
    fn run(&mut self, tx: &mut ReadTx<'_>) {
        self.work.progress().begin();
        tx.ask_for(self.cancellation.clone());
        match tx.is_wanted().and_then(|()| tx.check_not_moved()) {
            Ok(()) => self.work.run(tx),
            Err(error) => self.work.fail(error),
        }
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
        self.end.is_closed()
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        let is_over = self.deadline.is_some_and(Deadline::is_over);
        match (outcome, self.work.is_ok()) {
            // Engines interrupt queries that take too long; that is not a database error.
            (Ok(()), Some(false)) if is_over => {
                self.work.fail(StoreError::TooSlow("the read was ended".to_owned()));
            }
            (Ok(()), Some(_)) => {}
            (Ok(()), None) => self.work.fail(was_not_run()),
            (Err(error), _) => self.work.fail(error),
        }
        let _ = self.end.send(());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tracing::Span;

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
        assert!(matches!(answer.wait(Span::none()).await, Err(StoreError::TooSlow(_))));
        drop(task);
    }
}
