//! One operation of the reference: what it takes and answers, with an example of both.

use std::fmt::Write;

use serde_json::Value;

use super::fields::{self, FieldRow, prose, text};
use crate::http::openapi;

/// An operation.
pub(super) struct OperationView {
    pub(super) id: String,
    pub(super) method: String,
    pub(super) path: String,
    pub(super) summary: String,
    /// Markup.
    pub(super) description: String,
    pub(super) permission: String,
    pub(super) parameters: Vec<FieldRow>,
    /// The type of its body, with links; empty without one.
    pub(super) body: String,
    /// The request as a command.
    pub(super) request: String,
    /// Status and example of a successful response.
    pub(super) answer: Option<(String, String)>,
    /// Statuses with what they mean; markup.
    pub(super) responses: Vec<(String, String, String)>,
    /// Lower case, for the search.
    pub(super) text: String,
}

/// Operations with this tag, in the order in which people need them.
pub(super) fn with_tag(document: &Value, tag: &str) -> Vec<OperationView> {
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            if operation["tags"][0] == tag {
                found.push(view(document, path, method, operation));
            }
        }
    }
    found.sort_by_key(|operation| openapi::place(&operation.id));
    found
}

fn view(document: &Value, path: &str, method: &str, operation: &Value) -> OperationView {
    let method = method.to_uppercase();
    let body = &operation["requestBody"]["content"]["application/json"];
    let (summary, description) = (text(&operation["summary"]), text(&operation["description"]));
    let parameters = fields::parameters(operation);
    let names: Vec<&str> = parameters.iter().map(|row| row.name.as_str()).collect();
    let id = text(&operation["operationId"]);
    OperationView {
        text: format!("{method} {path} {id} {summary} {description} {}", names.join(" ")).to_lowercase(),
        request: command(&method, path, operation, &body["example"]),
        permission: text(&operation["x-permission"]),
        body: body.get("schema").map(fields::kind).unwrap_or_default(),
        answer: answer(operation),
        responses: responses(document, operation),
        id,
        method,
        path: path.to_owned(),
        summary,
        description: prose(&description),
        parameters,
    }
}

/// The request as a `curl` command, with the examples of path parameters.
fn command(method: &str, path: &str, operation: &Value, body: &Value) -> String {
    let mut address = path.to_owned();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        if parameter["in"] == "path" {
            let name = format!("{{{}}}", parameter["name"].as_str().unwrap_or_default());
            address = address.replace(&name, parameter["example"].as_str().unwrap_or("name"));
        }
    }
    let mut command = "curl".to_owned();
    let is_implied = method == "GET" || (method == "POST" && !body.is_null());
    if !is_implied {
        let _always_fits = write!(command, " -X {method}");
    }
    if operation.get("security").is_some() {
        command.push_str(" -H \"Authorization: Bearer $WINDLASS_KEY\"");
    }
    let _always_fits = write!(command, " \\\n  \"$WINDLASS_URL{address}\"");
    if !body.is_null() {
        let _always_fits = write!(command, " \\\n  -d '{}'", pretty(body));
    }
    command
}

/// The first successful response that has an example.
fn answer(operation: &Value) -> Option<(String, String)> {
    let all = operation["responses"].as_object()?.iter().filter(|(status, _)| status.starts_with('2'));
    for (status, response) in all {
        let contents = response["content"].as_object().into_iter().flatten();
        for (_, content) in contents {
            match &content["example"] {
                Value::Null => {}
                Value::String(text) => return Some((status.clone(), text.trim_end().to_owned())),
                example => return Some((status.clone(), pretty(example))),
            }
        }
    }
    None
}

fn responses(document: &Value, operation: &Value) -> Vec<(String, String, String)> {
    let all = operation["responses"].as_object().into_iter().flatten();
    all.map(|(status, response)| {
        let shared = response["$ref"].as_str().and_then(|path| path.rsplit('/').next());
        let response = shared.map_or(response, |name| &document["components"]["responses"][name]);
        let schema = response["content"]["application/json"].get("schema");
        (status.clone(), prose(&text(&response["description"])), schema.map(fields::kind).unwrap_or_default())
    })
    .collect()
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
