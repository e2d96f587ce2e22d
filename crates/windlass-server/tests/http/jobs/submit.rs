//! Submitting over HTTP.

use serde_json::{Value, json};

use crate::fixture::{Fixture, assert_refused};

/// The submitted and computed fields, and what the contract adds.
const SHOWN: &str = "
    id tenant type queue state attempt failures created_at updated_at scheduled_at first_started_at
    started_at completed_at suspended_at suspended_by resumed_at priority_updated_at retry_of
    superseded_by parent owner error result cost_cents progress max_retries retry_count max_attempts
    priority tags correlation_id callback_url why retry timeouts after run_at lease";

/// Model: read-only-fields, writable-fields. Every field is there, whether or not it has a value.
#[tokio::test]
async fn a_submitted_job_is_answered_with_all_its_fields() {
    let t = Fixture::new().await;
    let answer = t
        .post(
            "/jobs",
            json!({
                "type": "email.send", "payload": {"to": "a@b.c"}, "queue": "mail", "priority": 80, "delay": "10s", "hold": false,
                "idempotency_key": "i", "idempotency_window": "24h", "unique_key": "u", "concurrency_key": "c",
                "retry": {"preset": "fixed"}, "timeouts": {"execution": "30m", "lease": 90, "lifetime": "1h30m"},
                "after": [], "after_any": [], "name": "n", "tags": {"k": "v"}, "correlation_id": "x",
                "callback_url": "https://example.com/hook", "tenant": "acme",
            }),
        )
        .await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    let job = answer.json();
    for field in SHOWN.split_whitespace() {
        assert!(job.as_object().unwrap().contains_key(field), "{field} is missing in {job}");
    }
    assert_eq!(job["state"], "delayed");
    assert_eq!(job["why"]["code"], "not_due");
    assert_eq!(
        (&job["tenant"], &job["queue"], &job["owner"]),
        (&json!("acme"), &json!("mail"), &json!("local"))
    );
    assert_eq!(job["created_at"], "2030-01-01T00:00:00.000Z");
    assert_eq!(job["run_at"], "2030-01-01T00:00:10.000Z");
    assert_eq!(job["timeouts"], json!({"execution": "30m", "lease": "1m30s", "lifetime": "1h30m"}));
    assert_eq!(
        (&job["max_attempts"], &job["max_retries"], &job["retry_count"]),
        (&json!(4), &json!(3), &json!(0))
    );
    assert_eq!(job["retry"]["strategy"], "constant");
    let id = job["id"].as_str().unwrap();
    assert_eq!(id.as_bytes()[14], b'4', "M10: a UUID of version 4");
    let mut shown = t.get_ok(&format!("/jobs/{id}")).await;
    for field in ["duplicate", "payload_differs", "debounced"] {
        shown[field] = json!(false);
    }
    assert_eq!(shown, job);
}

/// Model: payload. Byte for byte.
#[tokio::test]
async fn a_payload_reads_back_byte_for_byte() {
    let t = Fixture::new().await;
    for payload in [
        "{\"b\" : 1.0,  \"a\":[ 1e2, -0, 12345678901234567890123 ],\n \"b\":\"\\u00e9é\\/\"}",
        "\"text\"",
        "0.10",
        "null",
        "[]",
    ] {
        let body = format!("{{\"type\":\"a\", \"payload\": {payload} }}");
        let job = t.request("POST", "/jobs").body(body).send().await.json();
        let shown = t.get(&format!("/jobs/{}?payload=true", job["id"].as_str().unwrap())).await;
        let text = String::from_utf8(shown.body).unwrap();
        assert!(text.contains(&format!("\"payload\":{payload},\"content_type\"")), "{text}");
    }
    let binary = json!({"type": "a", "payload_base64": "AP8B", "content_type": "image/png"});
    let id = t.submit(binary).await;
    let shown = t.get_ok(&format!("/jobs/{id}?payload=true")).await;
    assert_eq!((&shown["payload_base64"], &shown["content_type"]), (&json!("AP8B"), &json!("image/png")));
    assert_eq!(shown.get("payload"), None);
    let worker = t.worker().await;
    let claimed = t.post_ok(200, "/claims", json!({"worker_id": worker, "limit": 10})).await;
    assert_eq!(claimed["jobs"][5]["payload_base64"], "AP8B");
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_and_named() {
    let t = Fixture::new().await;
    let long = "x".repeat(257);
    for (extra, field) in [
        (json!({"type": ""}), "type"),
        (json!({"type": "1a"}), "type"),
        (json!({"type": 5}), "type"),
        (json!({"type": null}), "type"),
        (json!({"queue": "a b"}), "queue"),
        (json!({"tenant": ""}), "tenant"),
        (json!({"priority": 101}), "priority"),
        (json!({"priority": -1}), "priority"),
        (json!({"priority": 1.5}), "priority"),
        (json!({"priority": "80"}), "priority"),
        (json!({"priority": "urgent"}), "priority"),
        (json!({"delay": "10"}), "delay"),
        (json!({"delay": "-1s"}), "delay"),
        (json!({"delay": -1}), "delay"),
        (json!({"delay": "36501d"}), "delay"),
        (json!({"run_at": "tomorrow"}), "run_at"),
        (json!({"run_at": "2030-01-01T00:00:00Z", "delay": 1}), "run_at"),
        (json!({"hold": "yes"}), "hold"),
        (json!({"idempotency_key": long}), "idempotency_key"),
        (json!({"unique_key": long}), "unique_key"),
        (json!({"concurrency_key": long}), "concurrency_key"),
        (json!({"correlation_id": long}), "correlation_id"),
        (json!({"retry": "never"}), "retry"),
        (json!({"retry": {"preset": "never"}}), "retry.preset"),
        (json!({"retry": {"strategy": "random"}}), "retry.strategy"),
        (json!({"retry": {"jitter": 1.1}}), "retry.jitter"),
        (json!({"retry": {"multiplier": 0.5}}), "retry.multiplier"),
        (json!({"retry": {"max_attempts": 0}}), "retry.max_attempts"),
        (json!({"retry": {"max_attempts": 101}}), "retry.max_attempts"),
        (json!({"retry": {"max_retries": 100}}), "retry.max_retries"),
        (json!({"retry": {"max_attempts": 3, "max_retries": 3}}), "retry.max_retries"),
        (json!({"retry": {"retry_on": ["permanent"]}}), "retry.retry_on"),
        (json!({"retry": {"retry_on": ["often"]}}), "retry.retry_on.0"),
        (json!({"retry": {"retries": 3}}), "retry.retries"),
        (json!({"retry": {"initial_delay": "1"}}), "retry.initial_delay"),
        (json!({"timeouts": {"lease": "500ms"}}), "timeouts.lease"),
        (json!({"timeouts": {"execution": 0}}), "timeouts.execution"),
        (json!({"after": ["00000000-0000-4000-8000-000000000000"]}), "after.0"),
        (json!({"after": ["what"]}), "after.0"),
        (json!({"after_any": ["@unknown"]}), "after_any.0"),
        (json!({"after": "x"}), "after"),
        (json!({"tags": {"k": long}}), "tags.k"),
        (json!({"tags": {"k": 1}}), "tags.k"),
        (json!({"tags": []}), "tags"),
        (json!({"payload": 1, "payload_base64": "AA=="}), "payload_base64"),
        (json!({"payload_base64": "?"}), "payload_base64"),
        (json!({"payload": 1, "content_type": "text/plain"}), "content_type"),
        (json!({"id": "00000000-0000-4000-8000-000000000000"}), "id"),
        (json!({"state": "completed"}), "state"),
    ] {
        let mut job = json!({"type": "a"});
        job.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        assert_refused(&t.post("/jobs", job.clone()).await, 422, "invalid_value", Some(field));
        // In a batch the same is said with the job's place, and nothing is stored.
        let refused = t.post("/jobs/batch", json!({"jobs": [{"type": "b"}, job]})).await;
        assert_refused(&refused, 422, "invalid_value", Some(&format!("jobs.1.{field}")));
        assert_eq!(refused.json()["error"]["details"]["index"], 1);
    }
    assert_eq!(t.get_ok("/jobs").await["jobs"], json!([]));
}

/// Model: priority-values. Names wherever a number is.
#[tokio::test]
async fn priorities_have_names() {
    let t = Fixture::new().await;
    for (name, value) in [("critical", 100), ("high", 80), ("normal", 50), ("low", 10), ("bulk", 0)] {
        let job = t.post_ok(201, "/jobs", json!({"type": "a", "priority": name})).await;
        assert_eq!(job["priority"], value);
        let path = format!("/jobs/{}/priority", job["id"].as_str().unwrap());
        let same = t.post_ok(200, &path, json!({"value": name})).await;
        assert_eq!(same["changed"], false);
    }
}

/// Model: idempotency-key. The same key gives the same job.
#[tokio::test]
async fn a_repeated_idempotency_key_gives_the_first_job() {
    let t = Fixture::new().await;
    let job = json!({"type": "a", "payload": 1, "idempotency_key": "k"});
    let first = t.post_ok(201, "/jobs", job.clone()).await;
    let again = t.post_ok(200, "/jobs", job.clone()).await;
    assert_eq!((&again["id"], &again["duplicate"]), (&first["id"], &json!(true)));
    assert_eq!(again["payload_differs"], false);
    let other = json!({"type": "a", "payload": 2, "idempotency_key": "k"});
    let differs = t.post_ok(200, "/jobs", other.clone()).await;
    assert_eq!((&differs["id"], &differs["payload_differs"]), (&first["id"], &json!(true)));
    let strict = t.post("/jobs?strict=true", other).await;
    assert_refused(&strict, 409, "payload_differs", None);
    assert_eq!(strict.json()["error"]["details"]["job_id"], first["id"]);
    assert_eq!(t.post("/jobs?strict=true", job).await.status, 200);
}

/// Model: idempotency-key. Also after the job was deleted, until the end of the window.
#[tokio::test]
async fn a_repeated_idempotency_key_of_a_deleted_job_makes_no_second_one() {
    let t = Fixture::new().await;
    let job = json!({"type": "a", "payload": 1, "idempotency_key": "k", "idempotency_window": "30d"});
    let first = t.post_ok(201, "/jobs", job.clone()).await;
    assert_eq!(first.get("deleted"), None);
    let path = format!("/jobs/{}", first["id"].as_str().unwrap());
    t.post_ok(200, &format!("{path}/cancel"), json!({})).await;
    assert_eq!(t.request("DELETE", &path).send().await.status, 204);
    let again = t.post_ok(200, "/jobs", job.clone()).await;
    for field in ["id", "type", "tenant", "created_at"] {
        assert_eq!(again[field], first[field], "{field}");
    }
    assert_eq!(
        (&again["duplicate"], &again["deleted"], &again["payload_differs"], &again["state"]),
        (&json!(true), &json!(true), &json!(false), &json!("cancelled"))
    );
    let mut fields: Vec<_> = again.as_object().unwrap().keys().filter(|name| *name != "deleted").collect();
    let mut expected: Vec<_> = first.as_object().unwrap().keys().collect();
    fields.sort();
    expected.sort();
    assert_eq!(fields, expected, "a reader of snapshots finds every field");
    let other = json!({"type": "a", "payload": 2, "idempotency_key": "k"});
    assert_eq!(t.post_ok(200, "/jobs", other.clone()).await["payload_differs"], true);
    let strict = t.post("/jobs?strict=true", other).await;
    assert_refused(&strict, 409, "payload_differs", None);
    assert_eq!(strict.json()["error"]["details"]["job_id"], first["id"]);
    let batch = t.post_ok(201, "/jobs/batch", json!({"jobs": [job, {"type": "b"}]})).await;
    assert_eq!((&batch["jobs"][0]["deleted"], &batch["jobs"][0]["id"]), (&json!(true), &first["id"]));
    assert_eq!(batch["jobs"][1]["state"], "scheduled");
}

/// Model: idempotency-key. Under concurrency exactly one job exists.
#[tokio::test]
async fn of_many_callers_with_one_key_one_submits() {
    let t = Fixture::new().await;
    let request = t.request("POST", "/jobs").json(&json!({"type": "a", "idempotency_key": "k"}));
    let request = std::sync::Arc::new(request);
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let request = request.clone();
            tokio::spawn(async move { request.send().await })
        })
        .collect();
    let mut statuses = Vec::new();
    for caller in callers {
        statuses.push(caller.await.unwrap().status);
    }
    assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 63, "{statuses:?}");
    assert_eq!(t.get_ok("/jobs").await["jobs"].as_array().unwrap().len(), 1);
}

/// Model: unique-key
#[tokio::test]
async fn a_taken_unique_key_names_its_holder() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a", "unique_key": "k"})).await;
    let refused = t.post("/jobs", json!({"type": "a", "unique_key": "k"})).await;
    assert_refused(&refused, 409, "unique_key_taken", None);
    assert_eq!(refused.json()["error"]["details"]["job_id"], id.as_str());
    t.post_ok(200, &format!("/jobs/{id}/cancel"), json!({})).await;
    t.submit(json!({"type": "a", "unique_key": "k"})).await;
}

/// Model: dependencies, batches. A whole graph in one call, by local names.
#[tokio::test]
async fn a_batch_may_name_its_own_jobs() {
    let t = Fixture::new().await;
    let batch = json!({"jobs": [
        {"type": "c", "after": ["@a", "@b"]},
        {"type": "a", "name": "a"},
        {"type": "b", "name": "b", "after_any": ["@a"]},
    ]});
    let jobs = t.post_ok(201, "/jobs/batch", batch).await["jobs"].clone();
    let types: Vec<&Value> = jobs.as_array().unwrap().iter().map(|job| &job["type"]).collect();
    assert_eq!(types, ["c", "a", "b"]);
    let mut after = vec![jobs[1]["id"].clone(), jobs[2]["id"].clone()];
    let mut shown = jobs[0]["after"].as_array().unwrap().clone();
    after.sort_by_key(Value::to_string);
    shown.sort_by_key(Value::to_string);
    assert_eq!(shown, after);
    assert_eq!(
        (&jobs[0]["state"], &jobs[0]["why"]["code"]),
        (&json!("pending"), &json!("dependencies_unmet"))
    );
    assert_eq!(jobs[1]["state"], "scheduled");
    let graph = t.get_ok(&format!("/jobs/{}/graph", jobs[0]["id"].as_str().unwrap())).await;
    assert_eq!((graph["nodes"].as_array().unwrap().len(), graph["edges"].as_array().unwrap().len()), (3, 3));
    let cycle = json!({"jobs": [{"type": "a", "name": "a", "after": ["@b"]}, {"type": "b", "name": "b", "after": ["@a"]}]});
    assert_eq!(t.post("/jobs/batch", cycle).await.status, 422);
    assert_eq!(t.post_ok(201, "/jobs/batch", json!({"jobs": []})).await["jobs"], json!([]));
}

#[tokio::test]
async fn a_batch_over_the_limit_is_refused() {
    let t = Fixture::new().await;
    let jobs: Vec<Value> = (0..10_001).map(|_| json!({"type": "a"})).collect();
    let refused = t.post("/jobs/batch", json!({"jobs": jobs})).await;
    assert_refused(&refused, 422, "invalid_value", Some("jobs"));
    assert_eq!(refused.json()["error"]["details"]["index"], Value::Null);
    assert_eq!(t.get_ok("/jobs").await["jobs"], json!([]));
}

#[tokio::test]
async fn the_trace_of_a_submission_reaches_the_worker() {
    let t = Fixture::new().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let request = t.request("POST", "/jobs").header("traceparent", trace).json(&json!({"type": "a"}));
    assert_eq!(request.send().await.status, 201);
    let malformed = t.request("POST", "/jobs").header("traceparent", "x").json(&json!({"type": "a"}));
    assert_eq!(malformed.send().await.status, 201);
    let worker = t.worker().await;
    assert_eq!(t.claim(&worker).await["traceparent"], trace);
    // Without one that can be read, the server starts a trace.
    let started = t.claim(&worker).await["traceparent"].clone();
    assert!(started.as_str().is_some_and(|text| text.len() == 55 && text != trace), "{started}");
}

/// What two programs would read differently is refused.
#[tokio::test]
async fn ambiguous_submissions_are_refused() {
    let t = Fixture::new().await;
    let twice = r#"{"type": "a", "tags": {"k": "1", "k": "2"}}"#;
    let refused = t.request("POST", "/jobs").body(twice).send().await;
    assert_refused(&refused, 422, "invalid_value", Some("tags"));
    let id = t.submit(json!({"type": "a"})).await;
    let patch = r#"{"tags": {"k": "1", "k": "2"}}"#;
    let refused = t.request("PATCH", &format!("/jobs/{id}")).body(patch).send().await;
    assert_refused(&refused, 422, "invalid_value", Some("tags"));
    let lines = json!({"type": "a", "payload_base64": "AAAA", "content_type": "text/plain\r\nx: y"});
    assert_refused(&t.post("/jobs", lines).await, 422, "invalid_value", Some("content_type"));
    let long = json!({"type": "a", "payload_base64": "AAAA", "content_type": "x".repeat(256)});
    assert_refused(&t.post("/jobs", long).await, 422, "invalid_value", Some("content_type"));
    for url in ["http://example.com/hook", "https://example.com:22/hook"] {
        let refused = t.post("/jobs", json!({"type": "a", "callback_url": url})).await;
        assert_refused(&refused, 422, "invalid_value", Some("callback_url"));
        let refused =
            t.request("PATCH", &format!("/jobs/{id}")).json(&json!({"callback_url": url})).send().await;
        assert_refused(&refused, 422, "invalid_value", Some("callback_url"));
    }
    t.submit(json!({"type": "a", "callback_url": "https://example.com/hook"})).await;
}
