//! Live events of a server: server-sent events, resumed after the last audited one whenever the connection is lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::Remote;
use super::client::Call;
use super::error::RemoteError;
use crate::audit::Record;
use crate::clock::WaitLimit;
use crate::error::StoreError;
use crate::limits;
use windlass_api::record::RecordView;

/// The delay before a stream is opened again.
const PAUSE: Duration = Duration::from_millis(250);

/// A stream of events; connects on first use.
pub(crate) struct EventStream {
    server: Arc<Remote>,
    /// The last audited event that was returned; `None` to start with events from now on.
    after: Option<u64>,
    body: Option<Incoming>,
    /// Bytes of an incomplete event.
    rest: Vec<u8>,
    ready: VecDeque<Record>,
}

impl EventStream {
    pub(crate) fn new(server: Arc<Remote>, after: Option<u64>) -> EventStream {
        EventStream { server, after, body: None, rest: Vec::new(), ready: VecDeque::new() }
    }

    /// The number to resume from: all audited events up to it were returned.
    pub(crate) fn position(&self) -> u64 {
        self.after.unwrap_or_default()
    }

    /// The next event. May be called again after an error, and continues where it was.
    pub(crate) async fn next(&mut self) -> Result<Record, StoreError> {
        let patience = WaitLimit::for_duration(limits::SERVER_AWAY_MAX);
        loop {
            if let Some(record) = self.ready.pop_front() {
                if record.seq > 0 {
                    self.after = Some(record.seq);
                }
                return Ok(record);
            }
            if self.body.is_some() {
                self.read().await?;
                continue;
            }
            match self.open().await {
                Ok(body) => self.body = Some(body),
                Err(RemoteError::Store(StoreError::Unreachable(_))) if !patience.is_over() => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn open(&mut self) -> Result<Incoming, RemoteError> {
        self.rest.clear();
        let after = self.after.map(|after| after.to_string());
        let call = Call::get("/events").query_if("last_event_id", after);
        Ok(self.server.client.stream(call).await?.into_body())
    }

    /// Reads what has arrived; a stream that ended or fell silent is opened again.
    async fn read(&mut self) -> Result<(), StoreError> {
        let Some(body) = &mut self.body else { return Ok(()) };
        let frame = tokio::select! {
            biased;
            () = self.server.client.closed() => return Err(crate::store::closed_error()),
            frame = tokio::time::timeout(limits::SERVER_SILENCE_MAX, body.frame()) => frame,
        };
        if let Ok(Some(Ok(frame))) = frame {
            if let Ok(bytes) = frame.into_data() {
                self.rest.extend_from_slice(&bytes);
                self.split()?;
            }
            return Ok(());
        }
        self.body = None;
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    /// Removes complete events, which end with an empty line, from the front.
    fn split(&mut self) -> Result<(), StoreError> {
        while let Some(end) = self.rest.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            if let Some(record) = read(&event)? {
                self.ready.push_back(record);
            }
        }
        if self.rest.len() > limits::SERVER_EVENT_BYTES_MAX {
            self.body = None;
            return Err(StoreError::Unreachable("it sent an unterminated event".into()));
        }
        Ok(())
    }
}

/// The record of an event; keep-alive and closing events carry none.
fn read(event: &[u8]) -> Result<Option<Record>, StoreError> {
    let text = String::from_utf8_lossy(event);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::trim_start));
    let (Some(name), Some(data)) = (field("event:"), field("data:")) else { return Ok(None) };
    if name == "end" {
        return Ok(None);
    }
    let shown: RecordView = serde_json::from_str(data)
        .map_err(|error| StoreError::Unreachable(format!("cannot parse its event: {error}")))?;
    Ok(Some(shown.into()))
}
