//! Worker processes whose machine's clock is off by an hour, each way: nothing is due early, no lease ends early or late.
//! The child is this test binary, started again under `faketime`. Only here does real time pass.

use std::time::Duration;

use tokio::time::Instant;
use windlass::client::Client;
use windlass::clock::{Clock, SystemClock, Timestamp};
use windlass::context::Cx;
use windlass::job::{AttemptOutcome, JobState};
use windlass::store::caller::Caller;
use windlass::store::{AttemptRecord, ClaimRequest, NewWorker, Store};
use windlass::worker::Worker;

use super::{LONG, open, verify};
use crate::fixture::cluster::new_schema;
use crate::fixture::faketime::SkewedProcess;
use crate::worker::job_types::{Greet, greet};

const ADDRESS: &str = "WINDLASS_SKEW_ADDRESS";
const HOUR: Duration = Duration::from_secs(3600);
/// A lease that is not extended, and a delay.
const SOON: Duration = Duration::from_secs(3);
/// The shortest lease there is; extended by heartbeats for as long as a job of `SOON` takes.
const LEASE: Duration = Duration::from_secs(1);
/// Time acts within a second (Model: timer-precision), on a machine that is not busy; an hour is more than that anyway.
const LATE: Duration = Duration::from_secs(20);

/// The other process; nothing when it runs as an ordinary test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(address) = std::env::var(ADDRESS) else { return };
    eprintln!("@clock {}", SystemClock::new().now().as_millis());
    let client = Client::from_store(open(&address));
    let worker =
        Worker::new(&client).heartbeat_every(Duration::from_millis(200)).handle(run).queue("default", 8);
    let dismissed = tokio::task::spawn_blocking(|| std::io::stdin().lines().for_each(drop));
    worker.run_until(async { drop(dismissed.await) }).await.unwrap();
    client.close();
}

async fn run(job: Greet, cx: Cx) -> anyhow::Result<String> {
    eprintln!("@started {} {}", job.name, cx.attempt());
    if job.name == "long" {
        tokio::time::sleep(SOON).await;
    }
    Ok(job.name)
}

/// The attempts of a job that have ended.
async fn attempts(store: &Store, id: windlass::job::JobId) -> Vec<AttemptRecord> {
    let attempts = store.attempts(&Caller::local(), id).await.unwrap().expect("the job is there");
    attempts.into_iter().filter_map(|attempt| attempt.record).collect()
}

fn assert_between(first: Timestamp, at: Timestamp, context: &str) {
    assert!(at >= first, "{context}: {at} is before {first}");
    assert!(at.since(first) < LATE, "{context}: {at} is long after {first}");
}

/// A worker with a wrong clock does all the work; time acts there alone, or here as well.
async fn a_worker_with_a_wrong_clock_breaks_nothing(by: &str, is_kept_here: bool) {
    let address = new_schema();
    let store = open(&address);
    let queue = if is_kept_here {
        Client::from_store(store.clone())
    } else {
        Client::from_store_without_maintenance(store.clone())
    };
    let me = Caller::local();
    let worker =
        store.register(&me, NewWorker { heartbeats: false, ..NewWorker::default() }).await.unwrap().id;
    let held = queue.submit(greet("held")).lease(SOON).await.unwrap();
    let began = Instant::now();
    let claimed = store.claim(&me, &ClaimRequest::new(worker, 1), Duration::ZERO).await.unwrap().jobs;
    let lease = claimed[0].job.lease.expect("a running job has a lease");
    let later = queue.submit(greet("later")).delay(SOON).await.unwrap();
    let long = queue.submit(greet("long")).lease(LEASE).await.unwrap();

    let mut skewed = SkewedProcess::start(by, "postgres::skew::child", (ADDRESS, &address));
    let shown = skewed.read_line().await;
    let shown: i64 = shown.strip_prefix("clock ").expect("the clock comes first").parse().unwrap();
    let off = SystemClock::new().now().as_millis() - shown;
    let hour = i64::try_from(HOUR.as_millis()).unwrap();
    assert!((off.abs() - hour).abs() < hour / 10, "the clock there is off by {off} ms");
    let mut received = Vec::new();
    while received.len() < 3 {
        let line = skewed.read_line().await;
        assert!(line == "started long 1" || began.elapsed() >= SOON, "{line} after {:?}", began.elapsed());
        received.push(line);
    }
    received.sort();
    assert_eq!(received, ["started held 2", "started later 1", "started long 1"]);
    for job in [&held, &later, &long] {
        let ended = job.wait(LONG).await.unwrap().expect("it ends in time");
        assert_eq!(ended.job.state, JobState::Completed, "{by}");
    }
    let [lost, done] = &attempts(&store, held.id()).await[..] else { panic!("two attempts") };
    assert_eq!((lost.outcome, done.outcome), (AttemptOutcome::Lost, AttemptOutcome::Completed));
    assert_between(lease.expires_at, lost.ended_at, "the end of a lease");
    let due = later.snapshot().await.unwrap().expect("the job is there").job.run_at;
    assert_between(due, attempts(&store, later.id()).await[0].started_at, "a delay");
    let long = attempts(&store, long.id()).await;
    assert_eq!(long.iter().map(|attempt| attempt.outcome).collect::<Vec<_>>(), [AttemptOutcome::Completed]);
    verify(&store).await;
    drop(skewed);
    queue.close();
}

/// Model: store-time, leases-and-heartbeats, timer-precision, one-lease-at-a-time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_process_whose_clock_is_off_by_an_hour_breaks_nothing() {
    tokio::join!(
        a_worker_with_a_wrong_clock_breaks_nothing("+1h", false),
        a_worker_with_a_wrong_clock_breaks_nothing("-1h", false),
        a_worker_with_a_wrong_clock_breaks_nothing("+1h", true),
        a_worker_with_a_wrong_clock_breaks_nothing("-1h", true),
    );
}
