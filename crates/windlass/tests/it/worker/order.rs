//! Steps beside each other: their order may differ from attempt to attempt, and only changed code is refused (Model: step-identity).

use std::time::Duration;

use tokio::sync::Notify;
use windlass::job::JobState;
use windlass::testing::{CrashPoint, TestClient};
use windlass::{Client, Cx, Failure, Handle, RetryPolicy, Worker};

use super::harness::{Bench, Started, step_by_step_on_every_engine};
use super::job_types::{Fill, Greet, greet};
use crate::fixture::secs;

step_by_step_on_every_engine!(
    steps_that_are_joined_may_come_in_any_order,
    a_branch_that_takes_its_time_is_waited_for,
    branches_of_several_steps_replay_from_any_point,
    tasks_of_their_own_may_call_steps_in_any_order,
    a_task_that_is_not_awaited_yet_is_waited_for,
    a_step_that_failed_before_another_was_saved_runs_again,
    every_try_within_a_handler_replays_as_it_was,
    a_step_given_up_half_way_stays_given_up,
    changed_code_is_found_beside_steps_that_ran_concurrently,
    a_step_that_was_moved_or_removed_is_changed_code,
    hundreds_of_concurrent_steps_replay,
);

async fn submit(client: &Client) -> Handle<Greet> {
    client.submit(greet("x")).retry(RetryPolicy::fixed().attempts(10)).await.unwrap()
}

async fn step(cx: &Cx, name: &str) -> anyhow::Result<String> {
    cx.step(name, async { anyhow::Ok(name.to_uppercase()) }).await
}

/// Waits for a turn of the runtime, as any real work would.
async fn turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// Runs the job as long as it asks to.
async fn run<H, Args: 'static>(t: &TestClient, handler: H) -> usize
where
    H: windlass::handler::Handler<Greet, Args>,
{
    t.run_for(secs(120), || Worker::new(t.client()).handle(handler.clone())).await
}

/// Model: step-identity
async fn steps_that_are_joined_may_come_in_any_order(t: &TestClient) {
    for crash in ["a", "b"] {
        let both = |_: Greet, cx: Cx| async move {
            // In every other attempt the branches are polled the other way round.
            let (a, b) = if cx.attempt() % 2 == 1 {
                tokio::join!(step(&cx, "a"), step(&cx, "b"))
            } else {
                let (b, a) = tokio::join!(step(&cx, "b"), step(&cx, "a"));
                (a, b)
            };
            let c = step(&cx, "c").await?;
            if cx.attempt() < 4 {
                anyhow::bail!("again");
            }
            anyhow::Ok(format!("{}{}{c}", a?, b?))
        };
        let job = submit(t.client()).await;
        t.run_due(Worker::new(t.client()).handle(both).crash_at(CrashPoint::AfterStep(crash.into()))).await;
        run(t, both).await;
        t.assert_completed(&job, "ABC").await;
        for name in ["a", "b"] {
            let times = t.steps(job.id()).iter().filter(|call| call.step == name).count();
            assert!(times >= 4, "{name} was called {times} times");
        }
        t.assert_ran(job.id(), crash, 1);
        t.assert_ran(job.id(), "c", 1);
    }
}

/// Model: step-identity
async fn a_branch_that_takes_its_time_is_waited_for(t: &TestClient) {
    let slow_and_quick = |_: Greet, cx: Cx| async move {
        let (a, b) = if cx.attempt() == 1 { (0, 9) } else { (9, 0) };
        let saved = Notify::new();
        let first = async {
            turns(a).await;
            let value = step(&cx, "a").await;
            saved.notify_one();
            value
        };
        let second = async {
            turns(b).await;
            if cx.attempt() == 1 {
                // The first attempt ends before this step, with `a` saved and without having met anything beside it.
                saved.notified().await;
                anyhow::bail!("not yet");
            }
            step(&cx, "b").await
        };
        let (a, b) = tokio::try_join!(first, second)?;
        anyhow::Ok(format!("{a}{b}"))
    };
    let job = submit(t.client()).await;
    run(t, slow_and_quick).await;
    t.assert_completed(&job, "AB").await;
    t.assert_ran(job.id(), "a", 1);
    t.assert_replayed(job.id(), "a", 1);
}

/// Model: step-identity
async fn branches_of_several_steps_replay_from_any_point(t: &TestClient) {
    let branches = |_: Greet, cx: Cx| async move {
        let left = async {
            turns(usize::try_from(cx.attempt() % 3)?).await;
            anyhow::Ok(format!("{}{}", step(&cx, "a").await?, step(&cx, "b").await?))
        };
        let right = async {
            turns(usize::try_from((cx.attempt() + 1) % 3)?).await;
            anyhow::Ok(format!("{}{}", step(&cx, "c").await?, step(&cx, "d").await?))
        };
        let (left, right) = tokio::try_join!(left, right)?;
        anyhow::Ok(format!("{left}{right}{}", step(&cx, "e").await?))
    };
    for name in ["a", "b", "c", "d", "e"] {
        for point in [CrashPoint::BeforeStep(name.into()), CrashPoint::AfterStep(name.into())] {
            let job = submit(t.client()).await;
            t.run_due(Worker::new(t.client()).handle(branches).crash_at(point.clone())).await;
            run(t, branches).await;
            t.assert_completed(&job, "ABCDE").await;
        }
    }
}

/// Model: step-identity
async fn tasks_of_their_own_may_call_steps_in_any_order(t: &TestClient) {
    let in_turn = |_: Greet, cx: Cx| async move {
        for name in ["a", "b"] {
            let cx = cx.clone();
            tokio::spawn(async move { step(&cx, name).await }).await??;
        }
        Err::<String, _>(anyhow::anyhow!("again"))
    };
    let job = submit(t.client()).await;
    t.run_due(Worker::new(t.client()).handle(in_turn)).await;
    let other_way_round = |_: Greet, cx: Cx| async move {
        let (second, first) = (cx.clone(), cx.clone());
        let second = tokio::spawn(async move { step(&second, "b").await });
        turns(3).await;
        let first = tokio::spawn(async move { step(&first, "a").await });
        anyhow::Ok(format!("{}{}", first.await??, second.await??))
    };
    run(t, other_way_round).await;
    t.assert_completed(&job, "AB").await;
}

/// Model: step-identity
async fn a_task_that_is_not_awaited_yet_is_waited_for(t: &TestClient) {
    let early = |_: Greet, cx: Cx| async move {
        step(&cx, "a").await?;
        Err::<String, _>(anyhow::anyhow!("again"))
    };
    let late = |_: Greet, cx: Cx| async move {
        let own = cx.clone();
        let task = tokio::spawn(async move {
            turns(9).await;
            step(&own, "a").await
        });
        let b = step(&cx, "b").await?;
        anyhow::Ok(format!("{}{b}", task.await??))
    };
    let job = submit(t.client()).await;
    t.run_due(Worker::new(t.client()).handle(early)).await;
    run(t, late).await;
    t.assert_completed(&job, "AB").await;
    t.assert_ran(job.id(), "a", 1);
}

/// Model: steps, step-identity
async fn a_step_that_failed_before_another_was_saved_runs_again(t: &TestClient) {
    let forgiving = |_: Greet, cx: Cx| async move {
        let flaky = cx.step("flaky", async {
            if cx.attempt() < 3 { Err(anyhow::anyhow!("not yet")) } else { Ok("well".to_owned()) }
        });
        let flaky = flaky.await;
        let next = step(&cx, "next").await?;
        anyhow::Ok(format!("{} {next}", flaky?))
    };
    let job = submit(t.client()).await;
    run(t, forgiving).await;
    t.assert_completed(&job, "well NEXT").await;
    t.assert_ran(job.id(), "flaky", 3);
    t.assert_ran(job.id(), "next", 1);
}

/// Model: step-identity
async fn every_try_within_a_handler_replays_as_it_was(t: &TestClient) {
    let stubborn = |_: Greet, cx: Cx| async move {
        let mut tries = 0;
        let outcome = loop {
            tries += 1;
            let work = async { if tries < 3 { Err(anyhow::anyhow!("no")) } else { Ok(tries) } };
            if let Ok(outcome) = cx.step("try", work).await {
                break outcome;
            }
        };
        let next = step(&cx, "next").await?;
        let again = cx.step("try", async { anyhow::Ok(outcome + 10) }).await?;
        anyhow::ensure!(cx.attempt() > 1, "once more");
        let new = step(&cx, "new").await?;
        anyhow::Ok(format!("{outcome} {next} {again} {new} {tries}"))
    };
    let job = submit(t.client()).await;
    run(t, stubborn).await;
    t.assert_completed(&job, "3 NEXT 13 NEW 3").await;
    t.assert_ran(job.id(), "try", 1);
    t.assert_replayed(job.id(), "try#3", 1);
    t.assert_replayed(job.id(), "try#4", 1);
}

/// Model: step-identity
async fn a_step_given_up_half_way_stays_given_up(t: &TestClient) {
    let impatient = |_: Greet, cx: Cx| async move {
        let never = cx.step("ask", std::future::pending::<anyhow::Result<u32>>());
        tokio::select! {
            biased;
            _ = never => {}
            () = turns(2) => {}
        }
        let asked = cx.step("ask", async { anyhow::Ok(7) }).await?;
        anyhow::ensure!(cx.attempt() > 1, "once more");
        anyhow::Ok(asked.to_string())
    };
    let job = submit(t.client()).await;
    t.run_due(Worker::new(t.client()).handle(impatient)).await;
    let saved = t.client().api().checkpoints(t.client().caller(), job.id()).await.unwrap().unwrap();
    assert_eq!(saved.iter().map(|saved| &*saved.step).collect::<Vec<_>>(), ["ask", "ask#2"]);
    t.advance(secs(5)).await;
    t.run_due(Worker::new(t.client()).handle(impatient)).await;
    t.assert_completed(&job, "7").await;
    t.assert_ran(job.id(), "ask", 1);
}

/// Two steps beside each other, then one alone; the first attempt dies after that.
async fn forked(_: Greet, cx: Cx) -> anyhow::Result<String> {
    let (a, b) = tokio::try_join!(step(&cx, "a"), step(&cx, "b"))?;
    Ok(format!("{a}{b}{}", step(&cx, "c").await?))
}

async fn half_done(t: &TestClient) -> Handle<Greet> {
    let job = submit(t.client()).await;
    t.run_due(Worker::new(t.client()).handle(forked).crash_at(CrashPoint::AfterStep("c".into()))).await;
    t.advance(secs(40)).await;
    job
}

/// Model: step-identity
async fn changed_code_is_found_beside_steps_that_ran_concurrently(t: &TestClient) {
    let renamed = |_: Greet, cx: Cx| async move {
        let (a, b) = tokio::try_join!(step(&cx, "a"), step(&cx, "b"))?;
        anyhow::Ok(format!("{a}{b}{}", step(&cx, "pay").await?))
    };
    let job = half_done(t).await;
    t.run_due(Worker::new(t.client()).handle(renamed)).await;
    t.assert_state(job.id(), JobState::Failed).await;
    t.assert_failed(job.id(), "steps_changed").await;
    t.assert_ran(job.id(), "pay", 0);
    let error = t.job(job.id()).await.job.details.error.clone().unwrap();
    assert!(error.message.contains("`pay`") && error.message.contains("`c`"), "{}", error.message);
}

/// Model: step-identity
async fn a_step_that_was_moved_or_removed_is_changed_code(t: &TestClient) {
    let before = |_: Greet, cx: Cx| async move {
        for name in ["a", "b", "c"] {
            step(&cx, name).await?;
        }
        anyhow::ensure!(cx.attempt() > 1, "once more");
        anyhow::Ok(String::new())
    };
    for names in [["b", "a"], ["b", "c"], ["a", "c"], ["new", "a"]] {
        let after = move |_: Greet, cx: Cx| async move {
            for name in names {
                step(&cx, name).await?;
            }
            anyhow::Ok(String::new())
        };
        let job = submit(t.client()).await;
        t.run_due(Worker::new(t.client()).handle(before)).await;
        t.advance(secs(1)).await;
        t.run_due(Worker::new(t.client()).handle(after)).await;
        t.assert_state(job.id(), JobState::Failed).await;
        t.assert_failed(job.id(), "steps_changed").await;
        t.assert_ran(job.id(), "new", 0);
    }
}

/// Model: steps, step-identity
async fn hundreds_of_concurrent_steps_replay(t: &TestClient) {
    let wide = |job: Fill, cx: Cx| async move {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..job.bytes {
            let cx = cx.clone();
            tasks.spawn(async move { step(&cx, &format!("page-{number}")).await });
        }
        let mut done = 0;
        while let Some(page) = tasks.join_next().await {
            page??;
            done += 1;
            // The first attempt dies with some pages done, whichever they are.
            anyhow::ensure!(cx.attempt() > 1 || done < job.bytes / 2, "half way");
        }
        anyhow::Ok(done.to_string())
    };
    let job = t.client().submit(Fill { bytes: 300 }).await.unwrap();
    t.run_for(secs(60), || Worker::new(t.client()).handle(wide)).await;
    t.assert_completed(&job, "300").await;
}

/// Model: step-identity
#[tokio::test(start_paused = true)]
async fn a_step_whose_turn_does_not_come_in_a_busy_handler_runs() {
    let bench = Bench::in_virtual_time();
    let busy = |_: Greet, cx: Cx| async move {
        if cx.attempt() == 1 {
            step(&cx, "a").await?;
            return Err(Failure::temporary("again").into());
        }
        let clock = tokio::time::sleep(Duration::from_secs(3600));
        tokio::select! {
            biased;
            b = step(&cx, "b") => b,
            () = clock => Ok("never".into()),
        }
    };
    let job = submit(&bench.client).await;
    let running = Started::new(bench.worker().handle(busy));
    assert_eq!(job.result(secs(600)).await.unwrap(), "B");
    running.stop().await;
}

/// Model: step-identity
#[tokio::test(start_paused = true)]
async fn steps_behind_a_semaphore_may_come_in_any_order() {
    let bench = Bench::in_virtual_time();
    let behind = |_: Greet, cx: Cx| async move {
        let one_at_a_time = tokio::sync::Semaphore::new(1);
        let branch = |name: &'static str, delay: usize| {
            let (cx, one_at_a_time) = (&cx, &one_at_a_time);
            async move {
                turns(delay).await;
                let _permit = one_at_a_time.acquire().await?;
                step(cx, name).await
            }
        };
        let is_odd = usize::from(cx.attempt() % 2 == 1);
        let (a, b) = tokio::try_join!(branch("a", 9 * (1 - is_odd)), branch("b", 9 * is_odd))?;
        anyhow::ensure!(cx.attempt() > 3, "again");
        let c = step(&cx, "c").await?;
        anyhow::Ok(format!("{a}{b}{c}"))
    };
    let job = submit(&bench.client).await;
    let running = Started::new(bench.worker().handle(behind));
    assert_eq!(job.result(secs(600)).await.unwrap(), "ABC");
    assert_eq!(bench.job(job.id()).await.job.attempt, 4);
    running.stop().await;
}
