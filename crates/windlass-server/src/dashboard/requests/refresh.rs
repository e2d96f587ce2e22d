//! The refresh stream of open pages. One listener for all of them notices changes, at most once a second; the pages
//! then reload with their visitor's permissions. The stream itself contains no data.

use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{Mutex, mpsc, watch};
use windlass::Store;
use windlass::clock::Stopwatch;
use windlass::internal::ReadSource;
use windlass::job::JobId;
use windlass::store::Change;

use crate::dashboard::parts::latest_records::Tail;
use crate::dashboard::requests::form::Query;
use crate::dashboard::requests::middleware::{self, Visitor};
use crate::dashboard::{Dashboard, pages::limits};
use crate::http::request::connection_slots::ConnectionSlots;

/// A notification of the listener.
#[derive(Debug, Default)]
struct Announcement {
    /// Increases with every notification.
    number: u64,
    change: Change,
}

/// The change listener and its subscribers.
pub(in crate::dashboard) struct Live {
    /// The listener's notifications, while it runs.
    announced: Mutex<Option<watch::Receiver<Arc<Announcement>>>>,
    slots: ConnectionSlots,
    /// Hashes change numbers, so that a tenant cannot see how active others are.
    hasher: RandomState,
}

impl Default for Live {
    fn default() -> Live {
        let slots = ConnectionSlots::new(limits::STREAMS_MAX, limits::STREAMS_PER_KEY_MAX);
        Live { announced: Mutex::new(None), slots, hasher: RandomState::new() }
    }
}

impl Live {
    /// Identifies the state of this process's changes: equal as long as nothing changes.
    pub(in crate::dashboard) fn seen(&self, store: &Store) -> u64 {
        self.hasher.hash_one(store.changed())
    }
}

/// Subscribes to notifications; the listener starts with the first subscriber and ends with the last.
async fn listen(board: &Dashboard) -> watch::Receiver<Arc<Announcement>> {
    let mut announced = board.0.live.announced.lock().await;
    // One receiver is kept here, so a closed channel means that the listener has ended.
    if let Some(receiver) = announced.as_ref().filter(|receiver| receiver.has_changed().is_ok()) {
        return receiver.clone();
    }
    let (sender, receiver) = watch::channel(Arc::new(Announcement::default()));
    *announced = Some(receiver.clone());
    tokio::spawn(listen_for_changes(board.clone(), sender));
    receiver
}

async fn listen_for_changes(board: Dashboard, sender: watch::Sender<Arc<Announcement>>) {
    let mut commits = board.store().changes();
    // Its own cursor: sharing it with a page of the audit trail would lose changes.
    let tail = Tail::default();
    let _not_now = tail.last(board.store()).await;
    let mut number = 0;
    // The receiver kept here is one; without others there is no subscriber.
    while sender.receiver_count() > 1 {
        let mut change = match tokio::time::timeout(limits::LIVE_EVERY, commits.recv()).await {
            Ok(Ok(change)) => (*change).clone(),
            Ok(Err(RecvError::Lagged(_))) => Change::for_all(),
            Ok(Err(RecvError::Closed)) => return,
            // Changes by other processes show in the audit trail.
            Err(_silence) if tail.has_moved(board.store()).await.unwrap_or(false) => Change::for_all(),
            Err(_silence) => continue,
        };
        // Wait a little, so that a burst is one refresh.
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

/// `GET /live`, for one job with `?job=`; `?seen=` says what the page has seen.
pub(in crate::dashboard) async fn stream(
    State(board): State<Dashboard>,
    visitor: Visitor,
    Query(query): Query,
    headers: HeaderMap,
) -> Response {
    let Ok(slot) = board.0.live.slots.take(&visitor.caller.bucket()) else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let job: Option<JobId> = query.get("job").and_then(|text| text.parse().ok());
    let seen: Option<u64> = query.get("seen").and_then(|text| text.parse().ok());
    let (sender, receiver) = mpsc::channel(1);
    ReadSource::spawn(async move {
        let _slot = slot;
        tokio::select! {
            () = send_event(&board, &visitor, &headers, (job, seen), &sender) => {}
            () = board.0.app.draining() => {}
            () = sender.closed() => {}
        }
    });
    let content_type = HeaderValue::from_static("text/event-stream");
    ([(header::CONTENT_TYPE, content_type)], Body::new(Stream(receiver))).into_response()
}

/// Notifies one page until it disconnects or its visitor is signed out.
async fn send_event(
    board: &Dashboard,
    visitor: &Visitor,
    headers: &HeaderMap,
    (job, seen): (Option<JobId>, Option<u64>),
    sender: &mpsc::Sender<Bytes>,
) {
    let mut changes = listen(board).await;
    // The browser reconnects by itself, soon but not all at once after a restart.
    if sender.send(Bytes::from_static(b"retry: 2000\n\nevent: ready\ndata: 0\n\n")).await.is_err() {
        return;
    }
    let mut last = fingerprint(board, visitor, job).await;
    // Changes between the page and its stream would otherwise show only with the next change.
    let is_behind = seen.is_some_and(|seen| seen != board.0.live.seen(board.store()));
    if is_behind && sender.send(changed(0)).await.is_err() {
        return;
    }
    let (mut since_sent, mut is_refresh_due) = (Stopwatch::start(), false);
    loop {
        let idle = limits::LIVE_IDLE_EVERY.saturating_sub(since_sent.elapsed());
        let wait = if job.is_some() { idle.min(limits::LIVE_EVERY) } else { idle };
        let announced = tokio::time::timeout(wait, changes.changed()).await;
        let signed_in = middleware::identify(board, headers).await;
        if !matches!(signed_in, Ok(Some(_))) || matches!(announced, Ok(Err(_))) {
            return;
        }
        let announcement = changes.borrow_and_update().clone();
        is_refresh_due |= announced.is_ok() && announcement.change.concerns(&visitor.caller);
        // A job's page also polls the job: log lines, output and progress are not events. Changes of other objects show
        // there too.
        let now = fingerprint(board, visitor, job).await;
        let wait_limit = if job.is_some() { limits::LIVE_AROUND_EVERY } else { Duration::ZERO };
        let is_due = now != last
            || (is_refresh_due && since_sent.elapsed() >= wait_limit)
            || since_sent.elapsed() >= limits::LIVE_IDLE_EVERY;
        if !is_due {
            continue;
        }
        if sender.send(changed(announcement.number)).await.is_err() {
            return;
        }
        (last, since_sent, is_refresh_due) = (now, Stopwatch::start(), false);
    }
}

fn changed(number: u64) -> Bytes {
    Bytes::from(format!("event: change\ndata: {number}\n\n"))
}

/// The parts of a job that its page shows and that change while it runs.
async fn fingerprint(board: &Dashboard, visitor: &Visitor, job: Option<JobId>) -> Option<String> {
    let found = board.store().job(&visitor.caller, job?).await.ok()??;
    let details = &found.details;
    Some(format!(
        "{} {} {} {} {:?} {:?} {} {} {}",
        found.state,
        found.updated_at,
        found.priority,
        details.log_lines,
        details.progress,
        details.superseded_by,
        details.checkpoints,
        details.stream.map_or(0, |stream| stream.last),
        found.after_unmet
    ))
}

/// The stream as a response body.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_opens_page_after_page_leaves_places_for_others() {
        let slots = Live::default().slots;
        let held: Vec<_> =
            (0..limits::STREAMS_PER_KEY_MAX).map(|_| slots.take("ada").ok().unwrap()).collect();
        assert!(slots.take("ada").is_err(), "its slots are in use");
        assert!(slots.take("grace").is_ok());
        drop(held);
        assert!(slots.take("ada").is_ok(), "it is released");
    }
}
