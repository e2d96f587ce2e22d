//! Batch handlers: one call for many jobs of a kind, with an outcome for each. To everybody else each of them is a job
//! like any other, with its own slot, lease, time limit and end; only the call is shared.

use std::future::Future;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{
    AnyHandler, Extract, HandlerFuture, Snooze, State, States, encode_readable, failure_of, said, unreadable,
};
use crate::client::Job;
use crate::context::{Cx, ParkUnwind};
use crate::error::{FieldProblem, Invalid};
use crate::job::{Category, Failure};
use crate::limits;
use crate::worker::batch_collector::{BatchCollector, BatchExit};
use crate::worker::execute::{Panic, panic_message};

/// How many jobs a batch handler is given at once, and how long the first of them waits for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchOptions {
    /// How many at most; never more than the worker has slots.
    pub jobs_max: usize,
    /// How long the first waits for others; it counts for its time limit.
    pub wait_max: Duration,
}

impl BatchOptions {
    /// Up to `jobs_max` jobs, the first of which waits no longer than `wait_max`.
    pub fn new(jobs_max: usize, wait_max: Duration) -> BatchOptions {
        BatchOptions { jobs_max, wait_max }
    }

    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let range = |field, value, min: &str, max| {
            Err(Invalid::new(field, FieldProblem::OutOfRange { value, min: min.into(), max }))
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

/// An async function that runs many jobs of kind `J` at once; `Args` are what it asks for beside them.
///
/// Implemented for `async fn(Vec<J>) -> R` and for the same with up to four [`ExtractAll`] arguments, where `R` is any
/// of the [`Outcomes`] for `J::Output`: `Vec<Result<J::Output, E>>`, one outcome for each job in the order of the jobs, or
/// either of `Result<Vec<Result<J::Output, E>>, E>` and `Result<Vec<J::Output>, E>`, whose error is that of every job.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch handler of `{J}`",
    label = "not a batch handler",
    note = "a batch handler is an `async fn` whose first argument is `Vec<{J}>`, followed by up to four that implement \
            `ExtractAll` (`Vec<Cx>`, `State<T>`), and which returns `Vec<Result<<{J} as Job>::Output, E>>` for any error `E`"
)]
pub trait BatchHandler<J: Job, Args>: Clone + Send + Sync + 'static {
    /// Runs the handler on these jobs, each with its context.
    ///
    /// # Errors
    /// What every one of them fails with.
    fn run(self, jobs: Vec<J>, contexts: Vec<Cx>) -> impl Future<Output = Ended<J::Output>> + Send;

    /// What it asks for and the worker was not given, if anything; such a worker does not start.
    #[allow(unused_variables, reason = "the name is for those who write their own")]
    fn missing(states: &States) -> Option<&'static str> {
        None
    }
}

/// The outcome of each job of a batch, in their order; or the error of them all.
pub type Ended<T> = Result<Vec<Result<T, anyhow::Error>>, anyhow::Error>;

/// What a batch handler may return for jobs whose output is `T`.
#[diagnostic::on_unimplemented(
    message = "a batch handler cannot return `{Self}`",
    note = "return `Vec<Result<{T}, E>>`, `Result<Vec<Result<{T}, E>>, E>` or `Result<Vec<{T}>, E>`, for any error `E`"
)]
pub trait Outcomes<T> {
    /// The outcome of each job.
    ///
    /// # Errors
    /// That of them all.
    fn outcomes(self) -> Ended<T>;
}

impl<T, E: Into<anyhow::Error>> Outcomes<T> for Vec<Result<T, E>> {
    fn outcomes(self) -> Ended<T> {
        Ok(self.into_iter().map(|outcome| outcome.map_err(Into::into)).collect())
    }
}

impl<T, E: Into<anyhow::Error>, A: Into<anyhow::Error>> Outcomes<T> for Result<Vec<Result<T, E>>, A> {
    fn outcomes(self) -> Ended<T> {
        self.map_err(Into::into)?.outcomes()
    }
}

impl<T, E: Into<anyhow::Error>> Outcomes<T> for Result<Vec<T>, E> {
    fn outcomes(self) -> Ended<T> {
        Ok(self.map_err(Into::into)?.into_iter().map(Ok).collect())
    }
}

/// Something a batch handler can ask for beside its jobs: a [`State<T>`](State) once, and a `Vec` of whatever other
/// handlers can ask for, with one for each job.
#[diagnostic::on_unimplemented(
    message = "a batch handler cannot ask for `{Self}`",
    note = "a batch handler can ask for `Vec<Cx>`, for `State<{Self}>` if the worker is given one, and for a `Vec` of what \
            implements `Extract`"
)]
pub trait ExtractAll: Sized + Send {
    /// Takes it from the contexts of the jobs, of which there is at least one.
    ///
    /// # Errors
    /// Says what the worker was not given; every job fails with it.
    fn extract_all(contexts: &[Cx]) -> Result<Self, Failure>;

    /// What it needs and the worker was not given, if anything; such a worker does not start.
    #[allow(unused_variables, reason = "the name is for those who write their own")]
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
            async fn run(self, jobs: Vec<J>, contexts: Vec<Cx>) -> Ended<J::Output> {
                $(let $argument = $argument::extract_all(&contexts)?;)*
                // Only those that the handler has asked for count as its own.
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

/// A batch handler behind a type name: what is called for one job takes part in a call for many.
pub(crate) struct Batched<H, J, Args> {
    handler: H,
    gather: Arc<BatchCollector<Member<J>>>,
    kind: PhantomData<fn() -> Args>,
}

/// One job of a batch.
struct Member<J> {
    job: J,
    cx: Cx,
    answer: oneshot::Sender<Answer>,
    place: Arc<BatchPosition>,
}

/// A job's place in a batch: either the batch begins with it, or it leaves before.
#[derive(Default)]
struct BatchPosition(AtomicBool);

impl BatchPosition {
    /// Whether whoever asks is the first to do so.
    fn take(&self) -> bool {
        !self.0.swap(true, Ordering::SeqCst)
    }

    /// Returns when the job was told to stop before its batch began.
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

/// What became of one job; or what the handler said when it panicked.
type Answer = Result<Result<Vec<u8>, anyhow::Error>, String>;

impl<H, J: Job, Args> Batched<H, J, Args> {
    pub(crate) fn new(handler: H, options: BatchOptions) -> Batched<H, J, Args> {
        let gather = BatchCollector::new(options.jobs_max, options.wait_max);
        Batched { handler, gather, kind: PhantomData }
    }
}

impl<H, J, Args> AnyHandler for Batched<H, J, Args>
where
    J: Job,
    H: BatchHandler<J, Args>,
    Args: 'static,
{
    fn call(&self, payload: &[u8], cx: Cx) -> HandlerFuture {
        let job: Result<J, serde_json::Error> = serde_json::from_slice(payload);
        let (handler, gather) = (self.handler.clone(), self.gather.clone());
        Box::pin(async move {
            let job = job.map_err(unreadable)?;
            cx.set_batched();
            let is_alone = must_be_alone(&cx);
            let (answer, answered) = oneshot::channel();
            let place = Arc::<BatchPosition>::default();
            let member = Member { job, cx: cx.clone(), answer, place: place.clone() };
            if is_alone {
                tokio::spawn(run(handler, vec![member]));
            } else if let Some(gathering) = gather.add(member) {
                tokio::spawn(async move { run(handler, gathering.all().await).await });
            }
            let answered = tokio::select! {
                biased;
                answered = answered => answered,
                () = place.left(&cx) => return Err(Failure::temporary("told to stop before it began").into()),
            };
            match answered {
                Ok(Ok(ended)) if !cx.has_left() => ended,
                Ok(Err(panic)) => resume_unwind(Box::new(panic)),
                // It has parked, or the worker dies for a test: whoever supervises this knows.
                Ok(Ok(_)) | Err(_) => std::future::pending().await,
            }
        })
    }

    fn missing(&self, states: &States) -> Option<&'static str> {
        H::missing(states)
    }

    fn start(&self, slots: usize, stop: &CancellationToken) {
        self.gather.supplied_by(slots, stop);
    }
}

/// Whether a job may share no call with others. A call that panics or hangs fails all its jobs, and nobody knows which of
/// them did it: each is tried by itself then, so that one bad job cannot spend the attempts of the others.
fn must_be_alone(cx: &Cx) -> bool {
    let job = &cx.claimed().job;
    let has_timed_out = job.details.error.as_ref().is_some_and(|error| error.category == Category::Timeout);
    job.crashes > 0 || has_timed_out
}

/// Runs a batch to its end, and tells each job of it.
async fn run<H: BatchHandler<J, Args>, J: Job, Args: 'static>(handler: H, members: Vec<Member<J>>) {
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
    // A task, because what panics in it ends nothing else.
    let mut call = tokio::spawn(async move { encoded(handler.run(jobs, contexts).await, count) });
    let ended = tokio::select! {
        ended = &mut call => ended,
        () = nobody_asks(&mut answers) => return call.abort(),
    };
    match ended.map_err(tokio::task::JoinError::try_into_panic) {
        Ok(outcomes) => {
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // Nobody asks for that of a job that was cut off.
                let _ = answer.send(Ok(outcome));
            }
        }
        Err(Ok(panic)) => panicked(&panic, answers, &all),
        // The runtime ends, and everything with it.
        Err(Err(_)) => {}
    }
}

fn panicked(panic: &Panic, answers: Vec<oneshot::Sender<Answer>>, all: &[Cx]) {
    if panic.is::<ParkUnwind>() {
        return all.iter().for_each(Cx::crash);
    }
    for answer in answers {
        let _ = answer.send(Err(panic_message(panic)));
    }
}

/// Returns when every job of a batch has ended in another way: its call has nobody left to work for.
async fn nobody_asks(answers: &mut [oneshot::Sender<Answer>]) {
    for answer in answers {
        answer.closed().await;
    }
}

/// What each of `count` jobs comes to.
fn encoded<T: serde::Serialize + serde::de::DeserializeOwned>(
    ended: Ended<T>,
    count: usize,
) -> Vec<Result<Vec<u8>, anyhow::Error>> {
    let error = match ended {
        Ok(outcomes) if outcomes.len() == count => {
            return outcomes.into_iter().map(|outcome| encode_readable(&outcome?)).collect();
        }
        Ok(outcomes) => {
            let message =
                format!("the batch handler was given {count} jobs and returned {} outcomes", outcomes.len());
            Failure::temporary(message).with_code("outcomes_miscounted").into()
        }
        Err(error) => error,
    };
    (0..count).map(|_| Err(again(&error))).collect()
}

/// The same error for another job.
fn again(error: &anyhow::Error) -> anyhow::Error {
    said::<Snooze>(error).map_or_else(|| failure_of(error).into(), |snooze| (*snooze).into())
}
