//! Spans of workers in the same process as their store: every run is in the trace of its job's submission, alone or in a
//! batch.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use windlass::context::Cx;
use windlass::handler::BatchOptions;
use windlass::testing::TestClient;
use windlass::{Job, Worker};

use super::layer::{Attribute, Kind, Span, SpanLayer};
use super::sampler::Sampler;

#[derive(Serialize, Deserialize, Job)]
#[job(type = "mail", output = String)]
struct Mail(u64);

/// The trace of the job with this number, and the span that submitted it.
fn traceparent(number: u64) -> String {
    format!("00-{:032x}-{:016x}-01", 0xa0 + number, 0xb0 + number)
}

/// Submits three jobs, each in its own trace, lets a worker run them, and returns the spans of their runs.
async fn runs_of(worker: impl FnOnce(Worker) -> Worker) -> Vec<Span> {
    let (ended, mut spans) = mpsc::channel(1_000);
    let watching = Registry::default().with(SpanLayer::new(ended, Sampler::default()).watching());
    let watching = tracing::subscriber::set_default(watching);
    let t = TestClient::new();
    for number in 0..3 {
        t.client().submit(Mail(number)).traceparent(&traceparent(number)).await.expect("it is submitted");
    }
    assert_eq!(t.run_due(worker(Worker::new(t.client()))).await, 3);
    drop((t, watching));
    let mut found = Vec::new();
    while let Ok(span) = spans.try_recv() {
        found.push(span);
    }
    found.retain(|span| span.name == "process default");
    found
}

fn assert_each_is_in_its_trace(runs: &[Span]) {
    let places: BTreeMap<u128, Option<u64>> =
        runs.iter().map(|span| (span.context.trace, span.context.parent)).collect();
    assert_eq!(places, (0..3).map(|number| (0xa0 + u128::from(number), Some(0xb0 + number))).collect());
    assert_eq!(runs.len(), 3, "{runs:?}");
    assert!(runs.iter().all(|span| span.kind == Kind::Consumer && span.began <= span.ended), "{runs:?}");
}

#[tokio::test]
async fn a_run_beside_its_store_is_seen_in_the_trace_of_its_submission() {
    let handler = |job: Mail, cx: Cx| async move {
        assert_eq!(cx.traceparent(), Some(&traceparent(job.0)[..]));
        anyhow::Ok(String::new())
    };
    let runs = runs_of(|worker| worker.handle(handler)).await;
    assert_each_is_in_its_trace(&runs);
    assert!(runs.iter().all(|span| !span.is_error), "{runs:?}");
}

#[tokio::test]
async fn a_call_for_many_jobs_is_seen_in_the_trace_of_each() {
    async fn handler(jobs: Vec<Mail>, contexts: Vec<Cx>) -> Vec<anyhow::Result<String>> {
        assert_eq!(jobs.len(), 3, "it is one call");
        for (job, cx) in jobs.iter().zip(&contexts) {
            assert_eq!(cx.traceparent(), Some(&traceparent(job.0)[..]));
        }
        jobs.iter().map(|job| if job.0 == 1 { anyhow::bail!("no") } else { Ok(String::new()) }).collect()
    }
    let runs =
        runs_of(|worker| worker.handle_batch(BatchOptions::new(3, std::time::Duration::ZERO), handler)).await;
    assert_each_is_in_its_trace(&runs);
    // Only the run of the failed job is an error.
    let failed: Vec<u128> = runs.iter().filter(|span| span.is_error).map(|span| span.context.trace).collect();
    assert_eq!(failed, [0xa1]);
}

/// A retry, and everything after it, would make the trace of a submission endless.
#[tokio::test]
async fn a_retry_is_a_trace_of_its_own_that_is_linked_to_the_submission() {
    let (ended, mut spans) = mpsc::channel(1_000);
    let watching = Registry::default().with(SpanLayer::new(ended, Sampler::default()).watching());
    let watching = tracing::subscriber::set_default(watching);
    let t = TestClient::new();
    for (number, sampled) in [(0, "01"), (1, "00")] {
        let traceparent = traceparent(number).replace("-01", &format!("-{sampled}"));
        t.client().submit(Mail(number)).traceparent(&traceparent).await.expect("it is submitted");
    }
    let handler = |_: Mail, cx: Cx| async move {
        cx.step("look", async { anyhow::Ok(7) }).await?;
        anyhow::ensure!(cx.attempt() > 1, "not yet");
        anyhow::Ok(String::new())
    };
    assert_eq!(t.run_due(Worker::new(t.client()).handle(handler)).await, 2);
    t.advance(std::time::Duration::from_secs(3600)).await;
    assert_eq!(t.run_due(Worker::new(t.client()).handle(handler)).await, 2);
    drop((t, watching));
    let mut found = Vec::new();
    while let Ok(span) = spans.try_recv() {
        found.push(span);
    }
    let runs: Vec<&Span> = found.iter().filter(|span| span.name == "process default").collect();
    let [first, second] = runs[..] else { panic!("only the sampled job is seen: {runs:?}") };
    assert_eq!((first.context.trace, first.context.parent, first.link), (0xa0, Some(0xb0), None));
    assert!(
        first.is_error && first.attributes.contains(&("error.type", Attribute::Text("temporary".into())))
    );
    assert_ne!(second.context.trace, 0xa0);
    assert_eq!(second.context.parent, None);
    let link = second.link.expect("it is linked");
    assert_eq!((link.trace, link.span), (0xa0, 0xb0));
    for attribute in [
        ("messaging.system", Attribute::Text("windlass".into())),
        ("messaging.destination.name", Attribute::Text("default".into())),
        ("windlass.job.type", Attribute::Text("mail".into())),
        ("windlass.job.attempt", Attribute::Number(2)),
    ] {
        assert!(second.attributes.contains(&attribute), "{attribute:?}: {second:?}");
    }
    // A step is seen below the run that ran it; the saved one is not run again.
    let steps: Vec<&Span> = found.iter().filter(|span| span.name == "step look").collect();
    assert_eq!(steps.iter().map(|step| step.context.parent).collect::<Vec<_>>(), [Some(first.context.span)]);
}
