//! The client of the HTTP API as commands use it: no call is repeated, and every error is a [`Failure`].

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use windlass::clock::{Clock, SystemClock, Timestamp};
pub(crate) use windlass_api::client::call::Call;
use windlass_api::client::call::EntityTags;
use windlass_api::client::clock::ServerClock;
use windlass_api::client::error::ClientError;
use windlass_api::client::sse::SseStream;
use windlass_api::client::{ClientOptions, HttpClient};

use crate::connection::connect::Connection;
use crate::error::Failure;
use crate::limits;
use crate::output;

/// The version of the job that a request requires: a number with or without quotation marks, or a whole entity tag.
pub(crate) fn required_version(version: Option<&str>) -> anyhow::Result<Option<EntityTags>> {
    let Some(version) = version else { return Ok(None) };
    let tags = EntityTags::new(&[version.trim().trim_matches('"')]);
    tags.map(Some).ok_or_else(|| Failure::usage("--if-match is not a job version"))
}

/// A server and the connections to it.
pub(crate) struct ServerClient {
    http: HttpClient,
    place: String,
    /// Whether responses are printed as JSON, with `--json`.
    is_json: bool,
}

/// A response as it was received, to be printed as JSON or read as a type.
pub(crate) struct JsonReply {
    body: Bytes,
    place: String,
}

impl JsonReply {
    /// The response as it is.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// The response as `T`.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let (place, problem) = (self.place.clone(), error.to_string());
            if error.is_data() {
                Failure::Unreadable { place, problem }
            } else {
                Failure::BadAnswer { place, problem }
            }
        })
    }

    /// Prints the response as JSON, also fields that this version does not know.
    pub(crate) fn print(&self) -> anyhow::Result<()> {
        output::json(&self.read::<Box<RawValue>>()?)
    }
}

/// Reads each of a list's items, which are `nouns`, by itself. Those of a newer server that this version cannot read are
/// left out, and a note says so.
pub(crate) fn read_each<T: DeserializeOwned>(
    nouns: &str,
    items: impl IntoIterator<Item = Box<RawValue>>,
) -> Vec<T> {
    let (found, problems) = read_known(items);
    if let Some(problem) = problems.first() {
        output::note(&format!(
            "{} of the {nouns} cannot be shown ({}): the server may be newer than this program; --json prints them",
            problems.len(),
            output::escaped(problem)
        ));
    }
    found
}

/// The items that this version can read, and the problems with the others.
pub(crate) fn read_known<T: DeserializeOwned>(
    items: impl IntoIterator<Item = Box<RawValue>>,
) -> (Vec<T>, Vec<String>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for item in items {
        match serde_json::from_str(item.get()) {
            Ok(item) => found.push(item),
            Err(error) => problems.push(error.to_string()),
        }
    }
    (found, problems)
}

/// The fields of a response, each as it was received.
pub(crate) type Fields = BTreeMap<String, Box<RawValue>>;

fn take_items(answer: &mut Fields, kind: &str) -> Vec<Box<RawValue>> {
    answer.remove(kind).and_then(|items| serde_json::from_str(items.get()).ok()).unwrap_or_default()
}

fn next_cursor(answer: &Fields) -> Option<String> {
    answer.get("next_cursor").and_then(|cursor| serde_json::from_str(cursor.get()).ok()).flatten()
}

/// One page of a list.
pub(crate) struct Page {
    pub(crate) items: Vec<Box<RawValue>>,
    pub(crate) next_cursor: Option<String>,
}

impl ServerClient {
    /// Creates a client without connecting.
    pub(crate) fn new(connection: &Connection, is_json: bool) -> Result<ServerClient, Failure> {
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
        Ok(ServerClient { http, place: connection.place().to_owned(), is_json })
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

    /// Sends a request; any status but success is a failure.
    pub(crate) async fn send(&self, call: Call) -> Result<JsonReply, Failure> {
        let reply = self.http.send(&call).await.map_err(|error| self.failure(error))?;
        Ok(JsonReply { body: reply.body, place: self.place.clone() })
    }

    /// Sends a request and reads the response as `T`.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call) -> Result<T, Failure> {
        self.send(call).await?.read()
    }

    /// Sends a request and reads the response as `T`, for people; with `--json` prints it instead and returns None.
    pub(crate) async fn show<T: DeserializeOwned>(&self, call: Call) -> anyhow::Result<Option<T>> {
        let answer = self.send(call).await?;
        if self.is_json {
            answer.print()?;
            return Ok(None);
        }
        Ok(Some(answer.read()?))
    }

    /// Reads one page of a list, whose items are under `kind`.
    pub(crate) async fn page(&self, call: Call, kind: &str) -> Result<Page, Failure> {
        let mut answer: Fields = self.ask(call).await?;
        Ok(Page { items: take_items(&mut answer, kind), next_cursor: next_cursor(&answer) })
    }

    /// Reads a whole list page by page: the response of `GET /kind`, and all items that were under `kind`.
    async fn read_all(&self, kind: &str) -> Result<(Fields, Vec<Box<RawValue>>), Failure> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let mut answer: Fields = self.ask(Call::get(&[kind]).query_if("cursor", cursor.as_ref())).await?;
            all.extend(take_items(&mut answer, kind));
            cursor = next_cursor(&answer);
            if cursor.is_none() {
                return Ok((answer, all));
            }
        }
    }

    /// All items of a list, `GET /kind`.
    pub(crate) async fn all<T: DeserializeOwned>(&self, kind: &str) -> Result<Vec<T>, Failure> {
        Ok(read_each(kind, self.read_all(kind).await?.1))
    }

    /// Like [`all`](ServerClient::all); with `--json` prints them as one response instead and returns None.
    pub(crate) async fn show_all<T: DeserializeOwned>(&self, kind: &str) -> anyhow::Result<Option<Vec<T>>> {
        let (mut answer, items) = self.read_all(kind).await?;
        if self.is_json {
            answer.insert(kind.to_owned(), to_raw_value(&items)?);
            output::json(&answer)?;
            return Ok(None);
        }
        Ok(Some(read_each(kind, items)))
    }

    /// The failure of an answer that was read in part.
    #[cfg(feature = "top")]
    pub(crate) fn unreadable(&self, error: &serde_json::Error) -> Failure {
        Failure::Unreadable { place: self.place.clone(), problem: error.to_string() }
    }

    /// Opens a stream of events.
    pub(crate) async fn stream(&self, call: Call) -> Result<SseStream, Failure> {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_api::job_details::Node;

    use super::*;

    fn answer(body: &'static str) -> JsonReply {
        JsonReply { body: Bytes::from_static(body.as_bytes()), place: "127.0.0.1:1".to_owned() }
    }

    #[test]
    fn a_response_that_this_version_does_not_know_says_that_the_server_may_be_newer() {
        let node = r#"{"id":"01990000-0000-4000-8000-00000000abcd","type":"t","state":"dreaming"}"#;
        let problem = answer(node).read::<Node>().err().unwrap();
        assert!(matches!(problem, Failure::Unreadable { .. }), "{problem}");
        assert!(problem.to_string().contains("may be newer"), "{problem}");
        assert!(answer(node).read::<Value>().is_ok());
        for body in ["", "<html>", "{"] {
            assert!(matches!(answer(body).read::<Node>(), Err(Failure::BadAnswer { .. })), "{body}");
        }
    }

    #[test]
    fn an_item_that_this_version_does_not_know_does_not_hide_the_others() {
        let node =
            |state: &str| json!({"id": "01990000-0000-4000-8000-00000000abcd", "type": "t", "state": state});
        let items = [node("running"), node("dreaming"), json!(7), json!({"new": true, "nodes": []})];
        let items = items.map(|item| to_raw_value(&item).unwrap());
        let (found, problems) = read_known::<Node>(items);
        assert_eq!((found.len(), problems.len()), (1, 3));
        let mut newer = node("failed");
        newer["field"] = json!({"of": "a later version"});
        assert_eq!(read_each::<Node>("nodes", [to_raw_value(&newer).unwrap()]).len(), 1);
    }
}
