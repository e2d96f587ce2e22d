//! The partial output of a job, as pages of JSON or as server-sent events that can be resumed.

use std::time::Duration;

use axum::extract::Extension;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::{Interval, MissedTickBehavior, interval};
use windlass::internal::ReadSource;
use windlass::internal::wire::filter::page_limit;
use windlass::job::JobId;
use windlass::limits::{KEY_CACHE_TTL, SERVER_WAIT_MAX, STREAM_PAGE_CHUNKS_MAX};
use windlass::store::caller::Caller;
use windlass::store::{StreamChunk, StreamPage as Page};
use windlass_api::stream::{self as shown, StreamEnd, StreamPage};
use windlass_api::text::Text;
use windlass_api::time::Span;

use crate::http::app::App;
use crate::http::reply::error::ApiError;
use crate::http::reply::event_stream::{EventBody, EventSender};
use crate::http::reply::response::JsonOk;
use crate::http::request::auth::{Call, Credentials};
use crate::http::request::connection_slots::ConnectionSlot;
use crate::http::request::path::JobPath;
use crate::http::request::query::Query;
use crate::http::routes::events::{place_for, resumed_from};
use crate::http::schema::{Reply, Shape};
use crate::limits;

/// Which chunks of a job's output.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct StreamQuery {
    /// Only chunks after this number; for server-sent events like the header `Last-Event-ID`.
    after: Option<u64>,
    /// Maximum number of chunks on a page, 1 to 1000; a page also ends after 1 MiB. Not for server-sent events.
    #[schemars(range(min = 1, max = 1000))]
    limit: Option<usize>,
    /// While there is no such chunk and the job is not final, wait for up to this time, at most 20s. Not for server-sent
    /// events.
    wait: Option<Span>,
}

/// `GET /jobs/{id}/stream`
pub(crate) async fn read(
    Call { app, caller }: Call,
    Extension(pass): Extension<Credentials>,
    JobPath(id): JobPath,
    headers: HeaderMap,
    Query(query): Query<StreamQuery>,
) -> Result<StreamReply, ApiError> {
    let after = query.after.unwrap_or(0);
    if wants_events(&headers) {
        let places = place_for(&app, &caller)?;
        let after = resumed_from(&headers)?.unwrap_or(after);
        // A job that does not exist, or may not be read, is an error and not a stream.
        page(&app, &caller, id, (after, 1, Duration::ZERO)).await?;
        let (events, body) = EventBody::new();
        ReadSource::spawn(Reader { app, caller, pass, id, after, events, _places: places }.run());
        return Ok(StreamReply::Events(body));
    }
    let limit = page_limit(query.limit.or(Some(STREAM_PAGE_CHUNKS_MAX)), STREAM_PAGE_CHUNKS_MAX)?;
    let wait = query.wait.map_or(Duration::ZERO, |wait| wait.0);
    if wait > SERVER_WAIT_MAX {
        return Err(ApiError::invalid("wait", "is longer than 20s"));
    }
    let found = tokio::select! {
        found = page(&app, &caller, id, (after, limit, wait)) => found?,
        () = app.draining(), if !wait.is_zero() => page(&app, &caller, id, (after, limit, Duration::ZERO)).await?,
    };
    Ok(StreamReply::Page(JsonOk(found.into())))
}

async fn page(
    app: &App,
    caller: &Caller,
    id: JobId,
    (after, limit, wait): (u64, usize, Duration),
) -> Result<Page, ApiError> {
    let found = app.store().stream(caller, id, after, limit, wait).await?;
    found.ok_or_else(|| ApiError::not_found(format!("no job {id}")))
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|list| list.split(','))
        .any(|kind| kind.split(';').next().is_some_and(|kind| kind.trim() == "text/event-stream"))
}

/// A page, or events.
pub(crate) enum StreamReply {
    Page(JsonOk<StreamPage>),
    Events(EventBody),
}

impl IntoResponse for StreamReply {
    fn into_response(self) -> Response {
        match self {
            StreamReply::Page(page) => page.into_response(),
            StreamReply::Events(body) => body.into_response(),
        }
    }
}

impl Reply for StreamReply {
    fn describe(shape: &mut Shape) {
        JsonOk::<StreamPage>::describe(shape);
        shape.add_event_stream::<shown::StreamChunk>();
    }
}

/// Follows the output of one job for one client.
struct Reader {
    app: App,
    caller: Caller,
    pass: Credentials,
    id: JobId,
    after: u64,
    events: EventSender,
    _places: (ConnectionSlot, Option<ConnectionSlot>),
}

impl Reader {
    async fn run(mut self) {
        match self.send_all().await {
            Ok(last) => {
                let end = StreamEnd { state: Some(Text(last.state)), reason: "final".to_owned() };
                self.events.end_with(serde_json::to_string(&end).expect("it is plain data"));
            }
            Err(reason) => self.events.end(reason),
        }
    }

    /// Sends chunks until all were sent and the job is final; returns the last page, or why it stopped before.
    async fn send_all(&mut self) -> Result<Page, &'static str> {
        let every = |time| {
            let mut ticks = interval(time);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            ticks
        };
        let (mut checks, mut alive) = (every(KEY_CACHE_TTL), every(limits::STREAM_ALIVE_EVERY));
        loop {
            let page = self.next(&mut checks, &mut alive).await?;
            let is_end = page.is_end(self.after);
            for chunk in &page.chunks {
                if chunk.is_restart {
                    let event = format!("event: restart\ndata: {{\"attempt\":{}}}\n\n", chunk.attempt);
                    self.events.send(event.into()).await?;
                }
                self.events.send(event(chunk)).await?;
                self.after = chunk.number;
            }
            if is_end {
                return Ok(page);
            }
        }
    }

    /// The next page with chunks, or of a final job.
    async fn next(&self, checks: &mut Interval, alive: &mut Interval) -> Result<Page, &'static str> {
        let store = self.app.store();
        loop {
            let limit = STREAM_PAGE_CHUNKS_MAX;
            let mut reading =
                std::pin::pin!(store.stream(&self.caller, self.id, self.after, limit, SERVER_WAIT_MAX));
            let found = loop {
                tokio::select! {
                    found = &mut reading => break found,
                    _ = alive.tick() => self.events.send(Bytes::from_static(b": alive\n\n")).await?,
                    _ = checks.tick() => {
                        self.pass.caller(&self.app).await.map_err(|_| "unauthorized")?;
                    }
                    () = self.app.draining() => return Err("draining"),
                    () = self.events.closed() => return Err("closed"),
                }
            };
            match found {
                Ok(Some(page)) if page.chunks.is_empty() && !page.state.is_final() => {}
                Ok(Some(page)) => return Ok(page),
                Ok(None) => return Err("deleted"),
                Err(_) => return Err("stopped"),
            }
        }
    }
}

fn event(chunk: &StreamChunk) -> Bytes {
    let data = serde_json::to_string(&shown::StreamChunk::from(chunk.clone())).expect("it is plain data");
    // JSON that came as text may have line breaks between its values; each line of an event needs its own name.
    let data = data.replace("\r\n", "\n").replace(['\n', '\r'], "\ndata: ");
    Bytes::from(format!("id: {}\nevent: chunk\ndata: {data}\n\n", chunk.number))
}
