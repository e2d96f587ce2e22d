//! Numbers, the audit trail and unknown names over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_testkit::client::Request;

use crate::fixture::{Fixture, assert_refused};

async fn put(t: &Fixture, path: &str, body: Value) -> Value {
    let answer = t.request("PUT", path).json(&body).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.json());
    answer.json()
}

#[tokio::test]
async fn a_queue_shows_depth_age_rates_and_settings() {
    let t = Fixture::new().await;
    assert_eq!(t.get_ok("/queues").await["queues"], json!([]));
    t.completed(json!({"type": "a", "queue": "mail"})).await;
    t.submit(json!({"type": "a", "queue": "mail"})).await;
    t.advance(Duration::from_secs(90)).await;
    let queue = t.get_ok("/queues/mail").await;
    assert_eq!(
        (&queue["name"], &queue["depth"]["scheduled"], &queue["depth"]["completed"]),
        (&json!("mail"), &json!(1), &json!(1))
    );
    assert_eq!((&queue["oldest_age"], &queue["paused"]), (&json!("1m30s"), &Value::Null));
    assert_eq!(queue["rates"]["last_hour"]["submitted"], 2);
    assert_eq!(queue["rates"]["last_minute"]["completed"], 1);
    assert_eq!(t.get_ok("/queues").await["queues"], json!([queue]));
    let unused = t.get_ok("/queues/unused").await;
    assert_eq!((&unused["depth"]["scheduled"], &unused["oldest_age"]), (&json!(0), &Value::Null));
}

/// Model: audit-trail
#[tokio::test]
async fn the_audit_trail_is_filtered_and_paged() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a", "tenant": "acme"})).await;
    t.post_ok(200, &format!("/jobs/{id}/suspend"), json!({"reason": "why"})).await;
    t.advance(Duration::from_secs(10)).await;
    t.post_ok(200, &format!("/jobs/{id}/priority"), json!({"value": 90})).await;
    t.post_ok(200, "/queues/q/pause", json!({})).await;
    let all = t.get_ok("/audit").await;
    let names: Vec<&str> =
        all["records"].as_array().unwrap().iter().map(|record| record["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["job.lifecycle.suspended", "job.ops.priority_updated", "queue.ops.paused"]);
    let first = &all["records"][0];
    assert_eq!(
        (&first["seq"], &first["severity"], &first["tenant"]),
        (&json!(1), &json!("info"), &json!("acme"))
    );
    assert_eq!((&first["actor"], &first["job"]), (&json!({"type": "user", "id": "local"}), &json!(id)));
    for (field, value) in
        [("job_id", id.as_str()), ("actor_id", "local"), ("reason", "why"), ("previous_state", "scheduled")]
    {
        assert_eq!(first["context"][field], value);
    }
    let context = json!({"job_id": id, "actor_id": "local", "previous_priority": 50, "new_priority": 90});
    assert_eq!(all["records"][1]["context"], context);
    let count =
        async |query: &str| t.get_ok(&format!("/audit?{query}")).await["records"].as_array().unwrap().len();
    assert_eq!(count(&format!("job={id}")).await, 2);
    assert_eq!(count("event=queue.ops.paused").await, 1);
    assert_eq!(count("actor=local").await, 3);
    assert_eq!(count("actor=unknown").await, 0);
    assert_eq!(count("tenant=acme").await, 2);
    assert_eq!(count("since=2030-01-01T00:00:10Z").await, 2);
    assert_eq!(count("until=2030-01-01T00:00:10Z").await, 1);
    let page = t.get_ok("/audit?limit=2").await;
    let rest = t.get_ok(&format!("/audit?limit=2&cursor={}", page["next_cursor"].as_str().unwrap())).await;
    assert_eq!((rest["records"].as_array().unwrap().len(), &rest["next_cursor"]), (1, &Value::Null));
    for (query, field) in [
        ("event=x", "event"),
        ("cursor=x", "cursor"),
        ("limit=1001", "limit"),
        ("since=x", "since"),
        ("job=x", "job"),
    ] {
        assert_refused(&t.get(&format!("/audit?{query}")).await, 422, "invalid_value", Some(field));
    }
}

#[tokio::test]
async fn numbers_over_time_have_steps_totals_and_the_time_before() {
    let t = Fixture::new().await;
    t.completed(json!({"type": "a", "queue": "q"})).await;
    t.advance(Duration::from_secs(60)).await;
    t.submit(json!({"type": "b", "queue": "other"})).await;
    let hour = t.get_ok("/stats/history").await;
    assert_eq!((&hour["step"], hour["points"].as_array().map(Vec::len)), (&json!("1m"), Some(60)));
    assert_eq!((&hour["points"][58]["completed"], &hour["total"]["completed"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&hour["points"][58]["at"], &hour["previous"]),
        (&json!("2030-01-01T00:00:00.000Z"), &json!(null))
    );
    assert_eq!(t.get_ok("/stats/history?queue=other&range=1d").await["total"]["completed"], 0);
    let of_type = t.get_ok("/stats/history?type=a&range=30d").await;
    assert_eq!((&of_type["step"], &of_type["total"]["completed"]), (&json!("6h"), &json!(1)));
    let before = t.get_ok("/stats/history?range=15m&until=2030-01-01T00:00:00Z").await;
    assert_eq!(
        (&before["until"], &before["total"]["completed"]),
        (&json!("2030-01-01T00:00:00.000Z"), &json!(0))
    );
    for (query, field) in
        [("range=1s", "range"), ("range=31d", "range"), ("queue=q&type=a", "type"), ("until=x", "until")]
    {
        assert_refused(&t.get(&format!("/stats/history?{query}")).await, 422, "invalid_value", Some(field));
    }
}

#[tokio::test]
async fn numbers_are_shown_to_people_and_to_machines() {
    let t = Fixture::new().await;
    t.completed(json!({"type": "a", "queue": "q"})).await;
    t.submit(json!({"type": "b", "queue": "q", "tenant": "acme"})).await;
    t.advance(Duration::from_secs(60)).await;
    let stats = t.get_ok("/stats").await;
    assert_eq!((&stats["states"]["completed"], &stats["states"]["scheduled"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&stats["queues"]["q"]["completed"], &stats["types"]["b"]["scheduled"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(stats["tenants"]["acme"]["scheduled"], 1);
    assert_eq!(stats["minutes"][0]["completed"], 1);
    assert_eq!(stats["minutes"][0]["at"], "2030-01-01T00:00:00.000Z");
    assert!(stats["minutes"][0]["ran"]["p99"].is_string());
    let metrics = Request::new(t.address, "GET", "/metrics").send().await;
    let text = String::from_utf8(metrics.body).unwrap();
    for line in [
        "windlass_jobs{queue=\"q\",state=\"scheduled\"} 1",
        "windlass_queue_oldest_seconds{queue=\"q\"} 60",
        "windlass_build_info{version=\"0.1.0\",engine=\"\"} 1",
        "windlass_worker_slots 0",
        "windlass_http_requests_total{method=\"POST\",route=\"/jobs\",status=\"201\"} 2",
        "windlass_gate_online 1",
        "windlass_clock_believed 1",
        "windlass_clock_skew_seconds 0",
        "windlass_workers 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in {text}");
    }
    for (path, body) in [("/healthz", "ok\n"), ("/readyz", "ok\n")] {
        let answer = Request::new(t.address, "GET", path).send().await;
        assert_eq!((answer.status, answer.body.as_slice()), (200, body.as_bytes()));
    }
    t.store.close();
    assert_eq!(Request::new(t.address, "GET", "/healthz").send().await.status, 200);
    assert_refused(&Request::new(t.address, "GET", "/readyz").send().await, 503, "stopped", None);
    assert_refused(&t.get("/jobs").await, 503, "stopped", None);
}

/// An unused name is accepted, and the response says that it is unknown and lists similar names.
#[tokio::test]
async fn an_unknown_name_is_said_to_be_unknown() {
    let t = Fixture::new().await;
    t.submit(json!({"type": "email.send", "queue": "mail", "tenant": "acme"})).await;
    for (path, name, similar) in
        [("/queues", "mial", "mail"), ("/types", "email.sent", "email.send"), ("/tenants", "acm", "acme")]
    {
        assert_eq!(t.get_ok(&format!("{path}/{similar}")).await["known"], true);
        let look = t.get_ok(&format!("{path}/{name}")).await;
        assert_eq!((&look["known"], &look["similar"]), (&json!(false), &json!([similar])), "{path}");
        let set = put(&t, &format!("{path}/{name}"), json!({"max_running": 3})).await;
        assert_eq!((&set["known"], &set["similar"]), (&json!(false), &json!([similar])), "{path}");
        let set = put(&t, &format!("{path}/{name}"), json!({"max_running": 4})).await;
        assert_eq!((&set["known"], set.get("similar")), (&json!(true), None), "{path}");
        let listed = t.get_ok(path).await[&path[1..]].as_array().unwrap().clone();
        assert!(listed.len() >= 2 && listed.iter().all(|one| one["known"] == true), "{path}");
    }
    let paused = t.post_ok(200, "/queues/mali/pause", json!({})).await;
    assert_eq!((&paused["changed"], &paused["known"]), (&json!(true), &json!(false)));
    assert_eq!(t.get_ok("/queues/default").await["known"], true);
    let closed = t.post_ok(200, "/gate/offline", json!({"type": "emial.send"})).await;
    assert_eq!((&closed["known"], &closed["similar"][0]), (&json!(false), &json!("email.send")));
    assert_eq!(t.post_ok(200, "/gate/offline", json!({})).await.get("known"), None);
    // A worker that names it makes it known.
    t.post_ok(201, "/workers", json!({"queues": ["night"], "types": ["report"]})).await;
    assert_eq!(t.get_ok("/queues/night").await["known"], true);
    assert_eq!(t.get_ok("/types/report").await["known"], true);
}

/// Model: audit-chain. The head of the audit chain can be stored outside the store.
#[tokio::test]
async fn the_head_of_the_audit_trail_is_its_newest_seal() {
    let t = Fixture::new().await;
    let none = json!({"number": 0, "hash": null, "head": null, "signed_by": null});
    assert_eq!(t.get_ok("/audit/head").await, none);
    let id = t.submit(json!({"type": "a"})).await;
    t.post_ok(200, &format!("/jobs/{id}/cancel"), json!({})).await;
    let seal = t.store.seal().await.unwrap().seal;
    let head = t.get_ok("/audit/head").await;
    assert_eq!((&head["number"], &head["hash"]), (&json!(seal.through), &json!(seal.hash)));
    assert_eq!(head["head"], seal.to_string());
}
