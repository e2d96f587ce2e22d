//! The client of the HTTP API as [`Remote`](super::Remote) uses it: its errors become those of the library.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use windlass_api::client::call::EntityTags;
pub(super) use windlass_api::client::call::{Call, encoded};
use windlass_api::client::clock::ServerClock;
use windlass_api::client::error::ClientError;
use windlass_api::client::sse::SseStream;
use windlass_api::client::{ClientOptions, HttpClient, Reply};

use super::address::Address;
use super::error::RemoteError;
use crate::clock::{Clock, Timestamp};
use crate::error::{OpenError, StoreError};
use crate::key::KeySecret;
use crate::store::command::precondition::IfMatch;

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        ServerClock::now(self)
    }
}

/// The versions of a job that a call applies to.
pub(super) fn entity_tags(if_match: &IfMatch) -> Option<EntityTags> {
    let versions = if_match.versions()?;
    Some(EntityTags::new(versions).expect("versions are hexadecimal digits"))
}

/// A server, and the connections to it.
pub(super) struct RemoteClient {
    http: HttpClient,
}

impl RemoteClient {
    /// A client that has not connected yet.
    pub(super) fn new(
        address: &Address,
        key: Option<&KeySecret>,
        clock: Arc<ServerClock>,
    ) -> Result<RemoteClient, OpenError> {
        let http = HttpClient::new(&address.url, key, clock, ClientOptions::default());
        let http = http.map_err(|error| address.refused(&error.to_string()))?;
        Ok(RemoteClient { http })
    }

    /// Refuses every call from now on, and ends those in progress.
    pub(super) fn close(&self) {
        self.http.close();
    }

    /// Calls, and parses the response as `T`.
    pub(super) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, RemoteError> {
        self.done(call).await?.json().map_err(|error| self.error(error))
    }

    /// Like [`ask`](RemoteClient::ask), but returns `None` if the object does not exist.
    pub(super) async fn find<T: DeserializeOwned>(&self, call: Call) -> Result<Option<T>, StoreError> {
        match self.ask(call).await {
            Ok(found) => Ok(Some(found)),
            Err(RemoteError::Refused(refusal)) if refusal.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Calls; anything but success is an error.
    pub(super) async fn done(&self, call: Call) -> Result<Reply, RemoteError> {
        // Boxed, because the futures of handlers contain this one.
        Box::pin(self.http.send(&call)).await.map_err(|error| self.error(error))
    }

    /// Opens a stream of events; it ends when the client is closed.
    pub(super) async fn stream(&self, call: Call) -> Result<SseStream, RemoteError> {
        self.http.stream(&call).await.map_err(|error| self.error(error))
    }

    /// Converts an error of a call or of its stream.
    pub(super) fn error(&self, error: ClientError) -> RemoteError {
        let unreachable = |message| RemoteError::Store(StoreError::Unreachable(message));
        match error {
            ClientError::Refused(refusal) => RemoteError::Refused(refusal),
            ClientError::Closed => RemoteError::Store(StoreError::Closed),
            ClientError::NoServer { .. } | ClientError::Lost { .. } | ClientError::Silent { .. } => {
                unreachable(format!("{}: {error}", self.http.url()))
            }
            ClientError::BadResponse { .. }
            | ClientError::Intermediary { .. }
            | ClientError::EventTooLong => unreachable(error.to_string()),
        }
    }
}
