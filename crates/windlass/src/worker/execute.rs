//! Running one handler: time limit, cancellation, parking and panics all become an outcome, or nothing at all when the
//! attempt was cut off.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;

use tokio::sync::OwnedSemaphorePermit;

use super::Crew;
use crate::context::{CrashPoint, Cx, Stop};
use crate::handler::{HandlerFuture, Snooze, failure_of};
use crate::job::{Category, Failure};
use crate::store::command::claim::Claimed;
use crate::store::command::finish::{Outcome, Park, Report};

/// Starts a job that was claimed; its slot is free again when its outcome is on its way.
pub(super) fn start(crew: Arc<Crew>, claimed: Claimed, slot: OwnedSemaphorePermit) {
    tokio::spawn(async move {
        if let Some(report) = attempt(&crew, claimed).await {
            // Reporting ends after the last handler; if it has, the lease ends by itself.
            let _ = crew.reports.send(report).await;
        }
        drop(slot);
    });
}

/// Runs one attempt; nothing if there is nothing to report.
pub(crate) async fn attempt(crew: &Crew, claimed: Claimed) -> Option<Report> {
    let settings = &crew.settings;
    let cx = Cx::new(crew.queue.clone(), crew.states.clone(), claimed, settings.mode, settings.crash.clone());
    crew.running.insert(cx.clone());
    let outcome = run(crew, &cx).await;
    let is_ours = crew.running.remove(cx.job_id(), cx.fence());
    let outcome = outcome.filter(|_| is_ours)?;
    Some(Report { job: cx.job_id(), fence: cx.fence(), outcome, cost_cents: cx.cost_cents() })
}

/// Runs the handler to its end; nothing if there is nothing to report.
async fn run(crew: &Crew, cx: &Cx) -> Option<Outcome> {
    if cx.crashes_at(&CrashPoint::BeforeStart) {
        return None;
    }
    let job = &cx.claimed().job;
    let Some(handler) = crew.handlers.get(&job.lane.job_type) else {
        // Not claimed for, so not ours to judge: somebody who knows this type will run it (M104).
        return Some(Outcome::Released);
    };
    let mut future = handler.call(&cx.claimed().spec.payload.bytes, cx.clone());
    for layer in &crew.layers {
        future = layer(cx.clone(), future);
    }
    let limit = job.policy.timeouts.execution;
    let outcome = tokio::select! {
        biased;
        ended = catch(future) => Some(outcome_of(ended)),
        stop = cx.stopped() => match stop {
            Stop::Park(park) => Some(Outcome::Parked(park)),
            Stop::Parked | Stop::Crash => None,
        },
        () = tokio::time::sleep(limit) => {
            cx.cancel();
            let message = format!("ran longer than {limit:?}");
            Some(Outcome::Failed(Failure::new(Category::Timeout, message)))
        }
        () = cut_off(crew, cx) => None,
    };
    if cx.crashes_at(&CrashPoint::BeforeFinish) { None } else { outcome }
}

/// Returns when the handler was told to stop and has had time to clean up.
async fn cut_off(crew: &Crew, cx: &Cx) {
    cx.cancelled().await;
    tokio::time::sleep(crew.settings.grace).await;
}

/// Runs a handler and catches its panic.
async fn catch(mut future: HandlerFuture) -> Result<Result<Vec<u8>, anyhow::Error>, Box<dyn Any + Send>> {
    poll_fn(move |context| {
        // What a panic left half-done is dropped with the future; nothing else can see it.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Ready(ended)) => Poll::Ready(Ok(ended)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}

fn outcome_of(ended: Result<Result<Vec<u8>, anyhow::Error>, Box<dyn Any + Send>>) -> Outcome {
    match ended {
        Ok(Ok(result)) => Outcome::Completed { result: (result != b"null").then_some(result) },
        Ok(Err(error)) => match error.downcast_ref::<Snooze>() {
            Some(Snooze(duration)) => Outcome::Parked(Park::For(*duration)),
            None => Outcome::Failed(failure_of(&error)),
        },
        Err(panic) => {
            let message = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "something that is not text".into());
            Outcome::Failed(Failure::new(Category::System, format!("panicked: {message}")).with_code("panic"))
        }
    }
}
