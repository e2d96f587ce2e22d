//! Fields of an object as rows of a table, and types in words.

use serde_json::Value;

use crate::http::openapi::PREFIX;

/// A field or parameter.
pub(super) struct FieldRow {
    pub(super) name: String,
    /// Where a parameter is given; empty for a field.
    pub(super) place: String,
    pub(super) is_required: bool,
    /// Its type: markup with links to other objects.
    pub(super) kind: String,
    /// Markup.
    pub(super) description: String,
    pub(super) example: String,
}

/// The fields of an object, required ones first.
pub(super) fn rows(schema: &Value) -> Vec<FieldRow> {
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
    };
    let fields = schema["properties"].as_object().into_iter().flatten();
    let mut rows: Vec<FieldRow> = fields
        .map(|(name, field)| FieldRow {
            name: name.clone(),
            place: String::new(),
            is_required: required(name),
            kind: kind(field),
            description: prose(&text(&field["description"])),
            example: field["examples"].get(0).map(Value::to_string).unwrap_or_default(),
        })
        .collect();
    rows.sort_by_key(|row| !row.is_required);
    rows
}

/// The parameters of an operation.
pub(super) fn parameters(operation: &Value) -> Vec<FieldRow> {
    let all = operation["parameters"].as_array().into_iter().flatten();
    all.map(|parameter| FieldRow {
        name: text(&parameter["name"]),
        place: text(&parameter["in"]),
        is_required: parameter["required"] == true,
        kind: kind(&parameter["schema"]),
        description: prose(&text(&parameter["description"])),
        example: parameter["example"].as_str().map_or_else(|| shown(&parameter["example"]), str::to_owned),
    })
    .collect()
}

fn shown(example: &Value) -> String {
    if example.is_null() { String::new() } else { example.to_string() }
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Text as markup: what is between backticks is code.
pub(super) fn prose(text: &str) -> String {
    let mut html = String::new();
    for (place, part) in escape(text).split('`').enumerate() {
        match place % 2 {
            0 => html.push_str(part),
            _ => html.extend(["<code>", part, "</code>"]),
        }
    }
    html
}

/// The type of a schema in words, with links.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.strip_prefix(PREFIX)) {
        return format!("<a href=\"#object-{0}\">{0}</a>", escape(name));
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words
            .iter()
            .filter_map(Value::as_str)
            .map(|word| format!("<code>{}</code>", escape(word)))
            .collect();
        return words.join(" · ");
    }
    if let Some(only) = schema["const"].as_str() {
        return format!("<code>{}</code>", escape(only));
    }
    if let Some(forms) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let forms: Vec<String> = forms.iter().map(kind).collect();
        return forms.join(" or ");
    }
    let one = |name: &str| match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "object" => match &schema["additionalProperties"] {
            Value::Object(_) if schema.get("properties").is_none() => {
                format!("object of {}", kind(&schema["additionalProperties"]))
            }
            _ => "object".to_owned(),
        },
        "string" => match schema["format"].as_str() {
            Some("uuid") => "id (UUID)".to_owned(),
            Some("date-time") => "time (RFC 3339)".to_owned(),
            _ => "text".to_owned(),
        },
        other => escape(other),
    };
    match &schema["type"] {
        Value::String(name) => one(name),
        Value::Array(names) => {
            let names: Vec<String> = names.iter().filter_map(Value::as_str).map(one).collect();
            names.join(" or ")
        }
        _ => "any JSON".to_owned(),
    }
}

/// Escapes text for HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
