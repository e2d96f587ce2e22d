//! A plain connection to a server, as in a load generator: requests are prepared as bytes and responses are parsed no
//! further than needed, so that the server is measured and not its client. No redirects, no chunked encoding; with TLS if
//! the address requires it, which is then part of the measurement.

use std::sync::Arc;

use anyhow::Context;
use bytes::{Buf, BytesMut};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use windlass_api::client::error::ErrorResponse;
use windlass_api::client::tls;
use windlass_server::limits::BODY_BYTES_LARGE;

use crate::error::Failure;

/// The server to benchmark.
#[derive(Debug, Clone)]
pub(super) struct BenchServer {
    /// Host and port.
    authority: String,
    /// A path prefix, as behind a proxy.
    prefix: String,
    key: Option<String>,
    /// The TLS configuration, for `https`.
    tls: Option<Arc<ClientConfig>>,
}

impl BenchServer {
    /// Parses `http://host:port` or `https://host:port`, optionally with a path.
    pub(super) fn parse(url: &str, key: Option<String>) -> anyhow::Result<BenchServer> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => {
                let like = "a server address looks like http://127.0.0.1:7788";
                return Err(Failure::usage(format!("cannot benchmark {url}: {like}")));
            }
        };
        let tls = (scheme == "https").then(|| tls::config().map(Arc::new));
        let tls = tls.transpose().with_context(|| format!("cannot connect to {url}"))?;
        let (authority, prefix) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
        let authority =
            if authority.contains(':') { authority.to_owned() } else { format!("{authority}:{port}") };
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        Ok(BenchServer { authority, prefix, key, tls })
    }

    /// The server's address for the library, with the key.
    pub(super) fn store_address(&self) -> String {
        let key = self.key.as_ref().map_or(String::new(), |key| format!("{key}@"));
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{key}{}{}", self.authority, self.prefix)
    }

    /// The bytes of a request.
    pub(super) fn request(&self, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
        let key = self.key.as_ref().map_or(String::new(), |key| format!("Authorization: Bearer {key}\r\n"));
        let mut request = format!(
            "{method} {}{path} HTTP/1.1\r\nHost: {}\r\n{key}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.prefix,
            self.authority,
            body.len()
        )
        .into_bytes();
        request.extend_from_slice(body);
        request
    }

    /// Connects.
    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        let no_server = |error: std::io::Error| Failure::NoServer {
            place: self.authority.clone(),
            cause: error.to_string(),
        };
        let stream = TcpStream::connect(&self.authority).await.map_err(no_server)?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let host = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
                let connected = TlsConnector::from(tls.clone()).connect(name, stream).await;
                Box::new(
                    connected.with_context(|| format!("the TLS handshake with {} failed", self.authority))?,
                )
            }
        };
        Ok(Connection { stream, received: BytesMut::with_capacity(16 << 10) })
    }

    /// One request on its own connection, outside the measurement.
    pub(super) async fn ask(&self, method: &str, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = if body.is_null() { Vec::new() } else { serde_json::to_vec(body)? };
        let answer = self.connect().await?.exchange(&self.request(method, path, &body)).await?;
        answer.json().with_context(|| format!("{method} {path}"))
    }

    /// The text at a path.
    pub(super) async fn text(&self, path: &str) -> anyhow::Result<String> {
        let answer = self.connect().await?.exchange(&self.request("GET", path, &[])).await?;
        anyhow::ensure!(answer.status == 200, "GET {path}: status {}", answer.status);
        Ok(String::from_utf8(answer.body.to_vec())?)
    }
}

/// Bytes in both directions, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    received: BytesMut,
}

/// A response.
pub(super) struct RawResponse {
    pub(super) status: u16,
    pub(super) body: BytesMut,
}

impl RawResponse {
    /// The body of a successful response.
    pub(super) fn json(&self) -> anyhow::Result<Value> {
        let shown = || String::from_utf8_lossy(&self.body[..self.body.len().min(500)]).into_owned();
        if self.status >= 300 {
            return Err(match ErrorResponse::read(self.status, &self.body, true) {
                Some(refusal) => Failure::Refused(Box::new(refusal)).into(),
                None => anyhow::anyhow!("the server responded with {}: {}", self.status, shown()),
            });
        }
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).with_context(|| format!("not JSON: {}", shown()))
    }

    /// Fails unless the response is a success.
    pub(super) fn expect_success(&self) -> anyhow::Result<()> {
        if self.status < 300 { Ok(()) } else { self.json().map(drop) }
    }
}

impl Connection {
    /// Sends a request and waits for its response.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<RawResponse> {
        self.send(request).await?;
        let head = self.head().await?;
        let (status, length) = read_head(&self.received[..head])?;
        self.received.advance(head);
        anyhow::ensure!(length <= BODY_BYTES_LARGE, "a response of {length} bytes");
        self.received.reserve(length.saturating_sub(self.received.len()));
        while self.received.len() < length {
            self.more().await?;
        }
        Ok(RawResponse { status, body: self.received.split_to(length) })
    }

    /// Sends without waiting for the response.
    pub(super) async fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        // Encrypted bytes may be buffered.
        Ok(self.stream.flush().await?)
    }

    /// Reads the head of a response; returns its length.
    pub(super) async fn head(&mut self) -> anyhow::Result<usize> {
        let mut seen = 0_usize;
        loop {
            let from = seen.saturating_sub(3);
            if let Some(at) = self.received[from..].windows(4).position(|four| four == b"\r\n\r\n") {
                return Ok(from + at + 4);
            }
            seen = self.received.len();
            self.more().await?;
        }
    }

    /// Reads until these bytes have arrived, and discards everything up to them.
    pub(super) async fn until(&mut self, wanted: &[u8]) -> anyhow::Result<()> {
        loop {
            let at = self.received.windows(wanted.len()).position(|some| some == wanted);
            if let Some(at) = at {
                self.received.advance(at + wanted.len());
                return Ok(());
            }
            self.more().await?;
        }
    }

    async fn more(&mut self) -> anyhow::Result<()> {
        let read = self.stream.read_buf(&mut self.received).await?;
        anyhow::ensure!(read > 0, "the server closed the connection");
        Ok(())
    }
}

/// Status and length of the body.
fn read_head(head: &[u8]) -> anyhow::Result<(u16, usize)> {
    let head = std::str::from_utf8(head)?;
    let status = head.get(9..12).and_then(|digits| digits.parse().ok()).context("not an HTTP response")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Ok((status, length.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_tells_status_and_length() {
        let head = b"HTTP/1.1 201 Created\r\ncontent-type: a\r\nContent-Length: 17\r\n\r\n";
        assert_eq!(read_head(head).unwrap(), (201, 17));
        assert_eq!(read_head(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap(), (204, 0));
        assert!(read_head(b"SSH-2.0\r\n\r\n").is_err());
    }

    #[test]
    fn an_address_is_a_servers_with_perhaps_a_path() {
        let target = BenchServer::parse("http://localhost:7788/jobs/", Some("wl_x".into())).unwrap();
        assert_eq!(target.store_address(), "http://wl_x@localhost:7788/jobs");
        let request = String::from_utf8(target.request("GET", "/healthz", b"")).unwrap();
        assert!(request.starts_with(
            "GET /jobs/healthz HTTP/1.1\r\nHost: localhost:7788\r\nAuthorization: Bearer wl_x\r\n"
        ));
        for bad in ["ftp://localhost", "localhost:7788", "sqlite:jobs.db"] {
            assert!(BenchServer::parse(bad, None).is_err(), "{bad}");
        }
    }
}
