//! A server whose PostgreSQL is away: probes are answered at once, callers within their own time, and SIGTERM ends it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_testkit::client::Request;
use windlass_testkit::cluster::{Cluster, schema_at};
use windlass_testkit::{ServerProcess, windlass};

/// A probe is answered within a second, a request within 26, and the server is gone 10 s after SIGTERM; a machine that is busy
/// with other things adds some.
const BUSY: Duration = Duration::from_secs(2);
const PROBED: Duration = Duration::from_secs(1);
const ANSWERED: Duration = Duration::from_secs(26);
const STOPPED: Duration = Duration::from_secs(10);

/// Sends a request, and expects the database error within this time.
async fn refused_within(
    server: &ServerProcess,
    method: &str,
    path: &str,
    body: Option<Value>,
    limit: Duration,
) {
    let request = Request::new(server.address, method, path);
    let request = if let Some(body) = &body { request.json(body) } else { request };
    let asked = Instant::now();
    let answer = request.send().await;
    assert_eq!(answer.status, 503, "{path}");
    assert!(asked.elapsed() < limit + BUSY, "{path} was answered after {:?}", asked.elapsed());
}

/// Model: answer-time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_its_database_answers_in_time_and_can_be_stopped() {
    let cluster = Cluster::start(&[]);
    let store = schema_at(&cluster.address());
    let server =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    server.post("/jobs", &json!({"type": "send", "payload": {}})).await;
    let ready = Request::new(server.address, "GET", "/readyz").send().await;
    assert_eq!(ready.status, 200);
    cluster.crash();
    let probes = async {
        for _ in 0..8 {
            refused_within(&server, "GET", "/readyz", None, PROBED).await;
        }
    };
    let job = json!({"type": "send", "payload": {}});
    let one = |path: &'static str| refused_within(&server, "GET", path, None, ANSWERED);
    tokio::join!(
        probes,
        refused_within(&server, "POST", "/api/v1/jobs", Some(job.clone()), ANSWERED),
        refused_within(&server, "POST", "/api/v1/jobs", Some(job), ANSWERED),
        one("/api/v1/jobs"),
        one("/api/v1/jobs"),
        one("/api/v1/queues"),
        one("/api/v1/stats"),
        one("/api/v1/workers"),
    );
    // A request is being served when the server stops.
    let list = Request::new(server.address, "GET", "/api/v1/jobs");
    let waiting = tokio::spawn(async move { list.start().await });
    let stopped = Instant::now();
    server.stop().await;
    assert!(stopped.elapsed() < STOPPED + BUSY, "it was gone after {:?}", stopped.elapsed());
    drop(waiting);
}
