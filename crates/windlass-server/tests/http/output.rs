//! The partial output of a job over HTTP: written by its worker, read as pages and as events.

use std::time::Duration;

use serde_json::{Value, json};
use windlass::store::NewKey;
use windlass::store::caller::{Caller, Role};

use crate::events::Stream;
use crate::fixture::{Fixture, assert_refused};

/// A running job: its path, its worker and its claim.
async fn running(t: &Fixture) -> (String, String, Value) {
    let worker = t.worker().await;
    let id = t.submit(json!({"type": "story"})).await;
    let job = t.post_ok(200, "/claims", json!({"worker_id": worker})).await["jobs"][0].clone();
    (format!("/jobs/{id}/stream"), worker, job)
}

async fn write(t: &Fixture, path: &str, job: &Value, chunks: Value) {
    let answer = t.post(path, json!({"fence": job["fence"], "chunks": chunks})).await;
    assert_eq!(answer.status, 204, "{}", String::from_utf8_lossy(&answer.body));
}

async fn follow(t: &Fixture, path: &str) -> Stream {
    Stream::open(t.request("GET", path).header("Accept", "text/event-stream")).await
}

#[tokio::test]
async fn output_is_written_by_the_worker_of_the_job_and_read_in_pages() {
    let t = Fixture::new().await;
    let (path, worker, job) = running(&t).await;
    let empty = t.get_ok(&path).await;
    assert_eq!(empty, json!({"chunks": [], "last": 0, "dropped": 0, "state": "running"}));
    let body =
        json!({"fence": job["fence"], "worker_id": worker, "offset": 0, "chunks": ["Once", {"a": [1]}]});
    for _ in 0..2 {
        assert_eq!(t.post(&path, body.clone()).await.status, 204, "a repeat is harmless");
    }
    let read = t.get_ok(&path).await;
    let chunk = json!({"number": 1, "attempt": 1, "at": "2030-01-01T00:00:00.000Z", "chunk": "Once"});
    assert_eq!((&read["chunks"][0], &read["chunks"][1]["chunk"]), (&chunk, &json!({"a": [1]})));
    assert_eq!((&read["last"], read["chunks"].as_array().unwrap().len()), (&json!(2), 2));
    let page = t.get_ok(&format!("{path}?after=1&limit=1")).await;
    assert_eq!(page["chunks"][0]["number"], 2);
    for (wrong, field) in
        [("limit=0", "limit"), ("limit=1001", "limit"), ("wait=21s", "wait"), ("after=x", "after")]
    {
        assert_refused(&t.get(&format!("{path}?{wrong}")).await, 422, "invalid_value", Some(field));
    }
    assert_refused(&t.post(&path, json!({"fence": 1, "chunks": [1]})).await, 409, "stale_fence", None);
    let wrong = |fields: Value| {
        let mut body = json!({"fence": job["fence"], "chunks": [1]});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        body
    };
    for (fields, field) in [
        (json!({"chunks": []}), "chunks"),
        (json!({"chunks": vec![1; 1001]}), "chunks"),
        (json!({"chunks": ["x".repeat(64 << 10)]}), "chunks.0"),
        (json!({"offset": 3}), "offset"),
        (json!({"text": 1}), "text"),
    ] {
        assert_refused(&t.post(&path, wrong(fields)).await, 422, "invalid_value", Some(field));
    }
    let unknown = t.post(&path, wrong(json!({"worker_id": "00000000-0000-4000-8000-000000000000"}))).await;
    assert_refused(&unknown, 404, "not_found", None);
    let missing = "/jobs/00000000-0000-4000-8000-000000000000/stream";
    assert_refused(&t.get(missing).await, 404, "not_found", None);
    let missing = t.request("GET", missing).header("Accept", "text/event-stream").send().await;
    assert_refused(&missing, 404, "not_found", None);
}

#[tokio::test]
async fn output_goes_with_checkpoints_children_and_outcomes() {
    let t = Fixture::new().await;
    let (path, worker, job) = running(&t).await;
    let id = job["id"].as_str().unwrap();
    let part = |offset: u64, chunk: &str| json!({"offset": offset, "chunks": [chunk]});
    let saved =
        json!({"fence": job["fence"], "checkpoints": [{"step": "a", "value": 1}], "stream": part(0, "a")});
    assert_eq!(t.post(&format!("/jobs/{id}/checkpoints"), saved).await.status, 204);
    let group =
        json!({"fence": job["fence"], "jobs": [{"type": "part"}], "park": false, "stream": part(1, "b")});
    t.post_ok(201, &format!("/jobs/{id}/children"), group).await;
    let outcome = json!({"id": id, "fence": job["fence"], "outcome": "completed", "stream": part(2, "c")});
    let gap = json!({"id": id, "fence": job["fence"], "outcome": "completed", "stream": part(3, "c")});
    assert_eq!(t.report(&worker, gap).await["error"]["details"]["field"], "offset");
    assert_eq!(t.report(&worker, outcome).await["status"], "applied");
    let read = t.get_ok(&path).await;
    let chunks: Vec<&Value> = read["chunks"].as_array().unwrap().iter().map(|one| &one["chunk"]).collect();
    assert_eq!((chunks, &read["state"]), (vec![&json!("a"), &json!("b"), &json!("c")], &json!("completed")));
}

#[tokio::test]
async fn a_page_is_waited_for_until_there_is_output_or_the_job_ends() {
    let t = Fixture::new().await;
    let (path, worker, job) = running(&t).await;
    let waiting = async |after: u64| t.get_ok(&format!("{path}?after={after}&wait=20s")).await;
    let (read, ()) = tokio::join!(waiting(0), write(&t, &path, &job, json!(["one"])));
    assert_eq!(read["chunks"][0]["chunk"], "one");
    let outcome = json!({"id": job["id"], "fence": job["fence"], "outcome": "completed"});
    let (read, _) = tokio::join!(waiting(1), t.report(&worker, outcome));
    assert_eq!((&read["chunks"], &read["state"]), (&json!([]), &json!("completed")));
}

#[tokio::test]
async fn output_is_followed_as_events_resumed_and_ended_with_the_job() {
    let t = Fixture::new().await;
    let (path, worker, job) = running(&t).await;
    write(&t, &path, &job, json!(["one", "two\nlines"])).await;
    let mut live = follow(&t, &path).await;
    let first = live.event().await;
    assert_eq!((first.id, first.name.as_str(), &first.data["chunk"]), (Some(1), "chunk", &json!("one")));
    assert_eq!(live.event().await.data["chunk"], "two\nlines");
    let failed =
        json!({"id": job["id"], "fence": job["fence"], "outcome": "failed", "error": {"message": "busy"}});
    assert_eq!(t.report(&worker, failed).await["status"], "applied");
    t.advance(Duration::from_secs(5)).await;
    let job = t.post_ok(200, "/claims", json!({"worker_id": worker})).await["jobs"][0].clone();
    write(&t, &path, &job, json!(["again"])).await;
    let restart = live.event().await;
    assert_eq!((restart.name.as_str(), &restart.data), ("restart", &json!({"attempt": 2})));
    let chunk = live.event().await;
    assert_eq!(
        (chunk.id, &chunk.data["attempt"], &chunk.data["restart"]),
        (Some(3), &json!(2), &json!(true))
    );
    let outcome = json!({"id": job["id"], "fence": job["fence"], "outcome": "completed",
        "stream": {"chunks": ["last"]}});
    assert_eq!(t.report(&worker, outcome).await["status"], "applied");
    assert_eq!(live.event().await.data["chunk"], "last");
    let end = live.event().await;
    assert_eq!((end.name.as_str(), end.data), ("end", json!({"state": "completed", "reason": "final"})));
    assert_eq!(live.line().await.as_deref(), Some(""), "and nothing follows");
    let resumed = t.request("GET", &path).header("Accept", "text/event-stream").header("Last-Event-ID", "3");
    let mut resumed = Stream::open(resumed).await;
    assert_eq!(resumed.event().await.id, Some(4));
    assert_eq!(resumed.event().await.name, "end");
    assert_eq!(follow(&t, &format!("{path}?after=4")).await.event().await.name, "end");
    let odd = t.request("GET", &path).header("Accept", "text/event-stream").header("Last-Event-ID", "x");
    assert_refused(&odd.send().await, 422, "invalid_value", Some("last_event_id"));
}

#[tokio::test]
async fn a_token_of_the_job_follows_its_output_until_it_expires() {
    let t = Fixture::new().await;
    let me = Caller::local();
    let key =
        t.store.create_key(&me, NewKey::new("boss", Role::Admin)).await.unwrap().secret.reveal().to_owned();
    let ask = |method: &str, path: &str, secret: &str| {
        t.request(method, path).header("Authorization", &format!("Bearer {secret}"))
    };
    let id = ask("POST", "/jobs", &key).json(&json!({"type": "story"})).send().await.json()["id"].clone();
    let id = id.as_str().unwrap();
    let made = ask("POST", &format!("/jobs/{id}/tokens"), &key).json(&json!({"expires": "1m"})).send().await;
    let token = made.json()["token"].as_str().unwrap().to_owned();
    let path = format!("/jobs/{id}/stream");
    assert_eq!(ask("GET", &path, &token).send().await.status, 200);
    assert_eq!(ask("POST", &path, &token).json(&json!({"fence": 1, "chunks": [1]})).send().await.status, 401);
    let viewer =
        t.store.create_key(&me, NewKey::new("vic", Role::Viewer)).await.unwrap().secret.reveal().to_owned();
    assert_refused(&ask("GET", &path, &viewer).send().await, 403, "forbidden", None);
    let live = ask("GET", &path, &token).header("Accept", "text/event-stream");
    let mut live = Stream::open(live).await;
    t.advance(Duration::from_secs(60)).await;
    tokio::time::pause();
    let end = live.event().await;
    assert_eq!((end.name.as_str(), &end.data["reason"]), ("end", &json!("unauthorized")));
}

#[tokio::test]
async fn a_server_that_stops_ends_the_output_with_a_word() {
    let mut t = Fixture::new().await;
    let (path, ..) = running(&t).await;
    let mut live = follow(&t, &path).await;
    tokio::time::timeout(Duration::from_secs(10), t.stop()).await.expect("it ends in time");
    assert_eq!(live.event().await.data["reason"], "draining");
}
