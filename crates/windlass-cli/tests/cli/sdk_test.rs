//! `windlass sdk-test` finds workers that do not follow the protocol.

use std::process::Output;
use std::time::Duration;

use windlass::clock::Stopwatch;
use windlass_testkit::windlass;

/// A worker that completes every job with 1, without doing what it says.
const LAZY: &str = r#"
import json, os, urllib.request
def call(path, body):
    request = urllib.request.Request(os.environ["WINDLASS_URL"] + "/api/v1" + path, data=json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())
worker = call("/workers", {"heartbeats": False, "version": os.environ["WINDLASS_TEST_VERSION"]})["worker_id"]
while True:
    for job in call("/claims", {"worker_id": worker, "wait": "20s"})["jobs"]:
        done = {"id": job["id"], "fence": job["fence"], "outcome": "completed", "result": 1}
        call("/outcomes", {"worker_id": worker, "outcomes": [done]})
"#;

async fn run(case: &str, program: &[&str]) -> Output {
    let arguments = [&["sdk-test", "--case", case, "--"], program].concat();
    windlass(&arguments).output().await.expect("it runs")
}

/// What was printed, after the runner has found something wrong.
async fn complaint(case: &str, program: &[&str]) -> String {
    let ran = run(case, program).await;
    let said = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("FAILED  {case}")) && said.contains("0 of 1 cases passed"), "{said}");
    said
}

#[tokio::test]
async fn a_worker_that_skips_steps_is_found() {
    let said = complaint("steps: nothing dies", &["python3", "-c", LAZY]).await;
    assert!(said.contains(r#"the program did [], not ["a", "b", "a#2"]"#), "{said}");
}

#[tokio::test]
async fn a_worker_that_reports_nothing_but_its_result_is_found() {
    let silent = LAZY.replace(r#""result": 1"#, r#""result": "well""#);
    let said = complaint("progress, log lines and costs", &["python3", "-c", &silent]).await;
    assert!(said.contains(r#"it has reported {"cost_cents":0,"logs":[],"progress":null}, not"#), "{said}");
}

#[tokio::test]
async fn a_worker_that_does_not_ask_again_is_found() {
    // Its call fails with the connection, and so does the worker, sooner or later than what it did is compared.
    let said = complaint("a lost answer: a completion", &["python3", "-c", LAZY]).await;
    assert!(said.contains("the worker ended by itself") || said.contains("the result is"), "{said}");
}

#[tokio::test]
async fn a_worker_that_ends_by_itself_is_found() {
    let watch = Stopwatch::start();
    let said = complaint("steps: nothing dies", &["sh", "-c", "exit 3"]).await;
    assert!(said.contains("the worker ended by itself: exit status: 3"), "{said}");
    // Half of what a case may take.
    assert!(watch.elapsed() < Duration::from_secs(30), "nothing more is waited for: {:?}", watch.elapsed());
}
