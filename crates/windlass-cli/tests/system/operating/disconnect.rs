//! Clients that disconnect: their database statements are cancelled.

use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;
use windlass_testkit::client::Request;
use windlass_testkit::cluster::{Cluster, as_user, binary, schema_at};
use windlass_testkit::{ServerProcess, windlass};

/// Far more than detection takes, far less than a read may last.
const NOTICED: Duration = Duration::from_secs(10);
/// More callers than there are readers.
const CALLERS: usize = 4;

/// Asks the database until the answer is this.
async fn until(cluster: &Cluster, sql: &str, expected: &str) {
    let asked = Instant::now();
    loop {
        let found = cluster.query(sql);
        if found == expected {
            return;
        }
        assert!(asked.elapsed() < NOTICED, "{found} instead of {expected}: {sql}");
        tokio::task::yield_now().await;
    }
}

/// Begins something that takes its time, and ends with its connection.
fn begin(cluster: &Cluster, sql: &str) -> Child {
    let mut command = as_user(&binary("psql"));
    command.args(["-U", "windlass", "-qtA", "-c", sql, "-h"]).arg(cluster.folder()).arg("postgres");
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("psql runs")
}

/// Model: answer-time. A read of a locked table is one statement that lasts as long as the lock; its clients disconnect one after the
/// other, and each statement is cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hangs_up_ends_its_statement() {
    let cluster = Cluster::start(&[]);
    let store = schema_at(&cluster.address());
    let server =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    let job = server.post("/jobs", &json!({"type": "send", "payload": {}})).await;
    let path = format!("/api/v1/jobs/{}", job["id"].as_str().unwrap());
    let schema = cluster.query("SELECT relnamespace::regnamespace FROM pg_class WHERE relname = 'edges'");
    let lock = format!("BEGIN; LOCK TABLE {schema}.jobs IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(600)");
    let mut holder = begin(&cluster, &lock);
    until(&cluster, "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted", "1")
        .await;
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'windlass' \
                   AND wait_event_type = 'Lock'";
    for _ in 0..CALLERS {
        let mut caller = TcpStream::connect(server.address).await.unwrap();
        caller.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await.unwrap();
        until(&cluster, waiting, "1").await;
        drop(caller);
        until(&cluster, waiting, "0").await;
    }
    // The readers are free again, and the job is found once the table is unlocked.
    assert_eq!(Request::new(server.address, "GET", "/api/v1/gate").send().await.status, 200);
    cluster.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)'");
    holder.wait().unwrap();
    assert_eq!(Request::new(server.address, "GET", &path).send().await.status, 200);
    server.stop().await;
}
