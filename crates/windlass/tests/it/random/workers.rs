//! What workers do, by chance: also with leases they lost, never had, or that belong to another.

use windlass::job::{Category, Failure, GroupStrategy, Progress, WorkerId};
use windlass::store::caller::{Caller, Role};
use windlass::store::{
    AttemptWrite, ClaimRequest, HeartbeatItem, LeaseRef, NewGroup, NewWorker, Outcome, Park, Report,
};

use super::model::{self, Held, World};
use super::operation::Operation;
use super::rng::Dice;
use super::submission::child;

const SIGNALS: [&str; 2] = ["paid", "approved"];
const STEPS: [&str; 3] = ["fetch", "charge", "mail"];

pub(super) fn register(dice: &mut Dice) -> Operation {
    let new = NewWorker {
        name: dice.pick(&["", "w1"]).to_owned(),
        queues: if dice.chance(25) { vec![model::queue(dice), model::queue(dice)] } else { Vec::new() },
        types: if dice.chance(25) { vec![model::job_type(dice), model::job_type(dice)] } else { Vec::new() },
        version: dice.maybe(60, &["v1", "v2"]).map(str::to_owned),
        heartbeats: dice.chance(60),
        ..NewWorker::default()
    };
    let caller = if dice.chance(70) { Caller::local() } else { model::caller(dice, &[Role::Worker]) };
    Operation::Register(caller, new)
}

pub(super) fn claim(dice: &mut Dice, world: &World) -> Operation {
    let caller = random_caller(dice);
    let mut request = ClaimRequest::new(world.worker(dice), dice.pick(&[1, 1, 2, 5, 20, 0]));
    request.queues = dice.chance(15).then(|| vec![model::queue(dice)]);
    request.types = dice.chance(15).then(|| vec![model::job_type(dice), model::job_type(dice)]);
    Operation::Claim(caller, request)
}

pub(super) fn finish(dice: &mut Dice, world: &World) -> Operation {
    let caller = random_caller(dice);
    let mut worker = world.worker(dice);
    let mut reports = Vec::new();
    for _ in 0..=dice.below(3) {
        if let Some(held) = theirs(dice, world, &mut worker, reports.is_empty()) {
            let cost_cents = dice.pick(&[0, 0, 0, 0, 5, 100]) - i64::from(dice.chance(1));
            let outcome = outcome(dice, world);
            let is_completed = matches!(outcome, Outcome::Completed { .. });
            let follow_ups =
                if is_completed && dice.chance(15) { vec![child(dice, world)] } else { Vec::new() };
            let writes = if dice.chance(30) { writes(dice) } else { Vec::new() };
            let report = Report::new(held.job, held.fence, outcome);
            reports.push(Report { cost_cents, writes, follow_ups, ..report });
        }
    }
    Operation::Finish(caller, worker, reports)
}

pub(super) fn heartbeat(dice: &mut Dice, world: &World) -> Operation {
    let caller = random_caller(dice);
    let mut worker = world.worker(dice);
    let mut beats = Vec::new();
    for _ in 0..dice.below(4) {
        if let Some(held) = theirs(dice, world, &mut worker, beats.is_empty()) {
            beats.push(HeartbeatItem {
                progress: dice.chance(30).then(|| progress(dice)),
                logs: vec!["a line".to_owned(); dice.below(3)],
                timeout: dice.chance(25).then(|| dice.time(&[0, 500, 60_000, 10_000_000])),
                ..HeartbeatItem::new(held.job, held.fence)
            });
        }
    }
    Operation::Heartbeat(caller, worker, beats)
}

pub(super) fn note(dice: &mut Dice, world: &World) -> Operation {
    let Some(lease) = lease_ref(dice, world) else { return register(dice) };
    let writes = writes(dice);
    Operation::AttemptWrite(random_caller(dice), lease, writes)
}

fn writes(dice: &mut Dice) -> Vec<AttemptWrite> {
    let mut writes = Vec::new();
    for _ in 0..dice.below(4) {
        writes.push(match dice.below(6) {
            0 => AttemptWrite::Progress(progress(dice)),
            1 => AttemptWrite::Logs(vec!["another".to_owned(); dice.below(3)]),
            _ => AttemptWrite::Checkpoint { step: dice.pick(&STEPS).to_owned(), value: value(dice) },
        });
    }
    writes
}

pub(super) fn spawn(dice: &mut Dice, world: &World) -> Operation {
    let Some(mut lease) = lease_ref(dice, world) else { return register(dice) };
    if let Some(again) = world.lease_of_a_parent().filter(|_| dice.chance(50)) {
        lease = LeaseRef { job: again.job, fence: again.fence, worker: None };
    }
    let jobs: Vec<_> = (0..dice.pick(&[0, 0, 1, 1, 2, 4])).map(|_| child(dice, world)).collect();
    let strategy = match dice.below(3) {
        0 => GroupStrategy::FailFast,
        1 => GroupStrategy::CollectAll,
        _ => GroupStrategy::Threshold(1 + u32::try_from(dice.below(3)).expect("it is small")),
    };
    let name = dice.pick(&["pages", "pages", "pages", "mails"]).to_owned();
    Operation::Spawn(random_caller(dice), lease, NewGroup { name, strategy, jobs })
}

pub(super) fn signal_name(dice: &mut Dice) -> &'static str {
    dice.pick(&SIGNALS)
}

pub(super) fn value(dice: &mut Dice) -> Vec<u8> {
    dice.pick(&["1", "{\"a\": 1}", "", "\"ü\""]).as_bytes().to_vec()
}

/// Mostly a caller who may work for all tenants.
fn random_caller(dice: &mut Dice) -> Caller {
    if dice.chance(80) { Caller::local() } else { model::caller(dice, &[Role::Worker]) }
}

/// A lease for a call; the first one mostly says who calls.
fn theirs(dice: &mut Dice, world: &World, worker: &mut WorkerId, is_first: bool) -> Option<Held> {
    let held = world.lease(dice)?;
    if is_first && dice.chance(95) {
        *worker = held.worker;
    }
    Some(held)
}

fn lease_ref(dice: &mut Dice, world: &World) -> Option<LeaseRef> {
    let held = world.lease(dice)?;
    Some(LeaseRef { job: held.job, fence: held.fence, worker: dice.chance(70).then_some(held.worker) })
}

fn progress(dice: &mut Dice) -> Progress {
    Progress { percent: dice.pick(&[0.0, 12.5, 100.0]), message: dice.maybe(50, &["half".to_owned()]) }
}

fn outcome(dice: &mut Dice, world: &World) -> Outcome {
    match dice.below(12) {
        0..=4 => Outcome::Completed { result: dice.chance(40).then(|| value(dice)) },
        5..=7 => Outcome::Failed(failure(dice)),
        8 => Outcome::Released,
        9 => Outcome::Parked(Park::Until(world.now.plus(dice.time(&[0, 700, 20_000])))),
        10 => Outcome::Parked(Park::For(dice.time(&[0, 1_000, 60_000]))),
        _ => Outcome::Parked(Park::Signal {
            name: signal_name(dice).to_owned(),
            step: dice.maybe(30, &["fetch".to_owned(), String::new()]),
            timeout: dice.chance(60).then(|| dice.time(&[0, 2_000, 90_000])),
        }),
    }
}

fn failure(dice: &mut Dice) -> Failure {
    let mut failure = Failure::new(dice.pick(&Category::ALL), dice.pick(&["no", "ünlucky"]));
    if dice.chance(60) {
        failure.category = Category::Temporary;
    }
    failure.code = dice.maybe(30, &["e1".to_owned()]);
    failure.cause = dice.maybe(20, &["disk".into(), "nét".into()]).into_iter().collect();
    failure.retry_after = dice.chance(20).then(|| dice.time(&[0, 10, 400_000]));
    failure
}
