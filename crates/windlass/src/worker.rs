//! A worker: claims jobs for its free slots, runs their handlers, keeps their leases, reports their ends in batches, and
//! leaves in stages. Cutting off a handler never depends on the handler: its fence is gone first.

pub(crate) mod batch_collector;
pub(crate) mod completer;
mod control;
pub(crate) mod execute;
mod fetch_loop;
mod heartbeat;
mod in_flight;
mod shutdown;
mod slots;

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use control::WorkerControl;
pub use shutdown::ShutdownReport;

use crate::client::{Client, Job};
use crate::context::{CancelReason, CrashPoint, Cx, RunOptions, StepLog, StepMode};
use crate::error::{FieldProblem, Invalid, WorkError};
use crate::handler::{
    AnyHandler, BatchHandler, BatchOptions, Batched, Blocking, Handler, HandlerFuture, States, Typed, Untyped,
};
use crate::job::{Failure, JobType, QueueName, WorkerId};
use crate::limits;
use crate::store::command::finish::{Outcome, Report};
use crate::store::command::worker::NewWorker;
use in_flight::Running;
use slots::SlotPool;

/// Something that runs around every handler.
pub(crate) type Layer = Arc<dyn Fn(Cx, HandlerFuture) -> HandlerFuture + Send + Sync>;
/// Decides when a job is tried again whose policy leaves it to the worker.
pub(crate) type RetryDelay = Arc<dyn Fn(&Cx, &Failure) -> Duration + Send + Sync>;

/// A worker before it runs: what it handles, with what, how many at once.
pub struct Worker {
    client: Client,
    name: String,
    version: Option<String>,
    states: States,
    lanes: Vec<(QueueName, usize)>,
    handlers: HashMap<JobType, Arc<dyn AnyHandler>>,
    fallback: Option<Arc<dyn AnyHandler>>,
    layers: Vec<Layer>,
    settings: Settings,
    control: WorkerControl,
    invalid: Option<Invalid>,
}

/// How a worker behaves.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) heartbeat_every: Duration,
    pub(crate) drain: Duration,
    pub(crate) grace: Duration,
    pub(crate) conduct: RunOptions,
    pub(crate) retry_delay: Option<RetryDelay>,
}

impl Worker {
    /// A worker for this queue that handles nothing yet.
    pub fn new(client: &Client) -> Worker {
        Worker {
            client: client.clone(),
            name: String::new(),
            version: None,
            states: States::default(),
            lanes: Vec::new(),
            handlers: HashMap::new(),
            fallback: None,
            layers: Vec::new(),
            settings: Settings {
                heartbeat_every: limits::HEARTBEAT_EVERY,
                drain: limits::DRAIN_DEFAULT,
                grace: limits::GRACE_DEFAULT,
                conduct: RunOptions::default(),
                retry_delay: None,
            },
            control: WorkerControl::default(),
            invalid: None,
        }
    }

    /// A label for people.
    #[must_use]
    pub fn name(mut self, name: &str) -> Worker {
        name.clone_into(&mut self.name);
        self
    }

    /// The version of the program, for people.
    #[must_use]
    pub fn version(mut self, version: &str) -> Worker {
        self.version = Some(version.to_owned());
        self
    }

    /// Gives handlers something to ask for as [`State<T>`](crate::handler::State).
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Worker {
        self.states.insert(state);
        self
    }

    /// Takes up to `concurrency` jobs at once from a queue. Without any, ten at once from `default`. For a queue that is
    /// named twice the last number counts; 0 is refused when the worker starts.
    #[must_use]
    pub fn queue(mut self, name: &str, concurrency: usize) -> Worker {
        match QueueName::new(name) {
            Ok(_) if concurrency == 0 => {
                let (value, max) = (concurrency.to_string(), limits::SLOTS_MAX.to_string());
                let problem = FieldProblem::OutOfRange { value, min: "1".into(), max };
                self.invalid = Some(Invalid::new("queue.concurrency", problem));
            }
            Ok(queue) => {
                self.lanes.retain(|(other, _)| *other != queue);
                self.lanes.push((queue, concurrency.min(limits::SLOTS_MAX)));
            }
            Err(problem) => self.invalid = Some(Invalid::new("queue", problem)),
        }
        self
    }

    /// Runs jobs of kind `J` with an async function.
    #[must_use]
    pub fn handle<J: Job, Args: 'static>(self, handler: impl Handler<J, Args>) -> Worker {
        self.insert(J::TYPE, Arc::new(Typed { handler, kind: PhantomData::<fn() -> (J, Args)> }))
    }

    /// Runs jobs of kind `J` with a function that blocks, on a thread of its own.
    #[must_use]
    pub fn handle_blocking<J: Job, E: Into<anyhow::Error> + 'static>(
        self,
        handler: impl Fn(J, Cx) -> Result<J::Output, E> + Clone + Send + Sync + 'static,
    ) -> Worker {
        self.insert(J::TYPE, Arc::new(Blocking { handler, kind: PhantomData::<fn() -> J> }))
    }

    /// Runs jobs of kind `J` with an async function that takes many at once: as many as `options` say, or as have come
    /// when the first has waited long enough. Each keeps its own slot, time limit, retries and end.
    ///
    /// A call that panics fails all its jobs, and one that hangs those whose time is over; each of them is tried by itself
    /// the next time, so that one bad job does not spend the attempts of others.
    #[must_use]
    pub fn handle_batch<J: Job, Args: 'static>(
        mut self,
        options: BatchOptions,
        handler: impl BatchHandler<J, Args>,
    ) -> Worker {
        if let Err(invalid) = options.check() {
            self.invalid = Some(invalid);
        }
        self.insert(J::TYPE, Arc::new(Batched::<_, J, Args>::new(handler, options)))
    }

    /// Runs jobs of every type that no other handler is for: their type and payload are in the context. The worker then
    /// takes whatever its queues hold.
    #[must_use]
    pub fn handle_any<F, R, E>(mut self, handler: impl Fn(Cx) -> F + Send + Sync + 'static) -> Worker
    where
        F: Future<Output = Result<R, E>> + Send + 'static,
        R: Serialize,
        E: Into<anyhow::Error>,
    {
        self.fallback = Some(Arc::new(Untyped { handler }));
        self
    }

    /// Runs jobs of one type, by its name: for types that are known only when the program runs. Their payload is in the
    /// context.
    #[must_use]
    pub fn handle_type<F, R, E>(self, name: &str, handler: impl Fn(Cx) -> F + Send + Sync + 'static) -> Worker
    where
        F: Future<Output = Result<R, E>> + Send + 'static,
        R: Serialize,
        E: Into<anyhow::Error>,
    {
        self.insert(name, Arc::new(Untyped { handler }))
    }

    fn insert(mut self, name: &str, handler: Arc<dyn AnyHandler>) -> Worker {
        match JobType::new(name) {
            Ok(job_type) => {
                if self.handlers.insert(job_type, handler).is_some() {
                    let problem =
                        FieldProblem::Contradiction(format!("`{name}` has two: one of them would never run"));
                    self.invalid = Some(Invalid::new("handler", problem));
                }
            }
            Err(problem) => self.invalid = Some(Invalid::new("type", problem)),
        }
        self
    }

    /// Runs something around every handler; the last one added is the outermost.
    #[must_use]
    pub fn layer(
        mut self,
        layer: impl Fn(Cx, HandlerFuture) -> HandlerFuture + Send + Sync + 'static,
    ) -> Worker {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Decides how long to wait before a failed job is tried again, for jobs whose policy is
    /// [`RetryPolicy::custom`](crate::job::RetryPolicy::custom) (M41). A failure that names its own delay is not asked
    /// about, and no delay is longer than the policy's longest.
    #[must_use]
    pub fn retry_delay(
        mut self,
        decide: impl Fn(&Cx, &Failure) -> Duration + Send + Sync + 'static,
    ) -> Worker {
        self.settings.retry_delay = Some(Arc::new(decide));
        self
    }

    /// How long handlers may go on after shutdown began.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Worker {
        self.settings.drain = drain;
        self
    }

    /// How long a handler that was told to stop may clean up.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Worker {
        self.settings.grace = grace;
        self
    }

    /// How often it shows that it lives.
    #[must_use]
    pub fn heartbeat_every(mut self, every: Duration) -> Worker {
        self.settings.heartbeat_every = every.clamp(Duration::from_millis(1), limits::WORKER_SILENCE_MAX / 2);
        self
    }

    /// Lets jobs run on whose saved steps do not match the code any more (M71).
    #[must_use]
    pub fn lenient_steps(mut self) -> Worker {
        self.settings.conduct.mode = StepMode::Lenient;
        self
    }

    /// Makes the worker die at this point, for tests of recovery.
    #[must_use]
    pub fn crash_at(mut self, point: CrashPoint) -> Worker {
        self.settings.conduct.crash = Some(point);
        self
    }

    /// Writes down every call of a step, for tests.
    pub(crate) fn journalled(mut self, journal: Arc<StepLog>) -> Worker {
        self.settings.conduct.journal = Some(journal);
        self
    }

    /// A handle to pause and resume it from remote in the program.
    pub fn control(&self) -> WorkerControl {
        self.control.clone()
    }

    /// Runs until `shutdown` is over, whatever it returns, then leaves in stages: stop claiming, drain, interrupt, release.
    ///
    /// # Errors
    /// When the worker cannot register (a bad name, a handler that asks for what was not given, a role that may not work,
    /// a store that is gone), and when it cannot go on because the store was closed or its role was taken away.
    pub async fn run_until(self, shutdown: impl Future) -> Result<ShutdownReport, WorkError> {
        let (shared, queues, inbox) = self.assemble().await?;
        let stop = CancellationToken::new();
        shared.start_handlers(&stop);
        let mut lanes = JoinSet::new();
        for (queue, slots) in queues {
            lanes.spawn(fetch_loop::run(
                shared.clone(),
                queue,
                SlotPool::new(slots, stop.clone()),
                stop.clone(),
            ));
        }
        let (over, closing) = (CancellationToken::new(), CancellationToken::new());
        let beating = tokio::spawn(heartbeat::run(shared.clone(), over.clone()));
        let pausing = tokio::spawn(shutdown::release_when_paused(shared.clone(), over.clone()));
        let telling = tokio::spawn(shutdown::tell_when_paused(shared.clone(), over.clone()));
        let reporting = tokio::spawn(completer::run(shared.clone(), inbox, closing.clone()));
        let trouble = tokio::select! {
            _ = shutdown => None,
            error = fetch_loop::first_error(&mut lanes) => Some(error),
        };
        stop.cancel();
        // A lane that panicked has nothing left to stop.
        while lanes.join_next().await.is_some() {}
        let released = shutdown::leave(&shared, reporting, &closing).await;
        // Before the farewell: a beat after it would be that of a worker nobody knows.
        over.cancel();
        let _ = tokio::join!(beating, pausing, telling);
        let farewell = shutdown::farewell(&shared, released).await;
        trouble.map_or(Ok(farewell), Err)
    }

    /// Runs for ever.
    ///
    /// # Errors
    /// As [`run_until`](Worker::run_until).
    pub async fn run(self) -> Result<ShutdownReport, WorkError> {
        self.run_until(std::future::pending::<()>()).await
    }

    pub(crate) async fn assemble(
        mut self,
    ) -> Result<(Arc<WorkerShared>, Vec<(QueueName, usize)>, mpsc::Receiver<Report>), WorkError> {
        if let Some(invalid) = self.invalid.take() {
            return Err(invalid.into());
        }
        if self.handlers.is_empty() && self.fallback.is_none() {
            return Err(Invalid::new("handler", FieldProblem::Missing).into());
        }
        self.check_states()?;
        if self.lanes.is_empty() {
            self.lanes.push((QueueName::default(), CONCURRENCY_DEFAULT));
        }
        let slots: usize = self.lanes.iter().map(|(_, slots)| slots).sum();
        let new = NewWorker {
            name: self.name,
            queues: self.lanes.iter().map(|(queue, _)| queue.clone()).collect(),
            // None means any.
            types: if self.fallback.is_some() { Vec::new() } else { self.handlers.keys().cloned().collect() },
            concurrency: u32::try_from(slots).unwrap_or(u32::MAX),
            version: self.version,
            heartbeats: true,
        };
        let id = self.client.store().register(self.client.caller(), new.clone()).await?.id;
        let (reports, inbox) = mpsc::channel(limits::REPORTS_BUFFERED_MAX);
        self.control.registered(id);
        let shared = Arc::new(WorkerShared {
            client: self.client,
            new,
            registering: Mutex::default(),
            states: self.states,
            handlers: self.handlers,
            fallback: self.fallback,
            layers: self.layers,
            settings: self.settings,
            control: self.control,
            running: Running::default(),
            reports,
            released: AtomicUsize::new(0),
        });
        Ok((shared, self.lanes, inbox))
    }
}

impl Worker {
    /// Refuses handlers that ask for what the worker was not given: every job they took would fail.
    fn check_states(&self) -> Result<(), Invalid> {
        for (job_type, handler) in &self.handlers {
            if let Some(missing) = handler.missing(&self.states) {
                let message =
                    format!("`{job_type}` asks for `State<{missing}>`: give one with `Worker::with`");
                return Err(Invalid::new("handler", FieldProblem::Contradiction(message)));
            }
        }
        Ok(())
    }
}

/// Jobs at once from a queue for which nobody said how many.
const CONCURRENCY_DEFAULT: usize = 10;

/// What the parts of a running worker share.
pub(crate) struct WorkerShared {
    pub(crate) client: Client,
    new: NewWorker,
    registering: Mutex<()>,
    pub(crate) states: States,
    handlers: HashMap<JobType, Arc<dyn AnyHandler>>,
    fallback: Option<Arc<dyn AnyHandler>>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) settings: Settings,
    pub(crate) control: WorkerControl,
    pub(crate) running: Running,
    reports: mpsc::Sender<Report>,
    /// Jobs given back so far.
    pub(crate) released: AtomicUsize,
}

impl WorkerShared {
    /// Under which identity it is registered now.
    pub(crate) fn id(&self) -> WorkerId {
        self.control.id().expect("a crew registers before it works")
    }

    /// The types it claims; none for any.
    pub(crate) fn types(&self) -> Option<Vec<JobType>> {
        self.fallback.is_none().then(|| self.handlers.keys().cloned().collect())
    }

    /// Tells handlers how many jobs can run at once, and what fires when no more are started.
    pub(crate) fn start_handlers(&self, stop: &CancellationToken) {
        let slots = usize::try_from(self.new.concurrency).unwrap_or(usize::MAX);
        self.handlers.values().for_each(|handler| handler.start(slots, stop));
    }

    /// What runs jobs of a type.
    pub(crate) fn handler(&self, job_type: &JobType) -> Option<&dyn AnyHandler> {
        self.handlers.get(job_type).or(self.fallback.as_ref()).map(AsRef::as_ref)
    }

    /// Sends a report on its way.
    pub(crate) async fn report(&self, report: Report) {
        if report.outcome == Outcome::Released {
            self.released.fetch_add(1, Ordering::Relaxed);
        }
        // Reporting ends after the last handler; if it has, the lease ends by itself.
        let _ = self.reports.send(report).await;
    }

    /// Registers anew when the store has forgotten this identity: a program that stood still for hours goes on with a new
    /// one. Whatever it ran is not its own any more.
    pub(crate) async fn register_again(&self, forgotten: WorkerId) -> Result<(), WorkError> {
        let _one_at_a_time = self.registering.lock().await;
        if self.id() != forgotten {
            return Ok(());
        }
        self.cancel_all(CancelReason::Lost);
        let id = self.client.store().register(self.client.caller(), self.new.clone()).await?.id;
        tracing::warn!(%forgotten, worker = %id, "worker was forgotten and has registered anew");
        self.control.registered(id);
        Ok(())
    }

    /// Tells every handler to stop.
    pub(crate) fn cancel_all(&self, why: CancelReason) {
        self.running.all().iter().for_each(|cx| cx.cancel(why));
    }
}

/// Lets others have their turn.
///
/// Not tokio's own `yield_now`: that wakes its caller only when the same thread next comes to rest, which a handler that
/// never yields keeps it from. This queues the caller like any task, where other threads can take it.
async fn yield_now() {
    let mut has_given_way = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_given_way, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
