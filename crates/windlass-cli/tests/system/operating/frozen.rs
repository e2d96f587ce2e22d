//! Two servers on one store, each of which is stopped (SIGSTOP) at random moments under load, for shorter and longer than a lease
//! lasts, and continues as if nothing had happened: every 201 is there, and every job is completed once.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::process::Command;
use windlass_testkit::cluster::new_schema;
use windlass_testkit::{PATIENCE, store_in, windlass};

use super::load::{Acknowledged, ask, submit};
use super::nodes::{node, work};

const SEED: u64 = 0x5EED_0053;
/// Freezes by default; `WINDLASS_CRASH_FREEZES` says otherwise.
const FREEZES: usize = 8;
/// At most so many jobs are acknowledged between two freezes.
const ACKNOWLEDGED_BETWEEN_MAX: usize = 60;
/// How long a server is frozen, in milliseconds: hardly, for as long as a commit takes, and for longer than a lease.
const FROZEN: [Range<u64>; 3] = [0..20, 20..600, 2_100..3_000];

async fn signal(name: &str, process: u32) {
    let sent = Command::new("kill").args([name, &process.to_string()]).status().await.unwrap();
    assert!(sent.success(), "{name} reaches {process}");
}

async fn freeze_under_load(store: &str) {
    let wanted = std::env::var("WINDLASS_CRASH_FREEZES").ok().and_then(|value| value.parse().ok());
    let servers = [node(store).await, node(store).await];
    let acknowledged = Arc::new(Acknowledged::default());
    let (mut callers, mut workers) = (Vec::new(), Vec::new());
    for server in &servers {
        callers.extend((0..3).map(|_| tokio::spawn(submit(server.address, acknowledged.clone()))));
        workers.extend((0..2).map(|_| tokio::spawn(work(server.address))));
    }
    let mut dice = StdRng::seed_from_u64(SEED);
    for _ in 0..wanted.unwrap_or(FREEZES) {
        let more = dice.random_range(1..ACKNOWLEDGED_BETWEEN_MAX);
        let enough = acknowledged.reaches(acknowledged.count() + more);
        tokio::time::timeout(PATIENCE, enough).await.expect("they continue");
        let process = servers.choose(&mut dice).unwrap().process();
        let time = FROZEN.choose(&mut dice).unwrap().clone();
        signal("-STOP", process).await;
        // This is the fault itself; nothing is waited for.
        tokio::time::sleep(Duration::from_millis(dice.random_range(time))).await;
        signal("-CONT", process).await;
    }
    acknowledged.end();
    for caller in callers {
        caller.await.unwrap();
    }
    // Another thread may have found everything done between two submissions.
    workers.push(tokio::spawn(work(servers[0].address)));
    for worker in workers {
        tokio::time::timeout(PATIENCE, worker).await.expect("all is done in time").unwrap();
    }
    // Each of them is asked for every other job.
    for (id, server) in acknowledged.ids().iter().zip(servers.iter().cycle()) {
        let path = format!("/jobs/{id}/attempts");
        let attempts = ask(server.address, "GET", &path, &Value::Null).await.unwrap().json();
        let attempts = attempts["attempts"].as_array().expect("the job is there");
        let completed = attempts.iter().filter(|one| one["outcome"] == json!("completed")).count();
        assert_eq!(completed, 1, "{id}: {attempts:?}");
    }
    println!("{} acknowledged, each completed once", acknowledged.count());
    for server in servers {
        server.stop().await;
    }
    let verified = windlass(&["verify", "--store", store]).output().await.unwrap();
    assert!(verified.status.success(), "{verified:?}");
}

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_frozen_under_load_lose_nothing_and_do_nothing_twice_on_postgres() {
    freeze_under_load(&new_schema()).await;
}

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_frozen_under_load_lose_nothing_and_do_nothing_twice_on_a_file() {
    let folder = tempfile::tempdir().unwrap();
    freeze_under_load(&store_in(folder.path())).await;
}
