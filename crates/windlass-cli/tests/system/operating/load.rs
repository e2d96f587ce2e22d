//! Load over HTTP on a server that may be killed at any time: acknowledged jobs are recorded, others may or may not exist.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use windlass_testkit::client::{TestResponse, parse};

/// A whole answer to a request below `/api/v1`; none if the server went away meanwhile.
pub(crate) async fn ask(server: SocketAddr, method: &str, path: &str, body: &Value) -> Option<TestResponse> {
    let mut stream = TcpStream::connect(server).await.ok()?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let length = body.len();
    let request = format!(
        "{method} /api/v1{path} HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.ok()?;
    bytes.windows(4).find(|window| window == b"\r\n\r\n")?;
    let answer = parse(&bytes);
    let whole = answer.header("content-length").and_then(|length| length.parse().ok());
    (whole == Some(answer.body.len())).then_some(answer)
}

/// What was acknowledged, and whether more is wanted.
#[derive(Default)]
pub(crate) struct Acknowledged {
    ids: Mutex<Vec<String>>,
    count: AtomicUsize,
    is_enough: AtomicBool,
    grown: Notify,
}

impl Acknowledged {
    fn add(&self, ids: impl Iterator<Item = String>) {
        let mut known = self.ids.lock().unwrap();
        known.extend(ids);
        self.count.store(known.len(), Ordering::SeqCst);
        self.grown.notify_waiters();
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until so many were acknowledged.
    pub(crate) async fn reaches(&self, count: usize) {
        loop {
            let grown = self.grown.notified();
            if self.count() >= count {
                return;
            }
            grown.await;
        }
    }

    /// Stops those who submit.
    pub(crate) fn end(&self) {
        self.is_enough.store(true, Ordering::SeqCst);
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        self.ids.lock().unwrap().clone()
    }
}

/// Submits a job, or three at once, again and again, until there is enough or the server is gone.
pub(crate) async fn submit(server: SocketAddr, acknowledged: Arc<Acknowledged>) {
    let job = json!({"type": "count", "timeouts": {"lease": "2s"}});
    for number in 0_usize.. {
        if acknowledged.is_enough.load(Ordering::SeqCst) {
            return;
        }
        let (path, body) = if number % 4 == 3 {
            ("/jobs/batch", json!({"jobs": [job, job, job]}))
        } else {
            ("/jobs", job.clone())
        };
        let Some(answer) = ask(server, "POST", path, &body).await else { return };
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        let answer = answer.json();
        let jobs = answer["jobs"].as_array().cloned().unwrap_or_else(|| vec![answer]);
        acknowledged.add(jobs.iter().map(|job| job["id"].as_str().expect("a job has an id").to_owned()));
    }
}
