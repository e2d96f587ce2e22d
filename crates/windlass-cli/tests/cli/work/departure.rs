//! Workers that stop: one signal, two signals, killed.

use rustix::process::Signal;
use serde_json::json;

use crate::work::harness::{Bench, on_both_engines};

on_both_engines! {
    a_worker_that_is_killed_takes_its_programs_along_and_the_job_runs_again
    a_worker_that_is_asked_to_stop_lets_its_programs_end
}

/// Says that it is ready, and ends when `$D/go` is there.
const WAITS: &str = r#"
    echo $$ > "$D/self"
    echo windlass:progress 1 ready >&2
    until [ -e "$D/go" ]; do sleep 0.05; done
    echo done"#;

async fn a_worker_that_is_killed_takes_its_programs_along_and_the_job_runs_again(bench: &Bench) {
    let worker = bench.work(&["--grace", "200ms"], &format!("trap '' TERM; {WAITS}"));
    let retry = json!({"strategy": "constant", "initial_delay": "1ms"});
    let id = bench.submit(json!({"timeouts": {"lease": "3s"}, "retry": retry})).await;
    bench.until_ready(&id).await;
    let program = bench.process("self");
    worker.signal(Signal::KILL);
    worker.ended().await;
    program.gone().await;
    std::fs::write(bench.file("go"), "").unwrap();
    let other = bench.work(&[], WAITS);
    let job = bench.until_state(&id, "completed").await;
    assert_eq!(job["result"], "done");
    assert!(job["attempt"].as_u64().unwrap() >= 2, "{job:#}");
    other.stop().await;
}

async fn a_worker_that_is_asked_to_stop_lets_its_programs_end(bench: &Bench) {
    let mut worker = bench.work(&["--drain", "10m"], WAITS);
    let (id, next) = (bench.submit(json!({})).await, bench.submit(json!({})).await);
    bench.until_ready(&id).await;
    worker.signal(Signal::INT);
    worker.until_said("may continue for").await;
    std::fs::write(bench.file("go"), "").unwrap();
    assert_eq!(worker.next_end().await["outcome"], "completed");
    let (code, said) = worker.ended().await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("runs t from default, 1 at once; stop with Ctrl-C"), "{said}");
    assert_eq!(bench.get(&format!("/jobs/{id}")).await["state"], "completed");
    assert_eq!(bench.get(&format!("/jobs/{next}")).await["state"], "scheduled");
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_do_not_end_in_time_are_terminated_and_their_jobs_given_back() {
    let bench = Bench::on_sqlite().await;
    let mut worker = bench.work(&["--drain", "100ms", "--grace", "10m"], WAITS);
    let id = bench.submit(json!({})).await;
    bench.until_ready(&id).await;
    worker.signal(Signal::TERM);
    assert_eq!(worker.next_end().await["outcome"], "released");
    let (code, said) = worker.ended().await;
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("1 job may continue for 100ms") && said.contains("released 1 job"), "{said}");
    assert!(!bench.process("self").is_alive());
    let job = bench.get(&format!("/jobs/{id}")).await;
    assert_eq!((&job["failures"], &job["error"]), (&json!(0), &json!(null)), "{job:#}");
    std::fs::write(bench.file("go"), "").unwrap();
    let other = bench.work(&[], WAITS);
    bench.until_state(&id, "completed").await;
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_signalled_twice_ends_its_programs_and_gives_their_jobs_back() {
    let bench = Bench::on_sqlite().await;
    let flags = ["--drain", "10m", "--grace", "10m"];
    let mut worker = bench.work(&flags, &format!("trap '' TERM INT; {WAITS}"));
    let id = bench.submit(json!({})).await;
    bench.until_ready(&id).await;
    worker.signal(Signal::INT);
    // Two signals at the same time may arrive as one: the second is sent only once the first was handled.
    worker.until_said("may continue").await;
    worker.signal(Signal::INT);
    let end = worker.next_end().await;
    assert_eq!((&end["outcome"], &end["signal"]), (&json!("released"), &json!(9)));
    let (code, said) = worker.ended().await;
    assert_eq!(code, Some(0), "{said}");
    let job = bench.get(&format!("/jobs/{id}")).await;
    assert_eq!((&job["failures"], &job["error"]), (&json!(0), &json!(null)), "{job:#}");
}

/// As when a supervisor signals a whole control group.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_terminated_together_with_its_worker_has_not_crashed() {
    let bench = Bench::on_sqlite().await;
    let mut worker = bench.work(&["--drain", "10m"], WAITS);
    let id = bench.submit(json!({})).await;
    bench.until_ready(&id).await;
    worker.signal(Signal::TERM);
    bench.process("self").signal(Signal::TERM);
    assert_eq!(worker.next_end().await["outcome"], "released");
    assert_eq!(worker.ended().await.0, Some(0));
    let job = bench.get(&format!("/jobs/{id}")).await;
    assert_eq!((&job["failures"], &job["error"]), (&json!(0), &json!(null)), "{job:#}");
}
