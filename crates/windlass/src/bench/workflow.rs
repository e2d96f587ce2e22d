//! Jobs with durable steps, and one job that spawns thousands.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::figure::{Figure, rate};
use super::handlers::QUEUE;
use crate::client::{Client, Job, JobDefaults};
use crate::clock::Stopwatch;
use crate::context::Cx;
use crate::handler::State;
use crate::job::GroupStrategy;
use crate::worker::Worker;

/// Steps of a job.
const STEPS: usize = 5;
/// Jobs that run at once.
const CONCURRENCY: usize = 50;
/// Timeout of a fan-out.
const FAN_OUT_TIMEOUT: Duration = Duration::from_secs(300);

#[derive(Clone, Serialize, Deserialize)]
struct JobWithSteps;

impl Job for JobWithSteps {
    const TYPE: &'static str = "bench.stepped";
    type Output = usize;

    fn defaults() -> JobDefaults {
        JobDefaults { queue: Some(QUEUE), ..JobDefaults::default() }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Parent {
    children: usize,
}

impl Job for Parent {
    const TYPE: &'static str = "bench.parent";
    type Output = usize;

    fn defaults() -> JobDefaults {
        JobDefaults { queue: Some(QUEUE), ..JobDefaults::default() }
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Child {
    number: usize,
}

impl Job for Child {
    const TYPE: &'static str = "bench.child";
    type Output = usize;

    fn defaults() -> JobDefaults {
        JobDefaults { queue: Some(QUEUE), ..JobDefaults::default() }
    }
}

/// How many jobs with steps are unfinished.
struct OpenCount {
    count: AtomicUsize,
    none: Notify,
}

async fn stepped(_job: JobWithSteps, cx: Cx, State(left): State<Arc<OpenCount>>) -> anyhow::Result<usize> {
    let mut sum = 0;
    for step in 0..STEPS {
        sum += cx.step(&format!("step-{step}"), async { anyhow::Ok(step) }).await?;
    }
    if left.count.fetch_sub(1, Ordering::Relaxed) == 1 {
        left.none.notify_one();
    }
    Ok(sum)
}

async fn parent(job: Parent, cx: Cx) -> anyhow::Result<usize> {
    let children = (0..job.children).map(|number| Child { number });
    let done = cx.spawn_all(children, GroupStrategy::FailFast).await?;
    Ok(done.all()?.into_iter().sum())
}

async fn child(job: Child) -> Result<usize, std::convert::Infallible> {
    Ok(job.number)
}

/// This many jobs of five steps each, and one job with this many children, whose results are collected. Reports
/// each figure as it is measured.
pub async fn measure(
    address: &str,
    jobs: usize,
    children: usize,
    report: &mut dyn FnMut(Figure),
) -> anyhow::Result<()> {
    let client = Client::open(address).await?;
    client.submit_all(vec![JobWithSteps; jobs]).await?;
    let left = Arc::new(OpenCount { count: AtomicUsize::new(jobs), none: Notify::new() });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(&client)
        .with(left.clone())
        .queue(QUEUE, CONCURRENCY)
        .handle(stepped)
        .handle(parent)
        .handle(child);
    let watch = Stopwatch::start();
    let running = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
    left.none.notified().await;
    let what = format!("steps of jobs that have {STEPS}, {CONCURRENCY} at once");
    report(Figure::new("steps", what).rate(rate(jobs * STEPS, watch.elapsed())));
    let watch = Stopwatch::start();
    let sum = client.submit(Parent { children }).await?.result(FAN_OUT_TIMEOUT).await?;
    anyhow::ensure!(sum == children * (children - 1) / 2, "wrong results of the children: {sum}");
    let what = format!("{children} children of one job, spawned, run and collected");
    report(Figure::new("children", what).rate(rate(children, watch.elapsed())));
    // If the receiver is gone, the worker has already ended with an error.
    let _ = stop.send(());
    running.await??;
    client.close();
    Ok(())
}
