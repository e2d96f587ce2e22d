//! HTTP calls: pooled connections, a deadline on every call, and repetition where it is safe. The content of calls is
//! opaque here.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IF_MATCH, RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::clock::ServerClock;
use super::error::{ErrorResponse, RemoteError};
use super::text::{encoded, moment};
use super::{address::Address, tls};
use crate::clock::WaitLimit;
use crate::error::{OpenError, StoreError};
use crate::key::KeySecret;
use crate::limits;
use crate::store::command::precondition::IfMatch;

type Transport = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The server's own time, in every response.
static SERVER_TIME: HeaderName = HeaderName::from_static("windlass-time");

/// The delay before the first repetition, and the maximum delay.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// One call.
pub(super) struct Call {
    method: Method,
    path: String,
    has_query: bool,
    body: Bytes,
    /// The versions of the job that it applies to.
    if_match: Option<HeaderValue>,
    /// How long the server itself may wait before it answers.
    wait: Duration,
    /// Whether a second call after a lost answer changes nothing.
    is_repeatable: bool,
    /// Whether to keep trying while the server is unreachable.
    is_patient: bool,
}

impl Call {
    fn new(method: Method, path: String) -> Call {
        let is_repeatable = method == Method::GET;
        Call {
            method,
            path,
            has_query: false,
            body: Bytes::new(),
            if_match: None,
            wait: Duration::ZERO,
            is_repeatable,
            is_patient: true,
        }
    }

    pub(super) fn get(path: impl Into<String>) -> Call {
        Call::new(Method::GET, path.into())
    }

    pub(super) fn post(path: impl Into<String>) -> Call {
        Call::new(Method::POST, path.into())
    }

    pub(super) fn put(path: impl Into<String>) -> Call {
        Call::new(Method::PUT, path.into())
    }

    pub(super) fn patch(path: impl Into<String>) -> Call {
        Call::new(Method::PATCH, path.into())
    }

    pub(super) fn delete(path: impl Into<String>) -> Call {
        Call::new(Method::DELETE, path.into())
    }

    /// Adds a query parameter.
    pub(super) fn query(mut self, name: &str, value: impl AsRef<str>) -> Call {
        self.path.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.path.push_str(name);
        self.path.push('=');
        self.path.push_str(&encoded(value.as_ref()));
        self
    }

    /// Adds a query parameter, if there is a value.
    pub(super) fn query_if(self, name: &str, value: Option<impl AsRef<str>>) -> Call {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Sets the body.
    pub(super) fn json(mut self, body: &impl Serialize) -> Call {
        self.body = serde_json::to_vec(body).expect("plain data with text keys is always valid JSON").into();
        self
    }

    /// Restricts the call to these versions of the job.
    pub(super) fn if_match(mut self, if_match: &IfMatch) -> Call {
        self.if_match = if_match.versions().map(|versions| {
            let tags: Vec<String> = versions.iter().map(|version| format!("\"{version}\"")).collect();
            HeaderValue::from_str(&tags.join(", ")).expect("versions are hexadecimal digits")
        });
        self
    }

    /// The server may wait this long before it answers.
    pub(super) fn waiting(mut self, wait: Duration) -> Call {
        self.wait = wait;
        self
    }

    /// Marks that repeating it after a lost answer changes nothing.
    pub(super) fn repeatable(mut self, is_repeatable: bool) -> Call {
        self.is_repeatable = is_repeatable;
        self
    }

    /// Makes a single attempt: the caller retries by itself.
    pub(super) fn once(mut self) -> Call {
        self.is_patient = false;
        self
    }
}

/// A server's response.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    /// The delay that the server requests.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        text.parse().ok().map(Duration::from_secs)
    }
}

/// Why an attempt failed.
struct Lost {
    /// Whether the server cannot have received the request.
    is_unsent: bool,
    message: String,
}

/// A server, and the connections to it.
pub(super) struct Client {
    transport: Transport,
    base: String,
    authorization: Option<HeaderValue>,
    clock: Arc<ServerClock>,
    closed: CancellationToken,
    /// Whether the caller's API key is unknown, so that all calls are refused.
    is_misnamed: bool,
}

impl Client {
    /// A client that has not connected yet.
    pub(super) fn new(
        address: &Address,
        key: Option<&KeySecret>,
        clock: Arc<ServerClock>,
    ) -> Result<Client, OpenError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(limits::SERVER_CONNECT_MAX));
        connector.set_keepalive(Some(limits::SERVER_IDLE_MAX));
        let transport = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(limits::SERVER_IDLE_MAX)
            .pool_max_idle_per_host(limits::SERVER_IDLE_CONNECTIONS_MAX)
            .build(tls::over(connector, address)?);
        let authorization = key.map(|key| {
            let bearer = format!("Bearer {}", key.reveal());
            let mut value = HeaderValue::from_str(&bearer).expect("a key is made of letters and digits");
            value.set_sensitive(true);
            value
        });
        let closed = CancellationToken::new();
        let base = address.base.clone();
        Ok(Client { transport, base, authorization, clock, closed, is_misnamed: false })
    }

    /// The same server for a caller whose API key is unknown: every call is refused here, because the server would
    /// attribute it to the owner of this client's key.
    pub(super) fn without_credentials(&self) -> Client {
        Client {
            transport: self.transport.clone(),
            base: self.base.clone(),
            authorization: None,
            clock: self.clock.clone(),
            closed: self.closed.clone(),
            is_misnamed: true,
        }
    }

    fn check_name(&self) -> Result<(), StoreError> {
        if self.is_misnamed { Err(StoreError::LocalOnly("as_caller")) } else { Ok(()) }
    }

    /// Refuses every call from now on, and ends those in progress.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// Calls, and parses the response as `T`.
    pub(super) async fn ask<T: serde::de::DeserializeOwned>(&self, call: Call) -> Result<T, RemoteError> {
        let reply = self.done(call).await?;
        serde_json::from_slice(&reply.body).map_err(|error| {
            let message = format!("cannot parse its response: {error}");
            RemoteError::Store(StoreError::Unreachable(message))
        })
    }

    /// Like [`ask`](Client::ask), but returns `None` if the object does not exist.
    pub(super) async fn find<T: serde::de::DeserializeOwned>(
        &self,
        call: Call,
    ) -> Result<Option<T>, StoreError> {
        match self.ask(call).await {
            Ok(found) => Ok(Some(found)),
            Err(RemoteError::Refused(refusal)) if refusal.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls; anything but success is an error.
    pub(super) async fn done(&self, call: Call) -> Result<Reply, RemoteError> {
        let reply = self.send(call).await?;
        if reply.status.is_success() {
            return Ok(reply);
        }
        Err(ErrorResponse::read(&reply).map_or_else(RemoteError::Store, RemoteError::Refused))
    }

    /// Calls until a response arrives, as long as repeating is safe and the server is not unreachable for too long.
    async fn send(&self, call: Call) -> Result<Reply, StoreError> {
        self.check_name()?;
        let patience = WaitLimit::for_duration(limits::SERVER_AWAY_MAX);
        let mut pause = PAUSES.0;
        loop {
            let answered = tokio::select! {
                biased;
                () = self.closed.cancelled() => return Err(crate::store::closed_error()),
                answered = self.send_once(&call) => answered,
            };
            let lost = match answered {
                Ok(reply) => return Ok(reply),
                Err(lost) => lost,
            };
            let may_repeat = call.is_patient && (call.is_repeatable || lost.is_unsent);
            if !may_repeat || patience.is_over() {
                return Err(StoreError::Unreachable(lost.message));
            }
            tracing::debug!(error = lost.message, "no response from the server, retrying");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn send_once(&self, call: &Call) -> Result<Reply, Lost> {
        let answered = async {
            let response = self.open(call).await?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, limits::SERVER_ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| self.lost(false, &error.to_string()))?;
            Ok(Reply { status: head.status, headers: head.headers, body: body.to_bytes() })
        };
        let time = limits::SERVER_CALL_MAX + call.wait;
        match tokio::time::timeout(time, answered).await {
            Ok(answered) => answered,
            Err(_) => Err(self.lost(false, &format!("no response within {time:?}"))),
        }
    }

    /// Sends a request, and returns when the head of its response has arrived.
    async fn open(&self, call: &Call) -> Result<Response<Incoming>, Lost> {
        let response = self.transport.request(self.request(call)).await;
        let response = response.map_err(|error| {
            let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), root);
            self.lost(error.is_connect(), &cause)
        })?;
        let time = response.headers().get(&SERVER_TIME).and_then(|value| moment(value.to_str().ok()?));
        if let Some(now) = time {
            self.clock.update(now);
        }
        Ok(response)
    }

    fn request(&self, call: &Call) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        let address = format!("{}{}", self.base, call.path);
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
        request
    }

    /// Opens a stream; it ends when the client is closed.
    pub(super) async fn stream(&self, call: Call) -> Result<Response<Incoming>, RemoteError> {
        self.check_name().map_err(RemoteError::Store)?;
        let opened = async {
            let response = self.open(&call).await?;
            if response.status().is_success() {
                return Ok(Ok(response));
            }
            let (head, body) = response.into_parts();
            let body = Limited::new(body, limits::SERVER_ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|error| self.lost(false, &error.to_string()))?.to_bytes();
            Ok(Err(Reply { status: head.status, headers: head.headers, body }))
        };
        let answered = tokio::select! {
            biased;
            () = self.closed.cancelled() => return Err(RemoteError::Store(crate::store::closed_error())),
            answered = tokio::time::timeout(limits::SERVER_CALL_MAX, opened) => answered,
        };
        let answered = answered.unwrap_or_else(|_| Err(self.lost(false, "no stream was opened in time")));
        match answered {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(reply)) => {
                Err(ErrorResponse::read(&reply).map_or_else(RemoteError::Store, RemoteError::Refused))
            }
            Err(lost) => Err(RemoteError::Store(StoreError::Unreachable(lost.message))),
        }
    }

    /// Returns when the client is closed.
    pub(super) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    fn lost(&self, is_unsent: bool, cause: &str) -> Lost {
        let place = self.base.trim_end_matches("/api/v1");
        Lost { is_unsent, message: format!("{place}: {cause}") }
    }
}

/// The root cause, which has the useful message.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
