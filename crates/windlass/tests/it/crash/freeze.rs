//! Processes that are stopped (SIGSTOP) at random moments, one or two of them at once, for shorter and longer than a lease lasts or
//! a database server lets a transaction stand idle, and continue afterwards as if nothing had happened. The others continue meanwhile,
//! and nothing is lost or done twice.

use std::hint::spin_loop;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tokio_postgres::NoTls;

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

/// The longest time that a process has held the store's turn while it did nothing, in milliseconds of the server's clock.
const IDLE_TURN: &str = "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - state_change) * 1000), 0)::bigint \
     FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE state = 'idle in transaction' AND granted \
     AND locktype = 'advisory' AND (classid::bigint << 32 | objid::bigint) = \
     ('x' || left(encode(sha256('windlass SCHEMA write'), 'hex'), 16))::bit(64)::bigint";
/// How often one process is frozen, and for how long: longer than it may hold its turn.
const AGAIN: usize = 10;
const FROZEN_LONG: Duration = Duration::from_millis(700);

/// A process that is frozen again and again stops the others as briefly at the end as the first time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_frozen_again_and_again_does_not_stop_the_others_for_longer() {
    let address = new_schema();
    let (server, schema) = address.rsplit_once("&schema=").expect("the schema comes last");
    let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut campaign = Campaign::start(&address, SEED);
    campaign.read_lines(LINES_BETWEEN_MAX);
    let is_over = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn({
        let (is_over, sql) = (is_over.clone(), IDLE_TURN.replace("SCHEMA", schema));
        async move {
            let mut longest = 0;
            while !is_over.load(Ordering::SeqCst) {
                longest = longest.max(client.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0));
            }
            longest
        }
    });
    let frozen = campaign.pids[2];
    for _ in 0..AGAIN {
        signal("-STOP", frozen);
        // This is the fault itself; nothing is waited for.
        thread::sleep(FROZEN_LONG);
        signal("-CONT", frozen);
        campaign.read_lines(LINES_BETWEEN_MAX / 4);
    }
    is_over.store(true, Ordering::SeqCst);
    let longest = watching.await.unwrap();
    println!("a turn was held idly for up to {longest} ms");
    // The limit of 200 ms, and a server that is busy.
    assert!(longest < 500, "others were stopped for {longest} ms");
    check(&address, &campaign.end()).await;
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
    campaign.read_lines(LINES_BETWEEN_MAX);
    for _ in 0..freezes {
        campaign.read_lines(dice.random_range(0..LINES_BETWEEN_MAX));
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
    campaign.read_lines(LINES_BETWEEN_MAX);
    check(address, &campaign.end()).await;
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs");
    assert!(sent.success(), "{name} reaches {pid}");
}
