//! A client of the HTTP API: pooled connections, a deadline on every call, and repetition where it is safe. What calls
//! contain, and what their errors mean to a program, is the caller's business.

pub mod address;
pub mod call;
pub mod clock;
pub mod error;
mod options;
mod reply;
pub mod sse;
#[cfg(test)]
mod tests;
pub mod tls;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH};
use hyper::{Request, Response};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio_util::sync::CancellationToken;
use windlass_core::key::KeySecret;

use self::call::Call;
use self::clock::ServerClock;
use self::error::ClientError;
pub use self::options::ClientOptions;
pub use self::reply::Reply;
use self::sse::SseStream;
use self::tls::TlsError;

type Transport = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The server's own time, in every response.
static SERVER_TIME: HeaderName = HeaderName::from_static("windlass-time");

/// The delay before the first repetition, and the maximum delay.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// A server, and the connections to it.
pub struct HttpClient {
    transport: Transport,
    url: String,
    authorization: Option<HeaderValue>,
    options: ClientOptions,
    clock: Arc<ServerClock>,
    closed: CancellationToken,
}

impl HttpClient {
    /// A client of the server at `url`, which is that of a [`ServerAddress`](address::ServerAddress); it has not
    /// connected yet. Every response adjusts the clock.
    pub fn new(
        url: &str,
        key: Option<&KeySecret>,
        clock: Arc<ServerClock>,
        options: ClientOptions,
    ) -> Result<HttpClient, TlsError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(options.connect_max));
        connector.set_keepalive(Some(options.idle_max));
        let transport = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.idle_max)
            .pool_max_idle_per_host(options.idle_connections_max)
            .build(tls::connector(connector, url)?);
        let authorization = key.map(|key| {
            let bearer = format!("Bearer {}", key.reveal());
            let mut value = HeaderValue::from_str(&bearer).expect("a key consists of letters and digits");
            value.set_sensitive(true);
            value
        });
        let closed = CancellationToken::new();
        Ok(HttpClient { transport, url: url.to_owned(), authorization, options, clock, closed })
    }

    /// The server's address, without the key.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server's clock.
    pub fn clock(&self) -> &ServerClock {
        &self.clock
    }

    /// Refuses every call from now on, and ends calls and streams in progress.
    pub fn close(&self) {
        self.closed.cancel();
    }

    /// Calls until a response arrives, as long as repeating is safe and the server is not unreachable for too long. Any
    /// status but success is an error.
    pub async fn send(&self, call: &Call) -> Result<Reply, ClientError> {
        let wait_limit = tokio::time::sleep(self.options.away_max.unwrap_or_default());
        tokio::pin!(wait_limit);
        let mut pause = PAUSES.0;
        loop {
            let answered = tokio::select! {
                biased;
                () = self.closed.cancelled() => return Err(ClientError::Closed),
                answered = self.send_once(call) => answered,
            };
            let lost = match answered {
                Ok(reply) => return reply.checked(self.authorization.is_some()),
                Err(lost) => lost,
            };
            let is_unsent = matches!(lost, ClientError::NoServer { .. });
            let may_repeat =
                self.options.away_max.is_some() && call.is_patient && (call.is_repeatable || is_unsent);
            if !may_repeat || has_elapsed(wait_limit.as_mut()).await {
                return Err(lost);
            }
            tracing::debug!(server = self.url, error = %lost, "no response from the server, retrying");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    async fn send_once(&self, call: &Call) -> Result<Reply, ClientError> {
        let answered = async {
            let response = self.open(call).await?;
            self.read(response).await
        };
        let within = call.time_max.unwrap_or(self.options.call_max) + call.wait;
        let answered = tokio::time::timeout(within, answered).await;
        answered.unwrap_or(Err(ClientError::Silent { within }))
    }

    /// Opens a stream of events; it ends when the client is closed. Makes a single attempt.
    pub async fn stream(&self, call: &Call) -> Result<SseStream, ClientError> {
        let opened = async {
            let response = self.open(call).await?;
            if response.status().is_success() {
                return Ok(response.into_body());
            }
            let reply = self.read(response).await?;
            Err(reply.error(self.authorization.is_some()))
        };
        let within = self.options.call_max;
        let opened = tokio::select! {
            biased;
            () = self.closed.cancelled() => return Err(ClientError::Closed),
            opened = tokio::time::timeout(within, opened) => opened,
        };
        let body = opened.unwrap_or(Err(ClientError::Silent { within }))?;
        let ClientOptions { silence_max, event_bytes_max, .. } = self.options;
        Ok(SseStream::new(body, silence_max, event_bytes_max, self.closed.clone()))
    }

    /// Sends a request, and returns when the head of its response has arrived.
    async fn open(&self, call: &Call) -> Result<Response<Incoming>, ClientError> {
        let sent = self.clock.sent();
        let response = self.transport.request(self.request(call)).await.map_err(|error| {
            let cause = std::error::Error::source(&error).map_or_else(|| error.to_string(), root);
            if error.is_connect() { ClientError::NoServer { cause } } else { ClientError::Lost { cause } }
        })?;
        let time = response.headers().get(&SERVER_TIME).and_then(|value| value.to_str().ok()?.parse().ok());
        if let Some(now) = time {
            self.clock.update(now, sent);
        }
        Ok(response)
    }

    fn request(&self, call: &Call) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        let address = format!("{}{}", self.url, call.path);
        *request.uri_mut() = address.parse().expect("the address was checked, and the rest is encoded");
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        if !call.body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(tags) = &call.if_match {
            headers.insert(IF_MATCH, tags.0.clone());
        }
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        request
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Reply, ClientError> {
        let (head, body) = response.into_parts();
        let body = Limited::new(body, self.options.answer_bytes_max).collect().await;
        let body = body.map_err(|error| ClientError::Lost { cause: error.to_string() })?;
        Ok(Reply { status: head.status, headers: head.headers, body: body.to_bytes() })
    }
}

/// Whether a timer has run out.
async fn has_elapsed(mut timer: Pin<&mut tokio::time::Sleep>) -> bool {
    poll_fn(|cx| Poll::Ready(timer.as_mut().poll(cx).is_ready())).await
}

/// The root cause, which has the useful message.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
