//! Corners of the Rust API where something used to be lost, hidden or accepted in silence.

use std::fmt;
use std::time::Duration;

use windlass::context::Cx;
use windlass::handler::State;
use windlass::job::{AttemptOutcome, Failure, GroupStrategy, JobState};
use windlass::store::PauseMode;
use windlass::testing::TestClient;
use windlass::worker::Worker;

use crate::fixture::secs;
use crate::worker::harness::{Bench, EventSender, Started, events, outcomes};
use crate::worker::job_types::{Add, Greet, greet};

/// An error that cannot be shown.
#[derive(Debug)]
struct Unspeakable;

impl fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("no words")
    }
}

impl std::error::Error for Unspeakable {}

/// A panic that panics again when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("and again")
    }
}

/// Model: crashes-and-poison
#[tokio::test]
async fn an_error_that_panics_when_it_is_shown_or_dropped_is_a_panic() {
    let t = TestClient::new();
    let shown = |_: Greet| async { Err::<String, _>(Unspeakable) };
    let dropped = |_: Add| async {
        if true {
            std::panic::panic_any(Bomb);
        }
        anyhow::Ok(0)
    };
    let shown_job = t.client().submit(greet("x")).await.unwrap();
    let dropped_job = t.client().submit(Add { numbers: vec![] }).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(shown).handle(dropped)).await;
    for id in [shown_job.id(), dropped_job.id()] {
        assert_eq!(outcomes(t.client(), id).await, [AttemptOutcome::Failed]);
        let error = t.job(id).await.job.details.error.clone().unwrap();
        assert_eq!(error.code.as_deref(), Some("panic"));
    }
}

/// Model: child-groups
#[tokio::test]
async fn a_group_that_failed_fast_names_the_child_that_failed() {
    let t = TestClient::new();
    let parent = |_: Add, cx: Cx| async move {
        let children = ["slow", "bad", "slow"].map(greet);
        cx.spawn_all(children, GroupStrategy::FailFast).await?.all()?;
        anyhow::Ok(0)
    };
    let child = |job: Greet, cx: Cx| async move {
        if job.name == "bad" {
            return Err(Failure::permanent("bad", "as its name says").into());
        }
        cx.sleep(secs(600)).await?;
        anyhow::Ok(String::new())
    };
    let job = t.client().submit(Add { numbers: vec![] }).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(parent).handle(child)).await;
    let error = t.job(job.id()).await.job.details.error.clone().unwrap();
    assert!(error.message.contains("as its name says"), "{}", error.message);
}

/// Model: answer-time
#[tokio::test]
async fn waiting_for_ever_is_allowed() {
    let t = TestClient::new();
    let job = t.client().submit(greet("x")).await.unwrap();
    let fine = |_: Greet| async { anyhow::Ok("done".to_owned()) };
    t.run_due(Worker::new(t.client()).handle(fine)).await;
    assert_eq!(job.result(Duration::MAX).await.unwrap(), "done");
    assert_eq!(job.wait(Duration::MAX).await.unwrap().unwrap().job.state, JobState::Completed);
}

#[tokio::test]
async fn no_slots_are_refused_and_the_last_number_counts() {
    let t = TestClient::new();
    let fine = |_: Greet| async { anyhow::Ok(String::new()) };
    let none = Worker::new(t.client()).queue("default", 0).handle(fine);
    let refused = none.run_until(std::future::ready(())).await.unwrap_err();
    assert!(refused.to_string().contains("concurrency"), "{refused}");
    let twice = Worker::new(t.client()).queue("x", 1).queue("x", 5).handle(fine);
    let control = twice.control();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(twice.run_until(stopped));
    let id = control.started().await;
    let config = t.client().api().config(t.client().caller()).await.unwrap();
    let worker = &config.workers[&id];
    assert_eq!((worker.concurrency, worker.queues.len()), (5, 1));
    drop(stop);
    running.await.unwrap().unwrap();
}

/// Model: explained-waiting
#[tokio::test(start_paused = true)]
async fn a_job_behind_a_busy_or_paused_worker_says_so() {
    let bench = Bench::in_virtual_time();
    let (sender, mut received) = events();
    let endless = |_: Greet, State(sender): State<EventSender>| async move {
        sender.say("started");
        std::future::pending::<anyhow::Result<String>>().await
    };
    let worker = bench.worker().queue("default", 1).with(sender).handle(endless);
    let control = worker.control();
    let running = Started::new(worker);
    bench.client.submit(greet("first")).await.unwrap();
    received.expect("started").await;
    let job = bench.client.submit(greet("second")).await.unwrap();
    let codes = || async {
        let reasons = job.explain().await.unwrap().unwrap();
        reasons.iter().map(|reason| reason.code).collect::<Vec<_>>()
    };
    assert_eq!(codes().await, ["no_free_slot"]);
    control.pause(PauseMode::Graceful);
    bench.let_time_pass().await;
    assert_eq!(codes().await, ["no_worker"]);
    control.resume();
    bench.let_time_pass().await;
    assert_eq!(codes().await, ["no_free_slot"]);
    running.stop().await;
}
