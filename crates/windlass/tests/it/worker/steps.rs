//! Durable steps and checkpoints: what was saved is never done again, wherever the worker dies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use windlass::client::ActionResult;
use windlass::context::Cx;
use windlass::handler::State;
use windlass::job::{AttemptOutcome, Failure, JobState, SuspendMode};
use windlass::store::{Redrive, Suspend};
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use super::harness::{outcomes, step_by_step_on_every_engine};
use super::job_types::{Fill, Greet, greet};
use crate::fixture::secs;

step_by_step_on_every_engine!(
    every_step_runs_once_wherever_the_worker_dies,
    success_and_permanent_failures_are_saved_and_nothing_else,
    a_name_called_again_is_another_step,
    changed_code_fails_with_a_clear_error,
    a_lenient_worker_runs_changed_code,
    a_saved_value_of_another_shape_is_changed_code,
    names_of_the_context_itself_are_refused,
    a_step_whose_value_cannot_be_kept_fails_for_good,
    checkpoints_outlive_attempts,
    a_checkpoint_outlives_a_suspension,
    a_redrive_continues_after_the_last_step_or_starts_over,
);

/// How often each step ran.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<String, usize>>>);

impl Runs {
    fn count(&self, name: &str) -> usize {
        let mut runs = self.0.lock().unwrap();
        let count = runs.entry(name.to_owned()).or_default();
        *count += 1;
        *count
    }

    fn of(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

async fn two(_: Greet, cx: Cx, State(runs): State<Runs>) -> anyhow::Result<String> {
    let a = cx.step("a", async { anyhow::Ok(runs.count("a")) }).await?;
    let b = cx.step("b", async { anyhow::Ok(runs.count("b")) }).await?;
    Ok(format!("{a} {b}"))
}

/// Model: crashes-and-poison, steps, one-lease-at-a-time
async fn every_step_runs_once_wherever_the_worker_dies(t: &TestClient) {
    let step = |name: &str| name.to_owned();
    let points = [
        CrashPoint::BeforeStart,
        CrashPoint::BeforeStep(step("a")),
        CrashPoint::AfterStep(step("a")),
        CrashPoint::BeforeStep(step("b")),
        CrashPoint::AfterStep(step("b")),
        CrashPoint::BeforeFinish,
    ];
    for point in points {
        let runs = Runs::default();
        let worker = || Worker::new(t.client()).with(runs.clone()).handle(two);
        let job = t.client().submit(greet("x")).await.unwrap();
        assert_eq!(t.run_due(worker().crash_at(point.clone())).await, 1);
        t.assert_state(job.id(), JobState::Running).await;
        assert_eq!(
            t.run_due(worker()).await,
            0,
            "{point:?}: a lease that holds is not given to another worker"
        );
        t.advance(secs(30)).await;
        t.assert_state(job.id(), JobState::Retrying).await;
        t.advance(secs(5)).await;
        assert_eq!(t.run_due(worker()).await, 1);
        assert_eq!(job.result(Duration::ZERO).await.unwrap(), "1 1", "{point:?}");
        assert_eq!((runs.of("a"), runs.of("b")), (1, 1), "{point:?}");
        let ended = outcomes(t.client(), job.id()).await;
        assert_eq!(ended, [AttemptOutcome::Lost, AttemptOutcome::Completed], "{point:?}");
    }
}

/// Model: steps
async fn success_and_permanent_failures_are_saved_and_nothing_else(t: &TestClient) {
    let handler = |_: Greet, cx: Cx, State(runs): State<Runs>| async move {
        let bad = cx.step("bad", async {
            runs.count("bad");
            Err::<u32, _>(Failure::permanent("gone", "forever")).context("asking")
        });
        let bad = bad.await.unwrap_err();
        let flaky = cx.step("flaky", async {
            match runs.count("flaky") {
                1 => Err(anyhow::anyhow!("not yet")),
                count => Ok(count),
            }
        });
        let flaky = flaky.await?;
        if cx.attempt() < 3 {
            anyhow::bail!("once more");
        }
        anyhow::Ok(format!("{bad:#}, {flaky}"))
    };
    let (job, runs) = (t.client().submit(greet("x")).await.unwrap(), Runs::default());
    for _ in 0..3 {
        t.run_due(Worker::new(t.client()).with(runs.clone()).handle(handler)).await;
        t.advance(secs(5)).await;
    }
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "asking: forever, 2");
    assert_eq!((runs.of("bad"), runs.of("flaky")), (1, 2));
}

/// Model: step-identity
async fn a_name_called_again_is_another_step(t: &TestClient) {
    let handler = |_: Greet, cx: Cx, State(runs): State<Runs>| async move {
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(cx.step("page", async { anyhow::Ok(runs.count("page")) }).await?);
        }
        if cx.attempt() == 1 {
            anyhow::bail!("again");
        }
        anyhow::Ok(format!("{all:?}"))
    };
    let (job, runs) = (t.client().submit(greet("x")).await.unwrap(), Runs::default());
    t.run_due(Worker::new(t.client()).with(runs.clone()).handle(handler)).await;
    t.advance(secs(5)).await;
    t.run_due(Worker::new(t.client()).with(runs.clone()).handle(handler)).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "[1, 2, 3]");
    let saved = t.client().api().checkpoints(t.client().caller(), job.id()).await.unwrap().unwrap();
    assert_eq!(saved.iter().map(|saved| &*saved.step).collect::<Vec<_>>(), ["page", "page#2", "page#3"]);
}

/// A job whose first attempt saved `a` and then died.
async fn half_done(t: &TestClient, runs: &Runs) -> windlass::client::Handle<Greet> {
    let job = t.client().submit(greet("x")).await.unwrap();
    let dying = Worker::new(t.client()).with(runs.clone()).handle(two);
    t.run_due(dying.crash_at(CrashPoint::AfterStep("a".into()))).await;
    t.advance(secs(40)).await;
    job
}

/// The code as it is after a careless change: another step comes first.
async fn changed(_: Greet, cx: Cx, State(runs): State<Runs>) -> anyhow::Result<String> {
    let new = cx.step("new", async { anyhow::Ok(runs.count("new")) }).await?;
    let a = cx.step("a", async { anyhow::Ok(runs.count("a")) }).await?;
    Ok(format!("{new} {a}"))
}

/// Model: step-identity
async fn changed_code_fails_with_a_clear_error(t: &TestClient) {
    let runs = Runs::default();
    let job = half_done(t, &runs).await;
    t.run_due(Worker::new(t.client()).with(runs.clone()).handle(changed)).await;
    t.assert_state(job.id(), JobState::Failed).await;
    let error = t.job(job.id()).await.job.details.error.clone().unwrap();
    assert_eq!(error.code.as_deref(), Some("steps_changed"));
    assert!(error.message.contains("`new`") && error.message.contains("`a`"), "{}", error.message);
    assert_eq!((runs.of("new"), runs.of("a")), (0, 1));
}

/// Model: step-identity
async fn a_lenient_worker_runs_changed_code(t: &TestClient) {
    let runs = Runs::default();
    let job = half_done(t, &runs).await;
    t.run_due(Worker::new(t.client()).with(runs.clone()).handle(changed).lenient_steps()).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "1 1");
    assert_eq!((runs.of("new"), runs.of("a")), (1, 1));
}

/// Model: step-identity
async fn a_saved_value_of_another_shape_is_changed_code(t: &TestClient) {
    let job = half_done(t, &Runs::default()).await;
    let handler = |_: Greet, cx: Cx| async move {
        cx.step("a", async { anyhow::Ok(vec!["a list".to_owned()]) }).await?;
        anyhow::Ok(String::new())
    };
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Failed).await;
    let error = t.job(job.id()).await.job.details.error.clone().unwrap();
    assert_eq!(error.code.as_deref(), Some("steps_changed"));
}

/// Model: step-identity
async fn names_of_the_context_itself_are_refused(t: &TestClient) {
    let handler = |job: Greet, cx: Cx| async move {
        cx.step(&job.name, async { anyhow::Ok(()) }).await?;
        anyhow::Ok(String::new())
    };
    for name in ["checkpoint", "sleep:", "signal:go", "children:", "deadline:x", "a#2", ""] {
        let job = t.client().submit(greet(name)).await.unwrap();
        t.run_due(Worker::new(t.client()).handle(handler)).await;
        t.assert_state(job.id(), JobState::Failed).await;
    }
}

/// Model: payload, steps
async fn a_step_whose_value_cannot_be_kept_fails_for_good(t: &TestClient) {
    let large = |job: Fill, cx: Cx, State(runs): State<Runs>| async move {
        let fill = || async {
            runs.count("large");
            anyhow::Ok("x".repeat(job.bytes))
        };
        cx.step("large", fill()).await
    };
    let wordless = |_: Greet, cx: Cx| async move {
        cx.step("map", async { anyhow::Ok(BTreeMap::from([((1, 2), 3)])) }).await?;
        anyhow::Ok(String::new())
    };
    let runs = Runs::default();
    let job = t.client().submit(Fill { bytes: 2 << 20 }).await.unwrap();
    let other = t.client().submit(greet("x")).await.unwrap();
    t.run_due(Worker::new(t.client()).with(runs.clone()).handle(large).handle(wordless)).await;
    t.assert_state(job.id(), JobState::Failed).await;
    t.assert_state(other.id(), JobState::Failed).await;
    let error = t.job(job.id()).await.job.details.error.clone().unwrap();
    assert!(error.message.contains("value") && error.message.contains("1048576"), "{}", error.message);
    assert_eq!(runs.of("large"), 1);
}

async fn counting(_: Greet, cx: Cx) -> anyhow::Result<String> {
    let done: u32 = cx.last_checkpoint()?.unwrap_or(0);
    cx.checkpoint(&(done + 1)).await?;
    assert_eq!(cx.last_checkpoint()?, Some(done + 1));
    if done < 2 {
        anyhow::bail!("not done");
    }
    Ok(format!("{}", done + 1))
}

/// Model: checkpoints
async fn checkpoints_outlive_attempts(t: &TestClient) {
    let job = t.client().submit(greet("x")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(counting)).await;
    t.advance(secs(2)).await;
    t.run_due(Worker::new(t.client()).handle(counting).crash_at(CrashPoint::BeforeFinish)).await;
    t.advance(secs(40)).await;
    t.run_due(Worker::new(t.client()).handle(counting)).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "3");
}

/// Model: interrupted-writes, checkpoints
async fn a_checkpoint_outlives_a_suspension(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        if let Some(saved) = cx.last_checkpoint::<String>()? {
            return anyhow::Ok(saved);
        }
        cx.checkpoint(&"saved").await?;
        let how = Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() };
        assert_eq!(cx.client().job(cx.job_id()).suspend(how).await?, ActionResult::Changed);
        // Cut off: none of this reaches the store.
        assert!(cx.checkpoint(&"too late").await.is_err());
        assert!(cx.log("too late").await.is_err());
        assert!(cx.limit_to(secs(1)).await.is_err());
        Ok("not taken".into())
    };
    let job = t.client().submit(greet("x")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Suspended).await;
    assert_eq!(outcomes(t.client(), job.id()).await, [AttemptOutcome::Suspended]);
    job.resume().await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "saved");
    assert_eq!(t.job(job.id()).await.job.failures, 0);
}

/// Model: final-states, steps
async fn a_redrive_continues_after_the_last_step_or_starts_over(t: &TestClient) {
    let handler = |_: Greet, cx: Cx, State(runs): State<Runs>| async move {
        cx.step("a", async { anyhow::Ok(runs.count("a")) }).await?;
        Err::<String, _>(anyhow::Error::from(Failure::permanent("no", "never")))
    };
    let (job, runs) = (t.client().submit(greet("x")).await.unwrap(), Runs::default());
    let worker = || Worker::new(t.client()).with(runs.clone()).handle(handler);
    t.run_due(worker()).await;
    job.redrive(Redrive::default()).await.unwrap();
    t.run_due(worker()).await;
    assert_eq!(runs.of("a"), 1);
    job.redrive(Redrive { reset_checkpoints: true, ..Redrive::default() }).await.unwrap();
    t.run_due(worker()).await;
    assert_eq!(runs.of("a"), 2);
}
