//! Exits of programs, and the outcomes of their jobs.

use serde_json::json;

use crate::work::harness::{Bench, on_both_engines, with_path};

on_both_engines! {
    a_program_gets_the_payload_and_what_it_prints_is_the_result
    every_exit_code_has_its_meaning
    a_program_that_is_killed_has_crashed_and_kills_no_more_than_three_times
}

async fn a_program_gets_the_payload_and_what_it_prints_is_the_result(bench: &Bench) {
    let mut worker = bench.work(&[], "cat");
    let id = bench.submit(json!({"payload": {"to": "ann", "weight": 1.10}})).await;
    let job = bench.until_state(&id, "completed").await;
    assert_eq!(job["result"], json!({"to": "ann", "weight": 1.10}));
    let end = worker.next_end().await;
    assert_eq!(
        (&end["job"], &end["outcome"], &end["exit_code"]),
        (&json!(id), &json!("completed"), &json!(0))
    );
    let text =
        bench.submit(json!({"payload_base64": "aGVsbG8KeW91Cg==", "content_type": "text/plain"})).await;
    assert_eq!(bench.until_state(&text, "completed").await["result"], "hello\nyou");
    worker.stop().await;
}

async fn every_exit_code_has_its_meaning(bench: &Bench) {
    let script = r#"
        read code
        echo "about to end with $code" >&2
        [ "$code" = 75 ] && echo windlass:retry-after 1h >&2
        exit "$code""#;
    let worker = bench.work(&[], script);
    let submit = async |code: u32| bench.submit(json!({"payload": code})).await;
    let (fine, later, wrong, other) = tokio::join!(submit(0), submit(75), submit(65), submit(3));
    let job = bench.until_state(&fine, "completed").await;
    assert_eq!((&job["result"], &job["error"]), (&json!(null), &json!(null)));
    let job = bench.until_state(&later, "retrying").await;
    assert_eq!(
        (&job["error"]["category"], &job["error"]["retry_after"]),
        (&json!("temporary"), &json!("1h"))
    );
    assert_eq!(job["error"]["message"], "exit code 75: about to end with 75");
    let job = bench.until_state(&wrong, "failed").await;
    assert_eq!((&job["error"]["category"], &job["error"]["code"]), (&json!("permanent"), &json!("exit_65")));
    assert_eq!((&job["attempt"], &job["retry_count"]), (&json!(1), &json!(0)));
    let job = bench.until_state(&other, "dead_letter").await;
    assert_eq!((&job["attempt"], &job["error"]["code"]), (&json!(3), &json!("exit_3")));
    assert_eq!(job["error"]["category"], "temporary");
    let logs = bench.logs(&other).await;
    assert_eq!(logs, ["about to end with 3"; 3]);
    worker.stop().await;
}

/// Model: crashes-and-poison. It was not stopped by the worker, so it counts as a crash, whatever the retry budget.
async fn a_program_that_is_killed_has_crashed_and_kills_no_more_than_three_times(bench: &Bench) {
    let mut worker = bench.work(&[], "kill -9 $$");
    let retry = json!({"strategy": "constant", "initial_delay": "1ms", "max_attempts": 10});
    let id = bench.submit(json!({"retry": retry})).await;
    let job = bench.until_state(&id, "dead_letter").await;
    assert_eq!((&job["error"]["category"], &job["error"]["code"]), (&json!("system"), &json!("poison")));
    assert!(job["error"]["message"].as_str().unwrap().contains("killed by SIGKILL"), "{job:#}");
    for attempt in 1..=3 {
        let end = worker.next_end().await;
        assert_eq!((&end["attempt"], &end["signal"]), (&json!(attempt), &json!(9)));
    }
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_knows_the_facts_of_its_job_and_nothing_of_the_worker() {
    let bench = Bench::on_sqlite().await;
    let mut command = with_path(&["work", "t", "--queue", "mail", "--json"]);
    command.env("WINDLASS_KEY_OF_SOMETHING", "secret").env("WINDLASS_STORE", "postgres://me:secret@db/jobs");
    let worker = bench.start(command, "env | grep -E '^(WINDLASS_|TRACEPARENT)' | sort");
    let id = bench
        .submit(json!({
            "queue": "mail", "priority": 80, "correlation_id": "order 7", "idempotency_key": "k\u{e9}y",
            "retry": {"max_attempts": 7},
        }))
        .await;
    let job = bench.until_state(&id, "completed").await;
    let printed = job["result"].as_str().unwrap();
    let fact = |name: &str| {
        let found = printed.lines().find_map(|line| line.strip_prefix(&format!("WINDLASS_{name}=")));
        found.unwrap_or_else(|| panic!("no {name} in {printed}")).to_owned()
    };
    assert_eq!(fact("JOB_ID"), id);
    assert_eq!([fact("TYPE"), fact("QUEUE"), fact("TENANT")], ["t", "mail", "default"]);
    assert_eq!([fact("ATTEMPT"), fact("MAX_ATTEMPTS"), fact("PRIORITY")], ["1", "7", "80"]);
    assert_eq!([fact("CORRELATION_ID"), fact("IDEMPOTENCY_KEY")], ["order 7", "k\u{e9}y"]);
    assert_eq!(fact("URL"), bench.url());
    assert_eq!(fact("CONTENT_TYPE"), "application/json");
    assert!(fact("FENCE").parse::<u64>().is_ok());
    let deadline: windlass::Timestamp = fact("DEADLINE").parse().unwrap();
    let started: windlass::Timestamp = job["started_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(deadline.since(started).as_secs(), 30 * 60);
    assert!(!printed.contains("secret"), "{printed}");
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_gets_the_key_only_if_the_worker_is_asked_to_pass_it() {
    let bench = Bench::on_sqlite().await;
    let create = ["keys", "create", "--store", bench.store(), "--name", "bo", "--role", "admin"];
    let made = with_path(&create).output().await.unwrap();
    let key = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let bench = bench.with_key(&key);
    for (flags, printed) in [(&[][..], "none"), (&["--pass-key"][..], key.as_str())] {
        let mut command = with_path(&[&["work", "t", "--json"], flags].concat());
        command.env("WINDLASS_KEY", &key);
        let worker = bench.start(command, "echo ${WINDLASS_KEY-none}; env | grep -c WINDLASS_URL=http://127");
        let id = bench.submit(json!({})).await;
        let job = bench.until_state(&id, "completed").await;
        assert_eq!(job["result"], format!("{printed}\n1"));
        worker.stop().await;
    }
}
