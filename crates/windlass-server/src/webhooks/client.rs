//! One call to a receiver: over its own connection to a checked address, limited in time and size. Does not follow
//! redirects or interpret the response.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use windlass::webhook_url::{Host, Scheme, TargetError, TargetPolicy, WebhookUrl};
use windlass_api::client::tls;

use super::resolve::{Guard, Resolve, ResolvedTarget, SystemResolver};
use crate::limits;

/// Why there is no response. Contains no data from the receiver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The address may not be called.
    #[error("the address {0}")]
    Refused(TargetError),
    /// The name cannot be resolved.
    #[error("the name was not resolved: {0}")]
    Unresolved(String),
    /// No connection.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// The TLS handshake failed.
    #[error("TLS handshake failed: {0}")]
    Untrusted(String),
    /// The connection broke, or the response is invalid.
    #[error("invalid response: {0}")]
    Broken(String),
    /// It took too long.
    #[error("no response within {0:?}")]
    TooSlow(Duration),
}

/// A request.
#[derive(Debug, Clone)]
pub struct Call<'a> {
    /// The receiver's address.
    pub url: &'a str,
    /// In addition to those of every call.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Maximum time in total.
    pub time_max: Duration,
    /// Bytes of a successful response's body that are read; None to skip it.
    pub answer_bytes_max: Option<usize>,
}

/// A response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookResponse {
    /// The status.
    pub status: StatusCode,
    /// The `Retry-After` header.
    pub retry_after: Option<HeaderValue>,
    /// The `Content-Type` header.
    pub content_type: Option<HeaderValue>,
    /// The body, if it was requested.
    pub body: Body,
}

/// The body of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Not requested.
    Unread,
    /// Complete.
    Whole(Bytes),
    /// Longer than requested.
    TooLong,
}

/// Makes calls; cheap to clone.
#[derive(Clone)]
pub struct WebhookClient {
    guard: Guard,
    tls: TlsConnector,
    connect_time_max: Duration,
}

impl WebhookClient {
    /// A client that calls what the policy allows, with the system's trusted certificates.
    pub fn new(policy: TargetPolicy) -> WebhookClient {
        WebhookClient::with(policy, Arc::new(SystemResolver), trusted_authorities())
    }

    /// Like [`WebhookClient::new`], with a resolver and trusted certificates.
    pub fn with(
        policy: TargetPolicy,
        resolver: Arc<dyn Resolve>,
        authorities: RootCertStore,
    ) -> WebhookClient {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring supports the default versions of TLS")
            .with_root_certificates(authorities)
            .with_no_client_auth();
        WebhookClient {
            guard: Guard::new(policy, resolver),
            tls: TlsConnector::from(Arc::new(config)),
            connect_time_max: limits::CALL_CONNECT_TIME_MAX,
        }
    }

    /// Makes a call.
    ///
    /// # Errors
    /// [`CallError`] if there is no response; a response of any status is not an error.
    pub async fn call(&self, call: Call<'_>) -> Result<WebhookResponse, CallError> {
        let time_max = call.time_max;
        let answer = tokio::time::timeout(time_max, self.exchange(call)).await;
        answer.unwrap_or(Err(CallError::TooSlow(time_max)))
    }

    async fn exchange(&self, call: Call<'_>) -> Result<WebhookResponse, CallError> {
        let admitted = self.guard.resolve_allowed(call.url).await?;
        let stream = self.connect(&admitted).await?;
        let target = &admitted.target;
        match target.scheme {
            Scheme::Http => send(stream, target, call).await,
            Scheme::Https => {
                let shaking = self.tls.connect(server_name(target)?, stream);
                let shaken = tokio::time::timeout(self.connect_time_max, shaking).await;
                let stream = shaken
                    .map_err(|_| CallError::Untrusted(format!("it took over {:?}", self.connect_time_max)))?
                    .map_err(|error| CallError::Untrusted(error.to_string()))?;
                send(stream, target, call).await
            }
        }
    }

    /// Connects to the first of the checked addresses that accepts.
    async fn connect(&self, admitted: &ResolvedTarget) -> Result<TcpStream, CallError> {
        let mut last = String::new();
        for address in admitted.addresses.iter().take(limits::CALL_ADDRESSES_MAX) {
            match tokio::time::timeout(self.connect_time_max, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    // Disables Nagle's algorithm: requests are small. If it fails, it is only slower.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = error.to_string(),
                Err(_) => last = format!("it took over {:?}", self.connect_time_max),
            }
        }
        Err(CallError::Unreachable(last))
    }
}

fn server_name(target: &WebhookUrl) -> Result<ServerName<'static>, CallError> {
    match &target.host {
        Host::Address(address) => Ok(ServerName::from(*address)),
        Host::Name(name) => ServerName::try_from(name.clone())
            .map_err(|_| CallError::Untrusted("no certificate can be valid for this name".into())),
    }
}

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    target: &WebhookUrl,
    call: Call<'_>,
) -> Result<WebhookResponse, CallError> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(limits::CALL_HEAD_BYTES_MAX)
        .max_headers(limits::CALL_HEAD_LINES_MAX)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    // Dropped with this call, and with it the connection: no connection outlives its call.
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // The sender receives errors of the connection.
        let _ = connection.await;
    });
    let mut request = hyper::Request::new(Full::new(call.body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = target
        .path
        .parse()
        .map_err(|_| CallError::Refused(TargetError::Malformed("its path must be percent-encoded")))?;
    *request.headers_mut() = headers(target, call.headers)?;
    let answer = sender.send_request(request).await.map_err(broken)?;
    let status = answer.status();
    let retry_after = answer.headers().get(hyper::header::RETRY_AFTER).cloned();
    let content_type = answer.headers().get(CONTENT_TYPE).cloned();
    let body = match call.answer_bytes_max {
        Some(bytes_max) if status.is_success() => read(answer, bytes_max).await?,
        _ => Body::Unread,
    };
    Ok(WebhookResponse { status, retry_after, content_type, body })
}

fn headers(target: &WebhookUrl, mut headers: HeaderMap) -> Result<HeaderMap, CallError> {
    let host = HeaderValue::try_from(target.authority());
    let host =
        host.map_err(|_| CallError::Refused(TargetError::Malformed("its host is not a valid name")))?;
    headers.insert(HOST, host);
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("windlass/", env!("CARGO_PKG_VERSION"))));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(headers)
}

async fn read(mut answer: Response<Incoming>, bytes_max: usize) -> Result<Body, CallError> {
    let mut whole = BytesMut::new();
    while let Some(frame) = answer.body_mut().frame().await {
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        if whole.len() + data.len() > bytes_max {
            return Ok(Body::TooLong);
        }
        whole.extend_from_slice(&data);
    }
    Ok(Body::Whole(whole.freeze()))
}

#[allow(clippy::needless_pass_by_value, reason = "so that `map_err(broken)` does")]
fn broken(error: hyper::Error) -> CallError {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    CallError::Broken(format!("{error}{cause}"))
}

/// The system's trusted certificates, or those in `SSL_CERT_FILE` and `SSL_CERT_DIR`. Without any, only `https` calls fail.
pub fn trusted_authorities() -> RootCertStore {
    tls::trusted_roots().unwrap_or_else(|error| {
        tracing::warn!(%error, "https calls to receivers will fail");
        RootCertStore::empty()
    })
}
