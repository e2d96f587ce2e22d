//! Which trace the audit records of a request belong to: the client's, or one that the server starts and names.

use serde_json::{Value, json};

use crate::fixture::Fixture;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

async fn records(t: &Fixture) -> Vec<Value> {
    t.get_ok("/audit?limit=500").await["records"].as_array().unwrap().clone()
}

/// Model: audit-trail. Every record that a request causes has the trace that its answer names.
#[tokio::test]
async fn every_record_of_a_request_has_the_trace_of_its_answer() {
    let t = Fixture::new().await;
    t.request("PUT", "/queues/default").json(&json!({"audit": "all"})).send().await;
    let id = t.submit(json!({"type": "a"})).await;
    let worker = t.worker().await;
    let calls = [
        ("POST", format!("/jobs/{id}/suspend"), json!({"reason": "r"})),
        ("POST", format!("/jobs/{id}/resume"), json!({})),
        ("POST", format!("/jobs/{id}/priority"), json!({"value": 7})),
        ("PATCH", format!("/jobs/{id}"), json!({"tags": {"a": "b"}})),
        ("POST", format!("/jobs/{id}/signals/go"), json!({"value": 1})),
        ("POST", "/queues/mail/pause".to_owned(), json!({})),
        ("POST", "/queues/mail/resume".to_owned(), json!({})),
        ("PUT", "/types/a".to_owned(), json!({"priority": 5})),
        ("POST", format!("/workers/{worker}/pause"), json!({})),
        ("POST", format!("/workers/{worker}/resume"), json!({})),
        ("POST", "/gate/offline".to_owned(), json!({})),
        ("POST", "/gate/online".to_owned(), json!({})),
        ("POST", format!("/jobs/{id}/cancel"), json!({})),
        ("POST", format!("/jobs/{id}/redrive"), json!({})),
    ];
    for (method, path, body) in calls {
        for given in [None, Some(format!("00-{TRACE}-00f067aa0ba902b7-01"))] {
            let before = records(&t).await.len();
            let request = t.request(method, &path).json(&body);
            let request = match &given {
                Some(given) => request.header("traceparent", given),
                None => request,
            };
            let answer = request.send().await;
            let returned = answer.header("traceparent").unwrap_or_default().to_owned();
            assert_eq!(returned.len(), 55, "{path}: {returned}");
            if let Some(given) = &given {
                assert_eq!(returned, *given, "{path}");
            }
            for record in &records(&t).await[before..] {
                assert_eq!(record["trace_id"], returned[3..35], "{method} {path}: {record}");
            }
        }
    }
    assert!(records(&t).await.iter().all(|record| record["trace_id"].is_string()));
}

/// Model: audit-trail. From its submission to its end a job stays in its trace, whichever requests move it.
#[tokio::test]
async fn the_records_of_a_job_carry_its_trace_to_the_end() {
    let t = Fixture::new().await;
    t.request("PUT", "/queues/default").json(&json!({"audit": "all"})).send().await;
    let body = json!({"type": "a"});
    let given = format!("00-{TRACE}-00f067aa0ba902b7-01");
    let sent = t.request("POST", "/jobs").header("traceparent", &given).json(&body).send().await.json();
    let made = t.post_ok(201, "/jobs", body).await;
    let worker = t.worker().await;
    for _ in 0..2 {
        let claimed = t.claim(&worker).await;
        let (id, fence) = (&claimed["id"], &claimed["fence"]);
        t.report(&worker, json!({"id": id, "fence": fence, "outcome": "completed"})).await;
    }
    for job in [sent, made] {
        let trace = &job["traceparent"].as_str().unwrap()[3..35];
        let events = t.get_ok(&format!("/jobs/{}/events", job["id"].as_str().unwrap())).await;
        let events = events["events"].as_array().unwrap();
        assert_eq!(events.len(), 3, "{events:?}");
        assert!(events.iter().all(|event| event["trace_id"] == trace), "{trace}: {events:?}");
    }
}

/// What a form of the dashboard does belongs to the trace of its request.
#[tokio::test]
async fn a_refused_request_and_a_page_name_their_trace_as_well() {
    let t = Fixture::new().await;
    for path in ["/nowhere", "/jobs/x", "/queues"] {
        let answer = t.get(path).await;
        assert_eq!(answer.header("traceparent").map(str::len), Some(55), "{path}");
    }
}
