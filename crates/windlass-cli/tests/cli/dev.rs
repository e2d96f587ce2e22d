//! `windlass dev`: its clock, its programs, and who may not use it.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::client::Request;
use windlass_testkit::{PATIENCE, ServerProcess, run, store_in, windlass};

async fn start(arguments: &[&str]) -> ServerProcess {
    ServerProcess::start(windlass(&[&["dev", "--listen", "127.0.0.1:0"], arguments].concat())).await
}

async fn post(server: &ServerProcess, path: &str, body: &Value) -> Value {
    let answer = Request::new(server.address, "POST", path).json(body).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

async fn get(server: &ServerProcess, path: &str) -> Value {
    server.request("GET", path).send().await.json()
}

/// Registers a worker and claims one job.
async fn claim(server: &ServerProcess) -> (Value, Value) {
    let worker = server.post("/workers", &json!({"name": "w"})).await["worker_id"].clone();
    let claimed = server.post("/claims", &json!({"worker_id": worker})).await;
    (worker, claimed["jobs"][0].clone())
}

/// Waits until a file has this text.
async fn has_text(path: &Path, text: &str) {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    let waiting = async {
        while read() != text {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{:?}", read()));
}

#[tokio::test]
async fn a_month_passes_at_once_from_timer_to_timer() {
    let server = start(&["--stopped-clock"]).await;
    let job = json!({"type": "a", "delay": "30d", "timeouts": {"lifetime": "60d"}});
    let id = server.post("/jobs", &job).await["id"].clone();
    let schedule = json!({"every": "10d", "job": {"type": "b", "timeouts": {"lifetime": "60d"}}});
    let put = server.request("PUT", "/schedules/often").json(&schedule).send().await;
    assert!(put.status < 300, "{}", String::from_utf8_lossy(&put.body));
    let answer = post(&server, "/dev/advance", &json!({"by": "29d", "wait": "0s"})).await;
    assert_eq!(get(&server, &format!("/jobs/{}", id.as_str().unwrap())).await["state"], "delayed");
    assert_eq!(get(&server, "/jobs?type=b").await["jobs"].as_array().unwrap().len(), 2);
    let time = |clock: &Value| clock["now"].as_str().unwrap().to_owned();
    let now = Request::new(server.address, "GET", "/dev/clock").send().await.json();
    assert_eq!(time(&now), time(&answer));
    post(&server, "/dev/advance", &json!({"by": "1d", "wait": "0s"})).await;
    assert_eq!(get(&server, &format!("/jobs/{}", id.as_str().unwrap())).await["state"], "scheduled");
    server.stop().await;
}

#[tokio::test]
async fn workers_crash_on_demand_and_everything_can_be_deleted() {
    let server = start(&["--stopped-clock"]).await;
    let id = server.post("/jobs", &json!({"type": "a"})).await["id"].as_str().unwrap().to_owned();
    let (worker, job) = claim(&server).await;
    post(&server, "/dev/crash", &json!({"after_step": "charge"})).await;
    let path = format!("/jobs/{id}/checkpoints");
    let save = |step: &str| json!({"fence": job["fence"], "worker_id": worker, "checkpoints": [{"step": step, "value": 1}]});
    assert_eq!(server.request("POST", &path).json(&save("reserve")).send().await.status, 204);
    assert_eq!(server.request("POST", &path).json(&save("charge")).send().await.status, 409);
    let found = get(&server, &format!("/jobs/{id}")).await;
    assert_eq!((&found["state"], &found["crashes"]), (&json!("retrying"), &json!(1)));
    assert_eq!(get(&server, &path).await["checkpoints"].as_array().unwrap().len(), 2);

    post(&server, "/dev/advance", &json!({"by": "1h", "wait": "0s"})).await;
    let (_, again) = claim(&server).await;
    assert_eq!(again["checkpoints"].as_array().unwrap().len(), 2);
    let crashed = post(&server, "/dev/crash", &json!({"worker": "w"})).await;
    assert_eq!(crashed, json!({"workers": 1, "leases": 1}));
    assert_eq!(post(&server, "/dev/crash", &json!({"worker": "unknown"})).await["workers"], 0);
    let reset = post(&server, "/dev/reset", &json!({})).await;
    assert_eq!((reset, &get(&server, "/jobs").await["jobs"]), (json!({"jobs": 1}), &json!([])));
    server.stop().await;
}

#[tokio::test]
async fn programs_get_the_address_are_restarted_on_a_change_and_end_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (watched, seen) = (folder.path().join("source"), folder.path().join("seen"));
    std::fs::create_dir(&watched).unwrap();
    let script = format!(
        "echo $WINDLASS_URL >> {0}; trap 'echo end >> {0}; exit' TERM; while :; do sleep 0.02; done",
        seen.display()
    );
    let server = start(&["--watch", watched.to_str().unwrap(), "--", "/bin/sh", "-c", &script]).await;
    let url = server.url.clone();
    has_text(&seen, &format!("{url}\n")).await;
    std::fs::write(watched.join("worker.py"), "1").unwrap();
    has_text(&seen, &format!("{url}\nend\n{url}\n")).await;
    server.stop().await;
    has_text(&seen, &format!("{url}\nend\n{url}\nend\n")).await;
}

#[tokio::test]
async fn the_clock_of_other_servers_cannot_be_moved() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let server =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    for path in ["/dev/advance", "/dev/crash", "/dev/reset"] {
        let answer = Request::new(server.address, "POST", path).json(&json!({"by": "1s"})).send().await;
        assert_eq!(answer.status, 404, "{path}");
    }
    server.stop().await;
    // A file keeps its own time.
    let server = start(&["--store", &store]).await;
    let answer = Request::new(server.address, "POST", "/dev/advance").json(&json!({"by": "1s"})).send().await;
    assert_eq!(answer.status, 404);
    server.stop().await;
    for (arguments, said) in [
        (vec!["dev", "--listen", "0.0.0.0:0"], "loopback"),
        (vec!["dev", "--store", "postgres://x/y"], "`memory:` or `sqlite:PATH`"),
        (vec!["dev", "--store", &store, "--stopped-clock"], "needs a store in memory"),
    ] {
        let ended = run("", &arguments).await;
        assert!(ended.code != 0 && ended.err.contains(said), "{ended:?}");
    }
    run("", &["keys", "create", "--name", "admin", "--role", "admin", "--store", &store]).await.well();
    let ended = run("", &["dev", "--listen", "127.0.0.1:0", "--store", &store]).await;
    assert!(ended.code != 0 && ended.err.contains("API keys"), "{ended:?}");
}
