//! What operators alert on is measured when it happens, and nothing else is.

use std::time::Duration;

use serde_json::json;
use windlass_testkit::client::Request;

use crate::fixture::Fixture;

async fn metrics(t: &Fixture) -> String {
    let answer = Request::new(t.address, "GET", "/metrics").send().await;
    assert_eq!(answer.status, 200);
    String::from_utf8(answer.body).unwrap()
}

fn assert_has(text: &str, line: &str) {
    assert!(text.lines().any(|found| found == line), "{line} is missing in {text}");
}

/// An alert on 5xx is about the server's own failures.
#[tokio::test]
async fn an_unchanged_job_and_a_lost_precondition_are_no_failures_of_the_server() {
    let t = Fixture::new().await;
    let path = format!("/jobs/{}", t.submit(json!({"type": "a"})).await);
    let unchanged = t.request("GET", &path).header("If-None-Match", "*").send().await;
    let cancel = t.request("POST", &format!("{path}/cancel")).header("If-Match", "\"x\"").json(&json!({}));
    assert_eq!((unchanged.status, cancel.send().await.status), (304, 412));
    let text = metrics(&t).await;
    let counted = |method: &str, route: &str, status: u16| {
        let labels = format!("method=\"{method}\",route=\"{route}\",status=\"{status}\"");
        assert_has(&text, &format!("windlass_http_requests_total{{{labels}}} 1"));
    };
    counted("GET", "/jobs/{id}", 304);
    counted("POST", "/jobs/{id}/cancel", 412);
    assert!(!text.contains("status=\"5"), "{text}");
}

#[tokio::test]
async fn a_schedule_that_is_late_and_a_lease_that_was_lost_are_measured() {
    let t = Fixture::new().await;
    let schedule = json!({"every": "1m", "job": {"type": "tick", "queue": "ticks"}});
    assert_eq!(t.request("PUT", "/schedules/often").json(&schedule).send().await.status, 200);
    t.submit(json!({"type": "a", "queue": "mail"})).await;
    let worker = t.worker().await;
    t.claim(&worker).await;
    // Maintenance does not run meanwhile.
    t.clock.advance(Duration::from_secs(3600));
    let late = "windlass_schedule_lag_seconds{tenant=\"default\",schedule=\"often\"}";
    assert_has(&metrics(&t).await, &format!("{late} 3540"));
    t.advance(Duration::ZERO).await;
    // Totals are added up with the first commit of another second.
    t.clock.advance(Duration::from_secs(2));
    t.submit(json!({"type": "a", "queue": "other"})).await;
    let text = metrics(&t).await;
    assert_has(&text, &format!("{late} 0"));
    assert_has(&text, "windlass_leases_expired_total{queue=\"mail\"} 1");
    assert_has(&text, "windlass_leases_expired_total{queue=\"other\"} 0");
}
