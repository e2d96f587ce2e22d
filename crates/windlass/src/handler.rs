//! Handlers: async functions that take a job and extractors. Any error is a temporary failure unless it is a
//! [`Failure`] of another category.

mod batch;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub(crate) use batch::BatchedHandler;
pub use batch::{BatchHandler, BatchOptions, BatchResult, ExtractAll, Outcomes};

use crate::client::Job;
use crate::context::{Cx, ParkUnwind};
use crate::job::{Category, ErrorCause, Failure};
use crate::limits;
use crate::worker::HandlersAlive;

/// A handler's future: its output as JSON, or its error. [Layers](crate::worker::Worker::layer) wrap it.
pub type HandlerFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>, anyhow::Error>> + Send>>;

/// A handler without its job type as a type parameter.
pub(crate) trait AnyHandler: Send + Sync {
    fn call(&self, payload: &[u8], cx: Cx) -> HandlerFuture;

    /// The type name of the first extracted state that is missing from `states`.
    fn missing(&self, states: &States) -> Option<&'static str>;

    /// Called when a worker starts that runs at most `slots` jobs at once, and starts no more once `stop` fires. Tasks of
    /// the handler's own hold `alive`.
    fn start(&self, _slots: usize, _stop: &CancellationToken, _alive: &HandlersAlive) {}
}

/// An async function that runs jobs of type `J`; `Args` are its extractors.
///
/// Implemented for `async fn(job) -> Result<J::Output, E>` with up to four further [`Extract`] arguments, where `E` is
/// any error: `anyhow::Error`, your own, or [`Failure`] to set category, code and delay.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler of `{J}`",
    label = "not a handler",
    note = "a handler is an `async fn` whose first argument is the job, followed by up to four that implement `Extract` \
            (`Cx`, `State<T>`), and which returns `Result<<{J} as Job>::Output, E>` for any error `E`"
)]
pub trait Handler<J: Job, Args>: Clone + Send + Sync + 'static {
    /// Runs the handler.
    fn run(self, job: J, cx: Cx) -> impl Future<Output = Result<J::Output, anyhow::Error>> + Send;

    /// The type name of the first extracted state that the worker does not have. Such a worker does not start.
    #[allow(unused_variables, reason = "the name documents the parameter for implementors")]
    fn missing(states: &States) -> Option<&'static str> {
        None
    }
}

/// An argument that a handler can extract from its context.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler argument",
    note = "a handler can take `Cx`, `State<{Self}>` if the worker has one, and types that implement `Extract`"
)]
pub trait Extract: Sized + Send {
    /// Extracts the value from the context.
    ///
    /// # Errors
    /// If the worker does not have the value.
    fn extract(cx: &Cx) -> Result<Self, Failure>;

    /// The type name of the state that the worker does not have, if any. Such a worker does not start.
    #[allow(unused_variables, reason = "the name documents the parameter for implementors")]
    fn missing(states: &States) -> Option<&'static str> {
        None
    }
}

impl Extract for Cx {
    fn extract(cx: &Cx) -> Result<Cx, Failure> {
        Ok(cx.for_argument())
    }
}

/// Extracts a value that was added with [`Worker::with`](crate::worker::Worker::with): a pool, a client, a
/// configuration.
#[derive(Debug, Clone)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    fn extract(cx: &Cx) -> Result<State<T>, Failure> {
        cx.states().get::<T>().map(State).ok_or_else(|| {
            let name = std::any::type_name::<T>();
            Failure::temporary(format!("the worker has no {name}: add one with `Worker::with`"))
                .with_code("state_missing")
        })
    }

    fn missing(states: &States) -> Option<&'static str> {
        (!states.has::<T>()).then(std::any::type_name::<T>)
    }
}

/// The values added with [`Worker::with`](crate::worker::Worker::with), by type.
#[derive(Clone, Default)]
pub struct States(Arc<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl States {
    pub(crate) fn insert<T: Clone + Send + Sync + 'static>(&mut self, value: T) {
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), Arc::new(value));
    }

    /// Whether a value of this type was added.
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

/// A typed handler, type-erased.
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

/// A handler for jobs of any type, which reads type and payload from the context.
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

/// A blocking handler: it runs on a thread of its own and cannot be interrupted; only its fence is revoked. When it
/// parks, its thread is unwound.
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
                        // It has parked; the supervising task knows.
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

#[allow(clippy::needless_pass_by_value, reason = "so that it can be passed to `map_err`")]
fn unreadable(error: serde_json::Error) -> anyhow::Error {
    Failure::permanent("payload_unreadable", format!("the payload cannot be read as this type: {error}"))
        .into()
}

fn encode<T: serde::Serialize>(output: &T) -> Result<Vec<u8>, anyhow::Error> {
    serde_json::to_vec(output).map_err(|error| {
        Failure::permanent("result_unwritable", format!("the result cannot be written as JSON: {error}"))
            .into()
    })
}

/// Encodes a result as JSON and checks that it can be read back, so that an unreadable result fails where it was
/// produced.
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

/// The error of reading a value back from JSON. Only JSON with a `null` is checked, because a non-finite number is
/// written as `null`.
pub(crate) fn lost_in_json<T: serde::de::DeserializeOwned>(json: &[u8]) -> Option<serde_json::Error> {
    let has_null = json.windows(4).any(|word| word == b"null");
    // A type that panics while being read does so in its handler, where panics are handled.
    let read = || catch_unwind(AssertUnwindSafe(|| serde_json::from_slice::<T>(json).err()));
    has_null.then(read)?.ok().flatten()
}

/// Runs the job again after this delay, without counting a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("snoozed for {0:?}")]
pub struct Snooze(pub Duration);

/// The failure that an error stands for: the [`Failure`] in it, or else a temporary failure.
///
/// A `Failure` is also found below context and as the source of another error. The message contains the whole chain.
pub(crate) fn failure_of(error: &anyhow::Error) -> Failure {
    let found = find_error::<Failure>(error);
    let whole = Failure::new(Category::Temporary, format!("{error:#}"));
    let failure = match found {
        Some(failure) => Failure { message: whole.message, cause: Vec::new(), ..failure.clone() },
        None => whole,
    };
    let behind = error.chain().skip(1).take(limits::ERROR_CAUSES_MAX).map(cause_of);
    let causes = found.into_iter().flat_map(|failure| failure.cause.iter().cloned());
    behind.chain(causes).fold(failure, Failure::with_cause)
}

fn cause_of(error: &(dyn std::error::Error + 'static)) -> ErrorCause {
    let code = error.downcast_ref::<Failure>().and_then(|failure| failure.code.clone());
    let cause = ErrorCause::new(error.to_string());
    code.map_or(cause.clone(), |code| cause.with_code(code))
}

/// Finds a `T` in an error: the error itself, below context, or a source.
pub(crate) fn find_error<T: std::error::Error + Send + Sync + 'static>(error: &anyhow::Error) -> Option<&T> {
    error.downcast_ref::<T>().or_else(|| error.chain().find_map(|cause| cause.downcast_ref::<T>()))
}
