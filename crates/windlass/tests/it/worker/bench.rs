//! Queues with workers on every engine, and the events by which a test follows what handlers do. Nothing here sleeps: a
//! test waits for an event, or lets tokio's own clock jump.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use windlass::clock::{Clock, Timestamp};
use windlass::entropy::Entropy;
use windlass::error::WorkError;
use windlass::job::{AttemptOutcome, JobId, State};
use windlass::queue::Queue;
use windlass::store::Store;
use windlass::store::caller::Caller;
use windlass::store::environment::{Environment, StoreOptions};
use windlass::store::query::snapshot::Snapshot;
use windlass::testing::TestQueue;
use windlass::worker::{Farewell, Worker, WorkerControl};

use super::kinds::Fill;
use crate::fixture::{On, START};

/// Longer than anything that happens promptly, shorter than the wait for a heartbeat that is not told to come earlier.
pub(super) const PROMPTLY: Duration = Duration::from_secs(8);
/// What a worker beats at that must hear its news without a beat.
pub(super) const RARELY: Duration = Duration::from_secs(15);

/// A queue that is kept going, and whose workers run.
pub(super) struct Bench {
    pub(super) queue: Queue,
    pub(super) address: String,
    _files: Option<TempDir>,
}

/// Tokio's clock, which jumps when everybody waits.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(START).plus(self.0.elapsed())
    }
}

impl Bench {
    pub(super) fn new(on: On) -> Bench {
        let (files, address) = on.address();
        let store = Store::open(&address, StoreOptions::default()).unwrap();
        Bench { queue: Queue::over(store), address, _files: files }
    }

    /// In memory, where nothing leaves the thread: with tokio's time paused, hours pass in no time.
    pub(super) fn in_virtual_time() -> Bench {
        Bench { queue: Queue::over(store_in_virtual_time()), address: "memory:".into(), _files: None }
    }

    /// The same, but nobody keeps the store going: no promotion, no reaping, no news of what time does.
    pub(super) fn in_silence() -> Bench {
        Bench { queue: Queue::over_kept(store_in_virtual_time()), address: "memory:".into(), _files: None }
    }

    pub(super) fn worker(&self) -> Worker {
        Worker::new(&self.queue)
    }

    /// Gives anybody who would do something wrong the time to do it, where time costs nothing.
    pub(super) async fn let_time_pass(&self) {
        if self.address == "memory:" {
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
    }

    /// Waits until everything that was announced has been looked at: a job of another worker comes and goes.
    pub(super) async fn settle(&self) {
        self.let_time_pass().await;
        let sentinel = self.queue.submit(Fill { bytes: 1 }).queue("sentinel").await.unwrap();
        let quick = |_: Fill| async { anyhow::Ok(String::new()) };
        let other = Started::new(self.worker().queue("sentinel", 1).handle(quick));
        sentinel.result(PROMPTLY).await.unwrap();
        other.stop().await;
    }

    pub(super) async fn job(&self, id: JobId) -> Snapshot {
        self.queue.job(id).snapshot().await.unwrap().expect("the job is there")
    }

    /// How each ended attempt of a job ended.
    pub(super) async fn outcomes(&self, id: JobId) -> Vec<AttemptOutcome> {
        outcomes(&self.queue, id).await
    }

    /// Every invariant holds; ends the store.
    pub(super) async fn verify(self) {
        verify(&self.queue).await;
        self.queue.close();
    }
}

fn store_in_virtual_time() -> Store {
    let clock = Arc::new(TokioClock(Instant::now()));
    Store::open_in("memory:", Environment::new(clock, Entropy::seeded(1), StoreOptions::default())).unwrap()
}

/// A queue with a clock that moves when told to, on any engine; its files go with the guard.
pub(super) fn test_queue(on: On) -> (TestQueue, Option<TempDir>) {
    let (files, address) = on.address();
    (TestQueue::open(&address), files)
}

pub(super) async fn verify(queue: &Queue) {
    for verdict in queue.store().verify().await.unwrap() {
        assert!(verdict.holds(), "{}: {}: {:#?}", verdict.code, verdict.promise, verdict.findings);
    }
}

pub(super) async fn outcomes(queue: &Queue, id: JobId) -> Vec<AttemptOutcome> {
    let attempts = queue.store().attempts(&Caller::local(), id).await.unwrap().expect("the job is there");
    attempts.into_iter().filter_map(|attempt| attempt.record).map(|record| record.outcome).collect()
}

pub(super) async fn state(queue: &Queue, id: JobId) -> State {
    queue.job(id).state().await.unwrap().expect("the job is there")
}

/// A worker that runs.
pub(super) struct Started {
    pub(super) control: WorkerControl,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<Farewell, WorkError>>,
}

impl Started {
    pub(super) fn new(worker: Worker) -> Started {
        let control = worker.control();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
        Started { control, stop, ended }
    }

    /// Begins to stop; what is returned ends with the worker.
    pub(super) fn stopping(self) -> JoinHandle<Result<Farewell, WorkError>> {
        self.stop.send(()).expect("the worker still runs");
        self.ended
    }

    pub(super) async fn stop(self) -> Farewell {
        self.stopping().await.unwrap().unwrap()
    }

    /// What the worker ended with by itself.
    pub(super) async fn ended(self) -> Result<Farewell, WorkError> {
        self.ended.await.unwrap()
    }
}

/// What handlers tell the test.
#[derive(Clone)]
pub(super) struct Told(mpsc::Sender<String>);

/// What the test hears.
pub(super) struct Heard(mpsc::Receiver<String>);

pub(super) fn events() -> (Told, Heard) {
    let (told, heard) = mpsc::channel(100_000);
    (Told(told), Heard(heard))
}

impl Told {
    pub(super) fn say(&self, what: impl Into<String>) {
        // A test that has heard enough need not hear the rest.
        let _ = self.0.try_send(what.into());
    }
}

impl Heard {
    pub(super) async fn next(&mut self) -> String {
        within(PROMPTLY, self.0.recv()).await.expect("somebody still speaks")
    }

    pub(super) async fn expect(&mut self, what: &str) {
        assert_eq!(self.next().await, what);
    }

    /// Everything that was said until now.
    pub(super) fn all(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

/// What comes in time.
pub(super) async fn within<T>(time: Duration, event: impl Future<Output = T>) -> T {
    tokio::time::timeout(time, event).await.expect("it happens in time")
}

/// Runs each test of a module on every engine, with workers that run: in memory in virtual time, else in real time.
macro_rules! on_every_engine {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                let bench = crate::worker::bench::Bench::in_virtual_time();
                super::$name(&bench).await;
                bench.verify().await;
            })*
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let bench = crate::worker::bench::Bench::new(crate::fixture::On::Sqlite);
                super::$name(&bench).await;
                bench.verify().await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let bench = crate::worker::bench::Bench::new(crate::fixture::On::Postgres);
                super::$name(&bench).await;
                bench.verify().await;
            })*
        }
    };
}

/// Runs each test of a module on every engine, with a clock and workers that do what they are told.
macro_rules! step_by_step_on_every_engine {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                let t = windlass::testing::TestQueue::new();
                super::$name(&t).await;
                crate::worker::bench::verify(t.queue()).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let (t, _files) = crate::worker::bench::test_queue(crate::fixture::On::Sqlite);
                super::$name(&t).await;
                crate::worker::bench::verify(t.queue()).await;
                t.queue().close();
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let (t, _files) = crate::worker::bench::test_queue(crate::fixture::On::Postgres);
                super::$name(&t).await;
                crate::worker::bench::verify(t.queue()).await;
                t.queue().close();
            })*
        }
    };
}

pub(super) use {on_every_engine, step_by_step_on_every_engine};
