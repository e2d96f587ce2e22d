//! What is set for jobs over HTTP: limits on the start and on attempts, hashed jitter, causes of errors, retention.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Fixture, assert_refused};

async fn put(t: &Fixture, path: &str, body: Value) -> Value {
    let answer = t.request("PUT", path).json(&body).send().await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.json());
    answer.json()
}

/// Model: setting-levels. A job that is not started in time fails; settings give the limit to those that do not.
#[tokio::test]
async fn a_job_that_is_not_started_in_time_fails() {
    let t = Fixture::new().await;
    let own = t.post_ok(201, "/jobs", json!({"type": "a", "timeouts": {"start": "1m"}})).await;
    assert_eq!(own["timeouts"]["start"], "1m");
    let set = put(&t, "/queues/slow", json!({"timeouts": {"start": "30s"}})).await;
    assert_eq!(set["timeouts"]["start"], "30s");
    let queued = t.post_ok(201, "/jobs", json!({"type": "a", "queue": "slow"})).await;
    assert_eq!(queued["timeouts"]["start"], "30s");
    assert_eq!(t.post_ok(201, "/jobs", json!({"type": "a"})).await["timeouts"]["start"], Value::Null);
    t.advance(Duration::from_secs(60)).await;
    for job in [own, queued] {
        let job = t.get_ok(&format!("/jobs/{}?wait=10s", job["id"].as_str().unwrap())).await;
        assert_eq!((&job["state"], &job["attempt"]), (&json!("failed"), &json!(0)));
        let error = &job["error"];
        assert_eq!(
            (&error["category"], &error["code"]),
            (&json!("resource"), &json!("start_deadline_exceeded"))
        );
        assert_eq!(error["error_type"], "TERMINAL");
    }
    let refused = t.post("/jobs", json!({"type": "a", "timeouts": {"start": "0s"}})).await;
    assert_refused(&refused, 422, "invalid_value", Some("timeouts.start"));
}

/// Model: execution-timeout. A queue or a type bounds attempts, whatever their jobs ask for.
#[tokio::test]
async fn a_longer_attempt_than_allowed_is_cut() {
    let t = Fixture::new().await;
    put(&t, "/queues/default", json!({"timeouts": {"max_execution": "10m"}})).await;
    let long = json!({"type": "a", "timeouts": {"execution": "2h"}});
    assert_eq!(t.post_ok(201, "/jobs", long.clone()).await["timeouts"]["execution"], "10m");
    let set = put(&t, "/types/a", json!({"timeouts": {"max_execution": "1m"}})).await;
    assert_eq!(set["timeouts"]["max_execution"], "1m");
    assert_eq!(t.post_ok(201, "/jobs", long.clone()).await["timeouts"]["execution"], "1m");
    put(&t, "/types/a", json!({"timeouts": null})).await;
    put(&t, "/queues/default", json!({"timeouts": {"max_execution": null}})).await;
    assert_eq!(t.post_ok(201, "/jobs", long).await["timeouts"]["execution"], "2h");
    let refused = t.post("/jobs", json!({"type": "a", "timeouts": {"max_execution": "1m"}})).await;
    assert_refused(&refused, 422, "invalid_value", Some("timeouts.max_execution"));
}

/// Model: retry-defaults. The jitter of a policy can be hashed; the policy says so.
#[tokio::test]
async fn a_policy_says_where_its_jitter_comes_from() {
    let t = Fixture::new().await;
    let retry = json!({"jitter_mode": "hashed", "retry_on": ["resource", "system"]});
    let job = t.post_ok(201, "/jobs", json!({"type": "a", "retry": retry})).await;
    assert_eq!(job["retry"]["jitter_mode"], "hashed");
    assert_eq!(job["retry"]["retry_on"], json!(["resource", "system"]));
    assert_eq!(t.post_ok(201, "/jobs", json!({"type": "a"})).await["retry"]["jitter_mode"], "random");
    let refused = t.post("/jobs", json!({"type": "a", "retry": {"jitter_mode": "loud"}})).await;
    assert_eq!(refused.status, 422);
}

/// Model: error-categories, error-record. Causes are texts or texts with a code; `resource` is a category like the others.
#[tokio::test]
async fn an_error_names_the_errors_behind_it() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "a"})).await, t.worker().await);
    let claimed = t.claim(&worker).await;
    let causes: Vec<Value> = (0..12).map(|n| json!(format!("cause {n}"))).collect();
    let mut given = vec![json!({"message": "no space left", "code": "ENOSPC"})];
    given.extend(causes);
    let error =
        json!({"category": "resource", "code": "disk_full", "message": "cannot write", "cause": given});
    let answer = t
        .report(&worker, json!({"id": id, "fence": claimed["fence"], "outcome": "failed", "error": error}))
        .await;
    assert_eq!((&answer["status"], &answer["state"]), (&json!("applied"), &json!("failed")), "{answer}");
    let job = t.get_ok(&format!("/jobs/{id}")).await;
    let kept = job["error"]["cause"].as_array().unwrap();
    assert_eq!(kept.len(), 8);
    assert_eq!(kept[0], json!({"message": "no space left", "code": "ENOSPC"}));
    assert_eq!(kept[7], json!({"message": "cause 6", "code": null}));
    assert_eq!(job["error"]["category"], "resource");
    let attempts = t.get_ok(&format!("/jobs/{id}/attempts")).await;
    assert_eq!(attempts["attempts"][0]["error"]["cause"], job["error"]["cause"]);
    let (id, worker) = (t.submit(json!({"type": "b"})).await, t.worker().await);
    let claimed = t.claim(&worker).await;
    for bad in [json!("x"), json!([1]), json!([{"code": "x"}]), json!([{"message": "x", "y": 1}])] {
        let error = json!({"message": "no", "cause": bad});
        let report = json!({"id": id, "fence": claimed["fence"], "outcome": "failed", "error": error});
        assert_eq!(t.report(&worker, report).await["status"], "rejected", "{bad}");
    }
}

/// Model: retention. Kept by type, queue and state; shown where it is set, merged, cleared by null.
#[tokio::test]
async fn retention_is_set_for_queues_and_types() {
    let t = Fixture::new().await;
    let none = json!({"completed": null, "failed": null, "dead_letter": null, "cancelled": null});
    assert_eq!(t.get_ok("/queues/mail").await["retention"], none);
    put(&t, "/queues/mail", json!({"retention": {"completed": "1h", "cancelled": "2d"}})).await;
    let set = put(&t, "/queues/mail", json!({"retention": {"failed": "90d", "cancelled": null}})).await;
    let expected = json!({"completed": "1h", "failed": "90d", "dead_letter": null, "cancelled": null});
    assert_eq!(set["retention"], expected);
    assert_eq!(t.get_ok("/queues/mail").await["retention"], expected);
    assert_eq!(put(&t, "/queues/mail", json!({"retention": null})).await["retention"], none);
    let set = put(&t, "/types/email", json!({"retention": {"dead_letter": "365d"}})).await;
    assert_eq!(set["retention"]["dead_letter"], "365d");
    let refused =
        t.request("PUT", "/queues/mail").json(&json!({"retention": {"running": "1h"}})).send().await;
    assert_refused(&refused, 422, "invalid_value", Some("retention.running"));
}
