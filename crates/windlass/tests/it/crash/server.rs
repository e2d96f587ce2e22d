//! The database server killed under load, its first process and others, and started again at once. Those who submit and work
//! are processes of their own; they wait, hear no error, and what they were told stays.

use std::sync::mpsc::sync_channel;
use std::thread;

use windlass::clock::{Clock, SystemClock};

use super::ledger::{Ledger, drain};
use super::process::{Process, Role, Task};
use super::{open_at, verify};
use crate::fixture::cluster::{Cluster, schema_at};

const SEED: u64 = 0x5EED_0043;
/// Kills by default, of the first process and of others in turns; `WINDLASS_CRASH_RESTARTS` says otherwise.
const KILLS: usize = 6;
/// What must have been acknowledged since the last kill before the next.
const LINES_BETWEEN: usize = 100;

/// M100 M101
#[tokio::test]
async fn a_database_server_killed_at_any_moment_loses_nothing_and_fails_nobody() {
    let wanted = std::env::var("WINDLASS_CRASH_RESTARTS").ok().and_then(|value| value.parse().ok());
    let kills = wanted.unwrap_or(KILLS);
    println!("seed {SEED:#x}, {kills} kills");
    let cluster = Cluster::start(&[]);
    let address = schema_at(&cluster.address());
    let lines = load_and_kill(&cluster, &address, kills);
    let troubles: Vec<_> =
        lines.iter().filter(|line| line.starts_with("trouble") || line.starts_with("refused")).collect();
    assert!(troubles.is_empty(), "a caller heard of it: {troubles:?}");
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

/// All that three processes were told while their server was killed.
fn load_and_kill(cluster: &Cluster, address: &str, kills: usize) -> Vec<String> {
    let (said, heard) = sync_channel(100_000);
    let mut inputs = Vec::new();
    let mut hearing = Vec::new();
    for (role, name) in [(Role::Web, "web"), (Role::Worker, "worker"), (Role::Mixed, "mixed")] {
        let task = Task { role, address: address.to_owned(), seed: SEED, now: None, name: name.to_owned() };
        let (mut process, said) = (Process::start(&task), said.clone());
        inputs.push(process.take_input());
        hearing.push(thread::spawn(move || {
            while let Some(line) = process.hear() {
                said.send(line).expect("the test listens to the end");
            }
        }));
    }
    drop(said);
    let mut lines = Vec::new();
    for round in 0..=kills {
        let since = lines.len();
        while lines.len() < since + LINES_BETWEEN {
            lines.push(heard.recv().expect("they go on"));
        }
        match round {
            last if last == kills => {}
            even if even % 2 == 0 => cluster.kill_postmaster(),
            _ => cluster.kill_backend(),
        }
    }
    drop(inputs);
    lines.extend(heard);
    for thread in hearing {
        thread.join().unwrap();
    }
    lines
}
