//! Steps within steps, and sides of a race with several steps: each call is known by where it is made, so a replay that
//! does not make it shifts no other (Model: step-identity).

use windlass::client::Handle;
use windlass::context::{Cx, First};
use windlass::job::{GroupStrategy, RetryPolicy};
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use crate::fixture::secs;
use crate::worker::harness::step_by_step_on_every_engine;
use crate::worker::job_types::{Fill, Greet, greet};

step_by_step_on_every_engine!(
    a_step_within_a_step_in_a_loop_keeps_its_value,
    a_step_after_a_step_of_the_same_name_within_another_keeps_its_value,
    waits_within_a_step_are_not_those_after_it,
    an_error_within_a_step_that_fails_the_attempt_is_tried_again,
    an_error_within_a_step_that_was_dealt_with_stays,
    sides_of_a_race_in_a_loop_keep_their_values,
    a_call_after_a_race_is_not_one_of_its_left_side,
    a_new_step_after_one_with_steps_within_is_noticed,
);

async fn submit(t: &TestClient) -> Handle<Greet> {
    t.client().submit(greet("x")).retry(RetryPolicy::fixed().attempts(10)).await.unwrap()
}

async fn run<H, Args: 'static>(t: &TestClient, handler: H) -> usize
where
    H: windlass::handler::Handler<Greet, Args>,
{
    t.run_for(secs(600), || Worker::new(t.client()).handle(handler.clone())).await
}

async fn value(cx: &Cx, name: &str, value: impl Into<String>) -> anyhow::Result<String> {
    let value = value.into();
    cx.step(name, async { anyhow::Ok(value) }).await
}

async fn turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

/// Model: steps, step-identity
async fn a_step_within_a_step_in_a_loop_keeps_its_value(t: &TestClient) {
    let batches = |_: Greet, cx: Cx| async move {
        let mut batches = Vec::new();
        for number in 0..3 {
            let batch = cx.step("batch", async {
                anyhow::ensure!(number < 2 || cx.failures() > 0, "the attempt ends here");
                value(&cx, "item", format!("item{number}")).await
            });
            batches.push(batch.await?);
        }
        anyhow::Ok(batches.join(","))
    };
    let crash = |point| Worker::new(t.client()).handle(batches).crash_at(point);
    for point in
        [None, Some(CrashPoint::AfterStep("batch".into())), Some(CrashPoint::AfterStep("item".into()))]
    {
        let job = submit(t).await;
        if let Some(point) = point {
            for _ in 0..2 {
                t.run_due(crash(point.clone())).await;
                t.advance(secs(40)).await;
            }
        }
        run(t, batches).await;
        t.assert_completed(&job, "item0,item1,item2").await;
    }
}

/// Model: steps, step-identity
async fn a_step_after_a_step_of_the_same_name_within_another_keeps_its_value(t: &TestClient) {
    let twice = |_: Greet, cx: Cx| async move {
        let first = cx.step("outer", value(&cx, "http", "first")).await?;
        let second = value(&cx, "http", "second").await?;
        anyhow::ensure!(cx.attempt() > 1, "again");
        anyhow::Ok(format!("{first},{second}"))
    };
    let job = submit(t).await;
    run(t, twice).await;
    t.assert_completed(&job, "first,second").await;
    t.assert_ran(job.id(), "outer#/http", 1);
    t.assert_ran(job.id(), "http", 1);
    t.assert_replayed(job.id(), "http", 1);
}

/// Model: child-groups, step-identity, sleeps-and-signals
async fn waits_within_a_step_are_not_those_after_it(t: &TestClient) {
    let patient = |_: Greet, cx: Cx| async move {
        let outer = cx.step("outer", async {
            cx.sleep(secs(60)).await?;
            let received: Option<u32> = cx.wait_signal("word", None).await?;
            let child = cx.spawn_all([Fill { bytes: 1 }], GroupStrategy::CollectAll).await?.all()?;
            anyhow::Ok(format!("{received:?} {child:?}"))
        });
        let outer = outer.await?;
        cx.sleep(secs(60)).await?;
        let received: Option<u32> = cx.wait_signal("word", None).await?;
        let child = cx.spawn_all([Fill { bytes: 2 }], GroupStrategy::CollectAll).await?.all()?;
        let last = value(&cx, "last", "z").await?;
        anyhow::ensure!(cx.failures() > 0, "again");
        anyhow::Ok(format!("{outer}; {received:?} {child:?} {last}"))
    };
    let child = |job: Fill| async move { anyhow::Ok(job.bytes.to_string()) };
    let job = submit(t).await;
    for word in [1, 2] {
        job.signal("word", &word).await.unwrap();
    }
    t.run_for(secs(600), || Worker::new(t.client()).handle(patient).handle(child)).await;
    t.assert_completed(&job, "Some(1) [\"1\"]; Some(2) [\"2\"] z").await;
}

/// Model: steps
async fn an_error_within_a_step_that_fails_the_attempt_is_tried_again(t: &TestClient) {
    let careful = |_: Greet, cx: Cx| async move {
        let outer = cx.step("outer", async {
            let inner = cx.step("inner", async {
                if cx.attempt() == 1 { Err(anyhow::anyhow!("not yet")) } else { Ok("well".to_owned()) }
            });
            let inner = inner.await;
            // The error is saved with this one, and returned nevertheless.
            value(&cx, "after", "a").await?;
            inner
        });
        match outer.await {
            Ok(outer) => Ok(outer),
            Err(error) => {
                value(&cx, "notify", "n").await?;
                Err(error)
            }
        }
    };
    let job = submit(t).await;
    run(t, careful).await;
    t.assert_completed(&job, "well").await;
    t.assert_ran(job.id(), "outer#/inner", 2);
    t.assert_ran(job.id(), "outer#/after", 1);
    t.assert_ran(job.id(), "notify", 1);
}

/// Model: steps
async fn an_error_within_a_step_that_was_dealt_with_stays(t: &TestClient) {
    let forgiving = |_: Greet, cx: Cx| async move {
        let outer = cx.step("outer", async {
            let primary = cx.step("primary", async {
                if cx.attempt() == 1 { Err(anyhow::anyhow!("down")) } else { Ok("primary".to_owned()) }
            });
            let from = match primary.await {
                Ok(from) => from,
                Err(_) => value(&cx, "fallback", "fallback").await?,
            };
            anyhow::ensure!(cx.attempt() > 1, "again");
            anyhow::Ok(from)
        });
        outer.await
    };
    let job = submit(t).await;
    run(t, forgiving).await;
    t.assert_completed(&job, "fallback").await;
    t.assert_ran(job.id(), "outer#/primary", 1);
}

/// Model: step-identity
async fn sides_of_a_race_in_a_loop_keep_their_values(t: &TestClient) {
    let pages = |_: Greet, cx: Cx| async move {
        let mut pages = Vec::new();
        for number in 0..2 {
            let has_stored = tokio::sync::Notify::new();
            let left = async {
                let fetched = value(&cx, "fetch", format!("fetch{number}")).await?;
                turns(3).await;
                let stored = value(&cx, "store", format!("store{number}")).await?;
                has_stored.notify_one();
                if number == 0 {
                    std::future::pending::<()>().await;
                }
                anyhow::Ok(format!("{fetched}+{stored}"))
            };
            let right = cx.step("limit", async {
                has_stored.notified().await;
                turns(30).await;
                anyhow::Ok(0)
            });
            pages.push(match cx.race(left, right).await {
                First::Left(page) => page?,
                First::Right(_) => "late".to_owned(),
            });
        }
        value(&cx, "end", "end").await?;
        anyhow::ensure!(cx.attempt() > 2, "again");
        anyhow::Ok(pages.join(","))
    };
    let job = submit(t).await;
    run(t, pages).await;
    t.assert_completed(&job, "late,fetch1+store1").await;
}

/// Model: step-identity
async fn a_call_after_a_race_is_not_one_of_its_left_side(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let has_b = tokio::sync::Notify::new();
        let left = async {
            value(&cx, "a", "a").await?;
            turns(3).await;
            value(&cx, "b", "of the race").await?;
            has_b.notify_one();
            std::future::pending::<anyhow::Result<()>>().await
        };
        let right = cx.step("r", async {
            has_b.notified().await;
            anyhow::Ok(())
        });
        let first = matches!(cx.race(left, right).await, First::Right(_));
        let after = value(&cx, "b", "after it").await?;
        anyhow::ensure!(cx.attempt() > 1, "again");
        anyhow::Ok(format!("{first} {after}"))
    };
    let job = submit(t).await;
    run(t, handler).await;
    t.assert_completed(&job, "true after it").await;
}

/// Model: step-identity. Steps within a step do not run beside it, so the order of those outside is known.
async fn a_new_step_after_one_with_steps_within_is_noticed(t: &TestClient) {
    let outer = |cx: Cx| async move { cx.step("outer", value(&cx, "inner", "i")).await };
    let before = move |_: Greet, cx: Cx| async move {
        outer(cx.clone()).await?;
        value(&cx, "last", "z").await?;
        Err::<String, _>(anyhow::anyhow!("again"))
    };
    let after = move |_: Greet, cx: Cx| async move {
        value(&cx, "new", "n").await?;
        outer(cx.clone()).await?;
        value(&cx, "last", "z").await
    };
    let job = submit(t).await;
    t.run_due(Worker::new(t.client()).handle(before)).await;
    t.advance(secs(1)).await;
    t.run_due(Worker::new(t.client()).handle(after)).await;
    t.assert_failed(job.id(), "steps_changed").await;
    t.assert_ran(job.id(), "new", 0);
}
