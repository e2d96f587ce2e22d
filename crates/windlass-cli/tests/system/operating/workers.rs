//! The workers of `docs/workers.md`, taken from the page and run.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;
use windlass_testkit::{PATIENCE, ServerProcess, store_in, terminate, windlass};

/// The block of code in this language; none may be longer than the page promises.
fn block(language: &str) -> String {
    let page = std::fs::read_to_string(windlass_testkit::repository().join("docs/workers.md")).unwrap();
    let fence = format!("```{language}\n");
    let (_, rest) = page.split_once(&fence).unwrap_or_else(|| panic!("no {fence}"));
    let code = rest.split_once("```").unwrap().0;
    assert!(code.lines().count() <= 30, "{language}: {} lines", code.lines().count());
    code.to_owned()
}

/// Submits a job and returns it as it ended.
async fn ended(served: &ServerProcess, submission: &Value) -> Value {
    let job = served.post("/jobs", submission).await;
    let path = format!("/jobs/{}?wait=60s", job["id"].as_str().unwrap());
    let ask = served.request("GET", &path);
    tokio::time::timeout(PATIENCE * 2, ask.send()).await.expect("the job ends").json()
}

async fn works(program: &str, language: &str, file: &str) {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let served =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    let path = folder.path().join(file);
    std::fs::write(&path, block(language)).unwrap();
    let mut worker = Command::new(program)
        .arg(&path)
        .env("WINDLASS_URL", format!("http://{}", served.address))
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("{program} is needed for this test (./check installs it): {error}"));
    // Work that throws fails its job, and the worker continues with the next one.
    let thrown = json!({"type": "greet", "payload": null, "retry": {"max_attempts": 1}});
    let job = ended(&served, &thrown).await;
    assert!(["failed", "dead_letter"].contains(&job["state"].as_str().unwrap()), "{language}: {job}");
    let mut ends = Vec::new();
    for payload in [json!({"name": "Ann"}), json!({}), json!({"name": "Bob \"B\" O'Neill"})] {
        let job = ended(&served, &json!({"type": "greet", "payload": payload})).await;
        ends.push(json!([job["state"], job["result"], job["error"]["message"]]));
    }
    let expected = json!([
        ["completed", {"hello": "Ann"}, null],
        ["failed", null, "no name to greet"],
        ["completed", {"hello": "Bob \"B\" O'Neill"}, null],
    ]);
    assert_eq!(json!(ends), expected, "{language}");
    // It stops on a signal, and deregisters.
    terminate(&mut worker).await;
    let workers = served.request("GET", "/workers").send().await.json();
    // The server's own, for callbacks, is the only one left.
    let left = workers["workers"].as_array().unwrap().iter().filter(|worker| worker["name"] != "callbacks");
    assert_eq!(left.count(), 0, "{workers}");
    served.stop().await;
}

#[tokio::test]
async fn the_worker_in_curl_works() {
    works("sh", "sh", "worker.sh").await;
}

#[tokio::test]
async fn the_worker_in_python_works() {
    works("python3", "python", "worker.py").await;
}

#[tokio::test]
async fn the_worker_in_node_works() {
    works("node", "javascript", "worker.mjs").await;
}
