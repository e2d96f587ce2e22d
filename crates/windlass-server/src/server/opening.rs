//! Responses while the store is being opened: 503 with what the server is waiting for.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::limits;

/// Responds with what the server is waiting for until `opened` completes.
pub(super) async fn answer_until<T>(
    listener: &TcpListener,
    tls: Option<&TlsAcceptor>,
    waits_for: &'static str,
    opened: impl Future<Output = T>,
) -> T {
    let slots = Arc::new(Semaphore::new(limits::OPENING_CONNECTIONS_MAX));
    let mut opened = std::pin::pin!(opened);
    // Dropped at the end, which aborts pending requests: clients retry.
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            let slot = slots.clone().acquire_owned().await.expect("the semaphore is never closed");
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            opened = &mut opened => return opened,
            accepted = accepted => accepted,
        };
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(limits::ACCEPT_RETRY_AFTER).await;
            continue;
        };
        let tls = tls.cloned();
        connections.spawn(async move {
            let _slot = slot;
            let answered = answer(stream, tls, waits_for);
            let _cut_off = tokio::time::timeout(limits::HEAD_TIME_CROWDED, answered).await;
        });
    }
}

async fn answer(stream: TcpStream, tls: Option<TlsAcceptor>, waits_for: &'static str) {
    match tls {
        None => answer_starting(stream, waits_for).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                answer_starting(stream, waits_for).await;
            }
        }
    }
}

async fn answer_starting(stream: impl AsyncRead + AsyncWrite + Unpin, waits_for: &'static str) {
    let service = service_fn(move |request| async move { Ok::<_, Infallible>(respond(&request, waits_for)) });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HEAD_TIME_CROWDED)
        .max_buf_size(limits::HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended early");
    }
}

fn respond(request: &Request<Incoming>, waits_for: &str) -> Response<Full<Bytes>> {
    // The process is alive: it must not be restarted for this.
    if request.uri().path() == "/healthz" {
        return Response::new(Full::new(Bytes::from_static(b"ok\n")));
    }
    let message = format!("the server is starting: {waits_for}");
    let body = json!({"error": {"code": "starting", "message": message, "details": {}}}).to_string();
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
