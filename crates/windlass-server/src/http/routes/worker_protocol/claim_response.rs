//! Claimed jobs in a response to a worker. If the client disconnects before they are sent, they are released at once
//! instead of when their leases expire.

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
use windlass::internal::ReadSource;
use windlass::job::{Fence, JobId, WorkerId};
use windlass::store::caller::Caller;
use windlass::store::{ClaimAnswer, ClaimRequest, Outcome, Report};
use windlass_api::claim::{ClaimView, ClaimedView};

use crate::http::app::App;
use crate::http::reply::response::encoded;
use crate::http::schema::{Reply, Shape};

/// Claimed jobs that were not sent yet; dropping it releases them.
pub(crate) struct ClaimResponse {
    store: Store,
    caller: Caller,
    worker: WorkerId,
    leases: Vec<(JobId, Fence)>,
    /// The response body.
    bytes: Bytes,
}

impl ClaimResponse {
    /// Claims jobs, waiting for the first for up to `wait`.
    pub(super) async fn claim(
        app: App,
        caller: Caller,
        request: ClaimRequest,
        wait: Duration,
    ) -> Result<ClaimResponse, WorkError> {
        let (mut responses, arrival) = oneshot::channel();
        // In its own task: the request's future is dropped when its client disconnects, and a claim that is being committed
        // would then hold jobs that no worker knows of.
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
                Ok(mut answer) => {
                    if let Err(error) = store.add_decided_groups(&caller, &mut answer.jobs).await {
                        // The worker reads them one by one.
                        tracing::debug!(%error, "the groups of claimed jobs could not be read");
                    }
                    let jobs = answer.jobs.iter();
                    let leases = jobs.map(|claimed| (claimed.job.id, claimed.job.fence)).collect();
                    let worker = request.worker;
                    let mut response = ClaimResponse { worker, leases, store, caller, bytes: Bytes::new() };
                    response.bytes = answered(answer).await;
                    Ok(response)
                }
                Err(error) => Err(error),
            };
            // If the request is gone, the response is dropped here.
            let _ = responses.send(response);
        };
        ReadSource::spawn(claiming.in_current_span());
        arrival.await.expect("a claim does not panic")
    }
}

/// The response as JSON.
async fn answered(answer: ClaimAnswer) -> Bytes {
    let ClaimAnswer { jobs, is_paused, .. } = answer;
    let payloads = jobs.iter().map(|claimed| claimed.spec.payload.bytes.len()).sum();
    let view =
        move || ClaimView { jobs: jobs.into_iter().map(ClaimedView::from).collect(), paused: is_paused };
    encoded(payloads, view).await
}

/// The jobs count as sent once the connection takes the body.
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
        shape.add_response::<ClaimView>(StatusCode::OK);
    }
}

impl Drop for ClaimResponse {
    fn drop(&mut self) {
        let leases = std::mem::take(&mut self.leases);
        if leases.is_empty() {
            return;
        }
        let (store, caller, worker) = (self.store.clone(), self.caller.clone(), self.worker);
        ReadSource::spawn(async move {
            let released = leases.into_iter().map(|(job, fence)| Report::new(job, fence, Outcome::Released));
            if let Err(error) = store.finish(&caller, worker, released.collect()).await {
                tracing::warn!(%error, "jobs of a disconnected client stay leased until their leases expire");
            }
        });
    }
}

/// The body of the response: once the connection takes it, the jobs count as sent.
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
