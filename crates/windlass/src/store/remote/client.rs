//! Calls over HTTP: connections that are kept, a deadline on every call, and repetition where it is safe. What calls mean
//! is not known here.

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

/// Carries the server's own time with every answer.
static SERVER_TIME: HeaderName = HeaderName::from_static("windlass-time");

/// How long to wait before the first repetition, and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// One call.
pub(super) struct Call {
    method: Method,
    path: String,
    has_query: bool,
    body: Bytes,
    /// The versions of the job that it is meant for.
    if_match: Option<HeaderValue>,
    /// How long the server itself may wait before it answers.
    wait: Duration,
    /// Whether a second call after a lost answer changes nothing.
    is_repeatable: bool,
    /// Whether to go on trying while the server is away.
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

    /// With this parameter.
    pub(super) fn query(mut self, name: &str, value: impl AsRef<str>) -> Call {
        self.path.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.path.push_str(name);
        self.path.push('=');
        self.path.push_str(&encoded(value.as_ref()));
        self
    }

    /// With this parameter, if there is a value.
    pub(super) fn query_if(self, name: &str, value: Option<impl AsRef<str>>) -> Call {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// With this body.
    pub(super) fn json(mut self, body: &impl Serialize) -> Call {
        self.body = serde_json::to_vec(body).expect("plain data with text keys is always valid JSON").into();
        self
    }

    /// Only for these versions of the job.
    pub(super) fn if_match(mut self, if_match: &IfMatch) -> Call {
        self.if_match = if_match.versions().map(|versions| {
            let tags: Vec<String> = versions.iter().map(|version| format!("\"{version}\"")).collect();
            HeaderValue::from_str(&tags.join(", ")).expect("versions are hexadecimal digits")
        });
        self
    }

    /// The server may wait so long before it answers.
    pub(super) fn waiting(mut self, wait: Duration) -> Call {
        self.wait = wait;
        self
    }

    /// Repeating it after a lost answer changes nothing.
    pub(super) fn repeatable(mut self, is_repeatable: bool) -> Call {
        self.is_repeatable = is_repeatable;
        self
    }

    /// Whoever calls tries again by itself.
    pub(super) fn once(mut self) -> Call {
        self.is_patient = false;
        self
    }
}

/// What a server answered.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    /// The delay that the server asks for.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let text = self.headers.get(RETRY_AFTER)?.to_str().ok()?;
        text.parse().ok().map(Duration::from_secs)
    }
}

/// Why a try came to nothing.
struct Lost {
    /// Whether the server cannot have seen the request.
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
    /// Whether it is to speak as somebody whose key it does not have.
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

    /// The same server, asked by somebody whose key is not known: every call is refused here, for the server would take it
    /// for the owner of this key's.
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

    /// Refuses every call from now on, and ends those that are under way.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// Calls, and reads what is answered as `T`.
    pub(super) async fn ask<T: serde::de::DeserializeOwned>(&self, call: Call) -> Result<T, RemoteError> {
        let reply = self.done(call).await?;
        serde_json::from_slice(&reply.body).map_err(|error| {
            let message = format!("what it answers is not understood here: {error}");
            RemoteError::Store(StoreError::Unreachable(message))
        })
    }

    /// The same for something that need not be there.
    pub(super) async fn find<T: serde::de::DeserializeOwned>(
        &self,
        call: Call,
    ) -> Result<Option<T>, StoreError> {
        match self.ask(call).await {
            Ok(found) => Ok(Some(found)),
            Err(RemoteError::Refused(refusal)) if refusal.is_not_found() => Ok(None),
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// Calls; anything but success is trouble.
    pub(super) async fn done(&self, call: Call) -> Result<Reply, RemoteError> {
        let reply = self.send(call).await?;
        if reply.status.is_success() {
            return Ok(reply);
        }
        Err(ErrorResponse::read(&reply).map_or_else(RemoteError::Store, RemoteError::Refused))
    }

    /// Calls until an answer comes, as long as repeating is safe and the server is not away for too long.
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
            tracing::debug!(error = lost.message, "a server does not answer, will try again");
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
            Err(_) => Err(self.lost(false, &format!("nothing came within {time:?}"))),
        }
    }

    /// Sends a request, and returns when the head of its answer is there.
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

    /// Opens a stream; ends when the client is closed.
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

/// The cause at the bottom, which says what is wrong.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
