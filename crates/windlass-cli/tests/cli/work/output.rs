//! What programs print: results, logs, progress, and far too much of everything.

use serde_json::json;
use windlass::limits;

use crate::work::harness::Bench;

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_prints_megabytes_on_both_streams_is_neither_stopped_nor_kept_whole() {
    let bench = Bench::on_sqlite().await;
    let script = r"
        seq 1 400000 | sed 's/^/this is line number /' >&2 &
        head -c 900000 /dev/zero | tr '\0' x
        wait";
    let worker = bench.work(&[], script);
    let id = bench.submit(json!({})).await;
    let job = bench.until_state(&id, "completed").await;
    assert_eq!(job["result"].as_str().unwrap().len(), 900_000);
    let logs = bench.logs(&id).await;
    assert!(logs.len() as u64 <= limits::LOG_LINES_MAX, "{}", logs.len());
    assert!(logs.iter().any(|line| line.starts_with('…') && line.ends_with("lines left out")), "{logs:?}");
    assert_eq!(logs.last().unwrap(), "this is line number 400000");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_over_the_limit_fails_for_good_and_says_so() {
    let bench = Bench::on_sqlite().await;
    let worker = bench.work(&["--result-bytes-max", "1000"], "head -c 3000000 /dev/zero | tr '\\0' x");
    let id = bench.submit(json!({})).await;
    let error = bench.until_state(&id, "failed").await["error"].clone();
    assert_eq!((&error["category"], &error["code"]), (&json!("permanent"), &json!("result_too_large")));
    assert_eq!(error["message"], "the result has 3000000 bytes, the limit is 1000");
    worker.stop().await;
}

/// A result that the worker accepts and the server does not is a failure as well, not a job that hangs.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_only_the_server_refuses_fails_for_good_too() {
    let bench = Bench::on_sqlite().await;
    let worker = bench.work(&["--result-bytes-max", "8000000"], "head -c 3000000 /dev/zero | tr '\\0' x");
    let id = bench.submit(json!({})).await;
    let error = bench.until_state(&id, "failed").await["error"].clone();
    assert_eq!(error["category"], "permanent");
    assert!(error["message"].as_str().unwrap().contains("1048576"), "{error}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_never_reads_a_large_payload_ends_as_it_likes() {
    let bench = Bench::on_sqlite().await;
    let worker = bench.work(&[], "exec <&-; echo '[1, 2]'");
    let id = bench.submit(json!({"payload": "x".repeat(1_000_000)})).await;
    assert_eq!(bench.until_state(&id, "completed").await["result"], json!([1, 2]));
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_log_are_seen_while_the_program_runs() {
    let bench = Bench::on_sqlite().await;
    let script = r#"
        echo begun >&2
        echo windlass:progress 42 halfway there >&2
        echo windlass:cost 7 >&2
        until [ -e "$D/go" ]; do sleep 0.05; done
        printf 'not text: \377\376 but \n' >&2
        printf 'no end of line' >&2"#;
    let worker = bench.work(&[], script);
    let id = bench.submit(json!({})).await;
    let job = bench.until(&id, "halfway", |job| job["progress"]["percent"] == 42.0).await;
    assert_eq!((&job["state"], &job["progress"]["message"]), (&json!("running"), &json!("halfway there")));
    std::fs::write(bench.file("go"), "").unwrap();
    let job = bench.until_state(&id, "completed").await;
    assert_eq!(job["cost_cents"], 7);
    assert_eq!(bench.logs(&id).await, ["begun", "not text: \u{fffd}\u{fffd} but ", "no end of line"]);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_what_a_program_said_is_in_the_error() {
    let bench = Bench::on_sqlite().await;
    let worker = bench.work(&[], "seq 1 50000 >&2; echo 'disk is full' >&2; exit 65");
    let id = bench.submit(json!({})).await;
    let job = bench.until_state(&id, "failed").await;
    let message = job["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("exit code 65: ") && message.ends_with("50000\ndisk is full"), "{message}");
    worker.stop().await;
}
