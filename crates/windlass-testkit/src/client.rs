//! A small HTTP client: one connection per request, nothing hidden.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer.
pub struct TestResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl TestResponse {
    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error} in {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// The first header with this name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// A request that is being put together.
#[must_use = "it is sent by `send` or `start`"]
pub struct Request {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub fn new(address: SocketAddr, method: &str, path: &str) -> Request {
        let headers = vec![("Host".to_owned(), address.to_string())];
        Request { address, method: method.to_owned(), path: path.to_owned(), headers, body: Vec::new() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    pub fn json(self, body: &Value) -> Request {
        self.body(body.to_string())
    }

    /// Sends it and stays connected.
    pub async fn start(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let headers: Vec<String> =
            self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (method, path, headers, length) = (&self.method, &self.path, headers.concat(), self.body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&self.body).await.unwrap();
        stream
    }

    /// Sends it and reads the whole answer.
    pub async fn send(&self) -> TestResponse {
        let mut stream = self.start().await;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        parse(&bytes)
    }
}

/// Takes an answer apart.
pub fn parse(bytes: &[u8]) -> TestResponse {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer has a head");
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    TestResponse { status, headers, body: bytes[end + 4..].to_vec() }
}
