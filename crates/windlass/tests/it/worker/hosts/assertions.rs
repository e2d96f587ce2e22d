//! What users' tests can see and make sure of: every crash point, attempts, replays, submissions; and retries whose delay
//! the worker decides on.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::task::Poll;
use std::time::Duration;

use windlass::job::{AttemptOutcome, JobState, RetryPolicy};
use windlass::testing::{CrashPoint, StepRun, TestClient};
use windlass::{Cx, Failure, GroupStrategy, Worker};

use crate::fixture::secs;
use crate::worker::harness::step_by_step_on_every_engine;
use crate::worker::job_types::{Add, Fill, Greet, greet};

step_by_step_on_every_engine!(
    a_job_recovers_from_every_crash_point,
    replays_are_distinguished_from_runs,
    what_was_submitted_can_be_looked_at,
    time_passes_as_if_workers_ran,
    the_worker_decides_on_the_delay_of_a_custom_policy,
    a_custom_policy_without_a_function_is_exponential,
);

async fn everything(job: Greet, cx: Cx) -> anyhow::Result<String> {
    let first = cx.step("first", async { anyhow::Ok(1) }).await?;
    cx.checkpoint(&"here").await?;
    cx.sleep(secs(10)).await?;
    let children = (0..2).map(|number| Add { numbers: vec![number, 1] });
    let sums = cx.spawn_all(children, GroupStrategy::FailFast).await?.all()?;
    let word: Option<String> = cx.wait_signal("word", Some(secs(60))).await?;
    let kept: Option<String> = cx.last_checkpoint()?;
    Ok(format!("{} {first} {sums:?} {word:?} {kept:?}", job.name))
}

async fn add(job: Add) -> anyhow::Result<u64> {
    Ok(job.numbers.iter().sum())
}

/// Model: crashes-and-poison, child-groups, steps, sleeps-and-signals, checkpoints
async fn a_job_recovers_from_every_crash_point(t: &TestClient) {
    let points = [
        CrashPoint::BeforeStart,
        CrashPoint::BeforeStep("first".into()),
        CrashPoint::AfterStep("first".into()),
        CrashPoint::AfterCheckpoint,
        CrashPoint::BeforePark,
        CrashPoint::BeforeSpawn,
        CrashPoint::AfterSpawn,
        CrashPoint::BeforeFinish,
    ];
    for point in points {
        let name = format!("{point:?}");
        let job = t.client().submit(greet(&name)).retry(RetryPolicy::fixed()).await.unwrap();
        let worker = || Worker::new(t.client()).handle(everything).handle(add);
        // It sleeps, and waits for a signal, before it comes to the last of them.
        for _ in 0..10 {
            t.run_due(worker().crash_at(point.clone())).await;
            if t.job(job.id()).await.job.state == JobState::Running {
                break;
            }
            t.advance(secs(10)).await;
        }
        t.run_for(secs(200), worker).await;
        t.assert_completed(&job, format!("{name} 1 [1, 2] None Some(\"here\")")).await;
        t.assert_ran(job.id(), "first", 1);
        let lost = t.attempts(job.id()).await.into_iter().filter_map(|attempt| attempt.record);
        let lost = lost.filter(|record| record.outcome == AttemptOutcome::Lost).count();
        // Children are spawned, and the job waits for them, in one commit: there is nothing to be lost after that.
        assert_eq!(lost, usize::from(point != CrashPoint::AfterSpawn), "{point:?}");
    }
}

/// What an assertion says that does not hold.
async fn complaint(assertion: impl Future<Output = ()>) -> String {
    let mut assertion = std::pin::pin!(assertion);
    let ended = std::future::poll_fn(|context| {
        match std::panic::catch_unwind(AssertUnwindSafe(|| assertion.as_mut().poll(context))) {
            Ok(Poll::Ready(())) => Poll::Ready(None),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(panic.downcast_ref::<String>().cloned()),
        }
    });
    ended.await.expect("the assertion does not hold")
}

/// Model: attempt-records, steps
async fn replays_are_distinguished_from_runs(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        cx.step("pay", async { anyhow::Ok(()) }).await?;
        if cx.attempt() == 1 {
            return Err(Failure::permanent("no_such_card", "the card is unknown").into());
        }
        anyhow::Ok("paid".to_owned())
    };
    let job = t.client().submit(greet("a")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_failed(job.id(), "no_such_card").await;
    t.assert_attempts(job.id(), &[AttemptOutcome::Failed]).await;
    t.assert_ran(job.id(), "pay", 1);
    t.assert_replayed(job.id(), "pay", 0);
    let calls = t.steps(job.id());
    assert_eq!((calls.len(), calls[0].attempt, calls[0].run), (1, 1, StepRun::Ran));
    let said = complaint(t.assert_completed(&job, "paid")).await;
    assert!(said.contains("the card is unknown"), "{said}");
    let said = complaint(t.assert_failed(job.id(), "other")).await;
    assert!(said.contains("no_such_card"), "{said}");
    let said = complaint(async { t.assert_ran(job.id(), "pay", 2) }).await;
    assert!(said.contains("`pay`"), "{said}");
    let said = complaint(t.assert_attempts(job.id(), &[])).await;
    assert!(said.contains("Failed"), "{said}");
}

/// Model: payload
async fn what_was_submitted_can_be_looked_at(t: &TestClient) {
    t.client().submit(Fill { bytes: 1 }).await.unwrap();
    t.client().submit_all((0..600).map(|number| greet(&number.to_string()))).await.unwrap();
    let all = t.submitted::<Greet>().await;
    assert_eq!((all.len(), &*all[0].1.name, &*all[599].1.name), (600, "0", "599"));
    let found = t.assert_submitted::<Greet>(|job| job.name == "17").await;
    assert_eq!(found.id(), all[17].0);
    let said = complaint(async { drop(t.assert_submitted::<Greet>(|job| job.name.ends_with('3')).await) });
    assert!(said.await.starts_with("60 of 600"));
}

/// Model: retry-defaults, sleeps-and-signals
async fn time_passes_as_if_workers_ran(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        cx.sleep(Duration::from_secs(86_400)).await?;
        if cx.failures() == 0 { Err(anyhow::anyhow!("once")) } else { Ok(cx.attempt().to_string()) }
    };
    let job = t.client().submit(greet("a")).delay(secs(3600)).await.unwrap();
    let worker = || Worker::new(t.client()).handle(handler);
    assert_eq!(t.run_for(secs(3599), worker).await, 0);
    assert_eq!(t.run_for(secs(86_405), worker).await, 3);
    t.assert_completed(&job, "3").await;
}

/// Model: backoff, retry-after
async fn the_worker_decides_on_the_delay_of_a_custom_policy(t: &TestClient) {
    let handler = |job: Greet, cx: Cx| async move {
        match &*job.name {
            "own" => Err(Failure::retry_after(secs(7), "busy")),
            "panic" => panic!("on purpose"),
            _ => Err(Failure::temporary(format!("failure {}", cx.failures() + 1)).with_code("busy")),
        }
    };
    let decide = |cx: &Cx, failure: &Failure| {
        assert_ne!(failure.message, "failure 3", "a function that panics decides nothing");
        let known = if failure.code.as_deref() == Some("busy") { 100 } else { 1000 };
        secs(known * (u64::from(cx.failures()) + 1))
    };
    let worker = || {
        let handler = move |job: Greet, cx: Cx| async move { handler(job, cx).await.map(|()| String::new()) };
        Worker::new(t.client()).handle(handler).retry_delay(decide)
    };
    let policy = RetryPolicy { jitter: 0.0, max_delay: secs(150), ..RetryPolicy::custom() };
    let expected = [
        ("first", policy.clone().attempts(10), vec![100, 150, 4]),
        ("own", policy.clone(), vec![7]),
        ("panic", policy.clone(), vec![150]),
        ("other", RetryPolicy::fixed(), vec![1]),
    ];
    for (name, policy, delays) in expected {
        let job = t.client().submit(greet(name)).retry(policy).await.unwrap();
        for delay in delays {
            t.run_due(worker()).await;
            let found = t.job(job.id()).await.job;
            assert_eq!(found.state, JobState::Retrying);
            assert_eq!(found.next_run_at().since(t.now()), secs(delay), "{name}");
            t.advance(secs(delay)).await;
        }
        job.cancel().await.unwrap();
    }
}

/// Model: backoff
async fn a_custom_policy_without_a_function_is_exponential(t: &TestClient) {
    let handler = |_: Greet| async { Err::<String, _>(anyhow::anyhow!("no")) };
    let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::custom() };
    let job = t.client().submit(greet("a")).retry(policy).await.unwrap();
    for delay in [1, 2] {
        t.run_due(Worker::new(t.client()).handle(handler)).await;
        assert_eq!(t.job(job.id()).await.job.next_run_at().since(t.now()), secs(delay));
        t.advance(secs(delay)).await;
    }
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::DeadLetter).await;
}

/// Model: execution-timeout
#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_timed_out_in_no_time() {
    let t = TestClient::new();
    let handler = |_: Greet, cx: Cx| async move {
        if cx.attempt() == 1 {
            std::future::pending::<()>().await;
        }
        anyhow::Ok("at last".to_owned())
    };
    let job = t.client().submit(greet("a")).timeout(secs(60)).await.unwrap();
    t.run_for(secs(10), || Worker::new(t.client()).handle(handler)).await;
    t.assert_completed(&job, "at last").await;
    t.assert_attempts(job.id(), &[AttemptOutcome::TimedOut, AttemptOutcome::Completed]).await;
}
