//! What tells open pages to refresh. One look-out for all of them notices that something happened, at most once a second;
//! the pages then ask for themselves again, as whoever is signed in. Nothing of what happened goes over the stream.

use std::hash::{BuildHasher, RandomState};
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
use windlass::job::JobId;
use windlass::store::feed::Change;

use super::form::Query;
use super::guard::{self, Visitor};
use super::{Dashboard, limits};

/// What the look-out says.
#[derive(Debug, Default)]
struct Announcement {
    /// Grows with every one.
    number: u64,
    change: Change,
}

/// The look-out and those who listen to it.
pub(super) struct Live {
    /// The look-out's announcements, while there is one.
    announced: Mutex<Option<watch::Receiver<Arc<Announcement>>>>,
    places: Arc<Semaphore>,
    /// Makes numbers of changes into words that tell a tenant nothing of how busy others are.
    veil: RandomState,
}

impl Default for Live {
    fn default() -> Live {
        Live {
            announced: Mutex::new(None),
            places: Arc::new(Semaphore::new(limits::STREAMS_MAX)),
            veil: RandomState::new(),
        }
    }
}

impl Live {
    /// Stands for everything that has happened in this process: the same as long as nothing more does.
    pub(super) fn seen(&self, store: &Store) -> u64 {
        self.veil.hash_one(store.changed())
    }
}

/// Announcements; the look-out starts with the first listener and ends with the last.
async fn listen(board: &Dashboard) -> watch::Receiver<Arc<Announcement>> {
    let mut announced = board.0.live.announced.lock().await;
    // One receiver is kept here, so a closed channel means that the look-out has ended.
    if let Some(receiver) = announced.as_ref().filter(|receiver| receiver.has_changed().is_ok()) {
        return receiver.clone();
    }
    let (sender, receiver) = watch::channel(Arc::new(Announcement::default()));
    *announced = Some(receiver.clone());
    tokio::spawn(look_out(board.clone(), sender));
    receiver
}

async fn look_out(board: Dashboard, sender: watch::Sender<Arc<Announcement>>) {
    let mut commits = board.store().changes();
    let mut number = 0;
    // The receiver kept for newcomers is one; without others nobody listens.
    while sender.receiver_count() > 1 {
        let mut change = match tokio::time::timeout(limits::LIVE_EVERY, commits.recv()).await {
            Ok(Ok(change)) => (*change).clone(),
            Ok(Err(RecvError::Lagged(_))) => Change::for_all(),
            Ok(Err(RecvError::Closed)) => return,
            // What other processes do shows in the trail.
            Err(_silence) if happened_elsewhere(&board).await => Change::for_all(),
            Err(_silence) => continue,
        };
        // Let more come, so that a burst is one refresh.
        tokio::time::sleep(limits::LIVE_EVERY / 4).await;
        loop {
            match commits.try_recv() {
                Ok(more) => change.add(&more),
                Err(TryRecvError::Lagged(_)) => change.add(&Change::for_all()),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        number += 1;
        sender.send_replace(Arc::new(Announcement { number, change }));
        tokio::time::sleep(limits::LIVE_EVERY * 3 / 4).await;
    }
}

async fn happened_elsewhere(board: &Dashboard) -> bool {
    board.0.tail.has_moved(board.store()).await.unwrap_or(false)
}

/// `GET /live`, for one job with `?job=`; `?seen=` says what the page has seen.
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
    let seen: Option<u64> = query.get("seen").and_then(|text| text.parse().ok());
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _place = place;
        tokio::select! {
            () = tell(&board, &visitor, &headers, (job, seen), &sender) => {}
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
    (job, seen): (Option<JobId>, Option<u64>),
    sender: &mpsc::Sender<Bytes>,
) {
    let mut changes = listen(board).await;
    // The browser comes back by itself, soon but not all at once after a restart.
    if sender.send(Bytes::from_static(b"retry: 2000\n\nevent: ready\ndata: 0\n\n")).await.is_err() {
        return;
    }
    let mut last = looks(board, visitor, job).await;
    // What happened between the page and its stream would otherwise show only with the next change.
    let is_behind = seen.is_some_and(|seen| seen != board.0.live.seen(board.store()));
    if is_behind && sender.send(changed(0)).await.is_err() {
        return;
    }
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
                    changed(number)
                }
            }
            (Ok(_), None) if !changes.borrow().change.concerns(&visitor.caller) => continue,
            (Ok(_) | Err(_), None) => changed(number),
        };
        if sender.send(message).await.is_err() {
            return;
        }
    }
}

fn changed(number: u64) -> Bytes {
    Bytes::from(format!("event: change\ndata: {number}\n\n"))
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
