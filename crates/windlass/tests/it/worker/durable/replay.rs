//! A replay is the first run once more: what a handler decided on errors, on steps it dropped and on values holds in
//! every later attempt.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::client::{Handle, Job};
use windlass::context::Cx;
use windlass::job::{Failure, JobState, RetryPolicy};
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use super::harness::step_by_step_on_every_engine;
use super::job_types::{Greet, greet};
use crate::fixture::secs;

step_by_step_on_every_engine!(
    a_loop_that_skips_what_failed_skips_it_again,
    a_fallback_stays_a_fallback,
    a_dropped_step_stays_dropped,
    an_error_that_fails_the_attempt_is_tried_again,
    an_error_kept_for_later_is_tried_again,
    a_caught_error_is_saved_with_the_next_step,
    an_error_before_a_sleep_is_part_of_the_history,
    values_are_the_same_in_every_attempt,
    values_of_any_shape_and_errors_of_any_kind_are_the_same_in_every_attempt,
    a_value_that_does_not_survive_json_fails_where_it_was_made,
);

async fn submit(t: &TestClient) -> Handle<Greet> {
    t.client().submit(greet("x")).retry(RetryPolicy::fixed().attempts(10)).await.unwrap()
}

async fn run<H, Args: 'static>(t: &TestClient, handler: H) -> usize
where
    H: windlass::handler::Handler<Greet, Args>,
{
    t.run_for(secs(120), || Worker::new(t.client()).handle(handler.clone())).await
}

/// Model: steps
async fn a_loop_that_skips_what_failed_skips_it_again(t: &TestClient) {
    let pages = |_: Greet, cx: Cx| async move {
        let mut pages = Vec::new();
        for number in 0..4 {
            let page = cx.step("page", async {
                if cx.attempt() == 1 && number == 1 { Err(anyhow::anyhow!("down")) } else { Ok(number) }
            });
            pages.push(page.await.map_or("skipped".to_owned(), |page| page.to_string()));
        }
        anyhow::ensure!(cx.attempt() > 2, "again");
        anyhow::Ok(pages.join(" "))
    };
    let job = submit(t).await;
    run(t, pages).await;
    t.assert_completed(&job, "0 skipped 2 3").await;
    t.assert_ran(job.id(), "page#2", 1);
}

/// Model: steps, step-identity
async fn a_fallback_stays_a_fallback(t: &TestClient) {
    let order = |_: Greet, cx: Cx| async move {
        let primary = cx.step("primary", async {
            if cx.attempt() == 1 { Err(anyhow::anyhow!("down")) } else { Ok("primary".to_owned()) }
        });
        let from = match primary.await {
            Ok(from) => from,
            Err(_) => cx.step("fallback", async { anyhow::Ok("fallback".to_owned()) }).await?,
        };
        let shipped = cx.step("ship", async { anyhow::Ok(format!("from {from}")) }).await?;
        anyhow::ensure!(cx.attempt() > 1, "again");
        anyhow::Ok(shipped)
    };
    for point in [CrashPoint::AfterStep("fallback".into()), CrashPoint::AfterStep("ship".into())] {
        let job = submit(t).await;
        t.run_due(Worker::new(t.client()).handle(order).crash_at(point)).await;
        run(t, order).await;
        t.assert_completed(&job, "from fallback").await;
        t.assert_ran(job.id(), "primary", 1);
    }
}

/// Model: steps
async fn a_dropped_step_stays_dropped(t: &TestClient) {
    let impatient = |_: Greet, cx: Cx| async move {
        let mut asked = Vec::new();
        for number in 0..3_i32 {
            let is_slow = cx.attempt() == 1 && number == 1;
            let work = async {
                if is_slow {
                    std::future::pending::<()>().await;
                }
                anyhow::Ok(number)
            };
            let wait_limit = async {
                for _ in 0..9 {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                answer = cx.step("ask", work) => asked.push(answer?),
                // Much longer than a replay takes, and shorter than the step.
                () = wait_limit, if is_slow || cx.attempt() > 1 => asked.push(-1),
            }
        }
        anyhow::ensure!(cx.attempt() > 2, "again");
        anyhow::Ok(format!("{asked:?}"))
    };
    let job = submit(t).await;
    run(t, impatient).await;
    t.assert_completed(&job, "[0, -1, 2]").await;
}

/// Model: steps
async fn an_error_that_fails_the_attempt_is_tried_again(t: &TestClient) {
    let careful = |_: Greet, cx: Cx| async move {
        let charge = cx.step("charge", async {
            if cx.attempt() < 3 { Err(anyhow::anyhow!("no funds")) } else { Ok("charged".to_owned()) }
        });
        match charge.await {
            Ok(charged) => anyhow::Ok(charged),
            Err(error) => {
                cx.step("notify", async { anyhow::Ok(()) }).await?;
                Err(error.context("charging"))
            }
        }
    };
    let job = submit(t).await;
    run(t, careful).await;
    t.assert_completed(&job, "charged").await;
    t.assert_ran(job.id(), "charge", 3);
    t.assert_ran(job.id(), "notify", 1);
}

/// Model: steps
async fn an_error_kept_for_later_is_tried_again(t: &TestClient) {
    let careful = |_: Greet, cx: Cx| async move {
        let first = cx
            .step("first", async { if cx.attempt() == 1 { Err(anyhow::anyhow!("not yet")) } else { Ok(1) } });
        let first = first.await;
        let second = cx.step("second", async { anyhow::Ok(2) }).await?;
        let first = first.map_err(|error| anyhow::anyhow!("the first failed: {error}"))?;
        let third = cx.step("third", async { anyhow::Ok(3) }).await?;
        anyhow::ensure!(cx.attempt() > 2, "once more");
        anyhow::Ok(format!("{first}{second}{third}"))
    };
    let job = submit(t).await;
    run(t, careful).await;
    t.assert_completed(&job, "123").await;
    t.assert_ran(job.id(), "first", 2);
    t.assert_ran(job.id(), "second", 1);
    t.assert_ran(job.id(), "third", 1);
}

/// Model: atomic-changes, steps
async fn a_caught_error_is_saved_with_the_next_step(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        let caught = cx.step("a", async { Err::<u32, _>(anyhow::anyhow!("no")) }).await.is_err();
        let before = cx.client().api().checkpoints(cx.client().caller(), cx.job_id()).await?;
        let saved = before.unwrap_or_default().len();
        cx.step("b", async { anyhow::Ok(()) }).await?;
        anyhow::ensure!(cx.attempt() > 1, "once more");
        anyhow::Ok(format!("{caught} {saved}"))
    };
    let job = submit(t).await;
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.advance(secs(5)).await;
    let saved = t.client().api().checkpoints(t.client().caller(), job.id()).await.unwrap().unwrap();
    assert_eq!(saved.iter().map(|saved| &*saved.step).collect::<Vec<_>>(), ["a", "b"]);
    run(t, handler).await;
    t.assert_completed(&job, "true 2").await;
    t.assert_ran(job.id(), "a", 1);
}

/// Model: steps, sleeps-and-signals
async fn an_error_before_a_sleep_is_part_of_the_history(t: &TestClient) {
    let patient = |_: Greet, cx: Cx| async move {
        let mut tries = 0;
        loop {
            tries += 1;
            let attempt = cx.attempt();
            let work = async { if attempt < 3 { Err(anyhow::anyhow!("no")) } else { Ok(attempt) } };
            match cx.step("try", work).await {
                Ok(_) => break anyhow::Ok(tries.to_string()),
                Err(_) => cx.sleep(secs(10)).await?,
            }
        }
    };
    let job = submit(t).await;
    run(t, patient).await;
    t.assert_completed(&job, "3").await;
    for step in ["try", "try#2", "try#3"] {
        t.assert_ran(job.id(), step, 1);
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Numbers(Vec<f64>);

impl Job for Numbers {
    const TYPE: &'static str = "numbers";
    type Output = Vec<f64>;
}

/// Numbers with many digits.
fn numbers() -> Vec<f64> {
    let bits = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11;
    #[allow(clippy::cast_precision_loss, reason = "53 bits are kept exactly")]
    (1..500).map(|n| bits(n) as f64 / 2.0_f64.powi(53)).collect()
}

/// Model: steps
async fn values_are_the_same_in_every_attempt(t: &TestClient) {
    let handler = |job: Numbers, cx: Cx| async move {
        // A later attempt must not make good what differs in this one.
        let check = |is_same: bool, what| is_same.then_some(()).ok_or(Failure::permanent("differs", what));
        check(job.0 == numbers(), "the payload")?;
        let saved = cx.step("numbers", async { anyhow::Ok(numbers()) }).await?;
        check(saved == numbers(), "the step")?;
        // Values that are equal in JSON are equal in the first attempt too.
        let nothing: Option<()> = cx.step("some", async { anyhow::Ok(Some(())) }).await?;
        let none: Option<f64> = cx.step("nan", async { anyhow::Ok(Some(f64::NAN)) }).await?;
        check(nothing.is_none() && none.is_none(), "what JSON calls null")?;
        if cx.attempt() < 3 {
            return Err(Failure::temporary("again").into());
        }
        anyhow::Ok(saved)
    };
    let job = t.client().submit(Numbers(numbers())).await.unwrap();
    t.run_for(secs(60), || Worker::new(t.client()).handle(handler)).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), numbers());
}

/// A value that could be read back as another kind.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Either {
    Whole(i64),
    Part(f64),
    Text(String),
}

/// A value of which JSON has less than Rust.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Shape {
    nothing: Option<()>,
    outcome: Result<u8, String>,
    by_number: BTreeMap<i64, f32>,
    #[serde(skip)]
    skipped: u8,
}

fn shape() -> Shape {
    Shape {
        nothing: Some(()),
        outcome: Err("x".into()),
        by_number: [(-1, 0.1), (2, f32::MAX)].into(),
        skipped: 7,
    }
}

/// What a handler gets of steps with values of any shape.
async fn shapes(cx: &Cx) -> anyhow::Result<String> {
    let either =
        || vec![Either::Part(1.0), Either::Whole(i64::MIN), Either::Part(-0.0), Either::Text("\0".into())];
    let numbers = (u64::MAX, i128::MIN, u128::MAX, f32::MIN_POSITIVE, 5e-324_f64, '\u{10ffff}');
    let json = || serde_json::json!({"z": 1, "a": [1.0, -0.0, 1e300, u64::MAX, null]});
    let raw = || serde_json::value::RawValue::from_string("{\"b\" : 1.50,\"a\":1}".to_owned());
    Ok(format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        cx.step("either", async { anyhow::Ok(either()) }).await?,
        cx.step("numbers", async { anyhow::Ok(numbers) }).await?,
        cx.step("json", async { anyhow::Ok(json()) }).await?,
        cx.step("raw", async { anyhow::Ok(raw()?) }).await?,
        cx.step("shape", async { anyhow::Ok(shape()) }).await?,
        cx.step("time", async { anyhow::Ok(Duration::new(u64::MAX, 999_999_999)) }).await?,
    ))
}

/// What a handler sees of the errors of steps.
async fn errors(cx: &Cx) -> [String; 3] {
    let long = "é".repeat(5_000);
    let permanent = Failure::permanent("no", long.clone());
    let temporary = Failure::retry_after(secs(7), long.clone());
    let [permanent, temporary] =
        [permanent, temporary].map(|failure| anyhow::Error::from(failure).context("outer"));
    let permanent = cx.step("permanent", async { Err::<(), _>(permanent) }).await;
    let temporary = cx.step("temporary", async { Err::<(), _>(temporary) }).await;
    let plain = cx.step("plain", async { Err::<(), _>(anyhow::anyhow!(long).context("outer")) }).await;
    [permanent, temporary, plain].map(|outcome| {
        let error = outcome.expect_err("the step fails");
        format!("{error} {error:#} {:?}", error.downcast_ref::<Failure>())
    })
}

/// Model: steps
async fn values_of_any_shape_and_errors_of_any_kind_are_the_same_in_every_attempt(t: &TestClient) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let given = seen.clone();
    let handler = move |_: Greet, cx: Cx| {
        let given = given.clone();
        async move {
            let all = (errors(&cx).await, shapes(&cx).await.map_err(|error| format!("{error:#}")));
            given.lock().unwrap().push(format!("{all:?}"));
            anyhow::ensure!(cx.attempt() > 2, "again");
            anyhow::Ok(String::new())
        }
    };
    let job = submit(t).await;
    run(t, handler).await;
    t.assert_completed(&job, "").await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    assert_eq!((&seen[1], &seen[2]), (&seen[0], &seen[0]));
}

/// Model: steps
async fn a_value_that_does_not_survive_json_fails_where_it_was_made(t: &TestClient) {
    let step = |_: Greet, cx: Cx| async move {
        cx.step("nan", async { anyhow::Ok(f64::NAN) }).await?;
        anyhow::Ok(String::new())
    };
    let job = submit(t).await;
    t.run_due(Worker::new(t.client()).handle(step)).await;
    t.assert_state(job.id(), JobState::Failed).await;
    t.assert_failed(job.id(), "step_unwritable").await;
    let refused = t.client().submit(Numbers(vec![f64::INFINITY])).await.unwrap_err();
    assert!(refused.to_string().contains("payload"), "{refused}");
    let result = |_: Numbers| async { anyhow::Ok(vec![f64::NAN]) };
    let job = t.client().submit(Numbers(vec![])).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(result)).await;
    t.assert_state(job.id(), JobState::Failed).await;
    t.assert_failed(job.id(), "result_unwritable").await;
}
