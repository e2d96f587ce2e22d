//! Claimed jobs on their way to a worker. Whoever hangs up before they are handed over gets none: they go back at once
//! instead of waiting for their leases to end.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::oneshot;
use tracing::Instrument;
use windlass::Store;
use windlass::error::WorkError;
use windlass::job::{Fence, JobId, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::command::claim::{ClaimAnswer, ClaimRequest};
use windlass::store::command::finish::{Outcome, Report};

use crate::http::app::App;
use crate::http::reply::response::encoded;
use crate::http::schema::{Reply, Shape};
use crate::http::wire::claim::{ClaimView, ClaimedView};

/// Claimed jobs that were not handed over yet; dropping it gives them back.
pub(crate) struct ClaimResponse {
    store: Store,
    caller: Caller,
    worker: WorkerId,
    leases: Vec<(JobId, Fence)>,
    /// The answer, as it is sent.
    bytes: Bytes,
}

impl ClaimResponse {
    /// Claims jobs, waiting for some for up to `wait`.
    pub(super) async fn claim(
        app: App,
        caller: Caller,
        request: ClaimRequest,
        wait: Duration,
    ) -> Result<ClaimResponse, WorkError> {
        let (mut responses, arrival) = oneshot::channel();
        // In a task of its own: the request's future is dropped when its client hangs up, and a claim that is on its way
        // to a commit would then hold jobs of which nobody knows.
        let claiming = async move {
            let gone = async {
                tokio::select! {
                    () = responses.closed() => {}
                    () = app.draining() => {}
                }
            };
            let store = app.store().clone();
            let claimed = store.claim_until(&caller, &request, wait, gone).await;
            let response = match claimed {
                Ok(answer) => {
                    let jobs = answer.jobs.iter();
                    let leases = jobs.map(|claimed| (claimed.job.id, claimed.job.fence)).collect();
                    let worker = request.worker;
                    let mut response = ClaimResponse { worker, leases, store, caller, bytes: Bytes::new() };
                    response.bytes = answered(answer).await;
                    Ok(response)
                }
                Err(error) => Err(error),
            };
            // If nobody waits for it any more it is dropped here.
            let _ = responses.send(response);
        };
        tokio::spawn(claiming.in_current_span());
        arrival.await.expect("a claim does not panic")
    }
}

/// The answer as JSON.
async fn answered(answer: ClaimAnswer) -> Bytes {
    let ClaimAnswer { jobs, is_paused, .. } = answer;
    let payloads = jobs.iter().map(|claimed| claimed.spec.payload.bytes.len()).sum();
    let view =
        move || ClaimView { jobs: jobs.into_iter().map(ClaimedView::from).collect(), paused: is_paused };
    encoded(payloads, view).await
}

/// The jobs count as handed over once they are on their way to the client.
impl IntoResponse for ClaimResponse {
    fn into_response(mut self) -> Response {
        let bytes = std::mem::take(&mut self.bytes);
        let mut response = Response::new(HttpBody::new(ClaimBody { response: self, bytes: Some(bytes) }));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

impl Reply for ClaimResponse {
    fn describe(shape: &mut Shape) {
        shape.gives::<ClaimView>(StatusCode::OK);
    }
}

impl Drop for ClaimResponse {
    fn drop(&mut self) {
        let leases = std::mem::take(&mut self.leases);
        if leases.is_empty() {
            return;
        }
        let (store, caller, worker) = (self.store.clone(), self.caller.clone(), self.worker);
        tokio::spawn(async move {
            let released = leases.into_iter().map(|(job, fence)| Report::new(job, fence, Outcome::Released));
            if let Err(error) = store.finish(&caller, worker, released.collect()).await {
                tracing::warn!(%error, "jobs of a client that hung up stay leased until their leases end");
            }
        });
    }
}

/// The body of the answer: taken by the connection, it is handed over.
struct ClaimBody {
    response: ClaimResponse,
    bytes: Option<Bytes>,
}

impl Body for ClaimBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.response.leases.clear();
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, Bytes::len) as u64)
    }
}
