//! Suspending jobs, pausing queues and workers under running handlers, here and from afar: never a failure, and what was
//! done is not done again.

use std::sync::Arc;

use tokio::sync::Semaphore;
use windlass::client::{ActionResult, Client, Handle, Job};
use windlass::context::Cx;
use windlass::error::ActionError;
use windlass::handler::State;
use windlass::job::{AttemptOutcome, JobId, JobState, SuspendMode, WorkerId};
use windlass::store::{Pause, PauseMode, Suspend};
use windlass::worker::Worker;

use super::harness::{
    Bench, EventReceiver, EventSender, PROMPTLY, RARELY, Started, events, on_every_engine, outcomes, state,
    within,
};
use super::job_types::{Greet, greet};
use crate::fixture::{On, secs};

on_every_engine!(
    a_job_suspended_in_mid_run_continues_after_its_last_step,
    a_graceful_suspension_waits_for_the_attempt,
    a_cancelled_job_stops_its_handler_at_once,
    a_handler_learns_why_it_is_to_stop,
    a_handler_that_ignores_cancellation_is_fenced,
    a_paused_queue_finishes_what_it_runs,
    an_aggressive_pause_of_a_queue_suspends_what_runs,
    a_worker_paused_here_finishes_what_it_runs,
    a_worker_paused_aggressively_here_gives_back_what_it_runs,
    a_worker_paused_from_afar_finishes_what_it_runs,
    a_worker_paused_aggressively_from_afar_gives_back_what_it_runs,
    a_worker_that_is_not_there_cannot_be_paused,
);

/// Lets handlers through.
type Gate = Arc<Semaphore>;

/// One step, then a second that ends when the gate opens, or with an error when the attempt is to stop.
async fn polite(
    job: Greet,
    cx: Cx,
    State(sender): State<EventSender>,
    State(gate): State<Gate>,
) -> anyhow::Result<String> {
    let first = cx.step("first", async {
        sender.say("first");
        anyhow::Ok(cx.attempt())
    });
    let first = first.await?;
    let second = cx.step("second", async {
        sender.say("second");
        tokio::select! {
            () = cx.cancelled() => {
                sender.say("cancelled");
                anyhow::bail!("asked to stop")
            }
            permit = gate.acquire() => permit?.forget(),
        }
        Ok(cx.attempt())
    });
    Ok(format!("{} {first} {}", job.name, second.await?))
}

/// Does not care whether it is to stop.
async fn rude(
    _: Greet,
    cx: Cx,
    State(sender): State<EventSender>,
    State(gate): State<Gate>,
) -> anyhow::Result<String> {
    sender.say(format!("started {}", cx.attempt()));
    gate.acquire().await?.forget();
    let late = cx.checkpoint(&cx.attempt()).await;
    sender.say(if late.is_ok() { "written" } else { "refused" });
    Ok(cx.attempt().to_string())
}

struct Scene {
    gate: Gate,
    sender: EventSender,
    received: EventReceiver,
}

impl Scene {
    fn new() -> Scene {
        let (sender, received) = events();
        Scene { gate: Arc::new(Semaphore::new(0)), sender, received }
    }

    /// A worker that learns nothing by its heartbeats: they are too rare.
    fn worker(&self, client: &Client) -> Worker {
        let worker = Worker::new(client).with(self.sender.clone()).with(self.gate.clone());
        worker.heartbeat_every(RARELY).grace(secs(3600)).queue("default", 1)
    }

    fn polite(&self, bench: &Bench) -> Started {
        Started::new(self.worker(&bench.client).handle(polite))
    }

    /// A job whose handler waits in its second step.
    async fn in_mid_run(&mut self, bench: &Bench) -> Handle<Greet> {
        let job = bench.client.submit(greet("x")).await.unwrap();
        self.received.expect("first").await;
        self.received.expect("second").await;
        job
    }

    /// Lets a job in mid-run finish; the next one is not started.
    async fn finish_and_start_no_other(&self, bench: &Bench, job: Handle<Greet>) -> Handle<Greet> {
        self.gate.add_permits(1);
        assert_eq!(job.result(PROMPTLY).await.unwrap(), "x 1 1");
        let next = bench.client.submit(greet("next")).await.unwrap();
        bench.settle().await;
        assert_eq!(state(&bench.client, next.id()).await, JobState::Scheduled);
        next
    }
}

fn aggressively() -> Suspend {
    Suspend { mode: SuspendMode::Aggressive, ..Suspend::default() }
}

fn aggressive() -> Pause {
    Pause { mode: PauseMode::Aggressive, ..Pause::default() }
}

async fn failures(bench: &Bench, id: JobId) -> u32 {
    bench.job(id).await.job.failures
}

/// Model: suspend-modes, steps
async fn a_job_suspended_in_mid_run_continues_after_its_last_step(bench: &Bench) {
    let mut scene = Scene::new();
    let running = scene.polite(bench);
    let job = scene.in_mid_run(bench).await;
    assert_eq!(job.suspend(aggressively()).await.unwrap(), ActionResult::Changed);
    scene.received.expect("cancelled").await;
    bench.settle().await;
    assert_eq!(state(&bench.client, job.id()).await, JobState::Suspended);
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Suspended]);
    assert_eq!(job.resume().await.unwrap(), ActionResult::Changed);
    scene.received.expect("second").await;
    scene.gate.add_permits(1);
    assert_eq!(job.result(PROMPTLY).await.unwrap(), "x 1 2");
    assert_eq!(failures(bench, job.id()).await, 0);
    assert_eq!(running.stop().await.released, 0);
}

/// Model: suspend-modes, worker-pause
async fn a_handler_learns_why_it_is_to_stop(bench: &Bench) {
    let mut scene = Scene::new();
    let sender = scene.sender.clone();
    let why = move |cx: Cx| {
        let sender = sender.clone();
        async move {
            assert_eq!(cx.interruption(), None);
            sender.say(format!("urgent {}, {} attempts", cx.priority().value(), cx.max_attempts()));
            cx.cancelled().await;
            sender.say(format!("{:?}", cx.interruption()));
            anyhow::Ok(String::new())
        }
    };
    let worker = scene.worker(&bench.client).handle_type(Greet::TYPE, why);
    let control = worker.control();
    let running = Started::new(worker);
    let job = bench.client.submit(greet("x")).priority(80).await.unwrap();
    scene.received.expect("urgent 80, 3 attempts").await;
    job.suspend(aggressively()).await.unwrap();
    scene.received.expect("Some(Suspended)").await;
    job.resume().await.unwrap();
    scene.received.expect("urgent 80, 3 attempts").await;
    job.cancel().await.unwrap();
    scene.received.expect("Some(Cancelled)").await;
    bench.client.submit(greet("y")).await.unwrap();
    scene.received.expect("urgent 50, 3 attempts").await;
    control.pause(PauseMode::Aggressive);
    scene.received.expect("Some(Released)").await;
    running.stop().await;
}

/// Model: suspend-modes, pending-suspension
async fn a_graceful_suspension_waits_for_the_attempt(bench: &Bench) {
    let mut scene = Scene::new();
    let running = scene.polite(bench);
    let job = scene.in_mid_run(bench).await;
    let how = || Suspend { mode: SuspendMode::Graceful, ..Suspend::default() };
    assert!(matches!(job.suspend(Suspend::default()).await, Err(ActionError::Refused(_))));
    assert_eq!(job.suspend(how()).await.unwrap(), ActionResult::Changed);
    assert_eq!(job.suspend(how()).await.unwrap(), ActionResult::Unchanged);
    bench.settle().await;
    assert_eq!(state(&bench.client, job.id()).await, JobState::Running);
    scene.gate.add_permits(1);
    assert_eq!(job.result(PROMPTLY).await.unwrap(), "x 1 1");
    assert!(matches!(job.suspend(how()).await, Err(ActionError::Refused(_))), "a final job is refused");
    assert_eq!(scene.received.all(), [""; 0], "no handler was asked to stop");
    running.stop().await;
}

/// Model: leases-and-heartbeats, one-lease-at-a-time
async fn a_cancelled_job_stops_its_handler_at_once(bench: &Bench) {
    let mut scene = Scene::new();
    let running = scene.polite(bench);
    let job = scene.in_mid_run(bench).await;
    assert_eq!(job.cancel().await.unwrap(), ActionResult::Changed);
    scene.received.expect("cancelled").await;
    bench.settle().await;
    assert_eq!(state(&bench.client, job.id()).await, JobState::Cancelled);
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Cancelled]);
    // Its slot is free again.
    scene.in_mid_run(bench).await.cancel().await.unwrap();
    running.stop().await;
}

/// Model: counters-and-fences, interrupted-writes, one-lease-at-a-time
async fn a_handler_that_ignores_cancellation_is_fenced(bench: &Bench) {
    let mut scene = Scene::new();
    let running = Started::new(scene.worker(&bench.client).queue("default", 2).handle(rude));
    let job = bench.client.submit(greet("x")).await.unwrap();
    scene.received.expect("started 1").await;
    job.suspend(aggressively()).await.unwrap();
    job.resume().await.unwrap();
    // The second attempt runs beside the first, which does not care.
    scene.received.expect("started 2").await;
    scene.gate.add_permits(1);
    scene.received.expect("refused").await;
    bench.settle().await;
    assert_eq!(state(&bench.client, job.id()).await, JobState::Running);
    scene.gate.add_permits(1);
    scene.received.expect("written").await;
    assert_eq!(job.result(PROMPTLY).await.unwrap(), "2");
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Suspended, AttemptOutcome::Completed]);
    running.stop().await;
}

/// Model: queue-pause
async fn a_paused_queue_finishes_what_it_runs(bench: &Bench) {
    let mut scene = Scene::new();
    let running = scene.polite(bench);
    let job = scene.in_mid_run(bench).await;
    bench.client.pause_queue("default", Pause::default()).await.unwrap();
    let next = scene.finish_and_start_no_other(bench, job).await;
    bench.client.resume_queue("default").await.unwrap();
    scene.gate.add_permits(1);
    assert_eq!(next.result(PROMPTLY).await.unwrap(), "next 1 1");
    running.stop().await;
}

/// Model: queue-pause
async fn an_aggressive_pause_of_a_queue_suspends_what_runs(bench: &Bench) {
    let mut scene = Scene::new();
    let running = scene.polite(bench);
    let job = scene.in_mid_run(bench).await;
    bench.client.pause_queue("default", aggressive()).await.unwrap();
    scene.received.expect("cancelled").await;
    bench.settle().await;
    assert_eq!(state(&bench.client, job.id()).await, JobState::Suspended);
    assert_eq!(failures(bench, job.id()).await, 0);
    // Resumed in a paused queue it may be claimed, but is not.
    job.resume().await.unwrap();
    bench.settle().await;
    assert_eq!(state(&bench.client, job.id()).await, JobState::Scheduled);
    bench.client.resume_queue("default").await.unwrap();
    scene.gate.add_permits(1);
    assert_eq!(job.result(PROMPTLY).await.unwrap(), "x 1 2");
    running.stop().await;
}

/// Model: worker-pause
async fn a_worker_paused_here_finishes_what_it_runs(bench: &Bench) {
    let mut scene = Scene::new();
    let running = scene.polite(bench);
    let job = scene.in_mid_run(bench).await;
    running.control.pause(PauseMode::Graceful);
    assert!(running.control.is_paused());
    let next = scene.finish_and_start_no_other(bench, job).await;
    running.control.resume();
    assert!(!running.control.is_paused());
    scene.gate.add_permits(1);
    assert_eq!(next.result(PROMPTLY).await.unwrap(), "next 1 1");
    // A paused worker can leave.
    running.control.pause(PauseMode::Graceful);
    running.stop().await;
}

/// Model: crashes-and-poison, worker-pause
async fn a_worker_paused_aggressively_here_gives_back_what_it_runs(bench: &Bench) {
    let mut scene = Scene::new();
    let running = scene.polite(bench);
    let job = scene.in_mid_run(bench).await;
    running.control.pause(PauseMode::Aggressive);
    scene.received.expect("cancelled").await;
    let other = scene.polite(bench);
    scene.received.expect("second").await;
    scene.gate.add_permits(1);
    assert_eq!(job.result(PROMPTLY).await.unwrap(), "x 1 2");
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Released, AttemptOutcome::Completed]);
    assert_eq!(failures(bench, job.id()).await, 0);
    other.stop().await;
    running.control.resume();
    scene.gate.add_permits(1);
    let next = bench.client.submit(greet("next")).await.unwrap();
    assert_eq!(next.result(PROMPTLY).await.unwrap(), "next 1 1");
    running.stop().await;
}

/// Model: worker-pause
async fn a_worker_paused_from_afar_finishes_what_it_runs(bench: &Bench) {
    let mut scene = Scene::new();
    let running = scene.polite(bench);
    let id = running.control.started().await;
    let job = scene.in_mid_run(bench).await;
    assert_eq!(bench.client.pause_worker(id, Pause::default()).await.unwrap(), ActionResult::Changed);
    let next = scene.finish_and_start_no_other(bench, job).await;
    running.control.resume();
    bench.settle().await;
    assert_eq!(
        state(&bench.client, next.id()).await,
        JobState::Scheduled,
        "paused from afar it stays paused"
    );
    assert_eq!(bench.client.resume_worker(id).await.unwrap(), ActionResult::Changed);
    assert_eq!(bench.client.resume_worker(id).await.unwrap(), ActionResult::Unchanged);
    scene.gate.add_permits(1);
    assert_eq!(next.result(PROMPTLY).await.unwrap(), "next 1 1");
    running.stop().await;
}

/// Model: crashes-and-poison, worker-pause
async fn a_worker_paused_aggressively_from_afar_gives_back_what_it_runs(bench: &Bench) {
    let mut scene = Scene::new();
    let running = scene.polite(bench);
    let job = scene.in_mid_run(bench).await;
    let id = running.control.started().await;
    bench.client.pause_worker(id, aggressive()).await.unwrap();
    scene.received.expect("cancelled").await;
    let other = scene.polite(bench);
    scene.received.expect("second").await;
    scene.gate.add_permits(1);
    assert_eq!(job.result(PROMPTLY).await.unwrap(), "x 1 2");
    assert_eq!(bench.outcomes(job.id()).await, [AttemptOutcome::Released, AttemptOutcome::Completed]);
    assert_eq!(failures(bench, job.id()).await, 0);
    within(PROMPTLY, other.stop()).await;
    within(PROMPTLY, running.stop()).await;
}

/// Model: worker-pause
async fn a_worker_that_is_not_there_cannot_be_paused(bench: &Bench) {
    let unknown = WorkerId::new(7);
    let refused = bench.client.pause_worker(unknown, Pause::default()).await.unwrap_err();
    assert!(matches!(refused, ActionError::NoSuchWorker(id) if id == unknown), "{refused}");
}

/// Model: queue-pause, processing-on-and-off
#[tokio::test]
async fn pauses_and_suspensions_survive_a_restart() {
    let bench = Bench::new(On::Sqlite);
    let mut scene = Scene::new();
    let suspended = bench.client.submit(greet("suspended")).await.unwrap().id();
    bench.client.job(suspended).suspend(Suspend::default()).await.unwrap();
    let held = bench.client.submit(greet("held")).await.unwrap().id();
    bench.client.pause_queue("default", Pause::default()).await.unwrap();
    bench.client.pause_all(Pause::default()).await.unwrap();
    bench.client.close();
    let client = Client::open(&bench.address).await.unwrap();
    let running = Started::new(scene.worker(&client).handle(polite));
    running.control.started().await;
    assert_eq!(state(&client, suspended).await, JobState::Suspended);
    assert_eq!(client.pause_all(Pause::default()).await.unwrap(), ActionResult::Unchanged);
    assert_eq!(client.resume_all().await.unwrap(), ActionResult::Changed);
    assert_eq!(state(&client, held).await, JobState::Scheduled);
    assert_eq!(client.resume_queue("default").await.unwrap(), ActionResult::Changed);
    scene.gate.add_permits(2);
    client.job(held).result_json(PROMPTLY).await.unwrap();
    assert_eq!(state(&client, suspended).await, JobState::Suspended);
    client.job(suspended).resume().await.unwrap();
    client.job(suspended).result_json(PROMPTLY).await.unwrap();
    assert_eq!(outcomes(&client, suspended).await, [AttemptOutcome::Completed]);
    assert_eq!(scene.received.all(), ["first", "second", "first", "second"]);
    running.stop().await;
    client.close();
}

/// Model: interrupted-writes
#[tokio::test(start_paused = true)]
async fn a_handler_that_ignores_cancellation_loses_its_slot_after_its_grace() {
    let bench = Bench::in_virtual_time();
    let mut scene = Scene::new();
    let running = Started::new(scene.worker(&bench.client).grace(secs(3)).handle(rude));
    let job = bench.client.submit(greet("x")).await.unwrap();
    scene.received.expect("started 1").await;
    job.suspend(aggressively()).await.unwrap();
    job.resume().await.unwrap();
    // The only slot is free again when the grace is over, and no sooner.
    let begun = tokio::time::Instant::now();
    scene.received.expect("started 2").await;
    assert!(begun.elapsed() >= secs(3) && begun.elapsed() < secs(4), "{:?}", begun.elapsed());
    scene.gate.add_permits(1);
    assert_eq!(job.result(PROMPTLY).await.unwrap(), "2");
    running.stop().await;
}
