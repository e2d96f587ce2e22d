//! Claiming ahead: while handlers are quick, a worker holds jobs for which no slot is free yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;
use windlass::context::Cx;
use windlass::handler::State as Given;
use windlass::job::{AttemptOutcome, JobId, JobState};
use windlass::store::caller::Caller;

use crate::worker::harness::{Bench, PROMPTLY, Started, outcomes};
use crate::worker::job_types::{Greet, greet};

const SLOTS: usize = 10;

struct Room {
    running: AtomicUsize,
    most: AtomicUsize,
    slow_may_end: Semaphore,
    /// Which attempts each job's handler has seen.
    attempts: Mutex<HashMap<JobId, Vec<u32>>>,
}

async fn handle(job: Greet, cx: Cx, Given(room): Given<Arc<Room>>) -> anyhow::Result<String> {
    room.attempts.lock().unwrap().entry(cx.job_id()).or_default().push(cx.attempt());
    let running = room.running.fetch_add(1, Ordering::SeqCst) + 1;
    room.most.fetch_max(running, Ordering::SeqCst);
    if job.name == "slow" {
        room.slow_may_end.acquire().await?.forget();
    }
    room.running.fetch_sub(1, Ordering::SeqCst);
    Ok(job.name)
}

async fn count(bench: &Bench, state: JobState) -> u64 {
    bench.client.api().stats(&Caller::local()).await.unwrap().states[&state]
}

/// A prefetched job that cannot start soon is released, which is not a failure.
#[tokio::test(start_paused = true)]
async fn what_was_claimed_ahead_goes_back_when_handlers_turn_slow() {
    let bench = Bench::in_virtual_time();
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let room = Arc::new(Room { running, most, slow_may_end: Semaphore::new(0), attempts: Mutex::default() });
    let quick = bench.client.submit_all(vec![greet("quick"); 500]).await.unwrap();
    let worker = Started::new(bench.worker().with(room.clone()).queue("default", SLOTS).handle(handle));
    for job in quick {
        job.result(PROMPTLY).await.unwrap();
    }
    let slow = bench.client.submit_all(vec![greet("slow"); 3 * SLOTS]).await.unwrap();
    bench.let_time_pass().await;
    let slots = SLOTS as u64;
    assert_eq!(
        (count(&bench, JobState::Running).await, count(&bench, JobState::Scheduled).await),
        (slots, 2 * slots)
    );
    room.slow_may_end.add_permits(3 * SLOTS);
    for job in slow {
        job.result(PROMPTLY).await.unwrap();
        // What was given back had not started, and does not count.
        assert_eq!(outcomes(&bench.client, job.id()).await, [AttemptOutcome::Completed]);
        let attempt = room.attempts.lock().unwrap().remove(&job.id());
        assert_eq!(attempt, Some(vec![1]));
    }
    assert_eq!(room.most.load(Ordering::SeqCst), SLOTS, "never more handlers than slots");
    worker.stop().await;
}
