//! The cases. Programs are lists of operations, which docs/sdk-test.md describes.

mod endings;
mod interruptions;
mod losses;

use serde_json::{Value, json};
use windlass::job::JobState;

use super::case::{Action, Case, Expectation};
use super::lossy::{LostAnswer, RequestKind};

/// All cases.
pub(super) fn all() -> Vec<Case> {
    [killed::all(), endings::all(), interruptions::all(), losses::all()].concat()
}

/// A case that completes.
fn case(name: impl Into<String>, program: Vec<Value>, result: Option<Value>, effects: &[&str]) -> Case {
    let effects = Some(effects.iter().map(|line| (*line).to_owned()).collect());
    let (state, crashes) = (JobState::Completed, Some(0));
    let expected = Expectation { state, result, error: None, effects, crashes, reports: None, output: None };
    Case {
        name: name.into(),
        program: program.into(),
        options: json!({"timeouts": {"lifetime": "60d"}}),
        actions: Vec::new(),
        is_slow: false,
        lost: None,
        is_of_another_protocol: false,
        expected,
    }
}

impl Case {
    fn with(mut self, actions: impl IntoIterator<Item = Action>) -> Case {
        self.actions.extend(actions);
        self
    }

    fn option(mut self, name: &str, value: Value) -> Case {
        self.options[name] = value;
        self
    }

    fn crashes(mut self, crashes: u32) -> Case {
        self.expected.crashes = Some(crashes);
        self
    }

    fn ends(mut self, state: JobState, error: Option<&'static str>) -> Case {
        (self.expected.state, self.expected.error) = (state, error);
        self
    }

    fn reports(mut self, reports: Value) -> Case {
        self.expected.reports = Some(reports);
        self
    }

    fn loses(mut self, asked: RequestKind, number: usize) -> Case {
        self.lost = Some(LostAnswer { asked, number });
        self
    }

    fn streams(mut self, output: Value) -> Case {
        self.expected.output = Some(output);
        self
    }

    fn in_any_order(mut self) -> Case {
        self.expected.effects = None;
        self
    }
}

fn step(name: &str, value: impl Into<Value>) -> Value {
    json!({"step": name, "returns": value.into()})
}

fn note(line: &str) -> Value {
    json!({"note": line})
}

fn kill(name: &str) -> Value {
    json!({"kill": name})
}

fn sleep(seconds: u64) -> Value {
    json!({"sleep": seconds * 1000})
}

fn returns(value: impl Into<Value>) -> Value {
    json!({"return": value.into()})
}

/// A child that runs these operations.
fn child(program: Vec<Value>) -> Value {
    json!({"type": "sdktest", "payload": {"program": Value::Array(program)}, "retry": {"max_attempts": 1}})
}

const DAY: u64 = 86_400;

/// Processes that die between and within calls.
mod killed {
    use super::{Action, Case, DAY, Value, case, child, json, kill, returns, sleep, step};

    /// A program, its result and what it does.
    struct Workflow {
        name: &'static str,
        program: Vec<Value>,
        result: Value,
        effects: &'static [&'static str],
        actions: Vec<Action>,
    }

    fn workflows() -> Vec<Workflow> {
        let children = (1..=3).map(|number| child(vec![returns(number)])).collect::<Vec<_>>();
        vec![
            Workflow {
                name: "steps",
                program: vec![step("a", 1), step("b", "x"), step("a", json!([2]))],
                result: json!(1),
                effects: &["a", "b", "a#2"],
                actions: Vec::new(),
            },
            Workflow {
                name: "sleeps",
                program: vec![
                    step("a", 1),
                    sleep(DAY),
                    step("b", 2),
                    json!({"sleep": 3_600_000, "name": "short"}),
                    step("c", 3),
                ],
                result: json!(1),
                effects: &["a", "b", "c"],
                actions: Vec::new(),
            },
            Workflow {
                name: "a signal",
                program: vec![step("a", 1), json!({"signal": "paid", "timeout": 86_400_000}), step("b", 2)],
                result: json!(1),
                effects: &["a", "b"],
                actions: vec![Action::Signal("paid", json!({"cents": 5}))],
            },
            Workflow {
                name: "children",
                program: vec![
                    step("a", 1),
                    json!({"children": children, "strategy": "collect_all"}),
                    step("b", 2),
                ],
                result: json!(1),
                effects: &["a", "b"],
                actions: Vec::new(),
            },
        ]
    }

    pub(super) fn all() -> Vec<Case> {
        let mut cases = Vec::new();
        for workflow in workflows() {
            let Workflow { name, program, result, effects, actions } = workflow;
            let whole = |program: Vec<Value>| {
                let program = [program, vec![returns(result.clone())]].concat();
                (program, Some(result.clone()))
            };
            let (alive, kept) = whole(program.clone());
            cases.push(case(format!("{name}: nothing dies"), alive, kept, effects).with(actions.clone()));
            for place in 0..=program.len() {
                let mut dying = program.clone();
                dying.insert(place, kill("here"));
                let (dying, kept) = whole(dying);
                let name = format!("{name}: the process dies before call {}", place + 1);
                cases.push(case(name, dying, kept, effects).with(actions.clone()).crashes(1));
            }
        }
        cases.extend(within());
        cases
    }

    fn within() -> Vec<Case> {
        let dying = |name: &str| json!({"step": name, "returns": 1, "within": [kill("here")]});
        let nested = json!({"step": "outer", "returns": 1, "within": [step("inner", 2), kill("here"), step("last", 3)]});
        vec![
            case(
                "a step whose process dies runs again",
                vec![step("a", 1), dying("b"), step("c", 3)],
                None,
                &["a", "b", "b", "c"],
            )
            .crashes(1),
            case(
                "a step within a step is not repeated with it",
                vec![nested],
                None,
                &["outer", "outer#/inner", "outer", "outer#/last"],
            )
            .crashes(1),
            case(
                "steps side by side, one of whose processes dies",
                vec![
                    json!({"together": [step("x", 1), step("y", 2)]}),
                    kill("here"),
                    step("z", 3),
                    returns(7),
                ],
                Some(json!(7)),
                &[],
            )
            .in_any_order()
            .crashes(1),
            case(
                "a checkpoint survives",
                vec![json!({"checkpoint": [4]}), kill("here"), json!({"return_checkpoint": true})],
                Some(json!([4])),
                &[],
            )
            .crashes(1),
        ]
    }
}
