//! Random handlers, crashed at every point and stopped: whatever a handler received before something later was saved,
//! it receives again in every later attempt, and it ends as if nothing had happened.

mod acts;
mod handler;
mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use windlass::job::{AttemptOutcome, JobId, JobState, RetryPolicy};
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use self::acts::{Call, next};
use self::handler::{child, follow};
use self::world::World;
use crate::fixture::secs;
use crate::random::rng::Dice;
use crate::worker::harness::outcomes;
use crate::worker::job_types::{Greet, greet};

/// Random programs, unless `WINDLASS_PROGRAM_SEEDS` says how many.
const SEEDS: u64 = 32;

/// What happens to the first workers.
#[derive(Debug, Clone)]
enum Fault {
    None,
    Crash(CrashPoint),
    /// They are told to stop two seconds after they began.
    Stop,
}

/// Runs a program to its end, with a fault at first.
async fn run(t: &TestClient, program: &[Call], fault: &Fault) -> (JobId, World) {
    let world = World::default();
    world.facts(|facts| facts.program = program.to_vec());
    let job = t.client().submit(greet("x")).retry(RetryPolicy::fixed().attempts(100)).await.unwrap();
    for word in 0..u32::try_from(program.len()).unwrap() {
        job.signal("word", &word).await.unwrap();
    }
    let worker = || Worker::new(t.client()).with(world.clone()).handle(follow).handle(child);
    for _ in 0..2 {
        match fault {
            Fault::None => {}
            Fault::Crash(point) => drop(t.run_due(worker().crash_at(point.clone())).await),
            Fault::Stop => {
                world.facts(|facts| facts.is_long = true);
                let stopping = worker().drain(Duration::ZERO).grace(secs(5));
                stopping.run_until(tokio::time::sleep(secs(2))).await.unwrap();
                world.facts(|facts| facts.is_long = false);
            }
        }
        t.advance(secs(40)).await;
    }
    t.run_for(secs(6 * 3600), worker).await;
    (job.id(), world)
}

/// Every attempt received what earlier ones received before something was saved; and the job ended well.
async fn check(t: &TestClient, id: JobId, world: &World, what: &str) {
    let job = t.job(id).await.job;
    let error = job.details.error.clone();
    assert_eq!(job.state, JobState::Completed, "{what}: {error:?}");
    let ended = outcomes(t.client(), id).await;
    let mut durable: Vec<String> = Vec::new();
    world.facts(|facts| {
        for (number, log) in &facts.attempts {
            let common = durable.len().min(log.lines.len());
            assert_eq!(
                log.lines[..common],
                durable[..common],
                "{what}: attempt {number} {:#?}",
                facts.attempts
            );
            let is_parked = ended[*number as usize - 1] == AttemptOutcome::Parked;
            let parked = log.if_parked.filter(|_| is_parked).unwrap_or(0);
            let kept = log.durable.max(parked);
            if kept > durable.len() {
                durable = log.lines[..kept].to_vec();
            }
            durable.truncate(log.reopened.unwrap_or(usize::MAX));
        }
        let last = facts.attempts.values().next_back().expect("it ran");
        assert!(last.lines.len() >= durable.len(), "{what}: {:#?}", facts.attempts);
    });
}

/// Everything that may happen to a job that called these steps.
fn faults(t: &TestClient, id: JobId) -> Vec<Fault> {
    let points = [
        CrashPoint::BeforeStart,
        CrashPoint::AfterCheckpoint,
        CrashPoint::BeforeSpawn,
        CrashPoint::AfterSpawn,
        CrashPoint::BeforePark,
        CrashPoint::BeforeFinish,
    ];
    // The last part of a key is the name and its number.
    let name =
        |key: &str| key.rsplit("#/").next().and_then(|key| key.split('#').next()).unwrap_or(key).to_owned();
    let names: BTreeSet<String> = t.steps(id).iter().map(|call| name(&call.step)).collect();
    let around = |name: String| [CrashPoint::BeforeStep(name.clone()), CrashPoint::AfterStep(name)];
    let points = points.into_iter().chain(names.into_iter().flat_map(around));
    points.map(Fault::Crash).chain([Fault::Stop]).collect()
}

/// Model: crashes-and-poison, child-groups, steps, step-identity, sleeps-and-signals, checkpoints
#[tokio::test(start_paused = true)]
async fn a_fault_at_any_point_changes_nothing_that_a_handler_received() {
    let asked = std::env::var("WINDLASS_PROGRAM_SEEDS").ok();
    for seed in 0..asked.map_or(SEEDS, |seeds| seeds.parse().expect("a number")) {
        let mut dice = Dice::new(seed);
        let program: Vec<Call> = (0..3 + dice.below(6)).map(|_| next(&mut dice)).collect();
        let t = TestClient::new();
        let (id, world) = run(&t, &program, &Fault::None).await;
        check(&t, id, &world, &format!("seed {seed}, {program:?}, no fault")).await;
        let plain = t.client().handle::<Greet>(id).result(secs(0)).await.unwrap();
        for fault in faults(&t, id) {
            let what = format!("seed {seed}, {program:?}, {fault:?}");
            let (id, world) = run(&t, &program, &fault).await;
            check(&t, id, &world, &what).await;
            let result = t.client().handle::<Greet>(id).result(secs(0)).await.unwrap();
            assert_eq!(result, plain, "{what}");
        }
    }
}
