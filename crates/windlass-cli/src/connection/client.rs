//! The client of the HTTP API as commands use it: no call is repeated, and every error is a [`Failure`].

use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass::clock::{Clock, SystemClock, Timestamp};
pub(crate) use windlass_api::client::call::Call;
use windlass_api::client::call::EntityTags;
use windlass_api::client::clock::ServerClock;
use windlass_api::client::error::ClientError;
use windlass_api::client::sse::EventStream;
use windlass_api::client::{ClientOptions, HttpClient};

use crate::connection::connect::Connection;
use crate::error::Failure;
use crate::limits;

/// The version of the job that a request requires: a number with or without quotation marks, or a whole entity tag.
pub(crate) fn required_version(version: Option<&str>) -> anyhow::Result<Option<EntityTags>> {
    let Some(version) = version else { return Ok(None) };
    let tags = EntityTags::new(&[version.trim().trim_matches('"')]);
    tags.map(Some).ok_or_else(|| Failure::usage("--if-match is not a job version"))
}

/// A server and the connections to it.
pub(crate) struct Client {
    http: HttpClient,
    place: String,
}

impl Client {
    /// Creates a client without connecting.
    pub(crate) fn new(connection: &Connection) -> Result<Client, Failure> {
        let options = ClientOptions {
            connect_max: limits::CLIENT_CONNECT_TIME_MAX,
            call_max: limits::CLIENT_CALL_TIME_MAX,
            away_max: None,
            idle_max: limits::CLIENT_IDLE_MAX,
            answer_bytes_max: limits::CLIENT_ANSWER_BYTES_MAX,
            silence_max: limits::CLIENT_SILENCE_MAX,
            event_bytes_max: limits::CLIENT_EVENT_BYTES_MAX,
            ..ClientOptions::default()
        };
        let own = SystemClock::new();
        let clock = Arc::new(ServerClock::new(move || own.now()));
        let http = HttpClient::new(&connection.url, connection.key.as_ref(), clock, options);
        let http = http
            .map_err(|problem| Failure::Usage(format!("cannot connect to {}: {problem}", connection.url)))?;
        Ok(Client { http, place: connection.place().to_owned() })
    }

    /// The server's current time, estimated from its latest response.
    pub(crate) fn now(&self) -> Timestamp {
        self.http.clock().now()
    }

    /// Host and port, for messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Calls `/readyz`, which is outside the API and requires no key. Fails unless the server is ready.
    pub(crate) async fn check_ready(&self) -> Result<(), Failure> {
        self.send(Call::get_outside(&["readyz"]).within(limits::HEALTH_TIME_MAX)).await.map(drop)
    }

    /// Sends a request and parses the response as `T`.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        let reply = self.http.send(&call).await.map_err(|error| self.failure(error))?;
        reply.json().map_err(|error| self.failure(error))
    }

    /// Sends a request and parses the response as any JSON.
    pub(crate) async fn value(&self, call: Call) -> Result<Value, Failure> {
        self.ask(call).await
    }

    /// Reads a whole list page by page: the response of `GET /kind` with all items under `kind`.
    pub(crate) async fn whole(&self, kind: &str) -> Result<Value, Failure> {
        let mut all: Vec<Value> = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let mut answer = self.value(Call::get(&[kind]).query_if("cursor", cursor.as_ref())).await?;
            if let Some(some) = answer[kind].as_array_mut() {
                all.append(some);
            }
            cursor = answer["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                answer[kind] = all.into();
                return Ok(answer);
            }
        }
    }

    /// Sends a request and returns the bytes of the response; any status but success is a failure.
    pub(crate) async fn send(&self, call: Call) -> Result<Bytes, Failure> {
        let reply = self.http.send(&call).await;
        reply.map(|reply| reply.body).map_err(|error| self.failure(error))
    }

    /// Opens a stream of events.
    pub(crate) async fn stream(&self, call: Call) -> Result<EventStream, Failure> {
        self.http.stream(&call).await.map_err(|error| self.failure(error))
    }

    /// The failure that an error of a call is.
    fn failure(&self, error: ClientError) -> Failure {
        let place = self.place.clone();
        let problem = match error {
            ClientError::Refused(refusal) => return Failure::Refused(refusal),
            ClientError::NoServer { cause } => return Failure::NoServer { place, cause },
            ClientError::Silent { within } => return Failure::Silent { place, within },
            ClientError::Lost { cause } => cause,
            ClientError::BadResponse { problem } => problem,
            ClientError::Intermediary { status } => {
                format!("status {} without an error message", status.as_u16())
            }
            ClientError::EventTooLong | ClientError::Closed => error.to_string(),
        };
        Failure::BadAnswer { place, problem }
    }
}
