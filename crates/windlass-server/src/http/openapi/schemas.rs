//! The schemas of the OpenAPI document, in the form that generates clean clients. Requests and responses are generated
//! separately: a field that every response has is required there, also if it can be null.

use std::collections::BTreeMap;

use schemars::SchemaGenerator;
use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value};

use crate::http::schema::SchemaOf;

/// Where references lead.
pub(crate) const PREFIX: &str = "#/components/schemas/";
/// The mark of a schema that is another one with fewer or more fields: a job after an action, for example.
const VARIANT_OF: &str = "x-variant-of";

/// Collects the schemas that operations refer to.
pub(super) struct Schemas {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Schemas {
        Schemas { requests: generator(Contract::Deserialize), responses: generator(Contract::Serialize) }
    }

    /// The schema of a request's body.
    pub(super) fn request(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.requests).to_value()
    }

    /// The schema of a response.
    pub(super) fn response(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.responses).to_value()
    }

    /// The fields of a query, by name.
    pub(super) fn query(&mut self, query: SchemaOf) -> Map<String, Value> {
        let schema = query(&mut self.requests);
        let name = schema.as_value()["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        let mut definition = match name {
            // Removed from the definitions again: nothing refers to a query's schema.
            Some(name) => self.requests.definitions_mut().remove(name).unwrap_or_default(),
            None => schema.to_value(),
        };
        let fields = definition["properties"].as_object_mut().map(std::mem::take).unwrap_or_default();
        let present = |(name, schema)| (name, without_null(schema));
        fields.into_iter().map(present).collect()
    }

    /// All schemas by name, and what references to variants are replaced by.
    pub(super) fn finish(mut self) -> (Map<String, Value>, BTreeMap<String, String>) {
        let mut all: BTreeMap<String, Value> = self.responses.take_definitions(true).into_iter().collect();
        // One that is in both is read and written: what a request may leave out is optional.
        all.extend(self.requests.take_definitions(true));
        let variants: BTreeMap<String, String> = all
            .iter()
            .filter_map(|(name, schema)| Some((name.clone(), schema[VARIANT_OF].as_str()?.to_owned())))
            .collect();
        for (name, whole) in &variants {
            let variant = all.remove(name).unwrap_or_default();
            if let Some(whole) = all.get_mut(whole) {
                merge(whole, variant);
            }
        }
        (all.into_iter().collect(), variants)
    }
}

fn generator(contract: Contract) -> SchemaGenerator {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        settings.contract = contract;
    });
    settings.into_generator()
}

/// Adds the fields of a variant; required are those that both have.
fn merge(whole: &mut Value, mut variant: Value) {
    let required =
        |schema: &Value| -> Vec<Value> { schema["required"].as_array().cloned().unwrap_or_default() };
    let in_both = required(&variant);
    let mut kept = required(whole);
    kept.retain(|name| in_both.contains(name));
    whole["required"] = kept.into();
    let fields = variant["properties"].as_object_mut().map(std::mem::take).unwrap_or_default();
    if let Some(known) = whole["properties"].as_object_mut() {
        for (name, field) in fields {
            known.entry(name).or_insert(field);
        }
    }
}

/// A parameter is given or not, but never null.
fn without_null(mut schema: Value) -> Value {
    let is_null = |value: &Value| value == "null" || value["type"] == "null" || value.is_null();
    if let Some(types) = schema["type"].as_array_mut() {
        types.retain(|name| !is_null(name));
        if let [only] = types.as_slice() {
            schema["type"] = only.clone();
        }
    }
    for list in ["enum", "anyOf"] {
        if let Some(values) = schema.get_mut(list).and_then(Value::as_array_mut) {
            values.retain(|value| !is_null(value));
        }
    }
    if let Some([Value::Object(only)]) = schema["anyOf"].as_array().map(Vec::as_slice) {
        let only = only.clone();
        let fields = schema.as_object_mut().expect("it has a field");
        fields.remove("anyOf");
        fields.extend(only);
    }
    // Asking for a field of an object has added it.
    if let Some(fields) = schema.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    schema
}

/// Removes what misleads generators: defaults, which they send or demand, and formats that only Rust knows. Points
/// references to variants to the whole.
pub(super) fn clean(value: &mut Value, variants: &BTreeMap<String, String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, variants)),
        Value::Object(fields) => {
            let is_schema = |key: &str| fields.contains_key(key);
            if is_schema("type") || is_schema("anyOf") || is_schema("$ref") || is_schema("description") {
                if !fields.get("default").is_some_and(Value::is_object) {
                    fields.remove("default");
                }
                if fields
                    .get("format")
                    .and_then(Value::as_str)
                    .is_some_and(|format| format.starts_with("uint"))
                {
                    fields.remove("format");
                }
            }
            if let Some(Value::String(path)) = fields.get_mut("$ref")
                && let Some(whole) = path.strip_prefix(PREFIX).and_then(|name| variants.get(name))
            {
                *path = format!("{PREFIX}{whole}");
            }
            fields.values_mut().for_each(|field| clean(field, variants));
        }
        _ => {}
    }
}
