//! Events as they happen, over HTTP.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;
use windlass::store::NewKey;
use windlass::store::caller::{Caller, Role};
use windlass_testkit::client::Request;

use crate::fixture::{Fixture, assert_refused};

/// A stream of events that is read line by line.
pub(crate) struct Stream(BufReader<TcpStream>);

/// One event.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<u64>,
    pub(crate) name: String,
    pub(crate) data: Value,
}

impl Stream {
    pub(crate) async fn open(request: Request) -> Stream {
        let mut stream = Stream(BufReader::new(request.start().await));
        assert_eq!(stream.line().await.unwrap(), "HTTP/1.1 200 OK");
        while !stream.line().await.unwrap().is_empty() {}
        stream
    }

    pub(crate) async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let length = self.0.read_line(&mut line).await.unwrap();
        (length > 0).then(|| line.trim_end().to_owned())
    }

    /// The next line that is not the length of a chunk or empty.
    async fn text(&mut self) -> String {
        loop {
            let line = self.line().await.expect("the stream continues");
            if !line.is_empty() && u64::from_str_radix(&line, 16).is_err() {
                return line;
            }
        }
    }

    pub(crate) async fn event(&mut self) -> Event {
        let mut event = Event::default();
        loop {
            let line = self.text().await;
            match line.split_once(": ").unwrap() {
                ("id", id) => event.id = Some(id.parse().unwrap()),
                ("event", name) => name.clone_into(&mut event.name),
                ("data", data) => {
                    event.data = serde_json::from_str(data).unwrap();
                    return event;
                }
                ("", "alive") => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn events_come_as_they_happen_and_can_be_resumed() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a"})).await;
    t.post_ok(200, &format!("/jobs/{id}/suspend"), json!({})).await;
    let mut live = Stream::open(t.request("GET", "/events")).await;
    t.post_ok(200, &format!("/jobs/{id}/resume"), json!({})).await;
    let resumed = live.event().await;
    assert_eq!((resumed.id, resumed.name.as_str()), (Some(2), "job.lifecycle.resumed"));
    assert_eq!((&resumed.data["seq"], &resumed.data["job"]), (&json!(2), &json!(id)));
    // Below the audit level: shown live, without a number.
    let other = t.submit(json!({"type": "b"})).await;
    let submitted = live.event().await;
    assert_eq!((submitted.id, submitted.name.as_str()), (None, "job.lifecycle.submitted"));
    assert_eq!(submitted.data["job"], other.as_str());
    let mut again = Stream::open(t.request("GET", "/events").header("Last-Event-ID", "0")).await;
    assert_eq!(again.event().await.name, "job.lifecycle.suspended");
    assert_eq!(again.event().await, resumed);
    let mut after = Stream::open(t.request("GET", "/events?last_event_id=1")).await;
    assert_eq!(after.event().await, resumed);
}

#[tokio::test]
async fn events_are_filtered() {
    let t = Fixture::new().await;
    let (a, b) =
        (t.submit(json!({"type": "a"})).await, t.submit(json!({"type": "b", "tenant": "acme"})).await);
    let mut one = Stream::open(t.request("GET", &format!("/events?job={b}"))).await;
    let mut cancelled =
        Stream::open(t.request("GET", "/events?event=job.lifecycle.cancelled,job.lifecycle.resumed")).await;
    let mut acme = Stream::open(t.request("GET", "/events?tenant=acme&actor=local")).await;
    t.post_ok(200, &format!("/jobs/{a}/suspend"), json!({})).await;
    t.post_ok(200, &format!("/jobs/{a}/cancel"), json!({})).await;
    t.post_ok(200, &format!("/jobs/{b}/suspend"), json!({})).await;
    assert_eq!(one.event().await.data["job"], b.as_str());
    assert_eq!(cancelled.event().await.data["job"], a.as_str());
    assert_eq!(acme.event().await.data["job"], b.as_str());
    assert_refused(&t.get("/events?event=what").await, 422, "invalid_value", Some("event"));
    assert_refused(&t.get("/events?job=what").await, 422, "invalid_value", Some("job"));
    let odd = t.request("GET", "/events").header("Last-Event-ID", "x").send().await;
    assert_refused(&odd, 422, "invalid_value", Some("last_event_id"));
}

#[tokio::test]
async fn a_server_that_stops_ends_its_streams_with_a_word() {
    let mut t = Fixture::new().await;
    let mut stream = Stream::open(t.request("GET", "/events")).await;
    tokio::time::timeout(Duration::from_secs(10), t.stop()).await.expect("it ends in time");
    let end = stream.event().await;
    assert_eq!((end.name.as_str(), &end.data["reason"]), ("end", &json!("draining")));
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_revoked() {
    let t = Fixture::new().await;
    let made = t.store.create_key(&Caller::local(), NewKey::new("ann", Role::Admin)).await.unwrap();
    let bearer = format!("Bearer {}", made.secret.reveal());
    let mut stream = Stream::open(t.request("GET", "/events").header("Authorization", &bearer)).await;
    let other = t.store.create_key(&Caller::local(), NewKey::new("bob", Role::Admin)).await.unwrap();
    assert_eq!(stream.event().await.name, "key.ops.created");
    t.store.revoke_key(&Caller::local(), made.key.id).await.unwrap();
    tokio::time::pause();
    let mut names = Vec::new();
    while names.last().is_none_or(|name| name != "end") {
        names.push(stream.event().await.name);
    }
    assert_eq!(names.last().unwrap(), "end");
    drop(other);
}

/// A reader that takes nothing is cut off, and finds out why when it reads on.
#[tokio::test]
async fn a_reader_that_does_not_keep_up_is_cut_off_with_a_word() {
    let t = Fixture::new().await;
    let mut socket = t.request("GET", "/events").start().await;
    let mut first = [0; 12];
    socket.read_exact(&mut first).await.unwrap();
    // More than any buffer between here and there holds.
    let jobs: Vec<Value> = (0..2000).map(|_| json!({"type": "a"})).collect();
    t.post_ok(201, "/jobs/batch", json!({"jobs": jobs})).await;
    for action in ["suspend", "cancel"] {
        let body = json!({"action": action, "filter": {}, "reason": "\u{1f300}".repeat(1024)});
        t.post_ok(200, "/jobs/bulk", body).await;
    }
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11)).await;
    tokio::time::resume();
    let mut text = Vec::new();
    socket.read_to_end(&mut text).await.unwrap();
    let text = String::from_utf8_lossy(&text);
    let end = "event: end\ndata: {\"reason\":\"too_slow\"}";
    assert!(text.contains(end), "{} bytes and no end", text.len());
}

/// Model: audit-trail. A type's own name for its successes is a name by which they are found.
#[tokio::test]
async fn successes_are_found_by_the_name_their_type_gives_them() {
    let t = Fixture::new().await;
    let refused = t.get("/audit?event=EMAIL_SENT").await;
    assert_refused(&refused, 422, "invalid_value", Some("event"));
    assert_refused(&t.get("/events?event=EMAIL_SENT").await, 422, "invalid_value", Some("event"));
    t.completed(json!({"type": "other"})).await;
    let put = t.request("PUT", "/types/email").json(&json!({"success_event": "EMAIL_SENT"})).send().await;
    assert_eq!(put.status, 200);
    let mut stream = Stream::open(t.request("GET", "/events?event=EMAIL_SENT")).await;
    t.completed(json!({"type": "other"})).await;
    let id = t.completed(json!({"type": "email"})).await;
    let event = stream.event().await;
    assert_eq!((&event.name[..], &event.data["event"]), ("job.lifecycle.completed", &json!("EMAIL_SENT")));
    assert_eq!(event.data["job"], json!(id));
    let found = t.get_ok("/audit?event=EMAIL_SENT").await;
    let found = found["records"].as_array().unwrap();
    assert_eq!((found.len(), &found[0]["job"]), (1, &json!(id)));
    assert_eq!(
        t.get_ok("/audit?event=job.lifecycle.completed").await["records"].as_array().unwrap().len(),
        3
    );
}

/// Model: audit-trail. The trail and the stream are searched by queue and type, also for a job that is gone.
#[tokio::test]
async fn events_are_found_by_queue_and_type() {
    let t = Fixture::new().await;
    let mut stream = Stream::open(t.request("GET", "/events?queue=mail&type=email")).await;
    let other = t.submit(json!({"type": "email", "queue": "other"})).await;
    let report = t.submit(json!({"type": "report", "queue": "mail"})).await;
    let id = t.submit(json!({"type": "email", "queue": "mail"})).await;
    for id in [&other, &report, &id] {
        t.post_ok(200, &format!("/jobs/{id}/cancel"), json!({})).await;
        assert_eq!(t.request("DELETE", &format!("/jobs/{id}")).send().await.status, 204);
    }
    for name in ["job.lifecycle.submitted", "job.lifecycle.cancelled", "job.ops.deleted"] {
        let event = stream.event().await;
        assert_eq!((&event.name[..], &event.data["job"]), (name, &json!(id)));
        assert_eq!((&event.data["queue"], &event.data["type"]), (&json!("mail"), &json!("email")));
    }
    let found = async |query: &str| -> Vec<Value> {
        let page = t.get_ok(&format!("/audit?{query}")).await;
        page["records"].as_array().unwrap().iter().map(|record| record["job"].clone()).collect()
    };
    assert_eq!(found("queue=mail&type=email").await, [json!(id), json!(id)]);
    assert_eq!(found("queue=mail&event=job.ops.deleted").await, [json!(report), json!(id)]);
    assert_eq!(found(&format!("type=email&job={other}")).await.len(), 2);
    assert!(found(&format!("type=report&job={other}")).await.is_empty());
    assert!(found("queue=nowhere").await.is_empty());
    assert_refused(&t.get("/audit?queue=1").await, 422, "invalid_value", Some("queue"));
    // What is kept is found by the stream too.
    let mut kept = Stream::open(t.request("GET", "/events?queue=mail&type=report&last_event_id=0")).await;
    assert_eq!(kept.event().await.data["job"], json!(report));
}
