//! What is left of a request's body once the answer is ready. A client that is refused early is still sending: closing
//! the connection on it would lose the answer, and with it the reason.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::{BodyExt, Limited};

use crate::limits;

/// A body that can be taken back from whoever it was lent to.
#[derive(Clone)]
struct Lent(Arc<Mutex<Body>>);

impl Lent {
    fn body(&self) -> MutexGuard<'_, Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.body()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body().is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body().size_hint()
    }
}

/// Reads what nobody has read of a request's body, so that the connection serves the next one; tells the client not to
/// send one if there was too much of it.
pub(crate) async fn discard(request: Request, next: Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let lent = Lent(Arc::new(Mutex::new(body)));
    let mut response = next.run(Request::from_parts(parts, Body::new(lent.clone()))).await;
    let rest = std::mem::take(&mut *lent.body());
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
