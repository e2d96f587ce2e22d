//! The payload of a new job as a form: one field per property, if the type's schema describes a flat object. Any other
//! payload is edited as JSON.

use serde_json::{Map, Value};
use windlass::job::Payload;

use crate::dashboard::page::PageError;
use crate::dashboard::requests::form::Fields;

/// Properties of a form at most; a larger object is edited as JSON.
const FIELDS_MAX: usize = 30;
/// Keywords that describe more than a flat object.
const COMPOSED: [&str; 9] = [
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "patternProperties",
    "dependentSchemas",
    "propertyNames",
];

/// What a property takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Number,
    Boolean,
    /// One of the values of `enum`.
    Choice,
}

/// A property as a field.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::dashboard) struct PayloadField {
    /// The property.
    pub(in crate::dashboard) name: String,
    /// Its title, or its name.
    pub(in crate::dashboard) label: String,
    /// Its description.
    pub(in crate::dashboard) hint: String,
    pub(in crate::dashboard) is_required: bool,
    pub(in crate::dashboard) value: String,
    /// The values to choose from, as JSON, with their text.
    pub(in crate::dashboard) choices: Vec<(String, String)>,
    kind: Kind,
}

impl PayloadField {
    /// The type of the HTML field; empty for a choice.
    pub(in crate::dashboard) fn input(&self) -> &'static str {
        match self.kind {
            Kind::Text => "text",
            Kind::Integer | Kind::Number => "number",
            Kind::Boolean | Kind::Choice => "",
        }
    }

    /// The steps of a number.
    pub(in crate::dashboard) fn step(&self) -> &'static str {
        if self.kind == Kind::Integer { "1" } else { "any" }
    }

    /// The value in a form; None if it is left out.
    fn read(&self, form: &Fields) -> Result<Option<Value>, PageError> {
        let field = self.form_name();
        // Spaces may be meant.
        let text = form.pairs().find(|(name, _)| *name == field).map_or("", |(_, value)| value);
        if text.is_empty() && !(self.is_required && self.kind == Kind::Text) {
            return Ok(None);
        }
        let wrong = |what: &str| PageError::invalid(format!("{}: `{text}` is not {what}", self.name));
        match self.kind {
            Kind::Text => Ok(Some(Value::String(text.to_owned()))),
            Kind::Boolean | Kind::Choice => {
                let is_offered = self.choices.iter().any(|(value, _)| value == text);
                let value = serde_json::from_str(text).ok().filter(|_| is_offered);
                value.map(Some).ok_or_else(|| wrong("one of its values"))
            }
            Kind::Integer | Kind::Number => {
                let value: Option<Value> = serde_json::from_str(text.trim()).ok();
                value.filter(Value::is_number).map(Some).ok_or_else(|| wrong("a number"))
            }
        }
    }

    /// The name of its field in the form.
    pub(in crate::dashboard) fn form_name(&self) -> String {
        format!("payload.{}", self.name)
    }
}

/// The fields for a payload, required ones first. None unless the schema describes a flat object and the payload to start with
/// has no properties besides.
pub(in crate::dashboard) fn fields(schema: &Value, payload: Option<&str>) -> Option<Vec<PayloadField>> {
    let schema = schema.as_object()?;
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    if !is_object || COMPOSED.iter().any(|word| schema.contains_key(*word)) {
        return None;
    }
    let properties = schema.get("properties")?.as_object()?;
    let start: Value = payload.map_or(Some(Value::Null), |text| serde_json::from_str(text).ok())?;
    let empty = Map::new();
    let start = if start.is_null() { &empty } else { start.as_object()? };
    if properties.len() > FIELDS_MAX || start.keys().any(|name| !properties.contains_key(name)) {
        return None;
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let each = properties
        .iter()
        .map(|(name, property)| field(name, property, start.get(name), required.contains(&name.as_str())));
    let mut fields: Vec<PayloadField> = each.collect::<Option<_>>()?;
    fields.sort_by_key(|field| !field.is_required);
    Some(fields)
}

fn field(name: &str, property: &Value, value: Option<&Value>, is_required: bool) -> Option<PayloadField> {
    let text = |key: &str| property.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let choices = property.get("enum").and_then(Value::as_array);
    let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
    let kind = match (choices, property.get("type").and_then(Value::as_str)) {
        (Some(values), _) if values.iter().all(is_scalar) => Kind::Choice,
        (None, Some("string")) => Kind::Text,
        (None, Some("integer")) => Kind::Integer,
        (None, Some("number")) => Kind::Number,
        (None, Some("boolean")) => Kind::Boolean,
        _ => return None,
    };
    let choices = match kind {
        Kind::Boolean => vec![Value::Bool(true), Value::Bool(false)],
        Kind::Choice => choices.cloned().unwrap_or_default(),
        _ => Vec::new(),
    };
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let value = value.or_else(|| property.get("default"));
    // A value of another kind would be lost in the form.
    let fits = value.is_none_or(|value| match kind {
        Kind::Text => value.is_string(),
        Kind::Integer | Kind::Number => value.is_number(),
        Kind::Boolean => value.is_boolean(),
        Kind::Choice => choices.contains(value),
    });
    let shown = value.map(|value| if kind == Kind::Text { plain(value) } else { value.to_string() });
    let shown = shown.unwrap_or_default();
    // An input has one line.
    if !fits || shown.contains(['\n', '\r']) {
        return None;
    }
    let title = text("title");
    Some(PayloadField {
        name: name.to_owned(),
        label: if title.is_empty() { name.to_owned() } else { title },
        hint: text("description"),
        is_required,
        value: shown,
        choices: choices.iter().map(|value| (value.to_string(), plain(value))).collect(),
        kind,
    })
}

/// The payload that a form of these fields has.
pub(in crate::dashboard) fn read(fields: &[PayloadField], form: &Fields) -> Result<Payload, PageError> {
    let mut object = Map::new();
    for field in fields {
        if let Some(value) = field.read(form)? {
            object.insert(field.name.clone(), value);
        }
    }
    Ok(Payload::json(Value::Object(object).to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Value {
        json!({"type": "object", "required": ["to"], "additionalProperties": false, "properties": {
            "cents": {"type": "integer", "description": "price"}, "to": {"type": "string", "title": "Receiver"},
            "kind": {"enum": ["bill", "note"], "default": "note"}, "is_test": {"type": "boolean"}}})
    }

    #[test]
    fn a_flat_object_is_a_field_per_property() {
        let found = fields(&schema(), Some(r#"{"cents":5,"to":"ada"}"#)).unwrap();
        let shown: Vec<_> = found.iter().map(|field| (field.label.as_str(), field.value.as_str())).collect();
        assert_eq!(shown[0], ("Receiver", "ada"), "required ones come first");
        assert!(shown.contains(&("cents", "5")) && shown.contains(&("kind", "\"note\"")));
        let form =
            Fields::parse(b"payload.to=+bob+&payload.cents=&payload.kind=%22bill%22&payload.is_test=true");
        let payload = read(&found, &form).unwrap();
        let read_back: Value = serde_json::from_slice(&payload.bytes).unwrap();
        assert_eq!(read_back, json!({"to": " bob ", "kind": "bill", "is_test": true}));
        for wrong in ["payload.cents=five", "payload.kind=%22other%22", "payload.is_test=1"] {
            assert!(read(&found, &Fields::parse(wrong.as_bytes())).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_form_cannot_show_is_edited_as_json() {
        let flat = schema();
        for payload in [r#"{"other":1}"#, r#"{"to":1}"#, r#"{"to":"a\nb"}"#, "[]", "no json"] {
            assert!(fields(&flat, Some(payload)).is_none(), "{payload}");
        }
        let nested = json!({"type": "object", "properties": {"a": {"type": "object"}}});
        let composed = json!({"type": "object", "properties": {}, "oneOf": []});
        for schema in [nested, composed, json!({"type": "array"}), json!(true)] {
            assert!(fields(&schema, None).is_none(), "{schema}");
        }
    }
}
