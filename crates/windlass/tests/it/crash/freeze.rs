//! Processes that are stopped (SIGSTOP) at random moments, one or two of them at once, for shorter and longer than a lease lasts or
//! a database server lets a transaction stand idle, and go on afterwards as if nothing had happened. The others go on meanwhile,
//! and nothing is lost or done twice.

use std::hint::spin_loop;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::address;
use super::campaign::{Campaign, check};
use crate::fixture::cluster::new_schema;

/// `WINDLASS_FREEZE_SEED` says otherwise.
const SEED: u64 = 0x5EED_0044;
/// Freezes by default; `WINDLASS_CRASH_FREEZES` says otherwise.
const FREEZES: usize = 10;
/// At most so much is acknowledged between two freezes.
const LINES_BETWEEN_MAX: usize = 120;
/// How long a process is frozen, in milliseconds: hardly, for as long as a commit takes, and for longer than a lease.
const FROZEN: [std::ops::Range<u64>; 3] = [0..20, 20..600, 1_200..2_600];

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test]
async fn processes_frozen_at_any_moment_lose_nothing_and_do_nothing_twice_on_postgres() {
    freeze_again_and_again(&new_schema()).await;
}

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test]
async fn processes_frozen_at_any_moment_lose_nothing_and_do_nothing_twice_on_a_file() {
    let folder = tempfile::tempdir().unwrap();
    freeze_again_and_again(&address(folder.path())).await;
}

fn wanted<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok().and_then(|value| value.parse().ok())
}

async fn freeze_again_and_again(address: &str) {
    let freezes = wanted("WINDLASS_CRASH_FREEZES").unwrap_or(FREEZES);
    let seed = wanted("WINDLASS_FREEZE_SEED").unwrap_or(SEED);
    println!("seed {seed:#x}, {freezes} freezes");
    let mut dice = StdRng::seed_from_u64(seed);
    let mut campaign = Campaign::start(address, seed);
    // All of them are in the middle of things.
    campaign.hear(LINES_BETWEEN_MAX);
    for _ in 0..freezes {
        campaign.hear(dice.random_range(0..LINES_BETWEEN_MAX));
        for _ in 0..dice.random_range(0..200_000) {
            spin_loop();
        }
        let count = dice.random_range(1..=2);
        let frozen: Vec<u32> = campaign.pids.sample(&mut dice, count).copied().collect();
        let time = FROZEN.choose(&mut dice).expect("there are some").clone();
        for pid in &frozen {
            signal("-STOP", *pid);
        }
        // This is the fault itself; nothing is waited for.
        thread::sleep(Duration::from_millis(dice.random_range(time)));
        for pid in &frozen {
            signal("-CONT", *pid);
        }
    }
    campaign.hear(LINES_BETWEEN_MAX);
    check(address, &campaign.end()).await;
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs");
    assert!(sent.success(), "{name} reaches {pid}");
}
