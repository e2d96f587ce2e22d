//! Which step comes next: every verb of the store by chance, weighed so that jobs are born, run, are meddled with and
//! end.

use std::time::Duration;

use windlass::audit::AuditEvent;
use windlass::store::caller::Role;
use windlass::store::command::redrive::Redrive;
use windlass::store::engine::RecordQuery;
use windlass::store::query::list::ListRequest;

use super::dice::Dice;
use super::operate;
use super::operation::Operation;
use super::submission::submission;
use super::work;
use super::world::{self, World};

/// How far time moves, in milliseconds: often a little, rarely by days.
const JUMPS: [u64; 14] =
    [1, 1, 50, 200, 500, 1_000, 1_500, 5_000, 11_000, 31_000, 120_000, 1_200_000, 4_000_000, 90_000_000];
const LONG_JUMPS: [u64; 3] = [700_000_000, 2_700_000_000, 40_000_000];

/// The next step of a walk.
pub(super) fn next(dice: &mut Dice, world: &World) -> Operation {
    if world.wants_workers() && dice.chance(30) {
        return work::register(dice, world);
    }
    match dice.below(100) {
        0..=21 if !world.is_full => submission(dice, world),
        0..=35 => work::claim(dice, world),
        36..=52 => work::finish(dice, world),
        53..=55 => work::heartbeat(dice, world),
        56..=58 => work::note(dice, world),
        59..=61 => work::spawn(dice, world),
        62..=71 => operate::act(dice, world),
        72..=73 => operate::signal(dice, world),
        74..=75 => {
            let how = Redrive { reset_checkpoints: dice.chance(50) };
            Operation::Redrive(world.caller(dice, &[Role::Submitter, Role::Operator]), world.job(dice), how)
        }
        76 => Operation::Delete(world.caller(dice, &[Role::Operator]), world.job(dice)),
        77..=78 => operate::bulk(dice, world),
        79..=80 => operate::pause(dice, world),
        81..=83 => operate::resume(dice, world),
        84..=85 => operate::configure(dice, world),
        86 => Operation::Deregister(world.caller(dice, &[Role::Worker]), world.worker(dice)),
        87..=88 => look(dice, world),
        89..=90 => Operation::Tick,
        91 => maintain(dice),
        _ => Operation::Pass(jump(dice)),
    }
}

fn jump(dice: &mut Dice) -> Duration {
    if dice.chance(2) { dice.time(&LONG_JUMPS) } else { dice.time(&JUMPS) }
}

fn maintain(dice: &mut Dice) -> Operation {
    if dice.chance(50) { Operation::Seal } else { Operation::Prune }
}

/// A question whose answer an engine may find through an index.
fn look(dice: &mut Dice, world: &World) -> Operation {
    let caller = world.caller(dice, &[Role::Viewer, Role::Operator, Role::Submitter]);
    match dice.below(8) {
        0 => Operation::Count(caller, operate::filter(dice, world)),
        1 => Operation::OldestReady(caller, world::queue(dice)),
        2..=3 => {
            let query = RecordQuery {
                after: dice.pick(&[0, 3, 50]),
                job: dice.chance(40).then(|| world.job(dice)),
                event: dice.chance(30).then(|| dice.pick(AuditEvent::ALL)),
                actor: dice.maybe(20, &["ann".to_owned(), "local".to_owned(), "windlass".to_owned()]),
                tenant: dice.chance(20).then(|| world::tenant(dice)),
                since: dice.chance(20).then(|| world.now.minus(jump(dice))),
                until: dice.chance(20).then(|| world.now.minus(jump(dice))),
                limit: dice.pick(&[1, 7, 1_000]),
            };
            Operation::Audit(caller, query)
        }
        _ => {
            let filter = operate::filter(dice, world);
            let (order, limit) = (operate::order(dice), dice.pick(&[1, 7, 500]));
            Operation::List(caller, ListRequest { filter, order, cursor: None, limit })
        }
    }
}
