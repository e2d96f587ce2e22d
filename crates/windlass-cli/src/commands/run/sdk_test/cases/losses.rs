//! Answers that are lost after the server has done what was asked: the worker asks again, and nothing happens twice.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::job::JobState;

use super::{Action, Case, DAY, RequestKind, case, child, note, returns, sleep, step};

pub(super) fn all() -> Vec<Case> {
    [claims(), records(), outcomes(), groups()].concat()
}

fn steps() -> Vec<Value> {
    vec![step("a", 1), step("b", 2), step("c", 3), returns(4)]
}

fn claims() -> Vec<Case> {
    // The job was given away, and no heartbeat names it: it comes back when its lease ends.
    let lost = case("a lost answer: a claim", steps(), Some(json!(4)), &["a", "b", "c"])
        .option("timeouts", json!({"lease": "1s", "lifetime": "60d"}))
        .with([Action::Is(JobState::Running), Action::Jump(Duration::from_secs(2))])
        .crashes(1);
    vec![lost.loses(RequestKind::Claim, 1)]
}

fn records() -> Vec<Case> {
    let record = |name: &str, number: usize| {
        case(format!("a lost answer: {name}"), steps(), Some(json!(4)), &["a", "b", "c"])
            .loses(RequestKind::Checkpoint, number)
    };
    // Long enough that the chunks are sent by themselves.
    let chunks =
        vec![json!({"stream": ["x", "y"]}), json!({"pause": 500}), json!({"stream": ["z"]}), step("a", 1)];
    vec![
        record("the first record of a step", 1),
        record("a later record of a step", 2),
        case("a lost answer: partial output", chunks, None, &["a"])
            .streams(json!([[1, false, "x"], [1, false, "y"], [1, false, "z"]]))
            .loses(RequestKind::Output, 1),
    ]
}

fn outcomes() -> Vec<Case> {
    let slept = vec![step("a", 1), sleep(DAY), step("b", 2), returns(3)];
    let failed = json!({"fail": {"category": "temporary", "message": "busy"}, "times": 1});
    vec![
        case("a lost answer: a completion", steps(), Some(json!(4)), &["a", "b", "c"])
            .loses(RequestKind::Outcome, 1),
        case("a lost answer: a sleep", slept.clone(), Some(json!(3)), &["a", "b"])
            .loses(RequestKind::Outcome, 1),
        case("a lost answer: the end after a sleep", slept, Some(json!(3)), &["a", "b"])
            .loses(RequestKind::Outcome, 2),
        case("a lost answer: a failure", vec![note("in"), failed, returns(1)], Some(json!(1)), &["in", "in"])
            .option("retry", json!({"max_attempts": 2}))
            .loses(RequestKind::Outcome, 1),
        case(
            "a lost answer: a job follows once",
            vec![note("first"), json!({"follow_up": [note("next")]})],
            None,
            &["first", "next"],
        )
        .with([Action::Noted("next")])
        .loses(RequestKind::Outcome, 1),
    ]
}

fn groups() -> Vec<Case> {
    let children: Vec<Value> = (1..=2).map(|number| child(vec![note("child"), returns(number)])).collect();
    let group = json!({"children": children, "strategy": "collect_all"});
    let results = json!([{"result": 1}, {"result": 2}]);
    vec![
        case(
            "a lost answer: a group",
            vec![step("a", 1), group, step("b", 2), json!({"return_got": "children:"})],
            Some(results),
            &["a", "child", "child", "b"],
        )
        .loses(RequestKind::Group, 1),
    ]
}
