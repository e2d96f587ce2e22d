//! Handlers that block: they park like others, and their threads are free when they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass::job::{AttemptOutcome, JobState};
use windlass::testing::{CrashPoint, TestClient};
use windlass::{Cx, GroupStrategy, Worker};

use super::harness::{EventSender, events, step_by_step_on_every_engine};
use super::job_types::{Add, Fill, Greet, greet};
use crate::fixture::secs;

step_by_step_on_every_engine!(
    a_blocking_handler_sleeps_and_receives_signals,
    a_blocking_handler_has_children,
    a_blocking_handler_replays_its_steps,
    changed_code_is_found_on_a_thread,
);

/// Counts the threads on which its handlers are.
#[derive(Clone, Default)]
struct Threads(Arc<AtomicUsize>);

/// Tells when it is dropped, as everything on a thread is that unwinds.
struct OnThread(Threads, EventSender);

impl OnThread {
    fn new(threads: &Threads, sender: &EventSender) -> OnThread {
        threads.0.fetch_add(1, Ordering::SeqCst);
        OnThread(threads.clone(), sender.clone())
    }
}

impl Drop for OnThread {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
        self.1.say("thread is free");
    }
}

/// Model: sleeps-and-signals
async fn a_blocking_handler_sleeps_and_receives_signals(t: &TestClient) {
    let (sender, mut received) = events();
    let threads = Threads::default();
    let counted = threads.clone();
    let handler = move |_: Greet, cx: Cx| -> anyhow::Result<String> {
        let _on_thread = OnThread::new(&counted, &sender);
        cx.block_on(cx.sleep(secs(3600)))?;
        // The long form is equivalent.
        let word = cx.wait_signal("word", Some(secs(60)));
        let word: Option<String> = tokio::runtime::Handle::current().block_on(word)?;
        Ok(word.unwrap_or_default())
    };
    let worker = || Worker::new(t.client()).handle_blocking(handler.clone());
    let job = t.client().submit(greet("a")).await.unwrap();
    for wait in ["sleep", "signal"] {
        assert_eq!(t.run_due(worker()).await, 1);
        t.assert_state(job.id(), JobState::Waiting).await;
        received.expect("thread is free").await;
        assert_eq!(threads.0.load(Ordering::SeqCst), 0);
        match wait {
            "sleep" => t.advance(secs(3600)).await,
            _ => job.signal("word", &"now").await.unwrap(),
        }
    }
    t.run_due(worker()).await;
    t.assert_completed(&job, "now").await;
    let parked = AttemptOutcome::Parked;
    t.assert_attempts(job.id(), &[parked, parked, AttemptOutcome::Completed]).await;
    assert_eq!(t.job(job.id()).await.job.crashes, 0);
}

/// Model: child-groups
async fn a_blocking_handler_has_children(t: &TestClient) {
    let parent = |_: Add, cx: Cx| -> anyhow::Result<u64> {
        let children = ["one", "three"].map(greet);
        let lengths = cx.block_on(cx.spawn_all(children, GroupStrategy::FailFast))?.all()?;
        Ok(lengths.concat().len() as u64)
    };
    let child = |job: Greet| async { anyhow::Ok(job.name) };
    let job = t.client().submit(Add { numbers: vec![] }).await.unwrap();
    t.run_due(Worker::new(t.client()).handle_blocking(parent).handle(child)).await;
    t.assert_completed(&job, 8).await;
}

fn stepping(name: &'static str) -> impl Fn(Greet, Cx) -> anyhow::Result<String> + Clone + Send + Sync {
    move |_: Greet, cx: Cx| {
        let first = cx.block_on(cx.step("first", async { anyhow::Ok(1) }))?;
        let second = cx.block_on(cx.step(name, async { anyhow::Ok(2) }))?;
        Ok(format!("{first} {second}"))
    }
}

/// Model: steps
async fn a_blocking_handler_replays_its_steps(t: &TestClient) {
    let worker = || Worker::new(t.client()).handle_blocking(stepping("second"));
    let points = [CrashPoint::BeforeStep("second".into()), CrashPoint::AfterStep("second".into())];
    for point in points {
        let job = t.client().submit(greet("a")).await.unwrap();
        t.run_due(worker().crash_at(point)).await;
        t.assert_state(job.id(), JobState::Running).await;
        t.run_for(secs(60), worker).await;
        t.assert_completed(&job, "1 2").await;
        t.assert_ran(job.id(), "first", 1);
        t.assert_ran(job.id(), "second", 1);
    }
}

/// Model: step-identity
async fn changed_code_is_found_on_a_thread(t: &TestClient) {
    let job = t.client().submit(greet("a")).await.unwrap();
    let dying = Worker::new(t.client()).handle_blocking(stepping("second"));
    t.run_due(dying.crash_at(CrashPoint::BeforeFinish)).await;
    t.run_for(secs(60), || Worker::new(t.client()).handle_blocking(stepping("other"))).await;
    t.assert_state(job.id(), JobState::Failed).await;
    t.assert_failed(job.id(), "steps_changed").await;
    t.assert_ran(job.id(), "other", 0);
}

/// As many jobs sleep as there are threads for blocking work, and one more runs.
#[test]
fn parked_blocking_handlers_leave_room_for_others() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().max_blocking_threads(2).build().unwrap();
    runtime.block_on(async {
        let t = TestClient::new();
        let sleeping = |_: Greet, cx: Cx| -> anyhow::Result<String> {
            cx.block_on(cx.sleep(secs(3600)))?;
            Ok("awake".into())
        };
        let quick = |_: Fill, _: Cx| -> anyhow::Result<String> { Ok("done".into()) };
        let worker = || Worker::new(t.client()).handle_blocking(sleeping).handle_blocking(quick);
        let sleepers = t.client().submit_all((0..5).map(|_| greet("x"))).await.unwrap();
        t.run_due(worker()).await;
        let other = t.client().submit(Fill { bytes: 0 }).await.unwrap();
        t.run_due(worker()).await;
        t.assert_completed(&other, "done").await;
        t.run_for(secs(3600), worker).await;
        for sleeper in &sleepers {
            t.assert_completed(sleeper, "awake").await;
        }
    });
}
