//! JSON Schemas and the values that they check: neither takes long, whatever they refer to. A stack that overflows ends
//! the process, so that a run by `scripts/fuzz` leaves the input behind.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_fuzz::Family;

use super::refused;
use crate::limits;
use crate::settings::{JobSchema, SchemaSteps};

/// Processor time for counting the comparisons of a value up to their limit, without optimisation: some 1.5 s here.
const COUNTING_TIME_MAX: Duration = Duration::from_secs(8);

/// Values that make recursive schemas work: deep ones, wide ones, both.
fn values() -> Vec<String> {
    let deep = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let lists = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    let bushy = (0..7).fold(json!(1), |inner, _| json!({"a": inner, "b": inner, "0": [1, "x"]}));
    vec![
        deep(5),
        deep(30),
        deep(126),
        lists(126),
        bushy.to_string(),
        format!("[{}1]", "1,".repeat(2_000)),
        r#"{"a": null, "b": "text", "": 1.5}"#.to_owned(),
        "\"2030-01-31T12:00:00Z\"".to_owned(),
        "-0".to_owned(),
        format!("\"{}\"", "é".repeat(3_000)),
    ]
}

fn check(json: Value, values: &[String]) -> Result<(), String> {
    let schema = JobSchema::from(json);
    if let Err(problem) = schema.check("payload_schema") {
        return refused(&problem);
    }
    for value in values {
        if let Err(problem) = schema.check_json("payload", value.as_bytes(), &mut SchemaSteps::default()) {
            refused(&problem)?;
            // One value that is counted up to the limit is enough.
            if problem.to_string().contains("comparisons") {
                break;
            }
            if !problem.field.starts_with("payload") {
                return Err(format!("the field is {}", problem.field));
            }
        }
    }
    Ok(())
}

/// Schemas of all keywords that contain schemas, with references between four definitions and the root.
fn schemas() -> impl Strategy<Value = Value> {
    let reference = prop_oneof![Just("#".to_owned()), (0..4).prop_map(|n| format!("#/$defs/d{n}"))];
    let leaf = prop_oneof![
        2 => Just(json!({})),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(json!({"type": ["integer", "null"]})),
        1 => Just(json!({"pattern": "^(a|b)*$", "maxLength": 9})),
        1 => Just(json!({"enum": [1, "x", null], "uniqueItems": true})),
        6 => reference.prop_map(|to| json!({"$ref": to})),
    ];
    let tree = leaf.prop_recursive(3, 12, 3, |inner| {
        let one = (
            inner.clone(),
            prop::sample::select(vec![
                "not",
                "if",
                "then",
                "items",
                "contains",
                "additionalProperties",
                "unevaluatedProperties",
                "unevaluatedItems",
                "propertyNames",
            ]),
        );
        let list = (
            prop::collection::vec(inner.clone(), 1..4),
            prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]),
        );
        let map = (
            inner.clone(),
            inner,
            prop::sample::select(vec!["properties", "patternProperties", "dependentSchemas"]),
        );
        prop_oneof![
            one.prop_map(|(schema, name)| json!({name: schema})),
            list.prop_map(|(schemas, name)| json!({name: schemas})),
            map.prop_map(|(a, b, name)| json!({name: {"a": a, "b": b}})),
        ]
    });
    (tree.clone(), [tree.clone(), tree.clone(), tree.clone(), tree]).prop_map(
        |(root, [a, b, c, d])| json!({"allOf": [root], "$defs": {"d0": a, "d1": b, "d2": c, "d3": d}}),
    )
}

#[test]
fn a_schema_of_any_references_is_bounded() {
    let values = values();
    Family::new("schema").cases(150).values(&schemas(), |schema| check(schema, &values));
}

#[test]
fn a_changed_schema_is_bounded() {
    let values = values();
    let words = [
        r##""$ref":"#""##,
        r##""$ref":"#/$defs/a""##,
        r#""allOf":["#,
        r#""pattern":"\\p{L}{99}""#,
        r#""items":"#,
        "{}",
        r#""$id":"x""#,
        r##""$dynamicRef":"#a""##,
        r#""multipleOf":1e-300"#,
        r#""format":"regex""#,
        r#""properties":{"a":"#,
    ];
    Family::new("schema").words(words).cases(1_000).case_time_max(COUNTING_TIME_MAX).bytes(|bytes| {
        let Ok(json) = serde_json::from_slice::<Value>(bytes) else { return Ok(()) };
        assert!(bytes.len() <= limits::SCHEMA_BYTES_MAX * 2, "inputs are bounded");
        check(json, &values)
    });
}
