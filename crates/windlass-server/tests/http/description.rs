//! The published description agrees with what the server does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use windlass_testkit::client::Request;

use crate::fixture::Fixture;

pub(crate) async fn description(t: &Fixture) -> Value {
    Request::new(t.address, "GET", "/openapi.json").send().await.json()
}

/// Every operation: path, method, description.
pub(crate) fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap();
        methods.iter().map(|(method, operation)| (path.clone(), method.to_uppercase(), operation.clone()))
    });
    all.collect()
}

/// The contract, path by path.
const CONTRACT: &str = "
    POST GET /jobs; POST /jobs/batch; POST /jobs/bulk; GET PATCH DELETE /jobs/{id}; POST /jobs/{id}/submit;
    POST /jobs/{id}/suspend; POST /jobs/{id}/resume; POST /jobs/{id}/cancel; POST /jobs/{id}/priority; POST /jobs/{id}/redrive;
    POST /jobs/{id}/signals/{name}; POST /jobs/{id}/tokens; GET /jobs/{id}/attempts; GET POST /jobs/{id}/checkpoints; GET /jobs/{id}/events;
    GET POST /jobs/{id}/children; GET /jobs/{id}/logs; GET POST /jobs/{id}/stream; GET /jobs/{id}/result; GET /jobs/{id}/graph; GET /jobs/{id}/explain;
    PUT /jobs/{id}/checkpoints/{name}; GET POST /workers; DELETE /workers/{id}; POST /workers/{id}/pause;
    POST /workers/{id}/resume; POST /claims; POST /heartbeats; POST /outcomes; POST /checkpoints; GET /queues; GET PUT /queues/{queue};
    POST /queues/{queue}/pause; POST /queues/{queue}/resume; GET /gate; POST /gate/offline; POST /gate/online;
    GET /clock; POST /clock/accept; GET PUT /retention;
    GET /tenants; GET PUT /tenants/{tenant}; GET /types; GET PUT /types/{type}; GET /schedules; GET PUT DELETE /schedules/{schedule};
    POST /schedules/{schedule}/pause; POST /schedules/{schedule}/resume; POST /schedules/{schedule}/trigger;
    POST /schedules/{schedule}/restore;
    GET /alerts; GET PUT DELETE /alerts/{alert}; POST /alerts/{alert}/pause; POST /alerts/{alert}/resume; POST /alerts/{alert}/test;
    GET /audit; GET /audit/head; GET /stats; GET /stats/history; GET /events; GET POST /keys; DELETE /keys/{id}";

#[tokio::test]
async fn the_description_has_every_route_of_the_contract_and_no_other() {
    let t = Fixture::new().await;
    let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in CONTRACT.split(';') {
        let mut words: Vec<&str> = entry.split_whitespace().collect();
        let path = format!("/api/v1{}", words.pop().unwrap());
        wanted.insert(path, words.into_iter().map(str::to_owned).collect());
    }
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs/api"] {
        wanted.insert(path.to_owned(), BTreeSet::from(["GET".to_owned()]));
    }
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, method, _) in operations(&description(&t).await) {
        found.entry(path).or_default().insert(method);
    }
    assert_eq!(found, wanted);
}

/// Every described route is there, and answers what it says it may answer.
#[tokio::test]
async fn every_described_route_answers_with_a_described_status() {
    let t = Fixture::new().await;
    let job = t.submit(json!({"type": "a"})).await;
    let document = description(&t).await;
    for (path, method, operation) in operations(&document) {
        if path == "/api/v1/events" {
            continue;
        }
        let path = path.replace("{id}", &job);
        let path = ["{name}", "{queue}", "{tenant}", "{type}", "{schedule}"]
            .iter()
            .fold(path, |path, part| path.replace(part, "some"));
        for body in ["", "{}", "[]", "{", "{\"unknown\":1}"] {
            let answer = Request::new(t.address, &method, &path).body(body).send().await;
            let described = operation["responses"].as_object().unwrap();
            assert!(
                described.contains_key(&answer.status.to_string()),
                "{method} {path} {body}: {}",
                answer.status
            );
            assert!(answer.status < 500, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn references_of_the_description_lead_somewhere() {
    let t = Fixture::new().await;
    let document = description(&t).await;
    let text = document.to_string();
    let mut count = 0;
    for reference in text.split("\"$ref\":\"").skip(1) {
        let path = reference.split('"').next().unwrap();
        let found = document.pointer(path.trim_start_matches('#'));
        assert!(found.is_some(), "{path}");
        count += 1;
    }
    assert!(count > 100, "{count}");
    let ids: BTreeSet<String> =
        operations(&document).iter().map(|(_, _, operation)| operation["operationId"].to_string()).collect();
    assert_eq!(ids.len(), operations(&document).len());
    for (path, _, operation) in operations(&document) {
        let named =
            operation["parameters"].as_array().unwrap().iter().filter(|parameter| parameter["in"] == "path");
        assert_eq!(named.count(), path.matches('{').count(), "{path}");
    }
}

/// Whether a field shows what it may contain: itself, or where it is described.
fn has_example(field: &Value) -> bool {
    let in_forms = |name: &str| {
        field[name]
            .as_array()
            .is_some_and(|forms| forms.iter().all(|form| form["type"] == "null" || has_example(form)))
    };
    ["examples", "enum", "const", "$ref"].iter().any(|name| field.get(name).is_some())
        || in_forms("anyOf")
        || in_forms("oneOf")
}

/// A new field or operation gets its example in `src/http/openapi/`.
#[tokio::test]
async fn every_operation_and_field_has_a_description_and_an_example() {
    let t = Fixture::new().await;
    let document = description(&t).await;
    let is_empty = |value: &Value| value.as_str().is_none_or(str::is_empty);
    let mut missing = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        if is_empty(&schema["description"]) {
            missing.push(format!("a description of {name}"));
        }
        for (field, described) in schema["properties"].as_object().into_iter().flatten() {
            if is_empty(&described["description"]) {
                missing.push(format!("a description of {name}.{field}"));
            }
            if !has_example(described) {
                missing.push(format!("an example of {name}.{field}"));
            }
        }
    }
    for (path, method, operation) in operations(&document) {
        for fact in ["operationId", "description", "summary"] {
            if is_empty(&operation[fact]) {
                missing.push(format!("{fact} of {method} {path}"));
            }
        }
        for parameter in operation["parameters"].as_array().unwrap() {
            if is_empty(&parameter["description"]) || parameter.get("example").is_none() {
                missing.push(format!("description or example of {} in {method} {path}", parameter["name"]));
            }
        }
        let body = &operation["requestBody"];
        if !body.is_null() && body["content"]["application/json"].get("example").is_none() {
            missing.push(format!("an example of the body of {method} {path}"));
        }
        for (status, response) in operation["responses"].as_object().unwrap() {
            let json =
                response["content"].get("application/json").or(response["content"].get("text/event-stream"));
            let is_shown =
                json.is_none_or(|json| json.get("example").is_some() || json["schema"].get("$ref").is_none());
            if !is_shown {
                missing.push(format!("an example of {status} of {method} {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// What generators of clients stumble over.
#[tokio::test]
async fn the_description_is_made_for_generators() {
    let t = Fixture::new().await;
    let document = description(&t).await;
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let text = document.to_string();
    for bad in [
        "\"default\":",
        "x-variant-of",
        "\"uint",
        "ActionResponse",
        "SubmittedJob\"",
        "Word\"",
        "View\"",
        "Look\"",
    ] {
        assert!(!text.contains(bad), "{bad}");
    }
    assert_eq!(document["servers"][0]["url"], "/");
    for (path, method, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(id.chars().all(char::is_alphanumeric) && id.starts_with(char::is_lowercase), "{id}");
        if !operation["requestBody"].is_null() {
            assert_eq!(operation["requestBody"]["required"], true, "{id}");
        }
        for parameter in operation["parameters"].as_array().unwrap() {
            // A query has no null.
            assert!(!parameter["schema"].to_string().contains("null"), "{id} {parameter}");
            if parameter["name"] == "id" && !path.contains("/keys/") {
                assert_eq!(parameter["schema"]["format"], "uuid", "{method} {path}");
            }
        }
    }
    // One format of ids, so that one from an answer can be sent back.
    for (schema, field) in [
        ("RegisteredWorker", "worker_id"),
        ("ClaimRequest", "worker_id"),
        ("HeartbeatRequest", "worker_id"),
        ("OutcomesRequest", "worker_id"),
        ("CheckpointRequest", "worker_id"),
        ("Heartbeat", "id"),
        ("OutcomeReport", "id"),
        ("Job", "id"),
    ] {
        assert_eq!(schemas[schema]["properties"][field]["format"], "uuid", "{schema}.{field}");
    }
    // A job is one object, whatever request answers with it.
    let is_required = |field: &str| schemas["Job"]["required"].as_array().unwrap().contains(&json!(field));
    assert!(is_required("started_at") && !is_required("changed") && !is_required("duplicate"));
    for (path, method) in [("/jobs", "post"), ("/jobs/{id}", "get"), ("/jobs/{id}/cancel", "post")] {
        let answers = &document["paths"][format!("/api/v1{path}")][method]["responses"]["200"];
        assert_eq!(answers["content"]["application/json"]["schema"]["$ref"], "#/components/schemas/Job");
    }
    let events =
        &document["paths"]["/api/v1/events"]["get"]["responses"]["200"]["content"]["text/event-stream"];
    assert_eq!(events["x-event-data"]["$ref"], "#/components/schemas/AuditRecord");
}

/// A user who copies an example from the reference gets further than an error about its form.
#[tokio::test]
async fn every_example_of_a_request_is_understood() {
    let t = Fixture::new().await;
    let document = description(&t).await;
    for (path, method, operation) in operations(&document) {
        let Some(body) = operation["requestBody"]["content"]["application/json"].get("example") else {
            continue;
        };
        let parameters = operation["parameters"].as_array().unwrap();
        let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path");
        let path = in_path.fold(path, |path, parameter| {
            let name = format!("{{{}}}", parameter["name"].as_str().unwrap());
            path.replace(&name, parameter["example"].as_str().unwrap())
        });
        if path.ends_with("/keys") {
            // The first key would close the server to the requests after it.
            continue;
        }
        let answer = Request::new(t.address, &method, &path).body(body.to_string()).send().await;
        assert!(
            ![400, 413, 422].contains(&answer.status) && answer.status < 500,
            "{method} {path}: {} {}",
            answer.status,
            String::from_utf8_lossy(&answer.body)
        );
    }
}

#[tokio::test]
async fn the_reference_shows_every_operation_and_loads_nothing() {
    let t = Fixture::new().await;
    let page = Request::new(t.address, "GET", "/docs/api").send().await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap().to_owned();
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
    let html = String::from_utf8(page.body).unwrap();
    let document = description(&t).await;
    for (path, _, operation) in operations(&document) {
        let id = operation["operationId"].as_str().unwrap();
        assert!(html.contains(&format!("<code>{path}</code>")), "{path}");
        assert!(html.contains(&format!("<article id=\"{id}\"")), "{id}");
    }
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(html.contains(&format!("<article id=\"object-{name}\"")), "{name}");
    }
    // Every link within the page leads somewhere.
    for target in html.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(html.contains(&format!("id=\"{target}\"")), "{target}");
    }
    for outside in ["<script", "src=", "href=\"http", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
}

#[tokio::test]
async fn the_reference_can_be_searched_without_scripts() {
    let t = Fixture::new().await;
    let search = async |words: &str| {
        let page = Request::new(t.address, "GET", &format!("/docs/api?q={words}")).send().await;
        (page.status, String::from_utf8(page.body).unwrap())
    };
    let (status, html) = search("cancel%20job").await;
    assert_eq!(status, 200);
    assert!(html.contains("<article id=\"cancelJob\"") && !html.contains("<article id=\"listQueues\""));
    let (_, html) = search("stale_fence").await;
    assert!(html.contains("<code>stale_fence</code>") && !html.contains("<code>last_admin_key</code>"));
    let (_, html) = search("%3Cscript%3Ealert(1)").await;
    assert!(html.contains("Nothing contains") && !html.contains("<script"), "{html}");
    assert_eq!(search(&"a".repeat(201)).await.0, 422);
}

/// The documents name every code that the server knows, and no other.
#[tokio::test]
async fn the_documents_have_every_code() {
    let t = Fixture::new().await;
    let fields = description(&t).await["components"]["schemas"]["ErrorDetails"].clone();
    let known: BTreeSet<String> = fields["properties"]["code"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| code.as_str().unwrap().to_owned())
        .collect();
    let document = std::fs::read_to_string(windlass_testkit::repository().join("docs/http-api.md")).unwrap();
    let (_, table) = document.split_once("| status | code |").expect("the table of codes");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let written: BTreeSet<String> = rows.map(|row| row.split('`').nth(1).unwrap().to_owned()).collect();
    assert_eq!(written, known);
}
