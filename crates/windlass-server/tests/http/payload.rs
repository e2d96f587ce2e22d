//! No route shows a job's data to a key without `payload:read`, and none shows another tenant anything. Routes are taken from
//! the OpenAPI document, so that new ones are covered.

use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use windlass::store::caller::Role;
use windlass_testkit::client::{Request, TestResponse};

use crate::access::{ask, key};
use crate::description::{description, operations};
use crate::fixture::{Fixture, assert_refused};

/// In every payload, result, checkpoint, log line, signal and URL query.
const MARK: &str = "confidential";
/// In what every user of the tenant may read: reasons, tags, messages and names.
const INTERNAL: &str = "internal-to-acme";
/// The trace of every job.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

struct Scene {
    t: Fixture,
    owner: String,
    operator: String,
    worker: String,
    /// A completed job, and a job that the worker runs.
    done: String,
    running: String,
    /// The worker's id.
    worker_id: String,
}

fn url(name: &str) -> String {
    format!("https://example.com/{name}?token={MARK}")
}

impl Scene {
    async fn new() -> Scene {
        let t = Fixture::new().await;
        let owner = key(&t, "owner", Role::Submitter, Some("acme")).await;
        let operator = key(&t, "operator", Role::Operator, Some("acme")).await;
        let worker = key(&t, "worker", Role::Worker, Some("acme")).await;
        let mut ids = Vec::new();
        for name in ["done", "running"] {
            let job = json!({"type": name, "payload": {"mark": MARK}, "callback_url": url("job"), "idempotency_key": name,
                "baggage": format!("mark={MARK}"), "traceparent": format!("00-{TRACE}-00f067aa0ba902b7-01"),
                "tags": {"about": INTERNAL}, "correlation_id": INTERNAL, "concurrency_key": format!("{INTERNAL}-{name}")});
            ids.push(ok(&ask(&t, &owner, "POST", "/jobs", job).await)["id"].as_str().unwrap().to_owned());
        }
        let schedule = json!({"cron": "0 0 * * *", "job": {"type": "s", "payload": {"mark": MARK}, "callback_url": url("s")}});
        ok(&ask(&t, &operator, "PUT", "/schedules/nightly", schedule).await);
        let alert = json!({"condition": "dead_letters", "url": url("alert")});
        ok(&ask(&t, &operator, "PUT", "/alerts/dead", alert).await);
        let push = json!({"push": {"url": url("push")}});
        ok(&ask(&t, &operator, "PUT", "/queues/pushed", push).await);
        let id = ok(&ask(&t, &worker, "POST", "/workers", json!({})).await)["worker_id"].clone();
        let claims = json!({"worker_id": id, "limit": 2, "types": ["done", "running"]});
        let claimed = ok(&ask(&t, &worker, "POST", "/claims", claims).await);
        for job in claimed["jobs"].as_array().unwrap() {
            let (path, fence) = (format!("/jobs/{}", job["id"].as_str().unwrap()), &job["fence"]);
            let step = json!({"fence": fence, "worker_id": id, "value": {"mark": MARK}});
            assert_eq!(ask(&t, &worker, "PUT", &format!("{path}/checkpoints/one"), step).await.status, 204);
            let beat = json!({"worker_id": id, "jobs": [{"id": job["id"], "fence": fence, "logs": [MARK]}]});
            ok(&ask(&t, &worker, "POST", "/heartbeats", beat).await);
            let signal = json!({"value": {"mark": MARK}});
            let sent = ask(&t, &owner, "POST", &format!("{path}/signals/go"), signal).await;
            assert_eq!(sent.status, 202);
            if job["type"] == "done" {
                let outcome = json!({"id": job["id"], "fence": fence, "outcome": "completed", "result": {"mark": MARK}});
                ok(&ask(&t, &worker, "POST", "/outcomes", json!({"worker_id": id, "outcomes": [outcome]}))
                    .await);
            }
        }
        let [done, running] = <[String; 2]>::try_from(ids).unwrap();
        let worker_id = id.as_str().unwrap().to_owned();
        let reason = json!({"reason": INTERNAL});
        for path in
            [&format!("/workers/{worker_id}/pause"), "/queues/pushed/pause", "/schedules/nightly/pause"]
        {
            ok(&ask(&t, &operator, "POST", path, reason.clone()).await);
        }
        ok(&ask(&t, &operator, "POST", "/gate/offline", json!({"type": INTERNAL, "reason": INTERNAL})).await);
        Scene { t, owner, operator, worker, done, running, worker_id }
    }

    /// Every `GET` route of the description with every parameter that may show more, about both jobs.
    async fn paths(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (path, method, operation) in operations(&description(&self.t).await) {
            if method != "GET" || operation["x-permission"] == "open" || path == "/api/v1/events" {
                continue;
            }
            let path =
                path.replace("{schedule}", "nightly").replace("{queue}", "pushed").replace("{alert}", "dead");
            let path = path.replace("{tenant}", "acme").replace("{type}", "done");
            let parameters = operation["parameters"].as_array().unwrap();
            let has_payload = parameters.iter().any(|one| one["name"] == "payload");
            for id in [&self.done, &self.running] {
                let path = path.replace("{id}", id);
                found.extend(has_payload.then(|| format!("{path}?payload=true")));
                found.push(path);
            }
        }
        found.sort();
        found.dedup();
        assert!(found.len() > 30, "{found:?}");
        found
    }
}

fn ok(answer: &TestResponse) -> Value {
    assert!(answer.status < 300, "{} {}", answer.status, String::from_utf8_lossy(&answer.body));
    answer.json()
}

fn shows(answer: &TestResponse) -> bool {
    String::from_utf8_lossy(&answer.body).contains(MARK)
}

async fn get_as(t: &Fixture, secret: &str, path: &str) -> TestResponse {
    // With trace ids in metrics; other routes do not mind.
    let request =
        Request::new(t.address, "GET", path).header("Accept", "application/openmetrics-text, */*;q=0.1");
    request.header("Authorization", &format!("Bearer {secret}")).send().await
}

/// What a stream of all events sends within the time that it takes to read the last of them.
async fn streamed(t: &Fixture, secret: &str, last: u64) -> String {
    let request = Request::new(t.address, "GET", "/api/v1/events?last_event_id=0");
    let mut stream = request.header("Authorization", &format!("Bearer {secret}")).start().await;
    let (mut bytes, end) = (Vec::new(), format!("id: {last}\n"));
    loop {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "the stream continues");
        let text = String::from_utf8_lossy(&bytes);
        if text.split_once(&end).is_some_and(|(_, event)| event.contains("\n\n")) {
            return text.into_owned();
        }
    }
}

#[tokio::test]
async fn no_route_shows_a_payload_to_a_key_that_does_not_read_it() {
    let scene = Scene::new().await;
    let t = &scene.t;
    let mut strangers = Vec::new();
    for role in [Role::Submitter, Role::Worker, Role::Viewer] {
        strangers.push(key(t, &format!("stranger-{}", role.as_str()), role, Some("acme")).await);
    }
    let (mut to_operator, mut to_owner) = (0, 0);
    for path in scene.paths().await {
        for stranger in &strangers {
            let answer = get_as(t, stranger, &path).await;
            assert!(!shows(&answer), "{path}: {}", String::from_utf8_lossy(&answer.body));
            assert!(matches!(answer.status, 200 | 403), "{path}: {}", answer.status);
        }
        // The worker reads what it runs, also in lists of jobs, and nothing else.
        let is_for_worker = path.starts_with("/api/v1/jobs") && !path.contains(&scene.done);
        assert!(!shows(&get_as(t, &scene.worker, &path).await) || is_for_worker, "{path}");
        to_operator += usize::from(shows(&get_as(t, &scene.operator, &path).await));
        to_owner += usize::from(shows(&get_as(t, &scene.owner, &path).await));
    }
    // Both jobs: with payload, plain (its address), result, checkpoints and logs; the lists; then queues and schedules.
    assert!(to_operator >= 15 && to_owner >= 10 && to_operator > to_owner, "{to_operator} {to_owner}");
    for part in ["result", "checkpoints", "logs"] {
        for stranger in &strangers {
            let path = format!("/api/v1/jobs/{}/{part}", scene.done);
            assert_refused(&get_as(t, stranger, &path).await, 403, "forbidden", None);
        }
        assert!(
            part == "result"
                || shows(&get_as(t, &scene.worker, &format!("/api/v1/jobs/{}/{part}", scene.running)).await)
        );
    }
}

/// A response for another owner is not returned to a caller who knows its idempotency key.
#[tokio::test]
async fn a_duplicate_submission_shows_another_owner_no_result() {
    let scene = Scene::new().await;
    let other = key(&scene.t, "other", Role::Submitter, Some("acme")).await;
    let repeat = json!({"type": "done", "idempotency_key": "done"});
    let answer = ask(&scene.t, &other, "POST", "/jobs", repeat.clone()).await;
    assert_eq!((answer.status, shows(&answer)), (200, false));
    assert_eq!((&answer.json()["duplicate"], &answer.json()["redacted"]), (&json!(true), &json!(true)));
    let batch = ask(&scene.t, &other, "POST", "/jobs/batch", json!({"jobs": [repeat.clone()]})).await;
    assert_eq!((batch.status, shows(&batch)), (201, false));
    let own = ask(&scene.t, &scene.owner, "POST", "/jobs", repeat).await.json();
    assert_eq!((&own["result"], &own["redacted"]), (&json!({"mark": MARK}), &json!(false)));
}

/// The event stream has the same content as the audit trail, and no payloads either.
#[tokio::test]
async fn no_event_carries_a_payload() {
    let scene = Scene::new().await;
    let records = get_as(&scene.t, &scene.operator, "/api/v1/audit?limit=1000").await;
    assert!(!shows(&records), "not even an operator finds it in the trail");
    let records = records.json()["records"].as_array().unwrap().clone();
    assert!(records.len() > 5);
    let last = records.last().unwrap()["seq"].as_u64().unwrap();
    let text = streamed(&scene.t, &scene.operator, last).await;
    assert!(text.contains(INTERNAL) && !text.contains(MARK), "{text}");
}

/// Model: tenant-isolation. Whatever a route lists or counts, it names nothing of another tenant: no id, no text, no trace.
#[tokio::test]
async fn no_route_shows_another_tenant_anything() {
    let scene = Scene::new().await;
    let t = &scene.t;
    let names = [MARK, INTERNAL, TRACE, &scene.done, &scene.running, &scene.worker_id, "nightly", "pushed"];
    let (mut own, paths) = (0, scene.paths().await);
    for tenant in ["other", "default"] {
        for role in [Role::Operator, Role::Submitter, Role::Worker, Role::App, Role::Viewer] {
            let secret = key(t, &format!("{tenant}-{}", role.as_str()), role, Some(tenant)).await;
            for path in &paths {
                let answer = get_as(t, &secret, path).await;
                let text = String::from_utf8_lossy(&answer.body);
                // What the caller names itself may be repeated.
                let shown = names.iter().find(|name| text.contains(**name) && !path.contains(**name));
                assert_eq!(shown, None, "{path} as {} of {tenant}: {text}", role.as_str());
            }
        }
    }
    for path in &paths {
        let answer = get_as(t, &scene.operator, path).await;
        let text = String::from_utf8_lossy(&answer.body);
        own += usize::from(names.iter().any(|name| text.contains(*name) && !path.contains(*name)));
    }
    assert!(own >= 20, "the tenant itself is shown them: {own}");
}
