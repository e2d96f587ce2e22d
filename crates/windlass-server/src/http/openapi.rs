//! The OpenAPI document, built from the same table as the router. It is made for generators of clients: named operations, one
//! schema per object, no defaults that a client would send, an example for every field.

mod examples;
mod operations;
mod schemas;

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Map, Value, json};
use windlass::job::{JobId, JobType};
use windlass::key::KeyId;
use windlass::limits::STEP_NAME_CHARS_MAX;
use windlass_api::error::ErrorBody;
use windlass_api::error_code::CODES;
use windlass_api::text::FromText;

pub(crate) use self::operations::place;
pub(crate) use self::schemas::PREFIX;
use self::schemas::{Schemas, clean};
use super::app::App;
use super::reply::error::ApiError;
use super::reply::response::TextResponse;
use super::request::access::Access;
use super::route::Route;
use super::schema::{Content, SchemaOf};

/// The name of an error response, and its description.
fn describe_error(status: StatusCode) -> (&'static str, &'static str) {
    match status.as_u16() {
        400 => ("NotJson", "The body is not JSON."),
        401 => ("Unauthorized", "A valid API key is required."),
        403 => ("Forbidden", "The key does not permit it, or the request comes from a page of another site."),
        404 => ("NotFound", "It does not exist, or the caller may not see it."),
        408 => ("SlowBody", "The body took too long to arrive."),
        409 => ("Conflict", "It conflicts with the current state."),
        412 => ("Changed", "The job has changed; `details.version` is its current version."),
        413 => ("TooLarge", "The body or the payload is too large."),
        422 => ("Invalid", "A value is not allowed; `details.field` names the field."),
        429 => ("TooMany", "A limit is exceeded; `Retry-After` says when to try again."),
        503 => ("Unavailable", "Temporarily unavailable; try again."),
        _ => ("Failure", "An error."),
    }
}

/// The description of a successful response.
fn describe_success(status: StatusCode) -> &'static str {
    match status.as_u16() {
        201 => "Created.",
        202 => "Accepted.",
        204 => "Done; there is no content.",
        304 => "Not modified since the given `ETag`.",
        _ => "Success.",
    }
}

/// The OpenAPI document of all routes.
pub(crate) fn describe(routes: &[Route]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    let mut errors = BTreeMap::new();
    for route in routes {
        let path = if route.is_at_root { route.path.to_owned() } else { format!("/api/v1{}", route.path) };
        let operation = operation(route, &mut schemas, &mut errors);
        paths.entry(path).or_default().insert(route.method.as_str().to_lowercase(), operation);
    }
    let error = schemas.response(schemars::SchemaGenerator::subschema_for::<ErrorBody>);
    let (schemas, variants) = schemas.finish();
    let errors: Map<String, Value> =
        errors.into_iter().map(|(status, name)| (name.to_owned(), error_response(status, &error))).collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Durable background jobs. All routes below /api/v1 are also available below /api.",
        },
        "servers": [{"url": "/", "description": "The server that serves this document."}],
        "tags": tags(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": errors,
            "securitySchemes": {"key": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key, `wl_…`. No key is needed on loopback while none exists.",
            }},
        },
    });
    clean(&mut document, &variants);
    add_examples(&mut document);
    document
}

/// The groups of operations, in the order of the reference.
fn tags() -> Value {
    let tag = |(name, about): (&str, &str)| json!({"name": name, "description": about});
    [
        ("jobs", "Submit jobs, look at them and act on them."),
        ("workers", "Register workers, and pause them."),
        ("claims", "Take jobs to run."),
        ("heartbeats", "Keep jobs that run, and learn when to stop."),
        ("outcomes", "Report how attempts ended."),
        ("checkpoints", "Save steps of several running jobs at once."),
        ("queues", "Counts, pauses and settings of queues."),
        ("types", "Counts and settings of job types."),
        ("tenants", "Counts, budgets and settings of tenants."),
        ("schedules", "Jobs that are submitted at given times."),
        ("alerts", "Messages when stored numbers pass a threshold."),
        ("gate", "Pause all processing, of a tenant or of a type."),
        ("events", "Follow what happens."),
        ("audit", "Who did what, and proof that the record is whole."),
        ("stats", "Counts, rates and costs."),
        ("keys", "API keys and their roles."),
        ("retention", "How long final jobs are kept."),
        ("clock", "The time that the store goes by."),
        ("server", "Health, metrics and this description."),
    ]
    .map(tag)
    .to_vec()
    .into()
}

fn operation(route: &Route, schemas: &mut Schemas, errors: &mut BTreeMap<StatusCode, &'static str>) -> Value {
    let shape = &route.shape;
    let known = operations::find(route);
    let mut described = json!({
        "summary": route.summary,
        "operationId": known.map_or_else(String::new, |known| known.id.to_owned()),
        "description": known.map_or("", |known| known.description),
        "tags": [tag(route)],
        "parameters": parameters(route, schemas),
        "x-permission": route.access.as_str(),
    });
    let mut responses = answers(route, schemas);
    for status in route.refusals() {
        let (name, _) = describe_error(status);
        errors.insert(status, name);
        responses
            .insert(status.as_str().to_owned(), json!({"$ref": format!("#/components/responses/{name}")}));
    }
    described["responses"] = responses.into();
    if let Some(body) = shape.body {
        let schema = schemas.request(body);
        let mut content = json!({"schema": schema});
        if let Some(example) = known.and_then(|known| known.body) {
            content["example"] = serde_json::from_str(example).expect("the table has JSON");
        }
        // An empty body counts as `{}`, which clients need not know.
        described["requestBody"] = json!({"required": true, "content": {"application/json": content}});
    }
    if route.access != Access::Open {
        described["security"] = json!([{"key": []}]);
    }
    described
}

/// The formats that a status has so far; it may have several.
fn known(responses: &Map<String, Value>, status: StatusCode) -> Value {
    let known = responses.get(status.as_str()).and_then(|known: &Value| known.get("content"));
    known.cloned().unwrap_or_else(|| json!({}))
}

fn answers(route: &Route, schemas: &mut Schemas) -> Map<String, Value> {
    let shape = &route.shape;
    let mut responses = Map::new();
    for (status, content) in &shape.answers {
        let mut answer = json!({"description": describe_success(*status)});
        if shape.is_tagged {
            answer["headers"] = json!({"ETag": {
                "description": "The job's version and view, for If-Match and If-None-Match.",
                "schema": {"type": "string"},
                "example": "\"3.5d41402a\"",
            }});
        }
        match content {
            Content::Json(schema) => {
                answer["content"] = json!({"application/json": {"schema": schemas.response(*schema)}});
            }
            Content::Text(content_type) => {
                answer["content"] = known(&responses, *status);
                let kind = if *content_type == "application/json" { "object" } else { "string" };
                answer["content"][*content_type] = json!({"schema": {"type": kind}});
            }
            Content::Events(data) => {
                let data = schemas.response(*data);
                answer["content"] = known(&responses, *status);
                answer["content"]["text/event-stream"] = json!({
                    "schema": {"type": "string", "description": "Server-sent events; `data` of each is a record in JSON."},
                    "x-event-data": data,
                });
            }
            Content::Nothing => {}
        }
        responses.insert(status.as_str().to_owned(), answer);
    }
    responses
}

/// A response that several operations share; its description has the codes.
fn error_response(status: StatusCode, error: &Value) -> Value {
    let codes: Vec<&(u16, &str, &str)> = CODES.iter().filter(|(of, _, _)| *of == status.as_u16()).collect();
    let names: Vec<String> = codes.iter().map(|(_, code, _)| format!("`{code}`")).collect();
    let description = format!("{} Codes: {}.", describe_error(status).1, names.join(", "));
    let (code, message) =
        codes.first().map_or(("internal", "an error"), |(_, code, message)| (*code, *message));
    json!({"description": description, "content": {"application/json": {
        "schema": error,
        "example": {"error": {"code": code, "message": message}},
    }}})
}

/// The first segment of its path, which groups the routes.
fn tag(route: &Route) -> &str {
    if route.is_at_root { "server" } else { route.path.split('/').nth(1).unwrap_or_default() }
}

fn parameters(route: &Route, schemas: &mut Schemas) -> Vec<Value> {
    let mut parameters: Vec<Value> = path_parameters(route.path).collect();
    if let Some(query) = route.shape.query {
        for (name, mut schema) in schemas.query(query) {
            let about = schema.as_object_mut().and_then(|fields| fields.remove("description"));
            parameters.push(json!({"name": name, "in": "query", "required": false, "description": about, "schema": schema}));
        }
    }
    for (name, about) in &route.shape.headers {
        let schema = json!({"type": "string"});
        parameters.push(
            json!({"name": name, "in": "header", "required": false, "description": about, "schema": schema}),
        );
    }
    parameters
}

fn path_parameters(path: &str) -> impl Iterator<Item = Value> {
    let object = path.split('/').nth(1).unwrap_or_default().trim_end_matches('s').to_owned();
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let is_signal = path.contains("/signals/");
    names.map(move |name| {
        let (schema, about) = match name {
            "id" if object == "key" => (KeyId::schema().to_value(), "Id of the key.".to_owned()),
            "id" => (JobId::schema().to_value(), format!("Id of the {object}.")),
            "name" => {
                let schema = json!({"type": "string", "minLength": 1, "maxLength": STEP_NAME_CHARS_MAX});
                (schema, if is_signal { "Name of the signal." } else { "Name of the step." }.to_owned())
            }
            "type" => (JobType::schema().to_value(), "Name of the job type.".to_owned()),
            _ => (JobType::schema().to_value(), format!("Name of the {name}.")),
        };
        json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema})
    })
}

/// Adds an example to every field, parameter and response that has none of its own.
fn add_examples(document: &mut Value) {
    let schemas = document["components"]["schemas"].as_object().cloned().unwrap_or_default();
    for (owner, schema) in document["components"]["schemas"].as_object_mut().into_iter().flatten() {
        for (name, field) in schema["properties"].as_object_mut().into_iter().flatten() {
            let is_described_elsewhere = field.get("$ref").is_some() || field.get("anyOf").is_some();
            if let Some(example) =
                examples::field(owner, name, field, &schemas).filter(|_| !is_described_elsewhere)
                && let Some(field) = field.as_object_mut()
            {
                field.entry("examples").or_insert_with(|| json!([example]));
            } else if *field == Value::Bool(true) {
                *field = json!({});
            }
        }
        // Asking for a field of an object has added it.
        if let Some(fields) = schema.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
    }
    let operations = document["paths"].as_object_mut().into_iter().flatten();
    for (_, operation) in operations.flat_map(|(_, methods)| methods.as_object_mut().into_iter().flatten()) {
        let owner = operation["operationId"].as_str().unwrap_or_default().to_owned();
        for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap_or_default().to_owned();
            let owner = if parameter["in"] == "path" { format!("{owner}.path") } else { owner.clone() };
            if let Some(example) = examples::field(&owner, &name, &parameter["schema"], &schemas) {
                parameter["example"] = example;
            }
        }
        for (_, response) in operation["responses"].as_object_mut().into_iter().flatten() {
            let Some(content) = response.get_mut("content").and_then(Value::as_object_mut) else { continue };
            for media in content.values_mut() {
                if let Some(data) = media.get("x-event-data") {
                    let data = examples::response(data, &schemas).unwrap_or_default();
                    media["example"] =
                        json!(format!("id: 1042\nevent: job.lifecycle.completed\ndata: {data}\n\n"));
                } else if let Some(example) = examples::response(&media["schema"], &schemas)
                    && media["schema"].get("$ref").is_some()
                {
                    media["example"] = example;
                }
            }
        }
    }
}

/// The names of a query's parameters.
pub(crate) fn query_names(query: SchemaOf) -> Vec<String> {
    Schemas::new().query(query).into_iter().map(|(name, _)| name).collect()
}

/// `GET /openapi.json`
pub(crate) async fn document(State(app): State<App>) -> Result<TextResponse, ApiError> {
    Ok(TextResponse(app.documents().0.clone()))
}
