//! What a handler can do beside its work: durable steps, sleeping and waiting without a slot, children, checkpoints,
//! progress, logs. Everything goes through the job's fence, so a handler that was cut off writes nothing.

mod batch_mode;
mod blocking;
mod branch;
mod call;
mod cancel_reason;
mod children;
mod history;
mod quiet;
mod reopen;
mod save;
mod step;
mod step_order;
mod wait;

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
use history::SavedHistory;
use quiet::{Kind, Polled};
use save::failed;
use step_order::Order;
pub use wait::First;

use crate::client::Client;
use crate::clock::Timestamp;
use crate::error::WorkError;
use crate::handler::States;
use crate::job::{
    AttemptId, Fence, JobId, JobMetadata, JobType, Payload, Priority, Progress, QueueName, Tenant, WorkerId,
};
use crate::store::command::attempt_writes::{AttemptWrite, LeaseRef};
use crate::store::command::claim::Claimed;
use crate::store::command::finish::Park;
use crate::store::command::heartbeat::{Directive, HeartbeatItem};

/// How a worker treats steps that do not match what an earlier attempt saved (M71).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StepMode {
    /// The job fails with a clear error.
    #[default]
    Strict,
    /// The job runs on; steps that are not known run.
    Lenient,
}

/// Where tests make a worker die.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrashPoint {
    /// Before the handler starts.
    BeforeStart,
    /// When the step with this name is about to run.
    BeforeStep(String),
    /// When the step with this name was saved.
    AfterStep(String),
    /// When a checkpoint was saved.
    AfterCheckpoint,
    /// When children are about to be spawned.
    BeforeSpawn,
    /// When children were spawned, and the job waits for them.
    AfterSpawn,
    /// When the handler is about to sleep, or to wait for a signal; how long is saved already.
    BeforePark,
    /// When the handler has ended and its outcome is not reported yet.
    BeforeFinish,
}

/// What became of one call of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepRun {
    /// Its work was done.
    Ran,
    /// What an earlier attempt saved was returned.
    Replayed,
}

/// A call of a step, as a test sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepCall {
    /// Whose step it is.
    pub job: JobId,
    /// In which attempt it was called.
    pub attempt: u32,
    /// Its name, with its number from the second of that name on.
    pub step: String,
    /// What became of it.
    pub run: StepRun,
}

/// Every call of a step, for tests.
pub(crate) type StepLog = Mutex<Vec<StepCall>>;

/// How a worker has its handlers run.
#[derive(Clone, Default)]
pub(crate) struct RunOptions {
    pub(crate) mode: StepMode,
    pub(crate) crash: Option<CrashPoint>,
    pub(crate) journal: Option<Arc<StepLog>>,
}

/// Why a handler stopped before it ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HandlerExit {
    /// It parks: report this.
    Park(Park),
    /// The store has parked it already.
    Parked,
    /// It dies, for a test.
    Crash,
}

struct Shared {
    client: Client,
    states: States,
    claimed: Claimed,
    options: RunOptions,
    cancelled: CancellationToken,
    interruption: OnceLock<CancelReason>,
    saved: Mutex<BTreeMap<String, Arc<[u8]>>>,
    order: Order,
    /// Copies of the context that the worker and the handler's arguments hold.
    holders: AtomicUsize,
    is_blocking: AtomicBool,
    is_one_of_many: AtomicBool,
    has_started: AtomicBool,
    cost_cents: AtomicI64,
    /// Records of sleeps and groups that have lost their place because the job parks on several.
    unplaced: Mutex<Vec<(String, Vec<u8>)>>,
    stop: Mutex<Option<HandlerExit>>,
    stopped: Notify,
}

/// A running job's context; cheap to clone.
#[derive(Clone)]
pub struct Cx(Arc<Shared>);

impl Cx {
    pub(crate) fn new(client: Client, states: States, mut claimed: Claimed, options: RunOptions) -> Cx {
        // Whoever sees this context has started the job, whether or not the store knows yet.
        claimed.job.attempt += u32::from(claimed.job.has.claim_ahead);
        let checkpoints = &claimed.checkpoints;
        let saved = checkpoints.iter().map(|saved| (saved.step.clone(), saved.value.clone())).collect();
        let order = Order::new(SavedHistory::of(checkpoints));
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

    /// The queue it was claimed from.
    pub fn queue_name(&self) -> &QueueName {
        &self.0.claimed.job.lane.queue
    }

    /// Whose job it is.
    pub fn tenant(&self) -> &Tenant {
        &self.0.claimed.job.lane.tenant
    }

    /// What was submitted, byte for byte.
    pub fn payload(&self) -> &Payload {
        &self.0.claimed.spec.payload
    }

    /// Its tags, correlation id and callback address when it was claimed.
    pub fn labels(&self) -> &JobMetadata {
        &self.0.claimed.spec.labels
    }

    /// Which start of the job this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.0.claimed.job.attempt
    }

    /// How many attempts before this one failed; unlike [`attempt`](Cx::attempt) it does not count those that parked or
    /// were given back (M5).
    pub fn failures(&self) -> u32 {
        self.0.claimed.job.failures
    }

    /// The identity of this attempt (M17).
    pub fn attempt_id(&self) -> AttemptId {
        self.0.claimed.job.attempt_id()
    }

    /// The attempt before this one, if there was one (M17).
    pub fn previous_attempt(&self) -> Option<AttemptId> {
        self.attempt_id().previous()
    }

    /// How many attempts may fail before the job is given up (M40).
    pub fn max_attempts(&self) -> u32 {
        self.0.claimed.job.policy.retry.max_attempts
    }

    /// How urgent the job was when it was claimed.
    pub fn priority(&self) -> Priority {
        self.0.claimed.job.priority
    }

    /// When the store ends this attempt, by its own clock (M30).
    pub fn deadline(&self) -> Timestamp {
        self.0.claimed.job.lease.map_or(Timestamp::MAX, |lease| lease.deadline_at)
    }

    /// The number that grows with every start: put it into conditional writes elsewhere, and a stale attempt loses there
    /// as it does here (M5).
    pub fn fence(&self) -> Fence {
        self.0.claimed.job.fence
    }

    /// A key that is the same for this step in every attempt and differs from all others: for calls that deduplicate.
    pub fn idempotency_key(&self, step: &str) -> String {
        format!("{}/{step}", self.job_id())
    }

    /// The idempotency key the job was submitted with.
    pub fn submitted_key(&self) -> Option<&str> {
        self.0.claimed.spec.idempotency_key.as_deref()
    }

    /// The trace the job belongs to.
    pub fn traceparent(&self) -> Option<&str> {
        self.0.claimed.spec.traceparent.as_deref()
    }

    /// The queue, to submit further jobs.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Returns when the attempt is to stop: suspended, cancelled, timed out, lease lost, or the worker shuts down.
    pub async fn cancelled(&self) {
        let (mut told, mut idle) = (
            pin!(self.0.cancelled.cancelled()),
            // A handler that only waits to be told to stop can park.
            pin!(self.0.order.wait(Kind::Stop, |_| false)),
        );
        poll_fn(|context| {
            let _never = idle.as_mut().poll(context);
            told.as_mut().poll(context)
        })
        .await;
    }

    /// Whether the attempt is to stop.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.is_cancelled()
    }

    /// Why the attempt is to stop; none as long as it is not.
    pub fn interruption(&self) -> Option<CancelReason> {
        self.is_cancelled().then(|| self.0.interruption.get().copied()).flatten()
    }

    /// Says how far the job is: 0 to 100.
    pub async fn progress(&self, percent: f64, message: &str) -> Result<(), WorkError> {
        let message = (!message.is_empty()).then(|| message.to_owned());
        self.note(AttemptWrite::Progress(Progress { percent, message })).await
    }

    /// Writes a line to the job's log.
    pub async fn log(&self, text: impl Into<String>) -> Result<(), WorkError> {
        self.note(AttemptWrite::Logs(vec![text.into()])).await
    }

    /// Writes several lines to the job's log at once, at most [`limits::LOG_LINES_PER_CALL_MAX`].
    ///
    /// [`limits::LOG_LINES_PER_CALL_MAX`]: crate::limits::LOG_LINES_PER_CALL_MAX
    pub async fn log_all(&self, lines: Vec<String>) -> Result<(), WorkError> {
        self.note(AttemptWrite::Logs(lines)).await
    }

    /// Books costs; they count with the attempt's outcome (M18).
    pub fn cost(&self, cents: u32) {
        self.0.cost_cents.fetch_add(i64::from(cents), Ordering::Relaxed);
    }

    /// Shortens this attempt's time limit to `limit` from now; a longer one changes nothing (M30).
    pub async fn limit_to(&self, limit: Duration) -> Result<(), WorkError> {
        let beat = HeartbeatItem { timeout: Some(limit), ..HeartbeatItem::new(self.job_id(), self.fence()) };
        let queue = &self.0.client;
        let pulse = queue.store().heartbeat(queue.caller(), self.worker(), vec![beat]).await?;
        match pulse.directives[..] {
            [(_, Directive::Continue)] => Ok(()),
            _ => Err(WorkError::Stale(self.job_id())),
        }
    }

    /// Saves where the work is, over what was saved before (M73).
    pub async fn checkpoint<T: Serialize + Sync>(&self, value: &T) -> Result<(), anyhow::Error> {
        let value = serde_json::to_vec(value)?;
        self.save(CHECKPOINT, value).await.map_err(failed)?;
        self.crash_at(&CrashPoint::AfterCheckpoint).await;
        Ok(())
    }

    /// What the last `checkpoint` saved, in this attempt or an earlier one (M73).
    pub fn last_checkpoint<T: DeserializeOwned>(&self) -> Result<Option<T>, anyhow::Error> {
        Ok(self.saved(CHECKPOINT).map(|value| serde_json::from_slice(&value)).transpose()?)
    }

    pub(crate) fn states(&self) -> &States {
        &self.0.states
    }

    pub(crate) fn claimed(&self) -> &Claimed {
        &self.0.claimed
    }

    /// Its handler starts now.
    pub(crate) fn starts(&self) {
        self.0.has_started.store(true, Ordering::Relaxed);
    }

    /// Whether its handler has started and the store may not know, because the job was claimed ahead.
    pub(crate) fn has_started_unnoticed(&self) -> bool {
        self.0.claimed.job.has.claim_ahead && self.0.has_started.load(Ordering::Relaxed)
    }

    pub(crate) fn cost_cents(&self) -> i64 {
        self.0.cost_cents.load(Ordering::Relaxed)
    }

    /// Tells the handler to stop; the first reason stays.
    pub(crate) fn cancel(&self, why: CancelReason) {
        let _first_or_not = self.0.interruption.set(why);
        self.0.order.stops();
        self.0.cancelled.cancel();
    }

    /// Returns when the handler has asked to be stopped, with what for.
    pub(crate) async fn stopped(&self) -> HandlerExit {
        loop {
            let notified = self.0.stopped.notified();
            if let Some(stop) = lock(&self.0.stop).clone() {
                return stop;
            }
            notified.await;
        }
    }

    /// Stops the handler here: its future is dropped by whoever runs it; its thread, or the call that it shares with
    /// other jobs, is unwound if it has one.
    async fn stop<T>(&self, stop: HandlerExit) -> T {
        self.set_exit(stop);
        let flags = [&self.0.is_blocking, &self.0.is_one_of_many];
        if flags.iter().any(|flag| flag.load(Ordering::Relaxed)) && cfg!(panic = "unwind") {
            blocking::unwind();
        }
        std::future::pending().await
    }

    /// Dies here if a test wants it.
    async fn crash_at(&self, point: &CrashPoint) {
        if self.crashes_at(point) {
            self.stop::<()>(HandlerExit::Crash).await;
        }
    }

    pub(crate) fn crashes_at(&self, point: &CrashPoint) -> bool {
        self.0.options.crash.as_ref() == Some(point)
    }

    /// Polls a handler, and parks the job once nothing in it can go on; see [`Order::poll`].
    fn poll<T>(&self, context: &mut Context<'_>, poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        // Whoever calls steps holds a context; a task that the handler has started holds one that is not its own.
        let has_copies = || Arc::strong_count(&self.0) > self.0.holders.load(Ordering::Relaxed);
        match self.0.order.poll(context, poll, has_copies) {
            Polled::Ready(ended) => Poll::Ready(ended),
            Polled::Pending => Poll::Pending,
            Polled::Parks(mut awaited) => {
                // Taken now: a handler that blocks is gone before its end is looked at.
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

    /// The handler is about to begin: all copies that there are now are the worker's.
    pub(crate) fn start(&self) {
        self.0.holders.store(Arc::strong_count(&self.0), Ordering::Relaxed);
    }

    /// A copy for one of the handler's arguments.
    pub(crate) fn for_argument(&self) -> Cx {
        self.0.holders.fetch_add(1, Ordering::Relaxed);
        self.clone()
    }

    /// See [`Order::hurry`].
    pub(crate) async fn hurry(&self) -> Infallible {
        self.0.order.hurry(|| self.now()).await
    }

    /// Tells a test what became of a step.
    fn journal(&self, step: &str, run: StepRun) {
        if let Some(journal) = &self.0.options.journal {
            let (job, attempt, step) = (self.job_id(), self.attempt(), step.to_owned());
            lock(journal).push(StepCall { job, attempt, step, run });
        }
    }

    fn worker(&self) -> WorkerId {
        self.0.claimed.job.lease.expect("a claimed job has a lease").worker
    }

    fn hand(&self) -> LeaseRef {
        LeaseRef::new(self.job_id(), self.fence(), self.worker())
    }

    async fn note(&self, note: AttemptWrite) -> Result<(), WorkError> {
        self.note_all(vec![note]).await
    }
}

impl fmt::Debug for Cx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("job", &self.job_id()).field("attempt", &self.attempt()).finish()
    }
}

/// The checkpoint that `checkpoint` writes; steps cannot have this name.
const CHECKPOINT: &str = "checkpoint";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
