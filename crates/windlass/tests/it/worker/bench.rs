//! What a test does with a bench, embedded or behind a server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use windlass::clock::{Clock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{AttemptOutcome, JobId};
use windlass::store::{Environment, Snapshot, Store, StoreOptions};
use windlass::worker::Worker;

use super::follow::{PROMPTLY, Started, outcomes};
use super::harness::Bench;
use super::job_types::Fill;
use crate::fixture::START;

/// Tokio's clock, which jumps when all tasks wait.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(START).plus(self.0.elapsed())
    }
}

/// A store in memory on tokio's clock.
pub(super) fn store_in_virtual_time() -> Store {
    let clock = Arc::new(TokioClock(Instant::now()));
    Store::open_in("memory:", Environment::new(clock, Entropy::seeded(1), StoreOptions::default())).unwrap()
}

impl Bench {
    pub(super) fn worker(&self) -> Worker {
        Worker::new(&self.client)
    }

    /// Gives any task that would do something wrong the time to do it, where time costs nothing.
    pub(super) async fn let_time_pass(&self) {
        if self.address == "memory:" {
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
    }

    /// Waits until everything that was announced has been looked at: a job of another worker comes and goes.
    pub(super) async fn settle(&self) {
        self.let_time_pass().await;
        let sentinel = self.client.submit(Fill { bytes: 1 }).queue("sentinel").await.unwrap();
        let quick = |_: Fill| async { anyhow::Ok(String::new()) };
        let other = Started::new(self.worker().queue("sentinel", 1).handle(quick));
        sentinel.result(PROMPTLY).await.unwrap();
        other.stop().await;
    }

    pub(super) async fn job(&self, id: JobId) -> Snapshot {
        self.client.job(id).snapshot().await.unwrap().expect("the job is there")
    }

    /// How each ended attempt of a job ended.
    pub(super) async fn outcomes(&self, id: JobId) -> Vec<AttemptOutcome> {
        outcomes(&self.client, id).await
    }
}
