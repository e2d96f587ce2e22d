//! Processes killed in the middle of everything, again and again, on one file that grows.

use std::hint::spin_loop;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::ledger::{Ledger, drain};
use super::process::{Process, Role, Task};
use super::{address, open_at, verify};
use crate::fixture::START;

const SEED: u64 = 0x5EED_0026;
const CYCLES: i64 = 110;
/// More than a lease lasts, so that what a killed process held is free in the next cycle.
const CYCLE_MS: i64 = 600_000;

/// M100 M101
#[tokio::test]
async fn a_process_killed_at_any_moment_loses_nothing_that_was_acknowledged() {
    println!("seed {SEED:#x}, {CYCLES} cycles");
    let folder = tempfile::tempdir().unwrap();
    let address = address(folder.path());
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut ledger = Ledger::default();
    let mut unchecked_before_ack = 0;
    for cycle in 0..CYCLES {
        let now = START + cycle * CYCLE_MS;
        let name = format!("k{cycle}");
        let task =
            Task { role: Role::Mixed, address: address.clone(), seed: rng.random(), now: Some(now), name };
        let (from, lines) = (ledger.acks.len(), run_and_kill(&task, &mut rng));
        let troubles: Vec<_> = lines.iter().filter(|line| line.starts_with("trouble")).collect();
        assert!(troubles.is_empty(), "cycle {cycle}: {troubles:?}");
        ledger.take(&lines);
        unchecked_before_ack += usize::from(ledger.acks.len() == from);

        let context = format!("cycle {cycle}");
        let (store, _) = open_at(&address, now).unwrap_or_else(|error| panic!("{context}: {error}"));
        ledger.check(&store, from).await;
        for _ in 0..20.min(from) {
            ledger.check_one(&store, &ledger.acks[rng.random_range(0..from)]).await;
        }
        verify(&store, &context).await;
        store.close();
    }
    assert!(unchecked_before_ack < 20, "most cycles have acknowledged something");
    let (store, clock) = open_at(&address, START + CYCLES * CYCLE_MS).unwrap();
    let jobs = drain(&store, &clock).await;
    ledger.check(&store, 0).await;
    verify(&store, "at the end").await;
    println!(
        "{CYCLES} kills, {} acknowledged: {}; {jobs} jobs, all final",
        ledger.acks.len(),
        ledger.counts()
    );
}

/// Kills the process after a random number of lines and a random number of turns; says all that was heard.
fn run_and_kill(task: &Task, rng: &mut StdRng) -> Vec<String> {
    let mut process = Process::start(task);
    let wanted = if rng.random_ratio(1, 8) { rng.random_range(0..4) } else { rng.random_range(4..160) };
    let mut lines: Vec<String> = std::iter::from_fn(|| process.hear()).take(wanted).collect();
    for _ in 0..rng.random_range(0..200_000) {
        spin_loop();
    }
    process.kill();
    lines.extend(process.hear_all());
    assert!(!process.end().success());
    lines
}
