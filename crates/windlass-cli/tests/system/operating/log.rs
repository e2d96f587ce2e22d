//! The log: what is in it, and what must never be.

use serde_json::{Value, json};
use windlass_testkit::client::Request;
use windlass_testkit::{PATIENCE, ServerProcess, store_in, terminate, windlass};

#[tokio::test]
async fn every_line_is_json_if_asked_for_and_requests_are_logged_by_route() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let served = ServerProcess::start(windlass(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--store",
        &store,
        "--log",
        "json",
        "--log-level",
        "debug",
    ]))
    .await;
    let job = served.post("/jobs", &json!({"type": "a"})).await;
    let path = format!("/jobs/{}", job["id"].as_str().unwrap());
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let request = served.request("GET", &path).header("x-request-id", "mine-1");
    let answer = request.header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01")).send().await;
    assert_eq!(answer.status, 200);
    let nowhere =
        Request::new(served.address, "GET", "/nowhere/secret-canary").header("x-request-id", "mine-2");
    assert_eq!(nowhere.send().await.status, 404);
    let said = served.stop().await;
    let lines: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let with = |id: &str| lines.iter().find(|line| line["id"] == id).unwrap_or_else(|| panic!("{said}"));
    let line = with("mine-1");
    assert_eq!((&line["method"], &line["status"]), (&json!("GET"), &json!(200)));
    assert_eq!((&line["route"], &line["level"]), (&json!("/api/v1/jobs/{id}"), &json!("DEBUG")));
    assert!(line["millis"].is_u64() && line["timestamp"].is_string(), "{line}");
    assert_eq!(line["trace_id"], trace);
    assert_eq!((&with("mine-2")["route"], &with("mine-2")["status"]), (&json!("none"), &json!(404)));
    assert!(!said.contains("secret-canary"), "{said}");
}

/// Also at the usual level, where requests and runs have no lines of their own.
#[tokio::test]
async fn lines_of_a_run_carry_its_job_and_trace() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let served =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    let body = json!({"type": "a", "retry": {"max_attempts": 1}});
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let submit =
        served.request("POST", "/jobs").header("traceparent", &format!("00-{trace}-00f067aa0ba902b7-01"));
    let id = submit.json(&body).send().await.json()["id"].as_str().unwrap().to_owned();
    let url = format!("http://{}", served.address);
    let mut worker = windlass(&["work", "--url", &url, "a", "--", "/bin/false"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let ended = served.request("GET", &format!("/jobs/{id}?wait=60s"));
    let ended = tokio::time::timeout(PATIENCE, ended.send()).await.unwrap().json();
    assert!(ended["state"] == "failed" || ended["state"] == "dead_letter", "{ended}");
    let mut stderr = worker.stderr.take().unwrap();
    terminate(&mut worker).await;
    let mut said = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stderr, &mut said).await.unwrap();
    let failed = said.lines().find(|line| line.contains("attempt failed"));
    let failed = failed.unwrap_or_else(|| panic!("{said}"));
    assert!(failed.ends_with(&format!(" trace_id={trace} job_id={id}")), "{failed}");
    served.stop().await;
}

/// Secrets and payloads are sent in every possible field; none of them appears in the log, in metrics or in errors.
#[tokio::test]
async fn secrets_and_payloads_never_come_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(folder.path());
    let key = folder.path().join("ticket.key");
    let ticket_key = windlass(&["tickets", "key"]).output().await.unwrap().stdout;
    std::fs::write(&key, &ticket_key).unwrap();
    let make = ["keys", "create", "--store", &store, "--name", "boss", "--role", "admin"];
    let secret = String::from_utf8(windlass(&make).output().await.unwrap().stdout).unwrap().trim().to_owned();
    let arguments =
        ["serve", "--listen", "127.0.0.1:0", "--store", &store, "--log-level", "trace", "--ticket-key"];
    let mut serve = windlass(&arguments);
    serve.arg(&key);
    let served = ServerProcess::start(serve).await;
    let bearer = format!("Bearer {secret}");
    let send = async |method: &str, path: &str, body: Value| {
        let request = served.request(method, path).header("Authorization", &bearer);
        request.header("Cookie", "canary-cookie=1").json(&body).send().await
    };
    // A job's whole life, with markers in every field for user data.
    let submit = json!({
        "type": "a", "payload": {"card": "canary-payload"}, "idempotency_key": "canary-idempotency",
        "callback_url": "https://canary-user:canary-password@example.invalid/",
    });
    assert_eq!(send("POST", "/jobs", submit).await.status, 422);
    let job = send("POST", "/jobs", json!({"type": "a", "payload": {"card": "canary-payload"}})).await.json();
    let worker =
        send("POST", "/workers", json!({"types": ["a"], "queues": []})).await.json()["worker_id"].clone();
    let claimed = send("POST", "/claims", json!({"worker_id": worker})).await.json()["jobs"][0].clone();
    let id = job["id"].as_str().unwrap();
    assert_eq!(claimed["id"], id);
    let step = json!({"fence": claimed["fence"], "value": "canary-checkpoint"});
    assert_eq!(send("PUT", &format!("/jobs/{id}/checkpoints/one"), step).await.status, 204);
    send("POST", &format!("/jobs/{id}/signals/go"), json!({"value": "canary-signal"})).await;
    let outcome =
        json!({"id": id, "fence": claimed["fence"], "outcome": "completed", "result": "canary-result"});
    let report = json!({"worker_id": worker, "outcomes": [outcome]});
    assert_eq!(send("POST", "/outcomes", report.clone()).await.json()["outcomes"][0]["status"], "applied");
    // And everything that can be refused.
    let mut refusals = Vec::new();
    for (path, body) in [
        ("/jobs", "{\"type\": \"a\", \"payload\": {\"card\": \"canary-broken\""),
        ("/jobs", "{\"type\": \"a\", \"payload\": \"canary-extra\", \"extra\": 1}"),
        ("/outcomes", "{\"result\": \"canary-outcome\"}"),
    ] {
        let request = served.request("POST", path).header("Authorization", &bearer).body(body);
        refusals.push(request.send().await);
    }
    let stranger =
        served.request("GET", "/jobs?tag=canary:query").header("Authorization", "Bearer wl_canary-key");
    refusals.push(stranger.send().await);
    assert!(refusals.iter().all(|refused| refused.status >= 400));
    let metrics =
        Request::new(served.address, "GET", "/metrics").header("Authorization", &bearer).send().await;
    assert_eq!(metrics.status, 200);
    let mut all = served.stop().await;
    assert!(all.contains("/api/v1/outcomes"), "the log is there: {all}");
    for answer in refusals.iter().chain([&metrics]) {
        all.push_str(&String::from_utf8_lossy(&answer.body));
    }
    let ticket_key = String::from_utf8(ticket_key).unwrap();
    for canary in ["canary", &secret, ticket_key.trim()] {
        assert!(!all.contains(canary), "{canary} in {all}");
    }
}
