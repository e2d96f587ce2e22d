//! The server as a process whose wall clock jumps, or that was away for a while: nothing is lost, and operators can see it
//! everywhere.

use std::path::Path;

use serde_json::{Value, json};
use tokio::process::Command;
use windlass_testkit::client::Request;
use windlass_testkit::cluster::{Cluster, schema_at};
use windlass_testkit::faketime;
use windlass_testkit::{PATIENCE, ServerProcess, store_folder, store_in, windlass};

fn serve(store: &str, clock: &Path) -> Command {
    let mut command = windlass(&["serve", "--listen", "127.0.0.1:0", "--store", store]);
    command.envs(faketime::by_file(clock));
    command
}

async fn get(served: &ServerProcess, path: &str) -> Value {
    let answer = served.request("GET", path).send().await;
    assert_eq!(answer.status, 200, "{path}");
    answer.json()
}

async fn text(served: &ServerProcess, path: &str) -> String {
    let answer = Request::new(served.address, "GET", path).send().await;
    assert_eq!(answer.status, 200, "{path}");
    String::from_utf8(answer.body).unwrap()
}

/// Waits until the server trusts its clock, or does not.
async fn until_believed(served: &ServerProcess, is_believed: bool) -> Value {
    let change = async {
        loop {
            // A commit, at which the clock is read.
            served.post("/jobs", &json!({"type": "a", "queue": "other"})).await;
            let clock = get(served, "/clock").await;
            if clock["believed"] == is_believed {
                return clock;
            }
        }
    };
    tokio::time::timeout(PATIENCE, change).await.expect("it is noticed")
}

/// A worker with this many jobs in hand, as the body of its heartbeats.
async fn worker_with(served: &ServerProcess, jobs: usize) -> Value {
    let job = json!({"type": "a", "queue": "mail"});
    served.post("/jobs/batch", &json!({"jobs": vec![job; jobs]})).await;
    let worker =
        served.post("/workers", &json!({"queues": ["mail"], "types": []})).await["worker_id"].clone();
    let claimed = served.post("/claims", &json!({"worker_id": worker, "limit": jobs})).await;
    let held = claimed["jobs"].as_array().unwrap().iter();
    let held: Vec<Value> = held.map(|job| json!({"id": job["id"], "fence": job["fence"]})).collect();
    assert_eq!(held.len(), jobs);
    json!({"worker_id": worker, "jobs": held})
}

async fn assert_held(served: &ServerProcess, beat: &Value) {
    let response = served.post("/heartbeats", beat).await;
    let response = response["jobs"].as_array().unwrap().iter();
    let lost: Vec<&Value> = response.filter(|job| job["directive"] != "continue").collect();
    assert!(lost.is_empty(), "{lost:?}");
}

async fn cli(arguments: &[&str]) -> (Option<i32>, String) {
    let output = windlass(arguments).output().await.unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Model: store-time, leases-and-heartbeats, lifetime. Seen in `GET /clock`, the metrics, the dashboard, `explain` and `windlass clock`; accepted by an operator.
#[tokio::test]
async fn a_wall_clock_that_jumps_is_seen_everywhere_and_accepted_by_an_operator() {
    let folder = store_folder();
    let clock = folder.path().join("clock");
    faketime::set(&clock, 0);
    let served = ServerProcess::start(serve(&store_in(folder.path()), &clock)).await;
    let url = format!("http://{}", served.address);
    let beat = worker_with(&served, 5).await;
    let later = served.post("/jobs", &json!({"type": "a", "delay": "5m"})).await["id"].clone();
    let shown = until_believed(&served, true).await;
    assert!(shown["difference_ms"].as_i64().unwrap().abs() < 1_000, "{shown}");
    assert_eq!(cli(&["clock", "--url", &url]).await.0, Some(0));

    faketime::set(&clock, 8 * 24 * 3600);
    let shown = until_believed(&served, false).await;
    assert!(shown["difference_ms"].as_i64().unwrap() > 7 * 24 * 3_600_000, "{shown}");
    assert_held(&served, &beat).await;
    let metrics = text(&served, "/metrics").await;
    assert!(metrics.contains("\nwindlass_clock_believed 0\n"), "{metrics}");
    assert!(text(&served, "/").await.contains("store time and is not trusted"));
    assert!(text(&served, "/settings").await.contains("Accept the wall clock"));
    let reasons = get(&served, &format!("/jobs/{}/explain", later.as_str().unwrap())).await;
    let not_due = reasons["reasons"].as_array().unwrap().iter().find(|reason| reason["code"] == "not_due");
    assert_eq!(not_due.expect("it waits")["clock_believed"], false);
    let (code, said) = cli(&["clock", "--url", &url]).await;
    assert!(code == Some(1) && said.contains("not trusted"), "{code:?} {said}");

    faketime::set(&clock, 600);
    let (code, said) = cli(&["clock", "accept", "--url", &url]).await;
    assert!(code == Some(0) && said.contains("believed"), "{code:?} {said}");
    let shown = until_believed(&served, true).await;
    assert!(shown["difference_ms"].as_i64().unwrap().abs() < 1_000, "{shown}");
    assert_held(&served, &beat).await;
    let states = get(&served, "/stats").await["states"].clone();
    assert_eq!((&states["running"], &states["dead_letter"]), (&json!(5), &json!(0)));
    let audit = get(&served, "/audit?event=clock.ops.accepted").await;
    assert_eq!(audit["records"].as_array().unwrap().len(), 1);
    let said = served.stop().await;
    assert_eq!(said.matches("jumped and is not believed").count(), 1, "once per change: {said}");
}

/// A server is killed and comes back `seconds` later, by the clock in a file; its worker beats on.
async fn killed_and_back(store: &str, clock: &Path, seconds: i64) {
    let served = ServerProcess::start(serve(store, clock)).await;
    let beat = worker_with(&served, 50).await;
    assert_held(&served, &beat).await;
    served.kill().await;
    faketime::set(clock, seconds);
    let served = ServerProcess::start(serve(store, clock)).await;
    // Some rounds of maintenance come first.
    for _ in 0..5 {
        served.post("/jobs", &json!({"type": "a", "queue": "other"})).await;
    }
    assert_held(&served, &beat).await;
    let states = get(&served, "/stats").await["states"].clone();
    assert_eq!((&states["running"], &states["retrying"]), (&json!(50), &json!(0)), "{seconds}");
    served.stop().await;
}

/// Model: store-time, leases-and-heartbeats. Longer than silence may last, and longer than a lease.
#[tokio::test]
async fn a_server_that_was_away_ends_no_lease_on_a_file() {
    for seconds in [40, 600] {
        let folder = store_folder();
        let clock = folder.path().join("clock");
        faketime::set(&clock, 0);
        killed_and_back(&store_in(folder.path()), &clock, seconds).await;
    }
}

/// Model: store-time, leases-and-heartbeats. The same with a database that goes by the same clock.
#[tokio::test]
async fn a_server_that_was_away_ends_no_lease_on_postgres() {
    let cluster = Cluster::start_in(&["-c fsync=off"], &|folder| {
        faketime::set(&folder.join("clock"), 0);
        faketime::by_file(&folder.join("clock"))
    });
    for seconds in [40, 600] {
        let clock = cluster.folder().join("clock");
        faketime::set(&clock, 0);
        killed_and_back(&schema_at(&cluster.address()), &clock, seconds).await;
    }
}
