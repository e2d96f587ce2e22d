//! A worker: claims jobs for its free slots, runs their handlers, renews their leases, reports outcomes in batches, and
//! shuts down in stages. Stopping a handler does not depend on the handler: its fence is revoked first.

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
use tokio::sync::{Mutex, RwLock, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use control::WorkerControl;
pub use shutdown::ShutdownReport;

use crate::client::{Client, Job};
use crate::context::{CancelReason, Crash, CrashPoint, Cx, RunOptions, StepLog, StepMode};
use crate::error::{FieldError, FieldProblem, WorkError};
use crate::handler::{
    AnyHandler, BatchHandler, BatchOptions, BatchedHandler, Blocking, Handler, HandlerFuture, States, Typed,
    Untyped,
};
use crate::job::{Failure, JobType, QueueName, WorkerId};
use crate::limits;
use crate::store::command::finish::{Outcome, Report};
use crate::store::command::worker::NewWorker;
use in_flight::Running;
use slots::SlotPool;

/// A layer that wraps every handler.
pub(crate) type Layer = Arc<dyn Fn(Cx, HandlerFuture) -> HandlerFuture + Send + Sync>;
/// Computes the retry delay of jobs whose policy is custom.
pub(crate) type RetryDelay = Arc<dyn Fn(&Cx, &Failure) -> Duration + Send + Sync>;

/// A worker before it runs: its handlers, their state, its queues and its settings.
pub struct Worker {
    client: Client,
    name: String,
    version: Option<String>,
    states: States,
    queues: Vec<(QueueName, usize)>,
    handlers: HashMap<JobType, Arc<dyn AnyHandler>>,
    fallback: Option<Arc<dyn AnyHandler>>,
    layers: Vec<Layer>,
    settings: Settings,
    control: WorkerControl,
    invalid: Option<FieldError>,
}

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) heartbeat_every: Duration,
    pub(crate) drain: Duration,
    pub(crate) grace: Duration,
    pub(crate) run_options: RunOptions,
    pub(crate) retry_delay: Option<RetryDelay>,
}

impl Worker {
    /// A worker for this client's store, without handlers.
    pub fn new(client: &Client) -> Worker {
        Worker {
            client: client.clone(),
            name: String::new(),
            version: None,
            states: States::default(),
            queues: Vec::new(),
            handlers: HashMap::new(),
            fallback: None,
            layers: Vec::new(),
            settings: Settings {
                heartbeat_every: limits::HEARTBEAT_EVERY,
                drain: limits::DRAIN_DEFAULT,
                grace: limits::GRACE_DEFAULT,
                run_options: RunOptions::default(),
                retry_delay: None,
            },
            control: WorkerControl::default(),
            invalid: None,
        }
    }

    /// A name for people, shown in the worker list.
    #[must_use]
    pub fn name(mut self, name: &str) -> Worker {
        name.clone_into(&mut self.name);
        self
    }

    /// The program's version, shown in the worker list. Jobs that [require a version](crate::JobBuilder::requires_version)
    /// are received only by workers with exactly that version.
    #[must_use]
    pub fn version(mut self, version: &str) -> Worker {
        self.version = Some(version.to_owned());
        self
    }

    /// Adds a value that handlers can extract as [`State<T>`](crate::handler::State).
    #[must_use]
    pub fn with<T: Clone + Send + Sync + 'static>(mut self, state: T) -> Worker {
        self.states.insert(state);
        self
    }

    /// Runs up to `concurrency` jobs of a queue at once. Without any call, the worker runs ten jobs at once from
    /// `default`. The last call for a queue wins. 0 is rejected when the worker starts.
    #[must_use]
    pub fn queue(mut self, name: &str, concurrency: usize) -> Worker {
        match QueueName::new(name) {
            Ok(_) if concurrency == 0 => {
                let (value, max) = (concurrency.to_string(), limits::SLOTS_MAX.to_string());
                let problem = FieldProblem::OutOfRange { value, min: "1".into(), max };
                self.invalid = Some(FieldError::new("queue.concurrency", problem));
            }
            Ok(queue) => {
                self.queues.retain(|(other, _)| *other != queue);
                self.queues.push((queue, concurrency.min(limits::SLOTS_MAX)));
            }
            Err(problem) => self.invalid = Some(FieldError::new("queue", problem)),
        }
        self
    }

    /// Runs jobs of type `J` with an async function.
    #[must_use]
    pub fn handle<J: Job, Args: 'static>(self, handler: impl Handler<J, Args>) -> Worker {
        self.insert(J::TYPE, Arc::new(Typed { handler, kind: PhantomData::<fn() -> (J, Args)> }))
    }

    /// Runs jobs of type `J` with a blocking function, on a thread of its own.
    #[must_use]
    pub fn handle_blocking<J: Job, E: Into<anyhow::Error> + 'static>(
        self,
        handler: impl Fn(J, Cx) -> Result<J::Output, E> + Clone + Send + Sync + 'static,
    ) -> Worker {
        self.insert(J::TYPE, Arc::new(Blocking { handler, kind: PhantomData::<fn() -> J> }))
    }

    /// Runs jobs of type `J` in batches with an async function. A batch starts when it is full or when its first job
    /// has waited long enough; see [`BatchOptions`]. Each job keeps its own slot, timeout, retries and outcome.
    ///
    /// A call that panics fails all its jobs; a call that hangs fails the jobs that time out. Each of these jobs then
    /// runs alone in its next attempt, so one bad job does not use up the attempts of others.
    #[must_use]
    pub fn handle_batch<J: Job, Args: 'static>(
        mut self,
        options: BatchOptions,
        handler: impl BatchHandler<J, Args>,
    ) -> Worker {
        if let Err(invalid) = options.check() {
            self.invalid = Some(invalid);
        }
        self.insert(J::TYPE, Arc::new(BatchedHandler::<_, J, Args>::new(handler, options)))
    }

    /// Runs jobs of every type that has no other handler; type and payload are in the context. The worker then claims
    /// jobs of any type from its queues.
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

    /// Runs jobs of a type that is only known at run time. The payload is in the context.
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
                    let problem = FieldProblem::Contradiction(format!(
                        "`{name}` has two handlers: one of them would never run"
                    ));
                    self.invalid = Some(FieldError::new("handler", problem));
                }
            }
            Err(problem) => self.invalid = Some(FieldError::new("type", problem)),
        }
        self
    }

    /// Wraps every handler; the last layer added is the outermost.
    #[must_use]
    pub fn layer(
        mut self,
        layer: impl Fn(Cx, HandlerFuture) -> HandlerFuture + Send + Sync + 'static,
    ) -> Worker {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Sets the retry delay of jobs whose policy is [`RetryPolicy::custom`](crate::job::RetryPolicy::custom). It
    /// is not called for a failure with its own delay, and the delay is capped at the policy's longest.
    #[must_use]
    pub fn retry_delay(
        mut self,
        decide: impl Fn(&Cx, &Failure) -> Duration + Send + Sync + 'static,
    ) -> Worker {
        self.settings.retry_delay = Some(Arc::new(decide));
        self
    }

    /// How long handlers may continue after shutdown began.
    #[must_use]
    pub fn drain(mut self, drain: Duration) -> Worker {
        self.settings.drain = drain;
        self
    }

    /// How long a handler may clean up after it was asked to stop.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Worker {
        self.settings.grace = grace;
        self
    }

    /// Heartbeat interval; a third of the shortest lease of a running job, if that is shorter.
    #[must_use]
    pub fn heartbeat_every(mut self, every: Duration) -> Worker {
        self.settings.heartbeat_every = every.clamp(Duration::from_millis(1), limits::WORKER_SILENCE_MAX / 2);
        self
    }

    /// Lets jobs continue whose saved steps no longer match the code.
    #[must_use]
    pub fn lenient_steps(mut self) -> Worker {
        self.settings.run_options.mode = StepMode::Lenient;
        self
    }

    /// Makes the worker crash at this point, for tests of recovery.
    #[must_use]
    pub fn crash_at(self, point: CrashPoint) -> Worker {
        self.crash_at_nth(point, 1)
    }

    /// Makes the worker crash when it comes to this point for the `nth` time, counted from 1 over all its jobs, and each
    /// time after that, for tests of recovery.
    #[must_use]
    pub fn crash_at_nth(mut self, point: CrashPoint, nth: usize) -> Worker {
        self.settings.run_options.crash = Some(Crash::new(point, nth));
        self
    }

    /// Records every call of a step, for tests.
    pub(crate) fn journalled(mut self, journal: Arc<StepLog>) -> Worker {
        self.settings.run_options.journal = Some(journal);
        self
    }

    /// A handle to pause and resume the worker from other parts of the program.
    pub fn control(&self) -> WorkerControl {
        self.control.clone()
    }

    /// Runs until `shutdown` resolves, then shuts down in stages: stops claiming, drains, interrupts, releases.
    ///
    /// # Errors
    /// If the worker cannot register (an invalid name, a handler with missing state, a role that may not work, a closed
    /// store), and if it cannot continue because the store was closed or its role was revoked.
    pub async fn run_until(self, shutdown: impl Future) -> Result<ShutdownReport, WorkError> {
        let (shared, queues, inbox) = self.assemble().await?;
        let stop = CancellationToken::new();
        shared.start_handlers(&stop);
        let mut fetch_loops = JoinSet::new();
        for (queue, slots) in queues {
            fetch_loops.spawn(fetch_loop::run(
                shared.clone(),
                queue,
                SlotPool::new(slots, stop.clone()),
                stop.clone(),
            ));
        }
        let (over, closing) = (CancellationToken::new(), CancellationToken::new());
        let heartbeats = tokio::spawn(heartbeat::run(shared.clone(), over.clone()));
        let pauses = tokio::spawn(shutdown::release_when_paused(shared.clone(), over.clone()));
        let notices = tokio::spawn(shutdown::report_pauses(shared.clone(), over.clone()));
        let completer = tokio::spawn(completer::run(shared.clone(), inbox, closing.clone()));
        let error = tokio::select! {
            _ = shutdown => None,
            error = fetch_loop::first_error(&mut fetch_loops) => Some(error),
        };
        stop.cancel();
        // A fetch loop that panicked has nothing left to stop.
        while fetch_loops.join_next().await.is_some() {}
        let released = shutdown::leave(&shared, completer, &closing).await;
        // Before deregistration: a later heartbeat would come from an unknown worker.
        over.cancel();
        let _ = tokio::join!(heartbeats, pauses, notices);
        let report = shutdown::deregister(&shared, released).await;
        error.map_or(Ok(report), Err)
    }

    /// Runs until an error occurs.
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
            return Err(FieldError::new("handler", FieldProblem::Missing).into());
        }
        self.check_states()?;
        if self.queues.is_empty() {
            self.queues.push((QueueName::default(), CONCURRENCY_DEFAULT));
        }
        let slots: usize = self.queues.iter().map(|(_, slots)| slots).sum();
        let new = NewWorker {
            name: self.name,
            queues: self.queues.iter().map(|(queue, _)| queue.clone()).collect(),
            // Empty means any type.
            types: if self.fallback.is_some() { Vec::new() } else { self.handlers.keys().cloned().collect() },
            concurrency: u32::try_from(slots).unwrap_or(u32::MAX),
            version: self.version,
            heartbeats: true,
        };
        let id = self.client.api().register(self.client.caller(), new.clone()).await?.id;
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
            handlers_alive: Arc::default(),
            reports,
            released: AtomicUsize::new(0),
        });
        Ok((shared, self.queues, inbox))
    }
}

impl Worker {
    /// Rejects handlers whose state is missing: every job they ran would fail.
    fn check_states(&self) -> Result<(), FieldError> {
        for (job_type, handler) in &self.handlers {
            if let Some(missing) = handler.missing(&self.states) {
                let message = format!("`{job_type}` needs `State<{missing}>`: add it with `Worker::with`");
                return Err(FieldError::new("handler", FieldProblem::Contradiction(message)));
            }
        }
        Ok(())
    }
}

/// Concurrency of the default queue.
const CONCURRENCY_DEFAULT: usize = 10;

/// Locked for reading by every task that holds a handler's future: a task that can write knows that all are dropped.
pub(crate) type HandlersAlive = Arc<RwLock<()>>;

/// State shared by the tasks of a running worker.
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
    handlers_alive: HandlersAlive,
    reports: mpsc::Sender<Report>,
    /// Jobs released so far.
    pub(crate) released: AtomicUsize,
}

impl WorkerShared {
    /// The id under which the worker is registered now.
    pub(crate) fn id(&self) -> WorkerId {
        self.control.id().expect("a worker registers before it runs")
    }

    /// The types it claims; `None` for any.
    pub(crate) fn types(&self) -> Option<Vec<JobType>> {
        self.fallback.is_none().then(|| self.handlers.keys().cloned().collect())
    }

    /// Passes handlers the number of slots, and the token that fires when no more jobs are started.
    pub(crate) fn start_handlers(&self, stop: &CancellationToken) {
        let slots = usize::try_from(self.new.concurrency).unwrap_or(usize::MAX);
        self.handlers.values().for_each(|handler| handler.start(slots, stop, &self.handlers_alive));
    }

    /// The handler for a job type.
    pub(crate) fn handler(&self, job_type: &JobType) -> Option<&dyn AnyHandler> {
        self.handlers.get(job_type).or(self.fallback.as_ref()).map(AsRef::as_ref)
    }

    /// Queues an outcome for reporting.
    pub(crate) async fn report(&self, report: Report) {
        if report.outcome == Outcome::Released {
            self.released.fetch_add(1, Ordering::Relaxed);
        }
        // The completer stops after the last handler. If it has stopped, the lease expires.
        let _ = self.reports.send(report).await;
    }

    /// Registers again under a new id if the store has removed this worker, for example after the process was stopped
    /// for hours. Its earlier attempts are lost.
    pub(crate) async fn register_again(&self, forgotten: WorkerId) -> Result<(), WorkError> {
        let _one_at_a_time = self.registering.lock().await;
        if self.id() != forgotten {
            return Ok(());
        }
        self.cancel_all(CancelReason::Lost);
        let id = self.client.api().register(self.client.caller(), self.new.clone()).await?.id;
        tracing::warn!(%forgotten, worker = %id, "the store had removed the worker; registered again");
        self.control.registered(id);
        Ok(())
    }

    pub(crate) fn cancel_all(&self, why: CancelReason) {
        self.running.all().iter().for_each(|cx| cx.cancel(why));
    }
}

/// Yields to other tasks.
///
/// Not tokio's own `yield_now`: that wakes its caller only when the same thread next becomes idle, which a handler that
/// never yields prevents. This queues the caller like any task, so other threads can take it.
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
