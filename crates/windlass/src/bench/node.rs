//! The workloads of several nodes on one PostgreSQL: the part of a node, which is a process of its own, and the part of the
//! coordinator, which prepares jobs and watches their progress.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::figure::rate;
use super::handlers::{HandledCount, NoopJob, PROGRESS_EVERY, QUEUE, nothing, open_jobs, open_jobs_of};
use super::plain::PlainConnection;
use crate::client::{Client, Job, JobDefaults};
use crate::clock::{Stopwatch, machine_time};
use crate::handler::State;
use crate::job::QueueName;
use crate::store::command::pause::{Pause, PauseTarget};
use crate::worker::Worker;

/// The queue of the jobs whose pick-up is measured.
const PING_QUEUE: &str = "bench-pick-up";
/// The queue of the jobs that each node submits before anything is measured.
const WARM_UP_QUEUE: &str = "bench-warm-up";
const WARM_UP_JOBS: usize = 3;
/// Jobs per batch of the backlog.
const BATCH: usize = 1_000;
/// Jobs whose pick-up is measured at least, however long a round trip takes.
pub const PINGS_MIN: usize = 3;
/// Times that each caller keeps; further calls are only counted.
const TIMES_MAX: usize = 50_000;

/// What one node measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CallTimes {
    /// Number of calls, or of handled jobs.
    pub count: usize,
    /// How long that took, in seconds.
    pub seconds: f64,
    /// Times of single calls or jobs, in microseconds.
    pub micros: Vec<u64>,
}

impl CallTimes {
    /// The rate per second.
    pub fn rate(&self) -> f64 {
        rate(self.count, Duration::from_secs_f64(self.seconds))
    }

    /// The times of single calls or jobs.
    pub fn times(&self) -> impl Iterator<Item = Duration> {
        self.micros.iter().copied().map(Duration::from_micros)
    }

    fn record(&mut self, took: Duration) {
        self.count += 1;
        if self.micros.len() < TIMES_MAX {
            self.micros.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
    }

    fn merge(parts: impl IntoIterator<Item = CallTimes>, took: Duration) -> CallTimes {
        let mut all = CallTimes { seconds: took.as_secs_f64(), ..CallTimes::default() };
        for part in parts {
            all.count += part.count;
            all.micros.extend(part.micros);
        }
        all
    }
}

/// A job that carries the moment of its submission.
#[derive(Serialize, Deserialize)]
struct Ping {
    sent: Duration,
}

impl Job for Ping {
    const TYPE: &'static str = "bench.ping";
    type Output = ();

    fn defaults() -> JobDefaults {
        JobDefaults { queue: Some(PING_QUEUE), ..JobDefaults::default() }
    }
}

/// A job without a worker.
#[derive(Serialize, Deserialize)]
struct WarmUp {}

impl Job for WarmUp {
    const TYPE: &'static str = "bench.warm-up";
    type Output = ();

    fn defaults() -> JobDefaults {
        JobDefaults { queue: Some(WARM_UP_QUEUE), ..JobDefaults::default() }
    }
}

type Pings = Arc<Mutex<CallTimes>>;

async fn ping(job: Ping, State(pings): State<Pings>) -> Result<(), std::convert::Infallible> {
    let took = machine_time().saturating_sub(job.sent);
    pings.lock().unwrap_or_else(PoisonError::into_inner).record(took);
    Ok(())
}

/// One node: a process with a store of its own.
pub struct Node {
    client: Client,
}

impl Node {
    /// Opens the store, with its maintenance, as every node runs it.
    pub async fn open(address: &str) -> anyhow::Result<Node> {
        let client = Client::open(address).await?;
        // A connection prepares its statements on first use, under the lock that all nodes wait for.
        for _ in 0..WARM_UP_JOBS {
            client.submit(WarmUp {}).await?;
        }
        Ok(Node { client })
    }

    /// Submits one by one with several callers until the time is over.
    pub async fn submit(&self, callers: usize, payload: usize, time: Duration) -> anyhow::Result<CallTimes> {
        let watch = Stopwatch::start();
        let mut tasks = Vec::with_capacity(callers);
        for _ in 0..callers {
            let (client, job) = (self.client.clone(), NoopJob::of_size(payload));
            tasks.push(tokio::spawn(async move {
                let mut measured = CallTimes::default();
                while watch.elapsed() < time {
                    let one = Stopwatch::start();
                    client.submit(job.clone()).await?;
                    measured.record(one.elapsed());
                }
                anyhow::Ok(measured)
            }));
        }
        let mut parts = Vec::with_capacity(callers);
        for task in tasks {
            parts.push(task.await??);
        }
        Ok(CallTimes::merge(parts, watch.elapsed()))
    }

    /// Handles jobs that do nothing until `over`; returns their number.
    pub async fn work(&self, slots: usize, over: impl Future) -> anyhow::Result<CallTimes> {
        let seen = Arc::new(HandledCount::default());
        let worker = Worker::new(&self.client).with(seen.clone()).queue(QUEUE, slots).handle(nothing);
        worker.run_until(over).await?;
        Ok(CallTimes { count: seen.count.load(Ordering::Relaxed), ..CallTimes::default() })
    }

    /// Waits for single jobs until `over`; returns how long after their submission the handlers of this node started.
    pub async fn pick_up(&self, slots: usize, over: impl Future) -> anyhow::Result<CallTimes> {
        let pings = Pings::default();
        let worker = Worker::new(&self.client).with(pings.clone()).queue(PING_QUEUE, slots).handle(ping);
        worker.run_until(over).await?;
        let measured = pings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(measured)
    }

    /// Submits single jobs with a pause before each, until the time is over; [`PINGS_MIN`] at least.
    pub async fn send_pings(&self, pause: Duration, time: Duration) -> anyhow::Result<()> {
        let (watch, mut sent) = (Stopwatch::start(), 0);
        while sent < PINGS_MIN || watch.elapsed() < time {
            sent += 1;
            tokio::time::sleep(pause).await;
            self.client.submit(Ping { sent: machine_time() }).await?;
        }
        Ok(())
    }
}

/// The same number of callers as in [`Node::submit`], each with a plain connection.
pub struct PlainCallers(Vec<PlainConnection>);

impl PlainCallers {
    /// Connects. Blocks.
    pub fn open(address: &str, callers: usize) -> anyhow::Result<PlainCallers> {
        let connections = (0..callers).map(|_| PlainConnection::open(address));
        Ok(PlainCallers(connections.collect::<Result<_, _>>()?))
    }

    /// Inserts rows one by one until the time is over, each with its own commit. Blocks.
    pub fn insert(self, payload: usize, time: Duration) -> anyhow::Result<CallTimes> {
        let (payload, watch, has_failed) = (vec![b'x'; payload], Stopwatch::start(), AtomicBool::new(false));
        let caller = |mut connection: PlainConnection| {
            let mut measured = CallTimes::default();
            while watch.elapsed() < time && !has_failed.load(Ordering::Relaxed) {
                let one = Stopwatch::start();
                connection.insert(&payload).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
                measured.record(one.elapsed());
            }
            anyhow::Ok(measured)
        };
        let parts = std::thread::scope(|scope| {
            let started: Vec<_> =
                self.0.into_iter().map(|connection| scope.spawn(|| caller(connection))).collect();
            let ended = started.into_iter().map(std::thread::ScopedJoinHandle::join);
            ended.map(|part| part.map_err(|_| anyhow::anyhow!("a caller panicked"))?).collect::<Vec<_>>()
        });
        Ok(CallTimes::merge(parts.into_iter().collect::<anyhow::Result<Vec<_>>>()?, watch.elapsed()))
    }
}

/// The coordinator of several nodes: it has a store of its own, without a delay.
pub struct Coordinator {
    client: Client,
}

impl Coordinator {
    /// Opens the store, or creates it.
    pub async fn open(address: &str) -> anyhow::Result<Coordinator> {
        Ok(Coordinator { client: Client::open(address).await? })
    }

    /// Closes the store.
    pub fn close(self) {
        self.client.close();
    }

    /// Waits until so many workers are registered.
    pub async fn await_workers(&self, workers: usize) -> anyhow::Result<()> {
        while self.client.api().config(self.client.caller()).await?.workers.len() != workers {
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
        Ok(())
    }

    /// Waits until all jobs of [`Node::send_pings`] are finished.
    pub async fn await_pings(&self) -> anyhow::Result<()> {
        while open_jobs_of(&self.client, PING_QUEUE).await? > 0 {
            tokio::time::sleep(PROGRESS_EVERY).await;
        }
        Ok(())
    }

    /// Pauses the queue of the backlog, and submits jobs until it holds so many.
    pub async fn prepare(&self, backlog: usize, payload: usize) -> anyhow::Result<()> {
        let queue = PauseTarget::Queue(QueueName::new(QUEUE)?);
        self.client.api().pause(self.client.caller(), queue, Pause::default()).await?;
        let missing = backlog.saturating_sub(open_jobs(&self.client).await?);
        for _ in 0..missing.div_ceil(BATCH) {
            self.client.submit_all(vec![NoopJob::of_size(payload); BATCH]).await?;
        }
        Ok(())
    }

    /// Resumes the queue of the backlog; returns the rate at which its jobs finish, until all are or the time is over.
    pub async fn drain(&self, time: Duration) -> anyhow::Result<f64> {
        let queue = PauseTarget::Queue(QueueName::new(QUEUE)?);
        let waiting = open_jobs(&self.client).await?;
        self.client.api().resume(self.client.caller(), queue, None).await?;
        let watch = Stopwatch::start();
        loop {
            tokio::time::sleep(PROGRESS_EVERY).await;
            let (open, took) = (open_jobs(&self.client).await?, watch.elapsed());
            if open == 0 || took >= time {
                return Ok(rate(waiting.saturating_sub(open), took));
            }
        }
    }
}
