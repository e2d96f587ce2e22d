//! Programs that are stopped: by a time limit, by a person, by a lost lease; and their processes.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::work::harness::{Bench, on_both_engines};

on_both_engines! {
    a_cancelled_job_has_its_program_terminated
    a_program_that_takes_too_long_is_terminated_and_the_attempt_timed_out
    what_a_program_leaves_behind_goes_with_it_and_holds_nothing_up
}

/// Says that it is ready, and stays; a child of its own is written down in `$D/child`.
const STAYS: &str = r#"
    sleep 300 & echo $! > "$D/child"; echo $$ > "$D/self"
    echo windlass:progress 1 ready >&2
    wait"#;

/// A job that is not tried again.
fn once() -> Value {
    json!({"retry": {"max_attempts": 1}})
}

async fn a_cancelled_job_has_its_program_terminated(bench: &Bench) {
    let script = format!("trap 'touch $D/terminated; exit 0' TERM; {STAYS}");
    let mut worker = bench.work(&[], &script);
    let id = bench.submit(json!({})).await;
    bench.until_ready(&id).await;
    let (program, child) = (bench.process("self"), bench.process("child"));
    bench.post(&format!("/jobs/{id}/cancel"), &json!({"reason": "not wanted"})).await;
    program.gone().await;
    child.gone().await;
    assert!(bench.file("terminated").exists());
    assert_eq!(worker.next_end().await["outcome"], "cancelled");
    assert_eq!(bench.get(&format!("/jobs/{id}")).await["state"], "cancelled");
    // Its slot is free again.
    let next = bench.submit(json!({})).await;
    bench.until_ready(&next).await;
    bench.post(&format!("/jobs/{next}/cancel"), &json!({})).await;
    worker.next_end().await;
    worker.stop().await;
}

async fn a_program_that_takes_too_long_is_terminated_and_the_attempt_timed_out(bench: &Bench) {
    let mut worker = bench.work(&["--timeout", "2s"], STAYS);
    let id = bench.submit(once()).await;
    let job = bench.until_state(&id, "dead_letter").await;
    assert_eq!(job["error"]["category"], "timeout");
    assert_eq!(job["error"]["message"], "ran longer than 2s and was stopped");
    let end = worker.next_end().await;
    assert_eq!((&end["outcome"], &end["signal"]), (&json!("failed"), &json!(15)));
    assert!(!bench.process("self").is_alive() && !bench.process("child").is_alive());
    worker.stop().await;
}

async fn what_a_program_leaves_behind_goes_with_it_and_holds_nothing_up(bench: &Bench) {
    let mut worker = bench.work(&[], "sleep 300 & echo $! > $D/child; echo done");
    let id = bench.submit(json!({})).await;
    // It would hold standard output open for five minutes.
    assert_eq!(bench.until_state(&id, "completed").await["result"], "done");
    bench.process("child").gone().await;
    assert_eq!(worker.next_end().await["exit_code"], 0);
    worker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_left_the_group_is_not_waited_for() {
    let bench = Bench::on_sqlite().await;
    let worker = bench.work(&[], "setsid sh -c 'echo $$ > $D/child; exec sleep 300' & echo done");
    let id = bench.submit(json!({})).await;
    assert_eq!(bench.until_state(&id, "completed").await["result"], "done");
    worker.stop().await;
    if bench.file("child").exists() {
        bench.process("child").signal(rustix::process::Signal::KILL);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_ignores_termination_is_killed_with_all_it_started() {
    let bench = Bench::on_sqlite().await;
    let script = format!("trap '' TERM; {STAYS}");
    let mut worker = bench.work(&["--timeout", "2s", "--grace", "300ms"], &script);
    let id = bench.submit(once()).await;
    assert_eq!(bench.until_state(&id, "dead_letter").await["error"]["category"], "timeout");
    assert_eq!(worker.next_end().await["signal"], 9);
    assert!(!bench.process("self").is_alive() && !bench.process("child").is_alive());
    worker.stop().await;
}

/// Model: execution-timeout. The store itself ends the attempt; the program receives the signal.
#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_own_time_limit_ends_the_program() {
    let bench = Bench::on_sqlite().await;
    let mut worker = bench.work(&["--grace", "300ms"], &format!("trap '' TERM; {STAYS}"));
    let mut job = once();
    job["timeouts"] = json!({"execution": "3s"});
    let id = bench.submit(job).await;
    assert_eq!(bench.until_state(&id, "dead_letter").await["error"]["category"], "timeout");
    assert_eq!(worker.next_end().await["outcome"], "timed_out");
    assert!(!bench.process("self").is_alive() && !bench.process("child").is_alive());
    worker.stop().await;
}

/// Model: suspend-modes. Aggressive suspension ends the attempt now and is not a failure; the job starts again when it is resumed.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_job_has_its_program_notified_with_the_signal_of_choice_and_runs_again_later() {
    let bench = Bench::on_sqlite().await;
    let script = format!(
        "[ $WINDLASS_ATTEMPT = 2 ] && echo again && exit; trap 'touch $D/notified; exit 1' USR1; {STAYS}"
    );
    let mut worker = bench.work(&["--suspend-signal", "usr1"], &script);
    let id = bench.submit(json!({})).await;
    bench.until_ready(&id).await;
    bench.post(&format!("/jobs/{id}/suspend"), &json!({"mode": "aggressive"})).await;
    assert_eq!(worker.next_end().await["outcome"], "suspended");
    assert!(bench.file("notified").exists());
    assert!(!bench.process("self").is_alive() && !bench.process("child").is_alive());
    let job = bench.get(&format!("/jobs/{id}")).await;
    assert_eq!((&job["state"], &job["failures"]), (&json!("suspended"), &json!(0)));
    bench.post(&format!("/jobs/{id}/resume"), &json!({})).await;
    assert_eq!(bench.until_state(&id, "completed").await["result"], "again");
    worker.stop().await;
}

/// Model: one-lease-at-a-time. A program whose lease is lost is killed at once, since another worker may run the job already.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_kills_the_program_without_waiting_for_it() {
    let bench = Bench::on_sqlite().await;
    let script = format!("trap '' TERM; {STAYS}");
    let mut worker = bench.work(&["--grace", "10m"], &script);
    let mut job = once();
    job["timeouts"] = json!({"lease": "4s"});
    let id = bench.submit(job).await;
    bench.until_ready(&id).await;
    // Its heartbeats would keep the lease.
    worker.signal(Signal::STOP);
    assert_eq!(bench.until_state(&id, "dead_letter").await["error"]["category"], "system");
    worker.signal(Signal::CONT);
    let end = worker.next_end().await;
    assert_eq!((&end["outcome"], &end["signal"]), (&json!("lost"), &json!(9)));
    assert!(!bench.process("self").is_alive() && !bench.process("child").is_alive());
    worker.stop().await;
}
