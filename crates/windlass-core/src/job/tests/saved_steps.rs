//! Which saved steps a retry from a step keeps.

use crate::job::{SavedStep, kept_before, ordered_steps};

fn saved<'a>(records: &[(&'a str, &'a str)]) -> Vec<SavedStep<'a>> {
    records.iter().map(|(key, record)| SavedStep { key, record: record.as_bytes() }).collect()
}

fn kept<'a>(records: &[(&'a str, &'a str)], step: &str) -> Result<Vec<&'a str>, String> {
    let kept = kept_before(&saved(records), step).map_err(|problem| problem.to_string())?;
    Ok(records.iter().zip(kept).filter(|(_, is_kept)| *is_kept).map(|((key, _), _)| *key).collect())
}

const ORDER: [(&str, &str); 7] = [
    ("charge", r#"{"at":1,"value":2}"#),
    ("checkpoint", "4000"),
    ("deadline:signal:paid", r#"{"until":5}"#),
    ("reserve", r#"{"at":0,"value":7}"#),
    ("ship", r#"{"at":3,"value":null}"#),
    ("signal:paid", r#"{"signal":true}"#),
    ("sleep:", r#"{"at":2,"until":5,"lasts_ms":5}"#),
];

#[test]
fn steps_are_ordered_by_their_first_place() {
    assert_eq!(ordered_steps(&saved(&ORDER)), ["reserve", "charge", "sleep:", "ship"]);
    let beside = [("b", r#"{"from":1}"#), ("a", r#"{"at":5,"from":0}"#), ("c", r#"{"at":2}"#)];
    assert_eq!(ordered_steps(&saved(&beside)), ["a", "b", "c"]);
}

#[test]
fn the_steps_before_the_chosen_one_are_kept() {
    let waits = ["checkpoint", "deadline:signal:paid"];
    assert_eq!(kept(&ORDER, "reserve").unwrap(), [&waits[..], &["signal:paid"]].concat());
    assert_eq!(
        kept(&ORDER, "sleep:").unwrap(),
        ["charge", "checkpoint", "deadline:signal:paid", "reserve", "signal:paid"]
    );
    assert_eq!(kept(&ORDER, "ship").unwrap().len(), ORDER.len() - 1);
}

#[test]
fn a_step_that_ran_again_later_keeps_its_first_place() {
    let records = [("a", r#"{"at":5,"from":0}"#), ("b", r#"{"at":1}"#), ("c", r#"{"from":2,"to":6}"#)];
    assert_eq!(kept(&records, "b").unwrap(), ["a"]);
    assert_eq!(kept(&records, "c").unwrap(), ["a", "b"]);
    assert!(kept(&records, "a").unwrap().is_empty());
}

#[test]
fn calls_within_a_step_follow_it() {
    let records = [
        ("batch", r#"{"at":0}"#),
        ("batch#/item", r#"{"value":1}"#),
        ("batch#2", r#"{"at":1}"#),
        ("batch#2#/item", r#"{"value":1}"#),
        ("deadline:batch#2#/signal:go", r#"{"until":5}"#),
        ("open#/item", r#"{"value":1}"#),
        ("signal:a##/b", r#"{"timeout":true}"#),
    ];
    assert_eq!(kept(&records, "batch#2").unwrap(), ["batch", "batch#/item", "signal:a##/b"]);
    assert_eq!(kept(&records, "batch").unwrap(), ["signal:a##/b"]);
}

#[test]
fn a_step_without_a_place_is_refused_with_the_possible_ones() {
    let refused = |step: &str| kept(&ORDER, step).unwrap_err();
    assert_eq!(
        refused("refund"),
        "`refund` is not a saved step of this job; possible: reserve, charge, sleep:, ship"
    );
    assert_eq!(
        refused("signal:paid"),
        "`signal:paid` has no place in the order of steps; possible: reserve, charge, sleep:, ship"
    );
    assert!(kept(&[("extract", "{\"rows\":3}")], "extract").unwrap_err().contains("no saved steps"));
    let keys: Vec<String> = (0..50).map(|number| format!("s{number}")).collect();
    let records: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), r#"{"at":0}"#)).collect();
    assert!(kept(&records, "other").unwrap_err().ends_with(", …"));
}
