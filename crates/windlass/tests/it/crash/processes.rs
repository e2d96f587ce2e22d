//! Several processes on one file: they submit and work side by side, one is killed and replaced, and no other process is disturbed by the
//! others' locks.

use std::thread;
use std::time::Duration;

use tokio::time::Instant;
use windlass::clock::{Clock, SystemClock};
use windlass::job::QueueName;
use windlass::store::caller::Caller;
use windlass::store::{ClaimRequest, NewWorker, Outcome, Report, Store, StoreOptions, SubmitOptions};

use super::child::WAKE;
use super::ledger::{Ack, Ledger, drain};
use super::load::new_job;
use super::process::{Process, Role, Task};
use super::{address, open_at, verify};

const SEED: u64 = 0x5EED_0034;
const LOAD: Duration = Duration::from_secs(2);
/// Far below the second after which a waiting claim looks by itself, and far above what it takes.
const WAKE_UP_MAX: Duration = Duration::from_millis(500);

fn start(address: &str, role: Role, seed: u64, name: &str) -> Process {
    Process::start(&Task { role, address: address.to_owned(), seed, now: None, name: name.to_owned() })
}

/// Model: at-least-once, one-lease-at-a-time
#[tokio::test]
async fn processes_that_share_a_file_lose_nothing_and_do_nothing_twice() {
    println!("seed {SEED:#x}");
    let folder = tempfile::tempdir().unwrap();
    let address = address(folder.path());
    let store = Store::open(&address, StoreOptions::default()).unwrap();
    let mut lines = Vec::new();
    let acked_by_parent = thread::scope(|scope| {
        let run = |role, seed, name: &'static str, kills: bool| {
            let address = &address;
            scope.spawn(move || {
                let mut process = start(address, role, seed, name);
                // The one that is killed is in the middle of things by then.
                let mut lines: Vec<String> = if kills {
                    std::iter::from_fn(|| process.read_line()).take(400).collect()
                } else {
                    Vec::new()
                };
                if kills {
                    process.kill();
                    lines.extend(process.hear_all());
                    process = start(address, role, seed + 1, "replaced");
                }
                let input = process.take_input();
                thread::spawn(move || {
                    thread::sleep(LOAD);
                    drop(input);
                });
                lines.extend(process.hear_all());
                lines
            })
        };
        let runs = [
            run(Role::Web, SEED, "web", false),
            run(Role::Worker, SEED + 10, "worker", false),
            run(Role::Mixed, SEED + 20, "mixed", true),
        ];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let own = scope.spawn(move || runtime.block_on(submit_for_a_while(&store)));
        for run in runs {
            lines.extend(run.join().unwrap());
        }
        own.join().unwrap()
    });
    let errors: Vec<_> =
        lines.iter().filter(|line| line.starts_with("error") || line.starts_with("refused")).collect();
    assert!(errors.is_empty(), "a caller noticed another process: {errors:?}");
    let mut ledger = Ledger::default();
    ledger.take(&lines);
    ledger.take(&acked_by_parent);

    let now = SystemClock::new().now().as_millis();
    let (store, clock) = open_at(&address, now).unwrap();
    ledger.check(&store, 0).await;
    verify(&store, "after the load").await;
    let jobs = drain(&store, &clock).await;
    ledger.check(&store, 0).await;
    verify(&store, "at the end").await;
    println!(
        "{} acknowledged by 5 processes: {}; {jobs} jobs, all final",
        ledger.acks.len(),
        ledger.counts()
    );
}

async fn submit_for_a_while(store: &Store) -> Vec<String> {
    let end = Instant::now() + LOAD;
    let mut lines = Vec::new();
    for number in 0.. {
        if Instant::now() >= end {
            break;
        }
        let tag = format!("parent.{number}");
        let jobs = vec![new_job(&tag)];
        let receipts = store.submit(&Caller::local(), jobs, SubmitOptions::default()).await.unwrap();
        lines.push(Ack::Submitted { id: receipts[0].job.id, tag }.to_string());
    }
    store.close();
    lines
}

/// Model: wake-ups
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_claim_is_woken_by_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let address = address(folder.path());
    let store = Store::open(&address, StoreOptions::default()).unwrap();
    let mut web = start(&address, Role::Web, SEED, "web");
    while web.read_line().is_some_and(|line| line != "opened") {}
    web.say("quiet");
    while web.read_line().is_some_and(|line| line != "quiet") {}

    let me = Caller::local();
    let queues = vec![QueueName::new(WAKE).unwrap()];
    let worker = store.register(&me, NewWorker { queues, ..NewWorker::default() }).await.unwrap().id;
    let mut waits = Vec::new();
    for round in 0..10 {
        let (waiting, own) = (store.clone(), me.clone());
        let claim = tokio::spawn(async move {
            let request = ClaimRequest::new(worker, 1);
            (waiting.claim(&own, &request, Duration::from_secs(10)).await.unwrap(), Instant::now())
        });
        // Let the claim find nothing first. Whenever the job comes, it is there before the next look without a wake-up.
        tokio::time::sleep(Duration::from_millis(20 + 7 * round)).await;
        web.say("submit");
        assert_eq!(web.read_line().as_deref(), Some("woken"));
        let acknowledged = Instant::now();
        let (answer, claimed) = claim.await.unwrap();
        assert_eq!(answer.jobs.len(), 1, "the claim found nothing");
        waits.push(claimed.saturating_duration_since(acknowledged));
        let job = &answer.jobs[0].job;
        let report = Report::new(job.id, job.fence, Outcome::Completed { result: None });
        store.finish(&me, worker, vec![report]).await.unwrap();
    }
    waits.sort();
    println!("acknowledged there to claimed here: median {:?}, longest {:?}", waits[5], waits[9]);
    assert!(waits[9] < WAKE_UP_MAX, "{waits:?}");
    store.close();
}
