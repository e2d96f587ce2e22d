//! Leaving: drain, interrupt, release. No stage counts as a failure, none loses an outcome, and no handler can hang it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use windlass::context::Cx;
use windlass::error::{StoreError, WorkError};
use windlass::handler::State;
use windlass::job::{AttemptOutcome, JobState};
use windlass::store::PauseMode;
use windlass::store::caller::Caller;

use super::harness::{Bench, EventSender, PROMPTLY, Started, events, on_every_engine, state, within};
use super::job_types::{Greet, greet};
use crate::fixture::{On, secs};

on_every_engine!(
    a_drain_lets_handlers_finish,
    a_handler_that_stops_when_asked_is_given_back,
    a_handler_that_does_not_stop_is_given_back,
    a_worker_leaves_the_registry,
    a_closed_store_ends_its_workers,
);

type Gate = Arc<Semaphore>;

/// Ends when the gate opens, or with an error when it is to stop.
async fn polite(
    _: Greet,
    cx: Cx,
    State(sender): State<EventSender>,
    State(gate): State<Gate>,
) -> anyhow::Result<String> {
    sender.say("started");
    tokio::select! {
        permit = gate.acquire() => permit?.forget(),
        () = cx.cancelled() => {
            sender.say("cancelled");
            anyhow::bail!("asked to stop")
        }
    }
    Ok(cx.attempt().to_string())
}

/// Ends when the gate opens.
async fn rude(
    _: Greet,
    cx: Cx,
    State(sender): State<EventSender>,
    State(gate): State<Gate>,
) -> anyhow::Result<String> {
    sender.say("started");
    gate.acquire().await?.forget();
    Ok(cx.attempt().to_string())
}

/// Model: crashes-and-poison, leases-and-heartbeats
async fn a_drain_lets_handlers_finish(bench: &Bench) {
    let ((sender, mut received), gate) = (events(), Gate::new(Semaphore::new(0)));
    let worker = || bench.worker().with(sender.clone()).with(gate.clone()).handle(polite);
    let running = Started::new(worker().queue("default", 2));
    let jobs = bench.client.submit_all([greet("a"), greet("b"), greet("c")]).await.unwrap();
    received.expect("started").await;
    received.expect("started").await;
    let leaving = running.stopping();
    bench.settle().await;
    assert_eq!(state(&bench.client, jobs[2].id()).await, JobState::Scheduled, "nothing new is claimed");
    gate.add_permits(2);
    assert_eq!(within(PROMPTLY, leaving).await.unwrap().unwrap().released, 0);
    for job in &jobs[..2] {
        assert_eq!(job.result(Duration::ZERO).await.unwrap(), "1");
    }
    assert_eq!(received.all(), [""; 0]);
}

/// Model: crashes-and-poison
async fn a_handler_that_stops_when_asked_is_given_back(bench: &Bench) {
    let ((sender, mut received), gate) = (events(), Gate::new(Semaphore::new(0)));
    let worker = || bench.worker().with(sender.clone()).with(gate.clone()).handle(polite);
    let running = Started::new(worker().drain(Duration::ZERO).grace(secs(3600)));
    let job = bench.client.submit(greet("a")).await.unwrap();
    received.expect("started").await;
    let report = within(PROMPTLY, running.stop()).await;
    received.expect("cancelled").await;
    assert_eq!(report.released, 1);
    gate.add_permits(1);
    let other = Started::new(worker());
    assert_eq!(job.result(PROMPTLY).await.unwrap(), "2");
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Released, AttemptOutcome::Completed]);
    assert_eq!(bench.job(job.id()).await.job.failures, 0);
    other.stop().await;
}

/// Model: crashes-and-poison
async fn a_handler_that_does_not_stop_is_given_back(bench: &Bench) {
    let ((sender, mut received), gate) = (events(), Gate::new(Semaphore::new(0)));
    let worker = || bench.worker().with(sender.clone()).with(gate.clone()).handle(rude);
    let running = Started::new(worker().drain(Duration::ZERO).grace(Duration::from_millis(1)));
    let jobs = bench.client.submit_all([greet("a"), greet("b")]).await.unwrap();
    received.expect("started").await;
    received.expect("started").await;
    assert_eq!(within(PROMPTLY, running.stop()).await.released, 2);
    gate.add_permits(2);
    let other = Started::new(worker());
    for job in &jobs {
        assert_eq!(job.result(PROMPTLY).await.unwrap(), "2");
        assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Released, AttemptOutcome::Completed]);
    }
    other.stop().await;
}

/// Model: leases-and-heartbeats
async fn a_worker_leaves_the_registry(bench: &Bench) {
    let running = Started::new(
        bench.worker().name("one").version("7").handle(|_: Greet| async { anyhow::Ok(String::new()) }),
    );
    let id = running.control.started().await;
    let config = bench.client.api().config(&Caller::local()).await.unwrap();
    let known = &config.workers[&id];
    assert_eq!((&*known.name, known.version.as_deref(), known.concurrency), ("one", Some("7"), 10));
    running.control.pause(PauseMode::Aggressive);
    within(PROMPTLY, running.stop()).await;
    assert!(!bench.client.api().config(&Caller::local()).await.unwrap().workers.contains_key(&id));
}

/// Model: leases-and-heartbeats
async fn a_closed_store_ends_its_workers(bench: &Bench) {
    // A store of its own: the bench looks at its store afterwards.
    let on = On::of(&bench.address);
    let own = if matches!(on, On::Memory) { Bench::in_virtual_time() } else { Bench::new(on) };
    let running = Started::new(own.worker().handle(|_: Greet| async { anyhow::Ok(String::new()) }));
    running.control.started().await;
    own.client.close();
    let ended = within(PROMPTLY, running.ended()).await;
    assert!(matches!(ended, Err(WorkError::Store(StoreError::Closed))), "{ended:?}");
}

/// Model: crashes-and-poison, at-least-once
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_worker_that_leaves_under_load_loses_no_outcome() {
    for round in 0..20_u32 {
        let bench = Bench::new(On::Memory);
        let finished = Arc::new(AtomicUsize::new(0));
        let started = Gate::new(Semaphore::new(0));
        let handler = |_: Greet, State(finished): State<Arc<AtomicUsize>>, State(started): State<Gate>| async move {
            started.add_permits(1);
            tokio::task::yield_now().await;
            finished.fetch_add(1, Ordering::SeqCst);
            anyhow::Ok(String::new())
        };
        let worker = || {
            bench.worker().with(finished.clone()).with(started.clone()).queue("default", 8).handle(handler)
        };
        let running = Started::new(worker());
        let jobs = bench.client.submit_all((0..100).map(|_| greet("x"))).await.unwrap();
        within(PROMPTLY, started.acquire_many(round + 1)).await.unwrap().forget();
        assert_eq!(within(PROMPTLY, running.stop()).await.released, 0, "nothing takes long here");
        // Whatever was started is finished, and whatever is finished is known to be.
        let done = finished.load(Ordering::SeqCst) as u64;
        let states = bench.client.api().stats(bench.client.caller()).await.unwrap().states;
        assert_eq!(states.get(&JobState::Completed).copied().unwrap_or(0), done, "round {round}: {states:?}");
        assert_eq!(states.get(&JobState::Scheduled).copied().unwrap_or(0), 100 - done, "{states:?}");
        let other = Started::new(worker());
        for job in &jobs {
            job.result(PROMPTLY).await.unwrap();
            assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Completed]);
        }
        assert_eq!(finished.load(Ordering::SeqCst), 100);
        other.stop().await;
        bench.verify().await;
    }
}

/// Lets those go who wait for the end.
struct Defer(Arc<AtomicBool>);

impl Drop for Defer {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Model: leases-and-heartbeats. A handler that never yields, and one that blocks its thread, cannot delay the shutdown.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_endless_loop_cannot_hang_the_shutdown() {
    let bench = Bench::new(On::Memory);
    let (sender, mut received) = events();
    let is_over = Arc::new(AtomicBool::new(false));
    // So that the test's own runtime can end, however the test does.
    let _end = Defer(is_over.clone());
    let spin = |_: Greet, State(sender): State<EventSender>, State(is_over): State<Arc<AtomicBool>>| async move {
        sender.say("spinning");
        while !is_over.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        anyhow::Ok(String::new())
    };
    let (blocked, is_free) = (sender.clone(), is_over.clone());
    let block = move |_: super::job_types::Fill, _: Cx| -> anyhow::Result<String> {
        blocked.say("blocking");
        while !is_free.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Ok(String::new())
    };
    let worker = bench.worker().with(sender).with(is_over.clone()).handle(spin).handle_blocking(block);
    let running = Started::new(worker.drain(Duration::from_millis(1)).grace(Duration::from_millis(1)));
    let spinning = bench.client.submit(greet("x")).await.unwrap();
    let blocking = bench.client.submit(super::job_types::Fill { bytes: 0 }).await.unwrap();
    let mut said = [received.next().await, received.next().await];
    said.sort();
    assert_eq!(said, ["blocking", "spinning"]);
    assert_eq!(within(PROMPTLY, running.stop()).await.released, 2);
    for id in [spinning.id(), blocking.id()] {
        assert!(matches!(state(&bench.client, id).await, JobState::Retrying | JobState::Scheduled));
        assert_eq!(bench.outcomes(id).await, [AttemptOutcome::Released]);
    }
    bench.verify().await;
}

/// Model: leases-and-heartbeats
#[tokio::test(start_paused = true)]
async fn leases_are_kept_while_a_worker_drains() {
    let bench = Bench::in_virtual_time();
    let (sender, mut received) = events();
    let slow = |_: Greet, cx: Cx, State(sender): State<EventSender>| async move {
        sender.say("started");
        tokio::time::sleep(secs(1000)).await;
        anyhow::Ok(cx.attempt().to_string())
    };
    let running = Started::new(bench.worker().with(sender).drain(secs(3600)).handle(slow));
    let job = bench.client.submit(greet("x")).await.unwrap();
    received.expect("started").await;
    assert_eq!(running.stop().await.released, 0);
    assert_eq!(job.result(Duration::ZERO).await.unwrap(), "1");
    bench.verify().await;
}

/// Model: leases-and-heartbeats. Each stage lasts as long as configured, and no longer.
#[tokio::test(start_paused = true)]
async fn every_stage_has_its_limit() {
    let bench = Bench::in_virtual_time();
    let ((sender, mut received), gate) = (events(), Gate::new(Semaphore::new(0)));
    let worker = bench.worker().with(sender).with(gate).handle(rude).drain(secs(40)).grace(secs(7));
    let running = Started::new(worker);
    let job = bench.client.submit(greet("x")).await.unwrap();
    received.expect("started").await;
    let begun = tokio::time::Instant::now();
    assert_eq!(running.stop().await.released, 1);
    let took = begun.elapsed();
    assert!(took >= secs(47) && took < secs(48), "{took:?}");
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Released]);
    bench.verify().await;
}
