//! What interrupts an attempt from outside: cancellation, suspension, lost leases, stopped workers, restarted servers.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::job::JobState;

use super::{Action, Case, DAY, case, child, note, returns, sleep, step};
use crate::commands::run::sdk_test::worker::{Order, VERSION};

pub(super) fn all() -> Vec<Case> {
    [actions(), workers(), servers(), slow(), protocols()].concat()
}

/// A handler that notes when it begins, and once waits until it is asked to stop.
fn stopped_once() -> Vec<Value> {
    vec![note("in"), json!({"until_stopped": "once"}), returns(1)]
}

/// A handler that is busy for a while.
fn busy() -> Vec<Value> {
    vec![note("in"), json!({"pause": 2000}), returns(1)]
}

fn actions() -> Vec<Case> {
    let suspend = |is_graceful| Action::Suspend { is_graceful };
    vec![
        case("a running job is cancelled", stopped_once(), None, &["in", "stopped"])
            .with([Action::Noted("in"), Action::Cancel, Action::Noted("stopped")])
            .ends(JobState::Cancelled, None),
        case("a sleeping job is cancelled", vec![step("a", 1), sleep(DAY), step("b", 2)], None, &["a"])
            .with([Action::Is(JobState::Waiting), Action::Cancel])
            .ends(JobState::Cancelled, None),
        case("a running job is suspended at once", stopped_once(), Some(json!(1)), &["in", "stopped", "in"])
            .with([
                Action::Noted("in"),
                suspend(false),
                Action::Noted("stopped"),
                Action::Is(JobState::Suspended),
                Action::Resume,
            ]),
        case("a running job is suspended when its attempt has ended", busy(), Some(json!(1)), &["in"])
            .with([Action::Noted("in"), suspend(true)]),
        case(
            "a running job is suspended when it sleeps",
            vec![note("in"), json!({"pause": 500}), sleep(60), step("b", 2)],
            None,
            &["in", "in", "b"],
        )
        .with([Action::Noted("in"), suspend(true), Action::Is(JobState::Suspended), Action::Resume]),
        case("a sleeping job is suspended", vec![step("a", 1), sleep(60), step("b", 2)], None, &["a", "b"])
            .with([
                Action::Is(JobState::Waiting),
                suspend(false),
                Action::Is(JobState::Suspended),
                Action::Resume,
            ]),
    ]
}

fn workers() -> Vec<Case> {
    let sleeping = || vec![step("a", 1), sleep(DAY), step("b", 2)];
    vec![
        case("a short lease is kept", stopped_once(), None, &["in", "stopped"])
            .option("timeouts", json!({"lease": "1s", "lifetime": "60d"}))
            .with([
                Action::Noted("in"),
                Action::KeepsLease(Duration::from_secs(1)),
                Action::Cancel,
                Action::Noted("stopped"),
            ])
            .ends(JobState::Cancelled, None),
        case("a lease is lost", stopped_once(), Some(json!(1)), &["in", "stopped", "in"])
            .with([Action::Noted("in"), Action::LoseLeases, Action::Noted("stopped")])
            .crashes(1),
        case("an outcome comes too late", busy(), Some(json!(1)), &["in", "in"])
            .with([Action::Noted("in"), Action::LoseLeases])
            .crashes(1),
        case("a worker stops when its handler has ended", busy(), Some(json!(1)), &["in"])
            .with([Action::Noted("in"), Action::Worker(Order::Stop)]),
        case("a worker stops while its job sleeps", sleeping(), None, &["a", "b"])
            .with([Action::Is(JobState::Waiting), Action::Worker(Order::Stop)]),
        case(
            "a worker is killed while its handler runs",
            vec![note("in"), json!({"pause": 10_000}), returns(1)],
            Some(json!(1)),
            &["in", "in"],
        )
        .with([Action::Noted("in"), Action::Worker(Order::Kill)])
        .crashes(1),
        case("a worker is killed while its job sleeps", sleeping(), None, &["a", "b"])
            .with([Action::Is(JobState::Waiting), Action::Worker(Order::Kill)]),
        case("a job that requires the worker's version", sleeping(), None, &["a", "b"])
            .option("requires_version", json!(VERSION))
            .with([Action::Is(JobState::Waiting), Action::Worker(Order::Kill)]),
    ]
}

fn servers() -> Vec<Case> {
    let waits = vec![json!({"signal": "paid"}), step("b", 2), json!({"return_got": "signal:paid"})];
    vec![
        case("the server restarts while a handler runs", busy(), Some(json!(1)), &["in"])
            .with([Action::Noted("in"), Action::RestartServer]),
        case(
            "the server restarts while a job sleeps",
            vec![step("a", 1), sleep(DAY), step("b", 2)],
            None,
            &["a", "b"],
        )
        .with([Action::Is(JobState::Waiting), Action::RestartServer]),
        case("the server restarts while a job waits", waits, Some(json!(7)), &["b"]).with([
            Action::Is(JobState::Waiting),
            Action::RestartServer,
            Action::Signal("paid", json!(7)),
        ]),
    ]
}

fn slow() -> Vec<Case> {
    let children = vec![child(vec![returns(1)]), child(vec![returns(2)])];
    let cases = vec![
        case(
            "a slow network: steps",
            vec![step("a", 1), step("b", 2), returns(3)],
            Some(json!(3)),
            &["a", "b"],
        ),
        case("a slow network: sleeps", vec![step("a", 1), sleep(DAY), step("b", 2)], None, &["a", "b"]),
        case(
            "a slow network: children",
            vec![json!({"children": children, "strategy": "collect_all"}), step("b", 2)],
            None,
            &["b"],
        ),
    ];
    cases.into_iter().map(|case| Case { is_slow: true, ..case }).collect()
}

fn protocols() -> Vec<Case> {
    let name = "a server of another protocol: the worker ends, and takes no job";
    vec![Case { is_of_another_protocol: true, ..case(name, vec![note("a")], None, &[]) }]
}
