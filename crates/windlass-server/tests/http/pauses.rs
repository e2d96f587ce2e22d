//! Pauses over HTTP: of queues, workers and all processing.

use serde_json::{Value, json};

use crate::fixture::{Fixture, assert_refused};

/// Model: queue-pause, pause-reason-and-expiry. Stored with who, when, why; repeats keep the first reason.
#[tokio::test]
async fn a_queue_is_paused_and_resumed_and_repeats_change_nothing() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a", "queue": "mail"})).await;
    let worker = t.worker().await;
    let paused = t.post_ok(200, "/queues/mail/pause", json!({"reason": "storm", "expires": "1h"})).await;
    assert_eq!(paused["changed"], true);
    let pause = json!({"by": "local", "at": "2030-01-01T00:00:00.000Z", "reason": "storm", "mode": "graceful",
        "expires_at": "2030-01-01T01:00:00.000Z"});
    assert_eq!(paused["paused"], pause);
    let again = t.post_ok(200, "/queues/mail/pause", json!({"reason": "again"})).await;
    assert_eq!((&again["changed"], &again["paused"]), (&json!(false), &pause));
    let strict = t.post("/queues/mail/pause?strict=true", json!({})).await;
    assert_refused(&strict, 409, "already_paused", None);
    assert_eq!(strict.json()["error"]["details"], json!({"state": "paused", "action": "pause"}));
    assert_eq!(t.post_ok(200, "/claims", json!({"worker_id": worker})).await["jobs"], json!([]));
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["why"]["code"], "queue_paused");
    let reasons = t.get_ok(&format!("/jobs/{id}/explain")).await;
    assert_eq!(
        (&reasons["reasons"][0]["code"], &reasons["reasons"][0]["by"]),
        (&json!("queue_paused"), &json!("local"))
    );
    let resumed = t.request("POST", "/queues/mail/resume").send().await.json();
    assert_eq!((&resumed["changed"], &resumed["paused"]), (&json!(true), &Value::Null));
    assert_eq!(t.post_ok(200, "/queues/mail/resume", json!({})).await["changed"], false);
    assert_refused(&t.post("/queues/mail/resume?strict=true", json!({})).await, 409, "not_paused", None);
    assert_eq!(t.claim(&worker).await["id"], id.as_str());
    assert_refused(
        &t.post("/queues/mail/pause", json!({"mode": "x"})).await,
        422,
        "invalid_value",
        Some("mode"),
    );
    assert_refused(&t.post("/queues/1/pause", json!({})).await, 422, "invalid_value", Some("queue"));
}

/// Model: queue-pause. An aggressive pause suspends what runs.
#[tokio::test]
async fn an_aggressive_pause_suspends_running_jobs() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "a"})).await, t.worker().await);
    t.claim(&worker).await;
    t.post_ok(200, "/queues/default/pause", json!({"mode": "aggressive"})).await;
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["state"], "suspended");
    // Resuming the queue leaves the jobs as they are, unless it is asked for.
    let resumed = t.post_ok(200, "/queues/default/resume", json!({})).await;
    assert_eq!((&resumed["changed"], resumed.get("jobs_resumed")), (&json!(true), None));
    assert_eq!(resumed["resumed"], json!({"by": "local", "at": "2030-01-01T00:00:00.000Z", "reason": null}));
    assert_eq!(t.get_ok("/jobs?suspended_by_pause=true").await["jobs"][0]["id"], id.as_str());
    let body = json!({"jobs": true, "reason": "over"});
    let resumed = t.post_ok(200, "/queues/default/resume", body.clone()).await;
    assert_eq!((&resumed["changed"], &resumed["jobs_resumed"]), (&json!(false), &json!(1)));
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["state"], "scheduled");
    assert_refused(&t.post("/queues/default/resume?strict=true", body).await, 409, "not_paused", None);
}

/// Model: processing-on-and-off. Offline and online, for all, a tenant or a type.
#[tokio::test]
async fn the_gate_closes_and_opens() {
    let t = Fixture::new().await;
    let open =
        json!({"online": true, "reason": null, "by": null, "since": null, "expires_at": null, "scopes": []});
    assert_eq!(t.get_ok("/gate").await, open);
    let closed = t.post_ok(200, "/gate/offline", json!({"reason": "upgrade"})).await;
    assert_eq!(
        (&closed["online"], &closed["reason"], &closed["changed"]),
        (&json!(false), &json!("upgrade"), &json!(true))
    );
    assert_eq!((&closed["by"], &closed["since"]), (&json!("local"), &json!("2030-01-01T00:00:00.000Z")));
    assert_eq!(t.post_ok(200, "/gate/offline", json!({"reason": "x"})).await["changed"], false);
    let (id, worker) = (t.submit(json!({"type": "a", "tenant": "acme"})).await, t.worker().await);
    assert_eq!(t.post_ok(200, "/claims", json!({"worker_id": worker})).await["jobs"], json!([]));
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["why"]["code"], "gate_closed");
    assert_eq!(t.request("POST", "/gate/online").send().await.json()["online"], true);
    t.post_ok(200, "/gate/offline", json!({"tenant": "acme", "reason": "unpaid"})).await;
    t.post_ok(200, "/gate/offline", json!({"type": "a", "expires": "1h"})).await;
    let gate = t.get_ok("/gate").await;
    assert_eq!(gate["online"], true);
    assert_eq!(
        (&gate["scopes"][0]["tenant"], &gate["scopes"][0]["reason"]),
        (&json!("acme"), &json!("unpaid"))
    );
    assert_eq!(gate["scopes"][1]["type"], "a");
    assert_eq!(t.post_ok(200, "/claims", json!({"worker_id": worker})).await["jobs"], json!([]));
    t.post_ok(200, "/gate/online", json!({"tenant": "acme"})).await;
    assert_eq!(t.post_ok(200, "/gate/online", json!({"type": "a"})).await["scopes"], json!([]));
    t.claim(&worker).await;
    let both = t.post("/gate/offline", json!({"type": "a", "tenant": "acme"})).await;
    assert_refused(&both, 422, "invalid_value", Some("type"));
}

/// Model: worker-pause
#[tokio::test]
async fn workers_are_listed_paused_and_resumed() {
    let t = Fixture::new().await;
    let body = json!({"name": "one", "queues": ["q"], "types": ["a"], "concurrency": 3, "version": "v1", "heartbeats": false});
    let id = t.post_ok(201, "/workers", body).await["worker_id"].as_str().unwrap().to_owned();
    let worker = t.get_ok("/workers").await["workers"][0].clone();
    assert_eq!((&worker["id"], &worker["name"], &worker["alive"]), (&json!(id), &json!("one"), &json!(true)));
    assert_eq!(
        (&worker["queues"], &worker["types"], &worker["concurrency"]),
        (&json!(["q"]), &json!(["a"]), &json!(3))
    );
    let paused =
        t.post_ok(200, &format!("/workers/{id}/pause"), json!({"mode": "aggressive", "reason": "hot"})).await;
    assert_eq!((&paused["paused"]["mode"], &paused["changed"]), (&json!("aggressive"), &json!(true)));
    assert_eq!(
        t.post_ok(200, "/claims", json!({"worker_id": id})).await,
        json!({"jobs": [], "paused": true})
    );
    let pulse = t.post_ok(200, "/heartbeats", json!({"worker_id": id, "jobs": []})).await;
    assert_eq!(pulse["worker"], json!({"paused": true, "mode": "aggressive"}));
    assert_eq!(t.post_ok(200, &format!("/workers/{id}/pause"), json!({})).await["changed"], false);
    assert_eq!(t.post_ok(200, &format!("/workers/{id}/resume"), json!({})).await["paused"], Value::Null);
    let unknown = "/workers/00000000-0000-4000-8000-000000000000";
    assert_refused(&t.post(&format!("{unknown}/pause"), json!({})).await, 404, "not_found", None);
    assert_refused(&t.request("DELETE", unknown).send().await, 404, "not_found", None);
    assert_refused(&t.request("DELETE", "/workers/x").send().await, 404, "not_found", None);
}
