//! Handlers: plain async functions of a job and whatever else they ask for. Any error is a temporary failure unless it says
//! otherwise.

mod batch;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub(crate) use batch::Batched;
pub use batch::{BatchHandler, BatchOptions, Ended, ExtractAll, Outcomes};

use crate::client::Job;
use crate::context::{Cx, ParkUnwind};
use crate::job::{Category, ErrorCause, Failure};
use crate::limits;

/// A handler's run: its output as JSON, or its error. What [`around`](crate::worker::Worker::layer) wraps.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, anyhow::Error>> + Send>>;

/// A handler whose kind of job is known only by name.
pub(crate) trait AnyHandler: Send + Sync {
    fn call(&self, payload: &[u8], cx: Cx) -> HandlerFuture;

    /// What it asks for and these are not, if anything.
    fn missing(&self, states: &States) -> Option<&'static str>;

    /// A worker begins that runs no more than `slots` jobs at once, and starts none any more once `stop` fires.
    fn start(&self, _slots: usize, _stop: &CancellationToken) {}
}

/// An async function that runs jobs of kind `J`; `Args` are what it asks for beside the job.
///
/// Implemented for `async fn(job) -> Result<J::Output, E>` and for the same with up to four [`Extract`] arguments, where
/// `E` is any error: `anyhow::Error`, your own, or [`Failure`] to say what kind it is.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of `{J}`",
    label = "not a handler",
    note = "a handler is an `async fn` whose first argument is the job, followed by up to four that implement `Extract` \
            (`Cx`, `State<T>`), and which returns `Result<<{J} as Job>::Output, E>` for any error `E`"
)]
pub trait Handler<J: Job, Args>: Clone + Send + Sync + 'static {
    /// Runs the handler.
    fn run(self, job: J, cx: Cx) -> impl Future<Output = Result<J::Output, anyhow::Error>> + Send;

    /// What it asks for and the worker was not given, if anything; such a worker does not start.
    #[allow(unused_variables, reason = "the name is for those who write their own")]
    fn missing(states: &States) -> Option<&'static str> {
        None
    }
}

/// Something a handler can ask for beside its job.
#[diagnostic::on_unimplemented(
    message = "a handler cannot ask for `{Self}`",
    note = "a handler can ask for `Cx`, for `State<{Self}>` if the worker is given one, and for what implements `Extract`"
)]
pub trait Extract: Sized + Send {
    /// Takes it from the context.
    ///
    /// # Errors
    /// Says what the worker was not given.
    fn extract(cx: &Cx) -> Result<Self, Failure>;

    /// What it needs and the worker was not given, if anything; such a worker does not start.
    #[allow(unused_variables, reason = "the name is for those who write their own")]
    fn missing(states: &States) -> Option<&'static str> {
        None
    }
}

impl Extract for Cx {
    fn extract(cx: &Cx) -> Result<Cx, Failure> {
        Ok(cx.for_argument())
    }
}

/// What the worker was given with [`with`](crate::worker::Worker::with): a pool, a client, a configuration.
#[derive(Debug, Clone)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    fn extract(cx: &Cx) -> Result<State<T>, Failure> {
        cx.states().get::<T>().map(State).ok_or_else(|| {
            let name = std::any::type_name::<T>();
            Failure::temporary(format!("the worker has no {name}: give it one with `Worker::with`"))
                .with_code("state_missing")
        })
    }

    fn missing(states: &States) -> Option<&'static str> {
        (!states.has::<T>()).then(std::any::type_name::<T>)
    }
}

/// What a worker was given with [`with`](crate::worker::Worker::with), by type.
#[derive(Clone, Default)]
pub struct States(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl States {
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Whether there is one of this type.
    pub fn has<T: Clone + Send + Sync + 'static>(&self) -> bool {
        self.0.contains_key(&TypeId::of::<T>())
    }

    pub(crate) fn get<T: Clone + Send + Sync + 'static>(&self) -> Option<T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref::<T>().cloned()
    }
}

macro_rules! handler {
    ($($argument:ident),*) => {
        #[allow(non_snake_case, unused_variables)]
        impl<F, Fut, J, E, $($argument,)*> Handler<J, ($($argument,)*)> for F
        where
            J: Job,
            F: Fn(J, $($argument),*) -> Fut + Clone + Send + Sync + 'static,
            Fut: Future<Output = Result<J::Output, E>> + Send,
            E: Into<anyhow::Error>,
            $($argument: Extract,)*
        {
            async fn run(self, job: J, cx: Cx) -> Result<J::Output, anyhow::Error> {
                $(let $argument = $argument::extract(&cx)?;)*
                self(job, $($argument),*).await.map_err(Into::into)
            }

            fn missing(states: &States) -> Option<&'static str> {
                let nothing = None;
                $(let nothing = nothing.or_else(|| $argument::missing(states));)*
                nothing
            }
        }
    };
}

handler!();
handler!(A1);
handler!(A1, A2);
handler!(A1, A2, A3);
handler!(A1, A2, A3, A4);

/// A typed handler behind a type name.
pub(crate) struct Typed<H, J, Args> {
    pub(crate) handler: H,
    pub(crate) kind: std::marker::PhantomData<fn() -> (J, Args)>,
}

impl<H, J, Args> AnyHandler for Typed<H, J, Args>
where
    J: Job,
    H: Handler<J, Args>,
    Args: 'static,
{
    fn call(&self, payload: &[u8], cx: Cx) -> HandlerFuture {
        let job: Result<J, serde_json::Error> = serde_json::from_slice(payload);
        let handler = self.handler.clone();
        Box::pin(async move {
            let job = job.map_err(unreadable)?;
            encode_readable(&handler.run(job, cx).await?)
        })
    }

    fn missing(&self, states: &States) -> Option<&'static str> {
        H::missing(states)
    }
}

/// A handler for jobs of any type, which finds what it needs in the context.
pub(crate) struct Untyped<F> {
    pub(crate) handler: F,
}

impl<F, Fut, R, E> AnyHandler for Untyped<F>
where
    F: Fn(Cx) -> Fut + Send + Sync,
    Fut: Future<Output = Result<R, E>> + Send + 'static,
    R: serde::Serialize,
    E: Into<anyhow::Error>,
{
    fn call(&self, _payload: &[u8], cx: Cx) -> HandlerFuture {
        let running = (self.handler)(cx);
        Box::pin(async move { encode(&running.await.map_err(Into::into)?) })
    }

    fn missing(&self, _states: &States) -> Option<&'static str> {
        None
    }
}

/// A handler that blocks: it runs on a thread of its own and cannot be interrupted, only fenced off. One that parks
/// ends by unwinding its thread.
pub(crate) struct Blocking<F, J> {
    pub(crate) handler: F,
    pub(crate) kind: std::marker::PhantomData<fn() -> J>,
}

impl<F, J, E> AnyHandler for Blocking<F, J>
where
    J: Job,
    F: Fn(J, Cx) -> Result<J::Output, E> + Clone + Send + Sync + 'static,
    E: Into<anyhow::Error>,
{
    fn call(&self, payload: &[u8], cx: Cx) -> HandlerFuture {
        let job: Result<J, serde_json::Error> = serde_json::from_slice(payload);
        let handler = self.handler.clone();
        Box::pin(async move {
            let job = job.map_err(unreadable)?;
            cx.set_blocking();
            let ran = tokio::task::spawn_blocking(move || handler(job, cx).map_err(Into::into)).await;
            match ran {
                Ok(output) => encode_readable(&output?),
                Err(error) if error.is_panic() => {
                    let panic = error.into_panic();
                    if panic.is::<ParkUnwind>() {
                        // It has parked, and whoever supervises this knows.
                        return std::future::pending().await;
                    }
                    std::panic::resume_unwind(panic)
                }
                Err(error) => Err(error.into()),
            }
        })
    }

    fn missing(&self, _: &States) -> Option<&'static str> {
        None
    }
}

#[allow(clippy::needless_pass_by_value, reason = "so that `map_err(unreadable)` does")]
fn unreadable(error: serde_json::Error) -> anyhow::Error {
    Failure::permanent("payload_unreadable", format!("the payload is not of this kind: {error}")).into()
}

fn encode<T: serde::Serialize>(output: &T) -> Result<Vec<u8>, anyhow::Error> {
    serde_json::to_vec(output).map_err(|error| {
        Failure::permanent("result_unwritable", format!("the result cannot be written as JSON: {error}"))
            .into()
    })
}

/// A result as JSON that can be read back: what nobody could read is a failure where it was made.
fn encode_readable<T: serde::Serialize + serde::de::DeserializeOwned>(
    output: &T,
) -> Result<Vec<u8>, anyhow::Error> {
    let json = encode(output)?;
    match lost_in_json::<T>(&json) {
        Some(error) => {
            let message = format!("the result cannot be read back from its JSON: {error}");
            Err(Failure::permanent("result_unwritable", message).into())
        }
        None => Ok(json),
    }
}

/// Why a value cannot be read back because JSON has no word for a part of it: a number that is not finite is written as
/// `null`, so only what has one is looked at.
pub(crate) fn lost_in_json<T: serde::de::DeserializeOwned>(json: &[u8]) -> Option<serde_json::Error> {
    let has_null = json.windows(4).any(|word| word == b"null");
    // A type that panics when it is read does so in its handler, where that is dealt with.
    let read = || catch_unwind(AssertUnwindSafe(|| serde_json::from_slice::<T>(json).err()));
    has_null.then(read)?.ok().flatten()
}

/// Not now: the job runs again after this long, and nothing counts as failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("snoozed for {0:?}")]
pub struct Snooze(pub Duration);

/// What an error means: what it says itself if it is a [`Failure`], else a temporary failure (M43).
///
/// A failure is also found beneath context, and as the source of another error; the message tells the whole story.
pub(crate) fn failure_of(error: &anyhow::Error) -> Failure {
    let found = said::<Failure>(error);
    let whole = Failure::new(Category::Temporary, format!("{error:#}"));
    let failure = match found {
        Some(failure) => Failure { message: whole.message, cause: Vec::new(), ..failure.clone() },
        None => whole,
    };
    let behind = error.chain().skip(1).take(limits::ERROR_CAUSES_MAX).map(cause_of);
    let said = found.into_iter().flat_map(|failure| failure.cause.iter().cloned());
    behind.chain(said).fold(failure, Failure::with_cause)
}

fn cause_of(error: &(dyn std::error::Error + 'static)) -> ErrorCause {
    let code = error.downcast_ref::<Failure>().and_then(|failure| failure.code.clone());
    let cause = ErrorCause::new(error.to_string());
    code.map_or(cause.clone(), |code| cause.with_code(code))
}

/// What an error says by being, or by wrapping, a `T`: itself, beneath context, or as a source.
pub(crate) fn said<T: std::error::Error + Send + Sync + 'static>(error: &anyhow::Error) -> Option<&T> {
    error.downcast_ref::<T>().or_else(|| error.chain().find_map(|cause| cause.downcast_ref::<T>()))
}
