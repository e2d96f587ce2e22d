//! What people do, by chance: to one job, to many, to queues and gates, and to settings.

use std::time::Duration;

use windlass::audit::AuditLevel;
use windlass::job::{JobState, Payload, SuspendMode};
use windlass::settings::patch::Field;
use windlass::settings::{
    BudgetPeriod, FairBy, PartialTimeouts, Push, QueueSettings, Rate, Retention, TenantSettings, TypeSettings,
};
use windlass::store::caller::{Caller, Role};
use windlass::store::{
    ActionRequest, BulkAction, Filter, Order, Patch, Pause, PauseMode, PauseTarget, Redrive, Settings,
    Suspend,
};

use super::model::{self, World};
use super::operation::Operation;
use super::rng::Dice;
use super::submission::{callback_url, correlation_id, priority, retry, tags, worker_version};
use super::workers::{signal_name, value};

pub(super) fn act(dice: &mut Dice, world: &World) -> Operation {
    let (caller, job, act) = (manager(dice), world.job(dice), one_act(dice));
    match dice.below(20) {
        0..=2 => Operation::ActStrictly(caller, job, act),
        3..=4 => Operation::ActIfSeen(caller, job, act, dice.chance(70)),
        _ => Operation::ActionRequest(caller, job, act),
    }
}

pub(super) fn signal(dice: &mut Dice, world: &World) -> Operation {
    Operation::Signal(manager(dice), world.job(dice), signal_name(dice), value(dice))
}

/// With another payload once in a while.
pub(super) fn redrive(dice: &mut Dice) -> Redrive {
    let payload = dice.chance(30).then(|| Payload::json("{\"edited\": true}"));
    let (reset_checkpoints, only_once) = (dice.chance(50), dice.chance(20));
    let requires_version = match dice.below(10) {
        0 => Field::Set(worker_version(dice)),
        1 => Field::Clear,
        _ => Field::Keep,
    };
    Redrive { reset_checkpoints, only_once, payload, requires_version, ..Redrive::default() }
}

pub(super) fn bulk(dice: &mut Dice, world: &World) -> Operation {
    let action = match dice.below(5) {
        0 => BulkAction::Redrive(redrive(dice)),
        1 => BulkAction::Delete,
        _ => BulkAction::Act(one_act(dice)),
    };
    let mut filter = if dice.chance(30) { filter(dice, world) } else { Filter::default() };
    // Never all jobs at once: the walk would start over each time.
    if filter.states.is_empty() {
        filter.states = vec![dice.pick(&JobState::ALL)];
    }
    if dice.chance(70) {
        filter.queue = Some(model::queue(dice));
    }
    Operation::Bulk(manager(dice), filter, action)
}

pub(super) fn pause(dice: &mut Dice, world: &World) -> Operation {
    let pause = Pause {
        mode: dice.pick(&[PauseMode::Graceful, PauseMode::Aggressive]),
        reason: dice.maybe(40, &["deploy".to_owned()]),
        expires: dice.chance(85).then(|| dice.time(&[0, 500, 1_000, 5_000, 300_000])),
    };
    Operation::Pause(operator(dice), target(dice, world), pause)
}

pub(super) fn resume(dice: &mut Dice, world: &World) -> Operation {
    Operation::Resume(operator(dice), target(dice, world))
}

pub(super) fn configure(dice: &mut Dice) -> Operation {
    let few = [1, 2, 3, 5, 8, 13, if dice.chance(20) { 0 } else { 3 }];
    let settings = match dice.below(5) {
        0 => Settings::Type(
            model::job_type(dice),
            TypeSettings {
                max_running: dice.maybe(30, &few),
                retry: dice.chance(30).then(|| retry(dice)),
                timeouts: timeouts(dice),
                priority: dice.chance(20).then(|| priority(dice)),
                success_event: dice.maybe(30, &["EMAIL_SENT".to_owned()]),
                exhausted_event: dice.maybe(30, &["EMAIL_LOST".to_owned()]),
                rate: rate(dice),
                retention: retention(dice),
                payload_schema: None,
                result_schema: None,
            },
        ),
        1 => Settings::Tenant(
            model::tenant(dice),
            TenantSettings {
                max_running: dice.maybe(30, &few),
                max_depth: dice.maybe(20, &[3, 20, 60]),
                weight: dice.maybe(40, &[1, 2, 5]),
                budget_cents: dice.maybe(10, &[0, 5, 1_000]),
                budget_period: dice.maybe(50, &[BudgetPeriod::Day, BudgetPeriod::Month]),
                ..TenantSettings::default()
            },
        ),
        _ => Settings::Queue(
            model::queue(dice),
            QueueSettings {
                max_running: dice.maybe(30, &few),
                max_running_per_key: dice.maybe(60, &[1, 2, 3]),
                max_depth: dice.maybe(20, &[3, 20, 60]),
                audit: dice.maybe(70, &[AuditLevel::All, AuditLevel::Outcomes, AuditLevel::Operators]),
                retry: dice.chance(20).then(|| retry(dice)),
                timeouts: timeouts(dice),
                priority: dice.chance(20).then(|| priority(dice)),
                rate: rate(dice),
                rate_per_key: rate(dice),
                fair_by: dice.maybe(30, &[FairBy::Tenant]),
                aging: dice.chance(20).then(|| dice.time(&[1_000, 60_000])),
                push: dice.chance(5).then(|| Push::to("https://example.org/work")),
                retention: retention(dice),
            },
        ),
    };
    Operation::Configure(operator(dice), settings)
}

pub(super) fn filter(dice: &mut Dice, world: &World) -> Filter {
    let mut filter = Filter::default();
    for _ in 0..dice.below(4) {
        match dice.below(14) {
            0 => filter.tenant = Some(model::tenant(dice)),
            1 => filter.job_type = Some(model::job_type(dice)),
            2 => filter.queue = Some(model::queue(dice)),
            3 => filter.tag = Some((dice.pick(&["team", "ärea"]).to_owned(), "red".to_owned())),
            4 => filter.correlation_id = Some("order-1".to_owned()),
            5 => filter.owner = Some(dice.pick(&["ann", "local"]).to_owned()),
            6 => filter.parent = Some(world.job(dice)),
            7 => filter.created_after = Some(world.now.minus(dice.time(&[1_000, 600_000]))),
            8 => filter.created_before = Some(world.now.minus(dice.time(&[1_000, 600_000]))),
            9 => filter.workers = vec![world.worker(dice)],
            10 => filter.is_blocked = Some(dice.chance(50)),
            11 => filter.is_redriven = Some(dice.chance(50)),
            _ => filter.states.extend([dice.pick(&JobState::ALL), dice.pick(&JobState::ALL)]),
        }
    }
    filter
}

pub(super) fn order(dice: &mut Dice) -> Order {
    dice.pick(&[Order::Newest, Order::Oldest, Order::Claim])
}

fn one_act(dice: &mut Dice) -> ActionRequest {
    let reason = dice.maybe(30, &["asked for".to_owned()]);
    match dice.below(16) {
        0 => ActionRequest::Submit,
        1..=5 => ActionRequest::Suspend(Suspend {
            mode: dice.pick(&[SuspendMode::IdleOnly, SuspendMode::Graceful, SuspendMode::Aggressive]),
            reason,
            expires: dice.chance(40).then(|| dice.time(&[0, 800, 40_000])),
        }),
        6..=10 => ActionRequest::Resume { reason },
        11 => ActionRequest::Cancel { reason },
        12..=13 => ActionRequest::Priority(priority(dice)),
        _ => ActionRequest::Patch(Patch {
            priority: dice.chance(30).then(|| priority(dice)),
            tags: dice.chance(40).then(|| tags(dice)),
            correlation_id: dice.chance(40).then(|| correlation_id(dice)),
            callback_url: dice.chance(20).then(|| callback_url(dice)),
        }),
    }
}

fn target(dice: &mut Dice, world: &World) -> PauseTarget {
    match dice.below(8) {
        0 => PauseTarget::Gate,
        1 => PauseTarget::Tenant(model::tenant(dice)),
        2..=3 => PauseTarget::Type(model::job_type(dice)),
        4..=6 => PauseTarget::Queue(model::queue(dice)),
        _ => PauseTarget::Worker(world.worker(dice)),
    }
}

fn rate(dice: &mut Dice) -> Option<Rate> {
    dice.chance(15).then(|| Rate::new(dice.pick(&[1, 3, 20]), dice.time(&[500, 3_000, 60_000])))
}

fn timeouts(dice: &mut Dice) -> PartialTimeouts {
    let mut some = |percent: usize, seconds: u64| dice.chance(percent).then(|| Duration::from_secs(seconds));
    PartialTimeouts {
        execution: some(10, 15),
        lease: some(10, 3),
        lifetime: some(10, 7_200),
        start: some(10, 40),
        max_execution: some(10, 20),
    }
}

fn retention(dice: &mut Dice) -> Retention {
    let mut some =
        || dice.maybe(10, &[Duration::ZERO, Duration::from_secs(600), Duration::from_secs(86_400 * 90)]);
    Retention { completed: some(), failed: some(), dead_letter: some(), cancelled: some() }
}

fn manager(dice: &mut Dice) -> Caller {
    model::caller(dice, &[Role::Submitter, Role::Operator])
}

fn operator(dice: &mut Dice) -> Caller {
    model::caller(dice, &[Role::Operator])
}
