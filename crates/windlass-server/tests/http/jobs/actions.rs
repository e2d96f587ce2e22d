//! Actions on one job over HTTP, and its data.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Fixture, assert_refused};

/// Model: suspend-modes, repeated-actions. Repeats change nothing and say so, strictly or not.
#[tokio::test]
async fn suspending_and_resuming_twice_changes_nothing() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a"})).await;
    let (suspend, resume) = (format!("/jobs/{id}/suspend"), format!("/jobs/{id}/resume"));
    let job =
        t.post_ok(200, &suspend, json!({"reason": "because", "mode": "graceful", "expires": "1h"})).await;
    assert_eq!((&job["state"], &job["changed"]), (&json!("suspended"), &json!(true)));
    assert_eq!((&job["suspended_by"], &job["why"]["code"]), (&json!("local"), &json!("suspended")));
    let again = t.request("POST", &suspend).send().await;
    assert_eq!((again.status, &again.json()["changed"]), (200, &json!(false)));
    let strict = t.post(&format!("{suspend}?strict=true"), json!({})).await;
    assert_refused(&strict, 409, "already_suspended", None);
    assert_eq!(strict.json()["error"]["details"], json!({"state": "suspended", "action": "suspend"}));
    let job = t.post_ok(200, &resume, json!({})).await;
    assert_eq!((&job["state"], &job["changed"]), (&json!("scheduled"), &json!(true)));
    assert_eq!(t.post_ok(200, &resume, json!({})).await["changed"], false);
    let strict = t.post(&format!("{resume}?strict=true"), json!({})).await;
    assert_refused(&strict, 409, "not_suspended", None);
    assert_eq!(strict.json()["error"]["details"], json!({"state": "scheduled", "action": "resume"}));
    assert_refused(&t.post(&suspend, json!({"mode": "softly"})).await, 422, "invalid_value", Some("mode"));
    assert_refused(&t.post(&suspend, json!({"why": "x"})).await, 422, "invalid_value", Some("why"));
    let long = json!({"reason": "x".repeat(2000)});
    assert_refused(&t.post(&suspend, long).await, 422, "invalid_value", Some("reason"));
}

/// Model: refused-changes. A refusal names state and action, and a running job is not suspended unless asked for.
#[tokio::test]
async fn a_step_that_the_state_does_not_allow_is_a_conflict() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "a"})).await, t.worker().await);
    t.claim(&worker).await;
    let conflicts = async |path: &str, body: Value, state: &str, action: &str| {
        let refused = t.post(&format!("/jobs/{id}/{path}"), body).await;
        assert_refused(&refused, 409, "state_conflict", None);
        assert_eq!(refused.json()["error"]["details"], json!({"state": state, "action": action}));
    };
    conflicts("suspend", json!({}), "running", "suspend").await;
    conflicts("submit", json!({}), "running", "submit").await;
    conflicts("redrive", json!({}), "running", "redrive").await;
    let refused = t.request("DELETE", &format!("/jobs/{id}")).send().await;
    assert_refused(&refused, 409, "state_conflict", None);
    t.post_ok(200, &format!("/jobs/{id}/suspend"), json!({"mode": "aggressive"})).await;
    assert_eq!(t.post_ok(200, &format!("/jobs/{id}/cancel"), json!({})).await["changed"], true);
    assert_eq!(t.post_ok(200, &format!("/jobs/{id}/cancel"), json!({})).await["changed"], false);
    conflicts("suspend", json!({}), "cancelled", "suspend").await;
    conflicts("priority", json!({"value": 1}), "cancelled", "priority").await;
    conflicts("signals/x", json!({}), "cancelled", "signal").await;
    let patched = t.request("PATCH", &format!("/jobs/{id}")).json(&json!({"tags": {}})).send().await;
    assert_refused(&patched, 409, "state_conflict", None);
}

#[tokio::test]
async fn a_held_job_runs_once_it_is_submitted() {
    let t = Fixture::new().await;
    let job = t.post_ok(201, "/jobs", json!({"type": "a", "hold": true})).await;
    assert_eq!((&job["state"], &job["why"]["code"]), (&json!("created"), &json!("held")));
    let path = format!("/jobs/{}/submit", job["id"].as_str().unwrap());
    assert_eq!(t.request("POST", &path).send().await.json()["state"], "scheduled");
    assert_refused(&t.post(&path, json!({})).await, 409, "state_conflict", None);
}

/// Model: writable-fields, changing-priority
#[tokio::test]
async fn what_clients_may_change_is_changed_and_null_clears() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a", "tags": {"k": "v"}, "correlation_id": "c"})).await;
    let patch = async |body: Value| t.request("PATCH", &format!("/jobs/{id}")).json(&body).send().await;
    let job = patch(json!({"priority": "low", "tags": {"x": "y"}})).await.json();
    assert_eq!(
        (&job["priority"], &job["tags"], &job["correlation_id"]),
        (&json!(10), &json!({"x": "y"}), &json!("c"))
    );
    let job = patch(json!({"correlation_id": null, "callback_url": "https://example.com"})).await.json();
    assert_eq!((&job["correlation_id"], &job["callback_url"]), (&Value::Null, &json!("https://example.com")));
    assert_eq!(job["tags"], json!({"x": "y"}));
    assert_refused(&patch(json!({"state": "failed"})).await, 422, "invalid_value", Some("state"));
    assert_refused(&patch(json!({"priority": 1000})).await, 422, "invalid_value", Some("priority"));
    let priority = format!("/jobs/{id}/priority");
    let job = t.post_ok(200, &priority, json!({"value": 77})).await;
    assert_eq!((&job["priority"], &job["changed"]), (&json!(77), &json!(true)));
    assert_refused(&t.post(&priority, json!({})).await, 422, "invalid_value", Some("value"));
    assert_refused(&t.post(&priority, json!({"value": null})).await, 422, "invalid_value", Some("value"));
}

/// Model: final-states. Final states never change; redriving makes a new job.
#[tokio::test]
async fn a_final_job_can_be_redriven_and_removed() {
    let t = Fixture::new().await;
    let id = t.completed(json!({"type": "a", "payload": 5, "idempotency_key": "k"})).await;
    let new = t.request("POST", &format!("/jobs/{id}/redrive")).send().await;
    assert_eq!(new.status, 201);
    let new = new.json();
    assert_eq!((&new["retry_of"], &new["idempotency_key"]), (&json!(id), &Value::Null));
    let old = t.get_ok(&format!("/jobs/{id}")).await;
    assert_eq!((&old["superseded_by"], &old["result"]), (&new["id"], &json!({"ok": true})));
    let again = t.post(&format!("/jobs/{id}/redrive"), json!({"only_once": true})).await;
    assert_refused(&again, 409, "already_redriven", None);
    assert_eq!(again.json()["error"]["details"]["job_id"], new["id"]);
    let removed = t.request("DELETE", &format!("/jobs/{id}")).send().await;
    assert_eq!((removed.status, removed.body.len()), (204, 0));
    assert_eq!(t.get(&format!("/jobs/{id}")).await.status, 404);
    let trail = t.get_ok(&format!("/audit?job={id}")).await;
    let names: Vec<&Value> =
        trail["records"].as_array().unwrap().iter().map(|record| &record["event"]).collect();
    assert_eq!(names, ["job.lifecycle.completed", "job.lifecycle.redriven", "job.ops.deleted"]);
}

#[tokio::test]
async fn a_final_job_can_be_redriven_with_another_payload() {
    let t = Fixture::new().await;
    let id = t.completed(json!({"type": "a", "payload": {"to": ""}})).await;
    let redrive = format!("/jobs/{id}/redrive");
    let retried = async |body: Value| {
        let new = t.post_ok(201, &redrive, body).await;
        assert_eq!(new["retry_of"], json!(id));
        t.get_ok(&format!("/jobs/{}?payload=true", new["id"].as_str().unwrap())).await
    };
    assert_eq!(retried(json!({"payload": {"to": "ada"}})).await["payload"], json!({"to": "ada"}));
    let old = t.get_ok(&format!("/jobs/{id}?payload=true")).await;
    assert_eq!(old["payload"], json!({"to": ""}), "a final job never changes");
    let new = retried(json!({"payload_base64": "AAEC", "content_type": "image/png"})).await;
    assert_eq!((&new["payload_base64"], &new["content_type"]), (&json!("AAEC"), &json!("image/png")));
    assert_eq!(retried(json!({"payload": null})).await["payload"], Value::Null, "null is a payload");
    assert_eq!(retried(json!({})).await["payload"], json!({"to": ""}));
    let both = json!({"payload": 1, "payload_base64": "AAEC"});
    assert_refused(&t.post(&redrive, both).await, 422, "invalid_value", Some("payload_base64"));
    assert_refused(
        &t.post(&redrive, json!({"content_type": "text/plain"})).await,
        422,
        "invalid_value",
        Some("content_type"),
    );
}

#[tokio::test]
async fn waiting_for_a_job_ends_with_it() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a"})).await;
    let request = t.request("GET", &format!("/jobs/{id}?wait=1m"));
    let waiting = tokio::spawn(async move { request.send().await.json() });
    while !t.store.environment().wakeups.has_waiters() {
        tokio::task::yield_now().await;
    }
    t.post_ok(200, &format!("/jobs/{id}/cancel"), json!({"reason": "no"})).await;
    let job = waiting.await.unwrap();
    assert_eq!(
        (&job["state"], &job["error"]["message"]),
        (&json!("cancelled"), &json!("cancelled by local: no"))
    );
    assert_eq!(t.get_ok(&format!("/jobs/{id}?wait=5m")).await["state"], "cancelled");
    assert_refused(&t.get(&format!("/jobs/{id}?wait=6m")).await, 422, "invalid_value", Some("wait"));
    assert_refused(&t.get(&format!("/jobs/{id}?wait=soon")).await, 422, "invalid_value", Some("wait"));
    assert_refused(&t.get(&format!("/jobs/{id}?payload=maybe")).await, 422, "invalid_value", Some("payload"));
    let other = t.submit(json!({"type": "a"})).await;
    assert_eq!(t.get_ok(&format!("/jobs/{other}?wait=1ms")).await["state"], "scheduled");
}

/// Model: attempt-records, error-record, counters-and-fences
#[tokio::test]
async fn attempts_tell_what_happened() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "a", "retry": {"jitter": 0}})).await, t.worker().await);
    let claimed = t.claim(&worker).await;
    let running = t.get_ok(&format!("/jobs/{id}/attempts")).await;
    assert_eq!(
        (&running["attempts"][0]["worker"], &running["attempts"][0]["ended_at"]),
        (&json!(worker), &Value::Null)
    );
    let error = json!({"category": "temporary", "message": "busy", "code": "E1"});
    let failed = t
        .report(&worker, json!({"id": id, "fence": claimed["fence"], "outcome": "failed", "error": error}))
        .await;
    assert_eq!((&failed["status"], &failed["state"]), (&json!("applied"), &json!("retrying")));
    let job = t.get_ok(&format!("/jobs/{id}")).await;
    assert_eq!((&job["failures"], &job["retry_count"], &job["attempt"]), (&json!(1), &json!(1), &json!(1)));
    assert_eq!((&job["error"]["code"], &job["error"]["error_type"]), (&json!("E1"), &json!("RETRYABLE")));
    assert_eq!((&job["run_at"], &job["lease"]), (&json!("2030-01-01T00:00:01.000Z"), &Value::Null));
    t.advance(Duration::from_secs(2)).await;
    let again = t.claim(&worker).await;
    assert_eq!((&again["attempt"], &again["previous_attempt_id"]), (&json!(2), &claimed["attempt_id"]));
    let attempts = t.get_ok(&format!("/jobs/{id}/attempts")).await;
    let first = &attempts["attempts"][0];
    assert_eq!((&first["attempt_id"], &first["number"]), (&claimed["attempt_id"], &json!(1)));
    assert_eq!((&first["outcome"], &first["error"]["message"]), (&json!("failed"), &json!("busy")));
    assert_eq!(attempts["attempts"][1]["previous_attempt_id"], claimed["attempt_id"]);
}

/// Model: pause-reason-and-expiry. An expiry can be given as a duration or as a time.
#[tokio::test]
async fn an_end_is_given_as_a_length_of_time_or_as_a_moment() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a"})).await;
    let suspend = format!("/jobs/{id}/suspend");
    for (expires, ends) in [
        (json!("90s"), "2030-01-01T00:01:30.000Z"),
        (json!(60), "2030-01-01T00:01:00.000Z"),
        (json!("2030-01-01T02:00:00+01:00"), "2030-01-01T01:00:00.000Z"),
    ] {
        let job = t.post_ok(200, &suspend, json!({"expires": expires})).await;
        assert_eq!(job["why"]["expires_at"], ends, "{expires}");
        t.post_ok(200, &format!("/jobs/{id}/resume"), json!({})).await;
    }
    for expires in [json!("2029-12-31T23:59:59Z"), json!("2030-01-01T00:00:00Z"), json!("soon"), json!("90")]
    {
        for path in [&suspend, "/queues/q/pause", "/gate/offline"] {
            let refused = t.post(path, json!({"expires": expires})).await;
            assert_refused(&refused, 422, "invalid_value", Some("expires"));
        }
    }
    let moment = json!({"expires": "2030-01-01T00:30:00Z"});
    assert_eq!(
        t.post_ok(200, "/queues/q/pause", moment.clone()).await["paused"]["expires_at"],
        "2030-01-01T00:30:00.000Z"
    );
    assert_eq!(t.post_ok(200, "/gate/offline", moment).await["expires_at"], "2030-01-01T00:30:00.000Z");
}
