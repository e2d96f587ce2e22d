//! Two servers on one PostgreSQL, one of them killed under load: acknowledged jobs exist, jobs of its workers are done
//! through the other, whose event streams receive everything in order. Pauses made on one apply on the other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass_testkit::client::Request;
use windlass_testkit::cluster::new_schema;
use windlass_testkit::{PATIENCE, ServerProcess, windlass};

use super::load::{Acknowledged, ask, submit};

/// Acknowledged before one of the servers is killed, and after.
const BEFORE: usize = 150;
const AFTER: usize = 60;
/// Jobs that the workers of the killed server hold for sure.
const HELD: usize = 5;
/// A waiter on the other node polls every second at the latest, on a machine that may be busy.
const LIFTS_WITHIN: Duration = Duration::from_secs(5);

pub(crate) async fn node(store: &str) -> ServerProcess {
    ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", store])).await
}

/// A worker for a queue.
async fn register(server: SocketAddr, queue: &str) -> Value {
    let worker = json!({"queues": [queue], "types": [], "heartbeats": false, "concurrency": 50});
    let answer = ask(server, "POST", "/workers", &worker).await.expect("the server answers");
    assert_eq!(answer.status, 201);
    answer.json()["worker_id"].clone()
}

/// Whether there is nothing more to do for a worker: every job is completed, or the server is gone.
async fn is_done(server: SocketAddr) -> bool {
    let Some(answer) = ask(server, "GET", "/queues/default", &Value::Null).await else { return true };
    let queue = answer.json();
    let depth = queue["depth"].as_object().expect("counts by state");
    depth.iter().all(|(state, count)| state == "completed" || count == 0)
}

/// Does what comes, until the server is gone or everything is done.
pub(crate) async fn work(server: SocketAddr) {
    let worker = register(server, "default").await;
    let request = json!({"worker_id": worker, "limit": 4, "wait": "3s"});
    loop {
        let Some(answer) = ask(server, "POST", "/claims", &request).await else { return };
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        let jobs = answer.json()["jobs"].as_array().cloned().expect("a list of jobs");
        if jobs.is_empty() {
            if is_done(server).await {
                return;
            }
            continue;
        }
        let done = |job: &Value| json!({"id": job["id"], "fence": job["fence"], "outcome": "completed"});
        let outcomes: Vec<Value> = jobs.iter().map(done).collect();
        let report = json!({"worker_id": worker, "outcomes": outcomes});
        let Some(answer) = ask(server, "POST", "/outcomes", &report).await else { return };
        let answer = answer.json();
        let answers = answer["outcomes"].as_array().expect("a list of answers");
        // A machine that was busy for longer than a lease is the one reason for `stale`.
        assert!(answers.iter().all(|one| one["status"] != "rejected"), "{answer}");
    }
}

/// The numbers and jobs of the events that a server sends, as they arrive.
async fn listen(server: SocketAddr, seen: mpsc::Sender<(u64, Value)>) {
    let request = Request::new(server, "GET", "/api/v1/events").header("Last-Event-ID", "0");
    let mut lines = BufReader::new(request.start().await).lines();
    let mut number = None;
    while let Ok(Some(line)) = lines.next_line().await {
        if let Some(id) = line.strip_prefix("id: ") {
            number = Some(id.parse().expect("a number"));
        } else if let Some(data) = line.strip_prefix("data: ")
            && let Some(number) = number.take()
            && seen.send((number, serde_json::from_str(data).expect("JSON"))).await.is_err()
        {
            return;
        }
    }
}

/// All of the audit trail, in order.
async fn trail(server: SocketAddr) -> Vec<Value> {
    let (mut records, mut path) = (Vec::new(), "/audit?limit=500".to_owned());
    loop {
        let page = ask(server, "GET", &path, &Value::Null).await.expect("the server answers").json();
        records.extend(page["records"].as_array().cloned().expect("a list of records"));
        let Some(next) = page["next_cursor"].as_str() else { return records };
        path = format!("/audit?limit=500&cursor={next}");
    }
}

/// Claims jobs that are never finished.
async fn hold(server: SocketAddr) -> Vec<String> {
    let worker = register(server, "default").await;
    let request = json!({"worker_id": worker, "limit": HELD, "wait": "30s"});
    let mut held = Vec::new();
    while held.len() < HELD {
        let answer = ask(server, "POST", "/claims", &request).await.expect("the server answers").json();
        let jobs = answer["jobs"].as_array().expect("a list of jobs");
        held.extend(jobs.iter().map(|job| job["id"].as_str().expect("an id").to_owned()));
    }
    held
}

/// Model: audit-trail, at-least-once, one-lease-at-a-time
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_node_acknowledged_and_held_is_done_through_the_other() {
    let store = new_schema();
    let (first, second) = (node(&store).await, node(&store).await);
    let (here, there) = (first.address, second.address);
    let all = ask(there, "PUT", "/queues/default", &json!({"audit": "all"})).await.unwrap();
    assert_eq!(all.status, 200);
    let (seen, mut received) = mpsc::channel(100_000);
    tokio::spawn(listen(there, seen));
    let (by_first, by_second) = (Arc::new(Acknowledged::default()), Arc::new(Acknowledged::default()));
    let mut callers = Vec::new();
    for _ in 0..3 {
        callers.push(tokio::spawn(submit(here, by_first.clone())));
        callers.push(tokio::spawn(submit(there, by_second.clone())));
    }
    let mut workers = vec![tokio::spawn(work(here)), tokio::spawn(work(there))];
    by_first.reaches(BEFORE).await;
    let held = hold(here).await;
    first.kill().await;
    by_second.reaches(by_second.count() + AFTER).await;
    by_second.end();
    for caller in callers {
        caller.await.unwrap();
    }
    // Another thread may have found everything done between two submissions.
    workers.push(tokio::spawn(work(there)));
    for worker in workers {
        tokio::time::timeout(PATIENCE, worker).await.expect("all is done in time").unwrap();
    }
    for id in by_first.ids().iter().chain(&by_second.ids()) {
        let found = ask(there, "GET", &format!("/jobs/{id}"), &Value::Null).await.unwrap();
        assert_eq!((found.status, &found.json()["state"]), (200, &json!("completed")), "{id}");
    }
    for id in &held {
        let path = format!("/jobs/{id}/attempts");
        let attempts = ask(there, "GET", &path, &Value::Null).await.unwrap().json();
        let outcomes: Vec<&Value> =
            attempts["attempts"].as_array().unwrap().iter().map(|one| &one["outcome"]).collect();
        assert_eq!(outcomes.first(), Some(&&json!("lost")), "{attempts}");
    }
    let trail = trail(there).await;
    assert!(trail.len() > 3 * (by_first.count() + by_second.count()), "every transition is in the trail");
    for (number, record) in (1..).zip(&trail) {
        let (seen, event) = tokio::time::timeout(PATIENCE, received.recv()).await.expect("in time").unwrap();
        assert_eq!((seen, &event), (number, record), "events come in order and without a gap");
    }
    second.stop().await;
    let verified = windlass(&["verify", "--store", &store]).output().await.unwrap();
    assert!(verified.status.success(), "{verified:?}");
}

/// Model: pause-reason-and-expiry
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_made_through_one_node_binds_and_ends_on_the_other() {
    let store = new_schema();
    let (first, second) = (node(&store).await, node(&store).await);
    let (here, there) = (first.address, second.address);
    let worker = register(there, "default").await;
    let at_once = json!({"worker_id": worker});
    for _ in 0..5 {
        assert_eq!(ask(here, "POST", "/queues/default/pause", &json!({})).await.unwrap().status, 200);
        assert_eq!(ask(here, "POST", "/jobs", &json!({"type": "count"})).await.unwrap().status, 201);
        let claimed = ask(there, "POST", "/claims", &at_once).await.unwrap().json();
        assert_eq!(claimed["jobs"], json!([]), "it binds at once");
        let waiting = json!({"worker_id": worker, "wait": "30s"});
        let waiting = tokio::spawn(async move { ask(there, "POST", "/claims", &waiting).await });
        let began = Instant::now();
        assert_eq!(ask(here, "POST", "/queues/default/resume", &json!({})).await.unwrap().status, 200);
        let claimed = waiting.await.unwrap().unwrap().json();
        let job = &claimed["jobs"][0];
        assert!(job.is_object() && began.elapsed() < LIFTS_WITHIN, "{claimed} {:?}", began.elapsed());
        let report = json!({"id": job["id"], "fence": job["fence"], "outcome": "completed"});
        second.post("/outcomes", &json!({"worker_id": worker, "outcomes": [report]})).await;
    }
    first.stop().await;
    second.stop().await;
}
