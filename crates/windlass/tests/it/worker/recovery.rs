//! What dies, comes back: crashes under a fan-out, wake-ups that are lost, leases that are lost, workers that are
//! forgotten, and other processes' changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass::client::Client;
use windlass::context::Cx;
use windlass::handler::State;
use windlass::job::{AttemptOutcome, GroupStrategy, JobState};
use windlass::store::caller::Caller;
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use super::harness::{
    Bench, EventSender, PROMPTLY, RARELY, Started, events, on_every_engine, outcomes,
    step_by_step_on_every_engine,
};
use super::job_types::{Add, Greet, greet};
use crate::fixture::{On, secs};

const CHILDREN: u64 = 1_000;

type Count = Arc<AtomicUsize>;

async fn child(job: Greet, State(count): State<Count>) -> anyhow::Result<String> {
    count.fetch_add(1, Ordering::SeqCst);
    Ok(job.name)
}

async fn fan_out(_: Add, cx: Cx, State(sender): State<EventSender>) -> anyhow::Result<u64> {
    let names = (0..CHILDREN).map(|number| greet(&number.to_string()));
    let results = cx.spawn_all(names, GroupStrategy::FailFast).await?.all()?;
    sender.say(format!("resumed in attempt {}", cx.attempt()));
    let in_order = results.iter().zip(0..).all(|(result, number): (_, u64)| *result == number.to_string());
    anyhow::ensure!(in_order, "the results are not in input order");
    cx.step("total", async { anyhow::Ok(results.len() as u64) }).await
}

mod fanning_out {
    use super::*;
    step_by_step_on_every_engine!(
        a_fan_out_with_crashes_resumes_its_parent_once,
        a_parent_that_dies_when_resumed_is_resumed_again,
    );

    /// Model: crashes-and-poison, child-groups
    async fn a_fan_out_with_crashes_resumes_its_parent_once(t: &TestClient) {
        let ((sender, mut received), count) = (events(), Count::default());
        let worker = || {
            let worker = Worker::new(t.client()).with(sender.clone()).with(count.clone());
            worker.queue("default", 100).handle(fan_out).handle(child)
        };
        let parent = t.client().submit(Add { numbers: vec![] }).await.unwrap();
        // Every child runs, and every worker dies before it can say so; and once more.
        for round in 1..=2 {
            t.run_due(worker().crash_at(CrashPoint::BeforeFinish)).await;
            assert_eq!(count.load(Ordering::SeqCst) as u64, round * CHILDREN);
            t.assert_state(parent.id(), JobState::Waiting).await;
            t.advance(secs(40)).await;
        }
        t.run_due(worker()).await;
        assert_eq!(parent.result(Duration::ZERO).await.unwrap(), CHILDREN);
        assert_eq!(received.all(), ["resumed in attempt 2"]);
        let ended = outcomes(t.client(), parent.id()).await;
        assert_eq!(ended, [AttemptOutcome::Parked, AttemptOutcome::Completed]);
        assert_eq!(count.load(Ordering::SeqCst) as u64, 3 * CHILDREN);
    }

    /// Model: child-groups
    async fn a_parent_that_dies_when_resumed_is_resumed_again(t: &TestClient) {
        let ((sender, mut received), count) = (events(), Count::default());
        let worker = || {
            let worker = Worker::new(t.client()).with(sender.clone()).with(count.clone());
            worker.queue("default", 100).handle(fan_out).handle(child)
        };
        let parent = t.client().submit(Add { numbers: vec![] }).await.unwrap();
        t.run_due(worker().crash_at(CrashPoint::BeforeStep("total".into()))).await;
        t.advance(secs(40)).await;
        t.run_due(worker()).await;
        assert_eq!(parent.result(Duration::ZERO).await.unwrap(), CHILDREN);
        assert_eq!(received.all(), ["resumed in attempt 2", "resumed in attempt 3"]);
        assert_eq!(count.load(Ordering::SeqCst) as u64, CHILDREN, "no child ran twice");
    }
}

mod running {
    use super::*;
    on_every_engine!(
        a_lost_lease_stops_its_handler_at_once,
        a_worker_that_was_forgotten_continues_as_a_new_one,
    );

    async fn waiting(_: Greet, cx: Cx, State(sender): State<EventSender>) -> anyhow::Result<String> {
        sender.say("started");
        if cx.attempt() == 1 {
            cx.cancelled().await;
            sender.say("cancelled");
        }
        Ok(cx.attempt().to_string())
    }

    /// Model: leases-and-heartbeats
    async fn a_lost_lease_stops_its_handler_at_once(bench: &Bench) {
        let (sender, mut received) = events();
        let running = Started::new(bench.worker().with(sender).heartbeat_every(RARELY).handle(waiting));
        let job = bench.client.submit(greet("x")).await.unwrap();
        received.expect("started").await;
        let id = running.control.started().await;
        bench.client.api().deregister(&Caller::local(), id).await.unwrap();
        received.expect("cancelled").await;
        assert_eq!(
            job.result(PROMPTLY).await.unwrap(),
            "2",
            "what the cut-off attempt returned is not taken"
        );
        running.stop().await;
    }

    /// Model: leases-and-heartbeats
    async fn a_worker_that_was_forgotten_continues_as_a_new_one(bench: &Bench) {
        let (sender, _heard) = events();
        let quick = |_: Greet| async { anyhow::Ok("done".to_owned()) };
        let running = Started::new(bench.worker().with(sender).name("phoenix").handle(quick));
        let first = running.control.started().await;
        bench.client.api().deregister(&Caller::local(), first).await.unwrap();
        let job = bench.client.submit(greet("x")).await.unwrap();
        assert_eq!(job.result(PROMPTLY).await.unwrap(), "done");
        let second = running.control.started().await;
        assert_ne!(first, second);
        assert_eq!(
            bench.client.api().config(&Caller::local()).await.unwrap().workers[&second].name,
            "phoenix"
        );
        running.stop().await;
        assert!(
            bench
                .client
                .api()
                .config(&Caller::local())
                .await
                .unwrap()
                .workers
                .values()
                .all(|w| w.name != "phoenix")
        );
    }
}

async fn quick(job: Greet) -> anyhow::Result<String> {
    Ok(job.name)
}

/// Model: wake-ups. This store has no maintenance, so no notification says that the delay is over; the worker polls.
#[tokio::test(start_paused = true)]
async fn a_lost_wake_up_is_covered_by_the_backstop() {
    let bench = Bench::in_silence();
    let running = Started::new(bench.worker().handle(quick));
    running.control.started().await;
    let begun = tokio::time::Instant::now();
    let job = bench.client.submit(greet("x")).delay(secs(10)).await.unwrap();
    assert_eq!(job.result(secs(60)).await.unwrap(), "x");
    let took = begun.elapsed();
    assert!(took >= secs(10) && took <= secs(12), "{took:?}");
    running.stop().await;
    bench.verify().await;
}

/// Model: leases-and-heartbeats. A worker that beats and lives keeps a long job, whatever its lease; one that fell silent does not.
#[tokio::test(start_paused = true)]
async fn a_long_job_is_kept_by_its_heartbeats() {
    let bench = Bench::in_virtual_time();
    let slow = |_: Greet, cx: Cx| async move {
        tokio::time::sleep(secs(1200)).await;
        anyhow::Ok(cx.attempt().to_string())
    };
    let running = Started::new(bench.worker().handle(slow));
    let job = bench.client.submit(greet("x")).await.unwrap();
    let shorter = bench.client.submit(greet("y")).lease(secs(20)).await.unwrap();
    assert_eq!(job.result(secs(3000)).await.unwrap(), "1");
    assert_eq!(shorter.result(secs(3000)).await.unwrap(), "1");
    running.stop().await;
    bench.verify().await;
}

/// Model: wake-ups. Two stores on one file, as two processes have them.
#[tokio::test]
async fn work_and_notifications_cross_from_one_store_to_another() {
    let bench = Bench::new(On::Sqlite);
    let (sender, mut received) = events();
    let other = Client::open(&bench.address).await.unwrap();
    let waiting = |_: Greet, cx: Cx, State(sender): State<EventSender>| async move {
        sender.say("started");
        cx.cancelled().await;
        sender.say("cancelled");
        anyhow::Ok(String::new())
    };
    let running = Started::new(Worker::new(&other).with(sender).heartbeat_every(RARELY).handle(waiting));
    running.control.started().await;
    let job = bench.client.submit(greet("x")).await.unwrap();
    received.expect("started").await;
    job.cancel().await.unwrap();
    received.expect("cancelled").await;
    running.stop().await;
    other.close();
    bench.verify().await;
}
