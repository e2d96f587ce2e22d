//! Recovery, retries and durable steps in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass::context::Cx;
use windlass::handler::State;
use windlass::job::{Failure, GroupStrategy, JobState};
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use crate::worker::job_types::{Add, Greet, greet};

type Count = Arc<AtomicUsize>;

async fn stepped(job: Greet, cx: Cx, State(runs): State<Count>) -> anyhow::Result<String> {
    let first = cx
        .step("first", async {
            runs.fetch_add(1, Ordering::SeqCst);
            anyhow::Ok(format!("hello, {}", job.name))
        })
        .await?;
    let second = cx.step("second", async { anyhow::Ok(1u32) }).await?;
    Ok(format!("{first} {second}"))
}

fn stepping(t: &TestClient, runs: &Count) -> Worker {
    Worker::new(t.client()).with(runs.clone()).handle(stepped)
}

/// Model: steps
#[tokio::test]
async fn a_worker_that_dies_after_a_step_does_not_run_it_again() {
    let (t, runs) = (TestClient::new(), Count::default());
    let handle = t.client().submit(greet("world")).await.unwrap();
    let dying = stepping(&t, &runs).crash_at(CrashPoint::AfterStep("first".into()));
    assert_eq!(t.run_due(dying).await, 1);
    t.assert_state(handle.id(), JobState::Running).await;
    t.advance(Duration::from_secs(30)).await;
    t.assert_state(handle.id(), JobState::Retrying).await;
    t.advance(Duration::from_secs(5)).await;
    assert_eq!(t.run_due(stepping(&t, &runs)).await, 1);
    assert_eq!(handle.result(Duration::ZERO).await.unwrap(), "hello, world 1");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    assert_eq!(t.attempts(handle.id()).await.len(), 2);
}

async fn failing(_: Greet) -> Result<String, Failure> {
    Err(Failure::permanent("no", "never"))
}

/// Model: error-categories
#[tokio::test]
async fn a_permanent_failure_is_not_retried() {
    let t = TestClient::new();
    let handle = t.client().submit(greet("world")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(failing)).await;
    t.assert_state(handle.id(), JobState::Failed).await;
}

async fn sum(job: Add, cx: Cx) -> anyhow::Result<u64> {
    if job.numbers.len() <= 1 {
        return Ok(job.numbers.first().copied().unwrap_or(0));
    }
    let halves = job.numbers.split_at(job.numbers.len() / 2);
    let children = [halves.0, halves.1].map(|half| Add { numbers: half.to_vec() });
    let sums = cx.spawn_all(children, GroupStrategy::FailFast).await?.all()?;
    Ok(sums.into_iter().sum())
}

/// Model: child-groups
#[tokio::test]
async fn nested_children_gather_their_results_in_order() {
    let t = TestClient::new();
    let handle = t.client().submit(Add { numbers: (1..=20).collect() }).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(sum)).await;
    assert_eq!(handle.result(Duration::ZERO).await.unwrap(), 210);
}

async fn sleeper(job: Greet, cx: Cx) -> anyhow::Result<String> {
    cx.sleep(Duration::from_secs(3600)).await?;
    let word: Option<String> = cx.wait_signal("word", Some(Duration::from_secs(60))).await?;
    Ok(format!("{} {}", word.unwrap_or_else(|| "nothing".into()), job.name))
}

/// Model: sleeps-and-signals
#[tokio::test]
async fn sleeping_and_waiting_hold_no_slot_and_survive() {
    let t = TestClient::new();
    let worker = || Worker::new(t.client()).handle(sleeper);
    let first = t.client().submit(greet("a")).await.unwrap();
    let second = t.client().submit(greet("b")).await.unwrap();
    t.run_due(worker()).await;
    t.assert_state(first.id(), JobState::Waiting).await;
    t.advance(Duration::from_secs(3600)).await;
    first.signal("word", &"hi").await.unwrap();
    t.run_due(worker()).await;
    assert_eq!(first.result(Duration::ZERO).await.unwrap(), "hi a");
    t.assert_state(second.id(), JobState::Waiting).await;
    t.advance(Duration::from_secs(61)).await;
    t.run_due(worker()).await;
    assert_eq!(second.result(Duration::ZERO).await.unwrap(), "nothing b");
}
