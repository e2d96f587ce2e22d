//! Server-sent events as a response. A client that is too slow is disconnected with a reason, so that it neither uses up
//! memory nor misses events unknowingly.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use axum::body::Body as HttpBody;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

use crate::limits;

/// Sends events to one client.
pub(crate) struct EventSender {
    events: mpsc::Sender<Bytes>,
    end: Arc<OnceLock<String>>,
}

impl EventSender {
    /// Sends an event, or the reason why not.
    pub(crate) async fn send(&self, event: Bytes) -> Result<(), &'static str> {
        match self.events.send_timeout(event, limits::STREAM_STALL_MAX).await {
            Ok(()) => Ok(()),
            Err(mpsc::error::SendTimeoutError::Timeout(_)) => Err("too_slow"),
            Err(mpsc::error::SendTimeoutError::Closed(_)) => Err("closed"),
        }
    }

    /// Returns when the client has disconnected.
    pub(crate) async fn closed(&self) {
        self.events.closed().await;
    }

    /// Sets the reason of the last event.
    pub(crate) fn end(&self, reason: &str) {
        self.end_with(format!("{{\"reason\":\"{reason}\"}}"));
    }

    /// Sets the data of the last event.
    pub(crate) fn end_with(&self, data: String) {
        let _the_first_counts = self.end.set(data);
    }
}

/// The body of a stream: events, and at the end the reason.
pub(crate) struct EventBody {
    arriving: mpsc::Receiver<Bytes>,
    end: Arc<OnceLock<String>>,
    has_ended: bool,
}

impl EventBody {
    /// A stream, and where its events come from.
    pub(crate) fn new() -> (EventSender, EventBody) {
        let (events, arriving) = mpsc::channel(limits::STREAM_EVENTS_BUFFERED);
        let end = Arc::new(OnceLock::new());
        (EventSender { events, end: end.clone() }, EventBody { arriving, end, has_ended: false })
    }
}

impl IntoResponse for EventBody {
    fn into_response(self) -> Response {
        let mut response = Response::new(HttpBody::new(self));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Asks proxies not to buffer the response, which would delay events.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        response
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let arrived = std::task::ready!(self.arriving.poll_recv(context));
        if let Some(bytes) = arrived {
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
        if std::mem::replace(&mut self.has_ended, true) {
            return Poll::Ready(None);
        }
        let data = self.end.get().map_or("{\"reason\":\"stopped\"}", String::as_str);
        let last = format!("event: end\ndata: {data}\n\n");
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(last)))))
    }
}
