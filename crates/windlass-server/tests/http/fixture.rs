//! A server on a free port over a store of its own, with a clock that the test moves.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass::Store;
use windlass::clock::{ManualClock, Timestamp};
use windlass::entropy::Entropy;
use windlass::store::{Environment, StoreOptions};
use windlass_server::server::Options;
use windlass_testkit::client::{Request, TestResponse};
use windlass_testkit::{InProcessServer, cluster, store_folder, store_in};

/// Which engine is behind a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each run has one of them")]
pub(crate) enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    /// The address of a new store: this file, or a new schema.
    fn address(self, file: String) -> String {
        match self {
            Engine::Sqlite => file,
            Engine::Postgres => cluster::new_schema(),
        }
    }
}

/// A running server.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) address: SocketAddr,
    server: Option<InProcessServer>,
    _folder: TempDir,
}

impl Fixture {
    /// A server over a new SQLite file.
    pub(crate) async fn new() -> Fixture {
        Fixture::with(StoreOptions::default()).await
    }

    /// The same with options of the test's.
    pub(crate) async fn with(options: StoreOptions) -> Fixture {
        Fixture::served_with(options, Options::default()).await
    }

    /// The same with options of the server, which listens on a free port.
    pub(crate) async fn served_with(options: StoreOptions, serving: Options) -> Fixture {
        let folder = store_folder();
        // 2030-01-01, some time in a working life of the store.
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_893_456_000_000)));
        let environment = Environment::new(clock.clone(), Entropy::seeded(1), options);
        let file = store_in(folder.path());
        let opened =
            tokio::task::spawn_blocking(|| Store::open_in(&crate::ENGINE.address(file), environment));
        let store = opened.await.unwrap().unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = InProcessServer::with_options(store.clone(), Options { listen, ..serving });
        Fixture { store, clock, address: server.address, server: Some(server), _folder: folder }
    }

    /// A request below `/api/v1`.
    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        Request::new(self.address, method, &format!("/api/v1{path}"))
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.request("GET", path).send().await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> TestResponse {
        self.request("POST", path).json(&body).send().await
    }

    /// Posts, and expects this status.
    pub(crate) async fn post_ok(&self, status: u16, path: &str, body: Value) -> Value {
        let answer = self.post(path, body).await;
        assert_eq!(answer.status, status, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// Gets, and expects 200.
    pub(crate) async fn get_ok(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// Submits a job and gives its id.
    pub(crate) async fn submit(&self, job: Value) -> String {
        let job = self.post_ok(201, "/jobs", job).await;
        job["id"].as_str().unwrap().to_owned()
    }

    /// Registers a worker for everything and gives its id.
    pub(crate) async fn worker(&self) -> String {
        let worker =
            self.post_ok(201, "/workers", json!({"queues": [], "types": [], "concurrency": 10})).await;
        worker["worker_id"].as_str().unwrap().to_owned()
    }

    /// Claims one job.
    pub(crate) async fn claim(&self, worker: &str) -> Value {
        let claimed = self.post_ok(200, "/claims", json!({"worker_id": worker})).await;
        assert_eq!(claimed["jobs"].as_array().unwrap().len(), 1, "{claimed}");
        claimed["jobs"][0].clone()
    }

    /// Reports one outcome and returns its result.
    pub(crate) async fn report(&self, worker: &str, outcome: Value) -> Value {
        let answer =
            self.post_ok(200, "/outcomes", json!({"worker_id": worker, "outcomes": [outcome]})).await;
        answer["outcomes"][0].clone()
    }

    /// Submits a job and lets it complete.
    pub(crate) async fn completed(&self, job: Value) -> String {
        let (id, worker) = (self.submit(job).await, self.worker().await);
        let claimed = self.claim(&worker).await;
        let report =
            json!({"id": id, "fence": claimed["fence"], "outcome": "completed", "result": {"ok": true}});
        assert_eq!(self.report(&worker, report).await["status"], "applied");
        id
    }

    /// Moves the clock and lets time act.
    pub(crate) async fn advance(&self, by: Duration) {
        self.clock.advance(by);
        self.store.tick().await.unwrap();
    }

    /// Stops the server, and waits until it has.
    pub(crate) async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop().await;
        }
    }
}

/// Asserts a refusal: status, code, and the field it names.
pub(crate) fn assert_refused(answer: &TestResponse, status: u16, code: &str, field: Option<&str>) {
    let body = answer.json();
    assert_eq!((answer.status, body["error"]["code"].as_str()), (status, Some(code)), "{body}");
    assert!(body["error"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    if let Some(field) = field {
        assert_eq!(body["error"]["details"]["field"], field, "{body}");
    }
}
