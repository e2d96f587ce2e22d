//! Live events of a server: server-sent events, resumed after the last audited one whenever the connection is lost.

use std::sync::Arc;
use std::time::Duration;

use windlass_api::client::error::ClientError;
use windlass_api::client::sse::{self, SseEvent};
use windlass_api::record::RecordView;

use super::Remote;
use super::client::Call;
use super::error::RemoteError;
use crate::audit::Record;
use crate::clock::WaitLimit;
use crate::error::StoreError;
use crate::limits;

/// The delay before a stream is opened again.
const PAUSE: Duration = Duration::from_millis(250);

/// A stream of events; connects on first use.
pub(crate) struct RemoteEvents {
    server: Arc<Remote>,
    /// The last audited event that was returned.
    after: u64,
    /// Why the caller gets no events.
    refused: Option<StoreError>,
    stream: Option<sse::SseStream>,
}

impl RemoteEvents {
    pub(crate) fn new(server: Arc<Remote>, after: u64, refused: Option<StoreError>) -> RemoteEvents {
        RemoteEvents { server, after, refused, stream: None }
    }

    /// The number to resume from: all audited events up to it were returned.
    pub(crate) fn position(&self) -> u64 {
        self.after
    }

    /// The next event. May be called again after an error, and continues where it was.
    pub(crate) async fn next(&mut self) -> Result<Record, StoreError> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let wait_limit = WaitLimit::for_duration(limits::SERVER_AWAY_MAX);
        loop {
            if let Some(stream) = &mut self.stream {
                match stream.next().await {
                    Ok(Some(event)) if event.name == sse::END => {}
                    Ok(Some(event)) => return self.received(&event),
                    // A stream that ended or fell silent is opened again.
                    Ok(None) | Err(ClientError::Silent { .. }) => {
                        self.stream = None;
                        tokio::time::sleep(PAUSE).await;
                    }
                    Err(error) => {
                        self.stream = None;
                        return Err(self.server.client.error(error).into());
                    }
                }
                continue;
            }
            match self.open().await {
                Ok(stream) => self.stream = Some(stream),
                Err(RemoteError::Store(StoreError::Unreachable(_))) if !wait_limit.is_over() => {
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn open(&self) -> Result<sse::SseStream, RemoteError> {
        self.server.client.stream(Call::get("/events").query("last_event_id", self.after.to_string())).await
    }

    /// The record of an event.
    fn received(&mut self, event: &SseEvent) -> Result<Record, StoreError> {
        let shown: RecordView = serde_json::from_str(&event.data)
            .map_err(|error| StoreError::Unreachable(format!("cannot parse its event: {error}")))?;
        let record = Record::from(shown);
        if record.seq > 0 {
            self.after = record.seq;
        }
        Ok(record)
    }
}
