//! Calls that a handler drops: because it was asked to stop, because it waited for something else, or because of an event
//! that comes only once (Model: steps, step-identity).

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass::client::{Client, Handle};
use windlass::context::Cx;
use windlass::handler::State;
use windlass::job::{JobState, RetryPolicy};
use windlass::testing::TestClient;
use windlass::worker::Worker;

use crate::fixture::secs;
use crate::worker::harness::{Bench, EventSender, PROMPTLY, Started, events};
use crate::worker::job_types::{Greet, greet};

mod stopped {
    use super::{
        a_sleep_dropped_because_the_worker_stops_keeps_its_end,
        a_step_dropped_because_the_worker_stops_runs_again,
    };
    use crate::worker::harness::on_every_engine;

    on_every_engine!(
        a_step_dropped_because_the_worker_stops_runs_again,
        a_sleep_dropped_because_the_worker_stops_keeps_its_end,
    );
}

mod replayed {
    use super::{
        a_saved_step_dropped_before_its_turn_keeps_its_value,
        a_saved_step_is_not_given_up_while_another_is_slow,
    };
    use crate::worker::harness::step_by_step_on_every_engine;

    step_by_step_on_every_engine!(
        a_saved_step_is_not_given_up_while_another_is_slow,
        a_saved_step_dropped_before_its_turn_keeps_its_value,
    );
}

async fn submit(client: &Client) -> Handle<Greet> {
    client.submit(greet("x")).retry(RetryPolicy::fixed().attempts(8)).await.unwrap()
}

async fn value(cx: &Cx, name: &str) -> anyhow::Result<String> {
    cx.step(name, async { anyhow::Ok(name.to_owned()) }).await
}

async fn turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// Model: crashes-and-poison, steps, step-identity
async fn a_step_dropped_because_the_worker_stops_runs_again(bench: &Bench) {
    let (sender, mut received) = events();
    let cleaning = |_: Greet, cx: Cx, State(sender): State<EventSender>| async move {
        let long = cx.step("long", async {
            sender.say("working");
            if cx.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            anyhow::Ok("done".to_owned())
        });
        let long = tokio::select! {
            biased;
            done = long => done?,
            () = cx.cancelled() => {
                value(&cx, "cleanup").await?;
                anyhow::bail!("stopped")
            }
        };
        let last = value(&cx, "last").await?;
        anyhow::ensure!(cx.failures() > 0, "again");
        anyhow::Ok(format!("{long} {last}"))
    };
    let worker = || bench.worker().with(sender.clone()).drain(Duration::ZERO).handle(cleaning);
    let job = submit(&bench.client).await;
    let running = Started::new(worker());
    received.expect("working").await;
    running.stop().await;
    let again = Started::new(worker());
    assert_eq!(job.result(PROMPTLY).await.unwrap(), "done last");
    let saved = bench.client.api().checkpoints(bench.client.caller(), job.id()).await.unwrap().unwrap();
    assert_eq!(saved.iter().map(|saved| &*saved.step).collect::<Vec<_>>(), ["cleanup", "last", "long"]);
    again.stop().await;
}

/// Model: crashes-and-poison, sleeps-and-signals
async fn a_sleep_dropped_because_the_worker_stops_keeps_its_end(bench: &Bench) {
    let (sender, mut received) = events();
    let cleaning = |_: Greet, cx: Cx, State(sender): State<EventSender>| async move {
        let never = tokio::sync::Notify::new();
        let long = cx.step("long", async {
            // The sleep beside it is saved a moment later, in virtual time, too.
            while cx
                .client()
                .api()
                .checkpoints(cx.client().caller(), cx.job_id())
                .await?
                .is_none_or(|all| all.is_empty())
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            sender.say("working");
            if cx.attempt() == 1 {
                never.notified().await;
            }
            anyhow::Ok("done".to_owned())
        });
        tokio::select! {
            biased;
            slept = cx.sleep(secs(3600)) => slept.map(|()| "slept".to_owned()),
            done = long => done,
            () = cx.cancelled() => {
                value(&cx, "cleanup").await?;
                anyhow::bail!("stopped")
            }
        }
    };
    let worker = || bench.worker().with(sender.clone()).drain(Duration::ZERO).handle(cleaning);
    let job = submit(&bench.client).await;
    let until = || async {
        let saved = bench.client.api().checkpoints(bench.client.caller(), job.id()).await.unwrap().unwrap();
        let sleep = saved.into_iter().find(|saved| saved.step == "sleep:").expect("the sleep is saved");
        serde_json::from_slice::<serde_json::Value>(&sleep.value).unwrap()["until"].clone()
    };
    let running = Started::new(worker());
    received.expect("working").await;
    let before = until().await;
    assert!(!before.is_null());
    running.stop().await;
    assert_eq!(until().await, before);
    let again = Started::new(worker());
    assert_eq!(job.result(PROMPTLY).await.unwrap(), "done");
    again.stop().await;
}

/// Model: steps, step-identity
async fn a_saved_step_is_not_given_up_while_another_is_slow(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let is_first = cx.attempt() == 1;
        let has_p = tokio::sync::Notify::new();
        let one = async {
            turns(if is_first { 0 } else { 500 }).await;
            let p = value(&cx, "p").await;
            has_p.notify_one();
            p
        };
        let two = async {
            if is_first {
                has_p.notified().await;
            }
            turns(1).await;
            tokio::select! {
                biased;
                q = value(&cx, "q") => q,
                () = turns(50), if !is_first => Ok("timeout".to_owned()),
            }
        };
        let (p, q) = tokio::try_join!(one, two)?;
        let z = value(&cx, "z").await?;
        anyhow::ensure!(cx.attempt() > 3, "again");
        anyhow::Ok(format!("{p}{q}{z}"))
    };
    let job = submit(t.client()).await;
    t.run_for(secs(120), || Worker::new(t.client()).handle(handler)).await;
    t.assert_completed(&job, "pqz").await;
    for name in ["p", "q", "z"] {
        t.assert_ran(job.id(), name, 1);
    }
}

/// Model: steps, step-identity. Even what is dropped while it waits for its turn keeps its value.
async fn a_saved_step_dropped_before_its_turn_keeps_its_value(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let is_first = cx.attempt() == 1;
        let mut sender = Vec::new();
        if is_first {
            sender = vec![value(&cx, "p").await?, value(&cx, "q").await?];
        } else {
            let late = async {
                turns(9).await;
                value(&cx, "p").await
            };
            let early = async {
                tokio::select! {
                    biased;
                    q = value(&cx, "q") => q,
                    () = std::future::ready(()), if cx.attempt() == 2 => Ok("dropped".to_owned()),
                }
            };
            let (p, q) = tokio::join!(late, early);
            sender.extend([p?, q?]);
        }
        let z = value(&cx, "z").await?;
        anyhow::ensure!(cx.attempt() > 2, "again");
        anyhow::Ok(format!("{}{z}", sender.join("")))
    };
    let job = submit(t.client()).await;
    t.run_for(secs(120), || Worker::new(t.client()).handle(handler)).await;
    t.assert_completed(&job, "pqz").await;
}

/// Model: steps, step-identity
#[tokio::test(start_paused = true)]
async fn a_step_dropped_by_an_event_that_comes_once_does_not_hang() {
    let bench = Bench::in_virtual_time();
    let handler = |_: Greet, cx: Cx| async move {
        let token = CancellationToken::new();
        if cx.attempt() == 1 {
            let own = token.clone();
            tokio::spawn(async move {
                turns(20).await;
                own.cancel();
            });
        }
        let download = cx.step("download", async {
            if cx.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            anyhow::Ok("downloaded".to_owned())
        });
        let got = tokio::select! {
            biased;
            got = download => got?,
            () = token.cancelled() => "stopped".to_owned(),
        };
        let after = value(&cx, "after").await?;
        anyhow::ensure!(cx.attempt() > 2, "again");
        anyhow::Ok(format!("{got} {after}"))
    };
    let job = submit(&bench.client).await;
    let running = Started::new(bench.worker().handle(handler));
    assert_eq!(job.result(secs(120)).await.unwrap(), "downloaded after");
    running.stop().await;
}

/// Model: steps. A time limit comes first again, though that takes longer than a turn is waited for.
#[tokio::test(start_paused = true)]
async fn a_step_that_took_too_long_takes_too_long_again() {
    let bench = Bench::in_virtual_time();
    let handler = |_: Greet, cx: Cx| async move {
        let slow = cx.step("slow", async {
            if cx.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            anyhow::Ok(())
        });
        let is_late = tokio::time::timeout(secs(300), slow).await.is_err();
        let after = value(&cx, "after").await?;
        anyhow::ensure!(cx.attempt() > 3, "again");
        anyhow::Ok(format!("{is_late} {after}"))
    };
    let job = submit(&bench.client).await;
    let running = Started::new(bench.worker().handle(handler));
    assert_eq!(job.result(secs(3600)).await.unwrap(), "true after");
    running.stop().await;
}

/// Model: step-identity. A step that was dropped, and is waited for now that nothing else comes, is followed by whatever comes.
#[tokio::test(start_paused = true)]
async fn a_dropped_step_that_runs_after_all_is_not_changed_code() {
    let t = TestClient::new();
    let handler = |_: Greet, cx: Cx| async move {
        let work = cx.step("work", async {
            if cx.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            anyhow::Ok("worked".to_owned())
        });
        let got = tokio::select! {
            biased;
            got = work => got?,
            () = turns(5), if cx.attempt() == 1 => "dropped".to_owned(),
        };
        let name = if got == "dropped" { "undo" } else { "continue" };
        let after = value(&cx, name).await?;
        anyhow::ensure!(cx.attempt() > 2, "again");
        anyhow::Ok(format!("{got}, {after}"))
    };
    let job = submit(t.client()).await;
    t.run_for(secs(120), || Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Completed).await;
    t.assert_completed(&job, "worked, continue").await;
}

/// A copy of the context may be in a task that has not made its first call yet, so calls in another order are no proof
/// that the code was changed (Model: step-identity).
#[tokio::test(start_paused = true)]
async fn a_task_that_is_late_with_its_first_call_is_not_changed_code() {
    let before = |_: Greet, cx: Cx| async move {
        value(&cx, "a").await?;
        Err::<String, _>(anyhow::anyhow!("again"))
    };
    let after = |_: Greet, cx: Cx| async move {
        let own = cx.clone();
        let task = tokio::spawn(async move {
            tokio::time::sleep(secs(600)).await;
            value(&own, "a").await
        });
        let b = value(&cx, "b").await?;
        anyhow::Ok(format!("{}{b}", task.await??))
    };
    let t = TestClient::new();
    let job = submit(t.client()).await;
    t.run_due(Worker::new(t.client()).handle(before)).await;
    t.advance(secs(1)).await;
    t.run_due(Worker::new(t.client()).handle(after)).await;
    t.assert_completed(&job, "ab").await;
    t.assert_ran(job.id(), "a", 1);
    t.assert_ran(job.id(), "b", 1);
}

/// Model: step-identity. A task that has made a call may make others, and is waited for as before.
#[tokio::test(start_paused = true)]
async fn a_slow_task_that_calls_steps_is_not_changed_code() {
    let before = |_: Greet, cx: Cx| async move {
        value(&cx, "a").await?;
        value(&cx, "b").await?;
        Err::<String, _>(anyhow::anyhow!("again"))
    };
    let after = |_: Greet, cx: Cx| async move {
        let own = cx.clone();
        let task = tokio::spawn(async move {
            value(&own, "a").await?;
            tokio::time::sleep(secs(100)).await;
            value(&own, "b").await
        });
        turns(9).await;
        let c = value(&cx, "c").await?;
        anyhow::Ok(format!("{}{c}", task.await??))
    };
    let t = TestClient::new();
    let job = submit(t.client()).await;
    t.run_due(Worker::new(t.client()).handle(before)).await;
    t.advance(secs(1)).await;
    t.run_due(Worker::new(t.client()).handle(after)).await;
    t.assert_completed(&job, "bc").await;
}
