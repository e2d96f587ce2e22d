//! Processes killed in the middle of everything, again and again, on one store that grows.

use std::hint::spin_loop;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::ledger::{Ledger, drain};
use super::process::{Process, Role, Task};
use super::{address, open_at, verify};
use crate::fixture::START;
use crate::fixture::cluster::new_schema;

const SEED: u64 = 0x5EED_0026;
/// Kills by default; `WINDLASS_CRASH_CYCLES` says otherwise.
const CYCLES: i64 = 110;
/// The same on PostgreSQL, where opening and verifying are many round trips.
const CYCLES_ON_POSTGRES: i64 = 25;
/// More than a lease lasts, so that what a killed process held is free in the next cycle.
const CYCLE_MS: i64 = 600_000;
/// Less than an idempotency key is remembered: a long campaign has shorter cycles, for which the silence of the dead is
/// enough.
const CAMPAIGN_MS: i64 = 23 * 3_600_000;

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test]
async fn a_process_killed_at_any_moment_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(&address(folder.path()), CYCLES).await;
}

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test]
async fn a_process_killed_at_any_moment_loses_nothing_on_postgres() {
    kill_again_and_again(&new_schema(), CYCLES_ON_POSTGRES).await;
}

async fn kill_again_and_again(address: &str, cycles: i64) {
    let wanted = std::env::var("WINDLASS_CRASH_CYCLES").ok().and_then(|value| value.parse().ok());
    let cycles = wanted.unwrap_or(cycles);
    let cycle_ms = CYCLE_MS.min(CAMPAIGN_MS / cycles);
    println!("seed {SEED:#x}, {cycles} cycles");
    let mut rng = StdRng::seed_from_u64(SEED);
    let mut ledger = Ledger::default();
    let mut unchecked_before_ack = 0;
    for cycle in 0..cycles {
        let now = START + cycle * cycle_ms;
        let name = format!("k{cycle}");
        let task =
            Task { role: Role::Mixed, address: address.to_owned(), seed: rng.random(), now: Some(now), name };
        let (from, lines) = (ledger.acks.len(), run_and_kill(&task, &mut rng));
        let errors: Vec<_> = lines.iter().filter(|line| line.starts_with("error")).collect();
        assert!(errors.is_empty(), "cycle {cycle}: {errors:?}");
        ledger.take(&lines);
        unchecked_before_ack += usize::from(ledger.acks.len() == from);

        let context = format!("cycle {cycle}");
        let (store, _) = open_at(address, now).unwrap_or_else(|error| panic!("{context}: {error}"));
        ledger.check(&store, from).await;
        for _ in 0..20.min(from) {
            ledger.check_one(&store, &ledger.acks[rng.random_range(0..from)]).await;
        }
        verify(&store, &context).await;
        store.close();
    }
    let few = usize::try_from(cycles).unwrap_or(0).div_ceil(5);
    assert!(unchecked_before_ack < few, "most cycles have acknowledged something");
    let (store, clock) = open_at(address, START + cycles * cycle_ms).unwrap();
    let jobs = drain(&store, &clock).await;
    ledger.check(&store, 0).await;
    verify(&store, "at the end").await;
    println!(
        "{cycles} kills, {} acknowledged: {}; {jobs} jobs, all final",
        ledger.acks.len(),
        ledger.counts()
    );
    store.close();
}

/// Kills the process after a random number of lines and a random number of turns; returns all lines that were read.
fn run_and_kill(task: &Task, rng: &mut StdRng) -> Vec<String> {
    let mut process = Process::start(task);
    let wanted = if rng.random_ratio(1, 8) { rng.random_range(0..4) } else { rng.random_range(4..160) };
    let mut lines: Vec<String> = std::iter::from_fn(|| process.read_line()).take(wanted).collect();
    for _ in 0..rng.random_range(0..200_000) {
        spin_loop();
    }
    process.kill();
    lines.extend(process.hear_all());
    assert!(!process.end().success());
    lines
}
