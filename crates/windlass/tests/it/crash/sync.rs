//! A disk that fails to sync, and processes that die in the very call: `strace` makes either happen at a chosen call.
//! Where it may not trace, these tests fail; they never skip.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::ledger::{Ack, Ledger};
use super::process::{Process, Role, Task};
use super::{address, lend_reserve, open_at, verify};
use crate::fixture::START;

const SEED: u64 = 0x5EED_0030;
/// More than any child says before its fault.
const LINES_MAX: usize = 20_000;

/// A folder for a new store, and the one with its reserve.
fn folders() -> (TempDir, impl Fn() -> TempDir) {
    let lender = tempfile::tempdir().unwrap();
    let (store, _) = open_at(&address(lender.path()), START).unwrap();
    store.close();
    let path = lender.path().to_owned();
    let folder = move || {
        let folder = tempfile::tempdir().unwrap();
        lend_reserve(&path, folder.path());
        folder
    };
    (lender, folder)
}

/// Runs a child of which the calls that match `fault` fail or kill; says everything that it said.
fn run_with(fault: &str, folder: &TempDir, role: Role, seed: u64) -> Vec<String> {
    let name = format!("f{seed}");
    let task = Task { role, address: address(folder.path()), seed, now: Some(START), name };
    let inject = format!("inject={fault}");
    let calls = fault.split(':').next().expect("a fault begins with its calls");
    let trace = format!("trace={calls}");
    // Not with its faster `--seccomp-bpf`, which never sends the signal.
    let strace = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &inject, "--"];
    let mut process = Process::start_under(&strace, &task);
    let lines: Vec<String> = std::iter::from_fn(|| process.read_line()).take(LINES_MAX).collect();
    assert!(lines.len() < LINES_MAX, "{fault}: it did not come to that");
    let status = process.end();
    // A child that was traced has said at least that it began; without that, the tracing itself failed.
    assert_eq!(lines.first().map(String::as_str), Some("opening"), "strace does not work here: {status}");
    lines
}

/// Everything that was acknowledged is there.
async fn check(folder: &TempDir, lines: &[String], context: &str) -> usize {
    let mut ledger = Ledger::default();
    ledger.take(lines);
    let (store, _) =
        open_at(&address(folder.path()), START).unwrap_or_else(|error| panic!("{context}: {error}"));
    ledger.check(&store, 0).await;
    verify(&store, context).await;
    store.close();
    ledger.acks.len()
}

/// Model: at-least-once
#[tokio::test]
async fn after_a_failed_sync_nothing_is_acknowledged_any_more() {
    println!("seed {SEED:#x}");
    let (_lender, new_folder) = folders();
    let mut acks_before = Vec::new();
    // Once, as a disk does that has dropped the pages and reports success from then on; and forever.
    for (nth, times) in [(2, "+"), (5, ""), (5, "+"), (12, ""), (30, ""), (31, "+")] {
        let context = format!("sync {nth}{times} fails");
        let folder = new_folder();
        let fault = format!("fsync,fdatasync:error=EIO:when={nth}{times}");
        let lines = run_with(&fault, &folder, Role::Serial, SEED + nth);
        let failed = lines.iter().position(|line| line.starts_with("stopped") || line.starts_with("refused"));
        let failed = failed.unwrap_or_else(|| panic!("{context}: the store continued: {lines:?}"));
        let late: Vec<_> = lines[failed..].iter().filter(|line| Ack::parse(line).is_some()).collect();
        assert!(late.is_empty(), "{context}: acknowledged afterwards: {late:?}");
        let errors: Vec<_> = lines.iter().filter(|line| line.starts_with("error")).collect();
        assert!(errors.is_empty(), "{context}: {errors:?}");
        acks_before.push(check(&folder, &lines, &context).await);
    }
    println!("acknowledged before each failure: {acks_before:?}, afterwards 0");
    assert!(acks_before.iter().filter(|acks| **acks > 0).count() >= 3, "some failures came under load");
}

/// Model: at-least-once
#[tokio::test]
async fn a_process_killed_in_a_sync_loses_nothing_that_was_acknowledged() {
    println!("seed {SEED:#x}");
    let (_lender, new_folder) = folders();
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut acks = 0;
    for nth in 1..=20 {
        let nth = if nth <= 10 { nth } else { rng.random_range(11..60) };
        let context = format!("killed in sync {nth}");
        let folder = new_folder();
        let fault = format!("fsync,fdatasync:signal=KILL:when={nth}");
        let lines = run_with(&fault, &folder, Role::Mixed, SEED + nth);
        acks += check(&folder, &lines, &context).await;
    }
    println!("20 kills in a sync, {acks} acknowledged, 0 lost");
    assert!(acks > 0, "some kills came under load");
}

/// The first opening is killed at every call that writes, so at every step of making the schema.
#[tokio::test]
async fn a_first_opening_killed_at_any_write_leaves_a_file_that_opens() {
    let calls = "pwrite64,fsync,fdatasync,ftruncate";
    let (_lender, new_folder) = folders();
    let mut killed = 0;
    for nth in 1..=40 {
        let context = format!("first opening killed at write {nth}");
        let folder = new_folder();
        let lines = run_with(&format!("{calls}:signal=KILL:when={nth}"), &folder, Role::Open, nth);
        killed += usize::from(!lines.iter().any(|line| line == "opened"));
        check(&folder, &[], &context).await;
        // What was left behind does not count as a loss, and what is made of it is a whole store.
        check(&folder, &[], &format!("{context}, opened again")).await;
    }
    println!("{killed} of 40 first openings were killed before they were done");
    assert!(killed >= 20, "the openings were killed on their way: {killed}");
}
