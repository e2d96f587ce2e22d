//! Optimistic preconditions over HTTP: `ETag`, `If-Match` and `If-None-Match`.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::client::TestResponse;

use crate::fixture::{Fixture, assert_refused};

fn tag(answer: &TestResponse) -> String {
    answer.header("etag").expect("it has an ETag").to_owned()
}

async fn send(t: &Fixture, method: &str, path: &str, if_match: &str, body: Value) -> TestResponse {
    t.request(method, path).header("If-Match", if_match).json(&body).send().await
}

/// Everything that can be done to a job: method, what follows its path, body.
fn actions() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("POST", "/submit", json!({})),
        ("POST", "/suspend", json!({})),
        ("POST", "/resume", json!({})),
        ("POST", "/cancel", json!({})),
        ("POST", "/priority", json!({"value": 3})),
        ("POST", "/redrive", json!({})),
        ("POST", "/signals/go", json!({})),
        ("PATCH", "", json!({"tags": {"a": "b"}})),
        ("DELETE", "", json!({})),
    ]
}

#[tokio::test]
async fn every_answer_that_shows_one_job_carries_its_tag() {
    let t = Fixture::new().await;
    let made = t.post("/jobs", json!({"type": "a", "idempotency_key": "k", "hold": true})).await;
    let first = tag(&made);
    let version = made.json()["version"].as_str().unwrap().to_owned();
    assert!(first.starts_with(&format!("\"{version}.")) && first.ends_with('"'), "{first}");
    let path = format!("/jobs/{}", made.json()["id"].as_str().unwrap());
    assert_eq!(tag(&t.get(&path).await), first, "nothing happened in between");
    assert_eq!(tag(&t.post("/jobs", json!({"type": "a", "idempotency_key": "k"})).await), first);
    let mut seen = vec![first];
    for (method, verb, body) in actions().into_iter().filter(|(method, ..)| *method != "DELETE") {
        let answer = t.request(method, &format!("{path}{verb}")).json(&body).send().await;
        if verb == "/redrive" {
            // Its answer is another job.
            assert!(answer.status == 201 && !seen.contains(&tag(&answer)));
        }
        let now = tag(&t.get(&path).await);
        if answer.status == 200 && verb != "/redrive" {
            assert_eq!(tag(&answer), now, "{verb}");
        }
        if answer.status < 300 {
            assert!(!seen.contains(&now), "{verb} changes the tag");
            seen.push(now);
        }
        if verb == "/cancel" {
            assert_eq!(
                t.post(&format!("{path}/cancel"), json!({})).await.header("etag"),
                seen.last().map(String::as_str)
            );
        }
    }
    assert!(seen.len() >= 6, "{seen:?}");
}

#[tokio::test]
async fn an_action_on_a_job_that_changed_since_is_412_and_changes_nothing() {
    let t = Fixture::new().await;
    let made = t.post("/jobs", json!({"type": "a"})).await;
    let (old, path) = (tag(&made), format!("/jobs/{}", made.json()["id"].as_str().unwrap()));
    let raised = send(&t, "POST", &format!("{path}/priority"), &old, json!({"value": 90})).await;
    assert_eq!((raised.status, &raised.json()["priority"]), (200, &json!(90)));
    let before = t.get(&path).await;
    let foreign = "\"0123456789abcdef01234567.0123456789abcdef\"";
    for (method, verb, body) in actions() {
        let whole = format!("{path}{verb}");
        let weak = format!("W/{}", tag(&before));
        for given in [old.as_str(), foreign, "\"\"", "\"x\"", &weak, &format!("{old}, {foreign}")] {
            let refused = send(&t, method, &whole, given, body.clone()).await;
            assert_refused(&refused, 412, "precondition_failed", None);
            assert_eq!(refused.json()["error"]["details"], json!({"version": before.json()["version"]}));
        }
        for malformed in ["x", "\"x", "\"a\" \"b\"", "*, \"a\""] {
            let refused = send(&t, method, &whole, malformed, body.clone()).await;
            assert_refused(&refused, 422, "invalid_value", Some("if-match"));
        }
    }
    assert_eq!(t.get(&path).await.json(), before.json());
    // One of several, `*`, and the version alone.
    let either = format!("{foreign}, {}", tag(&before));
    let patched = send(&t, "PATCH", &path, &either, json!({"tags": {"a": "b"}})).await;
    assert_eq!((patched.status, &patched.json()["changed"]), (200, &json!(true)));
    let alone = format!("\"{}\"", patched.json()["version"].as_str().unwrap());
    assert_eq!(send(&t, "POST", &format!("{path}/suspend"), &alone, json!({})).await.status, 200);
    assert_eq!(send(&t, "POST", &format!("{path}/cancel"), "*", json!({})).await.status, 200);
    let last = tag(&t.get(&path).await);
    let again = send(&t, "POST", &format!("{path}/redrive"), &last, json!({})).await;
    assert_eq!(again.status, 201);
    assert_eq!(send(&t, "DELETE", &path, &last, json!({})).await.status, 412, "it names its successor now");
    let last = tag(&t.get(&path).await);
    assert_eq!(send(&t, "DELETE", &path, &last, json!({})).await.status, 204);
    assert_eq!(send(&t, "DELETE", &path, "*", json!({})).await.status, 404);
}

/// A reader that holds the job as it is gets no body; progress and `why` count here, and not for actions.
#[tokio::test]
async fn a_reader_that_has_seen_it_gets_304() {
    let t = Fixture::new().await;
    let made = t.post("/jobs", json!({"type": "a"})).await;
    let path = format!("/jobs/{}", made.json()["id"].as_str().unwrap());
    let read = async |held: &str| t.request("GET", &path).header("If-None-Match", held).send().await;
    let first = tag(&made);
    let same = read(&first).await;
    assert_eq!((same.status, same.body.len(), tag(&same)), (304, 0, first.clone()));
    assert_eq!(read(&format!("W/{first}")).await.status, 304);
    assert_eq!(read("*").await.status, 304);
    assert_eq!(read("\"x\"").await.status, 200);
    assert_refused(&read("x").await, 422, "invalid_value", Some("if-none-match"));
    // With the payload it is another answer.
    let whole =
        t.request("GET", &format!("{path}?payload=true")).header("If-None-Match", &first).send().await;
    assert_eq!(whole.status, 200);
    // What it waits for is computed, and still counts.
    let worker = t.worker().await;
    let now = read(&first).await;
    assert_eq!((now.status, &now.json()["version"]), (200, &made.json()["version"]));
    let claimed = t.claim(&worker).await;
    let running = t.get(&path).await;
    t.clock.advance(Duration::from_secs(20));
    let beat = json!({"id": claimed["id"], "fence": claimed["fence"], "progress": {"percent": 50}});
    t.post_ok(200, "/heartbeats", json!({"worker_id": worker, "jobs": [beat]})).await;
    let later = read(&tag(&running)).await;
    assert_eq!((later.status, &later.json()["progress"]["percent"]), (200, &json!(50.0)));
    assert_ne!(tag(&later), tag(&running));
    let act = send(&t, "POST", &format!("{path}/priority"), &tag(&running), json!({"value": 1})).await;
    assert_eq!(act.status, 200, "a heartbeat does not change the job");
}
