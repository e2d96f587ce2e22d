//! Benchmarks with handlers: typed jobs, a worker with many slots, handlers that do nothing.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::NOTHING;
use super::figure::{Figure, Times, rate, real};
use crate::client::{Client, Job, JobDefaults};
use crate::clock::Stopwatch;
use crate::handler::State;
use crate::job::QueueName;
use crate::worker::Worker;

/// The queue of these jobs.
pub const QUEUE: &str = "bench";
/// Size of a payload in bytes.
const PAYLOAD: usize = 101;
/// Pause before each single job.
const BREATH: Duration = Duration::from_millis(3);

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct NoopJob {
    data: String,
}

impl NoopJob {
    /// A job whose payload has this size in bytes.
    pub(super) fn of_size(payload: usize) -> NoopJob {
        // `{"data":""}` is the rest.
        NoopJob { data: "x".repeat(payload.saturating_sub(11)) }
    }
}

impl Job for NoopJob {
    const TYPE: &'static str = NOTHING;
    type Output = ();

    fn defaults() -> JobDefaults {
        JobDefaults { queue: Some(QUEUE), ..JobDefaults::default() }
    }
}

/// How many jobs were handled, and when the last one was.
#[derive(Default)]
pub(super) struct HandledCount {
    pub(super) count: AtomicUsize,
    wanted: AtomicUsize,
    reached: Notify,
}

pub(super) async fn nothing(
    _job: NoopJob,
    State(seen): State<Arc<HandledCount>>,
) -> Result<(), std::convert::Infallible> {
    if seen.count.fetch_add(1, Ordering::Relaxed) + 1 == seen.wanted.load(Ordering::Relaxed) {
        seen.reached.notify_one();
    }
    Ok(())
}

/// What to measure.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Jobs that run at once.
    pub concurrency: usize,
    /// Jobs to submit before the worker starts; existing jobs are drained with them.
    pub jobs: usize,
    /// Single jobs picked up by the idle worker; 0 to skip this.
    pub rounds: usize,
    /// How long the worker is then idle; zero to skip this.
    pub idle: Duration,
}

/// Drains jobs through handlers, then picks up single jobs on the idle worker, then stays idle. Reports each figure as
/// it is measured.
pub async fn measure(address: &str, plan: Plan, report: &mut dyn FnMut(Figure)) -> anyhow::Result<()> {
    let client = Client::open(address).await?;
    let job = NoopJob::of_size(PAYLOAD);
    for _ in 0..plan.jobs / 1_000 {
        client.submit_all(vec![job.clone(); 1_000]).await?;
    }
    let waiting = open_jobs(&client).await?;
    let seen = Arc::new(HandledCount::default());
    seen.wanted.store(waiting, Ordering::Relaxed);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let worker = Worker::new(&client).with(seen.clone()).queue(QUEUE, plan.concurrency).handle(nothing);
    let (watch, cpu) = (Stopwatch::start(), cpu_micros());
    let running = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
    if waiting > 0 {
        seen.reached.notified().await;
        while open_jobs(&client).await? > 0 {}
        let micros = (cpu_micros() - cpu) / real(waiting);
        let what = format!("drained through handlers that do nothing, {} at once", plan.concurrency);
        let drained = rate(waiting, watch.elapsed());
        report(Figure { cpu_micros_per_job: Some(micros), ..Figure::new("drain", what).rate(drained) });
    }
    if plan.rounds > 0 {
        let times = pick_up(&client, &seen, &job, plan.rounds).await?;
        report(Figure::new("pick-up", "pick-up by an idle worker: submit to handler").times(times));
    }
    if !plan.idle.is_zero() {
        let before = cpu_micros();
        tokio::time::sleep(plan.idle).await;
        let percent = (cpu_micros() - before) / 1e4 / plan.idle.as_secs_f64();
        report(Figure::new("idle", "an idle worker").percent(percent));
    }
    // If the receiver is gone, the worker has already ended with an error.
    let _ = stop.send(());
    running.await??;
    client.close();
    Ok(())
}

/// Works until `over`: one of several processes.
pub async fn work(address: &str, concurrency: usize, over: impl Future) -> anyhow::Result<()> {
    let client = Client::open(address).await?;
    let worker = Worker::new(&client).with(Arc::new(HandledCount::default())).queue(QUEUE, concurrency);
    worker.handle(nothing).run_until(over).await?;
    client.close();
    Ok(())
}

/// How often to poll the progress of workers in other processes: rarely enough not to affect the measurement.
pub(super) const PROGRESS_EVERY: Duration = Duration::from_millis(20);

/// Drains with workers in other processes, started by `start`. Their start is not measured.
pub async fn drain_by<W>(
    address: &str,
    jobs: usize,
    what: String,
    start: impl FnOnce() -> anyhow::Result<W>,
) -> anyhow::Result<Figure> {
    let client = Client::open(address).await?;
    let job = NoopJob::of_size(PAYLOAD);
    for _ in 0..jobs / 1_000 {
        client.submit_all(vec![job.clone(); 1_000]).await?;
    }
    let _workers = start()?;
    let mut begun = None;
    loop {
        let open = open_jobs(&client).await?;
        // By then every worker has had the time to start.
        if begun.is_none() && open < jobs - jobs / 10 {
            begun = Some((open, Stopwatch::start()));
        }
        if let (0, Some((waiting, watch))) = (open, begun) {
            let drained = rate(waiting, watch.elapsed());
            client.close();
            return Ok(Figure::new("drain", what).rate(drained));
        }
        tokio::time::sleep(PROGRESS_EVERY).await;
    }
}

/// Unfinished jobs of the benchmark.
pub(super) async fn open_jobs(client: &Client) -> anyhow::Result<usize> {
    open_jobs_of(client, QUEUE).await
}

/// Unfinished jobs of a queue.
pub(super) async fn open_jobs_of(client: &Client, queue: &str) -> anyhow::Result<usize> {
    let name = QueueName::new(queue)?;
    let depth = client.api().queue(client.caller(), name).await?.depth;
    let open: u64 = depth.iter().filter(|(state, _)| !state.is_final()).map(|(_, count)| *count).sum();
    Ok(usize::try_from(open)?)
}

async fn pick_up(
    client: &Client,
    seen: &HandledCount,
    job: &NoopJob,
    rounds: usize,
) -> anyhow::Result<Times> {
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        tokio::time::sleep(BREATH).await;
        seen.wanted.store(seen.count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let watch = Stopwatch::start();
        let submitted = async { client.submit(job.clone()).await.map(drop) };
        let reached = async {
            seen.reached.notified().await;
            watch.elapsed()
        };
        let (submitted, took) = tokio::join!(submitted, reached);
        submitted?;
        times.push(took);
    }
    Ok(Times::new(times))
}

/// CPU time that this process has used; zero if the system does not report it.
fn cpu_micros() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let field = |at: usize| after_name.split_whitespace().nth(at).and_then(|word| word.parse::<f64>().ok());
    // A tick is a hundredth of a second.
    (field(11).unwrap_or(0.0) + field(12).unwrap_or(0.0)) * 10_000.0
}
