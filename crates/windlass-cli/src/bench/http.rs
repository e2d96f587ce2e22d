//! The workloads over HTTP, as seen by clients and workers of a server. Every counted response was durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass::bench::{Figure, Times, rate};
use windlass::clock::Stopwatch;

use super::connection::{BenchServer, Connection};

/// The queue of the benchmark's jobs, to keep them apart from others.
pub(super) const QUEUE: &str = "bench";
/// Connections that submit.
const CALLERS: usize = 32;
/// Jobs per batch.
const BATCH: usize = 1_000;
/// Connections that submit batches: one prepares its next batch while the other's is being committed.
const BATCH_CALLERS: usize = 2;
/// How often a job is read while others are submitted.
const LOOK_EVERY: Duration = Duration::from_millis(2);

const JOBS: &str = "/api/v1/jobs";

fn submission(payload: usize) -> Value {
    json!({"type": windlass::bench::NOTHING, "queue": QUEUE, "payload": {"data": "x".repeat(payload.saturating_sub(11))}})
}

/// One job per request, 32 connections, while single jobs are read.
pub(super) async fn singles(
    target: &BenchServer,
    time: Duration,
    payload: usize,
) -> anyhow::Result<Vec<Figure>> {
    let request: Arc<[u8]> = target.request("POST", JOBS, &serde_json::to_vec(&submission(payload))?).into();
    let mut first = target.connect().await?;
    let job = first.exchange(&request).await?.json()?["id"].as_str().unwrap_or_default().to_owned();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    let watch = Stopwatch::start();
    for _ in 0..CALLERS {
        let (mut link, request, is_over) = (target.connect().await?, request.clone(), is_over.clone());
        callers.spawn(async move {
            let mut times = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let one = Stopwatch::start();
                link.exchange(&request).await?.expect_success()?;
                times.push(one.elapsed());
            }
            anyhow::Ok(times)
        });
    }
    let looked = read_jobs(target, &job, &is_over);
    let alarm = async {
        tokio::time::sleep(time).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let ((), looked) = tokio::join!(alarm, looked);
    let mut times = Vec::new();
    while let Some(caller) = callers.join_next().await {
        times.extend(caller??);
    }
    let submitted = rate(times.len(), watch.elapsed());
    Ok(vec![
        Figure::new("submit", format!("submit one by one, {CALLERS} connections"))
            .rate(submitted)
            .times(Times::new(times)),
        Figure::new("submit", "GET /jobs/{id} under that load").times(Times::new(looked?)),
    ])
}

async fn read_jobs(target: &BenchServer, job: &str, is_over: &AtomicBool) -> anyhow::Result<Vec<Duration>> {
    let (mut link, request) = (target.connect().await?, target.request("GET", &format!("{JOBS}/{job}"), &[]));
    let mut times = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let one = Stopwatch::start();
        link.exchange(&request).await?.expect_success()?;
        times.push(one.elapsed());
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(times)
}

/// A thousand jobs per request.
pub(super) async fn batches(target: &BenchServer, jobs: usize, payload: usize) -> anyhow::Result<Figure> {
    let body = json!({"jobs": vec![submission(payload); BATCH]});
    let request: Arc<[u8]> = target.request("POST", "/api/v1/jobs/batch", &serde_json::to_vec(&body)?).into();
    let left = Arc::new(AtomicUsize::new(jobs.div_ceil(BATCH)));
    let batches = left.load(Ordering::Relaxed);
    let mut callers = JoinSet::new();
    let watch = Stopwatch::start();
    for _ in 0..BATCH_CALLERS {
        let (link, request, left) = (target.connect().await?, request.clone(), left.clone());
        callers.spawn(submit_batches(link, request, left));
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    let submitted = rate(batches * BATCH, watch.elapsed());
    Ok(Figure::new("batch", format!("submit in batches of {BATCH}, {BATCH_CALLERS} connections"))
        .rate(submitted))
}

async fn submit_batches(
    mut link: Connection,
    request: Arc<[u8]>,
    left: Arc<AtomicUsize>,
) -> anyhow::Result<()> {
    let take = |left: usize| left.checked_sub(1);
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
        link.exchange(&request).await?.expect_success()?;
    }
    Ok(())
}
