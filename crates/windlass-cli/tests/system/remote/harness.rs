//! Clients with workers, each with its own server on a real port. Tests with virtual time stay embedded: a network cannot
//! run in virtual time.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::time::Instant;
use windlass::client::Client;
use windlass::clock::{Clock, Timestamp};
use windlass::entropy::Entropy;
use windlass::job::{AttemptOutcome, JobId};
use windlass::store::Store;
use windlass::store::environment::{Environment, StoreOptions};
use windlass::store::query::snapshot::Snapshot;
use windlass::testing::TestClient;
use windlass::worker::Worker;
use windlass_testkit::InProcessServer;

pub(super) use super::follow::*;
use super::job_types::Fill;
use crate::fixture::{On, START};

/// A queue behind a server, and whose workers run.
pub(super) struct Bench {
    /// As a client has it.
    pub(super) client: Client,
    pub(super) address: String,
    /// As the server has it; kept going here.
    kept: Client,
    _server: Option<InProcessServer>,
    _files: Option<TempDir>,
}

/// Tokio's clock, which jumps when everybody waits.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(START).plus(self.0.elapsed())
    }
}

/// A queue that is reached through a server.
fn reached(server: &InProcessServer) -> Client {
    Client::connect(&server.url, StoreOptions::default()).unwrap()
}

impl Bench {
    pub(super) fn new(on: On) -> Bench {
        let (files, address) = on.address();
        let store = Store::open(&address, StoreOptions::default()).unwrap();
        let server = InProcessServer::new(store.clone());
        Bench {
            client: reached(&server),
            address: server.url.clone(),
            kept: Client::from_store(store),
            _server: Some(server),
            _files: files,
        }
    }

    /// Embedded, where nothing leaves the thread: with tokio's time paused, hours pass in no time.
    pub(super) fn in_virtual_time() -> Bench {
        Bench::embedded(Client::from_store(store_in_virtual_time()))
    }

    /// The same without maintenance: no promotion, no lease expiry, no timer notifications.
    pub(super) fn in_silence() -> Bench {
        Bench::embedded(Client::from_store_without_maintenance(store_in_virtual_time()))
    }

    fn embedded(client: Client) -> Bench {
        Bench { client: client.clone(), address: "memory:".into(), kept: client, _server: None, _files: None }
    }

    pub(super) fn worker(&self) -> Worker {
        Worker::new(&self.client)
    }

    /// Gives a wrong implementation time to act, in virtual time.
    pub(super) async fn let_time_pass(&self) {
        if self.address == "memory:" {
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
    }

    /// Waits until all notifications have been processed: a job of another worker comes and goes.
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

    /// Every invariant holds; ends the store.
    pub(super) async fn verify(self) {
        verify(&self.kept).await;
        self.client.close();
        self.kept.close();
    }
}

fn store_in_virtual_time() -> Store {
    let clock = Arc::new(TokioClock(Instant::now()));
    Store::open_in("memory:", Environment::new(clock, Entropy::seeded(1), StoreOptions::default())).unwrap()
}

/// A queue with a clock that moves when told to, behind a server.
pub(super) fn test_queue(on: On) -> (TestClient, InProcessServer, Option<TempDir>) {
    let (files, address) = on.address();
    let t = TestClient::open(&address);
    let server = InProcessServer::new(t.store().clone());
    (t.through(&server.url), server, files)
}

/// Every invariant of the store behind the server holds.
pub(super) async fn verify_kept(t: &TestClient) {
    verify(&Client::from_store_without_maintenance(t.store().clone())).await;
}

/// Runs each test of a module through a server, with workers that run.
macro_rules! on_every_engine {
    ($($name:ident),* $(,)?) => {
        mod http {
            $(#[tokio::test]
            async fn $name() {
                let bench = crate::remote::harness::Bench::new(crate::fixture::On::Sqlite);
                super::$name(&bench).await;
                bench.verify().await;
            })*
        }
    };
}

/// Runs each test of a module through a server, with a clock and workers that do what they are told.
macro_rules! step_by_step_on_every_engine {
    ($($name:ident),* $(,)?) => {
        mod http {
            $(#[tokio::test]
            async fn $name() {
                let (t, _server, _files) = crate::remote::harness::test_queue(crate::fixture::On::Sqlite);
                super::$name(&t).await;
                crate::remote::harness::verify_kept(&t).await;
            })*
        }
    };
}

pub(super) use {on_every_engine, step_by_step_on_every_engine};
