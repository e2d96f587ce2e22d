//! Batch handlers in workers that run: when a batch begins, and how it ends when one of its jobs, or its worker,
//! is to stop.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use windlass::client::Suspend;
use windlass::context::{CancelReason, Cx};
use windlass::handler::{BatchOptions, State};
use windlass::job::{AttemptOutcome, JobState, RetryPolicy};
use windlass::store::PauseMode;
use windlass::worker::Worker;

use super::harness::{
    Bench, EventReceiver, EventSender, PROMPTLY, Started, events, on_every_engine, state, within,
};
use super::job_types::{Greet, greet};
use crate::fixture::secs;

on_every_engine!(
    jobs_that_come_one_by_one_are_handled_together,
    a_worker_whose_slots_are_taken_does_not_wait_for_more,
    a_job_that_is_cancelled_or_suspended_leaves_the_others_alone,
    a_worker_that_leaves_does_not_wait_for_more,
    a_batch_that_does_not_stop_is_given_back,
    a_batch_is_given_back_after_its_handler_was_dropped,
    a_batch_that_has_not_begun_is_given_back_by_a_pause,
);

type Gate = Arc<Semaphore>;
type Outcomes = Vec<anyhow::Result<String>>;

/// Longer than any test waits, so that what happens promptly has not waited for it.
const LONG: Duration = Duration::from_secs(60);

/// Says how many it was given, and ends when the gate opens for all of them.
async fn gated(
    jobs: Vec<Greet>,
    contexts: Vec<Cx>,
    State(sender): State<EventSender>,
    State(gate): State<Gate>,
) -> Outcomes {
    sender.say(format!("batch of {}", jobs.len()));
    gate.acquire_many(u32::try_from(jobs.len()).unwrap()).await.unwrap().forget();
    contexts.iter().map(|cx| Ok(cx.attempt().to_string())).collect()
}

/// A worker whose handler may end so many jobs for now; it tells when each job has begun to wait.
struct House {
    sender: EventSender,
    received: EventReceiver,
    gate: Gate,
}

impl House {
    fn open_for(permits: usize) -> House {
        let (sender, received) = events();
        House { sender, received, gate: Gate::new(Semaphore::new(permits)) }
    }

    fn worker(&self, bench: &Bench, options: BatchOptions) -> Worker {
        let sender = self.sender.clone();
        let worker = bench.worker().with(self.sender.clone()).with(self.gate.clone());
        worker.handle_batch(options, gated).layer(move |_, next| {
            sender.say("here");
            next
        })
    }

    /// Waits for so many jobs to be with the worker, and for nothing else.
    async fn expect_here(&mut self, count: usize) {
        for _ in 0..count {
            self.received.expect("here").await;
        }
    }
}

async fn jobs_that_come_one_by_one_are_handled_together(bench: &Bench) {
    let mut house = House::open_for(100);
    let worker = Started::new(house.worker(bench, BatchOptions::new(3, LONG)));
    let mut jobs = Vec::new();
    for name in ["a", "b", "c"] {
        jobs.push(bench.client.submit(greet(name)).await.unwrap());
        house.expect_here(1).await;
    }
    house.received.expect("batch of 3").await;
    for job in jobs {
        assert_eq!(job.result(PROMPTLY).await.unwrap(), "1");
    }
    worker.stop().await;
}

/// A batch takes as many slots as it has jobs: when all are taken no more can come.
async fn a_worker_whose_slots_are_taken_does_not_wait_for_more(bench: &Bench) {
    let mut house = House::open_for(0);
    let worker = Started::new(house.worker(bench, BatchOptions::new(100, LONG)).queue("default", 2));
    let jobs = bench.client.submit_all(["a", "b", "c", "d"].map(greet)).await.unwrap();
    house.expect_here(2).await;
    house.received.expect("batch of 2").await;
    bench.settle().await;
    assert_eq!(house.received.all(), [""; 0], "no third job begins beside two in two slots");
    house.gate.add_permits(4);
    for job in jobs {
        assert_eq!(job.result(PROMPTLY).await.unwrap(), "1");
    }
    worker.stop().await;
}

/// Model: suspend-modes
async fn a_job_that_is_cancelled_or_suspended_leaves_the_others_alone(bench: &Bench) {
    async fn handler(
        jobs: Vec<Greet>,
        contexts: Vec<Cx>,
        State(sender): State<EventSender>,
        State(gate): State<Gate>,
    ) -> Outcomes {
        let place = |name: &str| jobs.iter().position(|job| job.name == name).expect("it is in the batch");
        let (cancelled, suspended) = (&contexts[place("cancelled")], &contexts[place("suspended")]);
        sender.say(format!("batch of {}", jobs.len()));
        cancelled.cancelled().await;
        assert_eq!(cancelled.interruption(), Some(CancelReason::Cancelled));
        suspended.cancelled().await;
        assert_eq!(suspended.interruption(), Some(CancelReason::Suspended));
        sender.say("two are gone");
        gate.acquire().await.unwrap().forget();
        assert!(!contexts[place("stays")].is_cancelled());
        jobs.into_iter().map(|job| Ok(job.name)).collect()
    }
    let ((sender, mut received), gate) = (events(), Gate::new(Semaphore::new(0)));
    let worker = bench.worker().with(sender).with(gate.clone());
    let worker = Started::new(worker.handle_batch(BatchOptions::new(3, LONG), handler));
    let jobs = bench.client.submit_all(["cancelled", "suspended", "stays"].map(greet)).await.unwrap();
    received.expect("batch of 3").await;
    jobs[0].cancel().await.unwrap();
    jobs[1].suspend(Suspend::aggressive()).await.unwrap();
    received.expect("two are gone").await;
    gate.add_permits(1);
    assert_eq!(jobs[2].result(PROMPTLY).await.unwrap(), "stays");
    worker.stop().await;
    assert_eq!(state(&bench.client, jobs[0].id()).await, JobState::Cancelled);
    assert_eq!(state(&bench.client, jobs[1].id()).await, JobState::Suspended);
}

/// Model: crashes-and-poison
async fn a_worker_that_leaves_does_not_wait_for_more(bench: &Bench) {
    let mut house = House::open_for(100);
    let worker = Started::new(house.worker(bench, BatchOptions::new(100, LONG)));
    let jobs = bench.client.submit_all(["a", "b"].map(greet)).await.unwrap();
    house.expect_here(2).await;
    assert_eq!(within(PROMPTLY, worker.stop()).await.released, 0);
    house.received.expect("batch of 2").await;
    for job in jobs {
        assert_eq!(job.result(Duration::ZERO).await.unwrap(), "1");
    }
}

/// Model: crashes-and-poison
async fn a_batch_that_does_not_stop_is_given_back(bench: &Bench) {
    let mut house = House::open_for(0);
    let worker = || house.worker(bench, BatchOptions::new(2, LONG));
    let rude = Started::new(worker().drain(Duration::ZERO).grace(Duration::from_millis(1)));
    let other = worker();
    let jobs = bench.client.submit_all(["a", "b"].map(greet)).await.unwrap();
    house.expect_here(2).await;
    house.received.expect("batch of 2").await;
    assert_eq!(within(PROMPTLY, rude.stop()).await.released, 2);
    house.gate.add_permits(2);
    let other = Started::new(other);
    for job in jobs {
        assert_eq!(job.result(PROMPTLY).await.unwrap(), "2");
        assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Released, AttemptOutcome::Completed]);
    }
    other.stop().await;
}

/// Says when it is dropped.
struct Dropped(EventSender);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.say("dropped");
    }
}

/// Model: crashes-and-poison
async fn a_batch_is_given_back_after_its_handler_was_dropped(bench: &Bench) {
    async fn stubborn(_jobs: Vec<Greet>, State(sender): State<EventSender>) -> Outcomes {
        let _dropped = Dropped(sender.clone());
        sender.say("began");
        std::future::pending().await
    }
    let (sender, mut received) = events();
    let worker = || {
        let worker =
            bench.worker().with(sender.clone()).drain(Duration::ZERO).grace(Duration::from_millis(1));
        Started::new(worker.handle_batch(BatchOptions::new(2, LONG), stubborn))
    };
    let first = worker();
    bench.client.submit_all(["a", "b"].map(greet)).await.unwrap();
    received.expect("began").await;
    let second = worker();
    within(PROMPTLY, first.stop()).await;
    received.expect("dropped").await;
    received.expect("began").await;
    within(PROMPTLY, second.stop()).await;
    assert_eq!(received.all(), ["dropped"], "it is dropped when the worker has stopped");
}

/// Model: worker-pause
async fn a_batch_that_has_not_begun_is_given_back_by_a_pause(bench: &Bench) {
    let mut house = House::open_for(100);
    let worker = Started::new(house.worker(bench, BatchOptions::new(3, LONG)));
    let mut jobs = bench.client.submit_all(["a", "b"].map(greet)).await.unwrap();
    house.expect_here(2).await;
    worker.control.pause(PauseMode::Aggressive);
    bench.settle().await;
    worker.control.resume();
    house.expect_here(2).await;
    jobs.push(bench.client.submit(greet("c")).await.unwrap());
    house.expect_here(1).await;
    house.received.expect("batch of 3").await;
    for job in &jobs {
        job.result(PROMPTLY).await.unwrap();
    }
    assert_eq!(bench.outcomes(jobs[0].id()).await, [AttemptOutcome::Released, AttemptOutcome::Completed]);
    assert_eq!(bench.job(jobs[0].id()).await.job.failures, 0);
    worker.stop().await;
}

/// The first job waits for others as long as configured, whatever comes meanwhile.
#[tokio::test(start_paused = true)]
async fn the_first_job_waits_for_others_but_not_for_long() {
    let bench = Bench::in_virtual_time();
    let mut house = House::open_for(100);
    let worker = Started::new(house.worker(&bench, BatchOptions::new(100, secs(5))).queue("default", 100));
    worker.control.started().await;
    let began = Instant::now();
    for _ in 0..3 {
        bench.client.submit(greet("a")).await.unwrap();
        house.expect_here(1).await;
        tokio::time::sleep(secs(2)).await;
    }
    house.received.expect("batch of 3").await;
    let job = bench.client.submit(greet("b")).await.unwrap();
    house.expect_here(1).await;
    house.received.expect("batch of 1").await;
    let waited = began.elapsed();
    assert!((secs(11)..secs(12)).contains(&waited), "5 s from the first, then 5 s from the next: {waited:?}");
    job.result(PROMPTLY).await.unwrap();
    worker.stop().await;
}

/// Model: execution-timeout. Each job has its own time limit; the call ends with the last of them, and each is tried by itself then.
#[tokio::test(start_paused = true)]
async fn a_batch_that_hangs_is_dropped_when_the_time_of_all_its_jobs_is_over() {
    async fn handler(jobs: Vec<Greet>, contexts: Vec<Cx>, State(sender): State<EventSender>) -> Outcomes {
        let _guard = Dropped(sender.clone());
        sender.say(format!("batch of {}", jobs.len()));
        if contexts.iter().all(|cx| cx.attempt() == 2) {
            return jobs.into_iter().map(|job| Ok(job.name)).collect();
        }
        let quick = jobs.iter().zip(&contexts).find(|(job, _)| job.name == "quick").expect("it is here").1;
        quick.cancelled().await;
        assert_eq!(quick.interruption(), Some(CancelReason::TimedOut));
        sender.say("one is over");
        std::future::pending().await
    }
    let bench = Bench::in_virtual_time();
    let (sender, mut received) = events();
    let worker = bench.worker().with(sender).handle_batch(BatchOptions::new(2, LONG), handler);
    let worker = Started::new(worker.grace(Duration::ZERO));
    let submit = async |name, seconds| {
        let retry = RetryPolicy { initial_delay: secs(100), ..RetryPolicy::fixed() };
        bench.client.submit(greet(name)).timeout(secs(seconds)).retry(retry).await.unwrap()
    };
    let (quick, slow) = (submit("quick", 10).await, submit("slow", 20).await);
    // In virtual time.
    tokio::time::sleep(secs(300)).await;
    let expected = ["batch of 2", "one is over", "dropped", "batch of 1", "dropped", "batch of 1", "dropped"];
    assert_eq!(received.all(), expected);
    for (job, name) in [(quick, "quick"), (slow, "slow")] {
        assert_eq!(job.result(PROMPTLY).await.unwrap(), name);
        assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::TimedOut, AttemptOutcome::Completed]);
    }
    worker.stop().await;
}
