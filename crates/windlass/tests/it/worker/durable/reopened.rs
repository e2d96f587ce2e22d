//! Which steps run again when an attempt fails: those whose error it fails with, and no others (Model: steps).

use windlass::client::Handle;
use windlass::context::Cx;
use windlass::handler::Snooze;
use windlass::job::{AttemptOutcome, RetryPolicy};
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use crate::fixture::secs;
use crate::worker::harness::{outcomes, step_by_step_on_every_engine};
use crate::worker::job_types::{Greet, greet};

step_by_step_on_every_engine!(
    a_joined_step_whose_error_is_returned_after_compensation_runs_again,
    a_step_beside_one_that_failed_is_not_left_out_for_good,
    a_joined_step_whose_error_becomes_text_runs_again,
    an_error_that_was_dealt_with_stays_whatever_another_says,
    an_error_that_became_text_before_compensation_is_tried_again,
    errors_that_were_collected_are_tried_again_if_asked_for,
    asking_for_a_retry_changes_nothing_if_the_attempt_succeeds,
    a_snooze_replays_as_a_snooze,
);

async fn submit(t: &TestClient) -> Handle<Greet> {
    t.client().submit(greet("x")).retry(RetryPolicy::fixed().attempts(8)).await.unwrap()
}

async fn run<H, Args: 'static>(t: &TestClient, handler: H) -> usize
where
    H: windlass::handler::Handler<Greet, Args>,
{
    t.run_for(secs(600), || Worker::new(t.client()).handle(handler.clone())).await
}

async fn value(cx: &Cx, name: &str) -> anyhow::Result<String> {
    cx.step(name, async { anyhow::Ok(name.to_owned()) }).await
}

/// Fails in the first attempt with this text.
async fn flaky(cx: &Cx, name: &str, text: &'static str) -> anyhow::Result<String> {
    let work = async {
        tokio::task::yield_now().await;
        if cx.attempt() == 1 { Err(anyhow::anyhow!(text)) } else { Ok(name.to_owned()) }
    };
    cx.step(name, work).await
}

/// Model: steps, step-identity
async fn a_joined_step_whose_error_is_returned_after_compensation_runs_again(t: &TestClient) {
    let careful = |_: Greet, cx: Cx| async move {
        let (a, b) = tokio::join!(flaky(&cx, "a", "a is down"), value(&cx, "b"));
        let a = match a {
            Ok(a) => a,
            Err(error) => {
                value(&cx, "notify").await?;
                return Err(error);
            }
        };
        let c = value(&cx, "c").await?;
        anyhow::ensure!(cx.attempt() > 3, "again");
        anyhow::Ok(format!("{a}{}{c}", b?))
    };
    let job = submit(t).await;
    run(t, careful).await;
    t.assert_completed(&job, "abc").await;
    t.assert_ran(job.id(), "a", 2);
    for name in ["b", "c", "notify"] {
        t.assert_ran(job.id(), name, 1);
    }
}

/// Model: steps, step-identity
async fn a_step_beside_one_that_failed_is_not_left_out_for_good(t: &TestClient) {
    let careful = |_: Greet, cx: Cx| async move {
        let slow = cx.step("b", async {
            if cx.attempt() == 1 {
                std::future::pending::<()>().await;
            }
            anyhow::Ok("b".to_owned())
        });
        let both = tokio::try_join!(flaky(&cx, "a", "a is down"), slow);
        let (a, b) = match both {
            Ok(both) => both,
            Err(error) => {
                value(&cx, "notify").await?;
                return Err(error);
            }
        };
        let c = value(&cx, "c").await?;
        anyhow::ensure!(cx.attempt() > 3, "again");
        anyhow::Ok(format!("{a}{b}{c}"))
    };
    let crash = || Worker::new(t.client()).handle(careful).crash_at(CrashPoint::AfterStep("notify".into()));
    for has_crash in [false, true] {
        let job = submit(t).await;
        if has_crash {
            t.run_due(crash()).await;
            t.advance(secs(40)).await;
        }
        run(t, careful).await;
        t.assert_completed(&job, "abc").await;
        let names: Vec<String> = t.steps(job.id()).into_iter().map(|call| call.step).collect();
        assert!(names.iter().all(|name| !name.contains('#')), "{names:?}");
    }
}

/// Model: steps, step-identity
async fn a_joined_step_whose_error_becomes_text_runs_again(t: &TestClient) {
    let saga = |_: Greet, cx: Cx| async move {
        let (hotel, flight) = tokio::join!(value(&cx, "hotel"), flaky(&cx, "flight", "sold out"));
        if let Err(error) = &flight {
            value(&cx, "undo").await?;
            anyhow::bail!("trip: {error}");
        }
        anyhow::Ok(format!("{} {}", hotel?, flight?))
    };
    let job = submit(t).await;
    run(t, saga).await;
    t.assert_completed(&job, "hotel flight").await;
    t.assert_ran(job.id(), "flight", 2);
}

/// Model: steps
async fn an_error_that_was_dealt_with_stays_whatever_another_says(t: &TestClient) {
    let order = |_: Greet, cx: Cx| async move {
        let from = match flaky(&cx, "primary", "connection refused").await {
            Ok(from) => from,
            Err(_) => value(&cx, "fallback").await?,
        };
        let shipped = flaky(&cx, "ship", "connection refused").await?;
        anyhow::Ok(format!("{from} {shipped}"))
    };
    let job = submit(t).await;
    run(t, order).await;
    t.assert_completed(&job, "fallback ship").await;
    t.assert_ran(job.id(), "primary", 1);
    t.assert_ran(job.id(), "ship", 2);
}

/// Model: steps
async fn an_error_that_became_text_before_compensation_is_tried_again(t: &TestClient) {
    let typed = |_: Greet, cx: Cx| async move {
        let charged = flaky(&cx, "charge", "no funds").await.map_err(|error| error.to_string());
        match charged {
            Ok(charged) => anyhow::Ok(charged),
            Err(text) => {
                value(&cx, "notify").await?;
                anyhow::bail!("charging: {text}")
            }
        }
    };
    let job = submit(t).await;
    run(t, typed).await;
    t.assert_completed(&job, "charge").await;
    t.assert_ran(job.id(), "charge", 2);
    t.assert_ran(job.id(), "notify", 1);
}

/// Three pages, of which the second fails in the first attempt.
async fn pages(cx: &Cx) -> (Vec<String>, Vec<anyhow::Error>) {
    let (mut pages, mut errors) = (Vec::new(), Vec::new());
    for number in 0..3 {
        let work = async {
            if cx.attempt() == 1 && number == 1 {
                Err(anyhow::anyhow!("page is down"))
            } else {
                Ok(number.to_string())
            }
        };
        match cx.step("page", work).await {
            Ok(page) => pages.push(page),
            Err(error) => errors.push(error),
        }
    }
    (pages, errors)
}

/// Model: steps
async fn errors_that_were_collected_are_tried_again_if_asked_for(t: &TestClient) {
    let collecting = |_: Greet, cx: Cx| async move {
        let (pages, errors) = pages(&cx).await;
        for error in &errors {
            cx.retry_later(error);
        }
        anyhow::ensure!(errors.is_empty(), "{} pages failed", errors.len());
        anyhow::Ok(pages.join(" "))
    };
    let job = submit(t).await;
    run(t, collecting).await;
    t.assert_completed(&job, "0 1 2").await;
    t.assert_ran(job.id(), "page", 1);
    t.assert_ran(job.id(), "page#2", 2);
}

/// Model: steps
async fn asking_for_a_retry_changes_nothing_if_the_attempt_succeeds(t: &TestClient) {
    let lenient = |_: Greet, cx: Cx| async move {
        let (pages, errors) = pages(&cx).await;
        for error in &errors {
            cx.retry_later(error);
        }
        // Another error has no effect.
        cx.retry_later(&anyhow::anyhow!("another"));
        anyhow::Ok(format!("{} and {} failed", pages.join(" "), errors.len()))
    };
    let job = submit(t).await;
    t.run_due(Worker::new(t.client()).handle(lenient).crash_at(CrashPoint::BeforeFinish)).await;
    run(t, lenient).await;
    t.assert_completed(&job, "0 2 and 1 failed").await;
    t.assert_ran(job.id(), "page#2", 1);
}

/// Model: counters-and-fences, steps
async fn a_snooze_replays_as_a_snooze(t: &TestClient) {
    let polling = |_: Greet, cx: Cx| async move {
        let work = async {
            if cx.attempt() == 1 { Err(anyhow::Error::from(Snooze(secs(60)))) } else { Ok("polled") }
        };
        let polled: anyhow::Result<String> = cx.step("poll", async { work.await.map(str::to_owned) }).await;
        if let Err(error) = polled {
            value(&cx, "seen").await?;
            anyhow::ensure!(
                error.downcast_ref::<Snooze>() == Some(&Snooze(secs(60))),
                "not a snooze: {error:?}"
            );
            return Err(error);
        }
        polled
    };
    let job = submit(t).await;
    // The worker dies between the next step and the end, so that the second attempt replays the snooze.
    t.run_due(Worker::new(t.client()).handle(polling).crash_at(CrashPoint::AfterStep("seen".into()))).await;
    run(t, polling).await;
    t.assert_completed(&job, "polled").await;
    t.assert_ran(job.id(), "poll", 2);
    let ended = outcomes(t.client(), job.id()).await;
    assert!(ended.contains(&AttemptOutcome::Parked), "{ended:?}");
    assert!(!ended.contains(&AttemptOutcome::Failed), "{ended:?}");
}
