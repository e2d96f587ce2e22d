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
    POST /jobs/{id}/signals/{name}; GET /jobs/{id}/attempts; GET POST /jobs/{id}/checkpoints; GET /jobs/{id}/events;
    GET POST /jobs/{id}/children; GET /jobs/{id}/logs; GET /jobs/{id}/result; GET /jobs/{id}/graph; GET /jobs/{id}/explain;
    PUT /jobs/{id}/checkpoints/{name}; GET POST /workers; DELETE /workers/{id}; POST /workers/{id}/pause;
    POST /workers/{id}/resume; POST /claims; POST /heartbeats; POST /outcomes; GET /queues; GET PUT /queues/{queue};
    POST /queues/{queue}/pause; POST /queues/{queue}/resume; GET /gate; POST /gate/offline; POST /gate/online;
    GET /clock; POST /clock/accept; GET PUT /retention;
    GET /tenants; GET PUT /tenants/{tenant}; GET /types; GET PUT /types/{type}; GET /schedules; GET PUT DELETE /schedules/{schedule};
    POST /schedules/{schedule}/pause; POST /schedules/{schedule}/resume; POST /schedules/{schedule}/trigger;
    GET /audit; GET /audit/head; GET /stats; GET /events; GET POST /keys; DELETE /keys/{id}";

#[tokio::test]
async fn the_description_has_every_route_of_the_contract_and_no_other() {
    let t = Fixture::new().await;
    let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in CONTRACT.split(';') {
        let mut words: Vec<&str> = entry.split_whitespace().collect();
        let path = format!("/api/v1{}", words.pop().unwrap());
        wanted.insert(path, words.into_iter().map(str::to_owned).collect());
    }
    for path in ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"] {
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
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut count = 0;
    for reference in text.split("\"$ref\":\"").skip(1) {
        let path = reference.split('"').next().unwrap();
        let name = path.strip_prefix("#/components/schemas/").unwrap_or_else(|| panic!("{path}"));
        assert!(schemas.contains_key(name), "{name}");
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

#[tokio::test]
async fn the_page_shows_every_route_and_fetches_nothing() {
    let t = Fixture::new().await;
    let page = Request::new(t.address, "GET", "/docs").send().await;
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let html = String::from_utf8(page.body).unwrap();
    for (path, _, _) in operations(&description(&t).await) {
        assert!(html.contains(&format!("<code>{path}</code>")), "{path}");
    }
    for outside in ["<script", "src=", "http://", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
}

/// The documents name every code that the server knows, and no other.
#[tokio::test]
async fn the_documents_have_every_code() {
    let t = Fixture::new().await;
    let fields = description(&t).await["components"]["schemas"]["ErrorFields"].clone();
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
