//! How a test follows what workers and their handlers do. Nothing here sleeps: a test waits for an event.

use std::future::Future;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use windlass::client::Client;
use windlass::error::WorkError;
use windlass::job::{AttemptOutcome, JobId, JobState};
use windlass::store::caller::Caller;
use windlass::worker::{ShutdownReport, Worker, WorkerControl};

/// Longer than anything that happens promptly, shorter than the wait for a regular heartbeat.
pub(super) const PROMPTLY: Duration = Duration::from_secs(8);
/// Heartbeat interval of a worker that must receive interruptions without a heartbeat.
pub(super) const RARELY: Duration = Duration::from_secs(15);

pub(super) async fn verify(client: &Client) {
    for result in client.store().unwrap().verify().await.unwrap() {
        assert!(result.holds(), "{}: {}: {:#?}", result.code, result.promise, result.findings);
    }
}

pub(super) async fn outcomes(client: &Client, id: JobId) -> Vec<AttemptOutcome> {
    let attempts = client.api().attempts(&Caller::local(), id).await.unwrap().expect("the job is there");
    attempts.into_iter().filter_map(|attempt| attempt.record).map(|record| record.outcome).collect()
}

pub(super) async fn state(client: &Client, id: JobId) -> JobState {
    client.job(id).state().await.unwrap().expect("the job is there")
}

/// A worker that runs.
pub(super) struct Started {
    pub(super) control: WorkerControl,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<ShutdownReport, WorkError>>,
}

impl Started {
    pub(super) fn new(worker: Worker) -> Started {
        let control = worker.control();
        let (stop, stopped) = oneshot::channel();
        let ended = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
        Started { control, stop, ended }
    }

    /// Begins to stop; what is returned ends with the worker.
    pub(super) fn stopping(self) -> JoinHandle<Result<ShutdownReport, WorkError>> {
        self.stop.send(()).expect("the worker still runs");
        self.ended
    }

    pub(super) async fn stop(self) -> ShutdownReport {
        self.stopping().await.unwrap().unwrap()
    }

    /// What the worker ended with by itself.
    pub(super) async fn ended(self) -> Result<ShutdownReport, WorkError> {
        self.ended.await.unwrap()
    }
}

/// Events sent by handlers.
#[derive(Clone)]
pub(super) struct EventSender(mpsc::Sender<String>);

/// Events received by the test.
pub(super) struct EventReceiver(mpsc::Receiver<String>);

pub(super) fn events() -> (EventSender, EventReceiver) {
    let (sender, received) = mpsc::channel(100_000);
    (EventSender(sender), EventReceiver(received))
}

impl EventSender {
    pub(super) fn say(&self, what: impl Into<String>) {
        // A test that has received enough ignores the rest.
        let _ = self.0.try_send(what.into());
    }
}

impl EventReceiver {
    pub(super) async fn next(&mut self) -> String {
        within(PROMPTLY, self.0.recv()).await.expect("a sender is left")
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
