//! Clients with workers, each with its own server on a real port. Tests with virtual time stay embedded: a network cannot
//! run in virtual time.

use tempfile::TempDir;
use windlass::client::Client;
use windlass::store::{Store, StoreOptions};
use windlass::testing::TestClient;
use windlass_testkit::InProcessServer;

use super::bench::store_in_virtual_time;
pub(super) use super::follow::*;
use crate::fixture::On;

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

    /// Every invariant holds; ends the store.
    pub(super) async fn verify(self) {
        verify(&self.kept).await;
        self.client.close();
        self.kept.close();
    }
}

/// A queue with a clock that moves when asked to, behind a server.
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

/// Runs each test of a module through a server, with a clock and workers that do what they are asked.
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
