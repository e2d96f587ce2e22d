//! Schedules over HTTP (Model: schedule-runs, schedule-actions).

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Fixture, assert_refused};

async fn put(t: &Fixture, name: &str, body: Value) -> Value {
    let answer = t.request("PUT", &format!("/schedules/{name}")).json(&body).send().await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()
}

#[tokio::test]
async fn a_schedule_is_put_shown_and_submits_its_job() {
    let t = Fixture::new().await;
    let body = json!({"cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "missed": "skip", "overlap": "skip",
        "job": {"type": "report", "payload": {"a" : 1}, "queue": "nightly", "priority": "low", "tags": {"k": "v"}}});
    let made = put(&t, "daily", body.clone()).await;
    assert_eq!(
        (&made["name"], &made["tenant"], &made["changed"]),
        (&json!("daily"), &json!("default"), &json!(true))
    );
    assert_eq!((&made["cron"], &made["timezone"]), (&json!("0 9 * * 1-5"), &json!("Europe/Berlin")));
    assert_eq!(
        (&made["missed"], &made["overlap"], &made["every"]),
        (&json!("skip"), &json!("skip"), &Value::Null)
    );
    assert_eq!((&made["job"]["type"], &made["job"]["payload"]), (&json!("report"), &json!({"a": 1})));
    // 2030-01-01 is a Tuesday; Berlin is an hour ahead.
    let runs = ["01T08", "02T08", "03T08", "04T08", "07T08"].map(|run| format!("2030-01-{run}:00:00.000Z"));
    assert_eq!(made["next_runs"], json!(runs));
    assert_eq!(put(&t, "daily", body).await["changed"], false);
    let every = put(&t, "often", json!({"every": "1m", "job": {"type": "tick"}})).await;
    assert_eq!((&every["every"], &every["next_runs"][0]), (&json!("1m"), &json!("2030-01-01T00:01:00.000Z")));
    assert_eq!(t.get_ok("/schedules").await["schedules"].as_array().unwrap().len(), 2);
    t.advance(Duration::from_secs(60)).await;
    let jobs = t.get_ok("/jobs?type=tick").await;
    let shown = t.get_ok("/schedules/often").await;
    assert_eq!((&shown["last_job"], &shown["submitted"]), (&jobs["jobs"][0]["id"], &json!(1)));
}

#[tokio::test]
async fn a_schedule_is_paused_resumed_triggered_and_removed() {
    let t = Fixture::new().await;
    put(&t, "s", json!({"every": "1h", "job": {"type": "a"}})).await;
    let paused = t.post_ok(200, "/schedules/s/pause", json!({"reason": "x"})).await;
    assert_eq!((&paused["changed"], &paused["paused"]["reason"]), (&json!(true), &json!("x")));
    assert_eq!(t.post_ok(200, "/schedules/s/pause", json!({})).await["changed"], false);
    assert_refused(&t.post("/schedules/s/pause?strict=true", json!({})).await, 409, "already_paused", None);
    let job = t.request("POST", "/schedules/s/trigger").send().await;
    assert_eq!((job.status, &job.json()["type"]), (201, &json!("a")));
    let resumed = t.request("POST", "/schedules/s/resume").send().await.json();
    assert_eq!((&resumed["changed"], &resumed["paused"]), (&json!(true), &Value::Null));
    assert_refused(&t.post("/schedules/s/resume?strict=true", json!({})).await, 409, "not_paused", None);
    assert_eq!(t.request("DELETE", "/schedules/s").send().await.status, 204);
    for (method, path) in
        [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/trigger")]
    {
        let refused = t.request(method, &format!("/schedules/s{path}")).send().await;
        assert_refused(&refused, 404, "not_found", None);
    }
}

#[tokio::test]
async fn a_schedule_that_makes_no_sense_is_refused() {
    let t = Fixture::new().await;
    let job = json!({"type": "a"});
    for (body, field) in [
        (json!({"job": job}), "cron"),
        (json!({"every": "1m"}), "job"),
        (json!({"cron": "* * * *", "job": job}), "cron"),
        (json!({"cron": "99 * * * *", "job": job}), "cron"),
        (json!({"cron": "* * * * *", "timezone": "Mars/Olympus", "job": job}), "timezone"),
        (json!({"every": "1m", "timezone": "UTC", "job": job}), "timezone"),
        (json!({"every": "1m", "cron": "* * * * *", "job": job}), "every"),
        (json!({"every": "1m", "at": "2031-01-01T00:00:00Z", "job": job}), "every"),
        (json!({"every": "0s", "job": job}), "every"),
        (json!({"at": "2029-01-01T00:00:00Z", "job": job}), "at"),
        (json!({"every": "1m", "missed": "twice", "job": job}), "missed"),
        (json!({"every": "1m", "overlap": "maybe", "job": job}), "overlap"),
        (json!({"every": "1m", "job": {}}), "job.type"),
        (json!({"every": "1m", "job": {"type": "a", "priority": 500}}), "job.priority"),
        (json!({"every": "1m", "job": {"type": "a", "idempotency_key": "k"}}), "job.idempotency_key"),
        (json!({"every": "1m", "job": {"type": "a", "unique_key": "k".repeat(300)}}), "job.unique_key"),
        (json!({"every": "1m", "job": job, "colour": 1}), "colour"),
    ] {
        let refused = t.request("PUT", "/schedules/s").json(&body).send().await;
        assert_refused(&refused, 422, "invalid_value", Some(field));
    }
    let named = t.request("PUT", "/schedules/1").json(&json!({"every": "1m", "job": job})).send().await;
    assert_refused(&named, 422, "invalid_value", Some("schedule"));
}

#[tokio::test]
async fn a_deleted_schedule_is_listed_and_restored() {
    let t = Fixture::new().await;
    put(&t, "s", json!({"every": "1h", "job": {"type": "a", "payload": [7]}})).await;
    assert_refused(&t.post("/schedules/s/restore", json!({})).await, 404, "not_found", None);
    assert_eq!(t.request("DELETE", "/schedules/s").send().await.status, 204);
    let deleted = t.get_ok("/schedules?deleted=true").await;
    let one = &deleted["schedules"][0];
    assert_eq!((&one["name"], &one["job"]["payload"]), (&json!("s"), &json!([7])));
    assert_eq!((&one["deleted_by"], &one["next_runs"]), (&json!("local"), &json!([])));
    assert!(one["deleted_at"].is_string());
    let restored = t.post_ok(200, "/schedules/s/restore", json!({})).await;
    assert_eq!((&restored["name"], restored.get("deleted_at")), (&json!("s"), None));
    assert_eq!(t.get_ok("/schedules?deleted=true").await["schedules"], json!([]));
    assert_eq!(t.get_ok("/schedules").await["schedules"].as_array().unwrap().len(), 1);
}

/// A cursor can be put into an address as it is, and pages follow the order of the list.
#[tokio::test]
async fn schedules_and_alerts_are_read_in_pages() {
    let t = Fixture::new().await;
    let names = ["a", "a-b", "a.b", "a:b", "a_b", "ab"];
    for (name, tenant) in names.into_iter().flat_map(|name| [(name, "default"), (name, "default-2")]) {
        let job = json!({"type": "report", "tenant": tenant});
        let schedule = json!({"every": "1h", "job": job});
        let put = t.request("PUT", &format!("/schedules/{name}")).json(&schedule).send().await;
        assert_eq!(put.status, 200, "{}", put.json());
        let alert = json!({"condition": "dead_letters", "url": "https://example.com/alerts"});
        let put = t.request("PUT", &format!("/alerts/{name}")).json(&alert).send().await;
        assert_eq!(put.status, 200, "{}", put.json());
    }
    for list in ["schedules", "alerts"] {
        let all = t.get_ok(&format!("/{list}")).await[list].clone();
        let (mut read, mut path) = (Vec::new(), format!("/{list}?limit=1"));
        loop {
            let page = t.get_ok(&path).await;
            read.extend(page[list].as_array().unwrap().clone());
            let Some(cursor) = page["next_cursor"].as_str() else { break };
            assert!(cursor.chars().all(|c| c.is_ascii_alphanumeric() || "-._~!:".contains(c)), "{cursor}");
            path = format!("/{list}?limit=1&cursor={cursor}");
        }
        assert_eq!(json!(read), all);
        assert!(read.len() >= names.len());
    }
}
