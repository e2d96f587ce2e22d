//! Alerts over HTTP (Model: alerts).

use std::time::Duration;

use serde_json::{Value, json};
use windlass::store::caller::Role;

use crate::access::{ask, key};
use crate::fixture::{Fixture, assert_refused};

const URL: &str = "https://hooks.example.com/services/SECRET";

async fn put(t: &Fixture, path: &str, body: Value) -> Value {
    let answer = t.request("PUT", &format!("/alerts/{path}")).json(&body).send().await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()
}

fn dead() -> Value {
    json!({"condition": "dead_letters", "url": URL})
}

#[tokio::test]
async fn an_alert_is_put_shown_fires_and_resolves() {
    let t = Fixture::new().await;
    let body = json!({"condition": "oldest_ready", "longer_than": "5m", "queue": "mail", "type": "email.send",
        "url": URL, "format": "slack", "pending_for": "1m", "keep_firing_for": "0s", "repeat_interval": "1h"});
    let made = put(&t, "late", body.clone()).await;
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(made[field], *value, "{field}");
    }
    assert_eq!(
        (&made["name"], &made["tenant"], &made["changed"]),
        (&json!("late"), &Value::Null, &json!(true))
    );
    assert_eq!(made["description"], "a job that is ready for more than 5m in queue mail of type email.send");
    assert_eq!((&made["state"], &made["since"]), (&json!("ok"), &json!("2030-01-01T00:00:00.000Z")));
    assert_eq!(put(&t, "late", body).await["changed"], false);
    let defaults = put(&t, "dead", dead()).await;
    assert_eq!((&defaults["more_than"], &defaults["within"]), (&json!(0), &json!("10m")));
    assert_eq!((&defaults["keep_firing_for"], &defaults["format"]), (&json!("5m"), &json!("webhook")));
    assert_eq!(t.get_ok("/alerts").await["alerts"].as_array().unwrap().len(), 2);
    let page = t.get_ok("/alerts?limit=1").await;
    assert_eq!((&page["alerts"][0]["name"], page["next_cursor"].is_string()), (&json!("dead"), true));
    t.submit(json!({"type": "email.send", "queue": "mail"})).await;
    for seconds in [301, 60] {
        t.advance(Duration::from_secs(seconds)).await;
        t.store.check_alerts().await.unwrap();
    }
    let fired = t.get_ok("/alerts/late").await;
    assert_eq!((&fired["state"], &fired["value"]), (&json!("firing"), &json!("6m 1s")));
    assert_eq!(fired["since"], fired["notified_at"]);
    let delivery = t.get_ok(&format!("/jobs/{}", fired["last_delivery"].as_str().unwrap())).await;
    assert_eq!(
        (&delivery["type"], &delivery["queue"]),
        (&json!("windlass.alert"), &json!("windlass.callbacks"))
    );
    assert!(!delivery.to_string().contains("SECRET"), "{delivery}");
    let worker = t.worker().await;
    t.claim(&worker).await;
    t.store.check_alerts().await.unwrap();
    assert_eq!(t.get_ok("/alerts/late").await["state"], "ok");
    let events: Vec<Value> = t.get_ok("/audit").await["records"].as_array().unwrap().clone();
    let of = |name: &str| {
        events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("{name}")).clone()
    };
    assert_eq!(of("alert.ops.fired")["context"]["value"], "6m 1s");
    assert_eq!(of("alert.ops.resolved")["context"]["alert"], "late");
    assert!(!json!(events).to_string().contains("SECRET"));
}

#[tokio::test]
async fn an_alert_is_paused_resumed_tested_and_removed() {
    let t = Fixture::new().await;
    put(&t, "a", dead()).await;
    let paused = t.post_ok(200, "/alerts/a/pause", json!({"reason": "x", "expires": "1h"})).await;
    assert_eq!((&paused["changed"], &paused["paused"]["reason"]), (&json!(true), &json!("x")));
    assert_eq!(paused["paused"]["expires_at"], "2030-01-01T01:00:00.000Z");
    assert_eq!(t.post_ok(200, "/alerts/a/pause", json!({})).await["changed"], false);
    assert_refused(&t.post("/alerts/a/pause?strict=true", json!({})).await, 409, "already_paused", None);
    let job = t.request("POST", "/alerts/a/test").send().await;
    assert_eq!((job.status, &job.json()["tags"]["alert"]), (201, &json!("a")));
    let resumed = t.request("POST", "/alerts/a/resume").send().await.json();
    assert_eq!((&resumed["changed"], &resumed["paused"]), (&json!(true), &Value::Null));
    assert_eq!(resumed["last_delivery"], job.json()["id"]);
    assert_refused(&t.post("/alerts/a/resume?strict=true", json!({})).await, 409, "not_paused", None);
    assert_eq!(t.request("DELETE", "/alerts/a").send().await.status, 204);
    for (method, path) in
        [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/test")]
    {
        let refused = t.request(method, &format!("/alerts/a{path}")).send().await;
        assert_refused(&refused, 404, "not_found", None);
    }
}

#[tokio::test]
async fn an_alert_that_makes_no_sense_is_refused() {
    let t = Fixture::new().await;
    for (body, field) in [
        (json!({"url": URL}), "condition"),
        (json!({"condition": "weather", "url": URL}), "condition"),
        (json!({"condition": "dead_letters"}), "url"),
        (json!({"condition": "dead_letters", "url": "ftp://example.com"}), "url"),
        (json!({"condition": "dead_letters", "url": "https://10.1.2.3/x"}), "url"),
        (json!({"condition": "dead_letters", "url": URL, "within": "2h"}), "within"),
        (json!({"condition": "dead_letters", "url": URL, "longer_than": "2h"}), "longer_than"),
        (json!({"condition": "dead_letters", "url": URL, "min_attempts": 3}), "min_attempts"),
        (json!({"condition": "oldest_ready", "url": URL}), "longer_than"),
        (json!({"condition": "oldest_ready", "url": URL, "longer_than": "1m", "within": "1m"}), "within"),
        (json!({"condition": "failure_rate", "url": URL}), "more_than"),
        (json!({"condition": "failure_rate", "url": URL, "more_than": 100}), "more_than"),
        (json!({"condition": "schedule_missed", "url": URL, "more_than": 1}), "more_than"),
        (json!({"condition": "clock_offset", "url": URL, "longer_than": "1m", "queue": "mail"}), "queue"),
        (json!({"condition": "dead_letters", "url": URL, "repeat_interval": "1s"}), "repeat_interval"),
        (json!({"condition": "dead_letters", "url": URL, "pending_for": "2d"}), "pending_for"),
        (json!({"condition": "dead_letters", "url": URL, "format": "fax"}), "format"),
        (json!({"condition": "dead_letters", "url": URL, "colour": 1}), "colour"),
    ] {
        let refused = t.request("PUT", "/alerts/a").json(&body).send().await;
        assert_refused(&refused, 422, "invalid_value", Some(field));
    }
    let named = t.request("PUT", "/alerts/1").json(&dead()).send().await;
    assert_refused(&named, 422, "invalid_value", Some("alert"));
}

/// Model: tenant-isolation, roles
#[tokio::test]
async fn tenants_have_alerts_of_their_own() {
    let t = Fixture::new().await;
    let admin = key(&t, "root", Role::Admin, None).await;
    let blue = key(&t, "bo", Role::Operator, Some("blue")).await;
    let viewer = key(&t, "vi", Role::Viewer, Some("blue")).await;
    let green = key(&t, "gil", Role::Operator, Some("green")).await;
    for (secret, path) in
        [(&admin, "/alerts/all"), (&admin, "/alerts/own?tenant=green"), (&blue, "/alerts/own")]
    {
        assert_eq!(ask(&t, secret, "PUT", path, dead()).await.status, 200, "{path}");
    }
    let names = async |secret: &str| {
        let list = ask(&t, secret, "GET", "/alerts", json!({})).await.json();
        let alerts = list["alerts"].as_array().unwrap().clone();
        alerts.iter().map(|alert| format!("{} {}", alert["tenant"], alert["name"])).collect::<Vec<_>>()
    };
    assert_eq!(names(&admin).await, ["null \"all\"", "\"blue\" \"own\"", "\"green\" \"own\""]);
    assert_eq!(names(&blue).await, ["\"blue\" \"own\""]);
    for path in ["/alerts/all", "/alerts/own?tenant=blue"] {
        let answer = ask(&t, &green, "GET", path, json!({})).await;
        assert_refused(&answer, 404, "not_found", None);
    }
    let seen = ask(&t, &viewer, "GET", "/alerts/own", json!({})).await.json();
    assert_eq!((&seen["url"], &seen["redacted"]), (&json!("https://hooks.example.com"), &json!(true)));
}
