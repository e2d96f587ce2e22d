//! Which step comes next: every verb of the store by chance, weighed so that jobs are born, run, are meddled with and
//! end.

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::store::ListRequest;
use windlass::store::caller::Role;
use windlass::store::engine::RecordQuery;

use super::actions;
use super::model::{self, World};
use super::operation::Operation;
use super::rng::Dice;
use super::submission::submission;
use super::workers;

/// How far time moves, in milliseconds: often a little, sometimes past leases and backoffs, rarely by days.
const SHORT_JUMPS: [u64; 6] = [1, 50, 200, 500, 1_000, 1_500];
const JUMPS: [u64; 5] = [5_000, 11_000, 31_000, 120_000, 1_200_000];
const LONG_JUMPS: [u64; 5] = [4_000_000, 40_000_000, 90_000_000, 700_000_000, 2_700_000_000];

/// The next step of a walk.
pub(super) fn next(dice: &mut Dice, world: &World) -> Operation {
    if world.wants_workers() && dice.chance(30) {
        return workers::register(dice);
    }
    match dice.below(100) {
        0..=19 if !world.is_full => submission(dice, world),
        0..=33 => workers::claim(dice, world),
        34..=49 => workers::finish(dice, world),
        50..=52 => workers::heartbeat(dice, world),
        53..=55 => workers::note(dice, world),
        56..=59 => workers::spawn(dice, world),
        60..=69 => actions::act(dice, world),
        70..=71 => actions::signal(dice, world),
        72..=73 => {
            let how = actions::redrive(dice);
            Operation::Redrive(
                model::caller(dice, &[Role::Submitter, Role::Operator]),
                world.ended(dice),
                how,
            )
        }
        74 => {
            let job = if dice.chance(50) { world.relative(dice) } else { world.ended(dice) };
            Operation::Delete(model::caller(dice, &[Role::Operator]), job)
        }
        75..=77 => actions::bulk(dice, world),
        78..=79 => actions::pause(dice, world),
        80..=82 => actions::resume(dice, world),
        83..=84 => actions::configure(dice),
        85 => Operation::Deregister(model::caller(dice, &[Role::Worker]), world.worker(dice)),
        86..=88 => read_operation(dice, world),
        89 => Operation::Tick,
        90 => {
            if dice.chance(50) {
                Operation::Tick
            } else {
                Operation::Config
            }
        }
        91 => maintain(dice),
        _ => Operation::Pass(jump(dice)),
    }
}

fn jump(dice: &mut Dice) -> Duration {
    match dice.below(20) {
        0 => dice.time(&LONG_JUMPS),
        1..=5 => dice.time(&JUMPS),
        _ => dice.time(&SHORT_JUMPS),
    }
}

fn maintain(dice: &mut Dice) -> Operation {
    match dice.below(5) {
        0 => Operation::BeginGeneration(model::caller(dice, &[Role::Operator])),
        1..=2 => Operation::Seal,
        _ => Operation::Prune,
    }
}

/// A question whose answer an engine may find through an index.
fn read_operation(dice: &mut Dice, world: &World) -> Operation {
    let caller = model::caller(dice, &[Role::Viewer, Role::Operator, Role::Submitter]);
    match dice.below(8) {
        0 => Operation::Count(caller, actions::filter(dice, world)),
        1 => Operation::OldestReady(caller, model::queue(dice)),
        2..=3 => {
            let query = RecordQuery {
                after: dice.pick(&[0, 3, 50]),
                before: dice.chance(20).then(|| dice.pick(&[1, 5, 60])),
                job: dice.chance(40).then(|| world.job(dice)),
                event: dice.chance(30).then(|| dice.pick(AuditEvent::ALL)),
                actor: dice.maybe(20, &["ann".to_owned(), "local".to_owned(), "windlass".to_owned()]),
                actor_type: dice.maybe(20, &["user".to_owned(), "worker".to_owned(), "system".to_owned()]),
                tenant: dice.chance(20).then(|| model::tenant(dice)),
                since: dice.chance(20).then(|| world.now.minus(jump(dice))),
                until: dice.chance(20).then(|| world.now.minus(jump(dice))),
                queue: dice.chance(20).then(|| model::queue(dice)),
                job_type: dice.chance(20).then(|| model::job_type(dice)),
                limit: dice.pick(&[1, 7, 1_000]),
                reach: dice.maybe(50, &[1, 10, 100]),
            };
            Operation::Audit(caller, query)
        }
        _ => {
            let filter = actions::filter(dice, world);
            let (order, limit) = (actions::order(dice), dice.pick(&[1, 7, 500]));
            Operation::List(caller, ListRequest { filter, order, cursor: None, limit })
        }
    }
}
