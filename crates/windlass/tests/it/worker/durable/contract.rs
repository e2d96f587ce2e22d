//! The table of the replay contract in `docs/durable-steps.md`, executed row by row.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass::clock::Timestamp;
use windlass::context::Cx;
use windlass::handler::{Snooze, State};
use windlass::job::{Failure, GroupStrategy, RetryPolicy};
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use crate::fixture::secs;
use crate::worker::job_types::{Fill, Greet, greet};

const DOCUMENT: &str = include_str!("../../../../../../docs/durable-steps.md");

/// What the attempts of one job saw and did.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Log>>);

#[derive(Clone, Default)]
struct Log {
    given: Vec<String>,
    runs: usize,
    first_time: Option<Timestamp>,
}

impl Seen {
    /// What an attempt was given.
    fn given(&self, what: impl std::fmt::Debug) {
        self.0.lock().unwrap().given.push(format!("{what:?}"));
    }

    /// The time of the first call, whatever the attempt.
    fn first_time(&self, now: Timestamp) -> Timestamp {
        *self.0.lock().unwrap().first_time.get_or_insert(now)
    }

    fn ran(&self) {
        self.0.lock().unwrap().runs += 1;
    }
}

/// The two rows of cells of the contract's table.
fn rows() -> Vec<(&'static str, &'static str)> {
    let (_, after) = DOCUMENT.split_once("## The replay contract").expect("the contract has a heading");
    let table =
        after.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = table.skip(2).map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        (cells.next().expect("a row has cells"), cells.next().expect("a row has two cells"))
    });
    cells.collect()
}

async fn fails(cx: &Cx, seen: &Seen) -> anyhow::Result<u32> {
    let work = async {
        seen.ran();
        if cx.attempt() == 1 { Err(anyhow::anyhow!("not now")) } else { Ok(7) }
    };
    let outcome = cx.step("it", work).await;
    seen.given(outcome.as_ref().map_err(ToString::to_string));
    outcome
}

async fn drops(cx: &Cx, seen: &Seen) {
    let work = async {
        seen.ran();
        if cx.attempt() == 1 {
            std::future::pending::<()>().await;
        }
        anyhow::Ok(7)
    };
    let wait_limit = async {
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        value = cx.step("it", work) => seen.given(value.unwrap()),
        () = wait_limit => seen.given("dropped"),
    }
}

async fn tries(cx: &Cx, seen: &Seen) -> anyhow::Result<()> {
    for number in 1..=3 {
        let work = async {
            seen.ran();
            if number < 3 { Err(anyhow::anyhow!("not now")) } else { Ok(number) }
        };
        seen.given(cx.step("it", work).await.map_err(|error| error.to_string()));
    }
    Ok(())
}

async fn later(cx: &Cx) -> anyhow::Result<()> {
    cx.step("later", async { anyhow::Ok(()) }).await
}

/// What one row says happened, as a handler does it. The first attempt fails at its end.
async fn happens(row: &str, cx: &Cx, seen: &Seen) -> anyhow::Result<()> {
    let count = |value| async move {
        seen.ran();
        anyhow::Ok(value)
    };
    match row {
        "a step returned a value"
        | "a worker died before a step's value was saved"
        | "a worker died after a step's value was saved" => seen.given(cx.step("it", count(7)).await?),
        "a step returned a value that JSON changes, such as `Some(())`" => {
            let work = async {
                seen.ran();
                anyhow::Ok(Some(()))
            };
            seen.given(cx.step("it", work).await?);
        }
        "a step failed permanently" => {
            let work = async {
                seen.ran();
                Err::<(), _>(Failure::permanent("no", format!("in attempt {}", cx.attempt())))
            };
            seen.given(cx.step("it", work).await.map_err(|error| error.to_string()));
        }
        "a step failed for now, and the attempt failed with that error" => drop(fails(cx, seen).await?),
        "a step failed for now, the handler continued, and nothing was saved after it" => {
            drop(fails(cx, seen).await);
        }
        "a step failed for now, the handler continued, and a later call was saved" => {
            drop(fails(cx, seen).await);
            later(cx).await?;
        }
        "a step failed for now, a later call was saved, and the attempt then failed with that error" => {
            let failed = fails(cx, seen).await;
            later(cx).await?;
            failed?;
        }
        "a step was dropped before it ended, and nothing was saved after it" => drops(cx, seen).await,
        "a step was dropped before it ended, and a later call was saved" => {
            drops(cx, seen).await;
            later(cx).await?;
        }
        "a step was tried three times in place, the last time with success" => tries(cx, seen).await?,
        other if other.contains("sleep") => waits(other, cx, seen).await?,
        other if other.contains("beside") || other.contains("within") => {
            among_others(other, cx, seen).await?;
        }
        other if other.contains("error") || other.contains("snoozed") => continues(other, cx, seen).await?,
        other => waits(other, cx, seen).await?,
    }
    Ok(())
}

/// Rows about errors from which a handler continues.
async fn continues(row: &str, cx: &Cx, seen: &Seen) -> anyhow::Result<()> {
    match row {
        "a step failed for now, a later call was saved, and the attempt then failed with its text in another error" =>
        {
            let text = fails(cx, seen).await.map_err(|error| error.to_string());
            later(cx).await?;
            text.map_err(|text| anyhow::anyhow!("it says: {text}"))?;
        }
        "a step failed for now, a later call was saved, and the attempt then failed with another step's error of the same text" =>
        {
            let failed = fails(cx, seen).await;
            later(cx).await?;
            let work = async { if cx.attempt() == 1 { Err(anyhow::anyhow!("not now")) } else { Ok(()) } };
            cx.step("other", work).await?;
            drop(failed);
        }
        "a step failed for now, the handler passed the error to `retry_later`, and the attempt failed" => {
            if let Err(error) = fails(cx, seen).await {
                cx.retry_later(&error);
            }
            later(cx).await?;
        }
        "a step snoozed, the handler continued, and a later call was saved" => {
            let work = async {
                seen.ran();
                Err::<(), _>(anyhow::Error::from(Snooze(secs(u64::from(cx.attempt())))))
            };
            let snoozed = cx.step("it", work).await.unwrap_err();
            seen.given(snoozed.downcast_ref::<Snooze>());
            later(cx).await?;
        }
        other => panic!("the contract says what no test does: {other}"),
    }
    Ok(())
}

/// Rows about steps beside and within other steps.
async fn among_others(row: &str, cx: &Cx, seen: &Seen) -> anyhow::Result<()> {
    let beside = |fails: bool| async move {
        tokio::task::yield_now().await;
        anyhow::ensure!(!fails, "beside it");
        Ok(())
    };
    match row {
        "a step failed for now beside another, a later call was saved, and the attempt then failed with that error" =>
        {
            let (other, failed) = tokio::join!(cx.step("other", beside(false)), fails(cx, seen));
            other?;
            later(cx).await?;
            failed?;
        }
        "a step was dropped because one beside it failed, a later call was saved, and the attempt then failed with that error" =>
        {
            let work = async {
                seen.ran();
                if cx.attempt() == 1 {
                    std::future::pending::<()>().await;
                }
                anyhow::Ok(7)
            };
            let both = tokio::try_join!(cx.step("it", work), cx.step("other", beside(cx.attempt() == 1)));
            seen.given(both.as_ref().map_err(ToString::to_string));
            later(cx).await?;
            both?;
        }
        "a step within another step returned a value, and the other one failed for now" => {
            let outer = cx.step("other", async {
                let work = async {
                    seen.ran();
                    anyhow::Ok(7)
                };
                seen.given(cx.step("it", work).await?);
                anyhow::ensure!(cx.attempt() > 1, "not now");
                Ok(())
            });
            outer.await?;
        }
        other => panic!("the contract says what no test does: {other}"),
    }
    Ok(())
}

fn now(cx: &Cx) -> Timestamp {
    cx.client().api().environment().clock.now()
}

async fn waits(row: &str, cx: &Cx, seen: &Seen) -> anyhow::Result<()> {
    match row {
        "a sleep parked the job" => {
            let begun = now(cx);
            cx.sleep(secs(60)).await?;
            anyhow::ensure!(now(cx).since(begun) < secs(60), "it slept once more");
            seen.given("slept");
        }
        "a worker died after a call beside a sleep was saved" => {
            let begun = seen.first_time(now(cx));
            let steps = async {
                let work = async {
                    seen.ran();
                    anyhow::Ok(())
                };
                cx.step("it", work).await?;
                later(cx).await
            };
            let (slept, stepped) = tokio::join!(cx.sleep(secs(60)), steps);
            slept.and(stepped)?;
            anyhow::ensure!(now(cx).since(begun) <= secs(60), "it slept once more");
            seen.given("slept");
        }
        "a worker died within a long step beside a sleep" => {
            let begun = seen.first_time(now(cx));
            let long = cx.step("it", async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                later(cx).await?;
                seen.ran();
                anyhow::Ok(())
            });
            let (slept, stepped) = tokio::join!(cx.sleep(secs(60)), long);
            slept.and(stepped)?;
            anyhow::ensure!(now(cx).since(begun) <= secs(60), "it slept once more");
            seen.given("slept");
        }
        "a worker died before a sleep parked the job" => {
            let begun = seen.first_time(now(cx));
            cx.sleep(secs(60)).await?;
            if now(cx).since(begun) > secs(60) {
                seen.ran();
            }
            seen.given("slept");
        }
        "a signal was received" => seen.given(cx.wait_signal::<String>("word", None).await?),
        "a wait for a signal was over" => {
            seen.given(cx.wait_signal::<String>("never", Some(secs(5))).await?);
            // It would be received now, and is not.
            cx.client().job(cx.job_id()).signal("never", &"late").await?;
        }
        "children were spawned" => {
            let children = [1, 2].map(|bytes| Fill { bytes });
            seen.given(cx.spawn_all(children, GroupStrategy::CollectAll).await?.all()?);
        }
        other => panic!("the contract says what no test does: {other}"),
    }
    Ok(())
}

fn crash_of(row: &str) -> Option<CrashPoint> {
    match row {
        "a worker died before a step's value was saved" => Some(CrashPoint::BeforeStep("it".into())),
        "a worker died after a step's value was saved" => Some(CrashPoint::AfterStep("it".into())),
        "a worker died after a call beside a sleep was saved"
        | "a worker died within a long step beside a sleep" => Some(CrashPoint::BeforeStep("later".into())),
        "a worker died before a sleep parked the job" => Some(CrashPoint::BeforePark),
        _ => None,
    }
}

/// Model: steps, step-identity, sleeps-and-signals
#[tokio::test(start_paused = true)]
async fn every_row_of_the_contract_holds() {
    let rows = rows();
    assert!(rows.len() >= 23, "{rows:?}");
    for (row, promise) in rows {
        let t = TestClient::new();
        let seen = Seen::default();
        let handler = move |_: Greet, cx: Cx, State(seen): State<Seen>| async move {
            happens(row, &cx, &seen).await?;
            anyhow::ensure!(cx.failures() > 0, "once more");
            anyhow::Ok(String::new())
        };
        let child = |job: Fill, State(seen): State<Seen>| async move {
            seen.ran();
            anyhow::Ok(format!("child {}", job.bytes))
        };
        let job = t.client().submit(greet("x")).retry(RetryPolicy::fixed().attempts(9)).await.unwrap();
        job.signal("word", &"received").await.unwrap();
        let worker = || Worker::new(t.client()).with(seen.clone()).handle(handler).handle(child);
        if let Some(point) = crash_of(row) {
            t.run_due(worker().crash_at(point)).await;
        }
        t.run_for(secs(600), worker).await;
        job.result(Duration::ZERO).await.unwrap();
        let Log { given, runs, .. } = seen.0.lock().unwrap().clone();
        check(row, promise, &given, runs);
    }
}

fn check(row: &str, promise: &str, given: &[String], runs: usize) {
    let (first, last) = given.split_at(given.len() / 2);
    if promise.starts_with("the same") {
        let is_only_one = crash_of(row).is_some();
        assert!(is_only_one || first == last, "{row}: {given:?}");
        let most = if row.contains("three times") { 3 } else { 2 };
        let expected = if row == "children were spawned" || row.contains("three times") { most } else { 1 };
        assert!(runs <= expected, "{row}: ran {runs} times");
    } else {
        assert_eq!(promise, "runs again", "{row}: the tests know no such promise");
        let was_counted = usize::from(crash_of(row).is_some());
        assert_eq!(runs + was_counted, 2, "{row}: {given:?}");
    }
}
