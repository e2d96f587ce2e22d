//! The command itself: what it takes, what it says, what it refuses.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::work::harness::{Bench, with_path};

#[tokio::test(flavor = "multi_thread")]
async fn as_many_programs_run_at_once_as_allowed_for_each_queue() {
    let bench = Bench::on_sqlite().await;
    // Each of the three waits for the others.
    let script = r#"touch "$D/$WINDLASS_JOB_ID.here"
        until [ "$(ls "$D" | grep -c here)" = 3 ]; do sleep 0.05; done"#;
    let worker = bench.work(&["--concurrency", "2", "--queue", "a", "--queue", "b=1"], script);
    let submit = async |queue: &str| bench.submit(json!({"queue": queue})).await;
    for id in [submit("a").await, submit("a").await, submit("b").await] {
        bench.until_state(&id, "completed").await;
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_see_one_line_per_job_or_nothing_at_all() {
    let bench = Bench::on_sqlite().await;
    let script = "[ $WINDLASS_ATTEMPT = 1 ] && echo bad >&2 && exit 65; exit 0";
    let worker = bench.start(with_path(&["work", "t"]), script);
    let id = bench.submit(json!({})).await;
    bench.until_state(&id, "failed").await;
    let said = worker.stop().await;
    let line = said.lines().find(|line| line.starts_with(&id[..18])).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("  t  failed ") && line.ends_with("  exit code 65: bad"), "{line}");
    assert!(!said.contains('\x1b'), "{said}");
    let worker = bench.start(with_path(&["work", "t", "--quiet"]), "exit 0");
    let id = bench.submit(json!({})).await;
    bench.until_state(&id, "completed").await;
    assert_eq!(worker.stop().await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_star_takes_whatever_the_queue_holds() {
    let bench = Bench::on_sqlite().await;
    let worker = bench.start(with_path(&["work", "*", "--quiet"]), "echo $WINDLASS_TYPE");
    let job = bench.post("/jobs", &json!({"type": "un.known"})).await;
    let job = bench.until_state(job["id"].as_str().unwrap(), "completed").await;
    assert_eq!(job["result"], "un.known");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_can_be_worked_on_without_a_server_in_between() {
    let bench = Bench::on_sqlite().await;
    let mut command = with_path(&["work", "t", "--store", bench.store(), "--quiet", "--", "sh", "-c"]);
    command.arg("echo \"${WINDLASS_URL-none}\"");
    let mut worker = command.spawn().unwrap();
    let id = bench.submit(json!({})).await;
    assert_eq!(bench.until_state(&id, "completed").await["result"], "none");
    worker.kill().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_is_refused_before_any_job_is_taken() {
    for wrong in ["no-such-program-anywhere", "/no/such/program", "/etc/passwd"] {
        let refused = with_path(&["work", "t", "--", wrong]).output().await.unwrap();
        assert!(!refused.status.success());
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains(&format!("no program {wrong}")), "{said}");
    }
}

/// Attempts are not spent on what is wrong with the worker.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_disappears_stops_the_worker_and_costs_the_job_nothing() {
    let bench = Bench::on_sqlite().await;
    let program = bench.file("program");
    std::fs::copy("/bin/true", &program).unwrap();
    let mut command = with_path(&["work", "t", "--url", bench.url(), "--"]);
    let worker = command.arg(&program).spawn().unwrap();
    let first = bench.submit(json!({})).await;
    bench.until_state(&first, "completed").await;
    std::fs::remove_file(&program).unwrap();
    let second = bench.submit(json!({})).await;
    let ended = worker.wait_with_output().await.unwrap();
    assert!(!ended.status.success());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("can no longer be started"), "{said}");
    let job = bench.get(&format!("/jobs/{second}")).await;
    assert_eq!((&job["failures"], &job["error"]), (&json!(0), &json!(null)), "{job:#}");
}

/// The program of `docs/workers.md`, taken from the page and run.
#[tokio::test(flavor = "multi_thread")]
async fn the_documented_program_works() {
    let page = include_str!("../../../../../docs/workers.md");
    let (_, rest) = page.split_once("```bash\n").expect("the page has a program");
    let bench = Bench::on_sqlite().await;
    let program = bench.file("count-words");
    std::fs::write(&program, rest.split_once("```").unwrap().0).unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    std::fs::write(bench.file("text"), "three small words").unwrap();
    let mut command = with_path(&["work", "words.count", "--concurrency", "4", "--url", bench.url(), "--"]);
    let _worker = command.arg(&program).spawn().unwrap();
    let submit = async |payload: serde_json::Value| {
        let job = bench.post("/jobs", &json!({"type": "words.count", "payload": payload})).await;
        job["id"].as_str().unwrap().to_owned()
    };
    let id = submit(json!({"file": bench.file("text")})).await;
    assert_eq!(bench.until_state(&id, "completed").await["result"], json!({"words": 3}));
    bench.until_state(&submit(json!({})).await, "failed").await;
    let error =
        bench.until_state(&submit(json!({"file": "/not/there"})).await, "retrying").await["error"].clone();
    assert_eq!(error["retry_after"], "30s");
    assert_eq!(error["message"], "exit code 75: /not/there is not there yet");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_may_not_or_cannot_work_says_why_and_ends_with_its_own_code() {
    let unknown =
        with_path(&["work", "t", "--url", "http://127.0.0.1:1", "--", "true"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert_eq!(unknown.status.code(), Some(6), "{said}");
    assert!(said.contains("no server at 127.0.0.1:1") && said.contains("windlass serve"), "{said}");
    let bench = Bench::on_sqlite().await;
    let create = ["keys", "create", "--store", bench.store(), "--name", "vi", "--role", "viewer"];
    let made = with_path(&create).output().await.unwrap();
    let viewer = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    for (key, words) in [("", "WINDLASS_KEY"), (viewer.as_str(), "viewer")] {
        let mut command = with_path(&["work", "t", "--url", bench.url(), "--", "true"]);
        let refused = command.env("WINDLASS_KEY", key).output().await.unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(5), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
