//! The context of a running job: durable steps, sleeping and waiting without a slot, children, checkpoints, progress,
//! logs, output. Every write checks the job's fence, so a handler that lost its lease writes nothing.

mod batch_mode;
mod blocking;
mod branch;
mod call;
mod cancel_reason;
mod children;
mod crash;
mod history;
mod quiet;
mod reopen;
mod save;
mod step;
mod step_order;
mod stream;
mod wait;
mod with_outcome;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) use blocking::ParkUnwind;
pub use cancel_reason::CancelReason;
pub use children::{ChildError, Children};
pub(crate) use crash::Crash;
pub use crash::CrashPoint;
use history::SavedHistory;
use quiet::{HandlerPoll, Kind};
use save::failed;
pub(crate) use save::refused_job;
use step_order::Order;
use stream::StreamBuffer;
pub use wait::First;
use with_outcome::WithOutcome;

use crate::client::Client;
use crate::clock::Timestamp;
use crate::error::WorkError;
use crate::handler::States;
use crate::job::{
    AttemptId, Fence, JobId, JobMetadata, JobType, Payload, Priority, Progress, QueueName, Tenant, WorkerId,
};
use crate::ordered::CollectOrdered;
use crate::store::command::attempt_writes::{AttemptWrite, LeaseRef};
use crate::store::command::claim::ClaimedJob;
use crate::store::command::finish::Park;
use crate::store::command::heartbeat::{Directive, HeartbeatItem};

/// What a worker does if steps do not match those that an earlier attempt saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StepMode {
    /// The job fails with the error `steps_changed`.
    #[default]
    Strict,
    /// The job continues; unknown steps run.
    Lenient,
}

/// How a call of a step ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepRun {
    /// The step did its work.
    Ran,
    /// The value saved by an earlier attempt was returned.
    Replayed,
}

/// A call of a step, recorded for tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCall {
    /// The job.
    pub job: JobId,
    /// The attempt number.
    pub attempt: u32,
    /// The step's name; repeated names have a number from the second call on.
    pub step: String,
    /// How the call ended.
    pub run: StepRun,
}

/// All calls of steps, for tests.
pub(crate) type StepLog = Mutex<Vec<StepCall>>;

/// How a worker runs its handlers.
#[derive(Clone, Default)]
pub(crate) struct RunOptions {
    pub(crate) mode: StepMode,
    pub(crate) crash: Option<Crash>,
    pub(crate) journal: Option<Arc<StepLog>>,
}

/// Why a handler stopped before it finished.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HandlerExit {
    /// It parks with this outcome.
    Park(Park),
    /// The store has parked it already.
    Parked,
    /// It crashes, for a test.
    Crash,
}

struct Shared {
    client: Client,
    states: States,
    claimed: ClaimedJob,
    options: RunOptions,
    cancelled: CancellationToken,
    interruption: OnceLock<CancelReason>,
    saved: Mutex<BTreeMap<String, Arc<[u8]>>>,
    order: Order,
    /// Copies of the context held by the worker and the handler's arguments.
    holders: AtomicUsize,
    is_blocking: AtomicBool,
    is_one_of_many: AtomicBool,
    has_started: AtomicBool,
    cost_cents: AtomicI64,
    /// Records of sleeps and groups that lost their place because the job parks on several of them.
    unplaced: Mutex<Vec<(String, Vec<u8>)>>,
    with_outcome: WithOutcome,
    stream: StreamBuffer,
    stop: Mutex<Option<HandlerExit>>,
    stopped: Notify,
}

/// A running job's context; cheap to clone.
#[derive(Clone)]
pub struct Cx(Arc<Shared>);

impl Cx {
    pub(crate) fn new(client: Client, states: States, mut claimed: ClaimedJob, options: RunOptions) -> Cx {
        // The handler has started, whether or not the store knows it yet.
        claimed.job.attempt += u32::from(claimed.job.has.claim_ahead);
        let checkpoints = &claimed.checkpoints;
        let saved =
            checkpoints.iter().map(|saved| (saved.step.clone(), saved.value.clone())).collect_ordered();
        let order = Order::new(SavedHistory::new(checkpoints));
        Cx(Arc::new(Shared {
            client,
            states,
            claimed,
            options,
            cancelled: CancellationToken::new(),
            interruption: OnceLock::new(),
            saved: Mutex::new(saved),
            order,
            holders: AtomicUsize::new(0),
            is_blocking: AtomicBool::new(false),
            is_one_of_many: AtomicBool::new(false),
            has_started: AtomicBool::new(false),
            cost_cents: AtomicI64::new(0),
            unplaced: Mutex::default(),
            with_outcome: WithOutcome::default(),
            stream: StreamBuffer::default(),
            stop: Mutex::new(None),
            stopped: Notify::new(),
        }))
    }

    /// The job's id.
    pub fn job_id(&self) -> JobId {
        self.0.claimed.job.id
    }

    /// The job's type.
    pub fn job_type(&self) -> &JobType {
        &self.0.claimed.job.lane.job_type
    }

    /// The queue that the job was claimed from.
    pub fn queue_name(&self) -> &QueueName {
        &self.0.claimed.job.lane.queue
    }

    /// The tenant that owns the job.
    pub fn tenant(&self) -> &Tenant {
        &self.0.claimed.job.lane.tenant
    }

    /// The submitted payload, byte for byte.
    pub fn payload(&self) -> &Payload {
        &self.0.claimed.spec.payload
    }

    /// The job's tags, correlation id and callback URL at the time of the claim.
    pub fn metadata(&self) -> &JobMetadata {
        &self.0.claimed.spec.metadata
    }

    /// The attempt number, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.claimed.job.attempt
    }

    /// How many earlier attempts failed. Unlike [`attempt`](Cx::attempt) it does not count attempts that parked or were
    /// released.
    pub fn failures(&self) -> u32 {
        self.0.claimed.job.failures
    }

    /// The id of this attempt.
    pub fn attempt_id(&self) -> AttemptId {
        self.0.claimed.job.attempt_id()
    }

    /// The id of the previous attempt, if any.
    pub fn previous_attempt(&self) -> Option<AttemptId> {
        self.attempt_id().previous()
    }

    /// How many attempts may fail before the job fails permanently.
    pub fn max_attempts(&self) -> u32 {
        self.0.claimed.job.policy.retry.max_attempts
    }

    /// The job's priority at the time of the claim.
    pub fn priority(&self) -> Priority {
        self.0.claimed.job.priority
    }

    /// When the store ends this attempt, by the store's clock.
    pub fn deadline(&self) -> Timestamp {
        self.0.claimed.job.lease.map_or(Timestamp::MAX, |lease| lease.deadline_at)
    }

    /// A number that grows with every claim, and when a running job is suspended or cancelled. Use it in conditional
    /// writes to other systems, so that a stale attempt fails there as well.
    pub fn fence(&self) -> Fence {
        self.0.claimed.job.fence
    }

    /// A key for this step that is the same in every attempt and unique otherwise: for APIs that deduplicate requests.
    pub fn idempotency_key(&self, step: &str) -> String {
        format!("{}/{step}", self.job_id())
    }

    /// The idempotency key the job was submitted with.
    pub fn submitted_key(&self) -> Option<&str> {
        self.0.claimed.spec.idempotency_key.as_deref()
    }

    /// The W3C trace context that the job belongs to.
    pub fn traceparent(&self) -> Option<&str> {
        self.0.claimed.spec.traceparent.as_deref()
    }

    /// The W3C `tracestate` of that trace context.
    pub fn tracestate(&self) -> Option<&str> {
        self.0.claimed.spec.tracestate.as_deref()
    }

    /// The W3C `baggage` that the job was submitted with; its child jobs get it too.
    pub fn baggage(&self) -> Option<&str> {
        self.0.claimed.spec.baggage.as_deref()
    }

    /// The client, to submit further jobs.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Returns when the attempt should stop: suspended, cancelled, timed out, lease lost, or the worker shuts down.
    pub async fn cancelled(&self) {
        let (mut stopped, mut idle) = (
            pin!(self.0.cancelled.cancelled()),
            // A handler that only waits to be stopped can park.
            pin!(self.0.order.wait(Kind::Stop, |_| false)),
        );
        poll_fn(|context| {
            let _never = idle.as_mut().poll(context);
            stopped.as_mut().poll(context)
        })
        .await;
    }

    /// Whether the attempt should stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.is_cancelled()
    }

    /// Why the attempt should stop; `None` if it should not.
    pub fn interruption(&self) -> Option<CancelReason> {
        self.is_cancelled().then(|| self.0.interruption.get().copied()).flatten()
    }

    /// Sets the job's progress, in percent from 0 to 100.
    pub async fn progress(&self, percent: f64, message: &str) -> Result<(), WorkError> {
        let message = (!message.is_empty()).then(|| message.to_owned());
        self.record(AttemptWrite::Progress(Progress { percent, message })).await
    }

    /// Writes a line to the job's log.
    pub async fn log(&self, text: impl Into<String>) -> Result<(), WorkError> {
        self.record(AttemptWrite::Logs(vec![text.into()])).await
    }

    /// Writes several lines to the job's log at once, at most [`limits::LOG_LINES_PER_CALL_MAX`].
    ///
    /// [`limits::LOG_LINES_PER_CALL_MAX`]: crate::limits::LOG_LINES_PER_CALL_MAX
    pub async fn log_all(&self, lines: Vec<String>) -> Result<(), WorkError> {
        self.record(AttemptWrite::Logs(lines)).await
    }

    /// Adds costs; they are booked with the attempt's outcome.
    pub fn cost(&self, cents: u32) {
        self.0.cost_cents.fetch_add(i64::from(cents), Ordering::Relaxed);
    }

    /// Shortens this attempt's timeout to `limit` from now; a longer limit has no effect.
    pub async fn limit_to(&self, limit: Duration) -> Result<(), WorkError> {
        let beat = HeartbeatItem { timeout: Some(limit), ..HeartbeatItem::new(self.job_id(), self.fence()) };
        let client = &self.0.client;
        let reply = client.api().heartbeat(client.caller(), self.worker(), vec![beat]).await?;
        match reply.directives[..] {
            [(_, Directive::Continue)] => Ok(()),
            _ => Err(WorkError::Stale(self.job_id())),
        }
    }

    /// Saves a checkpoint, replacing the previous one.
    pub async fn checkpoint<T: Serialize + Sync>(&self, value: &T) -> Result<(), anyhow::Error> {
        let value = serde_json::to_vec(value)?;
        self.save(CHECKPOINT, value).await.map_err(failed)?;
        self.crash_at(&CrashPoint::AfterCheckpoint).await;
        Ok(())
    }

    /// The value last saved by `checkpoint`, in this attempt or an earlier one.
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, anyhow::Error> {
        Ok(self.saved(CHECKPOINT).map(|value| serde_json::from_slice(&value)).transpose()?)
    }

    pub(crate) fn states(&self) -> &States {
        &self.0.states
    }

    pub(crate) fn claimed(&self) -> &ClaimedJob {
        &self.0.claimed
    }

    /// Marks the handler as started.
    pub(crate) fn starts(&self) {
        self.0.has_started.store(true, Ordering::Relaxed);
    }

    /// Whether the handler has started but the store may not know, because the job was claimed ahead.
    pub(crate) fn has_started_unnoticed(&self) -> bool {
        self.0.claimed.job.has.claim_ahead && self.0.has_started.load(Ordering::Relaxed)
    }

    pub(crate) fn cost_cents(&self) -> i64 {
        self.0.cost_cents.load(Ordering::Relaxed)
    }

    /// Asks the handler to stop. The first reason is kept.
    pub(crate) fn cancel(&self, why: CancelReason) {
        let _first_or_not = self.0.interruption.set(why);
        self.0.order.stops();
        self.0.cancelled.cancel();
    }

    /// Returns when the handler has asked to be stopped, with the reason.
    pub(crate) async fn stopped(&self) -> HandlerExit {
        loop {
            let notified = self.0.stopped.notified();
            if let Some(stop) = lock(&self.0.stop).clone() {
                return stop;
            }
            notified.await;
        }
    }

    /// Stops the handler here: the supervising task drops its future. A blocking handler's thread, or a call shared
    /// with other jobs, is unwound.
    async fn stop<T>(&self, stop: HandlerExit) -> T {
        self.set_exit(stop);
        let flags = [&self.0.is_blocking, &self.0.is_one_of_many];
        if flags.iter().any(|flag| flag.load(Ordering::Relaxed)) && cfg!(panic = "unwind") {
            blocking::unwind();
        }
        std::future::pending().await
    }

    /// Crashes here if a test asks for it.
    async fn crash_at(&self, point: &CrashPoint) {
        if self.crashes_at(point) {
            self.stop::<()>(HandlerExit::Crash).await;
        }
    }

    pub(crate) fn crashes_at(&self, point: &CrashPoint) -> bool {
        self.0.options.crash.as_ref().is_some_and(|crash| crash.is_at(point))
    }

    /// Polls a handler, and parks the job once nothing in it can continue; see [`Order::poll`].
    fn poll<T>(&self, context: &mut Context<'_>, poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        // Calling steps requires a context. A task that the handler spawned holds a copy of its own.
        let has_copies = || Arc::strong_count(&self.0) > self.0.holders.load(Ordering::Relaxed);
        match self.0.order.poll(context, poll, has_copies) {
            HandlerPoll::Ready(ended) => Poll::Ready(ended),
            HandlerPoll::Pending => Poll::Pending,
            HandlerPoll::Parks(mut awaited) => {
                // Taken now, because a blocking handler is gone before its result is examined.
                *lock(&self.0.unplaced) = self.0.order.beside_each_other();
                let now = self.now();
                let park = match awaited.len() {
                    1 => awaited.remove(0).into_park(now),
                    _ => Park::Any(awaited.into_iter().map(|one| one.into_park(now)).collect()),
                };
                self.set_exit(HandlerExit::Park(park));
                if self.0.is_blocking.load(Ordering::Relaxed) && cfg!(panic = "unwind") {
                    blocking::unwind();
                }
                Poll::Pending
            }
        }
    }

    /// Called before the handler starts: all current copies belong to the worker.
    pub(crate) fn mark_started(&self) {
        self.0.holders.store(Arc::strong_count(&self.0), Ordering::Relaxed);
    }

    /// A copy for one of the handler's arguments.
    pub(crate) fn for_argument(&self) -> Cx {
        self.0.holders.fetch_add(1, Ordering::Relaxed);
        self.clone()
    }

    /// See [`Order::hurry`].
    pub(crate) async fn watch_waits(&self) -> Infallible {
        self.0.order.watch_waits(|| self.now()).await
    }

    /// Records a call of a step, for tests.
    fn journal(&self, step: &str, run: StepRun) {
        if let Some(journal) = &self.0.options.journal {
            let (job, attempt, step) = (self.job_id(), self.attempt(), step.to_owned());
            lock(journal).push(StepCall { job, attempt, step, run });
        }
    }

    fn worker(&self) -> WorkerId {
        self.0.claimed.job.lease.expect("a claimed job has a lease").worker
    }

    fn lease_ref(&self) -> LeaseRef {
        LeaseRef::new(self.job_id(), self.fence(), self.worker())
    }

    async fn record(&self, write: AttemptWrite) -> Result<(), WorkError> {
        self.record_all(vec![write]).await
    }
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("job", &self.job_id()).field("attempt", &self.attempt()).finish()
    }
}

/// The key of the checkpoint that `checkpoint` writes; steps cannot have this name.
const CHECKPOINT: &str = "checkpoint";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
