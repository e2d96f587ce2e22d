//! Suspensions that wait for a running attempt, and jobs that are final already, over HTTP.

use serde_json::{Value, json};

use crate::fixture::{Fixture, assert_refused};

/// Model: pending-suspension. Shown in the snapshot, in `why`, by `explain` and in the trail; withdrawn by a resume.
#[tokio::test]
async fn a_graceful_suspension_of_a_running_job_is_shown_until_it_takes_effect() {
    let t = Fixture::new().await;
    let (id, worker) = (t.submit(json!({"type": "a"})).await, t.worker().await);
    let claimed = t.claim(&worker).await;
    let suspend = format!("/jobs/{id}/suspend");
    let asked =
        t.post_ok(200, &suspend, json!({"mode": "graceful", "reason": "deploy", "expires": "1h"})).await;
    let requested = json!({"by": "local", "reason": "deploy", "mode": "graceful",
        "at": "2030-01-01T00:00:00.000Z", "expires_at": "2030-01-01T01:00:00.000Z"});
    assert_eq!((&asked["changed"], &asked["state"]), (&json!(true), &json!("running")));
    assert_eq!((&asked["suspend_requested"], &asked["suspension"]), (&requested, &Value::Null));
    assert_eq!(
        (&asked["why"]["code"], &asked["why"]["mode"]),
        (&json!("suspend_requested"), &json!("graceful"))
    );
    let again = t.post_ok(200, &suspend, json!({"mode": "graceful", "reason": "other"})).await;
    assert_eq!((&again["changed"], &again["suspend_requested"]), (&json!(false), &requested));
    let strictly = t.post(&format!("{suspend}?strict=true"), json!({"mode": "graceful"})).await;
    assert_refused(&strictly, 409, "already_suspended", None);
    let error = strictly.json()["error"].clone();
    assert_eq!(error["details"], json!({"state": "running", "action": "suspend"}));
    assert!(error["message"].as_str().unwrap().contains("already requested"), "{error}");
    let explained = t.get_ok(&format!("/jobs/{id}/explain")).await;
    assert_eq!(explained["reasons"][0]["code"], "suspend_requested");
    let withdrawn = t.post_ok(200, &format!("/jobs/{id}/resume"), json!({})).await;
    assert_eq!((&withdrawn["changed"], &withdrawn["suspend_requested"]), (&json!(true), &Value::Null));
    t.post_ok(200, &suspend, json!({"mode": "graceful", "reason": "deploy"})).await;
    let error = json!({"category": "temporary", "message": "busy"});
    t.report(&worker, json!({"id": id, "fence": claimed["fence"], "outcome": "failed", "error": error}))
        .await;
    let held = t.get_ok(&format!("/jobs/{id}")).await;
    assert_eq!((&held["state"], &held["suspend_requested"]), (&json!("suspended"), &Value::Null));
    assert_eq!((&held["suspension"]["mode"], &held["suspended_by"]), (&json!("graceful"), &json!("local")));
    let records = t.get_ok(&format!("/audit?job={id}")).await["records"].as_array().unwrap().clone();
    let reported: Vec<(&str, &str, &str)> = records
        .iter()
        .map(|record| {
            let word = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned().leak() as &str;
            (word(&record["event"]), word(&record["actor"]["id"]), word(&record["context"]["mode"]))
        })
        .collect();
    let expected = [
        ("job.lifecycle.suspend_requested", "local", "graceful"),
        ("job.lifecycle.resumed", "local", "graceful"),
        ("job.lifecycle.suspend_requested", "local", "graceful"),
        ("job.lifecycle.suspended", "local", "graceful"),
    ];
    assert_eq!(reported, expected);
}

/// Model: refused-changes. A final job cannot be suspended in any mode; cancelling a cancelled one changes nothing.
#[tokio::test]
async fn a_final_job_is_refused_in_every_mode() {
    let t = Fixture::new().await;
    let done = t.completed(json!({"type": "a"})).await;
    let cancelled = t.submit(json!({"type": "a"})).await;
    t.post_ok(200, &format!("/jobs/{cancelled}/cancel"), json!({})).await;
    for (id, state) in [(&done, "completed"), (&cancelled, "cancelled")] {
        for mode in [
            json!({}),
            json!({"mode": "idle_only"}),
            json!({"mode": "graceful"}),
            json!({"mode": "aggressive"}),
        ] {
            for strict in ["", "?strict=true"] {
                let refused = t.post(&format!("/jobs/{id}/suspend{strict}"), mode.clone()).await;
                assert_refused(&refused, 409, "state_conflict", None);
                assert_eq!(refused.json()["error"]["details"], json!({"state": state, "action": "suspend"}));
            }
        }
    }
    assert_eq!(t.post_ok(200, &format!("/jobs/{cancelled}/cancel"), json!({})).await["changed"], false);
    let refused = t.post(&format!("/jobs/{done}/cancel"), json!({})).await;
    assert_refused(&refused, 409, "state_conflict", None);
}
