//! What agents see of stored data. Payloads and results are included only if the agent asks for them, and are marked as
//! untrusted. Long texts and lists are cut, and the size of an answer is bounded.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::limits::{MCP_ANSWER_BYTES_MAX, MCP_ITEMS_MAX, MCP_TEXT_CHARS_MAX};

/// Fields with content that users wrote.
const DATA: [&str; 3] = ["payload", "payload_base64", "result"];
/// Fields of a job in a list.
const SUMMARY: [&str; 13] = [
    "id",
    "type",
    "queue",
    "tenant",
    "state",
    "priority",
    "attempt",
    "max_attempts",
    "created_at",
    "run_at",
    "completed_at",
    "owner",
    "redacted",
];

/// Marks fields that users wrote as untrusted if `has_data`, and hides them otherwise.
pub(super) fn guard(value: &mut Value, has_data: bool) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| guard(item, has_data)),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if DATA.contains(&name.as_str()) && !field.is_null() {
                    let data = field.take();
                    *field =
                        if has_data { untrusted(&data) } else { json!("hidden: ask with include_payload") };
                } else {
                    guard(field, has_data);
                }
            }
        }
        _ => {}
    }
}

/// Marks data as untrusted, so that the agent does not take it for instructions.
pub(super) fn untrusted(data: &Value) -> Value {
    json!({"untrusted": data})
}

/// A job in a list: the fields of `SUMMARY`, its last error and why it does not run.
pub(super) fn summary(job: &Value) -> Value {
    let mut short: Map<String, Value> = SUMMARY
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), job.get(*name)?.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect();
    for (name, kept) in [("error", ["category", "code", "message"]), ("why", ["code", "message", "since"])] {
        if let Some(fields) = job[name].as_object() {
            let fields: Map<String, Value> = fields
                .iter()
                .filter(|(field, _)| kept.contains(&field.as_str()))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            short.insert(name.to_owned(), fields.into());
        }
    }
    Value::Object(short)
}

/// Counts without those that are zero: the fewer numbers, the better they are read.
pub(super) fn counted(counts: &Value) -> Value {
    match counts {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, count)| **count != 0);
            fields.map(|(name, count)| (name.clone(), counted(count))).collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// Cuts long texts and lists, and says so.
fn cut(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((end, _)) = text.char_indices().nth(MCP_TEXT_CHARS_MAX) {
                let left = text.len() - end;
                text.truncate(end);
                let _always_fits = write!(text, "… ({left} bytes more)");
            }
        }
        Value::Array(items) => {
            let left = items.len().saturating_sub(MCP_ITEMS_MAX);
            items.truncate(MCP_ITEMS_MAX);
            items.iter_mut().for_each(cut);
            if left > 0 {
                items.push(json!(format!("… ({left} more)")));
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(cut),
        _ => {}
    }
}

/// The result of a tool.
pub(super) fn result(mut value: Value) -> Value {
    cut(&mut value);
    let text = value.to_string();
    if text.len() > MCP_ANSWER_BYTES_MAX {
        return failure("too_large", "the answer is too large: ask for fewer items, or without payloads");
    }
    json!({"content": [{"type": "text", "text": text}], "structuredContent": value, "isError": false})
}

/// The result of a tool that failed.
pub(super) fn failure(code: &str, message: &str) -> Value {
    json!({"content": [{"type": "text", "text": format!("{code}: {message}")}], "isError": true})
}
