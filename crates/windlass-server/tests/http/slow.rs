//! Bodies that do not come: on every route of the published description, and on the form with which people sign in. Answers
//! that clients do not read.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass::store::caller::Role;
use windlass_server::limits;
use windlass_testkit::client::{TestResponse, parse};

use crate::access::{ask, key};
use crate::description::{description, operations};
use crate::fixture::{Fixture, assert_refused};

/// An id that nothing has.
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// Sends the head of a request that has a large body, and the beginning of that.
async fn begin(t: &Fixture, method: &str, path: &str, secret: Option<&str>) -> TcpStream {
    let mut stream = TcpStream::connect(t.address).await.unwrap();
    let bearer = secret.map(|secret| format!("Authorization: Bearer {secret}\r\n")).unwrap_or_default();
    let (host, length) = (t.address, limits::SIGN_IN_BYTES_MAX - 1);
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{bearer}Content-Length: {length}\r\n\r\n{{"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// What is answered before the server closes the connection.
async fn end(mut stream: TcpStream) -> TestResponse {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    parse(&bytes)
}

/// Every route that may change something, with an id that nothing has.
async fn routes(t: &Fixture) -> Vec<(String, String, String)> {
    let all = operations(&description(t).await).into_iter();
    let all = all.filter(|(_, method, _)| method != "GET");
    let filled = all.map(|(path, method, operation)| {
        let path = path.replace("{id}", UNKNOWN).replace("{name}", "some").replace("{schedule}", "some");
        let path = path.replace("{tenant}", "acme").replace("{type}", "a").replace("{queue}", "default");
        (method, path, operation["x-permission"].as_str().unwrap().to_owned())
    });
    filled.collect()
}

#[tokio::test]
async fn no_route_waits_for_a_body_that_does_not_come() {
    let t = Fixture::new().await;
    let boss = key(&t, "boss", Role::Admin, None).await;
    let mut begun = vec![begin(&t, "POST", "/sign-in", None).await];
    for (method, path, _) in routes(&t).await {
        begun.push(begin(&t, &method, &path, Some(&boss)).await);
    }
    assert!(begun.len() > 30);
    assert_eq!(ask(&t, &boss, "GET", "/jobs", json!({})).await.status, 200);
    tokio::time::pause();
    let mut slow = 0;
    for stream in begun {
        let answer = end(stream).await;
        assert!(answer.status >= 200, "it was answered");
        slow += usize::from(answer.status == 408);
    }
    assert!(slow > 20, "those that read a body say what is wrong: {slow}");
}

#[tokio::test]
async fn a_form_that_is_sent_byte_by_byte_is_cut_off() {
    let t = Fixture::new().await;
    key(&t, "boss", Role::Admin, None).await;
    let stream = begin(&t, "POST", "/sign-in", None).await;
    assert_eq!(t.get("/jobs").await.status, 401);
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    assert_eq!(end(stream).await.status, 408);
    assert!(began.elapsed() <= limits::SIGN_IN_TIME_MAX + limits::DISCARD_TIME_MAX + limits::BODY_LOOK_EVERY);
}

/// A caller without permission is rejected before it has sent a body, and takes no shared memory.
#[tokio::test]
async fn a_role_is_refused_before_the_body_is_read() {
    let t = Fixture::new().await;
    let viewer = key(&t, "eve", Role::Viewer, None).await;
    let mut begun = Vec::new();
    for (method, path, permission) in routes(&t).await.into_iter().filter(|(_, _, word)| word != "view") {
        begun.push((
            format!("{method} {path} ({permission})"),
            begin(&t, &method, &path, Some(&viewer)).await,
        ));
    }
    assert!(begun.len() > 30);
    assert_eq!(ask(&t, &viewer, "GET", "/jobs", json!({})).await.status, 200);
    tokio::time::pause();
    for (route, stream) in begun {
        let answer = end(stream).await;
        // The job in the path does not exist.
        let (status, code) = if route.contains("/jobs/0") { (404, "not_found") } else { (403, "forbidden") };
        assert_eq!(answer.status, status, "{route}");
        assert_refused(&answer, status, code, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_answers_take_a_bounded_memory() {
    let t = Fixture::new().await;
    let (own, other) =
        (key(&t, "own", Role::Admin, None).await, key(&t, "other", Role::Operator, Some("acme")).await);
    let large = json!({"type": "a", "hold": true, "payload": "x".repeat(1_000_000)});
    let jobs: Vec<_> = (0..16).map(|_| large.clone()).collect();
    for key in [&own, &other] {
        assert_eq!(ask(&t, key, "POST", "/jobs/batch", json!({"jobs": jobs.clone()})).await.status, 201);
    }
    let path = "/jobs?payload=true&tenant=default";
    let mut unread = Vec::new();
    // Once four of them are being sent, the key has no memory left for a fifth.
    loop {
        let mut stream = TcpStream::connect(t.address).await.unwrap();
        let head = format!(
            "GET /api/v1{path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {own}\r\n\r\n",
            t.address
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut status = [0; "HTTP/1.1 200".len()];
        stream.read_exact(&mut status).await.unwrap();
        if &status != b"HTTP/1.1 200" {
            break;
        }
        unread.push(stream);
        assert!(unread.len() < 12, "answers take memory without a bound");
    }
    assert_eq!(unread.len(), 4);
    let refused = ask(&t, &own, "GET", path, json!({})).await;
    assert_refused(&refused, 503, "overloaded", None);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(ask(&t, &own, "GET", "/jobs?limit=1", json!({})).await.status, 200, "small answers are sent");
    let theirs = ask(&t, &other, "GET", "/jobs?payload=true", json!({})).await;
    assert_eq!((theirs.status, theirs.json()["jobs"].as_array().unwrap().len()), (200, 16));
    // A client that disconnects releases its memory.
    drop(unread);
    while ask(&t, &own, "GET", path, json!({})).await.status != 200 {}
}
