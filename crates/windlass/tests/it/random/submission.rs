//! Submissions by chance: single jobs, batches and graphs with every option, mostly good, sometimes not.

use std::collections::BTreeMap;

use windlass::job::{
    Category, Debounce, Dependency, JitterMode, JobMetadata, NewJob, Payload, Priority, RetryPolicy,
    Strategy, WorkerVersion,
};
use windlass::store::SubmitOptions;
use windlass::store::caller::Role;

use super::model::{self, World};
use super::operation::Operation;
use super::rng::Dice;

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// One job, a batch, or a graph.
pub(super) fn submission(dice: &mut Dice, world: &World) -> Operation {
    let caller = model::caller(dice, &[Role::Submitter, Role::Operator]);
    let count = if dice.chance(60) { 1 } else { 1 + dice.below(6) };
    let mut jobs: Vec<NewJob> = (0..count).map(|_| new_job(dice, world)).collect();
    if count > 1 && dice.chance(50) {
        tie(dice, &mut jobs);
    }
    Operation::Submit(caller, jobs, SubmitOptions { strict: dice.chance(20) })
}

/// Names the jobs of a batch and makes them wait for each other; the wrong way round, or for an unknown one, only rarely.
fn tie(dice: &mut Dice, jobs: &mut [NewJob]) {
    // In one tenant, else few graphs would be allowed.
    let tenant = jobs[0].tenant.clone();
    let count = jobs.len();
    for (index, job) in jobs.iter_mut().enumerate() {
        if !dice.chance(3) {
            job.tenant.clone_from(&tenant);
        }
        job.name = Some(if dice.chance(1) { "n0".to_owned() } else { format!("n{index}") });
        for _ in 0..dice.below(3) {
            let other = if dice.chance(3) { dice.below(count + 1) } else { dice.below(index) };
            if other == index {
                continue;
            }
            let dependency = Dependency::Named(format!("n{other}"));
            if dice.chance(65) { job.after.push(dependency) } else { job.after_any.push(dependency) }
        }
    }
}

/// A job of a group: like any other, but without what children may not have.
pub(super) fn child(dice: &mut Dice, world: &World) -> NewJob {
    let (idempotency_key, tenant) = (dice.maybe(2, &["i1".to_owned()]), None);
    NewJob { idempotency_key, tenant, after: Vec::new(), after_any: Vec::new(), ..new_job(dice, world) }
}

fn new_job(dice: &mut Dice, world: &World) -> NewJob {
    let payload = match dice.below(4) {
        0 => Payload::json(r#"{"to":"a@b.c"}"#),
        1 => Payload::json("[1,2.50,\"\\u0000\"]"),
        2 => Payload::bytes([0, 159, 146, 150], "application/octet-stream"),
        _ => Payload::json("null"),
    };
    let mut job = NewJob::new(model::job_type(dice), payload);
    job.queue = model::queue(dice);
    job.requires_version = dice.chance(8).then(|| worker_version(dice));
    job.tenant = dice.chance(20).then(|| model::tenant(dice));
    job.priority = dice.chance(40).then(|| priority(dice));
    match dice.below(20) {
        0..=2 => job.delay = Some(dice.time(&[0, 1, 500, 5 * SECOND, 2 * MINUTE, 3 * HOUR])),
        3 => job.run_at = Some(world.now.plus(dice.time(&[0, 300, MINUTE]))),
        4 => job.run_at = Some(world.now.minus(dice.time(&[1, MINUTE]))),
        5 => {
            let key = dice.pick(&["red", "ärea"]).to_owned();
            job.debounce = Some(Debounce { key, delay: dice.time(&[0, 500, 5 * SECOND, 2 * MINUTE]) });
        }
        _ => {}
    }
    job.hold = dice.chance(7);
    keys(dice, &mut job);
    limits(dice, &mut job);
    depend(dice, world, &mut job);
    job.metadata = metadata(dice);
    job.traceparent = dice.maybe(5, &["00-trace".to_owned()]);
    job.baggage = dice.maybe(9, &["user=7".to_owned()]);
    job
}

/// A version of which there are workers.
pub(super) fn worker_version(dice: &mut Dice) -> WorkerVersion {
    WorkerVersion::new(dice.pick(&["v1", "v2"])).expect("it is a version")
}

fn keys(dice: &mut Dice, job: &mut NewJob) {
    job.idempotency_key = dice.maybe(40, &["i1", "i2"]).map(str::to_owned);
    job.idempotency_window = dice.chance(50).then(|| dice.time(&[0, SECOND, HOUR, 60 * DAY, 60 * DAY]));
    job.unique_key = dice.maybe(12, &["u1", "u2"]).map(str::to_owned);
    job.concurrency_key = dice.maybe(40, &["c1", "c2"]).map(str::to_owned);
}

fn limits(dice: &mut Dice, job: &mut NewJob) {
    job.retry = dice.chance(35).then(|| retry(dice));
    job.execution_timeout = dice.chance(15).then(|| dice.time(&[500, 20 * SECOND, 10 * MINUTE]));
    job.lease_timeout = dice.chance(15).then(|| dice.time(&[SECOND, 20 * SECOND, 2 * MINUTE]));
    job.start_timeout = dice.chance(10).then(|| dice.time(&[SECOND, MINUTE]));
    job.lifetime = dice.chance(10).then(|| dice.time(&[SECOND, MINUTE, 2 * HOUR]));
    if dice.chance(1) {
        job.lease_timeout = Some(dice.time(&[1]));
    }
}

fn depend(dice: &mut Dice, world: &World, job: &mut NewJob) {
    if dice.chance(80) {
        return;
    }
    for _ in 0..=dice.below(3) {
        let dependency = Dependency::Job(world.job(dice));
        if dice.chance(65) { job.after.push(dependency) } else { job.after_any.push(dependency) }
    }
}

pub(super) fn priority(dice: &mut Dice) -> Priority {
    dice.pick(&[Priority::CRITICAL, Priority::HIGH, Priority::NORMAL, Priority::LOW, Priority::BULK])
}

pub(super) fn metadata(dice: &mut Dice) -> JobMetadata {
    JobMetadata { tags: tags(dice), correlation_id: correlation_id(dice), callback_url: callback_url(dice) }
}

pub(super) fn tags(dice: &mut Dice) -> BTreeMap<String, String> {
    let mut tags = BTreeMap::new();
    for _ in 0..dice.below(3) {
        tags.insert(dice.pick(&["team", "ärea"]).to_owned(), dice.pick(&["red", "blue"]).to_owned());
    }
    tags
}

pub(super) fn correlation_id(dice: &mut Dice) -> Option<String> {
    dice.maybe(20, &["order-1", "order-2"]).map(str::to_owned)
}

pub(super) fn callback_url(dice: &mut Dice) -> Option<String> {
    dice.maybe(5, &["https://example.org/done"]).map(str::to_owned)
}

pub(super) fn retry(dice: &mut Dice) -> RetryPolicy {
    let strategies = [Strategy::Constant, Strategy::Linear, Strategy::Exponential, Strategy::Custom];
    match dice.below(5) {
        0 => RetryPolicy::fixed(),
        1 => RetryPolicy::backoff(),
        _ => RetryPolicy {
            strategy: dice.pick(&strategies),
            initial_delay: dice.time(&[0, 100, SECOND, MINUTE]),
            max_delay: dice.time(&[SECOND, HOUR]),
            multiplier: dice.pick(&[1.0, 2.0, 3.5]),
            jitter: dice.pick(&[0.0, 0.1, 1.0]),
            jitter_mode: dice.pick(&[JitterMode::Random, JitterMode::Hashed]),
            max_attempts: dice.pick(&[1, 2, 4, 9, 0, 3, 3, 3]).max(u32::from(!dice.chance(3))),
            retry_on: dice.pick(&[
                vec![],
                vec![Category::System],
                vec![Category::Timeout, Category::System, Category::Resource],
            ]),
        },
    }
}
