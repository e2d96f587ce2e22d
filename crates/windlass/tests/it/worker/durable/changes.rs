//! Changed code under running jobs: sleeps and groups are known by more than their number, and names keep signals apart.

use std::time::Duration;

use windlass::client::{Handle, JobBuilder};
use windlass::context::{Cx, First};
use windlass::job::{GroupStrategy, JobState, RetryPolicy};
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use crate::fixture::secs;
use crate::worker::harness::{Bench, Started, step_by_step_on_every_engine};
use crate::worker::job_types::{Add, Fill, Greet, greet};

step_by_step_on_every_engine!(
    a_removed_sleep_is_changed_code,
    a_sleep_that_counts_down_to_a_moment_is_the_same_sleep,
    a_named_sleep_may_vary,
    a_removed_group_is_changed_code,
    a_named_group_finds_its_children,
    a_new_step_before_a_saved_one_is_found_after_tries,
    signals_whose_names_have_numbers_are_kept_apart,
    the_first_of_several_signals_wakes,
    waits_in_a_select_are_all_waited_for,
    a_group_and_a_sleep_wait_beside_each_other,
    a_long_name_is_refused_before_the_work,
    children_behind_a_unique_key_say_so,
);

async fn submit(t: &TestClient) -> Handle<Greet> {
    t.client().submit(greet("x")).retry(RetryPolicy::fixed().attempts(10)).await.unwrap()
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Model: step-identity
async fn a_removed_sleep_is_changed_code(t: &TestClient) {
    let before = |_: Greet, cx: Cx| async move {
        cx.sleep(secs(60)).await?;
        cx.sleep(DAY).await?;
        anyhow::Ok(String::new())
    };
    let after = |_: Greet, cx: Cx| async move {
        cx.sleep(DAY).await?;
        anyhow::Ok(String::new())
    };
    let only_steps = |_: Greet, cx: Cx| async move {
        cx.step("a", async { anyhow::Ok(()) }).await?;
        anyhow::Ok(String::new())
    };
    let (job, other) = (submit(t).await, submit(t).await);
    t.run_due(Worker::new(t.client()).handle(before)).await;
    t.advance(secs(60)).await;
    t.run_due(Worker::new(t.client()).queue("default", 1).handle(after)).await;
    t.assert_failed(job.id(), "steps_changed").await;
    t.assert_failed(other.id(), "steps_changed").await;
    let job = submit(t).await;
    t.run_due(Worker::new(t.client()).handle(before)).await;
    t.advance(secs(60)).await;
    t.run_due(Worker::new(t.client()).handle(only_steps)).await;
    t.assert_failed(job.id(), "steps_changed").await;
    t.assert_ran(job.id(), "a", 0);
}

/// Model: sleeps-and-signals
async fn a_sleep_that_counts_down_to_a_moment_is_the_same_sleep(t: &TestClient) {
    let end = t.now().plus(secs(3600));
    let until = move |_: Greet, cx: Cx| async move {
        let now = cx.client().api().environment().clock.now();
        let steps = async {
            cx.step("first", async { anyhow::Ok(()) }).await?;
            cx.step("second", async { anyhow::Ok(()) }).await
        };
        let (slept, worked) = tokio::join!(cx.sleep(end.since(now)), steps);
        slept.and(worked)?;
        anyhow::Ok("awake".to_owned())
    };
    let job = submit(t).await;
    // It dies when the end of the sleep was saved with the first step.
    let dying = Worker::new(t.client()).handle(until).crash_at(CrashPoint::BeforeStep("second".into()));
    t.run_due(dying).await;
    t.advance(secs(1800)).await;
    t.run_due(Worker::new(t.client()).handle(until)).await;
    t.assert_state(job.id(), JobState::Waiting).await;
    t.advance(secs(7200)).await;
    t.run_due(Worker::new(t.client()).handle(until)).await;
    t.assert_completed(&job, "awake").await;
}

/// Model: step-identity, sleeps-and-signals
async fn a_named_sleep_may_vary(t: &TestClient) {
    let varying = |_: Greet, cx: Cx| async move {
        cx.sleep_named("pause", secs(u64::from(cx.attempt()) * 10)).await?;
        cx.sleep_named("break", secs(u64::from(cx.attempt()) * 10)).await?;
        anyhow::Ok("awake".to_owned())
    };
    let job = submit(t).await;
    t.run_for(secs(100), || Worker::new(t.client()).handle(varying)).await;
    t.assert_completed(&job, "awake").await;
}

async fn greeted(job: Greet) -> anyhow::Result<String> {
    Ok(job.name)
}

async fn filled(job: Fill) -> anyhow::Result<String> {
    Ok(job.bytes.to_string())
}

/// Model: child-groups, step-identity
async fn a_removed_group_is_changed_code(t: &TestClient) {
    let before = |_: Add, cx: Cx| async move {
        let names = cx.spawn_all(["a", "b"].map(greet), GroupStrategy::FailFast).await?.all()?;
        cx.spawn_all([1, 2, 3].map(|bytes| Fill { bytes }), GroupStrategy::FailFast).await?.all()?;
        anyhow::Ok(names.len() as u64)
    };
    let after = |_: Add, cx: Cx| async move {
        let sizes = cx.spawn_all([1, 2, 3].map(|bytes| Fill { bytes }), GroupStrategy::FailFast).await?;
        anyhow::Ok(sizes.all()?.len() as u64)
    };
    let job = t.client().submit(Add { numbers: vec![] }).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(before)).await;
    t.assert_state(job.id(), JobState::Waiting).await;
    t.run_due(Worker::new(t.client()).handle(after).handle(greeted).handle(filled)).await;
    t.assert_failed(job.id(), "steps_changed").await;
}

/// Model: child-groups, step-identity
async fn a_named_group_finds_its_children(t: &TestClient) {
    let named = |_: Add, cx: Cx| async move {
        // The first attempt asks for fewer, and its children stay.
        let count = usize::try_from(cx.attempt())?;
        let children = (0..count).map(|bytes| Fill { bytes });
        let sizes = cx.spawn_all_named("sizes", children, GroupStrategy::FailFast).await?.all()?;
        anyhow::Ok(sizes.len() as u64)
    };
    let job = t.client().submit(Add { numbers: vec![] }).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(named).handle(filled)).await;
    t.assert_completed(&job, 1).await;
}

/// Model: step-identity
async fn a_new_step_before_a_saved_one_is_found_after_tries(t: &TestClient) {
    let before = |_: Greet, cx: Cx| async move {
        for number in 0..4 {
            let work = async { if number < 3 { Err(anyhow::anyhow!("no")) } else { Ok(()) } };
            let _tried = cx.step("a", work).await;
        }
        Err::<String, _>(anyhow::anyhow!("again"))
    };
    let after = |_: Greet, cx: Cx| async move {
        cx.step("x", async { anyhow::Ok(()) }).await?;
        cx.step("a", async { anyhow::Ok(()) }).await?;
        anyhow::Ok(String::new())
    };
    let job = submit(t).await;
    t.run_due(Worker::new(t.client()).handle(before)).await;
    t.advance(secs(1)).await;
    t.run_due(Worker::new(t.client()).handle(after)).await;
    t.assert_failed(job.id(), "steps_changed").await;
    t.assert_ran(job.id(), "x", 0);
}

/// Model: sleeps-and-signals
async fn signals_whose_names_have_numbers_are_kept_apart(t: &TestClient) {
    let listening = |_: Greet, cx: Cx| async move {
        let first: Option<String> = cx.wait_signal("a", None).await?;
        let hash: Option<String> = cx.wait_signal("a#2", None).await?;
        let second: Option<u32> = cx.wait_signal("a", None).await?;
        anyhow::Ok(format!("{first:?} {hash:?} {second:?}"))
    };
    let job = submit(t).await;
    job.signal("a", &"one").await.unwrap();
    job.signal("a#2", &"hash").await.unwrap();
    job.signal("a", &2).await.unwrap();
    t.run_for(secs(10), || Worker::new(t.client()).handle(listening)).await;
    t.assert_completed(&job, r#"Some("one") Some("hash") Some(2)"#).await;
}

async fn either(_: Greet, cx: Cx) -> anyhow::Result<String> {
    let mut received = Vec::new();
    while let Some((name, value)) = cx.wait_any::<u32>(&["x", "y"], Some(secs(60))).await? {
        cx.step("note", async { anyhow::Ok(()) }).await?;
        received.push(format!("{name}{value}"));
    }
    anyhow::ensure!(cx.failures() > 0, "once more");
    Ok(received.join(" "))
}

/// Model: sleeps-and-signals
async fn the_first_of_several_signals_wakes(t: &TestClient) {
    let worker = || Worker::new(t.client()).handle(either);
    let job = submit(t).await;
    job.signal("y", &1).await.unwrap();
    t.run_due(worker()).await;
    t.assert_state(job.id(), JobState::Waiting).await;
    job.signal("x", &2).await.unwrap();
    t.run_due(worker()).await;
    job.signal("y", &3).await.unwrap();
    t.run_for(secs(200), worker).await;
    t.assert_completed(&job, "y1 x2 y3").await;
}

/// Model: sleeps-and-signals
async fn waits_in_a_select_are_all_waited_for(t: &TestClient) {
    let selecting = |_: Greet, cx: Cx| async move {
        let first = tokio::select! {
            x = cx.wait_signal::<u32>("x", None) => format!("x{:?}", x?),
            y = cx.wait_signal::<u32>("y", None) => format!("y{:?}", y?),
            slept = cx.sleep(secs(600)) => { slept?; "slept".to_owned() }
        };
        cx.step("note", async { anyhow::Ok(()) }).await?;
        anyhow::Ok(first)
    };
    let jobs = t.client().submit_all((0..12).map(|_| greet("x"))).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(selecting)).await;
    for (number, job) in jobs.iter().enumerate() {
        match number % 3 {
            0 => job.signal("x", &1).await.unwrap(),
            1 => job.signal("y", &1).await.unwrap(),
            _ => {}
        }
    }
    t.run_due(Worker::new(t.client()).handle(selecting)).await;
    for (number, job) in jobs.iter().enumerate().filter(|(number, _)| number % 3 < 2) {
        t.assert_completed(job, ["xSome(1)", "ySome(1)"][number % 3]).await;
    }
    t.advance(secs(600)).await;
    t.run_due(Worker::new(t.client()).handle(selecting)).await;
    for job in jobs.iter().skip(2).step_by(3) {
        t.assert_completed(job, "slept").await;
    }
}

/// Model: child-groups, sleeps-and-signals
async fn a_group_and_a_sleep_wait_beside_each_other(t: &TestClient) {
    let slow = |_: Fill, cx: Cx| async move {
        cx.sleep(secs(600)).await?;
        anyhow::Ok("slow".to_owned())
    };
    let parent = |_: Greet, cx: Cx| async move {
        let children = cx.spawn_all([Fill { bytes: 1 }], GroupStrategy::FailFast);
        let first = match cx.race(children, cx.sleep(secs(60))).await {
            First::Left(children) => children?.all()?.concat(),
            First::Right(slept) => {
                slept?;
                "too late".to_owned()
            }
        };
        cx.step("note", async { anyhow::Ok(()) }).await?;
        cx.sleep(secs(3600)).await?;
        anyhow::Ok(first)
    };
    let late = submit(t).await;
    t.run_for(secs(7200), || Worker::new(t.client()).handle(parent).handle(slow)).await;
    t.assert_completed(&late, "too late").await;
    let quick = submit(t).await;
    t.run_for(secs(7200), || Worker::new(t.client()).handle(parent).handle(filled)).await;
    t.assert_completed(&quick, "1").await;
}

/// Model: step-identity
async fn a_long_name_is_refused_before_the_work(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        cx.step(&"x".repeat(300), async { anyhow::Ok(()) }).await?;
        anyhow::Ok(String::new())
    };
    let job = submit(t).await;
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_failed(job.id(), "not_allowed").await;
    assert!(t.steps(job.id()).is_empty());
}

/// Model: unique-key, child-groups
async fn children_behind_a_unique_key_say_so(t: &TestClient) {
    let parent = |_: Greet, cx: Cx| async move {
        let child = JobBuilder::new(&Fill { bytes: 1 }).unique("only");
        cx.spawn_all([child], GroupStrategy::FailFast).await?;
        anyhow::Ok(String::new())
    };
    let holder = t.client().submit(Fill { bytes: 1 }).unique("only").delay(DAY).await.unwrap();
    let job = submit(t).await;
    t.run_due(Worker::new(t.client()).handle(parent)).await;
    let error = t.job(job.id()).await.job.details.error.clone().unwrap();
    assert_eq!(error.code.as_deref(), Some("unique_key_taken"), "{}", error.message);
    holder.cancel().await.unwrap();
}

/// Model: sleeps-and-signals
#[tokio::test(start_paused = true)]
async fn a_step_and_a_sleep_beside_each_other_are_both_given_their_time() {
    let bench = Bench::in_virtual_time();
    let racing = |job: Fill, cx: Cx| async move {
        let work = async {
            tokio::time::sleep(Duration::from_millis(job.bytes as u64)).await;
            anyhow::Ok("worked".to_owned())
        };
        let ended = tokio::select! {
            worked = cx.step("work", work) => worked?,
            slept = cx.sleep(secs(30)) => { slept?; "slept".to_owned() }
        };
        cx.step("note", async { anyhow::Ok(()) }).await?;
        cx.sleep(secs(300)).await?;
        anyhow::Ok(ended)
    };
    let quick = bench.client.submit(Fill { bytes: 20 }).await.unwrap();
    let slow = bench.client.submit(Fill { bytes: 60_000 }).await.unwrap();
    let running = Started::new(bench.worker().handle(racing));
    assert_eq!(quick.result(secs(3600)).await.unwrap(), "worked");
    assert_eq!(slow.result(secs(3600)).await.unwrap(), "slept");
    running.stop().await;
}

/// Model: sleeps-and-signals
#[tokio::test(start_paused = true)]
async fn a_handler_that_only_listens_parks() {
    let bench = Bench::in_virtual_time();
    let listening = |_: Greet, cx: Cx| async move {
        let stop = cx.clone();
        tokio::select! {
            () = stop.cancelled() => anyhow::Ok("asked to stop".to_owned()),
            () = tokio::time::sleep(DAY) => Ok("never".to_owned()),
            slept = cx.sleep(secs(3600)) => { slept?; Ok("slept".to_owned()) }
        }
    };
    let job = bench.client.submit(greet("x")).timeout(secs(60)).await.unwrap();
    let running = Started::new(bench.worker().handle(listening));
    assert_eq!(job.result(secs(7200)).await.unwrap(), "slept");
    running.stop().await;
}
