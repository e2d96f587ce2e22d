//! How attempts end: errors and retries, changed code, signals, groups, follow-ups.

use serde_json::{Value, json};
use windlass::job::JobState;

use super::{Action, Case, DAY, case, child, note, returns, sleep, step};

pub(super) fn all() -> Vec<Case> {
    [errors(), steps(), lifetimes(), changes(), signals(), groups(), completions()].concat()
}

fn error(category: &str, code: Option<&str>) -> Value {
    json!({"category": category, "message": "on purpose", "code": code})
}

fn retry(max_attempts: u32) -> Value {
    json!({"strategy": "constant", "initial_delay": "1m", "max_attempts": max_attempts})
}

fn errors() -> Vec<Case> {
    let fails = |error: Value, times: u32| json!({"fail": error, "times": times});
    let mut late = error("temporary", None);
    late["retry_after_ms"] = json!(3 * DAY * 1000);
    vec![
        case(
            "an error is retried",
            vec![note("a"), fails(error("temporary", None), 2), returns(1)],
            Some(json!(1)),
            &["a"; 3],
        )
        .option("retry", retry(5)),
        case(
            "an error of another category is retried",
            vec![note("a"), fails(error("resource", None), 1)],
            None,
            &["a"; 2],
        )
        .option("retry", json!({"max_attempts": 5, "retry_on": ["resource"]})),
        case(
            "a permanent error is not",
            vec![note("a"), fails(error("permanent", Some("never")), 9)],
            None,
            &["a"],
        )
        .ends(JobState::Failed, Some("never")),
        case(
            "retries are used up",
            vec![note("a"), fails(error("temporary", Some("busy")), 9)],
            None,
            &["a"; 3],
        )
        .option("retry", retry(3))
        .ends(JobState::DeadLetter, Some("busy")),
        case("an error says when to retry", vec![note("a"), fails(late, 1)], None, &["a"; 2])
            .option("retry", retry(3)),
        case(
            "a snooze is not a failure",
            vec![note("a"), json!({"snooze": 3_600_000, "times": 1})],
            None,
            &["a"; 2],
        )
        .option("retry", retry(1)),
        case("a payload of another type", vec![], None, &[])
            .option("type", json!("sdktest.number"))
            .option("payload", json!("seven"))
            .ends(JobState::Failed, Some("payload_unreadable")),
        case("a typed payload", vec![], Some(json!(8)), &[])
            .option("type", json!("sdktest.number"))
            .option("payload", json!(7)),
        case("a result that is too large", vec![json!({"return_bytes": 3_000_000})], None, &[])
            .ends(JobState::Failed, Some("outcome_rejected")),
        case("a handler that takes too long", vec![note("a"), json!({"until_stopped": "b"})], None, &[])
            .in_any_order()
            .option("timeouts", json!({"execution": "1s"}))
            .option("retry", retry(1))
            .ends(JobState::DeadLetter, Some("timeout")),
    ]
}

fn steps() -> Vec<Case> {
    let failing = |name: &str, category: &str, times: u32| json!({"step": name, "returns": 1, "fails": error(category, Some("no")), "times": times});
    let caught = |mut step: Value| {
        step["caught"] = json!(true);
        step
    };
    vec![
        case(
            "a failed step runs again, and no other",
            vec![step("a", 1), failing("b", "temporary", 2), step("c", 1)],
            None,
            &["a", "b", "b", "b", "c"],
        )
        .option("retry", retry(5)),
        case(
            "a permanent error of a step",
            vec![step("a", 1), failing("b", "permanent", 9)],
            None,
            &["a", "b"],
        )
        .ends(JobState::Failed, Some("no")),
        case(
            "a caught error is the same later",
            vec![caught(failing("a", "temporary", 9)), sleep(60), step("b", 2)],
            None,
            &["a", "b"],
        ),
        case(
            "a caught permanent error is the same later",
            vec![caught(failing("a", "permanent", 9)), sleep(60), step("b", 2)],
            None,
            &["a", "b"],
        ),
        case(
            "a step whose caught error fails the attempt runs again",
            vec![caught(failing("a", "temporary", 1)), step("b", 2), json!({"raise": "a"}), step("c", 3)],
            None,
            &["a", "b", "a", "c"],
        )
        .option("retry", retry(3)),
        case("a name that no step can have", vec![step("sleep:x", 1)], None, &[])
            .ends(JobState::Failed, Some("step_name")),
        case(
            "a value that is too large for a step",
            vec![json!({"step": "a", "returns_bytes": 3_000_000})],
            None,
            &["a"],
        )
        .ends(JobState::Failed, Some("not_allowed")),
        case(
            "values are JSON in the first attempt too",
            vec![step("a", json!({"b": [1, null, "é"]})), json!({"return_got": "a"})],
            Some(json!({"b": [1, null, "é"]})),
            &["a"],
        ),
    ]
}

/// Waits that would end after the job's lifetime.
fn lifetimes() -> Vec<Case> {
    let late = |name: &str, wait: Value| {
        case(name, vec![step("a", 1), wait, step("b", 2)], None, &["a"])
            .option("timeouts", json!({"lifetime": "1h"}))
            .ends(JobState::Failed, Some("lifetime_too_short"))
    };
    vec![
        late("a sleep that is longer than the lifetime", sleep(DAY)),
        late("a timeout that is longer than the lifetime", json!({"signal": "paid", "timeout": 86_400_000})),
    ]
}

/// Code that is changed while a job sleeps.
fn changes() -> Vec<Case> {
    let versions = |first: Vec<Value>, later: Vec<Value>| vec![json!({"versions": [first, later]})];
    let changed = |name: &str, first: Vec<Value>, later: Vec<Value>, effects: &[&str]| {
        case(name, versions(first, later), None, effects).ends(JobState::Failed, Some("steps_changed"))
    };
    let named = |ms: u64| json!({"sleep": ms, "name": "pause"});
    let group = |count: usize| json!({"children": vec![child(vec![]); count], "strategy": "collect_all"});
    vec![
        changed("a step is renamed", vec![step("a", 1), sleep(60)], vec![step("b", 1), sleep(60)], &["a"]),
        changed("a step is removed", vec![step("a", 1), sleep(60)], vec![sleep(60), step("c", 1)], &["a"]),
        changed(
            "a sleep is longer",
            vec![step("a", 1), sleep(600)],
            vec![step("a", 1), sleep(DAY), step("b", 1)],
            &["a"],
        ),
        changed("a group is larger", vec![group(1)], vec![group(2)], &[]),
        case(
            "a step is added at the end",
            versions(vec![step("a", 1), sleep(60)], vec![step("a", 1), sleep(60), step("b", 1), returns(2)]),
            Some(json!(2)),
            &["a", "b"],
        ),
        case(
            "a named sleep may vary",
            versions(vec![named(60_000)], vec![named(3_600_000), step("b", 1), returns(2)]),
            Some(json!(2)),
            &["b"],
        ),
    ]
}

fn signals() -> Vec<Case> {
    let wait = json!({"signal": "paid", "timeout": 86_400_000});
    let got = |key: &str| json!({"return_got": key});
    let sent = |value: Value| Action::Signal("paid", value);
    vec![
        case(
            "a signal that is sent early",
            vec![sleep(60), wait.clone(), got("signal:paid")],
            Some(json!({"a": 1})),
            &[],
        )
        .with([sent(json!({"a": 1}))]),
        case("a signal that is sent late", vec![wait.clone(), got("signal:paid")], Some(json!([2])), &[])
            .with([Action::Is(JobState::Waiting), sent(json!([2]))]),
        case(
            "a signal that is not sent",
            vec![wait.clone(), note("late"), got("signal:paid")],
            None,
            &["late"],
        ),
        case(
            "two signals are taken in order",
            vec![wait.clone(), wait, got("signal:paid#2")],
            Some(json!(2)),
            &[],
        )
        .with([sent(json!(1)), sent(json!(2))]),
        case(
            "the first of two signals",
            vec![json!({"first_signal": ["paid", "refused"]})],
            Some(json!("refused")),
            &[],
        )
        .with([Action::Is(JobState::Waiting), Action::Signal("refused", json!(true))]),
    ]
}

fn groups() -> Vec<Case> {
    let group = |strategy: Value, children: Vec<Value>| json!({"children": children, "strategy": strategy});
    let (well, badly) =
        (child(vec![returns(1)]), child(vec![json!({"fail": error("permanent", Some("no")), "times": 9})]));
    let got = || json!({"return_got": "children:"});
    let (result, failed) = (|value: i32| json!({"result": value}), json!({"state": "failed"}));
    vec![
        case(
            "a group collects results in order",
            vec![
                group(
                    json!("collect_all"),
                    vec![
                        child(vec![returns(1)]),
                        child(vec![sleep(60), returns(2)]),
                        child(vec![returns(3)]),
                    ],
                ),
                got(),
            ],
            Some(json!([result(1), result(2), result(3)])),
            &[],
        ),
        case(
            "a group collects errors",
            vec![group(json!("collect_all"), vec![well.clone(), badly.clone()]), got()],
            Some(json!([result(1), failed])),
            &[],
        ),
        case(
            "a group fails fast",
            vec![group(json!("fail_fast"), vec![child(vec![sleep(3 * DAY)]), badly]), got()],
            Some(json!([{"state": "cancelled"}, failed])),
            &[],
        ),
        case(
            "a group is decided by a threshold",
            vec![group(json!({"threshold": 1}), vec![child(vec![sleep(3 * DAY)]), well.clone()]), got()],
            Some(json!([{"state": "cancelled"}, result(1)])),
            &[],
        ),
        case(
            "groups nest",
            vec![
                group(
                    json!("collect_all"),
                    vec![child(vec![group(json!("collect_all"), vec![well.clone(), well]), got()])],
                ),
                got(),
            ],
            Some(json!([{"result": [result(1), result(1)]}])),
            &[],
        ),
        case("an empty group", vec![group(json!("collect_all"), vec![]), got()], Some(json!([])), &[]),
    ]
}

/// What goes with a completion.
fn completions() -> Vec<Case> {
    let next = json!({"follow_up": [note("next")]});
    vec![
        case("a job follows", vec![note("first"), next.clone()], None, &["first", "next"])
            .with([Action::Noted("next")]),
        case(
            "a job follows only a completion",
            vec![note("first"), next, json!({"fail": error("temporary", None), "times": 1})],
            None,
            &["first", "first", "next"],
        )
        .option("retry", retry(3))
        .with([
            Action::Noted("first"),
            Action::Is(JobState::Retrying),
            Action::Advance(std::time::Duration::from_secs(120)),
            Action::Noted("next"),
        ]),
        case(
            "progress, log lines and costs",
            vec![
                json!({"progress": 50, "message": "half"}),
                json!({"log": ["one", "two"]}),
                json!({"cost": 3}),
                returns("well"),
            ],
            Some(json!("well")),
            &[],
        )
        .reports(json!({"progress": [50.0, "half"], "logs": ["one", "two"], "cost_cents": 3})),
        case(
            "output starts over after a failure, without that of a saved step",
            vec![
                json!({"step": "plan", "within": [{"stream": ["plan"]}], "returns": 1}),
                json!({"stream": ["a", {"b": [1, "ß"]}]}),
                json!({"fail": error("temporary", None), "times": 1}),
            ],
            None,
            &["plan"],
        )
        .option("retry", retry(3))
        .streams(json!([
            [1, false, "plan"],
            [1, false, "a"],
            [1, false, {"b": [1, "ß"]}],
            [2, true, "a"],
            [2, false, {"b": [1, "ß"]}],
        ])),
        case(
            "output continues after a sleep",
            vec![json!({"stream": ["before"]}), sleep(60), json!({"stream": ["after"]})],
            None,
            &[],
        )
        .streams(json!([[1, false, "before"], [2, false, "before"], [2, false, "after"]])),
    ]
}
