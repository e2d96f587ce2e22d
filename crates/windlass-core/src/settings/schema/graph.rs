//! The subschemas that validating a value can reach, with references resolved: what [`steps`](super::steps) counts along.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::pattern::states;
use crate::limits;

/// Types that a value must have one of, as bits.
pub(super) type Types = u8;

/// One subschema. Numbers are indexes of other subschemas.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The allowed types; a value of another type is compared with nothing else.
    pub(super) types: Option<Types>,
    /// Subschemas for the same value.
    pub(super) same: Vec<usize>,
    /// Subschemas of named properties.
    pub(super) properties: HashMap<String, usize>,
    /// Subschemas of properties whose names match a pattern with this many states.
    pub(super) patterns: Vec<(u64, usize)>,
    /// Subschemas of properties that neither of those two names.
    pub(super) other_properties: Vec<usize>,
    /// Subschemas of all properties.
    pub(super) all_properties: Vec<usize>,
    /// The subschema of names of properties.
    pub(super) names: Vec<usize>,
    /// Subschemas of the first items.
    pub(super) first_items: Vec<usize>,
    /// Subschemas of all items.
    pub(super) items: Vec<usize>,
    /// States of the pattern for texts.
    pub(super) states: u64,
    /// Values that are compared with each value.
    pub(super) constants: u64,
    /// Whether items are compared with each other.
    pub(super) has_unique_items: bool,
    /// Whether texts are parsed as regular expressions.
    pub(super) parses_patterns: bool,
}

/// All reachable subschemas; the first is the whole schema.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Whether lists of evaluated items and properties are kept for each value.
    pub(super) tracks_evaluated: bool,
}

impl Graph {
    /// # Errors
    /// Why the work of validating with this schema cannot be bounded.
    pub(super) fn from_schema(schema: &Value) -> Result<Graph, String> {
        let anchors = anchors(schema)?;
        let mut builder = Builder {
            root: schema,
            anchors,
            known: HashMap::new(),
            reached: Vec::new(),
            states: 0,
            tracks_evaluated: false,
        };
        builder.add(schema);
        let mut nodes = Vec::new();
        while let Some(next) = builder.reached.get(nodes.len()).copied() {
            nodes.push(builder.node(next)?);
        }
        Ok(Graph { nodes, tracks_evaluated: builder.tracks_evaluated })
    }
}

struct Builder<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    /// The subschemas that have a number, by where they are.
    known: HashMap<*const Value, usize>,
    reached: Vec<&'a Value>,
    /// States of all patterns.
    states: u64,
    tracks_evaluated: bool,
}

impl<'a> Builder<'a> {
    /// The number of a subschema.
    fn add(&mut self, schema: &'a Value) -> usize {
        let reached = &mut self.reached;
        *self.known.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            reached.push(schema);
            reached.len() - 1
        })
    }

    /// The numbers of subschemas: one, or those of a list.
    fn add_all(&mut self, given: Option<&'a Value>) -> Vec<usize> {
        match given {
            Some(Value::Array(schemas)) => schemas.iter().map(|schema| self.add(schema)).collect(),
            Some(schema) => vec![self.add(schema)],
            None => Vec::new(),
        }
    }

    fn node(&mut self, schema: &'a Value) -> Result<Node, String> {
        let Value::Object(fields) = schema else { return Ok(Node::default()) };
        if let Some(name) =
            ["$dynamicRef", "$recursiveRef"].into_iter().find(|name| fields.contains_key(*name))
        {
            return Err(format!("{name} is not supported: use $ref"));
        }
        let mut node = Node { types: types(fields.get("type")), ..Node::default() };
        self.applied_to_value(fields, &mut node)?;
        self.applied_to_properties(fields, &mut node)?;
        self.applied_to_items(fields, &mut node);
        if let Some(pattern) = fields.get("pattern").and_then(Value::as_str) {
            node.states = self.states_of(pattern)?;
        }
        node.constants = fields.get("enum").map_or(0, size) + fields.get("const").map_or(0, size);
        node.constants += fields.get("required").map_or(0, size);
        node.has_unique_items = fields.get("uniqueItems") == Some(&Value::Bool(true));
        node.parses_patterns = fields.get("format").and_then(Value::as_str) == Some("regex");
        Ok(node)
    }

    fn applied_to_value(&mut self, fields: &'a Map<String, Value>, node: &mut Node) -> Result<(), String> {
        for name in ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"] {
            node.same.extend(self.add_all(fields.get(name)));
        }
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            let target = self.resolve(reference)?;
            node.same.push(self.add(target));
        }
        for name in ["dependencies", "dependentSchemas", "dependentRequired"] {
            for dependent in fields.get(name).and_then(Value::as_object).into_iter().flat_map(Map::values) {
                if dependent.is_array() {
                    node.constants += size(dependent);
                } else if name != "dependentRequired" {
                    node.same.push(self.add(dependent));
                }
            }
        }
        Ok(())
    }

    fn applied_to_properties(
        &mut self,
        fields: &'a Map<String, Value>,
        node: &mut Node,
    ) -> Result<(), String> {
        let named = |name| fields.get(name).and_then(Value::as_object).into_iter().flatten();
        for (name, schema) in named("properties") {
            node.properties.insert(name.clone(), self.add(schema));
        }
        for (pattern, schema) in named("patternProperties") {
            node.patterns.push((self.states_of(pattern)?, self.add(schema)));
        }
        node.other_properties = self.add_all(fields.get("additionalProperties"));
        node.all_properties = self.add_all(fields.get("unevaluatedProperties"));
        node.names = self.add_all(fields.get("propertyNames"));
        Ok(())
    }

    fn applied_to_items(&mut self, fields: &'a Map<String, Value>, node: &mut Node) {
        node.first_items = self.add_all(fields.get("prefixItems"));
        let items = self.add_all(fields.get("items"));
        // Before the version of 2020 a list of items was that of the first ones.
        let is_list = fields.get("items").is_some_and(Value::is_array);
        if is_list { &mut node.first_items } else { &mut node.items }.extend(items);
        for name in ["additionalItems", "contains", "unevaluatedItems"] {
            node.items.extend(self.add_all(fields.get(name)));
        }
        let tracking = ["unevaluatedItems", "unevaluatedProperties"];
        self.tracks_evaluated |= tracking.iter().any(|name| fields.contains_key(*name));
    }

    fn states_of(&mut self, pattern: &str) -> Result<u64, String> {
        let states = states(pattern)?;
        self.states += states;
        if self.states > limits::SCHEMA_PATTERN_STATES_MAX {
            let limit = limits::SCHEMA_PATTERN_STATES_MAX;
            return Err(format!("its patterns have more than {limit} states: use shorter repetitions"));
        }
        Ok(states)
    }

    /// The subschema that a reference names.
    fn resolve(&self, reference: &str) -> Result<&'a Value, String> {
        let own = self.root.get(id_field(self.root)).and_then(Value::as_str);
        let own = own.map_or("", |own| own.trim_end_matches('#'));
        let place = reference.strip_prefix(own).unwrap_or(reference);
        let outside = || format!("$ref {}: refers to something outside of the schema", shown(reference));
        let Some(place) = place.strip_prefix('#').or_else(|| place.is_empty().then_some("")) else {
            return Err(outside());
        };
        let place = decoded(place).ok_or_else(outside)?;
        if place.is_empty() || place.starts_with('/') {
            return self.root.pointer(&place).ok_or_else(outside);
        }
        self.anchors.get(place.as_str()).copied().ok_or_else(outside)
    }
}

/// Named places of a schema.
fn anchors(schema: &Value) -> Result<HashMap<&str, &Value>, String> {
    let mut found = HashMap::new();
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => {
                open.extend(fields.values());
                let text = |name| fields.get(name).and_then(Value::as_str);
                // In the versions before 2019 an anchor was an id with a `#`.
                let id = text(id_field(schema));
                let old = id.and_then(|id| id.strip_prefix('#'));
                if let (Some(id), None, false) = (id, old, std::ptr::eq(value, schema)) {
                    return Err(format!("$id {}: only the schema as a whole has one", shown(id)));
                }
                for name in [text("$anchor"), text("$dynamicAnchor"), old].into_iter().flatten() {
                    if found.insert(name, value).is_some_and(|other| !std::ptr::eq(other, value)) {
                        return Err(format!("the anchor {} is defined twice", shown(name)));
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The field with the address of a schema; in the oldest version it has another name.
fn id_field(schema: &Value) -> &'static str {
    let version = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    if version.contains("draft-04") { "id" } else { "$id" }
}

/// Decodes `%20` and the like.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

fn types(given: Option<&Value>) -> Option<Types> {
    let bit = |name: &Value| match name.as_str().unwrap_or_default() {
        "null" => 1,
        "boolean" => 2,
        "number" | "integer" => 4,
        "string" => 8,
        "array" => 16,
        _ => 32,
    };
    match given? {
        Value::Array(names) => Some(names.iter().map(bit).fold(0, |all, bit| all | bit)),
        name => Some(bit(name)),
    }
}

/// The type of a value, as a bit.
pub(super) fn type_of(value: &Value) -> Types {
    match value {
        Value::Null => 1,
        Value::Bool(_) => 2,
        Value::Number(_) => 4,
        Value::String(_) => TEXT,
        Value::Array(_) => 16,
        Value::Object(_) => 32,
    }
}

/// The type of names of properties.
pub(super) const TEXT: Types = 8;

/// How many values a value consists of.
pub(super) fn size(value: &Value) -> u64 {
    let (mut count, mut open) = (0, vec![value]);
    while let Some(value) = open.pop() {
        count += 1;
        match value {
            Value::Array(items) => open.extend(items),
            Value::Object(fields) => open.extend(fields.values()),
            _ => {}
        }
    }
    count
}

fn shown(text: &str) -> String {
    text.chars().take(limits::SHOWN_CHARS_MAX).collect()
}
