//! Arguments of a tool, checked against what it takes. Values that are the API's are checked there.

use serde_json::{Map, Value, json};
use windlass::limits::SHOWN_CHARS_MAX;

/// The type of an argument.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Text,
    /// A number from the first to the second.
    Number(u64, u64),
    Flag,
    /// Any JSON.
    Json,
}

/// An argument that a tool takes.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) about: &'static str,
    pub(super) is_required: bool,
}

impl Field {
    /// An optional argument.
    pub(super) const fn new(name: &'static str, kind: Kind, about: &'static str) -> Field {
        Field { name, kind, about, is_required: false }
    }

    /// A required text.
    pub(super) const fn required(name: &'static str, about: &'static str) -> Field {
        Field { name, kind: Kind::Text, about, is_required: true }
    }

    fn schema(&self) -> Value {
        match self.kind {
            Kind::Text => json!({"type": "string", "description": self.about}),
            Kind::Number(min, max) => {
                json!({"type": "integer", "minimum": min, "maximum": max, "description": self.about})
            }
            Kind::Flag => json!({"type": "boolean", "description": self.about}),
            Kind::Json => json!({"description": self.about}),
        }
    }
}

/// The schema of a tool's arguments.
pub(super) fn schema(fields: &[&[Field]]) -> Value {
    let all = || fields.iter().copied().flatten();
    let properties: Map<String, Value> = all().map(|field| (field.name.to_owned(), field.schema())).collect();
    let required: Vec<&str> = all().filter(|field| field.is_required).map(|field| field.name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Checked arguments.
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Checks the arguments; the error says which one does not fit.
    pub(super) fn check(given: &Value, fields: &[&[Field]]) -> Result<Arguments, String> {
        let given = match given {
            Value::Null => Map::new(),
            Value::Object(given) => given.clone(),
            _ => return Err("arguments: is not an object".to_owned()),
        };
        let all = || fields.iter().copied().flatten();
        if let Some(unknown) = given.keys().find(|name| !all().any(|field| field.name == name.as_str())) {
            return Err(format!("{}: is not an argument of this tool", shown(unknown)));
        }
        for field in all() {
            match (given.get(field.name).filter(|value| !value.is_null()), field.kind) {
                (None, _) if field.is_required => return Err(format!("{}: is required", field.name)),
                (None, _) | (_, Kind::Json) | (Some(Value::Bool(_)), Kind::Flag) => {}
                (Some(Value::String(text)), Kind::Text) if !(text.is_empty() && field.is_required) => {}
                (Some(Value::Number(number)), Kind::Number(min, max))
                    if number.as_u64().is_some_and(|number| (min..=max).contains(&number)) => {}
                (_, Kind::Number(min, max)) => {
                    return Err(format!("{}: allowed is {min} to {max}", field.name));
                }
                (_, Kind::Flag) => return Err(format!("{}: is not true or false", field.name)),
                (_, Kind::Text) => return Err(format!("{}: is not a text", field.name)),
            }
        }
        Ok(Arguments(given))
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.0.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A required text.
    pub(super) fn need(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    pub(super) fn json(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Those of these that are given, as an object.
    pub(super) fn only(&self, names: &[&str]) -> Map<String, Value> {
        let given = |name: &&str| Some(((*name).to_owned(), self.0.get(*name)?.clone()));
        names.iter().filter_map(given).filter(|(_, value)| !value.is_null()).collect()
    }
}

/// Shortens a text that is repeated in a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}
