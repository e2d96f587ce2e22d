//! Two processes on one file whose wall clocks differ by ten minutes. The other one is this test binary, started again under
//! `faketime`; real time passes here.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use windlass::job::JobState;
use windlass::store::caller::Caller;
use windlass::store::{
    ClaimRequest, Directive, HeartbeatItem, NewWorker, Store, StoreOptions, SubmitOptions,
};

use crate::fixture::faketime::SkewedProcess;
use crate::fixture::{On, new_job};

const ADDRESS: &str = "WINDLASS_CLOCK_ADDRESS";
/// Rounds of maintenance that the other process reports on.
const ROUNDS: usize = 20;

fn open(address: &str) -> Store {
    Store::open(address, StoreOptions::default()).expect("the store opens")
}

/// The other process: serves the store with a clock that is off; nothing when it runs as an ordinary test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    let store = open(&address);
    eprintln!("@{}", store.clock().is_believed);
    let mut dismissed = tokio::task::spawn_blocking(|| std::io::stdin().lines().for_each(drop));
    let mut rounds = interval(Duration::from_millis(100));
    rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut done = 0;
    loop {
        tokio::select! {
            _ = &mut dismissed => break,
            _ = rounds.tick() => {
                store.tick().await.unwrap();
                store.prune().await.unwrap();
                done += 1;
                if done % ROUNDS == 0 {
                    eprintln!("@rounds");
                }
            }
        }
    }
    store.close();
}

async fn two_processes_whose_clocks_differ(by: &str) {
    let (_files, address) = On::Sqlite.address();
    let (store, me) = (open(&address), Caller::local());
    let worker = store.register(&me, NewWorker::default()).await.unwrap().id;
    store.submit(&me, vec![new_job("email.send"); 10], SubmitOptions::default()).await.unwrap();
    let held = store.claim(&me, &ClaimRequest::new(worker, 5), Duration::ZERO).await.unwrap().jobs;
    let before = store.clock().now;
    // Twice: what one process left behind is what the next one begins with.
    for _ in 0..2 {
        let mut other = SkewedProcess::start(by, "clock::processes::child", (ADDRESS, &address));
        assert_eq!(other.read_line().await, "false", "{by}: it is not alone, and its clock is wrong");
        for _ in 0..3 {
            assert_eq!(other.read_line().await, "rounds");
            let beats = held.iter().map(|held| HeartbeatItem::new(held.job.id, held.job.fence)).collect();
            let reply = store.heartbeat(&me, worker, beats).await.unwrap();
            assert!(
                reply.directives.iter().all(|(_, reply)| *reply == Directive::Continue),
                "{by}: {reply:?}"
            );
            store.tick().await.unwrap();
        }
    }
    assert!(store.clock().now.since(before) < Duration::from_secs(590), "{by}: time has not jumped");
    assert!(store.clock().is_believed, "{by}: the clock here is right");
    let states = store.stats(&me).await.unwrap().states;
    let count = |state| states.get(&state).copied().unwrap_or(0);
    assert_eq!((count(JobState::Running), count(JobState::Scheduled)), (5, 5), "{by}");
    store.close();
}

/// Model: store-time, leases-and-heartbeats
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_on_one_file_whose_clocks_differ_break_nothing() {
    tokio::join!(two_processes_whose_clocks_differ("+10m"), two_processes_whose_clocks_differ("-10m"));
}
