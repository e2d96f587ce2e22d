//! Commands and queries on their way through an engine: typed on the outside, boxed inside, answered once.

use tokio::sync::oneshot;

use super::engine::{ReadTask, WriteTask};
use super::unit::Unit;
use super::view::View;
use crate::error::{ActError, ScheduleError, StoreError, SubmitError, WorkError};
use crate::job::JobId;

/// An answer that may stand for trouble with the engine.
pub(crate) trait MayBeTrouble: From<StoreError> {
    /// The trouble, if it is that and no refusal.
    fn trouble(&self) -> Option<&StoreError>;
}

impl MayBeTrouble for StoreError {
    fn trouble(&self) -> Option<&StoreError> {
        Some(self)
    }
}

macro_rules! may_be_trouble {
    ($($error:ident),*) => {$(
        impl MayBeTrouble for $error {
            fn trouble(&self) -> Option<&StoreError> {
                if let $error::Store(error) = self { Some(error) } else { None }
            }
        }
    )*};
}

may_be_trouble!(SubmitError, ActError, WorkError, ScheduleError);

/// What a task is like, for the engine that queues it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Adds jobs: refused when the disk is full.
    Submission,
    /// Must not wait behind bulk work.
    Urgent,
    /// Looks for so many claimable jobs.
    Claim(usize),
    /// Looks up these jobs.
    About(Vec<JobId>),
    /// Anything else.
    Ordinary,
}

/// A command on its way to a commit.
pub(crate) struct Command<F, T, E> {
    work: F,
    kind: Kind,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Command<F, T, E>
where
    F: FnMut(&mut Unit<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: MayBeTrouble + Send + 'static,
{
    /// The command, and where its answer will arrive.
    pub(crate) fn with_answer(kind: Kind, work: F) -> (Box<dyn WriteTask>, oneshot::Receiver<Result<T, E>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Command { work, kind, result: None, reply }), answer)
    }
}

impl<F, T, E> WriteTask for Command<F, T, E>
where
    F: FnMut(&mut Unit<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: MayBeTrouble + Send + 'static,
{
    fn run(&mut self, unit: &mut Unit<'_>) {
        unit.begin();
        let result = (self.work)(unit);
        if let Err(error) = &result {
            // Half of what the engine was told may be in it, or SQLite may have ended the transaction by itself: after
            // trouble nothing of this group may be committed.
            match error.trouble() {
                Some(trouble) => unit.give_up(trouble),
                None => unit.undo(),
            }
        }
        self.result = Some(result);
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        let answer = match outcome {
            Ok(()) => self.result.unwrap_or_else(|| Err(StoreError::Database("was not run".into()).into())),
            // A refusal stands by itself; only what would have been committed is lost with the commit.
            Err(error) => Err(error.into()),
        };
        // The caller may have gone; what was committed stays committed.
        let _ = self.reply.send(answer);
    }

    fn adds_jobs(&self) -> bool {
        self.kind == Kind::Submission
    }

    fn is_urgent(&self) -> bool {
        self.kind == Kind::Urgent
    }

    fn claims(&self) -> usize {
        if let Kind::Claim(wanted) = self.kind { wanted } else { 0 }
    }

    fn names(&self) -> &[JobId] {
        if let Kind::About(jobs) = &self.kind { jobs } else { &[] }
    }
}

/// A query on its way to a snapshot.
pub(crate) struct Query<F, T, E> {
    work: F,
    is_long: bool,
    result: Option<Result<T, E>>,
    reply: oneshot::Sender<Result<T, E>>,
}

impl<F, T, E> Query<F, T, E>
where
    F: FnMut(&mut View<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    /// The query, and where its answer will arrive.
    pub(crate) fn with_answer(
        is_long: bool,
        work: F,
    ) -> (Box<dyn ReadTask>, oneshot::Receiver<Result<T, E>>) {
        let (reply, answer) = oneshot::channel();
        (Box::new(Query { work, is_long, result: None, reply }), answer)
    }
}

impl<F, T, E> ReadTask for Query<F, T, E>
where
    F: FnMut(&mut View<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    fn run(&mut self, view: &mut View<'_>) {
        self.result = Some(view.admit().map_err(E::from).and_then(|()| (self.work)(view)));
    }

    fn is_long(&self) -> bool {
        self.is_long
    }

    fn done(self: Box<Self>, outcome: Result<(), StoreError>) {
        let answer = match outcome {
            Ok(()) => self.result.unwrap_or_else(|| Err(StoreError::Database("was not run".into()).into())),
            Err(error) => Err(error.into()),
        };
        let _ = self.reply.send(answer);
    }
}
