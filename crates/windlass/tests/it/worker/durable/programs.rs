//! Random handlers, crashed at every point and stopped: whatever a handler received before something later was saved,
//! it receives again in every later attempt, and it ends as if nothing had happened.

mod acts;
mod handler;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use windlass::error::ActionError;
use windlass::job::{AttemptOutcome, JobId, JobState, RetryPolicy};
use windlass::store::caller::Caller;
use windlass::testing::{CrashPoint, TestClient};
use windlass::worker::Worker;

use self::acts::{Call, next};
use self::handler::{blocks, child, follow};
use self::world::World;
use crate::fixture::{On, secs};
use crate::random::rng::Dice;
use crate::worker::harness::{outcomes, test_queue};
use crate::worker::job_types::{Greet, greet};

/// Random programs, unless `WINDLASS_PROGRAM_SEEDS` says how many.
const SEEDS: u64 = 32;

/// Programs on a database file.
const SEEDS_ON_DISK: u64 = 4;
/// After so many crashes a job is poison.
const CRASHES_MAX: u32 = windlass::limits::CRASHES_MAX_DEFAULT;
/// Programs of each seed with several faults of different kinds.
const MIXTURES: usize = 4;

/// What happens to a worker.
#[derive(Debug, Clone)]
enum Fault {
    /// It crashes when it comes to a point for the n-th time.
    Crash(CrashPoint, usize),
    /// The same, and children run to their end while the lease of their parent is still that of the dead worker.
    CrashBesideChildren(CrashPoint, usize),
    /// It is asked to stop two seconds after it began.
    Stop,
}

/// How workers run a program.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::struct_excessive_bools, reason = "the flags are independent")]
struct Style {
    /// Workers take calls in any order.
    is_lenient: bool,
    /// Signals are sent one after each fault, instead of all at once.
    are_signals_late: bool,
    /// Workers can be asked to stop, because time is virtual.
    can_stop: bool,
    /// The handler blocks a thread.
    is_blocking: bool,
}

/// Runs a program to its end; each of the first workers has a fault.
async fn run(t: &TestClient, program: &[Call], style: Style, faults: &[Fault]) -> (JobId, World) {
    let world = World::default();
    world.facts(|facts| facts.program = program.to_vec());
    let job = t.client().submit(greet("x")).retry(RetryPolicy::fixed().attempts(100)).await.unwrap();
    let mut words = 0..u32::try_from(program.len()).unwrap();
    let at_once = if style.are_signals_late { 0 } else { program.len() };
    let send = async |word: u32| {
        let sent = job.signal("word", &word).await;
        assert!(matches!(sent, Ok(()) | Err(ActionError::Refused(_))), "{sent:?}");
    };
    for word in words.by_ref().take(at_once) {
        send(word).await;
    }
    let worker = || {
        let worker = Worker::new(t.client()).with(world.clone()).handle(child);
        let worker = if style.is_lenient { worker.lenient_steps() } else { worker };
        if style.is_blocking { worker.handle_blocking(blocks(world.clone())) } else { worker.handle(follow) }
    };
    for fault in faults {
        // One more would be poison.
        if t.job(job.id()).await.job.crashes + 1 == CRASHES_MAX {
            break;
        }
        match fault {
            Fault::Crash(point, nth) => drop(t.run_due(worker().crash_at_nth(point.clone(), *nth)).await),
            Fault::CrashBesideChildren(point, nth) => {
                t.run_due(worker().crash_at_nth(point.clone(), *nth)).await;
                t.run_due(Worker::new(t.client()).handle(child)).await;
            }
            Fault::Stop => {
                world.facts(|facts| facts.is_long = true);
                let stopping = worker().drain(Duration::ZERO).grace(secs(5));
                stopping.run_until(tokio::time::sleep(secs(2))).await.unwrap();
                world.facts(|facts| facts.is_long = false);
            }
        }
        if let Some(word) = words.next() {
            send(word).await;
        }
        t.advance(secs(40)).await;
    }
    for word in words {
        send(word).await;
    }
    t.run_for(secs(6 * 3600), worker).await;
    (job.id(), world)
}

/// The first saved end of every sleep is that of all attempts: it is neither shortened nor begun again.
async fn check_sleeps(t: &TestClient, id: JobId, world: &World, what: &str) {
    let ended = outcomes(t.client(), id).await;
    let mut ends = BTreeMap::new();
    world.facts(|facts| {
        for (number, log) in &facts.attempts {
            for sleep in &log.sleeps {
                let end = ends.get(&sleep.place).copied();
                let Some(over_at) = sleep.over_at else {
                    // It parked the job, or nothing of it is saved.
                    if ended[*number as usize - 1] == AttemptOutcome::Parked {
                        assert!(
                            end.is_none_or(|end| sleep.called_at < end),
                            "{what}: too long: {sleep:?}, {end:?}"
                        );
                        ends.entry(sleep.place.clone()).or_insert(sleep.asked);
                    }
                    continue;
                };
                assert!(end.is_some_and(|end| end <= over_at), "{what}: too short: {sleep:?}, {end:?}");
            }
        }
    });
    let saved = t.store().checkpoints(&Caller::local(), id).await.unwrap().unwrap();
    let saved: BTreeSet<i64> = saved
        .iter()
        .filter(|record| record.step.starts_with("sleep:"))
        .filter_map(|record| {
            serde_json::from_slice::<serde_json::Value>(&record.value).unwrap()["until"].as_i64()
        })
        .collect();
    for (place, end) in ends {
        assert!(
            saved.contains(&end.as_millis()),
            "{what}: the end of the sleep at {place} was changed: {saved:?}"
        );
    }
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
    check_sleeps(t, id, world, what).await;
}

/// Every point at which a worker can crash that runs a job with these steps.
fn points(t: &TestClient, id: JobId) -> Vec<CrashPoint> {
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
    points.into_iter().chain(names.into_iter().flat_map(around)).collect()
}

/// Each fault alone, to two workers in turn, and mixtures of several.
fn faults(points: &[CrashPoint], style: Style, dice: &mut Dice) -> Vec<Vec<Fault>> {
    let first = |point: &CrashPoint| vec![Fault::Crash(point.clone(), 1); 2];
    let mut all: Vec<Vec<Fault>> = points.iter().map(first).collect();
    if style.can_stop {
        all.push(vec![Fault::Stop; 2]);
    }
    for _ in 0..MIXTURES {
        let mixture = (0..2 + dice.below(4)).map(|_| {
            if style.can_stop && dice.below(4) == 0 {
                return Fault::Stop;
            }
            let (point, nth) = (points[dice.below(points.len())].clone(), 1 + dice.below(4));
            if dice.below(2) == 0 { Fault::CrashBesideChildren(point, nth) } else { Fault::Crash(point, nth) }
        });
        all.push(mixture.collect());
    }
    all
}

/// Runs a random program with every fault and without any.
async fn try_program(t: &TestClient, seed: u64, is_virtual: bool) {
    let mut dice = Dice::new(seed);
    let program: Vec<Call> = (0..3 + dice.below(6)).map(|_| next(&mut dice)).collect();
    let style = Style {
        is_lenient: dice.below(4) == 0,
        are_signals_late: dice.below(3) == 0,
        can_stop: is_virtual,
        is_blocking: !is_virtual && dice.below(2) == 0,
    };
    let (id, world) = run(t, &program, style, &[]).await;
    check(t, id, &world, &format!("seed {seed}, {program:?}, {style:?}, no fault")).await;
    let plain = t.client().handle::<Greet>(id).result(secs(0)).await.unwrap();
    for faults in faults(&points(t, id), style, &mut dice) {
        let what = format!("seed {seed}, {program:?}, {style:?}, {faults:?}");
        let (id, world) = run(t, &program, style, &faults).await;
        check(t, id, &world, &what).await;
        let result = t.client().handle::<Greet>(id).result(secs(0)).await.unwrap();
        // What came was saved, and so were errors before it, which another run tries again.
        if !world.facts(|facts| facts.has_come) {
            assert_eq!(result, plain, "{what}");
        }
    }
}

/// Model: crashes-and-poison, child-groups, steps, step-identity, sleeps-and-signals, checkpoints
#[tokio::test(start_paused = true)]
async fn a_fault_at_any_point_changes_nothing_that_a_handler_received() {
    let asked = std::env::var("WINDLASS_PROGRAM_SEEDS").ok();
    for seed in 0..asked.map_or(SEEDS, |seeds| seeds.parse().expect("a number")) {
        try_program(&TestClient::new(), seed, true).await;
    }
}

/// The same on a database file, where other threads do the work: time is the machine's.
///
/// Model: crashes-and-poison, child-groups, steps, step-identity, sleeps-and-signals, checkpoints
#[tokio::test]
async fn a_fault_at_any_point_changes_nothing_on_a_database_file() {
    for seed in 0..SEEDS_ON_DISK {
        let (t, _files) = test_queue(On::Sqlite);
        try_program(&t, 1_000 + seed, false).await;
        t.client().close();
    }
}
