//! Runs one handler. Timeout, cancellation, parking and panics become an outcome, or nothing if the attempt lost its
//! lease.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::sync::OwnedSemaphorePermit;
use tracing::Instrument;
use tracing::field::Empty;

use super::WorkerShared;
use super::heartbeat::silent_grace;
use super::slots::SlotPool;
use crate::clock::{DurationText, Stopwatch};
use crate::context::{CancelReason, CrashPoint, Cx, HandlerExit};
use crate::handler::{AnyHandler, HandlerFuture, Snooze, failure_of, find_error};
use crate::job::{Category, Failure, JobRecord, Strategy, described};
use crate::limits;
use crate::store::command::claim::ClaimedJob;
use crate::store::command::finish::{Outcome, Park, Report};

pub(crate) type Panic = Box<dyn Any + Send>;

/// Starts a claimed job once a slot is free. Its claim permit is returned when its outcome has been queued.
pub(super) fn start(
    shared: Arc<WorkerShared>,
    claimed: ClaimedJob,
    pool: Arc<SlotPool>,
    permit: OwnedSemaphorePermit,
    slot: Option<OwnedSemaphorePermit>,
) {
    // Before the task starts, so that the job counts as running at once.
    let cx = start_attempt(&shared, claimed);
    let alive = shared.handlers_alive.clone().try_read_owned();
    tokio::spawn(async move {
        let execution = cx.claimed().job.policy.timeouts.execution;
        let given_up = async {
            tokio::select! {
                () = cx.cancelled() => {}
                () = shared.control.paused() => {}
            }
        };
        let slot = match slot {
            Some(slot) => Some(slot),
            None => pool.turn(execution, given_up).await,
        };
        let outcome = if slot.is_some() && !cx.is_cancelled() {
            let watch = Stopwatch::start();
            cx.starts();
            let outcome = {
                let mut running = std::pin::pin!(run(&shared, &cx));
                tokio::select! {
                    biased;
                    outcome = &mut running => outcome,
                    () = note_start(&shared, &cx) => running.await,
                }
            };
            pool.took(watch.elapsed());
            outcome
        } else {
            Some(Outcome::Released)
        };
        if let Some(_leaving) = shared.running.remove(cx.job_id(), cx.fence())
            && let Some(outcome) = outcome
        {
            shared.report(report(&cx, outcome)).await;
        }
        drop((slot, permit, alive));
    });
}

/// Reports to the store that a job that was claimed ahead has started, unless it finishes at once: then its outcome
/// implies it. If the worker is lost afterwards, the attempt counts as a crash.
async fn note_start(shared: &WorkerShared, cx: &Cx) {
    if !cx.has_started_unnoticed() {
        return std::future::pending().await;
    }
    tokio::time::sleep(limits::START_NOTED_AFTER).await;
    let started = vec![(cx.job_id(), cx.fence())];
    if let Err(error) = shared.client.api().start(shared.client.caller(), shared.id(), started).await {
        // The next heartbeat reports it again.
        tracing::debug!(%error, job = %cx.job_id(), "failed to record that a job has started");
    }
}

/// Runs one attempt; `None` if there is nothing to report.
pub(crate) async fn attempt(shared: &WorkerShared, claimed: ClaimedJob) -> Option<Report> {
    let cx = start_attempt(shared, claimed);
    let outcome = run(shared, &cx).await;
    shared.running.remove(cx.job_id(), cx.fence())?;
    Some(report(&cx, outcome?))
}

fn start_attempt(shared: &WorkerShared, claimed: ClaimedJob) -> Cx {
    let cx =
        Cx::new(shared.client.clone(), shared.states.clone(), claimed, shared.settings.run_options.clone());
    shared.running.insert(cx.clone());
    cx
}

fn report(cx: &Cx, outcome: Outcome) -> Report {
    if let Some(given) = cx.given_report() {
        return given;
    }
    let is_completed = matches!(outcome, Outcome::Completed { .. });
    Report {
        cost_cents: cx.cost_cents(),
        writes: cx.last_writes(),
        follow_ups: if is_completed { cx.follow_ups() } else { Vec::new() },
        ..Report::new(cx.job_id(), cx.fence(), outcome)
    }
}

/// Runs the handler within the trace of its submission, or in a trace that is linked to it; `None` if there is nothing
/// to report. The span has the names of OpenTelemetry's conventions for messaging.
async fn run(shared: &WorkerShared, cx: &Cx) -> Option<Outcome> {
    let queue = &cx.claimed().job.lane.queue;
    let (parent, link) =
        if follows_up(&cx.claimed().job) { (None, cx.traceparent()) } else { (cx.traceparent(), None) };
    let span = tracing::debug_span!(
        parent: None,
        "handler",
        otel.name = format!("process {queue}"),
        otel.kind = "consumer",
        otel.status_code = Empty,
        error.type = Empty,
        messaging.system = "windlass",
        messaging.operation.name = "process",
        messaging.operation.type = "process",
        messaging.destination.name = %queue,
        messaging.message.id = %cx.job_id(),
        windlass.job.type = %cx.job_type(),
        windlass.job.attempt = cx.attempt(),
        traceparent = parent,
        link,
    );
    let outcome = run_handler(shared, cx).instrument(span.clone()).await;
    if let Some(Outcome::Failed(failure)) = &outcome {
        span.record("otel.status_code", "error");
        span.record("error.type", failure.code.as_deref().unwrap_or(failure.category.as_str()));
        span.in_scope(|| log_failure(cx, failure));
    }
    outcome
}

/// Whether a run is a trace of its own that is linked to the submission: a retry, a continuation, a redriven job, a
/// callback, or a run long after the submission. As a child it would make a trace that never ends.
fn follows_up(job: &JobRecord) -> bool {
    let submitted = job.parent.map_or(job.id, |parent| parent.id).submitted_at();
    job.attempt > 1
        || job.details.retry_of.is_some()
        || job.lane.is_internal()
        || job.started_at.is_some_and(|started| started.since(submitted) > limits::TRACE_CHILD_MAX)
}

/// Logs a failed attempt. If the program has not set up tracing, prints it to standard error, so that failures are
/// never silent.
fn log_failure(cx: &Cx, failure: &Failure) {
    let (job, job_type, attempt) = (cx.job_id(), cx.job_type(), cx.attempt());
    let code = failure.code.as_deref();
    let category = failure.category.as_str();
    tracing::warn!(%job, %job_type, attempt, category, code, error = failure.message, "attempt failed");
    if !tracing::dispatcher::has_been_set() {
        let max = cx.claimed().job.policy.retry.max_attempts;
        eprintln!(
            "windlass: job {job} ({job_type}) failed in attempt {attempt} of {max}: {}",
            described(&failure.message, failure.category, code)
        );
    }
}

async fn run_handler(shared: &WorkerShared, cx: &Cx) -> Option<Outcome> {
    if cx.crashes_at(&CrashPoint::BeforeStart) {
        return None;
    }
    let Some(handler) = shared.handler(cx.job_type()) else {
        // This worker does not claim this type: release the job for a worker that does.
        return Some(Outcome::Released);
    };
    let outcome = match catch_unwind(AssertUnwindSafe(|| call(shared, cx, handler))) {
        Ok(mut future) => {
            cx.mark_started();
            let outcome = supervise(shared, cx, &mut future).await;
            drop_safely(cx, future);
            outcome
        }
        Err(panic) => Some(outcome_catching_panics(cx, Err(panic))),
    };
    if cx.crashes_at(&CrashPoint::BeforeFinish) {
        None
    } else {
        outcome.map(|outcome| delayed(shared, cx, outcome))
    }
}

/// Adds the delay of the worker's retry function to a failure, if the job's policy is custom.
fn delayed(shared: &WorkerShared, cx: &Cx, outcome: Outcome) -> Outcome {
    let (policy, decide) = (&cx.claimed().job.policy.retry, &shared.settings.retry_delay);
    let (Outcome::Failed(failure), Some(decide), Strategy::Custom) = (&outcome, decide, policy.strategy)
    else {
        return outcome;
    };
    if failure.retry_after.is_some() || !policy.retries(failure.category) {
        return outcome;
    }
    match catch_unwind(AssertUnwindSafe(|| decide(cx, failure))) {
        Ok(delay) => Outcome::Failed(failure.clone().with_retry_after(delay.min(policy.max_delay))),
        Err(_panic) => {
            tracing::error!(job = %cx.job_id(), "the retry delay function panicked");
            outcome
        }
    }
}

/// The handler's future wrapped in all layers.
fn call(shared: &WorkerShared, cx: &Cx, handler: &dyn AnyHandler) -> HandlerFuture {
    let future = handler.call(&cx.claimed().spec.payload.bytes, cx.clone());
    shared.layers.iter().fold(future, |future, layer| layer(cx.clone(), future))
}

/// Drives the handler until it finishes, parks, times out or is stopped.
async fn supervise(shared: &WorkerShared, cx: &Cx, future: &mut HandlerFuture) -> Option<Outcome> {
    let limit = cx.claimed().job.policy.timeouts.execution;
    tokio::select! {
        biased;
        ended = catch(cx, future) => Some(outcome_catching_panics(cx, ended)),
        // Before what waits is written: if the handler parks, it is one commit with that.
        stop = cx.stopped() => match stop {
            HandlerExit::Park(park) => {
                cx.clear_places();
                Some(Outcome::Parked(park))
            }
            HandlerExit::Parked | HandlerExit::Crash => None,
        },
        never = cx.watch_waits() => match never {},
        never = cx.write_deferred() => match never {},
        never = cx.write_stream() => match never {},
        () = tokio::time::sleep(limit) => {
            cx.cancel(CancelReason::TimedOut);
            let message = format!("ran longer than {}", DurationText(limit));
            Some(Outcome::Failed(Failure::new(Category::Timeout, message)))
        }
        // The store may be back before the lease ends; a fence that is stale refuses this.
        () = cut_off(shared, cx) => {
            (cx.interruption() == Some(CancelReason::StoreUnreachable)).then_some(Outcome::Released)
        }
    }
}

/// Returns when the handler was asked to stop and its grace period is over.
async fn cut_off(shared: &WorkerShared, cx: &Cx) {
    cx.cancelled().await;
    let grace = shared.settings.grace;
    let is_silent = cx.interruption() == Some(CancelReason::StoreUnreachable);
    tokio::time::sleep(if is_silent { silent_grace(grace) } else { grace }).await;
}

/// Polls a handler and catches its panic.
async fn catch(cx: &Cx, future: &mut HandlerFuture) -> Result<Result<Vec<u8>, anyhow::Error>, Panic> {
    let mut poll = |context: &mut Context<'_>| {
        // State that a panic left inconsistent is dropped with the future; no other code can see it.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Ready(ended)) => Poll::Ready(Ok(ended)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        }
    };
    poll_fn(move |context| cx.poll_handler(context, &mut poll)).await
}

/// Drops a handler's future; a panic while dropping must not lose the attempt's outcome.
fn drop_safely(cx: &Cx, future: HandlerFuture) {
    if catch_unwind(AssertUnwindSafe(move || drop(future))).is_err() {
        tracing::error!(job = %cx.job_id(), "handler panicked while being dropped");
    }
}

/// Converts a handler's result into an outcome. Formatting an error, and dropping an error or a panic payload, may
/// panic too.
fn outcome_catching_panics(cx: &Cx, ended: Result<Result<Vec<u8>, anyhow::Error>, Panic>) -> Outcome {
    if let Ok(Err(error)) = &ended
        && let Ok(message) = catch_unwind(AssertUnwindSafe(|| failure_of(error).message))
    {
        cx.reopen(error, &message);
    }
    match catch_unwind(AssertUnwindSafe(|| outcome_of(cx, ended))) {
        Ok(outcome) => outcome,
        Err(panic) => {
            let outcome = outcome_of_panic(&panic);
            // It panicked while being dropped and may do so again.
            std::mem::forget(panic);
            outcome
        }
    }
}

fn outcome_of(cx: &Cx, ended: Result<Result<Vec<u8>, anyhow::Error>, Panic>) -> Outcome {
    match ended {
        Ok(Ok(result)) => Outcome::Completed { result: (result != b"null").then_some(result) },
        Ok(Err(error)) => match (find_error::<Snooze>(&error), failure_of(&error)) {
            (Some(Snooze(duration)), _) => Outcome::Parked(Park::For(*duration)),
            // It was asked to stop and could not finish: not a failure of the job.
            (None, failure) if cx.is_cancelled() && failure.category == Category::Temporary => {
                Outcome::Released
            }
            (None, failure) => Outcome::Failed(failure),
        },
        Err(panic) => outcome_of_panic(&panic),
    }
}

fn outcome_of_panic(panic: &Panic) -> Outcome {
    let message = panic_message(panic);
    Outcome::Failed(Failure::new(Category::System, format!("panicked: {message}")).with_code("panic"))
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &Panic) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".into())
}
