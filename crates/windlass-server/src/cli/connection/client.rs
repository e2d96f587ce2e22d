//! Client of the HTTP API. Every call has a deadline, no call is repeated, and every error is a [`Failure`].

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, IF_MATCH, RETRY_AFTER};
use hyper::{Method, Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::crypto::ring;
use rustls::{ClientConfig, RootCertStore};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::clock::{Clock, SystemClock, Timestamp};

use crate::cli::connection::connect::Connection;
use crate::cli::connection::sse::EventStream;
use crate::cli::error::Failure;
use crate::limits;

type Transport = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The path of the API below a server's address.
const API: &str = "/api/v1";

/// A request being built.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    method: Method,
    path: String,
    has_query: bool,
    body: Bytes,
    /// The version of the job that the request requires.
    if_match: Option<HeaderValue>,
    /// How long the server may hold the request before it responds.
    wait: Duration,
}

impl Call {
    fn new(method: Method, parts: &[&str]) -> Call {
        let parts: Vec<String> = parts.iter().flat_map(|part| ["/".to_owned(), encoded(part)]).collect();
        let path = parts.concat();
        Call { method, path, has_query: false, body: Bytes::new(), if_match: None, wait: Duration::ZERO }
    }

    /// A GET of this path below the API's own; every part is percent-encoded.
    pub(crate) fn get(parts: &[&str]) -> Call {
        Call::new(Method::GET, parts)
    }

    /// A POST to this path.
    pub(crate) fn post(parts: &[&str]) -> Call {
        Call::new(Method::POST, parts)
    }

    /// A PUT to this path.
    pub(crate) fn put(parts: &[&str]) -> Call {
        Call::new(Method::PUT, parts)
    }

    /// A PATCH of this path.
    #[allow(dead_code, reason = "a method like the others")]
    pub(crate) fn patch(parts: &[&str]) -> Call {
        Call::new(Method::PATCH, parts)
    }

    /// A DELETE of this path.
    pub(crate) fn delete(parts: &[&str]) -> Call {
        Call::new(Method::DELETE, parts)
    }

    /// Requires this version of the job: a number with or without quotation marks, or a whole entity tag.
    pub(crate) fn if_match(mut self, version: Option<&str>) -> anyhow::Result<Call> {
        if let Some(version) = version {
            let tag = format!("\"{}\"", version.trim().trim_matches('"'));
            let value = HeaderValue::from_str(&tag);
            let value = value.map_err(|_| Failure::usage("--if-match is not a job version"))?;
            self.if_match = Some(value);
        }
        Ok(self)
    }

    /// Adds a query parameter.
    #[must_use]
    pub(crate) fn query(mut self, name: &str, value: impl AsRef<str>) -> Call {
        self.path.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.path.push_str(name);
        self.path.push('=');
        self.path.push_str(&encoded(value.as_ref()));
        self
    }

    /// Adds a query parameter if there is a value.
    #[must_use]
    pub(crate) fn query_if(self, name: &str, value: Option<impl AsRef<str>>) -> Call {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Sets the body.
    #[must_use]
    pub(crate) fn json(mut self, body: &impl Serialize) -> Call {
        self.body = serde_json::to_vec(body).expect("plain data with text keys is always valid JSON").into();
        self
    }

    /// Sets a body that is JSON already.
    #[must_use]
    pub(crate) fn raw(mut self, body: String) -> Call {
        self.body = body.into();
        self
    }

    /// Lets the server hold the request this long, in addition to the usual deadline.
    #[must_use]
    pub(crate) fn waiting(mut self, wait: Duration) -> Call {
        self.wait = wait;
        self
    }
}

/// A server and the connections to it.
pub(crate) struct Client {
    transport: Transport,
    base: String,
    place: String,
    authorization: Option<HeaderValue>,
    /// How far the server's clock is ahead of this machine's in milliseconds, from the latest response.
    ahead: Arc<Mutex<i64>>,
    clock: SystemClock,
}

impl Client {
    /// Creates a client without connecting.
    pub(crate) fn new(connection: &Connection) -> Result<Client, Failure> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(limits::CLIENT_CONNECT_TIME_MAX));
        let transport = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits::CLIENT_IDLE_MAX)
            .build(encrypted(connector, connection)?);
        let authorization = connection.key.as_ref().map(|key| {
            let bearer = format!("Bearer {}", key.reveal());
            let mut value = HeaderValue::from_str(&bearer).expect("a key consists of letters and digits");
            value.set_sensitive(true);
            value
        });
        Ok(Client {
            transport,
            base: format!("{}{API}", connection.url),
            place: connection.place().to_owned(),
            authorization,
            ahead: Arc::default(),
            clock: SystemClock::new(),
        })
    }

    /// The server's current time, estimated from its latest response.
    pub(crate) fn now(&self) -> Timestamp {
        let ahead = *self.ahead.lock().expect("no code panics while holding this lock");
        Timestamp::from_millis(self.clock.now().as_millis() + ahead)
    }

    /// Host and port, for messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Calls `/readyz`, which is outside the API and requires no key. Fails unless the server is ready.
    pub(crate) async fn check_ready(&self) -> Result<(), Failure> {
        let within = limits::HEALTH_TIME_MAX;
        let root = self.base.strip_suffix(API).unwrap_or(&self.base);
        let answered = async {
            let response = self.request(&Call::get(&["readyz"]), root).await?;
            if response.status().is_success() { Ok(()) } else { Err(self.refused(response).await) }
        };
        let silent = |_| Failure::Silent { place: self.place.clone(), within };
        tokio::time::timeout(within, answered).await.map_err(silent)?
    }

    /// Sends a request and parses the response as `T`.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        let answer = self.send(call).await?;
        serde_json::from_slice(&answer).map_err(|error| self.bad_answer(&error.to_string()))
    }

    /// Sends a request and parses the response as any JSON.
    pub(crate) async fn value(&self, call: Call) -> Result<Value, Failure> {
        self.ask(call).await
    }

    /// Reads a whole list page by page: the response of `GET /kind` with all items under `kind`.
    pub(crate) async fn whole(&self, kind: &str) -> Result<Value, Failure> {
        let mut all: Vec<Value> = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut answer = self.value(Call::get(&[kind]).query_if("cursor", cursor.as_ref())).await?;
            if let Some(some) = answer[kind].as_array_mut() {
                all.append(some);
            }
            cursor = answer["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                answer[kind] = all.into();
                return Ok(answer);
            }
        }
    }

    /// Sends a request and returns the bytes of the response; any status but success is a failure.
    pub(crate) async fn send(&self, call: Call) -> Result<Bytes, Failure> {
        let within = limits::CLIENT_CALL_TIME_MAX + call.wait;
        let answered = async {
            let response = self.open(&call).await?;
            let status = response.status();
            if !status.is_success() {
                return Err(self.refused(response).await);
            }
            self.read(response).await
        };
        let silent = |_| Failure::Silent { place: self.place.clone(), within };
        tokio::time::timeout(within, answered).await.map_err(silent)?
    }

    /// Opens a stream of events.
    pub(crate) async fn stream(&self, call: Call) -> Result<EventStream, Failure> {
        let within = limits::CLIENT_CALL_TIME_MAX;
        let opened = async {
            let response = self.open(&call).await?;
            if !response.status().is_success() {
                return Err(self.refused(response).await);
            }
            Ok(EventStream::new(response.into_body(), self.place.clone()))
        };
        let silent = |_| Failure::Silent { place: self.place.clone(), within };
        tokio::time::timeout(within, opened).await.map_err(silent)?
    }

    /// Sends a request and returns the response once its headers have arrived.
    async fn open(&self, call: &Call) -> Result<Response<Incoming>, Failure> {
        self.request(call, &self.base).await
    }

    /// Like `open`, below another base address.
    async fn request(&self, call: &Call, base: &str) -> Result<Response<Incoming>, Failure> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        let address = format!("{base}{}", call.path);
        *request.uri_mut() = address.parse().expect("the base was checked, and the rest is encoded");
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if !call.body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(if_match) = &call.if_match {
            headers.insert(IF_MATCH, if_match.clone());
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let response = self.transport.request(request).await.map_err(|error| {
            let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), root);
            if error.is_connect() {
                Failure::NoServer { place: self.place.clone(), cause }
            } else {
                self.bad_answer(&cause)
            }
        })?;
        let time = response.headers().get("windlass-time").and_then(|value| value.to_str().ok());
        if let Some(time) = time.and_then(|text| text.parse::<Timestamp>().ok()) {
            let ahead = time.as_millis() - self.clock.now().as_millis();
            *self.ahead.lock().expect("no code panics while holding this lock") = ahead;
        }
        Ok(response)
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Bytes, Failure> {
        let body = Limited::new(response.into_body(), limits::CLIENT_ANSWER_BYTES_MAX).collect().await;
        body.map(http_body_util::Collected::to_bytes).map_err(|error| self.bad_answer(&error.to_string()))
    }

    /// The failure that an error response describes.
    async fn refused(&self, response: Response<Incoming>) -> Failure {
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after =
            retry_after.and_then(|value| value.to_str().ok()?.parse().ok()).map(Duration::from_secs);
        let body = match self.read(response).await {
            Ok(body) => body,
            Err(failure) => return failure,
        };
        Failure::read(status, &body, retry_after, self.authorization.is_some())
            .unwrap_or_else(|| self.bad_answer(&format!("status {status} without an error message")))
    }

    fn bad_answer(&self, problem: &str) -> Failure {
        Failure::BadAnswer { place: self.place.clone(), problem: problem.to_owned() }
    }
}

/// The connector; uses TLS for `https` addresses, with the system's trusted certificates.
fn encrypted(
    connector: HttpConnector,
    connection: &Connection,
) -> Result<HttpsConnector<HttpConnector>, Failure> {
    let refused =
        |problem: String| Failure::Usage(format!("cannot connect to {}: {problem}", connection.url));
    let is_secure = connection.url.starts_with("https://");
    let config = trusting(is_secure).map_err(refused)?;
    let builder = HttpsConnectorBuilder::new().with_tls_config(config);
    // An `https` server is never contacted without encryption.
    let builder = if is_secure { builder.https_only() } else { builder.https_or_http() };
    Ok(builder.enable_http1().wrap_connector(connector))
}

/// The TLS configuration: trusts the system's certificates, or none if TLS is not needed.
pub(crate) fn trusting(is_needed: bool) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    if is_needed {
        let found = rustls_native_certs::load_native_certs();
        let (taken, _unreadable) = roots.add_parsable_certificates(found.certs);
        if taken == 0 {
            let problem = "no trusted certificates found; install some, or name a file in SSL_CERT_FILE";
            return Err(problem.to_owned());
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Percent-encodes a text as one part of a path or query.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _always_fits = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The root cause of an error.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_encoded_part_by_part() {
        let call = Call::get(&["jobs", "a/b ?", "logs"]).query("tag", "k:v&x").query_if("none", None::<&str>);
        assert_eq!(call.path, "/jobs/a%2Fb%20%3F/logs?tag=k%3Av%26x");
        let call = Call::get(&["queues", ".."]).query("a", "1").query("b", "2");
        assert_eq!(call.path, "/queues/%2E%2E?a=1&b=2");
    }
}
