//! One connection: TLS if configured, then HTTP/1.1 with limited heads and times.

use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;

use super::error_body::WithErrorBody;
use super::peer::Peer;
use super::write_timeout::WriteTimeout;
use crate::http::App;
use crate::limits;

/// Serves one connection to its end; `head_time` limits a request's head, and `_slot` counts the connection.
pub(super) async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    served: (Router, Peer),
    app: App,
    head_time: Duration,
    _slot: OwnedSemaphorePermit,
) {
    // Responses are written whole: waiting to fill a packet would only delay them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else { return serve_http(stream, served, app, head_time).await };
    match tokio::time::timeout(limits::HANDSHAKE_TIME_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) => serve_http(stream, served, app, head_time).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn serve_http(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (router, peer): (Router, Peer),
    app: App,
    head_time: Duration,
) {
    let answers = TowerToHyperService::new(router);
    let answers = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        answers.call(request)
    });
    let stream = WithErrorBody::new(stream, app.clone());
    let io = TokioIo::new(WriteTimeout::new(stream, limits::WRITE_STALL_MAX));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        .max_buf_size(limits::HEAD_BYTES_MAX)
        .max_headers(limits::HEAD_LINES_MAX)
        .serve_connection(io, answers);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = app.draining() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
