//! One plain connection to a server, as a load tool has it: requests are written as bytes made beforehand and answers are
//! read no further than is needed, so that the server is measured and not its client. No redirects, no chunks; TLS where
//! the address asks for it, which then is a part of what is measured.

use std::sync::Arc;

use anyhow::Context;
use bytes::{Buf, BytesMut};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::cli::connection::client::trusting;
use crate::cli::error::Failure;
use crate::limits::BODY_BYTES_LARGE;

/// A server to be measured.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// Host and port.
    authority: String,
    /// What stands before every path, as behind a proxy.
    prefix: String,
    key: Option<String>,
    /// How TLS is spoken, if it is.
    tls: Option<Arc<ClientConfig>>,
}

impl Target {
    /// Reads `http://host:port` or `https://host:port`, perhaps with a path.
    pub(super) fn parse(url: &str, key: Option<String>) -> anyhow::Result<Target> {
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => {
                let like = "the address of a server looks like http://127.0.0.1:7788";
                return Err(Failure::usage(format!("cannot measure {url}: {like}")));
            }
        };
        let tls = (scheme == "https").then(|| trusting(true).map(Arc::new).map_err(anyhow::Error::msg));
        let tls = tls.transpose().with_context(|| format!("cannot speak to {url}"))?;
        let (authority, prefix) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
        let authority =
            if authority.contains(':') { authority.to_owned() } else { format!("{authority}:{port}") };
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.is_empty() { String::new() } else { format!("/{prefix}") };
        Ok(Target { authority, prefix, key, tls })
    }

    /// The address of the same server for the library, with the key in it.
    pub(super) fn store_address(&self) -> String {
        let key = self.key.as_ref().map_or(String::new(), |key| format!("{key}@"));
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{key}{}{}", self.authority, self.prefix)
    }

    /// A whole request.
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
        let nobody = |error: std::io::Error| Failure::NoServer {
            place: self.authority.clone(),
            cause: error.to_string(),
        };
        let stream = TcpStream::connect(&self.authority).await.map_err(nobody)?;
        stream.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let host = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
                let connected = TlsConnector::from(tls.clone()).connect(name, stream).await;
                Box::new(
                    connected
                        .with_context(|| format!("{} does not speak TLS as it should", self.authority))?,
                )
            }
        };
        Ok(Connection { stream, received: BytesMut::with_capacity(16 << 10) })
    }

    /// One request on a connection of its own, for what is not measured.
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

/// What came back.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: BytesMut,
}

impl Answer {
    /// The body of a success.
    pub(super) fn json(&self) -> anyhow::Result<Value> {
        let shown = || String::from_utf8_lossy(&self.body[..self.body.len().min(500)]).into_owned();
        if self.status >= 300 {
            return Err(match Failure::read(self.status, &self.body, None, true) {
                Some(refused) => refused.into(),
                None => anyhow::anyhow!("the server answered with {}: {}", self.status, shown()),
            });
        }
        if self.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&self.body).with_context(|| format!("no JSON: {}", shown()))
    }

    /// Expects a success, and looks no further.
    pub(super) fn expect_success(&self) -> anyhow::Result<()> {
        if self.status < 300 { Ok(()) } else { self.json().map(drop) }
    }
}

impl Connection {
    /// Sends a request and waits for its answer.
    pub(super) async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<Answer> {
        self.send(request).await?;
        let head = self.head().await?;
        let (status, length) = read_head(&self.received[..head])?;
        self.received.advance(head);
        anyhow::ensure!(length <= BODY_BYTES_LARGE, "an answer of {length} bytes");
        self.received.reserve(length.saturating_sub(self.received.len()));
        while self.received.len() < length {
            self.more().await?;
        }
        Ok(Answer { status, body: self.received.split_to(length) })
    }

    /// Only sends: the answer is waited for by nobody, or for long.
    pub(super) async fn send(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.stream.write_all(request).await?;
        // Encrypted bytes may wait in a buffer.
        Ok(self.stream.flush().await?)
    }

    /// Reads until the head of an answer is there, and says how long it is.
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

    /// Reads on until these bytes have come, and forgets all up to them.
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
        anyhow::ensure!(read > 0, "the server hung up");
        Ok(())
    }
}

/// Status and length of the body.
fn read_head(head: &[u8]) -> anyhow::Result<(u16, usize)> {
    let head = std::str::from_utf8(head)?;
    let status = head.get(9..12).and_then(|digits| digits.parse().ok()).context("no HTTP answer")?;
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
        let target = Target::parse("http://localhost:7788/jobs/", Some("wl_x".into())).unwrap();
        assert_eq!(target.store_address(), "http://wl_x@localhost:7788/jobs");
        let request = String::from_utf8(target.request("GET", "/healthz", b"")).unwrap();
        assert!(request.starts_with(
            "GET /jobs/healthz HTTP/1.1\r\nHost: localhost:7788\r\nAuthorization: Bearer wl_x\r\n"
        ));
        for bad in ["ftp://localhost", "localhost:7788", "sqlite:jobs.db"] {
            assert!(Target::parse(bad, None).is_err(), "{bad}");
        }
    }
}
