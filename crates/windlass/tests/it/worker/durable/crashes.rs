//! Handlers that panic or take too long: counted, never contagious.

use std::future::Future;

use windlass::context::Cx;
use windlass::handler::State;
use windlass::job::{AttemptOutcome, Category, ErrorRecord, JobId, JobState, RetryPolicy};
use windlass::testing::TestClient;
use windlass::worker::Worker;

use crate::fixture::secs;
use crate::worker::harness::{Bench, EventSender, Started, events, outcomes, within};
use crate::worker::job_types::{Greet, Trap, greet};

async fn error_of(t: &TestClient, id: JobId) -> ErrorRecord {
    t.job(id).await.job.details.error.clone().expect("the job has an error")
}

/// A local whose end is a panic.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "boom");
    }
}

async fn crashes_counted<F: Future>(t: &TestClient, id: JobId, run: impl Fn() -> F) {
    for crash in 1..=3 {
        run().await;
        let job = t.job(id).await.job;
        assert_eq!(job.crashes, crash);
        let error = error_of(t, id).await;
        assert_eq!(error.category, Category::System);
        let (state, code) =
            if crash == 3 { (JobState::DeadLetter, "poison") } else { (JobState::Retrying, "panic") };
        assert_eq!((job.state, error.code.as_deref()), (state, Some(code)), "{}", error.message);
        t.advance(secs(10)).await;
    }
    assert_eq!(outcomes(t.client(), id).await, [AttemptOutcome::Failed; 3]);
}

async fn body(_: Greet) -> anyhow::Result<String> {
    tokio::task::yield_now().await;
    panic!("in the body")
}

/// Model: crashes-and-poison
#[tokio::test]
async fn a_panic_anywhere_is_a_crash_and_three_are_poison() {
    let t = TestClient::new();
    let policy = RetryPolicy { max_attempts: 50, ..RetryPolicy::fixed() };
    let submit = |name: &str| t.client().submit(greet(name)).retry(policy.clone());
    let local = |_: Greet| async {
        let _bomb = Bomb;
        tokio::task::yield_now().await;
        anyhow::Ok(String::new())
    };
    let blocking = |_: Greet, _: Cx| -> anyhow::Result<String> { panic!("on a thread") };
    let fine = |_: Greet| async { anyhow::Ok(String::new()) };
    let worker = || Worker::new(t.client());
    let id = submit("body").await.unwrap().id();
    crashes_counted(&t, id, || t.run_due(worker().handle(body))).await;
    assert!(error_of(&t, id).await.message.contains("in the body"));
    let id = submit("local").await.unwrap().id();
    crashes_counted(&t, id, || t.run_due(worker().handle(local))).await;
    let id = submit("blocking").await.unwrap().id();
    crashes_counted(&t, id, || t.run_due(worker().handle_blocking(blocking))).await;
    let id = submit("layer").await.unwrap().id();
    crashes_counted(&t, id, || t.run_due(worker().handle(fine).layer(|_, _| panic!("in a layer")))).await;
    let id = t.client().submit(Trap).retry(policy.clone()).await.unwrap().id();
    crashes_counted(&t, id, || t.run_due(worker().handle(|_: Trap| async { anyhow::Ok(()) }))).await;
}

/// Model: crashes-and-poison
#[tokio::test]
async fn a_panic_while_a_parked_handler_is_dropped_changes_nothing() {
    let t = TestClient::new();
    let handler = |_: Greet, cx: Cx| async move {
        let _bomb = (cx.attempt() == 1).then(|| Bomb);
        cx.sleep(secs(5)).await?;
        anyhow::Ok(String::new())
    };
    let job = t.client().submit(greet("a")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Waiting).await;
    t.advance(secs(5)).await;
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Completed).await;
}

/// Model: execution-timeout
#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_too_long_is_cancelled_and_counts_as_timed_out() {
    let bench = Bench::in_virtual_time();
    let (sender, mut received) = events();
    let handler = |_: Greet, cx: Cx, State(sender): State<EventSender>| async move {
        if cx.attempt() == 1 {
            let watcher = cx.clone();
            tokio::spawn(async move {
                watcher.cancelled().await;
                sender.say("cancelled");
            });
            std::future::pending::<()>().await;
        }
        anyhow::Ok("in time".to_owned())
    };
    let job = bench.client.submit(greet("a")).timeout(secs(60)).await.unwrap();
    let running = Started::new(bench.worker().with(sender).handle(handler));
    assert_eq!(job.result(secs(600)).await.unwrap(), "in time");
    received.expect("cancelled").await;
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::TimedOut, AttemptOutcome::Completed]);
    assert_eq!(bench.job(job.id()).await.job.failures, 1);
    running.stop().await;
}

/// Model: execution-timeout
#[tokio::test(start_paused = true)]
async fn a_handler_may_shorten_its_time_but_not_lengthen_it() {
    let bench = Bench::in_virtual_time();
    let (sender, mut received) = events();
    let begun = tokio::time::Instant::now();
    let handler = move |_: Greet, cx: Cx, State(sender): State<EventSender>| async move {
        cx.limit_to(secs(if cx.attempt() == 1 { 5 } else { 500 })).await?;
        let started = tokio::time::Instant::now();
        cx.cancelled().await;
        sender.say(format!("{}", started.elapsed().as_secs()));
        anyhow::Ok(String::new())
    };
    let policy = RetryPolicy { max_attempts: 2, ..RetryPolicy::fixed() };
    let job = bench.client.submit(greet("a")).timeout(secs(60)).retry(policy).await.unwrap();
    let running = Started::new(bench.worker().with(sender).handle(handler).heartbeat_every(secs(15)));
    within(secs(600), job.wait(secs(600))).await.unwrap();
    assert_eq!(bench.job(job.id()).await.job.state, JobState::DeadLetter);
    assert!(begun.elapsed() < secs(70), "{:?}", begun.elapsed());
    received.expect("5").await;
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::TimedOut; 2]);
    running.stop().await;
}
