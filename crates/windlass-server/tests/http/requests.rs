//! What holds for every request: one shape of refusals, request ids, bounded bodies, foreign pages, draining.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass::Store;
use windlass::clock::Stopwatch;
use windlass::store::StoreOptions;
use windlass_server::limits;
use windlass_server::server::{Options, Server};
use windlass_testkit::client::Request;

use crate::fixture::{Fixture, assert_refused};

#[tokio::test]
async fn strange_paths_and_methods_are_refused_in_the_same_shape() {
    let t = Fixture::new().await;
    assert_refused(&t.get("/nothing").await, 404, "not_found", None);
    assert_refused(&Request::new(t.address, "GET", "/nothing").send().await, 404, "not_found", None);
    assert_refused(&t.request("PUT", "/jobs").send().await, 405, "method_not_allowed", None);
    assert_refused(&t.get("/jobs/not-an-id").await, 404, "not_found", None);
    assert_refused(&t.get("/jobs/%ff").await, 404, "not_found", None);
    let unknown = "/jobs/00000000-0000-4000-8000-000000000000";
    for path in
        ["", "/attempts", "/checkpoints", "/events", "/children", "/logs", "/result", "/graph", "/explain"]
    {
        assert_refused(&t.get(&format!("{unknown}{path}")).await, 404, "not_found", None);
    }
    for path in ["submit", "suspend", "resume", "cancel", "redrive", "signals/x"] {
        assert_refused(&t.post(&format!("{unknown}/{path}"), json!({})).await, 404, "not_found", None);
    }
}

/// Bytes that are not a request get an error response like everything else.
#[tokio::test]
async fn what_cannot_be_read_as_a_request_is_refused_in_the_same_shape() {
    let t = Fixture::new().await;
    let long = format!("GET /{} HTTP/1.1\r\nHost: localhost\r\n\r\n", "a".repeat(66_000));
    let lines = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "X: y\r\n".repeat(200));
    let large = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "y".repeat(1 << 20));
    for (sent, status, code) in [
        ("what is this?\r\n\r\n", 400, "not_http"),
        ("GET / HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400, "not_http"),
        (&long, 414, "address_too_long"),
        (&lines, 431, "head_too_large"),
        (&large, 431, "head_too_large"),
    ] {
        let mut stream = TcpStream::connect(t.address).await.unwrap();
        // The server may close before it has read all of it.
        let _ = stream.write_all(sent.as_bytes()).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        let answer = windlass_testkit::client::parse(&bytes);
        assert_refused(&answer, status, code, None);
        assert_eq!(answer.header("x-request-id").map(str::len), Some(32));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}

/// A proxy in front of the server might take these for something else than the server does.
#[tokio::test]
async fn requests_that_leave_open_whom_they_are_for_or_how_long_they_are_are_refused() {
    let t = Fixture::new().await;
    let lines: Vec<String> = (0..70).map(|number| format!("X-{number}: {}\r\n", "y".repeat(1_000))).collect();
    let large = lines.concat();
    let large = format!("Host: localhost\r\n{large}");
    for (path, headers, status, code) in [
        ("/healthz", "", 400, "not_http"),
        ("/healthz", "Host: localhost\r\nHost: localhost\r\n", 400, "not_http"),
        ("/healthz", "Host: [::1]evil\r\n", 400, "not_http"),
        ("/healthz", "Host: user@localhost\r\n", 400, "not_http"),
        ("http://evil.example/healthz", "Host: localhost\r\n", 400, "not_http"),
        ("/healthz", "Host: localhost\r\nTransfer-Encoding: identity, chunked\r\n", 400, "not_http"),
        (
            "/healthz",
            "Host: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            400,
            "not_http",
        ),
        (
            "/healthz",
            "Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            400,
            "not_http",
        ),
        ("/healthz", "Host: localhost\n", 400, "not_http"),
        ("/healthz", "Host: localhost\r\nX: a\r\n b\r\n", 400, "not_http"),
        ("/healthz", &large, 431, "head_too_large"),
    ] {
        let mut stream = TcpStream::connect(t.address).await.unwrap();
        let sent = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n0\r\n\r\n");
        let _ = stream.write_all(sent.as_bytes()).await;
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        assert_refused(&windlass_testkit::client::parse(&bytes), status, code, None);
    }
    let old = "GET /healthz HTTP/1.0\r\n\r\n";
    let mut stream = TcpStream::connect(t.address).await.unwrap();
    stream.write_all(old.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.0 200"), "before HTTP/1.1 there was no Host: {text}");
}

/// A bare line end in a chunk's extension, which some proxies take for the end of the line, must not let the rest of the
/// connection pass as requests.
#[tokio::test]
async fn nothing_follows_a_request_with_two_meanings() {
    let t = Fixture::new().await;
    for body in ["2;a=\n\r\n{}\r\n0\r\n\r\n", "2\r\n{}\r\n0\r\na: b\nc: d\r\n\r\n", "2\n{}\r\n0\r\n\r\n"] {
        let mut stream = TcpStream::connect(t.address).await.unwrap();
        let head = "Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
        let next =
            "GET /healthz HTTP/1.1\nHost: localhost\n\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let sent = format!("POST /api/v1/jobs HTTP/1.1\r\n{head}\r\n{body}{next}");
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.starts_with("HTTP/1.1 400") && !text.contains("HTTP/1.1 200"), "{body:?}: {text}");
    }
}

#[tokio::test]
async fn every_answer_carries_a_request_id() {
    let t = Fixture::new().await;
    for path in ["/jobs", "/nothing", "/jobs/x"] {
        let id = t.get(path).await.header("x-request-id").map(str::to_owned);
        assert_eq!(id.map(|id| id.len()), Some(32), "{path}");
    }
    assert_eq!(t.request("PUT", "/jobs").send().await.header("x-request-id").map(str::len), Some(32));
    let named = t.request("GET", "/jobs").header("x-request-id", "abc-123").send().await;
    assert_eq!(named.header("x-request-id"), Some("abc-123"));
    let strange = t.request("GET", "/jobs").header("x-request-id", &"x".repeat(200)).send().await;
    assert_eq!(strange.header("x-request-id").map(str::len), Some(32));
}

#[tokio::test]
async fn the_routes_answer_below_both_prefixes() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a"})).await;
    let answer = Request::new(t.address, "POST", &format!("/api/jobs/{id}/suspend")).send().await;
    assert_eq!((answer.status, &answer.json()["state"]), (200, &json!("suspended")));
}

#[tokio::test]
async fn a_body_that_is_no_json_or_does_not_fit_is_refused() {
    let t = Fixture::new().await;
    let post = async |body: &str| t.request("POST", "/jobs").body(body).send().await;
    assert_refused(&post("{").await, 400, "not_json", None);
    assert_refused(&post("{\"type\":\"a\"} x").await, 400, "not_json", None);
    assert_refused(&post("\u{fffd}").await, 400, "not_json", None);
    assert_refused(&post("").await, 422, "invalid_value", Some("type"));
    assert_refused(&post("[]").await, 422, "invalid_value", Some("body"));
    assert_refused(&post("null").await, 422, "invalid_value", Some("body"));
    assert_refused(&post("{\"type\":\"a\",\"id\":\"x\"}").await, 422, "invalid_value", Some("id"));
    let deep = format!("{{\"type\":\"a\",\"payload\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    assert_refused(&post(&deep).await, 422, "invalid_value", Some("body"));
}

/// Model: payload. What is over the limit is 413, however it is sent.
/// A value of the wrong kind is 422, wherever it is; what is not JSON is 400, whatever else is wrong with it.
#[tokio::test]
async fn json_of_the_wrong_kind_is_distinguished_from_what_is_no_json() {
    let t = Fixture::new().await;
    let cases = [
        ("POST", "/queues/mail/pause", "mode"),
        ("POST", "/workers", "concurrency"),
        ("POST", "/jobs/bulk", "action"),
        ("POST", "/jobs", "delay"),
        ("PUT", "/queues/mail", "fair_by"),
        ("PUT", "/queues/mail", "audit"),
        ("PUT", "/schedules/nightly", "missed"),
        ("PUT", "/schedules/nightly", "overlap"),
        ("PUT", "/types/report", "priority"),
        ("POST", "/keys", "role"),
    ];
    for (method, path, field) in cases {
        for value in ["-1.5", "[]", "{}", "true", "1e999"] {
            let sent = |text: String| t.request(method, path).body(text);
            let answer = sent(format!(r#"{{"{field}": {value}}}"#)).send().await;
            assert_refused(&answer, 422, "invalid_value", Some(field));
            for text in [format!(r#"{{"{field}": {value}"#), format!(r#"{{"{field}": {value}, "x":}}"#)] {
                assert_refused(&sent(text).send().await, 400, "not_json", None);
            }
        }
    }
    let cancelled = format!("/jobs/{}", t.submit(json!({"type": "report"})).await);
    t.post(&format!("{cancelled}/cancel"), json!({})).await;
    let nulls = json!({"reset_checkpoints": null, "only_once": null, "from_step": null});
    assert_eq!(t.post(&format!("{cancelled}/redrive"), nulls).await.status, 201);
    let nulls = json!({"action": "cancel", "filter": {"type": "none"}, "dry_run": null, "reason": null});
    assert_eq!(t.post("/jobs/bulk", nulls).await.status, 200);
    assert_eq!(t.post("/queues/mail/resume", json!({"jobs": null, "reason": null})).await.status, 200);
}

#[tokio::test]
async fn a_body_over_its_limit_is_refused_before_it_is_kept() {
    let t = Fixture::new().await;
    let payload = |bytes: usize| format!("{{\"type\":\"a\",\"payload\":\"{}\"}}", "x".repeat(bytes - 2));
    let post = async |body: String| t.request("POST", "/jobs").body(body).send().await;
    assert_eq!(post(payload(1 << 20)).await.status, 201);
    assert_refused(&post(payload((1 << 20) + 1)).await, 413, "payload_too_large", Some("payload"));
    assert_refused(&post(payload(20 << 20)).await, 413, "body_too_large", None);
    let verb = t.request("POST", "/jobs/bulk").body(" ".repeat(300 << 10)).send().await;
    assert_refused(&verb, 413, "body_too_large", None);
    // Chunked, so that the length is not known beforehand.
    let mut stream = TcpStream::connect(t.address).await.unwrap();
    let head = "POST /api/v1/jobs/bulk HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 400 << 10, " ".repeat(400 << 10));
    stream.write_all(chunk.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn pages_of_other_sites_are_refused() {
    let t = Fixture::new().await;
    let ask = async |name: &str, value: &str| {
        t.request("POST", "/jobs").header(name, value).json(&json!({"type": "a"})).send().await
    };
    for site in ["cross-site", "same-site", "?"] {
        assert_refused(&ask("Sec-Fetch-Site", site).await, 403, "cross_site", None);
    }
    assert_refused(&ask("Origin", "https://evil.example").await, 403, "cross_site", None);
    assert_refused(&ask("Origin", "null").await, 403, "cross_site", None);
    assert_eq!(ask("Sec-Fetch-Site", "same-origin").await.status, 201);
    assert_eq!(ask("Origin", &format!("http://{}", t.address)).await.status, 201);
    // A link from another site leads here; a frame of its page does not.
    for (shown, status) in [("document", 200), ("iframe", 403), ("object", 403), ("embed", 403)] {
        let visit = t.request("GET", "/jobs").header("Sec-Fetch-Site", "cross-site");
        let visit = visit.header("Sec-Fetch-Mode", "navigate").header("Sec-Fetch-Dest", shown);
        assert_eq!(visit.send().await.status, status, "{shown}");
    }
    // A host name that an attacker points at this machine.
    assert_refused(&ask("Host", "evil.example").await, 403, "foreign_host", None);
    assert_refused(&ask("Host", "127.0.0.1.evil.example:80").await, 403, "foreign_host", None);
    for own in ["localhost", "LOCALHOST:7788", "127.0.0.1", "[::1]:7788"] {
        assert_eq!(ask("Host", own).await.status, 201, "{own}");
    }
}

#[tokio::test]
async fn a_head_that_never_ends_is_cut_off_while_others_are_served() {
    let t = Fixture::new().await;
    let mut slow = TcpStream::connect(t.address).await.unwrap();
    slow.write_all(b"GET /api/v1/jobs HTTP/1.1\r\nHost: local").await.unwrap();
    assert_eq!(t.get("/jobs").await.status, 200);
    tokio::time::pause();
    let mut rest = Vec::new();
    // Hyper may respond with 408 or close at once.
    let _ = slow.read_to_end(&mut rest).await;
    tokio::time::resume();
    assert_eq!(t.get("/jobs").await.status, 200);
}

/// Once connections are scarce, idle ones are closed early.
#[tokio::test]
async fn silent_clients_make_room_when_connections_are_scarce() {
    let store = Store::open("memory:", StoreOptions::default()).unwrap();
    let listen = ([127, 0, 0, 1], 0).into();
    let options = Options { listen, connections_max: 2, ..Options::default() };
    let server = Server::bind(store, options).await.unwrap();
    let address = server.address();
    let serving = tokio::spawn(server.run(std::future::pending()));
    let (_first, mut second) =
        (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
    let watch = Stopwatch::start();
    assert_eq!(Request::new(address, "GET", "/healthz").send().await.status, 200);
    assert!(watch.elapsed() < limits::HEAD_TIME_MAX, "it waited for {:?}", watch.elapsed());
    assert_eq!(second.read(&mut [0; 1]).await.unwrap_or(0), 0, "the second was cut off");
    serving.abort();
}

#[tokio::test]
async fn a_body_that_never_ends_is_refused() {
    let t = Fixture::new().await;
    let mut slow = TcpStream::connect(t.address).await.unwrap();
    let head = "POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(t.get("/jobs").await.status, 200);
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let mut answer = [0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
    assert!(began.elapsed() < 2 * limits::BODY_TIME_MAX, "{:?}", began.elapsed());
}

/// Starts a request that waits, and stops the server while it does; gives its answer.
async fn answer_to_a_waiter_of_a_server_that_stops(mut t: Fixture, request: Request) -> String {
    let mut waiter = request.start().await;
    while !t.store.environment().wakeups.has_waiters() {
        tokio::task::yield_now().await;
    }
    tokio::time::timeout(Duration::from_secs(10), t.stop()).await.expect("it ends in time");
    assert!(TcpStream::connect(t.address).await.is_err());
    let mut text = String::new();
    waiter.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_server_that_stops_answers_those_who_wait_for_a_job() {
    let t = Fixture::new().await;
    let id = t.submit(json!({"type": "a", "delay": "1h"})).await;
    let request = t.request("GET", &format!("/jobs/{id}?wait=5m"));
    let text = answer_to_a_waiter_of_a_server_that_stops(t, request).await;
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("\"delayed\""), "{text}");
}

#[tokio::test]
async fn a_server_that_stops_answers_those_who_wait_for_work() {
    let t = Fixture::new().await;
    let worker = t.worker().await;
    let request = t.request("POST", "/claims").json(&json!({"worker_id": worker, "wait": "60s"}));
    let text = answer_to_a_waiter_of_a_server_that_stops(t, request).await;
    assert!(text.ends_with("{\"jobs\":[],\"paused\":false}"), "{text}");
}

#[tokio::test]
async fn an_unread_body_does_not_cost_the_connection() {
    let t = Fixture::new().await;
    let mut stream = TcpStream::connect(t.address).await.unwrap();
    let refused = "PUT /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n";
    let next = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    // Head, body and the next request arrive apart, as many clients send them.
    for part in [refused, "{}", next] {
        stream.write_all(part.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    let statuses: Vec<&str> = answers.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect();
    assert_eq!(statuses, ["405", "200"], "{answers}");
}
