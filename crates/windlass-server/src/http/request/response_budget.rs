//! Responses in progress, counted until they are sent: a client that requests large responses and does not read them uses a
//! bounded part of the server's memory.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body as HttpBody;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::http::request::body_budget::BodyReservation;
use crate::limits;

/// Counts a large response in the request's reservation. If there is no memory left, the response is replaced by an error
/// if `may_refuse`: the response to a completed write must be sent, or the client would repeat it.
pub(crate) fn held(response: Response, room: &BodyReservation, may_refuse: bool) -> Response {
    // Streams have no length; they hold a few events each.
    let Some(length) = response.body().size_hint().exact() else { return response };
    let bytes = usize::try_from(length).unwrap_or(usize::MAX);
    if bytes <= limits::BODY_BYTES_FREE {
        return response;
    }
    if let Err(problem) = room.hold(bytes) {
        if may_refuse {
            return problem.into_response();
        }
        room.hold_anyway(bytes);
    }
    response
        .map(|inner| HttpBody::new(LargeBody { inner, room: room.clone(), rest: Bytes::new(), left: length }))
}

/// The bytes of a response with their reservation; both are released when the last piece was sent.
struct ReservedBytes {
    bytes: Bytes,
    _room: BodyReservation,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A large response that is passed to the connection in pieces.
struct LargeBody {
    inner: HttpBody,
    room: BodyReservation,
    /// The bytes not passed on yet.
    rest: Bytes,
    left: u64,
}

impl Body for LargeBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
            let data = match frame {
                Some(Ok(frame)) => frame.into_data(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            };
            match data {
                Ok(bytes) => self.rest = Bytes::from_owner(ReservedBytes { bytes, _room: self.room.clone() }),
                Err(other) => return Poll::Ready(Some(Ok(other))),
            }
        }
        let length = self.rest.len().min(limits::ANSWER_PIECE_BYTES);
        let piece = self.rest.split_to(length);
        self.left = self.left.saturating_sub(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;
    use http_body_util::BodyExt;
    use windlass::internal::ReadSource;
    use windlass::store::caller::{Caller, Role};

    use super::*;
    use crate::http::request::body_budget::BodyBudget;

    fn reserve_for(memory: &BodyBudget, name: &str) -> BodyReservation {
        memory.reserve_for(Some(&ReadSource::from_caller(&Caller::new(name, Role::Viewer, None))))
    }

    fn answer(bytes: usize) -> Response {
        Response::new(HttpBody::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn an_unread_answer_counts_until_it_is_gone() {
        let (memory, large) = (BodyBudget::default(), limits::BODIES_BYTES_PER_KEY_MAX);
        let unread = held(answer(large), &reserve_for(&memory, "ada"), true);
        assert_eq!(unread.status(), StatusCode::OK);
        let refused = held(answer(1 << 20), &reserve_for(&memory, "ada"), true);
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(held(answer(1 << 20), &reserve_for(&memory, "bob"), true).status(), StatusCode::OK);
        // Small responses and responses to completed writes are sent in any case.
        assert_eq!(held(answer(1 << 10), &reserve_for(&memory, "ada"), true).status(), StatusCode::OK);
        assert_eq!(held(answer(1 << 20), &reserve_for(&memory, "ada"), false).status(), StatusCode::OK);
        // The last piece releases the memory, not the first.
        let mut body = unread.into_body();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(first.len(), limits::ANSWER_PIECE_BYTES);
        drop(body);
        let refused = held(answer(large / 2), &reserve_for(&memory, "ada"), true);
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(first);
        assert_eq!(held(answer(large), &reserve_for(&memory, "ada"), true).status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn a_large_answer_arrives_whole() {
        let (memory, length) = (BodyBudget::default(), 3 * limits::ANSWER_PIECE_BYTES + 5);
        let response = held(answer(length), &reserve_for(&memory, "ada"), true);
        assert_eq!(response.body().size_hint().exact(), Some(length as u64));
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), vec![b'x'; length]);
    }
}
