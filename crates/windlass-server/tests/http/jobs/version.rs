//! Jobs that require a version of their worker, over HTTP.

use serde_json::{Value, json};

use crate::fixture::{Fixture, assert_refused};

async fn worker_of(t: &Fixture, version: &str) -> String {
    let worker = t.post_ok(201, "/workers", json!({"version": version, "heartbeats": false})).await;
    worker["worker_id"].as_str().unwrap().to_owned()
}

async fn claims(t: &Fixture, worker: &str) -> Vec<Value> {
    let found = t.post_ok(200, "/claims", json!({"worker_id": worker, "limit": 10})).await;
    found["jobs"].as_array().unwrap().clone()
}

/// Model: worker-versions
#[tokio::test]
async fn only_workers_of_the_version_are_given_the_job() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a", "requires_version": "2.4.0"})).await;
    assert_eq!(t.get_ok(&format!("/jobs/{id}")).await["requires_version"], "2.4.0");
    let (other, own) = (worker_of(&t, "2.5.0").await, worker_of(&t, "2.4.0").await);
    assert!(claims(&t, &other).await.is_empty());
    let given = claims(&t, &own).await;
    assert_eq!((&given[0]["id"], &given[0]["requires_version"]), (&json!(id), &json!("2.4.0")));
    let plain = t.submit(json!({"type": "a"})).await;
    assert_eq!(t.get_ok(&format!("/jobs/{plain}")).await["requires_version"], Value::Null);
    let given = claims(&t, &other).await;
    assert_eq!((&given[0]["id"], given[0].get("requires_version")), (&json!(plain), None));
}

/// Model: worker-versions, explained-waiting
#[tokio::test]
async fn the_reason_names_the_live_versions() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a", "requires_version": "old"})).await;
    worker_of(&t, "new").await;
    let why = t.get_ok(&format!("/jobs/{id}/explain")).await["reasons"][0].clone();
    assert_eq!((&why["code"], &why["requires_version"]), (&json!("no_worker"), &json!("old")), "{why}");
    assert_eq!(why["live_versions"], json!(["new"]));
}

#[tokio::test]
async fn every_kind_of_submission_takes_a_version() {
    let t = Fixture::new().await;
    let job = json!({"type": "a", "requires_version": "v1"});
    let batch = t.post_ok(201, "/jobs/batch", json!({"jobs": [job]})).await;
    assert_eq!(batch["jobs"][0]["requires_version"], "v1", "{batch}");
    let schedule =
        t.request("PUT", "/schedules/nightly").json(&json!({"every": "1h", "job": job})).send().await;
    assert_eq!(schedule.json()["job"]["requires_version"], "v1", "{}", schedule.json());
    let fired = t.request("POST", "/schedules/nightly/trigger").send().await;
    assert_eq!(fired.json()["requires_version"], "v1", "{}", fired.json());
    let parent = t.submit(json!({"type": "parent"})).await;
    let worker = worker_of(&t, "v2").await;
    let claimed = claims(&t, &worker).await;
    assert_eq!(claimed.len(), 1, "the parent alone");
    let group = json!({"worker_id": worker, "fence": claimed[0]["fence"], "name": "all", "strategy": "collect_all",
        "jobs": [job]});
    let spawned = t.post(&format!("/jobs/{parent}/children"), group).await;
    assert_eq!(spawned.status, 201, "{}", spawned.json());
    let listed = t.get_ok("/jobs?state=scheduled&type=a").await;
    let all = listed["jobs"].as_array().unwrap();
    assert!(all.len() >= 2 && all.iter().all(|one| one["requires_version"] == "v1"), "{listed}");
}

/// Model: worker-versions, final-states
#[tokio::test]
async fn a_redrive_may_change_the_version_and_nothing_else_may() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a", "requires_version": "v1"})).await;
    let patched =
        t.request("PATCH", &format!("/jobs/{id}")).json(&json!({"requires_version": "v2"})).send().await;
    assert_eq!(patched.status, 422);
    t.post_ok(200, &format!("/jobs/{id}/cancel"), json!({})).await;
    for (body, expected) in [
        (json!({}), json!("v1")),
        (json!({"requires_version": "v2"}), json!("v2")),
        (json!({"requires_version": null}), Value::Null),
    ] {
        let new = t.post_ok(201, &format!("/jobs/{id}/redrive"), body).await;
        assert_eq!(new["requires_version"], expected);
    }
}

#[tokio::test]
async fn what_is_not_a_version_is_refused() {
    let t = Fixture::new().await;
    for bad in ["", "1 2", "v1\n", &"v".repeat(256)] {
        let refused = t.post("/jobs", json!({"type": "a", "requires_version": bad})).await;
        assert_refused(&refused, 422, "invalid_value", Some("requires_version"));
    }
}
