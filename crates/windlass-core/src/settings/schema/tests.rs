//! What a schema accepts, and the bounds of comparing values with it.

use serde_json::json;

use super::*;

fn schema(json: Value) -> JobSchema {
    JobSchema::from(json)
}

fn check(schema: &JobSchema, json: &[u8]) -> Result<(), FieldError> {
    schema.check_json("payload", json, &mut SchemaSteps::default())
}

#[test]
fn the_first_place_that_does_not_match_is_named() {
    let order =
        schema(json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}}},
        "$defs": {"line": {"type": "object", "properties": {"cents": {"type": "integer", "minimum": 1}}}}}));
    order.check("payload_schema").unwrap();
    check(&order, br#"{"id": 1, "lines": [{"cents": 5}]}"#).unwrap();
    let refused = |json: &str| check(&order, json.as_bytes()).unwrap_err();
    assert_eq!(refused(r#"{"id": 1, "lines": [{"cents": 5}, {"cents": 0}]}"#).field, "payload.lines.1.cents");
    assert_eq!(refused("{}").field, "payload");
    assert!(refused("{}").to_string().contains("id"), "{}", refused("{}"));
    assert_eq!(refused("").field, "payload");
    assert_eq!(refused("{").field, "payload");
    let bytes = Payload::bytes([1], "application/octet-stream");
    assert_eq!(order.check_type(&bytes).unwrap_err().field, "payload");
    assert!(check(&schema(json!(true)), b"7").is_ok());
}

#[test]
fn a_schema_is_bounded_and_refers_to_nothing_else() {
    let mut deep = json!({});
    for _ in 0..limits::SCHEMA_DEPTH_MAX {
        deep = json!({"not": deep});
    }
    let long = "x".repeat(limits::SCHEMA_BYTES_MAX);
    for refused in [
        json!({"type": "text"}),
        json!(7),
        json!({"$ref": "https://example.com/schema.json"}),
        json!({"$ref": "file:///etc/passwd"}),
        json!({"$ref": "#/$defs/none"}),
        json!({"pattern": "("}),
        json!({"title": long}),
        json!({"not": deep.clone()}),
    ] {
        let said = schema(refused.clone()).check("payload_schema");
        assert!(said.is_err(), "{refused}");
    }
    schema(deep).check("payload_schema").unwrap();
}

#[test]
fn it_is_stored_as_its_json() {
    let stored = json!({"type": "integer"});
    let read: JobSchema = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!((serde_json::to_value(&read).unwrap(), &read), (stored.clone(), &schema(stored)));
}

/// Definitions `a0` to `a{count}` that each apply the next one in this way, and the last one.
fn chain(count: usize, next: impl Fn(Value) -> Value, last: Value) -> Value {
    let reference = |number: usize| json!({"$ref": format!("#/$defs/a{number}")});
    let mut definitions: serde_json::Map<String, Value> =
        (0..count).map(|number| (format!("a{number}"), next(reference(number + 1)))).collect();
    definitions.insert(format!("a{count}"), last);
    json!({"$ref": "#/$defs/a0", "$defs": definitions})
}

#[test]
fn references_cannot_multiply_the_work() {
    let doubling =
        schema(chain(40, |next| json!({"allOf": [next.clone(), next]}), json!({"type": "integer"})));
    doubling.check("payload_schema").unwrap();
    let refused = check(&doubling, b"7").unwrap_err().to_string();
    assert!(refused.contains("1000000 comparisons"), "{refused}");
    // It multiplies with each level of the value only.
    let tree = schema(
        json!({"properties": {"left": {"$ref": "#"}}, "anyOf": [{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/x"}],
        "$defs": {"x": {"properties": {"left": {"$ref": "#"}}}}}),
    );
    tree.check("payload_schema").unwrap();
    let nested = |levels: usize| format!("{}1{}", "{\"left\":".repeat(levels), "}".repeat(levels));
    check(&tree, nested(5).as_bytes()).unwrap();
    assert!(check(&tree, nested(100).as_bytes()).is_err());
}

#[test]
fn references_cannot_exhaust_the_stack() {
    let last = json!({"type": ["integer", "array"], "items": {"$ref": "#"}});
    let long = schema(chain(1500, |next| next, last.clone()));
    long.check("payload_schema").unwrap();
    let refused = check(&long, b"7").unwrap_err().to_string();
    assert!(refused.contains("256 levels"), "{refused}");
    let most = schema(chain(limits::SCHEMA_LEVELS_MAX - 2, |next| next, last.clone()));
    check(&most, b"7").unwrap();
    assert!(check(&most, b"[7]").is_err());
    let short = schema(chain(1, |next| next, last));
    let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
    check(&short, nested(60).as_bytes()).unwrap();
    assert!(check(&short, nested(120).as_bytes()).is_err());
    // A subschema that applies itself to the same value has no end.
    let endless = schema(json!({"anyOf": [{"type": "array"}, {"$ref": "#"}]}));
    assert!(check(&endless, b"7").is_err());
}

#[test]
fn patterns_are_bounded() {
    let patterns: Vec<Value> =
        (0..200).map(|number| json!({"pattern": format!("\\p{{L}}{{9}}{number}")})).collect();
    for refused in [
        json!({"pattern": "\\d".repeat(600)}),
        json!({"pattern": "((a{100}){100}){100}"}),
        json!({"patternProperties": {"(\\p{L}{1000}){9}": true}}),
        json!({"allOf": patterns}),
    ] {
        assert!(schema(refused.clone()).check("payload_schema").is_err(), "{refused}");
    }
    for usual in [
        r"^\d{4}-\d{2}-\d{2}$",
        r"^[\w.+-]{1,64}@([a-z0-9-]{1,63}\.){1,8}[a-z]{2,63}$",
        r"^\p{L}[\p{L}\s'-]*$",
        r"^\/api\/v\d+$",
        r"\cA",
    ] {
        schema(json!({"pattern": usual})).check("payload_schema").unwrap();
    }
    let many_states = schema(json!({"pattern": "a.{500}b"}));
    many_states.check("payload_schema").unwrap();
    assert!(check(&many_states, format!("\"{}\"", "a".repeat(1 << 20)).as_bytes()).is_err());
    assert!(check(&many_states, format!("\"{}b\"", "a".repeat(600)).as_bytes()).is_ok());
    let parsing = schema(json!({"$schema": "http://json-schema.org/draft-07/schema#", "format": "regex"}));
    parsing.check("payload_schema").unwrap();
    check(&parsing, br#""^[a-z]+$""#).unwrap();
    assert!(check(&parsing, format!("\"{}\"", "\\\\d".repeat(20_000)).as_bytes()).is_err());
}

#[test]
fn differences_of_large_values_are_not_collected() {
    let texts = schema(json!({"type": ["array", "string"], "items": {"$ref": "#"}}));
    let items = vec!["1"; 200_000].join(",");
    let large = format!("{}{items}{}", "[".repeat(60), "]".repeat(60));
    let refused = check(&texts, large.as_bytes()).unwrap_err();
    assert_eq!(refused.field, "payload");
    assert_eq!(check(&texts, br#"["a", [1]]"#).unwrap_err().field, "payload.1.0");
    let long = format!("{{\"{}\": 1}}", "x".repeat(100_000));
    let named = schema(json!({"additionalProperties": {"type": "string"}}));
    assert!(check(&named, long.as_bytes()).unwrap_err().to_string().len() < 2000);
}

#[test]
fn a_batch_has_a_limit_of_its_own() {
    let integers = schema(json!({"items": {"type": "integer"}}));
    let items = format!("[{}]", vec!["1"; 400_000].join(","));
    let mut steps = SchemaSteps(999_999);
    let checked = (0..4).map(|_| integers.check_json("payload", items.as_bytes(), &mut steps));
    let refused = checked.filter_map(Result::err).map(|refused| refused.to_string()).collect::<Vec<_>>();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused.iter().all(|refused| refused.contains("split the batch")), "{refused:?}");
}

#[test]
fn references_name_places_of_the_same_schema() {
    let inner = json!({"type": "integer"});
    for accepted in [
        json!({"$id": "https://example.com/a", "$ref": "https://example.com/a#/$defs/x", "$defs": {"x": inner}}),
        json!({"$ref": "#here", "$defs": {"x": {"$anchor": "here", "type": "integer"}}}),
        json!({"$ref": "#/$defs/a%20b", "$defs": {"a b": inner}}),
        json!({"$ref": "#/$defs/a~1b", "$defs": {"a/b": inner}}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#here",
            "definitions": {"x": {"$id": "#here", "type": "integer"}}}),
        json!({"allOf": [{"type": "integer"}, {"$ref": "#/allOf/0"}]}),
    ] {
        let accepted = schema(accepted);
        accepted.check("payload_schema").unwrap();
        assert!(check(&accepted, b"7").is_ok() && check(&accepted, b"\"\"").is_err(), "{accepted:?}");
    }
    for refused in [
        json!({"$ref": "https://json-schema.org/draft/2020-12/schema"}),
        json!({"$dynamicRef": "#here", "$dynamicAnchor": "here"}),
        json!({"$ref": "#/$defs/x", "$defs": {"x": {"$id": "https://example.com/x"}}}),
        json!({"$ref": "#here", "allOf": [{"$anchor": "here"}, {"$anchor": "here"}]}),
    ] {
        assert!(schema(refused.clone()).check("payload_schema").is_err(), "{refused}");
    }
}
