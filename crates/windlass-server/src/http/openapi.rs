//! The OpenAPI document, built from the same table as the router, and a self-contained web page of it.

use std::collections::BTreeMap;
use std::fmt::Write;

use axum::extract::State;
use axum::http::StatusCode;
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use windlass::job::JobType;
use windlass::limits::STEP_NAME_CHARS_MAX;
use windlass_api::error::ErrorBody;
use windlass_api::text::FromText;

use super::app::App;
use super::reply::error::ApiError;
use super::reply::response::{Page, TextResponse};
use super::request::access::Access;
use super::route::Route;
use super::schema::{Content, SchemaOf};

/// The description of a status.
fn describe_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        200 => "done",
        201 => "made",
        202 => "taken",
        204 => "done; no content",
        304 => "not modified",
        400 => "the body is not JSON",
        401 => "a valid API key is required",
        403 => "not permitted",
        404 => "does not exist, or the caller may not see it",
        408 => "the body took too long to arrive",
        409 => "conflict with the current state",
        412 => "the job has changed; `details.version` is its current version",
        413 => "too large",
        422 => "invalid value; `details.field` names the field",
        429 => "a limit is exceeded; see Retry-After",
        503 => "temporarily unavailable",
        _ => "answer",
    }
}

/// The OpenAPI document of all routes.
pub(crate) fn describe(routes: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut generator = settings.into_generator();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let error = generator.subschema_for::<ErrorBody>();
    for route in routes {
        let path = if route.is_at_root { route.path.to_owned() } else { format!("/api/v1{}", route.path) };
        let operation = operation(route, &mut generator, error.as_value());
        paths.entry(path).or_default().insert(route.method.as_str().to_lowercase(), operation);
    }
    let schemas = generator.take_definitions(true);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable background jobs. All routes below /api/v1 are also available below /api.",
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "paths": paths,
    })
}

fn operation(route: &Route, generator: &mut SchemaGenerator, error: &Value) -> Value {
    let shape = &route.shape;
    let mut parameters: Vec<Value> = path_parameters(route.path).collect();
    if let Some(query) = shape.query {
        parameters.extend(query_parameters(generator, query));
    }
    let text = json!({"type": "string"});
    parameters.extend(
        shape
            .headers
            .iter()
            .map(|(name, about)| json!({"name": name, "in": "header", "description": about, "schema": text})),
    );
    let mut responses = Map::new();
    for (status, content) in &shape.answers {
        let mut answer = json!({"description": describe_status(*status)});
        if shape.is_tagged {
            answer["headers"] =
                json!({"ETag": {"description": "for If-Match and If-None-Match", "schema": text}});
        }
        match content {
            Content::Json(schema) => {
                answer["content"] = json!({"application/json": {"schema": schema(generator)}});
            }
            Content::Text(content_type) => {
                // A status may have several formats.
                let known = responses.get(status.as_str()).and_then(|known| known.get("content"));
                answer["content"] = known.cloned().unwrap_or_else(|| json!({}));
                answer["content"][*content_type] = json!({});
            }
            Content::Nothing => {}
        }
        responses.insert(status.as_str().to_owned(), answer);
    }
    for status in route.refusals() {
        let refusal = json!({"description": describe_status(status), "content": {"application/json": {"schema": error}}});
        responses.insert(status.as_str().to_owned(), refusal);
    }
    let mut described = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "tags": [tag(route)],
        "parameters": parameters,
        "responses": responses,
    });
    if let Some(body) = shape.body {
        described["requestBody"] = json!({"content": {"application/json": {"schema": body(generator)}}});
    }
    described["x-permission"] = json!(route.access.as_str());
    if route.access != Access::Open {
        described["security"] = json!([{"key": []}]);
    }
    described
}

fn operation_id(route: &Route) -> String {
    let words = route.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
    words.fold(route.method.as_str().to_lowercase(), |id, word| format!("{id}_{word}"))
}

/// The first segment of its path, which groups the routes.
fn tag(route: &Route) -> &str {
    if route.is_at_root { "server" } else { route.path.split('/').nth(1).unwrap_or_default() }
}

fn path_parameters(path: &str) -> impl Iterator<Item = Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| {
        let schema = match name {
            "id" => json!({"type": "string"}),
            "name" => json!({"type": "string", "minLength": 1, "maxLength": STEP_NAME_CHARS_MAX}),
            _ => JobType::schema().to_value(),
        };
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    })
}

/// The names of a query's parameters.
pub(crate) fn query_names(query: SchemaOf) -> Vec<String> {
    let parameters = query_parameters(&mut SchemaGenerator::default(), query);
    parameters.iter().filter_map(|parameter| parameter["name"].as_str().map(str::to_owned)).collect()
}

/// The fields of a query, one parameter each.
fn query_parameters(generator: &mut SchemaGenerator, query: SchemaOf) -> Vec<Value> {
    let schema = query(generator);
    let name = schema.as_value()["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let definition = match name {
        // Removed from the definitions again: nothing refers to a query's schema.
        Some(name) => generator.definitions_mut().remove(name).unwrap_or_default(),
        None => schema.to_value(),
    };
    let none = Map::new();
    let properties = definition["properties"].as_object().unwrap_or(&none);
    properties
        .iter()
        .map(|(name, schema)| {
            let mut schema = schema.clone();
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let mut parameter = json!({"name": name, "in": "query", "schema": schema});
            if let Some(description) = description {
                parameter["description"] = description;
            }
            parameter
        })
        .collect()
}

/// `GET /openapi.json`
pub(crate) async fn document(State(app): State<App>) -> Result<TextResponse, ApiError> {
    Ok(TextResponse(app.documents().0.clone()))
}

/// `GET /docs`
pub(crate) async fn reference(State(app): State<App>) -> Result<Page, ApiError> {
    Ok(Page(app.documents().1.clone()))
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1b1f24;\
background:#fff}code,pre{font:14px/1.45 ui-monospace,monospace}pre{background:#f4f5f7;padding:.75rem;overflow:auto;\
border-radius:6px}details{border:1px solid #d6d9de;border-radius:6px;padding:.4rem .8rem;margin:.4rem 0}\
summary{cursor:pointer}b{display:inline-block;min-width:4.5rem}table{border-collapse:collapse}\
td{padding:.1rem .8rem .1rem 0;vertical-align:top}@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#16181c}\
pre{background:#22262c}details{border-color:#3a3f47}a{color:#8ab4ff}}";

/// The OpenAPI document as a web page.
pub(crate) fn page(document: &Value) -> String {
    let mut html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <title>Windlass HTTP API</title><style>{STYLE}</style><h1>Windlass HTTP API</h1>\
         <p>{} The same as data: <a href=/openapi.json>openapi.json</a>.</p>",
        escaped(document["info"]["description"].as_str().unwrap_or_default())
    );
    let mut last_tag = "";
    let none = Map::new();
    let mut operations: Vec<(&str, &str, &str, &Value)> = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap_or(&none) {
        for (method, operation) in methods.as_object().unwrap_or(&none) {
            let tag = operation["tags"][0].as_str().unwrap_or_default();
            operations.push((tag, path, method, operation));
        }
    }
    operations.sort_by_key(|(tag, path, method, _)| (*tag, *path, *method));
    for (tag, path, method, operation) in operations {
        if tag != last_tag {
            let _always_fits = write!(html, "<h2>{}</h2>", escaped(tag));
            last_tag = tag;
        }
        write_operation(&mut html, path, method, operation);
    }
    html.push_str("<h2>Shapes</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap_or(&none) {
        let text = serde_json::to_string_pretty(schema).unwrap_or_default();
        let (name, text) = (escaped(name), linked(&escaped(&text)));
        let _always_fits =
            write!(html, "<details id=\"{name}\"><summary>{name}</summary><pre>{text}</pre></details>");
    }
    html
}

fn write_operation(html: &mut String, path: &str, method: &str, operation: &Value) {
    let summary = escaped(operation["summary"].as_str().unwrap_or_default());
    let _always_fits = write!(
        html,
        "<details><summary><b>{}</b> <code>{}</code> {summary}</summary><table>",
        method.to_uppercase(),
        escaped(path)
    );
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let about = parameter["description"].as_str().unwrap_or_default();
        let name = parameter["name"].as_str().unwrap_or_default();
        let place = parameter["in"].as_str().unwrap_or_default();
        let _always_fits =
            write!(html, "<tr><td>{place}<td><code>{}</code><td>{}", escaped(name), escaped(about));
    }
    if let Some(body) = operation["requestBody"]["content"]["application/json"].get("schema") {
        let _always_fits =
            write!(html, "<tr><td>body<td colspan=2><code>{}</code>", linked(&escaped(&body.to_string())));
    }
    for (status, answer) in operation["responses"].as_object().into_iter().flatten() {
        let schema =
            answer["content"]["application/json"].get("schema").map(Value::to_string).unwrap_or_default();
        let _always_fits = write!(
            html,
            "<tr><td>{status}<td>{}<td><code>{}</code>",
            escaped(answer["description"].as_str().unwrap_or_default()),
            linked(&escaped(&schema))
        );
    }
    html.push_str("</table></details>");
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Turns references between schemas into links.
fn linked(escaped: &str) -> String {
    let start = "&quot;#/components/schemas/";
    let mut parts = escaped.split(start);
    let mut html = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("&quot;").unwrap_or((part, ""));
        let _always_fits = write!(html, "<a href=\"#{name}\">{name}</a>{rest}");
    }
    html
}
