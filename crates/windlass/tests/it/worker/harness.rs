//! Queues with workers on every engine. Nothing here sleeps: a test waits for an event, or lets tokio's own clock jump.

use tempfile::TempDir;
use windlass::client::Client;
use windlass::store::{Store, StoreOptions};
use windlass::testing::TestClient;

use super::bench::store_in_virtual_time;
pub(super) use super::follow::*;
use crate::fixture::On;

/// A queue that is kept going, and whose workers run.
pub(super) struct Bench {
    pub(super) client: Client,
    pub(super) address: String,
    _files: Option<TempDir>,
}

impl Bench {
    pub(super) fn new(on: On) -> Bench {
        let (files, address) = on.address();
        let store = Store::open(&address, StoreOptions::default()).unwrap();
        Bench { client: Client::from_store(store), address, _files: files }
    }

    /// In memory, where nothing leaves the thread: with tokio's time paused, hours pass in no time.
    pub(super) fn in_virtual_time() -> Bench {
        Bench { client: Client::from_store(store_in_virtual_time()), address: "memory:".into(), _files: None }
    }

    /// Like `new`, but without maintenance: no promotion, no reaping, no timer events.
    pub(super) fn in_silence() -> Bench {
        Bench {
            client: Client::from_store_without_maintenance(store_in_virtual_time()),
            address: "memory:".into(),
            _files: None,
        }
    }

    /// Every invariant holds; ends the store.
    pub(super) async fn verify(self) {
        verify(&self.client).await;
        self.client.close();
    }
}

/// A client with a manual clock, on any engine; its files are deleted with the guard.
pub(super) fn test_queue(on: On) -> (TestClient, Option<TempDir>) {
    let (files, address) = on.address();
    (TestClient::open(&address), files)
}

/// Runs each test of a module on every engine, with workers that run: in memory in virtual time, else in real time.
macro_rules! on_every_engine {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test(start_paused = true)]
            async fn $name() {
                let bench = crate::worker::harness::Bench::in_virtual_time();
                super::$name(&bench).await;
                bench.verify().await;
            })*
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let bench = crate::worker::harness::Bench::new(crate::fixture::On::Sqlite);
                super::$name(&bench).await;
                bench.verify().await;
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let bench = crate::worker::harness::Bench::new(crate::fixture::On::Postgres);
                super::$name(&bench).await;
                bench.verify().await;
            })*
        }
    };
}

/// Runs each test of a module on every engine, with a manual clock and workers that run on demand.
macro_rules! step_by_step_on_every_engine {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                let t = windlass::testing::TestClient::new();
                super::$name(&t).await;
                crate::worker::harness::verify(t.client()).await;
            })*
        }
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                let (t, _files) = crate::worker::harness::test_queue(crate::fixture::On::Sqlite);
                super::$name(&t).await;
                crate::worker::harness::verify(t.client()).await;
                t.client().close();
            })*
        }
        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                let (t, _files) = crate::worker::harness::test_queue(crate::fixture::On::Postgres);
                super::$name(&t).await;
                crate::worker::harness::verify(t.client()).await;
                t.client().close();
            })*
        }
    };
}

pub(super) use {on_every_engine, step_by_step_on_every_engine};
