//! Traces: a collector that is not ours gets the spans of a job, from its submission to its handler.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use windlass_testkit::{PATIENCE, ServerProcess, store_folder, store_in, terminate, windlass};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

/// A collector: keeps all spans it is sent, and answers well.
struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<Value>>>,
}

impl Collector {
    async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let spans = Arc::new(Mutex::new(Vec::new()));
        let kept = spans.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let taken = take(stream).await;
                kept.lock().unwrap().extend(taken);
            }
        });
        Collector { url, spans }
    }

    /// The spans with this name, in the order in which they were sent.
    fn named(&self, name: &str) -> Vec<Value> {
        self.spans.lock().unwrap().iter().filter(|span| span["name"] == name).cloned().collect()
    }

    fn one(&self, name: &str) -> Value {
        let found = self.named(name);
        assert_eq!(found.len(), 1, "{name}: {:?}", self.spans.lock().unwrap());
        found[0].clone()
    }
}

/// Reads one request and answers it.
async fn take(mut stream: TcpStream) -> Vec<Value> {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "half a request");
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let (_, length) = head.split_once("content-length: ").unwrap();
        let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
        if bytes.len() >= end + 4 + length {
            break (head, bytes[end + 4..].to_vec());
        }
    };
    assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
    assert!(head.contains("content-type: application/json") && head.contains("api-key: mine"), "{head}");
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let resource = &body["resourceSpans"][0];
    assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "jobs");
    resource["scopeSpans"][0]["spans"].as_array().unwrap().clone()
}

fn traced(arguments: &[&str], collector: &Collector) -> tokio::process::Command {
    let mut command = windlass(arguments);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url);
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=mine");
    command.env("OTEL_SERVICE_NAME", "jobs");
    command
}

/// Lets a worker in a process of its own run one job with a program that writes down its trace; what it wrote.
async fn work(served: &ServerProcess, collector: &Collector, id: &str) -> String {
    let url = format!("http://{}", served.address);
    let arguments = ["work", "--url", &url, "a", "--", "/bin/sh", "-c", "printf '\"%s\"' \"$TRACEPARENT\""];
    let mut worker = traced(&arguments, collector).spawn().unwrap();
    let path = format!("/jobs/{id}?wait=60s");
    let ended = tokio::time::timeout(PATIENCE, served.request("GET", &path).send()).await.unwrap().json();
    assert_eq!(ended["state"], "completed", "{ended}");
    terminate(&mut worker).await;
    let result = served.request("GET", &format!("/jobs/{id}/result")).send().await.json();
    result["result"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

#[tokio::test]
async fn a_collector_sees_a_job_from_its_submission_to_its_handler() {
    let (folder, collector) = (store_folder(), Collector::start().await);
    let store = store_in(folder.path());
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", &store];
    let served = ServerProcess::start(traced(&serve, &collector)).await;
    let traceparent = format!("00-{TRACE}-{CLIENT_SPAN}-01");
    let body = json!({"type": "a", "payload": {"secret": "canary"}});
    let submitted =
        served.request("POST", "/jobs").header("traceparent", &traceparent).json(&body).send().await.json();
    assert_eq!(submitted["traceparent"], traceparent);
    let received = work(&served, &collector, submitted["id"].as_str().unwrap()).await;
    assert_eq!(received, traceparent);
    served.stop().await;

    let request = collector.one("POST /api/v1/jobs");
    assert_eq!((&request["traceId"], &request["parentSpanId"]), (&json!(TRACE), &json!(CLIENT_SPAN)));
    assert_eq!(request["kind"], 2);
    assert!(request["attributes"].to_string().contains("201"), "{request}");
    let submission = collector.one("send");
    assert_eq!((&submission["traceId"], &submission["parentSpanId"]), (&json!(TRACE), &request["spanId"]));
    let handler = collector.one("process default");
    assert_eq!((&handler["traceId"], &handler["parentSpanId"]), (&json!(TRACE), &json!(CLIENT_SPAN)));
    assert_eq!(handler["kind"], 5);
    assert!(handler["attributes"].to_string().contains(submitted["id"].as_str().unwrap()), "{handler}");
    let nanos = |span: &Value, end: &str| span[end].as_str().unwrap().parse::<u128>().unwrap();
    for span in [&request, &submission, &handler] {
        assert!(nanos(span, "startTimeUnixNano") <= nanos(span, "endTimeUnixNano"), "{span}");
    }
    // Claims are for many jobs at once, so they belong to their own requests.
    let requests = collector.named("POST /api/v1/claims");
    let is_of = |claim: &Value, request: &Value| {
        request["traceId"] == claim["traceId"] && request["spanId"] == claim["parentSpanId"]
    };
    let claims = collector.named("receive");
    assert!(claims.iter().any(|claim| requests.iter().any(|request| is_of(claim, request))), "{claims:?}");
    assert!(!json!(*collector.spans.lock().unwrap()).to_string().contains("canary"));
}

#[tokio::test]
async fn a_submission_without_a_trace_begins_one_and_an_unwanted_trace_is_not_sent() {
    let (folder, collector) = (store_folder(), Collector::start().await);
    let store = store_in(folder.path());
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", &store];
    let served = ServerProcess::start(traced(&serve, &collector)).await;
    let submitted = served.post("/jobs", &json!({"type": "a"})).await;
    let unwanted =
        served.request("GET", "/queues").header("traceparent", &format!("00-{TRACE}-{CLIENT_SPAN}-00"));
    assert_eq!(unwanted.send().await.status, 200);
    work(&served, &collector, submitted["id"].as_str().unwrap()).await;
    served.stop().await;

    let (request, handler) = (collector.one("POST /api/v1/jobs"), collector.one("process default"));
    assert_eq!((&handler["traceId"], &handler["parentSpanId"]), (&request["traceId"], &request["spanId"]));
    assert!(request.get("parentSpanId").is_none(), "{request}");
    let traceparent = submitted["traceparent"].as_str().unwrap();
    assert!(traceparent.contains(request["traceId"].as_str().unwrap()), "{traceparent}");
    assert!(collector.named("GET /api/v1/queues").is_empty());
}

#[tokio::test]
async fn a_collector_sees_what_a_worker_does_that_works_on_the_store_itself() {
    let (folder, collector) = (store_folder(), Collector::start().await);
    let store = store_in(folder.path());
    let served =
        ServerProcess::start(windlass(&["serve", "--listen", "127.0.0.1:0", "--store", &store])).await;
    let traceparent = format!("00-{TRACE}-{CLIENT_SPAN}-01");
    let submit = served.request("POST", "/jobs").header("traceparent", &traceparent);
    let id = submit.json(&json!({"type": "a"})).send().await.json()["id"].as_str().unwrap().to_owned();
    let arguments = ["work", "--store", &store, "a", "--", "/bin/true"];
    let mut worker = traced(&arguments, &collector).spawn().unwrap();
    let path = format!("/jobs/{id}?wait=60s");
    let ended = tokio::time::timeout(PATIENCE, served.request("GET", &path).send()).await.unwrap().json();
    assert_eq!(ended["state"], "completed", "{ended}");
    terminate(&mut worker).await;
    served.stop().await;

    let handler = collector.one("process default");
    assert_eq!((&handler["traceId"], &handler["parentSpanId"]), (&json!(TRACE), &json!(CLIENT_SPAN)));
    assert!(handler["attributes"].to_string().contains(&id), "{handler}");
    assert!(!collector.named("receive").is_empty());
}

#[tokio::test]
async fn a_collector_that_is_not_there_holds_nothing_up() {
    let folder = store_folder();
    // Bound and closed: nothing listens there.
    let url = format!("http://{}", TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap());
    let collector = Collector { url, spans: Arc::default() };
    let store = store_in(folder.path());
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", &store];
    let served = ServerProcess::start(traced(&serve, &collector)).await;
    for _ in 0..3 {
        served.post("/jobs", &json!({"type": "a"})).await;
    }
    let said = served.stop().await;
    assert_eq!(said.matches("does not accept traces").count(), 1, "{said}");
    assert!(!said.contains("mine"), "{said}");
}
