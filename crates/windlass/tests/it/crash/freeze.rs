//! Processes that are stopped (SIGSTOP) at any moment, for shorter and longer than the database server lets a transaction
//! stand idle, and go on afterwards as if nothing had happened. The others go on meanwhile, and nothing is lost or done twice.

use std::process::Command;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use windlass::clock::{Clock, SystemClock};

use super::ledger::{Ledger, drain};
use super::process::{Process, Role, Task};
use super::{open_at, verify};
use crate::fixture::cluster::{Cluster, schema_at};

const SEED: u64 = 0x5EED_0044;
/// Freezes by default; `WINDLASS_CRASH_FREEZES` says otherwise.
const FREEZES: usize = 8;
/// What must have been acknowledged since the last freeze before the next, by whoever is not frozen.
const LINES_BETWEEN: usize = 60;
/// How long a process is frozen, in turns. This is the fault itself: nothing is waited for.
const FROZEN: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(700), Duration::from_millis(2_600)];

/// M100 M101
#[tokio::test]
async fn processes_frozen_at_any_moment_lose_nothing_and_do_nothing_twice() {
    let wanted = std::env::var("WINDLASS_CRASH_FREEZES").ok().and_then(|value| value.parse().ok());
    let freezes = wanted.unwrap_or(FREEZES);
    println!("seed {SEED:#x}, {freezes} freezes");
    let cluster = Cluster::start(&["-c fsync=off"]);
    let address = schema_at(&cluster.address());
    let lines = load_and_freeze(&address, freezes);
    let mut ledger = Ledger::default();
    ledger.take(&lines);
    let (store, clock) = open_at(&address, SystemClock::new().now().as_millis()).unwrap();
    ledger.check(&store, 0).await;
    verify(&store, "after the load").await;
    let jobs = drain(&store, &clock).await;
    ledger.check(&store, 0).await;
    verify(&store, "at the end").await;
    println!("{} acknowledged: {}; {jobs} jobs, all final", ledger.acks.len(), ledger.counts());
    store.close();
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status().expect("kill runs");
    assert!(sent.success(), "{name} reaches {pid}");
}

/// All that three processes were told while each of them was frozen now and then.
fn load_and_freeze(address: &str, freezes: usize) -> Vec<String> {
    let (said, heard) = sync_channel(100_000);
    let (mut inputs, mut pids, mut hearing) = (Vec::new(), Vec::new(), Vec::new());
    for (role, name) in [(Role::Web, "web"), (Role::Worker, "worker"), (Role::Mixed, "mixed")] {
        let task = Task { role, address: address.to_owned(), seed: SEED, now: None, name: name.to_owned() };
        let (mut process, said) = (Process::start(&task), said.clone());
        inputs.push(process.take_input());
        pids.push(process.id());
        hearing.push(thread::spawn(move || {
            while let Some(line) = process.hear() {
                said.send(line).expect("the test listens to the end");
            }
        }));
    }
    drop(said);
    let mut lines = Vec::new();
    for round in 0..=freezes {
        let since = lines.len();
        while lines.len() < since + LINES_BETWEEN {
            lines.push(heard.recv().expect("they go on"));
        }
        if round < freezes {
            let (pid, frozen) = (pids[round % pids.len()], FROZEN[round % FROZEN.len()]);
            signal("-STOP", pid);
            thread::sleep(frozen);
            signal("-CONT", pid);
        }
    }
    drop(inputs);
    lines.extend(heard);
    for thread in hearing {
        thread.join().unwrap();
    }
    lines
}
