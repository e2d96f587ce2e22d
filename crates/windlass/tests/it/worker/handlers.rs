//! Handlers: what they may ask for, what their errors mean, and that nothing they do takes the worker with it.

use std::time::Duration;

use anyhow::Context;
use windlass::context::Cx;
use windlass::handler::{Extract, Snooze, State};
use windlass::job::{Category, ErrorCause, ErrorRecord, Failure, JobId, JobState, RetryPolicy};
use windlass::testing::TestClient;
use windlass::worker::Worker;

use super::harness::{EventSender, events, step_by_step_on_every_engine};
use super::job_types::{Add, Fill, Greet, Map, greet};
use crate::fixture::secs;

step_by_step_on_every_engine!(
    handlers_ask_for_up_to_four_things,
    a_worker_without_what_its_handlers_ask_for_does_not_start,
    a_worker_needs_one_handler_for_each_type_it_runs,
    a_missing_state_is_named,
    any_error_is_temporary_until_the_budget_is_spent,
    a_failure_speaks_through_context_and_sources,
    a_failure_may_name_its_own_delay,
    snoozing_is_no_failure,
    blocking_handlers_run_like_others,
    the_last_layer_is_the_outermost,
    a_payload_of_another_shape_fails_for_good,
    a_result_too_large_fails_for_good_and_says_so,
    a_result_without_words_fails_for_good,
    an_unknown_type_waits,
    one_handler_may_be_for_every_type_that_has_none,
    a_job_knows_its_attempts,
    progress_logs_and_costs_are_kept,
);

async fn error_of(t: &TestClient, id: JobId) -> ErrorRecord {
    t.job(id).await.job.details.error.clone().expect("the job has an error")
}

/// Model: attempt-records
async fn handlers_ask_for_up_to_four_things(t: &TestClient) {
    async fn one(job: Greet, State(word): State<&'static str>) -> anyhow::Result<String> {
        Ok(format!("{word} {}", job.name))
    }
    async fn four(
        job: Add,
        cx: Cx,
        State(word): State<&'static str>,
        State(number): State<u64>,
        again: Cx,
    ) -> Result<u64, std::fmt::Error> {
        assert_eq!((cx.job_id(), word), (again.job_id(), "hello"));
        Ok(job.numbers.iter().sum::<u64>() + number)
    }
    async fn none(_: Fill) -> Result<String, std::fmt::Error> {
        Ok("plain".into())
    }
    let first = t.client().submit(greet("world")).await.unwrap();
    let second = t.client().submit(Add { numbers: vec![1, 2] }).await.unwrap();
    let third = t.client().submit(Fill { bytes: 0 }).await.unwrap();
    let worker = Worker::new(t.client()).with("hello").with(39_u64);
    t.run_due(worker.handle(one).handle(four).handle(none)).await;
    assert_eq!(first.result(Duration::ZERO).await.unwrap(), "hello world");
    assert_eq!(second.result(Duration::ZERO).await.unwrap(), 42);
    assert_eq!(third.result(Duration::ZERO).await.unwrap(), "plain");
}

/// Model: payload. It is given the very bytes, and what they are of.
async fn one_handler_may_be_for_every_type_that_has_none(t: &TestClient) {
    let known = t.client().submit(greet("a")).await.unwrap();
    let unknown = t.client().submit(Add { numbers: vec![1, 2] }).await.unwrap();
    let greeting = |job: Greet| async move { anyhow::Ok(job.name) };
    let any = |cx: Cx| async move {
        assert_eq!((cx.queue_name().as_str(), cx.tenant().as_str()), ("default", "default"));
        let payload = String::from_utf8(cx.payload().bytes.to_vec())?;
        anyhow::Ok(format!("{} {} {payload}", cx.job_type(), cx.payload().content_type))
    };
    t.run_due(Worker::new(t.client()).handle(greeting).handle_any(any)).await;
    assert_eq!(known.result(Duration::ZERO).await.unwrap(), "a");
    let result = t.client().api().result(t.client().caller(), unknown.id()).await.unwrap();
    let result = result.and_then(|result| result.0).expect("it has a result");
    let said: String = serde_json::from_slice(&result).unwrap();
    assert_eq!(said, r#"add application/json {"numbers":[1,2]}"#);
    let alone = t.client().submit(greet("b")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle_any(|_| async { anyhow::Ok("any") })).await;
    assert_eq!(alone.result(Duration::ZERO).await.unwrap(), "any");
}

/// Model: unknown-types
async fn a_worker_without_what_its_handlers_ask_for_does_not_start(t: &TestClient) {
    let handler = |_: Greet, _: Cx, State(_): State<Vec<u8>>| async { anyhow::Ok(String::new()) };
    let job = t.client().submit(greet("a")).await.unwrap();
    let refused = Worker::new(t.client()).handle(handler).run().await.unwrap_err().to_string();
    assert!(refused.contains("`greet`") && refused.contains("Vec<u8>"), "{refused}");
    t.assert_state(job.id(), JobState::Scheduled).await;
    // It need not be given first.
    t.run_due(Worker::new(t.client()).handle(handler).with(vec![1_u8])).await;
    t.assert_completed(&job, "").await;
}

/// Model: unknown-types
async fn a_worker_needs_one_handler_for_each_type_it_runs(t: &TestClient) {
    let refused = Worker::new(t.client()).run().await.unwrap_err().to_string();
    assert_eq!(refused, "handler: is required");
    let handler = |_: Greet| async { anyhow::Ok(String::new()) };
    let refused =
        Worker::new(t.client()).handle(handler).handle(handler).run().await.unwrap_err().to_string();
    assert!(refused.contains("`greet` has two"), "{refused}");
}

/// Asks for something in an unpredictable way.
struct Word(String);

impl Extract for Word {
    fn extract(cx: &Cx) -> Result<Word, Failure> {
        let State(bytes) = State::<Vec<u8>>::extract(cx)?;
        String::from_utf8(bytes).map(Word).map_err(|error| Failure::permanent("no_word", error.to_string()))
    }
}

/// Model: error-categories
async fn a_missing_state_is_named(t: &TestClient) {
    let handler = |_: Greet, Word(word): Word| async { anyhow::Ok(word) };
    let fine = t.client().submit(greet("a")).await.unwrap();
    t.run_due(Worker::new(t.client()).with(b"word".to_vec()).handle(handler)).await;
    t.assert_completed(&fine, "word").await;
    let job = t.client().submit(greet("a")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Retrying).await;
    let error = error_of(t, job.id()).await;
    assert_eq!(error.code.as_deref(), Some("state_missing"));
    assert!(error.message.contains("Vec<u8>"), "{}", error.message);
}

/// Model: retry-defaults, error-categories, error-record
async fn any_error_is_temporary_until_the_budget_is_spent(t: &TestClient) {
    let handler = |_: Greet| async { Err::<String, _>(anyhow::anyhow!("cause").context("attempt")) };
    let job = t.client().submit(greet("a")).retry(RetryPolicy::fixed()).await.unwrap();
    for failures in 1..=3 {
        assert_eq!(t.run_due(Worker::new(t.client()).handle(handler)).await, 1);
        t.assert_state(job.id(), JobState::Retrying).await;
        assert_eq!(t.job(job.id()).await.job.failures, failures);
        t.advance(secs(1)).await;
    }
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::DeadLetter).await;
    let error = error_of(t, job.id()).await;
    assert_eq!((error.category, &*error.message, error.attempt), (Category::Temporary, "attempt: cause", 4));
    assert_eq!(error.cause, [ErrorCause::new("cause")], "the errors behind it, without itself");
    assert_eq!(t.attempts(job.id()).await.len(), 4);
}

#[derive(Debug, thiserror::Error)]
#[error("the shop is closed")]
struct Closed(#[source] Failure);

/// Model: error-categories
async fn a_failure_speaks_through_context_and_sources(t: &TestClient) {
    let beneath = |_: Greet| async {
        let failed: Result<String, Failure> = Err(Failure::permanent("gone", "no such user"));
        failed.context("sending").context("greeting")
    };
    let source = |_: Add| async { Err::<u64, _>(Closed(Failure::permanent("shut", "since May"))) };
    let above = |_: Fill| async {
        let failed: Result<String, std::fmt::Error> = Err(std::fmt::Error);
        failed.context(Failure::permanent("above", "given up"))
    };
    let first = t.client().submit(greet("a")).await.unwrap().id();
    let second = t.client().submit(Add { numbers: vec![] }).await.unwrap().id();
    let third = t.client().submit(Fill { bytes: 0 }).await.unwrap().id();
    t.run_due(Worker::new(t.client()).handle(beneath).handle(source).handle(above)).await;
    let expected = [
        (first, "gone", "greeting: sending: no such user"),
        (second, "shut", "the shop is closed: since May"),
        (third, "above", "given up: an error occurred"),
    ];
    for (id, code, message) in expected {
        t.assert_state(id, JobState::Failed).await;
        let error = error_of(t, id).await;
        assert_eq!((error.category, error.code.as_deref()), (Category::Permanent, Some(code)));
        assert!(error.message.starts_with(message), "{}", error.message);
    }
}

/// Model: retry-after
async fn a_failure_may_name_its_own_delay(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        if cx.attempt() == 1 {
            return Err(Failure::temporary("busy").with_retry_after(secs(120)));
        }
        Ok("at last".to_owned())
    };
    let job = t.client().submit(greet("a")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.advance(Duration::from_millis(119_999)).await;
    assert_eq!(t.run_due(Worker::new(t.client()).handle(handler)).await, 0);
    t.advance(Duration::from_millis(1)).await;
    assert_eq!(t.run_due(Worker::new(t.client()).handle(handler)).await, 1);
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "at last");
}

/// Model: crashes-and-poison
async fn snoozing_is_no_failure(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        match cx.attempt() {
            1 => Err(anyhow::Error::from(Snooze(secs(60)))),
            2 => Err(Snooze(secs(60))).context("still too early"),
            attempt => Ok(attempt.to_string()),
        }
    };
    let job = t.client().submit(greet("a")).retry(RetryPolicy { max_attempts: 1, ..RetryPolicy::standard() });
    let job = job.await.unwrap();
    for _ in 0..2 {
        assert_eq!(t.run_due(Worker::new(t.client()).handle(handler)).await, 1);
        t.assert_state(job.id(), JobState::Waiting).await;
        t.advance(secs(60)).await;
    }
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "3");
    assert_eq!(t.job(job.id()).await.job.failures, 0);
}

/// Model: attempt-records
async fn blocking_handlers_run_like_others(t: &TestClient) {
    let handler = |job: Greet, cx: Cx| -> anyhow::Result<String> {
        tokio::runtime::Handle::current().block_on(cx.log("from a thread"))?;
        Ok(format!("{} {}", job.name, cx.attempt()))
    };
    let failing = |_: Add, _: Cx| -> Result<u64, Failure> { Err(Failure::permanent("no", "never")) };
    let job = t.client().submit(greet("a")).await.unwrap();
    let bad = t.client().submit(Add { numbers: vec![] }).await.unwrap();
    t.run_due(Worker::new(t.client()).handle_blocking(handler).handle_blocking(failing)).await;
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "a 1");
    t.assert_state(bad.id(), JobState::Failed).await;
}

/// Model: error-categories
async fn the_last_layer_is_the_outermost(t: &TestClient) {
    let (sender, mut received) = events();
    let said = sender.clone();
    let handler = move |_: Greet, State(sender): State<EventSender>| async move {
        sender.say("handler");
        anyhow::Ok(String::new())
    };
    let mut worker = Worker::new(t.client()).with(sender).handle(handler);
    for name in ["inner", "outer"] {
        let said = said.clone();
        worker = worker.layer(move |_, next| {
            let said = said.clone();
            Box::pin(async move {
                said.say(format!("{name} before"));
                let result = next.await;
                said.say(format!("{name} after"));
                result
            })
        });
    }
    t.client().submit(greet("a")).await.unwrap();
    t.run_due(worker).await;
    assert_eq!(received.all(), ["outer before", "inner before", "handler", "inner after", "outer after"]);
    let job = t.client().submit(greet("b")).await.unwrap();
    let shut = Worker::new(t.client()).handle(|_: Greet| async { anyhow::Ok("never".to_owned()) });
    t.run_due(shut.layer(|_, _| Box::pin(async { Err(Failure::permanent("shut", "not today").into()) })))
        .await;
    t.assert_state(job.id(), JobState::Failed).await;
}

/// Model: error-categories
async fn a_payload_of_another_shape_fails_for_good(t: &TestClient) {
    let job = t.client().submit(super::job_types::OtherGreet { names: vec![] }).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(|_: Greet| async { anyhow::Ok(String::new()) })).await;
    t.assert_state(job.id(), JobState::Failed).await;
    let error = error_of(t, job.id()).await;
    assert_eq!(error.code.as_deref(), Some("payload_unreadable"));
    assert!(error.message.contains("missing field `name`"), "{}", error.message);
}

/// Model: result-cost-and-progress
async fn a_result_too_large_fails_for_good_and_says_so(t: &TestClient) {
    let handler = |job: Fill, cx: Cx| async move {
        cx.cost(7);
        anyhow::Ok("x".repeat(job.bytes))
    };
    let job = t.client().submit(Fill { bytes: 2 << 20 }).await.unwrap();
    let fits = t.client().submit(Fill { bytes: (1 << 20) - 2 }).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(fits.id(), JobState::Completed).await;
    t.assert_state(job.id(), JobState::Failed).await;
    let error = error_of(t, job.id()).await;
    assert_eq!(error.category, Category::Permanent);
    assert!(error.message.contains("result") && error.message.contains("2097154"), "{}", error.message);
    assert_eq!(t.job(job.id()).await.job.cost_cents, 7);
}

/// Model: result-cost-and-progress
async fn a_result_without_words_fails_for_good(t: &TestClient) {
    let handler = |_: Map| async { anyhow::Ok([((1, 2), 3)].into()) };
    let job = t.client().submit(Map).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    t.assert_state(job.id(), JobState::Failed).await;
    assert_eq!(error_of(t, job.id()).await.code.as_deref(), Some("result_unwritable"));
}

/// Model: unknown-types
async fn an_unknown_type_waits(t: &TestClient) {
    let job = t.client().submit(greet("a")).await.unwrap();
    let worker = Worker::new(t.client()).handle(|_: Fill| async { anyhow::Ok(String::new()) });
    assert_eq!(t.run_due(worker).await, 0);
    t.assert_state(job.id(), JobState::Scheduled).await;
}

/// Model: counters-and-fences, attempt-records
async fn a_job_knows_its_attempts(t: &TestClient) {
    let (sender, mut received) = events();
    let handler = |_: Greet, cx: Cx, State(sender): State<EventSender>| async move {
        assert_eq!(cx.attempt_id().number, cx.attempt());
        sender.say(format!("{} after {:?}", cx.attempt(), cx.previous_attempt().map(|id| id.number)));
        sender.say(format!("fence {}", cx.fence().0));
        assert_eq!(cx.idempotency_key("pay"), format!("{}/pay", cx.job_id()));
        assert_eq!((cx.submitted_key(), cx.traceparent()), (Some("k"), Some("00-a-b-01")));
        if cx.attempt() == 1 { Err(Failure::temporary("once")) } else { Ok(String::new()) }
    };
    let worker = || Worker::new(t.client()).with(sender.clone()).handle(handler);
    t.client().submit(greet("a")).key("k").traceparent("00-a-b-01").await.unwrap();
    t.run_due(worker()).await;
    t.advance(secs(2)).await;
    t.run_due(worker()).await;
    let received = received.all();
    let fence = |said: &str| said.strip_prefix("fence ").and_then(|fence| fence.parse::<u64>().ok());
    assert_eq!([&received[0], &received[2]], ["1 after None", "2 after Some(1)"]);
    assert!(
        fence(&received[1]).is_some() && fence(&received[1]) < fence(&received[3]),
        "fences grow: {received:?}"
    );
}

/// Model: result-cost-and-progress
async fn progress_logs_and_costs_are_kept(t: &TestClient) {
    let handler = |_: Greet, cx: Cx| async move {
        cx.progress(40.0, "soon").await?;
        cx.log("line one").await?;
        cx.log(format!("line {}", 2)).await?;
        cx.cost(3);
        cx.cost(4);
        assert!(cx.progress(101.0, "").await.is_err());
        if cx.attempt() == 1 { Err(anyhow::anyhow!("once")) } else { Ok(String::new()) }
    };
    let job = t.client().submit(greet("a")).await.unwrap();
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    let progress = t.job(job.id()).await.job.details.progress.clone().unwrap();
    assert_eq!((progress.percent, progress.message.as_deref()), (40.0, Some("soon")));
    t.advance(secs(2)).await;
    t.run_due(Worker::new(t.client()).handle(handler)).await;
    let logs = t.client().api().logs(t.client().caller(), job.id(), 0).await.unwrap().unwrap();
    let lines: Vec<_> = logs.iter().map(|(_, line)| (line.attempt, &*line.text)).collect();
    assert_eq!(lines, [(1, "line one"), (1, "line 2"), (2, "line one"), (2, "line 2")]);
    assert_eq!(t.job(job.id()).await.job.cost_cents, 14);
}
