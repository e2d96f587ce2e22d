//! Batch handlers: one call for many jobs of one type, with an outcome for each job. Every job keeps its own slot,
//! lease, timeout and outcome; only the call is shared.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    AnyHandler, Extract, HandlerFuture, Snooze, State, States, encode_readable, failure_of, find_error,
    unreadable,
};
use crate::client::Job;
use crate::context::{Cx, ParkUnwind};
use crate::error::{FieldError, FieldProblem};
use crate::job::{Category, Failure};
use crate::limits;
use crate::worker::HandlersAlive;
use crate::worker::batch_collector::{BatchCollector, BatchExit};
use crate::worker::execute::{Panic, panic_message};

/// How many jobs a batch handler gets at once, and how long the first job waits for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    /// Most jobs in a batch; never more than the worker has slots.
    pub jobs_max: usize,
    /// How long the first job waits for others. The wait counts towards its timeout.
    pub wait_max: Duration,
}

impl BatchOptions {
    /// Batches of up to `jobs_max` jobs; the first job waits at most `wait_max`.
    pub fn new(jobs_max: usize, wait_max: Duration) -> BatchOptions {
        BatchOptions { jobs_max, wait_max }
    }

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        let range = |field, value, min: &str, max| {
            Err(FieldError::new(field, FieldProblem::OutOfRange { value, min: min.into(), max }))
        };
        if !(1..=limits::BATCH_HANDLER_JOBS_MAX).contains(&self.jobs_max) {
            return range(
                "jobs_max",
                self.jobs_max.to_string(),
                "1",
                limits::BATCH_HANDLER_JOBS_MAX.to_string(),
            );
        }
        if self.wait_max > limits::BATCH_COLLECT_MAX {
            return range(
                "wait_max",
                format!("{:?}", self.wait_max),
                "0s",
                format!("{:?}", limits::BATCH_COLLECT_MAX),
            );
        }
        Ok(())
    }
}

/// An async function that runs many jobs of type `J` at once; `Args` are its extractors.
///
/// Implemented for `async fn(Vec<J>) -> R` with up to four further [`ExtractAll`] arguments, where `R` is any of the
/// [`Outcomes`] for `J::Output`: `Vec<Result<J::Output, E>>` with one outcome per job in the order of the jobs, or
/// `Result<Vec<Result<J::Output, E>>, E>` or `Result<Vec<J::Output>, E>`, whose error fails every job.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch handler of `{J}`",
    label = "not a batch handler",
    note = "a batch handler is an `async fn` whose first argument is `Vec<{J}>`, followed by up to four that implement \
            `ExtractAll` (`Vec<Cx>`, `State<T>`), and which returns `Vec<Result<<{J} as Job>::Output, E>>` for any error `E`"
)]
pub trait BatchHandler<J: Job, Args>: Clone + Send + Sync + 'static {
    /// Runs the handler on these jobs. Jobs and contexts have the same order.
    ///
    /// # Errors
    /// An error that fails every job of the batch.
    fn run(self, jobs: Vec<J>, contexts: Vec<Cx>) -> impl Future<Output = BatchResult<J::Output>> + Send;

    /// The type name of the first extracted state that the worker does not have. Such a worker does not start.
    #[allow(unused_variables, reason = "the name documents the parameter for implementors")]
    fn missing(states: &States) -> Option<&'static str> {
        None
    }
}

/// The outcome of each job of a batch, in order, or one error for all of them.
pub type BatchResult<T> = Result<Vec<Result<T, anyhow::Error>>, anyhow::Error>;

/// Return types of a batch handler for jobs whose output is `T`.
#[diagnostic::on_unimplemented(
    message = "a batch handler cannot return `{Self}`",
    note = "return `Vec<Result<{T}, E>>`, `Result<Vec<Result<{T}, E>>, E>` or `Result<Vec<{T}>, E>`, for any error `E`"
)]
pub trait Outcomes<T> {
    /// The outcome of each job, in order.
    ///
    /// # Errors
    /// An error that fails every job.
    fn outcomes(self) -> BatchResult<T>;
}

impl<T, E: Into<anyhow::Error>> Outcomes<T> for Vec<Result<T, E>> {
    fn outcomes(self) -> BatchResult<T> {
        Ok(self.into_iter().map(|outcome| outcome.map_err(Into::into)).collect())
    }
}

impl<T, E: Into<anyhow::Error>, A: Into<anyhow::Error>> Outcomes<T> for Result<Vec<Result<T, E>>, A> {
    fn outcomes(self) -> BatchResult<T> {
        self.map_err(Into::into)?.outcomes()
    }
}

impl<T, E: Into<anyhow::Error>> Outcomes<T> for Result<Vec<T>, E> {
    fn outcomes(self) -> BatchResult<T> {
        Ok(self.map_err(Into::into)?.into_iter().map(Ok).collect())
    }
}

/// An argument that a batch handler can extract: [`State<T>`](State), or a `Vec` of any [`Extract`] type with one item
/// per job.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch handler argument",
    note = "a batch handler can take `Vec<Cx>`, `State<{Self}>` if the worker has one, and a `Vec` of a type that \
            implements `Extract`"
)]
pub trait ExtractAll: Sized + Send {
    /// Extracts the value from the contexts of the jobs; there is at least one.
    ///
    /// # Errors
    /// If the worker does not have the value. Every job fails with this error.
    fn extract_all(contexts: &[Cx]) -> Result<Self, Failure>;

    /// The type name of the state that the worker does not have, if any. Such a worker does not start.
    #[allow(unused_variables, reason = "the name documents the parameter for implementors")]
    fn missing(states: &States) -> Option<&'static str> {
        None
    }
}

impl<T: Clone + Send + Sync + 'static> ExtractAll for State<T> {
    fn extract_all(contexts: &[Cx]) -> Result<State<T>, Failure> {
        State::extract(contexts.first().expect("a batch has a job"))
    }

    fn missing(states: &States) -> Option<&'static str> {
        <State<T> as Extract>::missing(states)
    }
}

impl<E: Extract> ExtractAll for Vec<E> {
    fn extract_all(contexts: &[Cx]) -> Result<Vec<E>, Failure> {
        contexts.iter().map(E::extract).collect()
    }

    fn missing(states: &States) -> Option<&'static str> {
        E::missing(states)
    }
}

macro_rules! batch_handler {
    ($($argument:ident),*) => {
        #[allow(non_snake_case, unused_variables)]
        impl<F, Fut, J, R, $($argument,)*> BatchHandler<J, ($($argument,)*)> for F
        where
            J: Job,
            F: Fn(Vec<J>, $($argument),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = R> + Send,
            R: Outcomes<J::Output>,
            $($argument: ExtractAll,)*
        {
            async fn run(self, jobs: Vec<J>, contexts: Vec<Cx>) -> BatchResult<J::Output> {
                $(let $argument = $argument::extract_all(&contexts)?;)*
                // Only contexts that the handler extracts count as its own.
                drop(contexts);
                self(jobs, $($argument),*).await.outcomes()
            }

            fn missing(states: &States) -> Option<&'static str> {
                let nothing = None;
                $(let nothing = nothing.or_else(|| $argument::missing(states));)*
                nothing
            }
        }
    };
}

batch_handler!();
batch_handler!(A1);
batch_handler!(A1, A2);
batch_handler!(A1, A2, A3);
batch_handler!(A1, A2, A3, A4);

/// A batch handler, type-erased: a call for one job joins a call for many.
pub(crate) struct BatchedHandler<H, J, Args> {
    handler: H,
    collector: Arc<BatchCollector<Member<J>>>,
    alive: OnceLock<HandlersAlive>,
    kind: PhantomData<fn() -> Args>,
}

/// One job of a batch.
struct Member<J> {
    job: J,
    cx: Cx,
    answer: oneshot::Sender<MemberOutcome>,
    place: Arc<BatchPosition>,
}

/// A job's position in a batch: the job either starts with its batch, or leaves it before.
#[derive(Default)]
struct BatchPosition(AtomicBool);

impl BatchPosition {
    /// Returns true for the first caller.
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }

    /// Returns when the job was asked to stop before its batch started.
    async fn left(&self, cx: &Cx) {
        cx.cancelled().await;
        if !self.take() {
            std::future::pending::<()>().await;
        }
    }
}

impl<J> BatchExit for Member<J> {
    fn has_left(&self) -> bool {
        self.answer.is_closed()
    }
}

/// The outcome of one job, or the message of the handler's panic.
type MemberOutcome = Result<Result<Vec<u8>, anyhow::Error>, String>;

impl<H, J: Job, Args> BatchedHandler<H, J, Args> {
    pub(crate) fn new(handler: H, options: BatchOptions) -> BatchedHandler<H, J, Args> {
        let collector = BatchCollector::new(options.jobs_max, options.wait_max);
        BatchedHandler { handler, collector, alive: OnceLock::new(), kind: PhantomData }
    }
}

impl<H, J, Args> AnyHandler for BatchedHandler<H, J, Args>
where
    J: Job,
    H: BatchHandler<J, Args>,
    Args: 'static,
{
    fn call(&self, payload: &[u8], cx: Cx) -> HandlerFuture {
        let job: Result<J, serde_json::Error> = serde_json::from_slice(payload);
        let (handler, collector) = (self.handler.clone(), self.collector.clone());
        let alive = self.alive.get().cloned().unwrap_or_default();
        Box::pin(async move {
            let job = job.map_err(unreadable)?;
            cx.set_batched();
            let is_alone = must_be_alone(&cx);
            let (answer, answered) = oneshot::channel();
            let place = Arc::<BatchPosition>::default();
            let member = Member { job, cx: cx.clone(), answer, place: place.clone() };
            if is_alone {
                tokio::spawn(run(handler, vec![member], alive));
            } else if let Some(batch) = collector.add(member) {
                tokio::spawn(async move { run(handler, batch.all().await, alive).await });
            }
            let answered = tokio::select! {
                biased;
                answered = answered => answered,
                () = place.left(&cx) => return Err(Failure::temporary("asked to stop before the batch started").into()),
            };
            match answered {
                Ok(Ok(ended)) if !cx.has_left() => ended,
                Ok(Err(panic)) => resume_unwind(Box::new(panic)),
                // It has parked, or the worker crashes for a test; the supervising task knows.
                Ok(Ok(_)) | Err(_) => std::future::pending().await,
            }
        })
    }

    fn missing(&self, states: &States) -> Option<&'static str> {
        H::missing(states)
    }

    fn start(&self, slots: usize, stop: &CancellationToken, alive: &HandlersAlive) {
        // A worker starts once; a second call has no effect.
        let _first_or_not = self.alive.set(alive.clone());
        self.collector.supplied_by(slots, stop);
    }
}

/// Whether a job must run alone. A call that panics or hangs fails all its jobs, and the cause is unknown: each job
/// then runs alone, so one bad job cannot use up the attempts of the others.
fn must_be_alone(cx: &Cx) -> bool {
    let job = &cx.claimed().job;
    let has_timed_out = job.details.error.as_ref().is_some_and(|error| error.category == Category::Timeout);
    job.crashes > 0 || has_timed_out
}

/// Runs a batch and sends each job its outcome.
async fn run<H: BatchHandler<J, Args>, J: Job, Args: 'static>(
    handler: H,
    members: Vec<Member<J>>,
    alive: HandlersAlive,
) {
    let (mut jobs, mut contexts, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    for member in members {
        if !member.has_left() && member.place.take() {
            jobs.push(member.job);
            contexts.push(member.cx);
            answers.push(member.answer);
        }
    }
    if jobs.is_empty() {
        return;
    }
    let (count, all) = (jobs.len(), contexts.clone());
    // In a task of its own, so that a panic does not affect anything else.
    let alive = alive.try_read_owned();
    let mut call = tokio::spawn(async move {
        let _until_dropped = alive;
        encoded(handler.run(jobs, contexts).await, count)
    });
    let ended = tokio::select! {
        ended = &mut call => ended,
        () = all_closed(&mut answers) => return call.abort(),
    };
    match ended.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(outcomes) => {
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // The receiver is gone if the job was stopped.
                let _ = answer.send(Ok(outcome));
            }
        }
        Err(Ok(panic)) => panicked(&panic, answers, &all),
        // The runtime is shutting down.
        Err(Err(_)) => {}
    }
}

fn panicked(panic: &Panic, answers: Vec<oneshot::Sender<MemberOutcome>>, all: &[Cx]) {
    if panic.is::<ParkUnwind>() {
        return all.iter().for_each(Cx::crash);
    }
    for answer in answers {
        let _ = answer.send(Err(panic_message(panic)));
    }
}

/// Returns when every job of a batch has ended in another way, so its call is no longer needed.
async fn all_closed(answers: &mut [oneshot::Sender<MemberOutcome>]) {
    for answer in answers {
        answer.closed().await;
    }
}

/// The encoded outcomes of `count` jobs.
fn encoded<T: serde::Serialize + serde::de::DeserializeOwned>(
    ended: BatchResult<T>,
    count: usize,
) -> Vec<Result<Vec<u8>, anyhow::Error>> {
    let error = match ended {
        Ok(outcomes) if outcomes.len() == count => {
            return outcomes.into_iter().map(|outcome| encode_readable(&outcome?)).collect();
        }
        Ok(outcomes) => {
            let message =
                format!("the batch handler got {count} jobs and returned {} outcomes", outcomes.len());
            Failure::temporary(message).with_code("outcomes_miscounted").into()
        }
        Err(error) => error,
    };
    (0..count).map(|_| Err(again(&error))).collect()
}

/// Copies an error for another job.
fn again(error: &anyhow::Error) -> anyhow::Error {
    find_error::<Snooze>(error).map_or_else(|| failure_of(error).into(), |snooze| (*snooze).into())
}
