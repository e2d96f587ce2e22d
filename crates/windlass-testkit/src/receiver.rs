//! A receiver on this machine with a configurable behaviour, which records the requests.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::PATIENCE;

/// A request as it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The first line.
    pub line: String,
    /// The others, names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Request {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// A receiver; it stops listening when dropped.
pub struct Receiver {
    pub address: SocketAddr,
    requests: mpsc::Receiver<Request>,
    _tasks: JoinSet<()>,
}

impl Receiver {
    /// Answers every request with these bytes.
    pub async fn answering(answer: impl Into<String>) -> Receiver {
        let answer = Arc::new(answer.into());
        Receiver::start(move |_, mut stream| {
            let answer = answer.clone();
            async move { stream.write_all(answer.as_bytes()).await }
        })
        .await
    }

    /// Does this with every connection, once its request has been read.
    pub async fn start<F>(behave: impl Fn(Request, TcpStream) -> F + Send + Sync + 'static) -> Receiver
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::channel(10_000);
        let behave = Arc::new(behave);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let (sender, behave) = (sender.clone(), behave.clone());
                connections.spawn(async move {
                    let Ok(request) = read(&mut stream).await else { return };
                    sender.send(request.clone()).await.unwrap();
                    // The caller may have disconnected already.
                    let _ = behave(request, stream).await;
                });
            }
        });
        Receiver { address, requests, _tasks: tasks }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook?a=b", self.address)
    }

    /// The next request.
    pub async fn request(&mut self) -> Request {
        let next = tokio::time::timeout(PATIENCE, self.requests.recv()).await;
        next.expect("a request comes").expect("the receiver lives")
    }

    /// Whether nothing has come but what was taken already.
    pub fn is_quiet(&self) -> bool {
        self.requests.is_empty()
    }
}

/// An answer of this status with a body.
pub fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Reads one request.
pub async fn read(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).await?;
    let mut headers = BTreeMap::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).await?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).await?;
    if line.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Request { line: line.trim_end().to_owned(), headers, body })
}
