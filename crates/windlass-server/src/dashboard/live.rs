//! What tells open pages to refresh. One look-out for all of them notices that something happened, at most once a second;
//! the pages then ask for themselves again, as whoever is signed in. Nothing of what happened goes over the stream.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Mutex, Semaphore, mpsc, watch};
use windlass::Store;
use windlass::audit::Record;
use windlass::job::{JobId, Tenant};
use windlass::store::caller::Caller;

use super::form::Query;
use super::guard::{self, Visitor};
use super::{Dashboard, limits};

/// Whom the last change concerns.
#[derive(Debug, Clone, Default)]
struct Change {
    /// Grows with every change.
    number: u64,
    /// Whose jobs changed; everybody's if none are named.
    tenants: BTreeSet<Tenant>,
}

impl Change {
    fn concerns(&self, caller: &Caller) -> bool {
        self.tenants.is_empty() || self.tenants.iter().any(|tenant| caller.sees(tenant))
    }
}

/// The look-out and those who listen to it.
pub(super) struct Live {
    /// The look-out's announcements, while there is one.
    announced: Mutex<Option<watch::Receiver<Arc<Change>>>>,
    places: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Live {
        Live { announced: Mutex::new(None), places: Arc::new(Semaphore::new(limits::STREAMS_MAX)) }
    }
}

/// Announcements; the look-out starts with the first listener and ends with the last.
async fn listen(board: &Dashboard) -> watch::Receiver<Arc<Change>> {
    let mut announced = board.0.live.announced.lock().await;
    // One receiver is kept here, so a closed channel means that the look-out has ended.
    if let Some(receiver) = announced.as_ref().filter(|receiver| receiver.has_changed().is_ok()) {
        return receiver.clone();
    }
    let (sender, receiver) = watch::channel(Arc::new(Change::default()));
    *announced = Some(receiver.clone());
    tokio::spawn(look_out(board.clone(), sender));
    receiver
}

async fn look_out(board: Dashboard, sender: watch::Sender<Arc<Change>>) {
    let mut events = board.store().live_events();
    let mut number = 0;
    // The receiver kept for newcomers is one; without others nobody listens.
    while sender.receiver_count() > 1 {
        let mut tenants = BTreeSet::new();
        let happened = tokio::time::timeout(limits::LIVE_EVERY, events.recv()).await;
        let is_news = match happened {
            Ok(Ok(record)) => {
                tenants.insert(concerned(&record));
                true
            }
            Ok(Err(RecvError::Lagged(_))) => true,
            Ok(Err(RecvError::Closed)) => return,
            // What other processes do shows in the trail.
            Err(_silence) => happened_elsewhere(board.store(), &board).await,
        };
        if !is_news {
            continue;
        }
        // Let more come, so that a burst is one refresh.
        tokio::time::sleep(limits::LIVE_EVERY / 4).await;
        loop {
            match events.try_recv() {
                Ok(record) => drop(tenants.insert(concerned(&record))),
                Err(TryRecvError::Lagged(_)) => tenants.clear(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        number += 1;
        let tenants: BTreeSet<Tenant> = tenants.into_iter().collect::<Option<_>>().unwrap_or_default();
        sender.send_replace(Arc::new(Change { number, tenants }));
        tokio::time::sleep(limits::LIVE_EVERY * 3 / 4).await;
    }
}

/// Whose record this is; nobody's in particular if it is not about a job.
fn concerned(record: &Record) -> Option<Tenant> {
    record.job.is_some().then(|| record.tenant.clone())
}

async fn happened_elsewhere(store: &Store, board: &Dashboard) -> bool {
    board.0.tail.has_moved(store).await.unwrap_or(false)
}

/// `GET /live`, for one job with `?job=`.
pub(super) async fn stream(
    State(board): State<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
    headers: HeaderMap,
) -> Response {
    let Ok(place) = board.0.live.places.clone().try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let job: Option<JobId> = query.get("job").and_then(|text| text.parse().ok());
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _place = place;
        tokio::select! {
            () = tell(&board, &visitor, &headers, job, &sender) => {}
            () = board.0.app.draining() => {}
            () = sender.closed() => {}
        }
    });
    let content_type = HeaderValue::from_static("text/event-stream");
    ([(header::CONTENT_TYPE, content_type)], Body::new(Stream(receiver))).into_response()
}

/// Tells one page, until it is gone or its reader is signed out.
async fn tell(
    board: &Dashboard,
    visitor: &Visitor,
    headers: &HeaderMap,
    job: Option<JobId>,
    sender: &mpsc::Sender<Bytes>,
) {
    let mut changes = listen(board).await;
    // The browser comes back by itself, soon but not all at once after a restart.
    if sender.send(Bytes::from_static(b"retry: 2000\n\nevent: ready\ndata: 0\n\n")).await.is_err() {
        return;
    }
    let mut last = looks(board, visitor, job).await;
    loop {
        let wait = if job.is_some() { limits::LIVE_EVERY } else { limits::LIVE_IDLE_EVERY };
        let heard = tokio::time::timeout(wait, changes.changed()).await;
        let signed_in = guard::identify(board, headers).await;
        if !matches!(signed_in, Ok(Some(_))) || matches!(heard, Ok(Err(_))) {
            return;
        }
        let number = changes.borrow_and_update().number;
        let message = match (heard, job) {
            // A job's own page looks for itself: its log and progress are no events.
            (_, Some(_)) => {
                let now = looks(board, visitor, job).await;
                if now == last {
                    Bytes::from_static(b":\n\n")
                } else {
                    last = now;
                    Bytes::from(format!("event: change\ndata: {number}\n\n"))
                }
            }
            (Ok(_), None) if !changes.borrow().concerns(&visitor.caller) => continue,
            (Ok(_) | Err(_), None) => Bytes::from(format!("event: change\ndata: {number}\n\n")),
        };
        if sender.send(message).await.is_err() {
            return;
        }
    }
}

/// What of a job shows on its page and changes as it lives.
async fn looks(board: &Dashboard, visitor: &Visitor, job: Option<JobId>) -> Option<String> {
    let found = board.store().get(&visitor.caller, job?).await.ok()??.job;
    let details = &found.details;
    Some(format!(
        "{} {} {} {} {:?} {:?} {} {}",
        found.state,
        found.updated_at,
        found.priority,
        details.log_lines,
        details.progress,
        details.superseded_by,
        details.checkpoints,
        found.after_unmet
    ))
}

/// The stream as the body of an answer.
struct Stream(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Stream {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|message| message.map(|bytes| Ok(Frame::data(bytes))))
    }
}
