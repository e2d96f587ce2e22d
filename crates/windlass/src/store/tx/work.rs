//! What a command or a query does, and its answer: typed outside, boxed inside, answered once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tracing::{Instrument, Span};

use crate::clock::Deadline;
use crate::error::{ActionError, AlertError, ScheduleError, StoreError, SubmitError, WorkError};
use crate::limits;
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

/// The progress of a command, shared by its caller and the engine.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU8);

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Progress {
    fn change(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Marks it as about to run; returns false if it was withdrawn.
    pub(super) fn begin(&self) -> bool {
        self.change(WAITING, BEGUN) || self.0.load(Ordering::Acquire) == BEGUN
    }

    /// Withdraws it; returns false if it may already have run.
    fn withdraw(&self) -> bool {
        self.change(WAITING, WITHDRAWN)
    }

    pub(super) fn is_withdrawn(&self) -> bool {
        self.0.load(Ordering::Acquire) == WITHDRAWN
    }

    /// Marks it as about to run again, because what it did was undone.
    pub(super) fn undo(&self) {
        self.change(BEGUN, WAITING);
    }
}

/// The typed half of a task. The engine runs it, and its caller takes the result.
///
/// There are hundreds of commands and queries, and whatever depends on their types is compiled for each: only this is.
pub(super) struct Work<F, T, E> {
    progress: Progress,
    state: Mutex<State<F, T, E>>,
}

struct State<F, T, E> {
    work: F,
    result: Option<Result<T, E>>,
}

impl<F, T, E: From<StoreError>> Work<F, T, E> {
    pub(super) fn new(work: F) -> Arc<Work<F, T, E>> {
        let state = Mutex::new(State { work, result: None });
        Arc::new(Work { progress: Progress::default(), state })
    }

    /// The work and its result. If the work has panicked, there is no result.
    fn state(&self) -> MutexGuard<'_, State<F, T, E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is the same for each command and query.
pub(super) trait AnyWork: Send + Sync {
    fn progress(&self) -> &Progress;

    /// Whether it has succeeded; `None` if it has not run.
    fn is_ok(&self) -> Option<bool>;

    /// Makes this error its result.
    fn fail(&self, error: StoreError);
}

impl<F: Send, T: Send, E: From<StoreError> + Send> AnyWork for Work<F, T, E> {
    fn progress(&self) -> &Progress {
        &self.progress
    }

    fn is_ok(&self) -> Option<bool> {
        self.state().result.as_ref().map(Result::is_ok)
    }

    fn fail(&self, error: StoreError) {
        self.state().result = Some(Err(error.into()));
    }
}

/// The work of a command.
pub(super) trait WriteWork: AnyWork {
    fn run(&self, tx: &mut WriteTx<'_>);
}

impl<F, T, E> WriteWork for Work<F, T, E>
where
    F: FnMut(&mut WriteTx<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: IsStoreError + Send + 'static,
{
    fn run(&self, tx: &mut WriteTx<'_>) {
        let mut state = self.state();
        let result = (state.work)(tx);
        if let Err(error) = &result {
            // The engine may have applied half of the writes, or SQLite may have ended the transaction: after an engine
            // error nothing of this group may be committed.
            match error.store_error() {
                Some(store_error) => tx.abort(store_error),
                None => tx.undo(),
            }
        }
        state.result = Some(result);
    }
}

/// The work of a query.
pub(super) trait ReadWork: AnyWork {
    fn run(&self, tx: &mut ReadTx<'_>);
}

impl<F, T, E> ReadWork for Work<F, T, E>
where
    F: FnMut(&mut ReadTx<'_>) -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    fn run(&self, tx: &mut ReadTx<'_>) {
        let mut state = self.state();
        state.result = Some((state.work)(tx));
    }
}

/// Takes the result of a command or a query.
pub(super) trait TakeResult<T, E>: Send + Sync {
    /// The result, or `None` if there is none any more.
    fn take(&self) -> Option<Result<T, E>>;
}

impl<F: Send, T: Send, E: From<StoreError> + Send> TakeResult<T, E> for Work<F, T, E> {
    fn take(&self) -> Option<Result<T, E>> {
        self.state().result.take()
    }
}

/// The pending answer to a command or a query.
pub(crate) struct PendingReply<T, E> {
    pub(super) end: PendingEnd,
    pub(super) work: Arc<dyn TakeResult<T, E>>,
}

impl<T, E: From<StoreError>> PendingReply<T, E> {
    /// Waits for the answer, within this span. The caller gets an answer by its deadline regardless of the engine; it may
    /// be that the result of the change is unknown.
    pub(crate) async fn wait(self, span: Span) -> Result<T, E> {
        self.end.wait().instrument(span).await?;
        self.work.take().unwrap_or_else(|| Err(StoreError::Closed.into()))
    }
}

/// The pending end of a command or a query.
pub(super) struct PendingEnd {
    pub(super) end: oneshot::Receiver<()>,
    pub(super) deadline: Option<Deadline>,
    pub(super) work: Arc<dyn AnyWork>,
    /// Whether it belongs to a command and not to a query, which changes nothing.
    pub(super) is_command: bool,
}

impl PendingEnd {
    /// Waits until there is a result.
    async fn wait(mut self) -> Result<(), StoreError> {
        tokio::select! {
            biased;
            ended = &mut self.end => ended.map_err(|_| StoreError::Closed),
            () = passed(self.deadline) => {
                let is_withdrawn = self.work.progress().withdraw();
                if self.end.try_recv().is_ok() {
                    return Ok(());
                }
                if is_withdrawn && !self.is_command {
                    // The database did not receive the query: other queries took too long.
                    return Err(StoreError::TooSlow("it was not started in time".to_owned()));
                }
                let why = if is_withdrawn || !self.is_command {
                    "no answer in time; nothing was changed"
                } else {
                    "no answer in time; whether the change was made is not known"
                };
                Err(StoreError::Unavailable(why.to_owned()))
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
