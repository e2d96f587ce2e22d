//! Request bodies: enforces a minimum rate, and drains the unread rest once the response is ready. A client that gets an
//! early error is still sending; closing the connection would lose the response.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::{BodyExt, Limited};
use tokio::time::Sleep;

use crate::limits;

/// A body that can be taken back from its reader.
#[derive(Clone)]
struct SharedBody(Arc<Mutex<PacedBody>>);

impl SharedBody {
    fn body(&self) -> MutexGuard<'_, PacedBody> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body arrived too slowly or took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body took too long to arrive")]
pub(crate) struct SlowBody;

/// Whether a body failed to read because it was too slow.
pub(crate) fn is_slow(error: &axum::Error) -> bool {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = source {
        if error.is::<SlowBody>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// A body that must arrive within [`limits::BODY_TIME_MAX`], at a minimum rate; time counts only while it is being read.
struct PacedBody {
    body: Body,
    /// The time of the next check; None before the first read.
    look: Option<Pin<Box<Sleep>>>,
    looks: u32,
    received: u64,
}

impl PacedBody {
    fn new(body: Body) -> PacedBody {
        PacedBody { body, look: None, looks: 0, received: 0 }
    }

    /// Fails once the body is too slow.
    fn check(&mut self, context: &mut Context<'_>) -> Result<(), axum::Error> {
        let sleep = || Box::pin(tokio::time::sleep(limits::BODY_LOOK_EVERY));
        let look = self.look.get_or_insert_with(sleep);
        while look.as_mut().poll(context).is_ready() {
            self.looks += 1;
            let waited = limits::BODY_LOOK_EVERY * self.looks;
            let least = waited.as_secs().saturating_mul(limits::BODY_BYTES_PER_SECOND_MIN);
            if waited >= limits::BODY_TIME_MAX || self.received < least {
                return Err(axum::Error::new(SlowBody));
            }
            *look = sleep();
        }
        Ok(())
    }
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        let mut own = self.body();
        match Pin::new(&mut own.body).poll_frame(context) {
            Poll::Ready(frame) => {
                let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
                own.received += bytes.map_or(0, |bytes| bytes.len() as u64);
                Poll::Ready(frame)
            }
            Poll::Pending => match own.check(context) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Some(Err(error))),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body().body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body().body.size_hint()
    }
}

/// Drains the unread rest of a request's body, so that the connection can serve the next request; closes the connection if
/// the rest is too large.
pub(crate) async fn discard(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let shared_body = SharedBody(Arc::new(Mutex::new(PacedBody::new(body))));
    let mut response = next.run(Request::from_parts(parts, Body::new(shared_body.clone()))).await;
    let rest = std::mem::take(&mut shared_body.body().body);
    if !rest.is_end_stream() && !is_read_to_its_end(rest).await {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn is_read_to_its_end(rest: Body) -> bool {
    let mut rest = Limited::new(rest, limits::DISCARD_BYTES_MAX);
    let read_on = async {
        loop {
            match rest.frame().await {
                None => return true,
                Some(Ok(_)) => {}
                Some(Err(_)) => return false,
            }
        }
    };
    tokio::time::timeout(limits::DISCARD_TIME_MAX, read_on).await.unwrap_or(false)
}
