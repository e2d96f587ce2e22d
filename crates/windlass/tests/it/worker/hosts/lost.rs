//! Workers that vanish while they hold jobs which were claimed ahead: what had started is charged with a crash, what had not
//! is as if it had not been claimed. Real time passes here, the second that the shortest lease takes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Runtime;
use windlass::client::{Client, Handle, JobBuilder};
use windlass::context::Cx;
use windlass::handler::State as Given;
use windlass::job::{AttemptOutcome, JobId, JobState};
use windlass::store::PauseMode;
use windlass::worker::{Worker, WorkerControl};

use crate::fixture::On;
use crate::worker::harness::{Bench, Started, within};
use crate::worker::job_types::{Greet, greet};

/// Enough that its worker claims ahead.
const SLOTS: usize = 10;
const SLOW: usize = 3 * SLOTS;
/// The shortest lease there is, so that the test does not wait long for what was lost.
const LEASE: Duration = Duration::from_secs(1);
/// Longer than anything here takes, however slow the machine.
const LONG: Duration = Duration::from_secs(60);

/// Jobs of one test.
type Jobs = Vec<Handle<Greet>>;
/// Which attempts of each job a handler has seen.
type Seen = Arc<Mutex<HashMap<JobId, Vec<u32>>>>;

/// What the handlers of a worker share that is about to vanish.
pub(in crate::worker) struct Fate {
    started: AtomicUsize,
    /// Called when as many slow handlers have started as there are slots.
    is_full: Box<dyn Fn() + Send + Sync>,
    end: Mutex<Receiver<()>>,
}

async fn hang(job: Greet, Given(fate): Given<Arc<Fate>>) -> anyhow::Result<String> {
    if job.name == "slow" {
        if fate.started.fetch_add(1, Ordering::SeqCst) + 1 == SLOTS {
            (fate.is_full)();
            // On the only thread there is: nothing in the worker moves any more.
            let _ = fate.end.lock().unwrap().recv();
        }
        std::future::pending::<()>().await;
    }
    Ok(job.name)
}

/// A worker on a thread of its own, which stands still once slow jobs have all its slots.
pub(in crate::worker) fn doomed(
    queue: &Client,
    is_full: impl Fn() + Send + Sync + 'static,
    end: Receiver<()>,
) -> (Runtime, WorkerControl) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let fate = Fate { started: AtomicUsize::new(0), is_full: Box::new(is_full), end: Mutex::new(end) };
    let worker = Worker::new(queue).with(Arc::new(fate)).queue("default", SLOTS).handle(hang);
    let control = worker.control();
    runtime.spawn(worker.run_until(std::future::pending::<()>()));
    (runtime, control)
}

/// Runs so many quick jobs that the worker begins to claim ahead.
pub(in crate::worker) async fn warm_up(bench: &Bench) {
    for job in bench.client.submit_all(vec![greet("quick"); 500]).await.unwrap() {
        job.result(LONG).await.unwrap();
    }
}

pub(in crate::worker) async fn submit_slow(bench: &Bench) -> Jobs {
    bench.client.submit_all((0..SLOW).map(|_| JobBuilder::new(&greet("slow")).lease(LEASE))).await.unwrap()
}

/// The jobs that the worker has started, and those that it only holds.
pub(in crate::worker) async fn split(bench: &Bench, jobs: &Jobs) -> (Vec<JobId>, Vec<JobId>) {
    let (mut started, mut ahead) = (Vec::new(), Vec::new());
    for handle in jobs {
        let job = bench.job(handle.id()).await.job;
        match (job.state, job.has.claim_ahead) {
            (JobState::Running, false) => started.push(job.id),
            (JobState::Running, true) => ahead.push(job.id),
            _ => {}
        }
    }
    assert_eq!(started.len(), SLOTS);
    assert!(!ahead.is_empty(), "nothing was claimed ahead");
    (started, ahead)
}

/// Runs all of them with another worker: only what had started is charged with a crash.
pub(in crate::worker) async fn run_again(bench: &Bench, jobs: Jobs, started: &[JobId]) {
    let seen = Seen::default();
    let note = |job: Greet, cx: Cx, Given(seen): Given<Seen>| async move {
        seen.lock().unwrap().entry(cx.job_id()).or_default().push(cx.attempt());
        anyhow::Ok(job.name)
    };
    let running = Started::new(bench.worker().with(seen.clone()).queue("default", SLOTS).handle(note));
    for handle in jobs {
        let id = handle.id();
        handle.result(LONG).await.unwrap();
        let job = bench.job(id).await.job;
        let outcomes = bench.outcomes(id).await;
        let attempts = seen.lock().unwrap().remove(&id).expect("it ran here");
        if started.contains(&id) {
            assert_eq!((job.crashes, job.failures, &*attempts), (1, 1, &[2][..]));
            assert_eq!(outcomes, [AttemptOutcome::Lost, AttemptOutcome::Completed]);
        } else {
            assert_eq!((job.crashes, job.failures, &*attempts), (0, 0, &[1][..]));
            assert_eq!(outcomes, [AttemptOutcome::Completed]);
        }
    }
    running.stop().await;
}

/// Model: counters-and-fences, crashes-and-poison, leases-and-heartbeats
async fn what_was_claimed_ahead_and_lost_is_charged_with_nothing(bench: Bench) {
    let (sender, mut received) = tokio::sync::mpsc::channel(1);
    let (alive, end) = sync_channel(1);
    let (runtime, control) = doomed(&bench.client, move || sender.try_send(()).unwrap(), end);
    warm_up(&bench).await;
    // So that it claims them all at once.
    control.pause(PauseMode::Graceful);
    let jobs = submit_slow(&bench).await;
    control.resume();
    within(LONG, received.recv()).await.expect("the worker still runs");
    let (started, _) = split(&bench, &jobs).await;
    // From here on nothing of it runs any more, not even deregistration.
    runtime.shutdown_background();
    drop(alive);
    run_again(&bench, jobs, &started).await;
    bench.verify().await;
}

#[tokio::test]
async fn what_was_claimed_ahead_and_lost_is_charged_with_nothing_in_memory() {
    what_was_claimed_ahead_and_lost_is_charged_with_nothing(Bench::new(On::Memory)).await;
}

#[tokio::test]
async fn what_was_claimed_ahead_and_lost_is_charged_with_nothing_on_a_file() {
    what_was_claimed_ahead_and_lost_is_charged_with_nothing(Bench::new(On::Sqlite)).await;
}

#[tokio::test]
async fn what_was_claimed_ahead_and_lost_is_charged_with_nothing_on_postgres() {
    what_was_claimed_ahead_and_lost_is_charged_with_nothing(Bench::new(On::Postgres)).await;
}
